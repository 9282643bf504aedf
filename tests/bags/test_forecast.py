"""Forecasts of a pilot: anchored to what was measured, with intervals; on real tokens too."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import sparsetoken as st
from sparsetoken.bags.anchors import Anchor, Doubt, Scale, anchor_words, disagreements
from sparsetoken.bags.findings import Interval
from sparsetoken.bags.forecast import Forecast, _crossing
from sparsetoken.bags.measured import Measured, rank_surplus
from sparsetoken.cli.pilots import warnings_once
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import table_text

ERROR, AUC = st.METRICS.make("error"), st.METRICS.make("auc")
DOUBT = Doubt(error=0.3, gain=0.4, dimension=0.0, drift=0.1)


def anchor(measured=0.1, error=0.02, theory=0.1, white=True, worst=0.5, samples=100):
    return Anchor("attention", samples, measured, error, theory, worst, white, 0.5, DOUBT)


def test_deviates_are_those_of_a_normal_law_and_a_guess_has_none():
    scale = Scale(0.5)
    assert scale.deviate(0.158655) == pytest.approx(1.0, abs=1e-5)
    assert scale.deviate(0.5) == 0.0 and Scale(0.3).deviate(0.3) == 0.0
    for badness in (1e-6, 0.02, 0.3, 0.49):
        assert scale.badness(scale.deviate(badness)) == pytest.approx(badness)
        step = 1e-4 * badness
        slope = (scale.deviate(badness - step) - scale.deviate(badness + step)) / (2 * step)
        assert scale.error(badness, 0.01) == pytest.approx(0.01 * slope, rel=1e-3)


def test_what_is_measured_well_moves_the_forecast_and_what_is_not_does_not():
    well = anchor(0.2, 1e-6, 0.1)
    assert well.forecast(100, 0.1, 0.0, 0.0)[0] == pytest.approx(0.2)
    badly = anchor(0.11, 10.0, 0.1)
    assert badly.forecast(100, 0.1, 0.0, 0.0)[0] == pytest.approx(0.1, abs=1e-4)
    middle = anchor(0.12, DOUBT.error / Scale(0.5).error(0.12, 1.0), 0.1)
    assert middle.error == pytest.approx(DOUBT.error) and middle.weight == pytest.approx(0.5)
    assert middle.move(100) == pytest.approx(0.5 * middle.offset)


def test_theory_that_is_far_off_gives_way_to_the_measurement():
    far = anchor(0.4, 0.02, 0.001)
    assert far.weight > 0.99
    assert far.forecast(100, 0.001, 0.0, 0.0)[0] == pytest.approx(0.4, abs=0.005)


def test_noise_that_is_not_white_is_still_to_be_learned():
    white, coloured = anchor(), anchor(white=False)
    assert white.move(1e9) == white.move(100) == coloured.move(100)
    gains = [coloured.move(samples) - white.move(samples) for samples in (50, 200, 400, 1e9)]
    assert gains == pytest.approx([-0.5 * 0.4, 0.5 * 0.4, 0.75 * 0.4, 0.4])
    by_dimension = coloured._replace(doubt=DOUBT._replace(gain=0.0, dimension=0.6))
    assert by_dimension.move(1e9) - white.move(1e9) == pytest.approx(0.5 * 0.6)


def test_forecasts_are_less_certain_for_more_bags():
    deviations = [anchor().deviation(samples) for samples in (100, 1000, 10_000)]
    assert deviations == sorted(deviations) and deviations[0] < deviations[-1]
    assert anchor().deviation(50) == deviations[0]  # no credit for fewer
    value, low, high = anchor().forecast(1000, 0.08, 0.0, 1.645)
    assert low < value < high
    _, lower, higher = anchor().forecast(1000, 0.08, 0.03, 1.645)
    assert lower < low and high < higher  # training sets differ, too
    assert anchor(0.45, 0.04, 0.45).forecast(1000, 0.44, 0.0, 1.645)[2] == 0.5  # a guess


def test_a_fit_is_claimed_only_where_a_misfit_would_have_been_seen():
    assert anchor(0.1, 0.01, 0.1).fits
    assert not anchor(0.1, 0.05, 0.1).fits and anchor(0.1, 0.05, 0.1).power < 0.8
    assert not anchor(0.1, 0.01, 0.05).fits and not anchor(0.1, 0.01, 0.2).fits


def test_sentences_have_values_of_the_metric_and_not_what_is_missing_to_its_best():
    words = anchor_words(anchor(0.1, 0.02, 0.12), AUC)
    assert "AUC 0.9 ± 0.02 measured, 0.88 by theory alone" in words
    (sentence,) = disagreements([anchor(0.1, 0.01, 0.3)], AUC)
    assert "theory alone is too bad" in sentence and "AUC 0.9 ± 0.01 measured, 0.7" in sentence


def test_measured_values_are_those_of_the_scores():
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(400) % 4 == 0, 1.0, -1.0)
    scores, strata = labels + rng.standard_normal((2, 400)), np.zeros((2, 400), dtype=int)
    for ways in (1, 2):
        point = Measured("attention", 300, scores[:ways], labels, strata[:ways])
        wrong = np.mean((point.scores > 0) != (labels > 0))
        assert point.value(ERROR) == pytest.approx(wrong)
        binomial = math.sqrt(wrong * (1 - wrong) / (400 * ways))
        assert point.standard_error(ERROR) == pytest.approx(binomial, rel=0.5)
        areas = [np.mean(way[labels > 0][:, None] > way[labels < 0]) for way in point.scores]
        assert point.value(AUC) == pytest.approx(np.mean(areas), abs=1e-3)  # merged


def test_evidence_is_that_of_ranks_within_strata():
    """Against all permutations of the labels; what strata differ in is none."""
    scores = np.array([0.3, -1.2, 2.0, 0.9, -0.4, 1.1, 0.0])
    surpluses = [
        rank_surplus(scores, np.isin(np.arange(7), chosen))
        for chosen in itertools.combinations(range(7), 3)
    ]
    values, variances = np.array([(parts.sum(), variance) for parts, variance in surpluses]).T
    assert values.mean() == pytest.approx(0.0)
    assert values.var() == pytest.approx(variances[0])
    rng, strata = np.random.default_rng(1), np.arange(200) % 2
    labels = np.where(rng.random(200) < 0.2 + 0.6 * strata, 1.0, -1.0)
    scores = strata + rng.random((1, 200))
    told_by_strata = Measured("attention", 160, scores, labels, strata[None])
    assert abs(told_by_strata.evidence) < 3
    whole = replace(told_by_strata, strata=0 * strata[None])
    assert whole.evidence > 6
    apart = (labels > 0).astype(int)[None]
    assert replace(whole, strata=apart).evidence == 0.0  # nothing to compare


def test_a_target_is_met_between_points_of_the_curve():
    counts, curve = np.log([10.0, 100.0, 1000.0]), np.array([0.2, 0.8, 2.0])
    assert _crossing(counts, curve, 1.4) == math.ceil(100 * math.sqrt(10))
    assert _crossing(counts, curve, 3.0) == math.inf
    assert _crossing(counts, curve, 0.1) == 10


@pytest.fixture(scope="module")
def pilot():
    """150 bags of ten handwritten digits, positive if one is a four."""
    tokens, labels = digit_bags(150, 0)
    return st.estimate_task(tokens, labels)


def digit_bags(count, seed, target=4):
    images, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    chosen = rng.choice(np.flatnonzero(digits != target), (count, 10))
    chosen[labels == 1, 0] = rng.choice(np.flatnonzero(digits == target), int(labels.sum()))
    return images[chosen], labels


def test_errors_on_digits_are_foreseen(pilot):
    """Fixed strengths along the best direction said .001 where .03 came true."""
    assert pilot.found and pilot.sparsity.low <= 1 <= pilot.sparsity.high
    forecast = pilot.plan(samples=600)
    tokens, labels = digit_bags(600, 1)
    new, truth = digit_bags(3000, 2)
    for name in ("attention", "pooled"):
        error = 1 - st.ESTIMATORS.make(name).fit(tokens, labels).score(new, truth)
        assert forecast[name].low <= error <= forecast[name].high, (name, error, forecast[name])
    assert forecast.best.classifier == "attention"
    assert "600 labelled bags give test error" in forecast.headline


def test_targets_take_bags_and_intervals_hold_the_value(pilot):
    reach = pilot.plan(target_error=0.2)
    assert reach["attention"].low <= reach["attention"].value <= reach["attention"].high
    assert reach.best.classifier == "attention"
    never = pilot.plan(target_error=1e-6)
    assert never.best is None and "not in sight" in never.headline
    early = min(option.low for option in never.options)
    assert ("at the earliest" in never.headline) == (early < math.inf)
    area = pilot.plan(samples=300, metric="auc")
    assert 0.5 < area["attention"].low <= area["attention"].value <= area["attention"].high <= 1


def test_targets_that_fewer_bags_meet_than_curves_begin_with_are_not_resolved(pilot):
    easy = pilot.plan(target_error=0.45)
    least = easy["attention"].least
    assert least == 30 and easy["attention"].value == least  # a quarter of 120
    assert "30 or fewer [" in easy.headline
    assert any("not resolved below 30" in warning for warning in easy.warnings)
    hard = pilot.plan(target_error=0.02)
    assert hard["attention"].value > least
    assert not str(hard["attention"]).startswith("30 or fewer")
    assert not any("not resolved" in warning for warning in hard.warnings)
    assert "or fewer" not in str(pilot.plan(samples=300))


def test_counts_are_written_in_full():
    needed = Forecast("attention", 1810.0, 905.0, math.inf, 120_000.0, (), 30.0)
    assert str(needed) == "1810 [905, inf]"
    assert str(Interval(1810.4, 1.5, 123456.0)) == "1810 [1.5, 123456]"
    table = pd.DataFrame({"labelled_bags": [1810, 14480], "theory": [120_000.0, 1_234_567.8]})
    assert "120000" in table_text(table) and "1234568" in table_text(table)
    assert "1810" in table_text(table) and "e+" not in table_text(table)


def test_warnings_of_several_sizes_are_said_once():
    def advice(*warnings):
        return SimpleNamespace(warnings=warnings)

    plans = {100: advice("few", "far"), 200: advice("far"), "the target": advice("far", "near")}
    assert warnings_once(plans) == [
        "100 bags: few", "100, 200 bags and the target: far", "the target: near",
    ]  # fmt: skip


def test_questions_that_bags_at_hand_cannot_answer_are_refused(pilot):
    with pytest.raises(InvalidInput, match="unknown must be 'samples'"):
        pilot.plan(samples=100, target_error=0.1, unknown="length")
    with pytest.raises(InvalidInput, match="sampels is no argument of a plan"):
        pilot.plan(sampels=100)
    with pytest.raises(InvalidInput, match="measure=False"):
        replace(pilot, measured=()).plan(samples=100)
    with pytest.raises(KeyError, match="classifier must be one of attention, pooled"):
        pilot.plan(samples=100)["vectorized"]

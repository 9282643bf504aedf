"""Forecasts of a pilot: anchored to what was measured, with intervals; on real tokens too."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sparsetoken as st
from sparsetoken.bags.forecast import MODEL_ERROR, Anchor, _crossing
from sparsetoken.bags.measured import Measured
from sparsetoken.support.errors import InvalidInput

ERROR, AUC = st.METRICS.make("error"), st.METRICS.make("auc")


def anchor(measured=0.1, error=0.02, theory=0.1, classifier="attention", samples=100):
    return Anchor(classifier, samples, measured, error, theory)


def test_what_is_measured_well_moves_the_forecast_and_what_is_not_does_not():
    assert anchor(0.2, 1e-6, 0.1).move == pytest.approx(math.log(2))
    assert 0 < anchor(0.11, 10.0, 0.1).move < 1e-3
    middle = anchor(0.12, 0.12 * MODEL_ERROR["attention"], 0.1)
    assert middle.move == pytest.approx(0.5 * math.log(1.2))


def test_theory_that_is_far_off_gives_way_to_the_measurement():
    far = anchor(0.4, 0.02, 0.001)
    assert far.weight > 0.99 and far.move == pytest.approx(math.log(400), rel=0.01)


def test_forecasts_are_less_certain_for_more_bags():
    deviations = [anchor().deviation(samples) for samples in (100, 1000, 10_000)]
    assert deviations == sorted(deviations) and deviations[0] < deviations[-1]
    assert anchor().deviation(50) == deviations[0]  # no credit for fewer


def test_a_fit_is_claimed_only_where_a_misfit_would_have_been_seen():
    assert anchor(0.1, 0.01, 0.1).fits
    assert not anchor(0.1, 0.05, 0.1).fits and anchor(0.1, 0.05, 0.1).power < 0.8
    assert not anchor(0.1, 0.01, 0.05).fits


def test_measured_values_are_those_of_the_scores():
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(400) % 4 == 0, 1.0, -1.0)
    point = Measured("attention", 300, labels + rng.standard_normal(400), labels)
    wrong = np.mean((point.scores > 0) != (labels > 0))
    assert point.value(ERROR) == pytest.approx(wrong)
    binomial = math.sqrt(wrong * (1 - wrong) / 400)
    assert point.standard_error(ERROR) == pytest.approx(binomial, rel=0.5)
    up, down = point.scores[labels > 0], point.scores[labels < 0]
    assert point.value(AUC) == pytest.approx(np.mean(up[:, None] > down), abs=1e-3)  # merged


def test_a_target_is_met_between_points_of_the_curve():
    counts, curve = np.log([10.0, 100.0, 1000.0]), np.log([0.4, 0.2, 0.05])
    assert _crossing(counts, curve, math.log(0.1)) == math.ceil(100 * math.sqrt(10))
    assert _crossing(counts, curve, math.log(0.01)) == math.inf
    assert _crossing(counts, curve, math.log(0.5)) == 10


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
    area = pilot.plan(samples=300, metric="auc")
    assert 0.5 < area["attention"].low <= area["attention"].value <= area["attention"].high <= 1


def test_questions_that_bags_at_hand_cannot_answer_are_refused(pilot):
    with pytest.raises(InvalidInput, match="unknown must be 'samples'"):
        pilot.plan(samples=100, target_error=0.1, unknown="length")
    with pytest.raises(InvalidInput, match="sampels is no argument of a plan"):
        pilot.plan(sampels=100)
    with pytest.raises(InvalidInput, match="measure=False"):
        replace(pilot, measured=()).plan(samples=100)
    with pytest.raises(KeyError, match="classifier must be one of attention, pooled"):
        pilot.plan(samples=100)["vectorized"]

"""The planner's answers: true to `predict` and to simulation, inverse to one another, in words."""

from __future__ import annotations

import json
import math
import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import sparsetoken as st
import sparsetoken.planning.plan as planner
from sparsetoken.planning import outlook as around
from sparsetoken.planning.advice import Check
from sparsetoken.planning.report import check_words
from sparsetoken.planning.whitening import tuners
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

TASK = st.Task(10, 1, 5.0)


def tuned_value(asked, name, task, n):
    """Of one classifier with n samples, as a forward plan has it, without all the rest."""
    return tuners(asked.setting, task)[name].best(task, n).value


@pytest.fixture(scope="module")
def forward():
    return st.plan(TASK, dim=200, samples=1600, check=True)


@pytest.fixture(scope="module")
def inverse():
    return st.plan(TASK, dim=200, target_error=0.04)


def test_a_plan_says_what_predict_says(forward):
    """At the plan's own size: the recommended protocol, as it stands."""
    assert forward.best.classifier == "attention"
    for option in forward.options:
        tuned = option.tuned
        found = st.predict(TASK, tuned.classifier, option.protocol, dim=200)
        assert found.test_error == pytest.approx(option.value, rel=1e-9)
        assert found.spread == pytest.approx(option.spread, rel=1e-9)
        assert 0 < option.value.standard_error < 0.02 * option.value
        assert tuned.query_count + tuned.readout_count == 1600
        assert tuned.protocol.readout_samples * 200 == pytest.approx(tuned.readout_count)
        assert option.useless is None or option.useless < 0.01
    with pytest.raises(FrozenInstanceError):
        forward.samples = 3
    with pytest.raises(KeyError, match="must be one of attention, vectorized, pooled, got 'svm'"):
        forward["svm"]


@pytest.mark.slow
def test_the_check_agrees_and_beats_an_even_split(forward):
    """Simulated at the recommended settings: within 4 standard errors, better than by default."""
    check = forward.check
    assert len(check.values) == 16
    error = math.hypot(check.standard_error, check.predicted.standard_error)
    assert abs(check.mean - check.predicted) < 4 * error
    assert check.standard_error < 0.1 * check.mean
    assert np.std(check.values) == pytest.approx(forward.best.spread, rel=0.5)
    plain = st.Protocol(query_samples=4.0, readout_samples=4.0)
    run = st.simulate(TASK, st.Attention(), plain, dim=200, repeats=16)
    assert check.mean + 3 * math.hypot(check.standard_error, run.sem("test_error")) < run.mean(
        "test_error"
    )
    assert f"simulated {check.mean:.4f}" in str(forward)


def test_a_check_is_made_where_it_is_cheap():
    """Unasked for, as many runs as a second or so allows; asked for, sixteen; or none."""
    task = st.Task(4, 1, 5.0)
    assert len(st.plan(task, 30, samples=200).check.values) == 16
    assert st.plan(task, 30, samples=200, check=False).check is None
    tuned = st.plan(task, 30, samples=200, check=False).best.tuned
    assert planner._affordable(tuned, task) == 16
    many = replace(tuned, readout_count=10**7)
    assert planner._affordable(many, task) == 0
    with pytest.raises(InvalidInput, match="check must be True, False or None, got 3"):
        st.plan(task, 30, samples=200, check=3)


def test_a_check_counts_runs_of_one_class():
    """With one positive in a hundred samples a third of the runs see none: they say "negative"."""
    task = st.Task(51, 5, 3.97, prevalence=0.01)
    advice = st.plan(task, dim=30, samples=100, metric="auc", check=True)
    assert len(advice.check.values) == 16 and np.isfinite(advice.check.values).all()
    assert min(advice.check.values) == 0.5  # a coin
    error = math.hypot(advice.check.standard_error, advice.check.predicted.standard_error)
    assert abs(advice.check.mean - advice.best.value) < 4 * error + 2 / 30


def test_a_check_that_contradicts_says_so():
    promised = Estimate(0.048, 0.0002)
    words = check_words(Check(promised, (0.0496, 0.0498, 0.0499, 0.0499)), "test error", 100)
    assert words.endswith("The two differ: go by the simulated value.")
    close = Check(promised, (0.047, 0.049, 0.046, 0.050))
    assert "differ" not in check_words(close, "test error", 100)


def test_a_check_in_which_all_runs_agree_is_a_sentence_too():
    check = Check(Estimate(0.02, 0.0), (0.5,) * 16)
    assert "simulated 0.5000 ± 0.0000 (+0.48)" in check_words(check, "test error", 200)
    close = Check(Estimate(0.02, 0.001), (0.021, 0.019) * 8)
    assert "standard errors)" in check_words(close, "test error", 200)


@pytest.mark.parametrize("prevalence", [0.5 - 1e-10, 0.499, 0.5, 0.501])
def test_near_equal_classes_nothing_is_ruinous(prevalence):
    """What a sample of 349 cannot know, that its classes are a thousandth apart, is not used."""
    advice = st.plan(replace(TASK, prevalence=prevalence), dim=200, samples=1600, check=True)
    assert advice["attention"].protocol.bias_step < 10
    assert max(advice.check.values) < 0.03
    assert abs(advice.check.mean - advice.best.value) < 4 * advice.check.standard_error + 0.001


def test_a_ridge_that_the_limit_forgives_is_not_chosen():
    """With 401 of 800 positives the bias of a readout held down by a ridge of 1000 decides all."""
    task = st.Task(10, 8, 1.0)
    advice = st.plan(task, dim=200, samples=800, check=True)
    assert advice["pooled"].protocol.ridge < 1
    assert abs(advice.check.mean - advice.best.value) < 4 * advice.check.standard_error + 0.01
    ruinous = replace(advice["pooled"].protocol, ridge=1000.0)
    limit = st.predict(task, st.Pooled(), ruinous).test_error
    here = st.predict(task, st.Pooled(), ruinous, dim=200).test_error
    assert limit < 0.121 and here > 0.45


def test_a_plan_in_words_tables_and_json(forward):
    headline = forward.headline
    assert "Use attention: 1600 labelled samples (" in headline
    for word in ("cosine", "infinitely many samples would give"):
        assert word in headline
    outlook = st.outlook(forward)
    assert outlook.capacities["pooled"] == pytest.approx(200 * st.capacity(TASK, st.Pooled()))
    room = outlook.capacities["attention"]
    assert f"the capacity of {room:.4g} up to which" in str(outlook)
    summary = f"{forward}\n{outlook}"
    for words in (headline, "strength 5 → 4", "sparsity 1 → 2", "prevalence 0.5 → 0.6", "bayes"):
        assert words in summary
    assert "Attention wins from about" in summary
    frame = forward.to_frame()
    assert list(frame.classifier) == ["attention", "vectorized", "pooled"]
    content = json.loads(outlook.to_json())
    assert content["recommended"] == "attention" and len(content["options"]) == 3
    assert content["task"]["strength"] == 5.0 and len(content["check"]) == 16


@pytest.mark.slow
def test_sensitivities_are_those_of_the_changed_task(forward, inverse):
    table = st.sensitivities(forward).set_index("change")
    assert len(table) == 5  # sparsity 1 cannot be smaller
    task = replace(TASK, strength=4.0)
    again = st.plan(task, dim=200, samples=1600)
    for name in ("attention", "pooled", "vectorized"):
        assert table.loc["strength 5 → 4", name] == pytest.approx(again[name].value, rel=0.03)
    assert table.attention["strength 5 → 4"] > forward["attention"].value
    needed = st.sensitivities(inverse).set_index("change").attention
    again = st.plan(replace(TASK, sparsity=2), dim=200, target_error=0.04)
    assert needed["sparsity 1 → 2"] == pytest.approx(again["attention"].needed, rel=0.05)
    assert math.isnan(needed["strength 5 → 4"])  # the Bayes error is above the target
    assert st.bayes_error(task) > 0.04


def test_an_inverse_plan_meets_its_target(inverse):
    """With the samples it asks for, and not with a tenth fewer."""
    option = inverse["attention"]
    assert inverse.best is option
    assert option.value <= 0.04  # by no more than its standard error, or one sample fewer misses it
    tuner = tuners(inverse.setting, TASK)["attention"]
    fewer = tuner.predict(TASK, int(option.needed) - 1, option.tuned.knobs).value
    assert option.value >= 0.04 - option.value.standard_error or fewer > 0.04
    assert inverse["pooled"].needed is None and inverse["pooled"].limit > 0.04
    assert "cannot (at best 0.2146)" in inverse.headline
    few = replace(
        option.protocol,
        query_samples=0.9 * option.protocol.query_samples,
        readout_samples=0.9 * option.protocol.readout_samples,
    )
    fewer = st.predict(TASK, st.Attention(), few, dim=200).test_error
    assert fewer > 0.04 + 2 * fewer.standard_error


def reaches(asked, option, task, count):
    """Whether a forward plan for the classifier reaches the target with so many samples, and by how
    many standard errors it is beyond it."""
    tuned = tuned_value(asked, option.classifier, task, count)
    gap = asked.metric.badness(tuned) - asked.metric.badness(asked.target)
    return gap / tuned.standard_error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "target", "loss"),
    [
        (st.Task(12, 1, 4.0, 0.2), {"target_auc": 0.9}, st.Logistic()),
        (st.Task(30, 3, 3.5), {"target_error": 0.05}, st.SquaredHinge()),
        (
            st.Task(20, 2, 4.0, 0.05),
            {"target_sensitivity": 0.8, "specificity": 0.95},
            st.Logistic(),
        ),
        (st.Task(8, 2, 4.0, 0.1), {"target_cost": 0.2, "cost_false_negative": 10.0}, st.Square()),
    ],
    ids=["auc", "error", "sensitivity", "cost"],
)
def test_inverse_and_forward_agree_for_every_goal(task, target, loss):
    """Forward plans, searched anew: at the target with n samples, short of it with 0.9 n."""
    dim = 100
    asked = st.plan(task, dim, loss=loss, **target)
    wanted = asked.metric.badness(asked.target)
    for option in asked.options:
        if option.needed is None:
            assert asked.metric.badness(option.limit) > wanted
            continue
        n = int(option.needed)
        assert reaches(asked, option, task, n) < 4
        assert reaches(asked, option, task, min(n - 1, math.floor(0.9 * n))) > -1


@pytest.mark.slow
def test_strength_and_length_can_be_unknown():
    given = {"dim": 100, "samples": 800}
    weakest = st.plan(TASK, target_error=0.1, unknown="strength", **given)
    for option in weakest.options:
        assert reaches(weakest, option, replace(TASK, strength=option.needed), 800) < 4
        weaker = replace(TASK, strength=0.95 * option.needed)
        assert reaches(weakest, option, weaker, 800) > 0
    assert weakest.best.classifier == "attention" and "a strength of" in weakest.headline
    assert st.sensitivities(weakest).recommended[0].startswith("(")
    longest = st.plan(TASK, target_error=0.15, unknown="length", **given)
    for option in longest.options:
        length = int(option.needed)
        assert reaches(longest, option, replace(TASK, length=length), 800) < 4
        longer = replace(TASK, length=math.ceil(1.15 * length) + 1)
        assert reaches(longest, option, longer, 800) > 0
    assert longest.best.classifier == "attention" and "tokens" in longest.headline


@pytest.mark.slow
def test_floors_warnings_and_sensitivities_are_those_of_the_answer():
    """Solved for the strength, it is the strength found that counts, not the one given."""
    asked = st.plan(
        replace(TASK, strength=9.0, prevalence=0.42), 60, samples=600, target_error=0.35,
        unknown="strength",
    )  # fmt: skip
    assert asked.answer.strength == asked.best.needed < 8.0
    assert st.floors(asked).errors["bayes"] == pytest.approx(st.bayes_error(asked.answer))
    rows = st.sensitivities(asked).set_index("change")
    assert (rows.loc["prevalence 0.42 → 0.336", ["attention", "pooled"]] < 0.01).all()  # free
    length = st.plan(replace(TASK, prevalence=0.42), 60, samples=600, target_error=0.35,
                     unknown="length")  # fmt: skip
    rows = st.sensitivities(length).set_index("change")
    assert (rows.loc["prevalence 0.42 → 0.336", ["attention", "pooled"]] == 20_000).all()


@pytest.mark.slow
def test_more_samples_are_never_worse():
    counts = [30, 100, 300, 1000, 3000, 10_000]
    plans = [st.plan(st.Task(8, 1, 4.0, 0.3), dim=100, samples=n) for n in counts]
    for name in ("attention", "vectorized", "pooled"):
        values = [each[name].value for each in plans]
        noise = max(value.standard_error for value in values)
        assert np.all(np.diff(values) < 4 * noise), (name, values)
        assert all(value > plans[0][name].limit - 4 * noise for value in values)


def test_unreachable_targets_are_recognised():
    asked = st.plan(TASK, dim=100, target_error=0.01)
    assert asked.best is None and asked.check is None
    assert all(option.needed is None for option in asked.options)
    assert "unreachable at any number of samples" in asked.headline
    assert f"{st.bayes_error(TASK):.4g}" in asked.headline
    floors = st.floors(asked).errors
    assert floors["bayes"] == asked.bayes > 0.01
    assert floors["attention"] == pytest.approx(st.oracle_error(TASK, st.Attention()))
    assert str(asked).startswith(asked.headline)


@pytest.mark.parametrize(
    ("task", "best"),
    [
        (st.Task(10, 10, 1.0), "pooled"),  # dense: the mean is the best there is
        (st.Task(10, 1, 5.0), "attention"),
        (st.Task(6, 1, 4.0, places=(1, 0, 0, 0, 0, 0)), "vectorized"),  # it is always the first
        pytest.param(st.Task(10, 1, 0.05), "pooled", marks=pytest.mark.slow),  # next to no signal
        pytest.param(st.Task(100, 1, 6.0, 0.3), "attention", marks=pytest.mark.slow),
    ],
    ids=["dense", "sparse", "fixed place", "weak", "long"],
)
def test_known_limits(task, best):
    advice = st.plan(task, dim=100, samples=2000)
    assert advice.best.classifier == best
    name = "mean pooling" if best == "pooled" else best
    assert advice.headline.startswith(f"Use {name}: 2000 labelled samples")
    if task.strength < 0.1:
        assert "teach next to nothing" in advice.headline


def crossing(task):
    return st.crossover(st.plan(task, dim=100, samples=100, check=False))


@pytest.mark.slow
def test_the_crossover_moves_as_it_should():
    """A stronger signal is found sooner, one spread over more tokens later; a dense one never."""
    weak, strong = (crossing(st.Task(10, 1, strength)) for strength in (3.0, 6.0))
    assert 4 <= strong < weak / 2
    # alike for pooling: the same sum of signals
    one, four = (crossing(st.Task(10, sparsity, 5.0 / sparsity)) for sparsity in (1, 4))
    assert four > 5 * one
    assert crossing(st.Task(10, 10, 1.0)) == math.inf


@pytest.mark.slow
def test_at_the_crossover_the_two_are_alike():
    task = st.Task(12, 2, 3.0)
    n = round(st.crossover(st.plan(task, dim=200, samples=100)))
    for factor, winner in ((0.7, "pooled"), (1.4, "attention")):
        assert st.plan(task, dim=200, samples=round(factor * n)).best.classifier == winner


@pytest.mark.parametrize(
    ("task", "loss"),
    [
        (st.Task(17, 2, 4.0, 0.1), st.Logistic()),
        (st.Task(48, 15, 4.4, 0.8), st.SquaredHinge()),
    ],
)
def test_a_query_that_would_turn_away_is_warned_of(task, loss):
    advice = st.plan(task, dim=100, samples=800, loss=loss)
    protocol = advice["attention"].tuned.protocol
    plain = replace(protocol, readout_step=1.0, bias_step=1.0, query_step=10.0)
    assert st.align(task, plain).cosine < 0 < advice["attention"].tuned.prediction.cosine
    (warning,) = (text for text in advice.warnings if "away from the signal" in text)
    assert f"bias_step={protocol.bias_step:.3g}" in warning
    assert f"\n\nWarning: {warning}.\n\n" in str(advice)


@pytest.mark.slow
def test_other_warnings():
    rare = st.plan(st.Task(8, 1, 5.0, 0.02), dim=12, samples=150).warnings
    assert any("naming the other one always has error 0.02" in text for text in rare)
    assert any("dim=12 is small" in text for text in rare)
    assert any("will be positive (below 5)" in text for text in rare)
    assert st.plan(TASK, dim=100, samples=800).warnings == ()


def test_training_sets_that_differ_are_warned_of():
    """Few samples: the spread between training sets is a good part of the error, and said so."""
    advice = st.plan(st.Task(30, 1, 5.5), dim=100, samples=90)
    best = advice.best
    assert best.classifier == "attention" and best.spread > 0.25 * best.value
    (words,) = (text for text in advice.warnings if "differ much" in text)
    assert f"{best.spread:.2g} between them" in words
    lost = [text for text in advice.warnings if "does not help" in text]
    assert bool(lost) == (best.useless > 0.01)
    for text in advice.warnings:  # nothing is said of a probability that it cannot be
        numbers = [float(x) for x in re.findall(r"\d+\.\d+", text)]
        assert all(0 <= x <= 1 for x in numbers), text


def test_a_plan_prints_as_words(forward):
    assert str(forward).startswith(forward.headline) and "± between training sets" in str(forward)
    assert "array(" not in repr(forward) and len(repr(forward)) < 300


@pytest.mark.slow
def test_a_floor_that_cannot_be_computed_is_left_out_with_its_reason(monkeypatch):
    """A Bayes test too long to compute: no such floor in table, figure and JSON, and why."""
    many = st.Task(40, st.Discrete(range(1, 40)), st.Discrete(np.linspace(1, 6, 40)))
    with pytest.raises(InvalidInput) as refused:
        st.bayes_error(many)

    def refuse(task):
        raise refused.value

    monkeypatch.setattr(around, "_POINTS", 3)
    monkeypatch.setattr("sparsetoken.planning.metrics.bayes_error", refuse)
    advice = st.plan(st.Task(3, 1, 4.0), dim=30, samples=100)
    outlook = st.outlook(advice)
    assert "bayes" not in outlook.floors.errors and "at most" in outlook.floors.left_out["bayes"]
    figure = outlook.figure(st.tuned_curve(outlook))
    assert "Bayes" not in figure.axes[0].get_legend_handles_labels()[1]
    assert "The floor of bayes is left out: bayes_error: task must have at most" in str(outlook)
    assert json.loads(outlook.to_json())["floors_left_out"]["bayes"]


@pytest.mark.slow
def test_the_figure_has_all_landmarks(inverse, monkeypatch):
    monkeypatch.setattr(around, "_POINTS", 7)
    outlook = st.outlook(inverse)
    curve = st.tuned_curve(outlook)
    figure = outlook.figure(curve)
    (axes,) = figure.axes
    labels = axes.get_legend_handles_labels()[1]
    assert labels == ["attention", "pooled", "vectorized", "target", "Bayes"]
    words = [text.get_text().split()[0] for text in axes.texts]
    assert set(words) == {"crossover", "answer", "capacity"}
    assert axes.get_legend() is None and len(figure.legends) == 1  # below: the words stand inside
    mine = curve[curve.classifier == "attention"]
    assert np.all(np.diff(mine.value) < 2e-3)
    n = int(mine.samples.iloc[5])
    again = st.plan(TASK, dim=200, samples=n)["attention"].value
    assert mine.value.iloc[5] == pytest.approx(again, abs=4 * again.standard_error)


@pytest.mark.parametrize("length", [1, 2, pytest.param(700, marks=pytest.mark.slow)])
def test_odd_lengths(length):
    advice = st.plan(st.Task(length, 1, 6.0), dim=50, samples=400)
    assert advice.best is not None and 0 < advice.best.value < 0.5
    if length == 1:
        assert advice.best.classifier == "pooled"


@pytest.mark.slow
def test_a_check_of_another_unknown():
    """The check is at the strength that was found."""
    advice = st.plan(
        st.Task(6, 1, 5.0), 60, samples=600, target_auc=0.9, unknown="strength", check=True
    )
    assert advice.check.predicted == advice.best.value
    assert abs(advice.check.mean - 0.9) < 4 * advice.check.standard_error + 2 / 60


def test_errors_say_nothing_about_a_query_for_another_goal():
    """With a rare class a readout may name the other one always and still rank samples well."""
    task = st.Task(25, 3, 3.0, 0.1)
    ranked = st.plan(task, dim=100, samples=324, metric="average precision", check=False)
    assert ranked.best.classifier == "attention" and ranked.best.tuned.prediction.useless > 0.5
    assert not any("does not help" in words for words in ranked.warnings)


def test_floors_of_any_learner(forward, inverse):
    """The least error with the plan's samples, or the fewest samples for its target."""
    learned = st.floors(forward).learned
    curve = st.bayes_curve(forward.task, [forward.samples / forward.dim])
    assert learned["any learner"] == pytest.approx(curve.test_error[0])
    assert learned["message passing"] == pytest.approx(curve.reachable.test_error[0])
    assert all(value <= learned["any learner"] + 1e-4 for value in learned.values())
    assert learned["any learner"] < forward.best.value
    needed = st.floors(inverse).learned
    per_dim = needed["any learner"] / inverse.dim
    assert per_dim == pytest.approx(st.samples_needed(inverse.task, inverse.target).best)
    assert len(needed) == 4 and max(needed.values()) < inverse.best.needed
    assert f"any learner {needed['any learner']:.0f}," in str(st.outlook(inverse))
    hopeless = st.plan(TASK, dim=30, target_error=0.01, check=False)
    assert hopeless.best is None and not st.floors(hopeless).learned


def test_floors_of_what_else_people_could_be_asked_for(forward, inverse):
    """Marks in a share of the bags and a number of bags without labels, as they were asked for."""
    per_dim, bags = forward.samples / forward.dim, 3 * forward.samples
    learned = st.floors(forward, annotated=0.3, unlabelled=bags).learned
    *_, marks, more = learned
    assert marks == "any learner if signal tokens of 30 % of positive bags are marked"
    assert more == f"any learner with {bags} bags without labels"
    for words, labels in ((marks, {"annotated": 0.3}), (more, {"unlabelled": bags / forward.dim})):
        curve = st.bayes_curve(forward.task, [per_dim], **labels)
        assert learned[words] == pytest.approx(curve.test_error[0])
    # by itself it is ten times what the plan says, in so many words: other learners need fewer
    tenfold = round(10 * inverse.best.needed)
    assert f"any learner with {tenfold} bags without labels" in st.floors(inverse).learned
    assert list(st.floors(forward, annotated=0, unlabelled=0).learned) == [
        "any learner", "message passing",
    ]  # fmt: skip
    for bad, words in (({"annotated": 1.1}, "annotated"), ({"unlabelled": -1}, "unlabelled")):
        with pytest.raises(st.InvalidInput, match=f"floors: {words} must be"):
            st.floors(forward, **bad)


def test_an_overwhelming_signal_has_floors_too():
    asked = st.plan(st.Task(10, 1, 100.0), dim=50, samples=100, check=False)
    floors = st.floors(asked)
    assert max(floors.errors.values()) < 1e-40 and not floors.left_out


@pytest.mark.slow
def test_targets_next_to_naming_one_class_always():
    """The nearer, the fewer samples; and forward plans confirm it."""
    task = st.Task(10, 1, 5.0, 0.05)
    needed = []
    for target in (0.045, 0.047, 0.049):
        asked = st.plan(task, dim=100, target_error=target, check=False)
        forward = st.plan(task, dim=100, samples=int(asked.best.needed), check=False).best.value
        assert forward < target + 4 * forward.standard_error
        needed.append(asked.best.needed)
    assert needed == sorted(needed, reverse=True)


@pytest.mark.slow
def test_a_rare_class_with_hardly_a_sample():
    """No number is better than the task allows, and the crossover is one."""
    task = st.Task(10, 1, 5.0, 0.01)
    asked = st.plan(task, dim=100, samples=1000, check=False)
    rows, crossover = st.sensitivities(asked), st.crossover(asked)
    prevalences = rows.change.str.extract(r"prevalence .* → (.*)")[0].astype(float).fillna(0.01)
    values = rows[["attention", "vectorized", "pooled"]].astype(float)
    assert (values > 0).all(axis=None) and values.le(1.001 * prevalences, axis=0).all(axis=None)
    there = st.plan(task, dim=100, samples=int(1.5 * crossover), check=False)
    assert crossover > 500 and there.best.classifier == "attention"

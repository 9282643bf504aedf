"""What a planner makes good, against closed forms; wrong questions get a sentence."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import sparsetoken as st
from sparsetoken.cli import main
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.planning.metrics import (
    METRICS,
    Auc,
    AveragePrecision,
    Baseline,
    Cost,
    Error,
    Metric,
    Sensitivity,
)
from sparsetoken.support.errors import InvalidInput

ONE = np.ones(1)


def gaussians(gap, prevalence=0.3):
    """Scores N(gap/2, 1) and N(−gap/2, 1)."""
    return Scores(Mixture(ONE * gap / 2, ONE, ONE), Mixture(-ONE * gap / 2, ONE, ONE), prevalence)


def test_values_of_two_gaussians():
    scores = gaussians(2.0)
    assert Error().value(scores) == pytest.approx(ndtr(-1))
    assert Auc().value(scores) == pytest.approx(ndtr(np.sqrt(2)))
    sensitivity = Sensitivity(0.9).value(scores)
    assert sensitivity == pytest.approx(ndtr(2 - ndtri(0.9)))
    assert AveragePrecision().value(scores) == scores.average_precision


@pytest.mark.parametrize(("alarm", "miss"), [(1.0, 1.0), (1.0, 20.0), (5.0, 0.5), (1.0, 1e4)])
def test_cost_is_that_of_the_best_threshold(alarm, miss):
    """For two equal Gaussians it is where the likelihood ratio is that of the costs."""
    prevalence, gap = 0.3, 2.0
    odds = (1 - prevalence) * alarm / (prevalence * miss)
    threshold = np.log(odds) / gap
    best = prevalence * miss * ndtr(threshold - 1) + (1 - prevalence) * alarm * ndtr(-threshold - 1)
    assert Cost(alarm, miss).value(gaussians(gap, prevalence)) == pytest.approx(best, rel=1e-4)


def test_badness_is_small_when_things_are_good():
    better, worse = gaussians(3.0), gaussians(1.5)
    task = st.Task(5, 1, 1.0, prevalence=0.3)
    for metric in (Error(), Auc(), AveragePrecision(), Sensitivity(0.9), Cost(1.0, 5.0)):
        baseline = metric.baseline(task).badness
        assert metric.badness_of(better) < metric.badness_of(worse) < baseline
        assert metric.badness_of(gaussians(1e-4)) <= baseline * 1.7  # error: own threshold
        assert metric.badness(metric.badness(0.3)) == pytest.approx(0.3)
        assert metric.words


@dataclass(frozen=True)
class BalancedError(Metric):
    """The mean of both classes' errors, at the classifier's own threshold."""

    own_threshold = True

    def value(self, scores):
        false, true = scores.negative.above(0.0), scores.positive.above(0.0)
        return float(0.5 * (false + 1 - true))

    def baseline(self, task):
        return Baseline(0.5, "a coin")


@dataclass(frozen=True)
class WeightedError(BalancedError):
    """Misses count so many times as much as false alarms."""

    times: float

    def value(self, scores):
        misses, alarms = scores.false_negative_rate, scores.false_positive_rate
        return (self.times * misses + alarms) / (self.times + 1)


def test_a_metric_with_a_field_is_given_itself():
    task = st.Task(4, 1, 5.0, 0.3)
    one, same = (
        st.plan(task, 30, samples=200, metric=metric, check=False)
        for metric in (WeightedError(1.0), BalancedError())
    )
    assert one.best.value == pytest.approx(same.best.value, rel=0.02)  # tuned to a flat optimum
    assert st.plan(task, 30, metric=WeightedError(3.0), target=0.2, check=False).best.needed > 10
    assert "WeightedError" in repr(one.metric)
    with pytest.raises(InvalidInput, match=r"plan: target_error must be None with metric=Weighted"):
        st.plan(task, 30, metric=WeightedError(3.0), target_error=0.1)


@dataclass(frozen=True)
class Youden(Metric):
    """Sensitivity + specificity − 1, of which a coin has 0."""

    nothing: float = 1.0  # the badness of a coin

    higher_is_better = True

    def value(self, scores):
        return 1 - scores.false_positive_rate - scores.false_negative_rate

    def baseline(self, task):
        return Baseline(self.nothing, "a coin")


def test_a_value_in_place_of_a_badness_is_refused(monkeypatch):
    """And targets of one's own metrics are the argument that there is for them."""
    monkeypatch.setattr(METRICS, "_kinds", dict(METRICS._kinds))
    METRICS.register("youden", Youden)
    task = st.Task(4, 1, 5.0)
    with pytest.raises(InvalidInput, match="Youden: the badness of its baseline must be above 0"):
        st.plan(task, 30, samples=200, metric=Youden(nothing=0.0))
    with pytest.raises(InvalidInput, match=r"plan: target must be above 0 \(a coin .*, got -0.1"):
        st.plan(task, 30, metric="youden", target=-0.1)


def test_a_new_metric_is_one_class_and_one_entry(monkeypatch, capsys):
    """Planned for, forward and inverse, and known to the command line; what is promised is what
    simulated runs have."""
    monkeypatch.setattr(METRICS, "_kinds", dict(METRICS._kinds))  # forgotten afterwards
    METRICS.register("balanced error", BalancedError)
    task = st.Task(4, 1, 5.0, 0.3)
    advice = st.plan(task, 30, samples=200, metric="balanced error", check=True)
    check = advice.check
    error = np.hypot(check.standard_error, check.predicted.standard_error)
    assert abs(check.mean - check.predicted) < 4 * error + 2 / 30
    assert advice.best.value > st.bayes_error(task)
    fewest = st.plan(task, 30, metric="balanced error", target=0.08, check=False)
    assert 0.07 < fewest.best.value <= 0.08 and fewest.best.needed < 200
    command = "plan --length 4 --sparsity 1 --strength 5 --prevalence 0.3 --dim 30 --samples 200"
    assert main([*command.split(), "--metric", "balanced error", "--no-check", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["goal"]["name"] == "balanced error"
    assert content["options"][0]["value"] == pytest.approx(advice["attention"].value, rel=1e-9)
    with pytest.raises(InvalidInput, match=r"plan: target must be below 0.5 \(a coin"):
        st.plan(task, 30, metric="balanced error", target=0.6)


TASK = st.Task(10, 1, 5.0)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({}, "give samples= (what is reached with them?) or a target"),
        ({"samples": 100, "dim": 2}, "dim must be a whole number between 3 and 1000000, got 2"),
        ({"samples": 3}, "samples must be a whole number between 4 and"),
        ({"samples": 10**9}, "samples must be a whole number between 4 and 1000000"),
        ({"samples": 100.5}, "samples must be a whole number"),
        ({"target_error": 0.0}, "target_error must be above 0 (no number of samples gets there)"),
        ({"target_error": -1}, "target_error must be above 0"),
        ({"target_error": 0.5}, "target_error must be below 0.5 (calling every sample negative"),
        ({"target_error": 0.9}, "ask for less, or for target_auc"),
        ({"target_error": float("nan")}, "target_error must be a finite number"),
        ({"target_error": "low"}, "target_error must be a finite number"),
        ({"target_auc": 0.4}, "target_auc must be above 0.5 (a coin reaches that"),
        ({"target_auc": 1.0}, "target_auc must be a number below 1"),
        ({"target_average_precision": 0.5}, "target_average_precision must be above 0.5"),
        ({"target_error": 0.1, "target_auc": 0.9}, "one target must be given"),
        ({"target_sensitivity": 0.9}, "sensitivity needs specificity="),
        ({"target_sensitivity": 0.05, "specificity": 0.9}, "must be above 0.1"),
        ({"samples": 100, "specificity": 0.9}, "specificity goes with target_sensitivity"),
        ({"samples": 100, "cost_false_negative": 2}, "cost_false_negative goes with target_cost"),
        ({"samples": 100, "metric": "cost"}, "cost needs cost_false_positive= or"),
        ({"samples": 100, "metric": "cost", "cost_false_positive": -1}, "must be a number above 0"),
        ({"target_cost": 9, "cost_false_negative": 10}, "target_cost must be below 0.5"),
        ({"samples": 100, "metric": "f1"}, "metric must be one of error, auc"),
        ({"target": 0.9, "target_auc": 0.9}, "one target must be given"),
        ({"target": 0.1, "target_error": 0.1}, "one target must be given, got target and target_e"),
        ({"target": 0.9, "metric": "f1"}, "metric must be one of error, auc"),
        ({"target_auc": 0.9, "metric": "error"}, "metric must be 'auc' with target_auc"),
        ({"target_error": 0.1, "unknown": "strength"}, "two unknowns, samples and strength"),
        ({"samples": 100, "target_error": 0.1}, "say unknown='strength'"),
        ({"samples": 100, "unknown": "strength"}, "needs a target such as target_error="),
        ({"samples": 100, "unknown": "dim"}, "unknown must be 'samples', 'strength' or 'length'"),
        ({"samples": 100, "dim": 1}, "dim must be a whole number between 3 and 1000000"),
        ({"samples": 100, "task": "easy"}, "task must be a Task"),
        ({"samples": 100, "loss": "logistic"}, "loss must be a loss such as"),
    ],
)
def test_wrong_questions(question, words):
    with pytest.raises(InvalidInput) as caught:
        st.plan(**{"task": TASK, "dim": 100} | question)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)

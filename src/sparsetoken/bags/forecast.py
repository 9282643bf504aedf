r"""What more labelled bags would give: the theory's curve, anchored to what was measured.

With T(N) the metric's badness (an error, or what is missing to one) that theory predicts for the
estimated task, and m the measured one of the pilot's own n bags,

    log forecast(N) = log T(N) + w·(log m − log T(n)),      w = σ²/(σ² + e²).

e is the standard error of log m; σ how far theory is off, as a rule, on real bags: what is measured
badly moves the forecast little. Where theory is off by more than that, for sure, σ² is what it is
off by, (log m − log T(n))² − (2e)². The forecast's variance on that scale is

    σ²e²/(σ² + e²)  +  drift²·log(N/n)  +  (spread of training sets)².

σ and drift are `MODEL_ERROR` and `DRIFT`: choices, made after trials on real bags, which
benchmarks/real/planning.py is to confirm on others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from sparsetoken.bags.measured import Measured
from sparsetoken.model.losses import Logistic
from sparsetoken.model.task import Task
from sparsetoken.planning.advice import range_warnings, recommended, scatter_warnings
from sparsetoken.planning.metrics import METRICS
from sparsetoken.planning.plan import Question
from sparsetoken.planning.ridges import Setting
from sparsetoken.planning.tuning import Tuned, tuners
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.checks import refusal
from sparsetoken.support.text import table_text

MODEL_ERROR = {"attention": 0.5, "pooled": 0.1}  # σ
DRIFT = {"attention": 0.3, "pooled": 0.08}
_DOUBLED = math.log(2)  # an error of theory that a check must be able to see
LEAST_POWER = 0.8  # at least, or the check says nothing
_SIGNIFICANT = 1.645  # standard errors, one-sided 5 %
LEAST_DIM = 3  # of a plan
_TOLERATED = 0.2  # an offset that is not worth a sentence
_POINTS = 6  # of the curve that is searched for a target: neighbours differ by a factor of four
_NEAREST, _FURTHEST = 4, 300  # ends of that curve, in units of the pilot's bags
_LEAST_BADNESS = 1e-12  # for logarithms


class Anchor(NamedTuple):
    """Theory and measurement at the size of the pilot, of one classifier and metric; badnesses."""

    classifier: str
    samples: int
    measured: float
    standard_error: float
    theory: float

    @property
    def offset(self) -> float:
        """log m − log T(n)."""
        return math.log(self.measured / self.theory)

    @property
    def error(self) -> float:
        """Standard error of log m."""
        return self.standard_error / self.measured

    @property
    def model_variance(self) -> float:
        """σ²."""
        return max(MODEL_ERROR[self.classifier] ** 2, self.offset**2 - (2 * self.error) ** 2)

    @property
    def weight(self) -> float:
        return self.model_variance / (self.model_variance + self.error**2)

    @property
    def move(self) -> float:
        """log forecast − log T."""
        return self.weight * self.offset

    def deviation(self, samples: float, spread: float = 0.0) -> float:
        """Standard deviation of the logarithm of a forecast."""
        drift = DRIFT[self.classifier] ** 2 * math.log(max(samples / self.samples, 1.0))
        return math.sqrt(self.weight * self.error**2 + drift + spread**2)

    @property
    def power(self) -> float:
        """Chance that theory wrong by a factor of two would have been seen."""
        return float(ndtr(_DOUBLED / self.error - _SIGNIFICANT))

    @property
    def fits(self) -> bool:
        """Whether theory agrees with what was measured, and a misfit would have been seen."""
        near = abs(self.offset) <= min(_SIGNIFICANT * self.error, _DOUBLED / 2)
        return near and self.power >= LEAST_POWER


class Forecast(NamedTuple):
    """Of one classifier: a value of the metric, or labelled bags that are needed; an interval."""

    classifier: str
    value: float
    low: float
    high: float
    theory: float  # alone
    warnings: tuple[str, ...]  # of the planner

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True, eq=False, repr=False)
class PilotPlan:
    """What so many labelled bags would give, or how many a target takes; see `Pilot.plan`.

    `options` are forecasts, one a classifier, with intervals that hold sampling and model error;
    `anchors` set theory beside what was measured.

    >>> from sparsetoken import estimate_task
    >>> sample = Task(length=4, sparsity=1, strength=4.0).sample(60, dim=4, rng=0)
    >>> advice = estimate_task(sample.tokens, sample.labels, blocks=3).plan(samples=200)
    >>> advice.best.low < advice.best.value < advice.best.high
    True
    """

    question: Question
    options: tuple[Forecast, ...]
    anchors: tuple[Anchor, ...]
    level: float
    warnings: tuple[str, ...]

    def __getitem__(self, classifier: str) -> Forecast:
        for option in self.options:
            if option.classifier == classifier:
                return option
        names = ", ".join(option.classifier for option in self.options)
        raise KeyError(f"PilotPlan: classifier must be one of {names}, got {classifier!r}")

    @property
    def best(self) -> Forecast | None:
        """The recommended one; None where none reaches the target."""
        metric = self.question.setting.metric
        burdens = {
            option.classifier: option.value
            if self.question.unknown is not None
            else metric.badness(option.value)
            for option in self.options
            if math.isfinite(option.value)
        }
        name = recommended(burdens)
        return None if name is None else self[name]

    @property
    def headline(self) -> str:
        """The recommendation in one sentence."""
        asked, best = self.question, self.best
        metric, target = asked.setting.metric.words, asked.target
        if best is None:
            return f"A {metric} of {target:g} is not in sight for bags like these."
        if target is None:
            answer = f"{asked.samples} labelled bags give {metric} {best}"
        else:
            answer = f"{best} labelled bags give {metric} {target:g}"
        others = [
            f"{option.classifier} {option}"
            if option.value < math.inf
            else f"{option.classifier} does not get there"
            for option in self.options
            if option is not best
        ]
        return f"Use {best.classifier}: {answer}; {'; '.join(others)} ({self.level:.0%} intervals)."

    def __str__(self) -> str:
        import pandas as pd

        metric = self.question.setting.metric.words
        table = pd.DataFrame([option._asdict() for option in self.options])
        table = table.drop(columns="warnings")
        paragraphs = [self.headline, table_text(table)]
        paragraphs += [anchor_words(anchor, metric) for anchor in self.anchors]
        paragraphs += [f"Warning: {warning}." for warning in self.warnings]
        return "\n\n".join(paragraphs)

    def __repr__(self) -> str:
        return f"<PilotPlan: {self.headline}>"


def anchor_words(anchor: Anchor, metric: str) -> str:
    """Theory beside measurement, in a sentence."""
    return (
        f"{anchor.classifier} on {anchor.samples} of the pilot's bags: {metric} "
        f"{anchor.measured:.3g} ± {anchor.standard_error:.2g} measured, {anchor.theory:.3g} by "
        f"theory alone; forecasts are {math.exp(anchor.move):.2g} times theory's."
    )


def disagreements(anchors: Sequence[Anchor], metric: str) -> Iterator[str]:
    """Where theory is not what was measured, by more than chance; and what that does."""
    for anchor in anchors:
        if abs(anchor.offset) > max(_SIGNIFICANT * anchor.error, _TOLERATED):
            side = "good" if anchor.offset > 0 else "bad"
            yield (
                f"theory alone is too {side} for {anchor.classifier}: {metric} "
                f"{anchor.theory:.3g} for {anchor.samples} bags, {anchor.measured:.3g} ± "
                f"{anchor.standard_error:.2g} measured; forecasts are moved to what was measured, "
                "and what they say of more bags is less certain"
            )


def anchors_of(measured: Sequence[Measured], task: Task, setting: Setting) -> tuple[Anchor, ...]:
    """One for each classifier, at the largest size that was measured."""
    metric = setting.metric
    largest = {point.classifier: point for point in sorted(measured, key=lambda p: p.samples)}
    anchors = []
    for name, point in largest.items():
        (tuned,) = tuned_at(setting, task, name, [point.samples])
        bags, worst = len(point.labels), metric.baseline(task).badness
        # with half a bag more that is guessed: none of them wrong is not never wrong
        badness = (metric.badness(point.value(metric)) * bags + 0.5 * worst) / (bags + 0.5)
        least = math.sqrt(badness * max(1 - badness, 0.0) / bags)
        error = max(point.standard_error(metric), least)
        theory = _badness(setting, tuned)
        anchors.append(Anchor(name, point.samples, badness, error, theory))
    return tuple(anchors)


def error_setting(dim: float) -> Setting:
    """What plans of the test error are made with."""
    return Setting(max(LEAST_DIM, round(dim)), Logistic(), METRICS.make("error"))


def tuned_at(setting: Setting, task: Task, classifier: str, counts: Sequence[int]) -> list[Tuned]:
    """A classifier at its best, by theory, for each number of samples."""
    tuner, tuned = tuners(setting, task)[classifier], {}
    with one_blas_thread():
        knobs = None
        for count in sorted(counts, reverse=True):  # each start is a good one for fewer
            knobs = tuner.search(task, count, knobs)
            tuned[count] = tuner.predict(task, count, knobs)
    return [tuned[count] for count in counts]


def _badness(setting: Setting, tuned: Tuned) -> float:
    return max(setting.metric.badness(float(tuned.value)), _LEAST_BADNESS)


def forecasts(
    question: Question, task: Task, anchors: Sequence[Anchor], level: float
) -> tuple[Forecast, ...]:
    """One for each classifier that was measured."""
    reach = float(ndtri((1 + level) / 2))
    if question.unknown is None:
        return tuple(_value(question, task, anchor, reach) for anchor in anchors)
    if question.unknown.name != "samples":
        raise refusal(
            "Pilot.plan", "unknown", question.unknown.name,
            "'samples' for bags that are there (sparsetoken.plan(pilot.task, ...) has the others)",
        )  # fmt: skip
    return tuple(_needed(question, task, anchor, reach) for anchor in anchors)


def _value(question: Question, task: Task, anchor: Anchor, reach: float) -> Forecast:
    """Of the metric, with the samples that are given."""
    setting, metric, samples = question.setting, question.setting.metric, question.samples
    assert samples is not None
    (tuned,) = tuned_at(setting, task, anchor.classifier, [samples])
    badness = _badness(setting, tuned)
    half = reach * anchor.deviation(samples, float(tuned.spread) / badness)
    worst = metric.baseline(task).badness
    value, *ends = (
        metric.badness(min(badness * math.exp(anchor.move + step), worst))
        for step in (0.0, -half, half)
    )
    warnings = (
        *range_warnings(task, setting.dim, tuned.query_count, tuned.readout_count),
        *scatter_warnings(
            metric.words, tuned.value, tuned.spread, metric.useless(tuned.prediction)
        ),
    )
    return Forecast(anchor.classifier, value, min(ends), max(ends), float(tuned.value), warnings)


def _needed(question: Question, task: Task, anchor: Anchor, reach: float) -> Forecast:
    """Labelled bags: where the anchored curve, or an end of its interval, meets the target."""
    assert question.target is not None
    setting = question.setting
    target = math.log(setting.metric.badness(question.target))
    ends = max(anchor.samples / _NEAREST, 4), anchor.samples * _FURTHEST
    counts = np.unique(np.geomspace(*ends, _POINTS).round().astype(int)).tolist()
    tuned = tuned_at(setting, task, anchor.classifier, counts)
    theory = np.log([_badness(setting, each) for each in tuned])
    deviation = np.array([anchor.deviation(count) for count in counts])
    alone, value, low, high = (
        _crossing(np.log(counts), theory + move, target)
        for move in (
            np.zeros(len(counts)),
            anchor.move,
            anchor.move - reach * deviation,
            anchor.move + reach * deviation,
        )
    )
    return Forecast(anchor.classifier, value, low, high, alone, ())


def _crossing(log_counts: FloatArray, curve: FloatArray, target: float) -> float:
    """Where a curve first meets the target, between points of a grid; inf if it does not."""
    below = np.flatnonzero(curve <= target)
    if not len(below):
        return math.inf
    place = int(below[0])
    if place == 0:
        return float(round(math.exp(log_counts[0])))
    (left, right), (high, low) = log_counts[place - 1 : place + 1], curve[place - 1 : place + 1]
    return float(math.ceil(math.exp(left + (right - left) * (high - target) / (high - low))))

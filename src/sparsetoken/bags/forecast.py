"""`PilotPlan`: what more labelled bags would give, by anchored theory, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparsetoken.bags.anchors import DOUBTS, Anchor, anchor_words
from sparsetoken.bags.diagnosis import Diagnosis
from sparsetoken.bags.intervals import reach_of
from sparsetoken.bags.measured import Measured, largest
from sparsetoken.model.losses import Logistic
from sparsetoken.model.task import Task
from sparsetoken.planning.advice import range_warnings, recommended, scatter_warnings
from sparsetoken.planning.metrics import METRICS
from sparsetoken.planning.plan import Question
from sparsetoken.planning.reuse import reusing_tuners
from sparsetoken.planning.ridges import Setting
from sparsetoken.planning.tuning import Tuned
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.checks import refusal
from sparsetoken.support.showing import Shown
from sparsetoken.support.text import number_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

LEAST_DIM = 3  # of a plan
_POINTS = 6  # of the curve that is searched for a target: neighbours differ by a factor of four
_NEAREST, _FURTHEST = 4, 300  # ends of that curve, in units of the pilot's bags


class Forecast(NamedTuple):
    """Of one classifier: a value of the metric, or labelled bags that are needed; an interval."""

    classifier: str
    value: float
    low: float
    high: float
    theory: float  # alone
    warnings: tuple[str, ...]  # of the planner
    least: float = 0.0  # labelled bags, below which nothing is resolved; 0 for a value

    def __str__(self) -> str:
        value, low, high = (
            number_text(number, digits=3) + (" or fewer" if 0 < number <= self.least else "")
            for number in (self.value, self.low, self.high)
        )
        return f"{value} [{low}, {high}]"


@dataclass(frozen=True, eq=False, repr=False)
class PilotPlan(Shown):
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
            first = min(self.options, key=lambda option: option.low)
            fewer = " or fewer" if first.low <= first.least else ""
            earliest = (
                f" (with {first.low:.0f}{fewer} labelled bags at the earliest)"
                if first.low < math.inf
                else ""
            )
            return f"A {metric} of {target:g} is not in sight for bags like these{earliest}."
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

    def row(self) -> dict[str, Any]:
        """Flat, for tables: labelled bags, what each classifier does with them, the best one."""
        errors = {
            f"{option.classifier}_{part}": getattr(option, part)
            for option in self.options
            for part in ("value", "low", "high")
        }
        best = None if self.best is None else self.best.classifier
        return {"labelled_bags": self.question.samples, **errors, "recommended": best}

    def plot(self, ax: Axes | None = None) -> Axes:
        """What each classifier gives with so many bags, or needs, with its interval.

        Ticks are theory alone. Needs matplotlib; `ax` is where to draw, a new figure if None.
        """
        from sparsetoken.figures import Option, options

        asked, best = self.question, self.best
        rows = [
            Option(
                option.classifier,
                option.value,
                option.low,
                option.high,
                option.theory,
                _not_before(option),
            )
            for option in self.options
        ]
        words = asked.setting.metric.words
        needed = f"labelled bags for {words} {asked.target or 0:g}"
        return options(
            rows,
            ax,
            x=needed if asked.unknown else f"{words} with {asked.samples} labelled bags",
            bars=f"{self.level:.0%} intervals",
            ticks="theory alone",
            log=asked.unknown is not None,
            best=None if best is None else best.classifier,
        )

    def paragraphs(self) -> Iterator[str | pd.DataFrame]:
        """Headline, table, theory beside measurement, warnings."""
        import pandas as pd

        table = pd.DataFrame([option._asdict() for option in self.options])
        yield self.headline
        yield table.drop(columns=["warnings", "least"])
        for anchor in self.anchors:
            yield anchor_words(anchor, self.question.setting.metric)
        for warning in self.warnings:
            yield f"Warning: {warning}."

    def __repr__(self) -> str:
        return f"<PilotPlan: {self.headline}>"


def _not_before(option: Forecast) -> str:
    """What is drawn where no number of bags is enough."""
    return (
        f"not in sight; from {option.low:.0f} bags on at best"
        if option.low < math.inf
        else ("not in sight")
    )


def anchors_of(
    measured: Sequence[Measured], task: Task, setting: Setting, noise: Diagnosis, dim: int
) -> tuple[Anchor, ...]:
    """One for each classifier, at the largest size that was measured."""
    metric, worst = setting.metric, setting.metric.baseline(task).badness
    anchors = []
    for point in largest(measured):
        bags = len(point.labels)
        # with half a bag more that is guessed: none of them wrong is not never wrong
        badness = (metric.badness(point.value(metric)) * bags + 0.5 * worst) / (bags + 0.5)
        least = math.sqrt(badness * max(1 - badness, 0.0) / (bags / point.design_effect))
        error = max(point.standard_error(metric), least)
        tokens = noise.tokens * point.samples / bags
        anchor = Anchor(
            point.classifier, point.samples, badness, error, badness, worst, noise.white,
            min(dim / tokens, 1.0), DOUBTS[point.classifier], point.design_effect,
        )  # fmt: skip
        (tuned,) = tuned_at(setting, task, point.classifier, [anchor.effective(point.samples)])
        anchors.append(anchor._replace(theory=metric.badness(float(tuned.value))))
    return tuple(anchors)


def error_setting(dim: float) -> Setting:
    """What plans of the test error are made with."""
    return Setting(max(LEAST_DIM, round(dim)), Logistic(), METRICS.make("error"))


def tuned_at(setting: Setting, task: Task, classifier: str, counts: Sequence[int]) -> list[Tuned]:
    """A classifier at its best, by theory, for each number of samples."""
    tuner, tuned = reusing_tuners(setting, task)[classifier], {}
    with one_blas_thread():
        knobs = None
        for count in sorted(counts, reverse=True):  # each start is a good one for fewer
            knobs = tuner.search(task, count, knobs)
            tuned[count] = tuner.predict(task, count, knobs)
    return [tuned[count] for count in counts]


def forecasts(
    question: Question, task: Task, anchors: Sequence[Anchor], level: float
) -> tuple[Forecast, ...]:
    """One for each classifier that was measured."""
    reach = reach_of(level)
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
    (tuned,) = tuned_at(setting, task, anchor.classifier, [anchor.effective(samples)])
    theory, spread = metric.badness(float(tuned.value)), float(tuned.spread)
    value, *ends = map(metric.badness, anchor.forecast(samples, theory, spread, reach))
    warnings = (
        *range_warnings(task, setting.dim, tuned.query_count, tuned.readout_count),
        *scatter_warnings(
            metric.words, tuned.value, tuned.spread, metric.useless(tuned.prediction)
        ),
    )
    return Forecast(anchor.classifier, value, min(ends), max(ends), float(tuned.value), warnings)


def _needed(question: Question, task: Task, anchor: Anchor, reach: float) -> Forecast:
    """Labelled bags: where the anchored curve, or an end of its interval, meets the target.

    A curve that begins above it says that the fewest bags it has, or fewer, are enough.
    """
    assert question.target is not None
    setting, scale = question.setting, anchor.scale
    target = scale.deviate(setting.metric.badness(question.target))
    ends = max(anchor.samples / _NEAREST, 4), anchor.samples * _FURTHEST
    counts = np.unique(np.geomspace(*ends, _POINTS).round().astype(int)).tolist()
    effective = [anchor.effective(count) for count in counts]
    tuned = tuned_at(setting, task, anchor.classifier, effective)
    theory = np.array([scale.deviate(setting.metric.badness(float(best.value))) for best in tuned])
    middle = theory + [anchor.move(count) for count in counts]
    half = reach * np.array([anchor.deviation(count) for count in counts])
    alone, value, low, high = (
        _crossing(np.log(counts), curve, target)
        for curve in (theory, middle, middle + half, middle - half)
    )
    warnings = (
        (
            f"numbers of labelled bags are not resolved below {counts[0]}, where curves begin (a "
            f"quarter of the {anchor.samples} bags that the pilot learned from); fewer may do",
        )
        if value <= counts[0]
        else ()
    )
    return Forecast(anchor.classifier, value, low, high, alone, warnings, counts[0])


def _crossing(log_counts: FloatArray, curve: FloatArray, target: float) -> float:
    """Where a curve first rises to the target, between points of a grid; inf if it does not."""
    above = np.flatnonzero(curve >= target)
    if not len(above):
        return math.inf
    place = int(above[0])
    if place == 0:
        return float(round(math.exp(log_counts[0])))
    (left, right), (low, high) = log_counts[place - 1 : place + 1], curve[place - 1 : place + 1]
    return float(math.ceil(math.exp(left + (right - left) * (target - low) / (high - low))))

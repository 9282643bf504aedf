r"""What more labelled bags would give: the theory's curve, anchored to what was measured.

Badness (an error, or what is missing to a metric's best) is taken as a normal deviate

    z = −Φ⁻¹(badness/(2·worst)),      worst being that of a guess, for which z is 0.

With T(N) the deviate that theory predicts for the estimated task and N bags that teach query and
readout alike (`planning/reuse.py`), and m the measured one of the pilot's own n bags,

    forecast(N) = T(N) + w·(m − T(n)) + gain·(1 − n/N),      w = σ²/(σ² + e²).

e is the standard error of m; σ how far theory is off, as a rule, on real bags: what is measured
badly moves the forecast little. Where theory is off by more than that, σ² is what it is off by
beyond chance, (m − T(n))² − (1.5e)². There is a gain for bags whose noise is not white after
whitening: more of them teach its covariance too, which theory knows from the start. For mean
pooling it is in proportion to the dimension over the tokens of noise among n bags; for attention,
which has a query to learn besides, it is not. (Fewer bags than n lose gain·(1 − N/n).) The
forecast's variance is

    w·e²  +  drift²·(1 + log(N/n))  +  (spread of training sets)².

σ, gain and drift are those of `DOUBTS`, learned from real bags by benchmarks/real/planning.py,
which also says how forecasts do on sources that taught nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from sparsetoken.bags.diagnosis import Diagnosis
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
from sparsetoken.support.text import table_text


class Doubt(NamedTuple):
    """How far theory is off on real bags, in deviates."""

    error: float  # σ, at the pilot's own size
    gain: float  # with very many more bags, where noise is not white
    dimension: float  # the same, for each token of noise that there is for a dimension, inversely
    drift: float  # standard deviation, at the pilot's own size and for each e-fold of bags


DOUBTS = {
    "attention": Doubt(error=0.5, gain=0.3, dimension=0.0, drift=0.09),
    "pooled": Doubt(error=0.1, gain=0.0, dimension=0.65, drift=0.07),
}
LEAST_POWER = 0.8  # at least, or the check says nothing
_SIGNIFICANT = 1.645  # standard errors, one-sided 5 %
_CHANCE = 1.5  # standard errors up to which theory may be right after all
LEAST_DIM = 3  # of a plan
_TOLERATED = 0.1  # an offset that is not worth a sentence
_POINTS = 6  # of the curve that is searched for a target: neighbours differ by a factor of four
_NEAREST, _FURTHEST = 4, 300  # ends of that curve, in units of the pilot's bags
_LEAST = 1e-12  # badness of a guess is 1/2 on this scale; nothing is nearer to 0 or to 1


class Scale(NamedTuple):
    """Badness as a normal deviate: 0 for a guess, the greater the better."""

    worst: float  # badness of a guess

    def deviate(self, badness: float) -> float:
        part = min(max(badness / (2 * self.worst), _LEAST), 1 - _LEAST)
        return -float(ndtri(part))

    def badness(self, deviate: float) -> float:
        return 2 * self.worst * float(ndtr(-deviate))

    def error(self, badness: float, standard_error: float) -> float:
        """Of the deviate."""
        density = math.exp(-0.5 * self.deviate(badness) ** 2) / math.sqrt(2 * math.pi)
        return standard_error / (2 * self.worst * density)


class Anchor(NamedTuple):
    """Theory and measurement at the size of the pilot, of one classifier and metric; badnesses."""

    classifier: str
    samples: int
    measured: float
    standard_error: float
    theory: float
    worst: float  # a guess
    white: bool  # whether noise is, after whitening
    unlearned: float  # the dimension over the tokens of noise, at most 1
    doubt: Doubt

    @property
    def scale(self) -> Scale:
        return Scale(self.worst)

    @property
    def offset(self) -> float:
        """m − T(n)."""
        return self.scale.deviate(self.measured) - self.scale.deviate(self.theory)

    @property
    def error(self) -> float:
        """Standard error of m."""
        return self.scale.error(self.measured, self.standard_error)

    @property
    def weight(self) -> float:
        """w."""
        variance = max(self.doubt.error**2, self.offset**2 - (_CHANCE * self.error) ** 2)
        return variance / (variance + self.error**2)

    def move(self, samples: float) -> float:
        """Of the deviate, from theory's to the forecast's."""
        gain = self.doubt.gain + self.doubt.dimension * self.unlearned
        more = (samples - self.samples) / max(samples, self.samples)
        return self.weight * self.offset + (0.0 if self.white else gain * more)

    def deviation(self, samples: float, spread: float = 0.0) -> float:
        """Standard deviation of the forecast's deviate."""
        drift = self.doubt.drift**2 * (1 + math.log(max(samples / self.samples, 1.0)))
        return math.sqrt(self.weight * self.error**2 + drift + spread**2)

    def forecast(
        self, samples: float, theory: float, spread: float, reach: float
    ) -> tuple[float, float, float]:
        """Badness with so many samples: the middle, and what is so many deviations better, worse;
        from theory's, and the standard deviation of theory's between training sets."""
        middle = self.scale.deviate(theory) + self.move(samples)
        own = self.scale.error(self.scale.badness(middle), spread)
        half = reach * self.deviation(samples, own)
        value, low, high = (
            min(self.scale.badness(middle + step), self.worst) for step in (0.0, half, -half)
        )
        return value, low, high

    @property
    def factor_two(self) -> float:
        """What a badness twice or half as large changes, whichever is less."""
        here = self.scale.deviate(self.measured)
        twice, half = (self.scale.deviate(part * self.measured) for part in (2.0, 0.5))
        return min(here - twice, half - here)

    @property
    def power(self) -> float:
        """Chance that theory wrong by a factor of two would have been seen."""
        return float(ndtr(self.factor_two / self.error - _SIGNIFICANT))

    @property
    def fits(self) -> bool:
        """Whether theory agrees with what was measured, and a misfit would have been seen."""
        near = abs(self.offset) <= min(_SIGNIFICANT * self.error, self.factor_two / 2)
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
    moved = anchor.scale.badness(anchor.scale.deviate(anchor.theory) + anchor.move(anchor.samples))
    return (
        f"{anchor.classifier} on {anchor.samples} of the pilot's bags: {metric} "
        f"{anchor.measured:.3g} ± {anchor.standard_error:.2g} measured, {anchor.theory:.3g} by "
        f"theory alone; forecasts set out from {moved:.3g}."
    )


def disagreements(anchors: Sequence[Anchor], metric: str) -> Iterator[str]:
    """Where theory is not what was measured, by more than chance; and what that does."""
    for anchor in anchors:
        if abs(anchor.offset) > max(_SIGNIFICANT * anchor.error, _TOLERATED):
            side = "good" if anchor.offset < 0 else "bad"
            yield (
                f"theory alone is too {side} for {anchor.classifier}: {metric} "
                f"{anchor.theory:.3g} for {anchor.samples} bags, {anchor.measured:.3g} ± "
                f"{anchor.standard_error:.2g} measured; forecasts are moved to what was measured, "
                "and what they say of more bags is less certain"
            )


def anchors_of(
    measured: Sequence[Measured], task: Task, setting: Setting, noise: Diagnosis, dim: int
) -> tuple[Anchor, ...]:
    """One for each classifier, at the largest size that was measured."""
    metric, worst = setting.metric, setting.metric.baseline(task).badness
    anchors = []
    for point in largest(measured):
        (tuned,) = tuned_at(setting, task, point.classifier, [point.samples])
        bags = len(point.labels)
        # with half a bag more that is guessed: none of them wrong is not never wrong
        badness = (metric.badness(point.value(metric)) * bags + 0.5 * worst) / (bags + 0.5)
        least = math.sqrt(badness * max(1 - badness, 0.0) / bags)
        error = max(point.standard_error(metric), least)
        theory = metric.badness(float(tuned.value))
        doubt = DOUBTS[point.classifier]
        tokens = noise.tokens * point.samples / bags
        anchors.append(
            Anchor(
                point.classifier, point.samples, badness, error, theory, worst, noise.white,
                min(dim / tokens, 1.0), doubt,
            )
        )  # fmt: skip
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
    """Labelled bags: where the anchored curve, or an end of its interval, meets the target."""
    assert question.target is not None
    setting, scale = question.setting, anchor.scale
    target = scale.deviate(setting.metric.badness(question.target))
    ends = max(anchor.samples / _NEAREST, 4), anchor.samples * _FURTHEST
    counts = np.unique(np.geomspace(*ends, _POINTS).round().astype(int)).tolist()
    tuned = tuned_at(setting, task, anchor.classifier, counts)
    theory = np.array([scale.deviate(setting.metric.badness(float(each.value))) for each in tuned])
    middle = theory + [anchor.move(count) for count in counts]
    half = reach * np.array([anchor.deviation(count) for count in counts])
    alone, value, low, high = (
        _crossing(np.log(counts), curve, target)
        for curve in (theory, middle, middle + half, middle - half)
    )
    return Forecast(anchor.classifier, value, low, high, alone, ())


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

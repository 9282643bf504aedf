r"""Questions with an unknown: the fewest samples, the least strength, the greatest length.

All are one search along `ease`, a logarithm that grows as the task gets easier. At fixed knobs the
badness falls with ease and meets the target somewhere; there the knobs are tuned again, which can
only make it easier; and so on until nothing moves. Knobs that are off by ε cost ε² in badness, so
three rounds do. The last digits come from predictions at the size in question.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from scipy.optimize import brentq

from sparsetoken.model.attention import LONGEST
from sparsetoken.model.signals import Varying
from sparsetoken.model.task import Task
from sparsetoken.planning.tuning import ALONG, FAR, NEAR, Knobs, Reach, Tuned, Tuner
from sparsetoken.support.errors import ConvergenceError, InvalidInput

Target = Callable[[Task, float], float]  # the badness to reach on a task with n samples

MOST_SAMPLES = 10_000  # per dimension: beyond, nobody labels
_STRENGTHS = (1e-3, 1e3)
_TOLERANCE = 2e-3  # of an unknown, relative
_STEP = math.log(4.0)  # of ease, while looking for a place to begin
_MOST_PREDICTIONS = 60


def whole_count(n: float) -> int:
    """The number of samples, rounded up but for rounding errors."""
    return math.ceil(n * (1 - 1e-12))


@dataclass(frozen=True)
class Unknown(ABC):
    """What is solved for, along tasks and numbers of samples from the hardest to the easiest.

    `samples` are those given; where they are the unknown, they are of no use.
    """

    task: Task
    dim: int
    samples: int

    name: ClassVar[str]
    whole: ClassVar[bool] = True  # whether it is a number of things

    @property
    @abstractmethod
    def bounds(self) -> tuple[float, float]:
        """Least and greatest value."""

    @property
    @abstractmethod
    def start(self) -> float:
        """The ease to begin with."""

    @abstractmethod
    def value(self, ease: float) -> float:
        """The value there, rounded to the easier side where it is a number of things."""

    @abstractmethod
    def task_at(self, x: float) -> Task:
        """The task with the unknown at a value."""

    @abstractmethod
    def enough(self, needed: float, reached: str, split: str) -> str:
        """What is needed for what is reached, in words."""

    def nowhere(self, beyond_limits: bool) -> str:
        """Where a target is out of reach (of infinitely many samples too), in words."""
        return f"at any {self.name}"

    def short(self, needed: float) -> str:
        """What another classifier needs, in words."""
        return f"needs {needed:.4g}"

    def burden(self, needed: float) -> float:
        """The classifier that has the least of it is recommended."""
        return math.exp(self.ease(needed))

    def ease(self, x: float) -> float:
        """Of a value."""
        return math.log(x)

    def at(self, ease: float) -> tuple[Task, float]:
        """Task and number of samples there, which need not be whole."""
        return self.task_at(self.value(ease)), self.samples

    @property
    def easiest(self) -> float:
        return max(map(self.ease, self.bounds))

    @property
    def hardest(self) -> float:
        return min(map(self.ease, self.bounds))

    def within(self, ease: float) -> float:
        """The ease, or the end of the line that it is beyond."""
        return min(max(ease, self.hardest), self.easiest)

    def close(self, poor: float, good: float) -> bool:
        """Whether the values at two eases are the same for all practical purposes."""
        gap = abs(self.value(good) - self.value(poor))
        return gap <= _TOLERANCE * self.value(good) or (self.whole and gap <= 1)


@dataclass(frozen=True)
class Samples(Unknown):
    """The fewest samples."""

    name = "samples"

    @property
    def bounds(self) -> tuple[float, float]:
        return 4, MOST_SAMPLES * self.dim

    @property
    def start(self) -> float:
        return self.ease(8 * self.dim)

    def value(self, ease: float) -> float:
        return float(whole_count(math.exp(ease)))

    def task_at(self, x: float) -> Task:
        return self.task

    def at(self, ease: float) -> tuple[Task, float]:
        return self.task, math.exp(ease)

    def enough(self, needed: float, reached: str, split: str) -> str:
        return f"{needed:.0f} labelled samples{split} are enough for {reached}"

    def nowhere(self, beyond_limits: bool) -> str:
        most = f"with up to {MOST_SAMPLES * self.dim} samples"
        return "at any number of samples" if beyond_limits else most


@dataclass(frozen=True)
class Strength(Unknown):
    """The least strength."""

    name = "strength"
    whole = False

    def __post_init__(self) -> None:
        if isinstance(self.task.strength, Varying):
            raise InvalidInput(
                "plan: unknown must not be 'strength' for a strength that varies from sample to "
                f"sample, got task.strength={self.task.strength!r}"
            )

    @property
    def bounds(self) -> tuple[float, float]:
        return _STRENGTHS

    @property
    def start(self) -> float:
        assert not isinstance(self.task.strength, Varying)
        return self.within(self.ease(max(self.task.strength, _STRENGTHS[0])))

    def value(self, ease: float) -> float:
        return math.exp(ease)

    def task_at(self, x: float) -> Task:
        return replace(self.task, strength=x)

    def enough(self, needed: float, reached: str, split: str) -> str:
        return f"a strength of {needed:.4g} is enough for {reached}{split}"


@dataclass(frozen=True)
class Length(Unknown):
    """The greatest length: the longer, the harder."""

    name = "length"

    @property
    def bounds(self) -> tuple[float, float]:
        return max(int(self.task.signals.sparsities.max()), 2), LONGEST

    @property
    def start(self) -> float:
        return self.within(self.ease(self.task.length))

    def value(self, ease: float) -> float:
        return float(math.floor(math.exp(-ease) * (1 + 1e-12)))

    def task_at(self, x: float) -> Task:
        return replace(self.task, length=int(x), places=None)

    def ease(self, x: float) -> float:
        return -math.log(x)

    def enough(self, needed: float, reached: str, split: str) -> str:
        return f"with up to {needed:.0f} tokens {reached} is reached{split}"

    def short(self, needed: float) -> str:
        return f"{needed:.0f}"


UNKNOWNS: dict[str, type[Unknown]] = {kind.name: kind for kind in (Samples, Strength, Length)}


class Place(NamedTuple):
    """An ease, and knobs that are good there."""

    ease: float
    knobs: Knobs


def solve_for(tuner: Tuner, unknown: Unknown, target: Target) -> tuple[float, Tuned] | None:
    """The hardest value of the unknown at which the badness is at most the target's, and how.

    None if it is above the target at the easiest.
    """
    start = learnable(tuner, unknown, target, unknown.start)
    ease, knobs = approach(tuner, unknown, target, start)
    knobs = tuner.search(*unknown.at(ease), knobs, Reach(NEAR))
    return _settle(tuner, unknown, target, Place(ease, knobs))


def learnable(tuner: Tuner, unknown: Unknown, target: Target, ease: float) -> Place:
    """Where something is learned: from an ease towards easier tasks.

    Where nothing is learned, nothing is known about the best knobs.
    """
    while ease < unknown.easiest:
        task, n = unknown.at(ease)
        baseline = tuner.setting.metric.baseline(task).badness
        if tuner.rough(task, n) < 0.5 * (baseline + target(task, n)):
            break
        ease += _STEP
    ease = min(ease, unknown.easiest)
    knobs = tuner.search(*unknown.at(ease), reach=Reach(FAR, FAR))  # they will be left at once
    return Place(ease, knobs)


def approach(
    tuner: Tuner, unknown: Unknown, target: Target, start: Place, settled: float = 0.05
) -> Place:
    """The ease at which drafts meet the target, or the end of the line; the knobs there."""
    here = start
    # Each round squares the distance of the knobs from the best (ε costs ε²); six are twice what it
    # takes. Were they not enough, a slightly better answer would be missed: the one given is
    # certified by `_settle` at these knobs.
    for _ in range(6):
        there = _crossing(tuner, unknown, target, here, 0.1 * settled)
        moved = abs(there.ease - here.ease)
        here = there
        if moved < settled:  # ε in ease is ε in knobs, ε² in badness
            break
        radius = ALONG if moved > 0.1 else NEAR
        knobs = tuner.search(*unknown.at(here.ease), here.knobs, Reach(radius, 0.5 * radius))
        here = here._replace(knobs=knobs)
    return here


def _crossing(
    tuner: Tuner, unknown: Unknown, target: Target, start: Place, tolerance: float
) -> Place:
    """Where drafts at fixed share and sharpness meet the target, or the end of the line.

    The ridge follows: each begins with the last one's. A bracket is looked for on one side alone:
    `bracket_root` and `find_root` of `scipy.optimize.elementwise`, which open both, take twice as
    many drafts (568 against 285 for twelve questions).
    """
    knobs = [start.knobs]
    known: dict[float, float] = {}

    def gap(ease: float) -> float:
        if ease not in known:
            task, n = unknown.at(ease)
            badness, near = tuner.draft(task, n, knobs[-1])
            knobs.append(near)
            known[ease] = badness - target(task, n)
        return known[ease]

    ease, step = start.ease, 0.25
    missed = gap(ease) > 0
    while True:
        other = unknown.within(ease + (step if missed else -step))
        if (gap(other) > 0) != missed:
            low, high = sorted((ease, other))
            return Place(float(brentq(gap, low, high, xtol=tolerance)), knobs[-1])
        if other in (unknown.hardest, unknown.easiest):
            return Place(other, knobs[-1])
        ease, step = other, 2 * step


def _settle(
    tuner: Tuner, unknown: Unknown, target: Target, start: Place
) -> tuple[float, Tuned] | None:
    """By predictions at that size: a value whose prediction meets the target, and not by more than
    its standard error; or, where that is smaller, close to a value that misses it."""
    ease, knobs = start
    harder = tuner.draft(*unknown.at(max(ease - 0.05, unknown.hardest)), knobs).badness
    slope = (harder - tuner.draft(*unknown.at(ease), knobs).badness) / 0.05
    met: tuple[float, float, Tuned] | None = None  # ease, badness beyond the target, how
    poor, missed, away = -math.inf, math.inf, 0.4 * _TOLERANCE
    # a bracket shrinks to nine tenths or less at each prediction, and 0.9⁶⁰ of a factor of two is
    # the tolerance; without one steps treble, so the end of the line is a dozen away
    for _ in range(_MOST_PREDICTIONS):
        task, n = unknown.at(ease)
        tuned = tuner.predict(task, whole_count(n), knobs)
        beyond = tuner.setting.metric.badness(tuned.value) - target(task, n)
        aim = 0.5 * tuned.value.standard_error  # to spare
        if beyond > 0:
            if ease >= unknown.easiest:
                return None
            poor, missed = ease, beyond
        else:
            met = ease, beyond, tuned
            if ease <= unknown.hardest or -beyond <= 2 * aim:
                return unknown.value(ease), tuned
        if met is None or math.isinf(poor):  # along the draft's slope, and more of it every time
            guess = (beyond + aim) / slope if slope > 0 else 0.0
            ease += min(max(guess, -0.5), 0.5) + math.copysign(away, beyond)
            away *= 3
        else:
            good, spare, tuned = met
            if unknown.close(poor, good):
                return unknown.value(good), tuned
            ease = poor + (missed + aim) / (missed - spare) * (good - poor)
            ease += math.copysign(0.4 * _TOLERANCE, beyond)  # the bracket closes around the root
            margin = 0.1 * (good - poor)
            ease = min(max(ease, poor + margin), good - margin)
        ease = unknown.within(ease)
    raise ConvergenceError(
        f"plan: the {unknown.name} of {tuner.name} is above {unknown.value(poor):.6g} and not "
        f"known to {_TOLERANCE:g} of it after {_MOST_PREDICTIONS} predictions"
    )

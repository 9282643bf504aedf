r"""Questions with an unknown: the fewest samples, the least strength, the greatest length.

All are one search along `ease`, a logarithm that grows as the task gets easier. At fixed knobs the
badness falls with ease and meets the target somewhere; there the knobs are tuned again, which can
only make it easier; and so on until nothing moves. Knobs that are off by ε cost ε² in badness, so
three rounds do. The last digits come from predictions at the size in question.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from scipy.optimize import brentq

from sparsetoken.model.attention import LONGEST
from sparsetoken.model.task import Task
from sparsetoken.planning.tuning import FAR, NEAR, Knobs, Tuned, Tuner
from sparsetoken.support.errors import ConvergenceError

Unknown = Literal["samples", "strength", "length"]
Target = Callable[[Task, float], float]  # the badness to reach

MOST_SAMPLES = 10_000  # per dimension: beyond, nobody labels
STRONGEST = 1_000.0
TOLERANCE = 2e-3  # of an unknown, relative
_STEP = math.log(4.0)  # of ease, while looking for a place to begin
_RETRY = math.log(1.5)  # of ease, where a draft was too optimistic; doubled each time


@dataclass(frozen=True)
class Line:
    """The tasks and numbers of samples along which an unknown moves."""

    unknown: Unknown
    task: Task
    samples: int
    least: float  # of the unknown
    most: float

    @classmethod
    def of(cls, unknown: Unknown, task: Task, samples: int | None, dim: int) -> Line:
        """With the bounds that make sense."""
        if unknown == "samples":
            return cls(unknown, task, 8 * dim, 4, MOST_SAMPLES * dim)
        assert samples is not None
        if unknown == "strength":
            return cls(unknown, task, samples, 1e-3, STRONGEST)
        least = int(task.signals.sparsities.max())
        return cls(unknown, task, samples, max(least, 2), LONGEST)

    def starting(self, x: float) -> Line:
        """The same line, begun at a value of the unknown."""
        if self.unknown == "samples":
            return replace(self, samples=int(x))
        return replace(self, task=self.task_at(x))

    def task_at(self, x: float) -> Task:
        """The task with the unknown at a value."""
        if self.unknown == "strength":
            return replace(self.task, strength=x)
        if self.unknown == "length":
            return replace(self.task, length=int(x), places=None)
        return self.task

    @property
    def start(self) -> float:
        """Ease to begin with: of the task as it is."""
        given: Any = {
            "samples": self.samples, "strength": self.task.strength, "length": self.task.length,
        }[self.unknown]  # fmt: skip
        return self.ease(min(max(given, self.least), self.most))

    @property
    def easiest(self) -> float:
        return self.ease(self.least if self.unknown == "length" else self.most)

    @property
    def hardest(self) -> float:
        return self.ease(self.most if self.unknown == "length" else self.least)

    def ease(self, x: float) -> float:
        """Of a value of the unknown."""
        return -math.log(x) if self.unknown == "length" else math.log(x)

    def value(self, ease: float) -> float:
        """Of the unknown, rounded to the easier side where it is a number of things."""
        if self.unknown == "length":
            return float(math.floor(math.exp(-ease) * (1 + 1e-12)))
        x = math.exp(ease)
        return float(math.ceil(x * (1 - 1e-12))) if self.unknown == "samples" else x

    def at(self, ease: float, smooth: bool = True) -> tuple[Task, float]:
        """Task and number of samples there; a smooth number of samples need not be whole."""
        x = self.value(ease)
        if self.unknown == "samples":
            return self.task, math.exp(ease) if smooth else x
        return self.task_at(x), self.samples


def solve_for(
    tuner: Tuner, line: Line, target: Target, start: Knobs | None = None
) -> tuple[float, Tuned] | None:
    """The hardest value of the unknown at which the badness is at most the target's, and how.

    None if it is above the target at the easiest.
    """
    ease, knobs = approach(tuner, line, target, start)
    knobs = tuner.search(*line.at(ease), knobs, NEAR, least=NEAR)
    return _settle(tuner, line, target, ease, knobs)


def approach(
    tuner: Tuner,
    line: Line,
    target: Target,
    start: Knobs | None = None,
    settled: float = 0.05,
) -> tuple[float, Knobs]:
    """The ease at which drafts meet the target, or the end of the line; the knobs there.

    `start` are knobs that are good where the answer is expected to be, at `line.start`.
    """
    ease, knobs = line.start, start
    if knobs is None:
        ease = _informative(tuner, line, target)
        knobs = tuner.search(*line.at(ease), least=FAR)  # it will be left at once
    # Each round squares the distance of the knobs from the best (ε costs ε²); six are twice what it
    # takes. Were they not enough, a slightly better answer would be missed: the one given is
    # certified by `_settle` at these knobs.
    for _ in range(6):
        gap = _Gap(tuner, line, target, knobs)
        found = _crossing(gap, ease, line, 0.1 * settled)
        moved = abs(found - ease)
        ease, knobs = found, gap.knobs
        if moved < settled:  # ε in ease is ε in knobs, ε² in badness
            break
        radius = 0.3 if moved > 0.1 else NEAR
        knobs = tuner.search(*line.at(ease), knobs, radius, least=radius)
    return ease, knobs


class _Gap:
    """Badness above the target at an ease, by drafts at fixed share and sharpness; kept.

    The ridge follows: each begins with the last one's.
    """

    def __init__(self, tuner: Tuner, line: Line, target: Target, knobs: Knobs) -> None:
        self.tuner, self.line, self.target, self.knobs = tuner, line, target, knobs
        self.known: dict[float, float] = {}

    def __call__(self, ease: float) -> float:
        if ease not in self.known:
            task, n = self.line.at(ease)
            bad, self.knobs = self.tuner.draft(task, n, self.knobs)
            self.known[ease] = bad - self.target(task, n)
        return self.known[ease]


def _informative(tuner: Tuner, line: Line, target: Target) -> float:
    """Where something is learned: from the start towards easier tasks.

    Where nothing is learned, nothing is known about the best knobs.
    """
    ease = line.start
    while ease < line.easiest:
        task, n = line.at(ease)
        hopeless = tuner.asked.goal.hopeless(task)
        if tuner.glance(task, n) < 0.5 * (hopeless + target(task, n)):
            break
        ease += _STEP
    return min(ease, line.easiest)


def _crossing(gap: Callable[[float], float], ease: float, line: Line, tolerance: float) -> float:
    """Where a falling function of ease is zero, or the end of the line."""
    step, here = 0.25, gap(ease)
    direction = 1.0 if here > 0 else -1.0
    while True:
        other = min(max(ease + direction * step, line.hardest), line.easiest)
        there = gap(other)
        if (there > 0) != (here > 0):
            low, high = sorted((ease, other))
            return float(brentq(gap, low, high, xtol=tolerance))
        if other in (line.hardest, line.easiest):
            return other
        ease, here, step = other, there, 2 * step


def _settle(
    tuner: Tuner,
    line: Line,
    target: Target,
    ease: float,
    knobs: Knobs,
) -> tuple[float, Tuned] | None:
    """By predictions at that size: a value whose prediction meets the target, and not by more than
    its standard error; or, where that is smaller, close to a value that misses it."""
    task, n = line.at(max(ease - 0.05, line.hardest))
    slope = (tuner.draft(task, n, knobs)[0] - tuner.draft(*line.at(ease), knobs)[0]) / 0.05
    good: tuple[float, float, Tuned] | None = None  # ease, badness beyond the target, how
    poor, missed, away = -math.inf, math.inf, 0.4 * TOLERANCE
    # a bracket shrinks to nine tenths or less at each prediction, and 0.9⁶⁰ of a factor of two is
    # the tolerance; without one steps treble, so the end of the line is a dozen away
    for _ in range(60):
        task, n = line.at(ease, smooth=False)
        tuned = tuner.train(task, int(n), knobs)
        beyond = tuner.asked.goal.bad(tuned.value) - target(task, n)
        aim = 0.5 * tuned.value.standard_error  # to spare
        if beyond > 0:
            if ease >= line.easiest:
                return None
            poor, missed = ease, beyond
        else:
            good = ease, beyond, tuned
            if ease <= line.hardest or -beyond <= 2 * aim:
                return line.value(ease), tuned
        if good is None or math.isinf(poor):  # along the draft's slope, and more of it every time
            guess = (beyond + aim) / slope if slope > 0 else 0.0
            ease += min(max(guess, -0.5), 0.5) + math.copysign(away, beyond)
            away *= 3
        else:
            met, spare, tuned = good
            if _close(line, poor, met):
                return line.value(met), tuned
            ease = poor + (missed + aim) / (missed - spare) * (met - poor)
            ease += math.copysign(0.4 * TOLERANCE, beyond)  # the bracket closes around the root
            margin = 0.1 * (met - poor)
            ease = min(max(ease, poor + margin), met - margin)
        ease = min(max(ease, line.hardest), line.easiest)
    raise ConvergenceError(
        f"plan: the {line.unknown} of {tuner.name} is above {line.value(poor):.6g} and not known "
        f"to {TOLERANCE:g} of it after 60 predictions"
    )


def _close(line: Line, poor: float, good: float) -> bool:
    if math.isinf(poor) or math.isinf(good):
        return False
    gap = abs(line.value(good) - line.value(poor))
    return gap <= TOLERANCE * line.value(good) or (line.unknown != "strength" and gap <= 1)


def crossover(attention: Tuner, rivals: list[Tuner], task: Task, edge: float) -> float:
    """The number of samples from which attention is better than every rival by a part `edge`.

    To a percent or so, from drafts, where predictions do not contradict them; inf if that never
    happens.
    """
    known: dict[float, float] = {}

    def rival(task: Task, n: float) -> float:
        if n not in known:
            hopeless = attention.asked.goal.hopeless(task)  # to name one class always
            known[n] = (1 - edge) * min(hopeless, *(tuner.glance(task, n) for tuner in rivals))
        return known[n]

    line = Line.of("samples", task, None, attention.asked.dim)
    line = replace(line, samples=max(4, attention.asked.dim // 8))
    ease, knobs = approach(attention, line, rival, settled=0.15)
    # drafts near the error of naming one class always are uncertain: predictions have the last word
    goal, step = attention.asked.goal, _RETRY
    while ease < line.easiest:  # steps double: the end of the line is half a dozen away
        task, n = line.at(ease, smooth=False)
        value = attention.train(task, int(n), knobs).value
        others = (goal.bad(tuner.best(task, int(n)).value) for tuner in rivals)
        wanted = (1 - edge) * min(goal.hopeless(task), *others)
        if goal.bad(value) <= wanted + 4 * value.standard_error:
            return line.value(ease)
        ease, step = min(ease + step, line.easiest), 2 * step
        knobs = attention.search(*line.at(ease), knobs, NEAR)
    return math.inf

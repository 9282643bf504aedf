"""Around the answer: the same question for tasks a little different, and for other sample sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetoken.model.signals import Varying
from sparsetoken.model.task import Task
from sparsetoken.planning.inverse import MOST_SAMPLES, Line, Unknown, approach
from sparsetoken.planning.options import NAMES, Option, recommended
from sparsetoken.planning.tuners import tuners
from sparsetoken.planning.tuning import Asked, Knobs, Tuner
from sparsetoken.support.errors import InvalidInput

_CHANGE = 0.2  # of strength, sparsity and prevalence
_POINTS = 13  # of a curve


@dataclass(frozen=True)
class Outlook:
    """A question and its answer, as a place to look around from."""

    task: Task
    asked: Asked
    unknown: Unknown | None
    samples: int | None
    options: tuple[Option, ...]

    def changes(self) -> Iterator[dict[str, Any]]:
        """The answer on every task that is 20 % different; one row each, to about a percent."""
        for name, words, task in changed_tasks(self.task):
            row: dict[str, Any] = {"change": words}
            if name == self.unknown:
                yield row | dict.fromkeys(NAMES) | {"recommended": "(is the unknown)"}
                continue
            found = []
            for option, tuner in zip(self.options, tuners(self.asked, task).values(), strict=True):
                new = self._again(option, tuner, task)
                found.append(new)
                row[option.classifier] = new.value if self.unknown is None else new.needed
            best = recommended(tuple(found), self.asked.goal, self.unknown)
            yield row | {"recommended": "none reaches it" if best is None else best.classifier}

    def _again(self, option: Option, tuner: Tuner, task: Task) -> Option:
        """The same question on another task; an unknown from drafts."""
        goal = self.asked.goal
        start = None if option.tuned is None else option.tuned.knobs
        if self.unknown is None:
            assert self.samples is not None
            knobs = tuner.search(task, self.samples, start)
            value = tuner.train(task, self.samples, knobs).value
            return Option(option.classifier, None, value, value, None)
        assert goal.target is not None
        bad = goal.bad(goal.target)
        line = Line.of(self.unknown, task, self.samples, self.asked.dim)
        if bad >= goal.hopeless(task):  # one class for all reaches the target
            hardest = line.value(line.hardest)
            return Option(option.classifier, hardest, goal.target, goal.target, None)
        if option.needed is not None:
            line = line.starting(option.needed)
        ease, _ = approach(tuner, line, lambda *_: bad, start)
        needed = None if ease == line.easiest else line.value(ease)
        return Option(option.classifier, needed, goal.target, goal.target, None)

    def curve(self, task: Task, marks: list[float]) -> Iterator[dict[str, Any]]:
        """The goal against the number of samples around the marks, each classifier tuned."""
        middle = math.exp(float(np.mean(np.log(marks)))) if marks else 8.0 * self.asked.dim
        low = max(4.0, min([middle / 8, *(0.5 * x for x in marks)]))
        high = min(max([middle * 16, *(2.0 * x for x in marks)]), MOST_SAMPLES * self.asked.dim)
        counts = np.unique(np.geomspace(low, high, _POINTS).round().astype(int))[::-1].tolist()
        for kind, tuner in tuners(self.asked, task).items():
            knobs: Knobs | None = None
            for n in counts:  # from many samples to few: each start is a good one
                knobs = tuner.search(task, n, knobs)
                value = tuner.train(task, n, knobs).value
                yield {"classifier": kind, "samples": n, "value": value}


def changed_tasks(task: Task) -> Iterator[tuple[str, str, Task]]:
    """Tasks that are 20 % different, with the field and words; impossible ones are left out."""
    for name in ("strength", "sparsity", "prevalence"):
        old = getattr(task, name)
        if isinstance(old, Varying):  # there is no one number to change
            continue
        for sign in (-1, 1):
            new: Any = old * (1 + sign * _CHANGE)
            if name == "sparsity":  # whole numbers: at least one more or less
                new = math.ceil(new) if sign > 0 else math.floor(new)
            try:
                changed = replace(task, **{name: new})
            except InvalidInput:  # beyond what a task may have
                continue
            yield name, f"{name} {old:g} → {new:g}", changed

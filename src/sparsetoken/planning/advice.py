"""`Plan`: the answer of the planner, as data; what it prints is in `report.py`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.planning import report
from sparsetoken.planning.metrics import Metric
from sparsetoken.planning.ridges import Setting
from sparsetoken.planning.tuning import Tuned
from sparsetoken.planning.unknowns import Unknown
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate
from sparsetoken.support.showing import Shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SIMPLEST = "pooled"
EDGE = 0.01  # by this part another must be better, or the simplest is recommended
# What may disappoint. Finite size is in the numbers themselves; what is left to warn of is what was
# tested only so far (docs/trust.md has the experiments): very few dimensions, where noise that is
# not Gaussian is not averaged out, a handful of samples of a class, samples far longer than their
# dimension.
_LEAST_DIM = 20  # the smallest dimension with other noise than Gaussian in that test
_FEWEST = 5  # samples of a class; with fewer, training sets have little in common
_LONGEST = 12  # tokens per dimension, the most in that test
_WIDE = 0.25  # of a value: a spread worth a sentence
_OFTEN = 0.01  # a chance worth a sentence


@dataclass(frozen=True)
class Option:
    """One classifier at its best: what it needs and what it gives.

    `needed` is the unknown that was asked for (None: out of reach, or nothing was asked), `limit`
    the metric's value with infinitely many samples. Where the target is out of reach there is no
    `tuned`.
    """

    classifier: str
    needed: float | None
    limit: float
    tuned: Tuned | None = None

    @property
    def value(self) -> Estimate | None:
        """Of the metric with the samples given or needed: a mean over training sets."""
        return None if self.tuned is None else self.tuned.value

    @property
    def spread(self) -> Estimate | None:
        """Standard deviation of the value between training sets; None where there is no value."""
        return None if self.tuned is None else self.tuned.spread

    @property
    def useless(self) -> Estimate | None:
        """Chance of a training set whose query does not help; None without a query."""
        return None if self.tuned is None else self.tuned.prediction.useless

    @property
    def protocol(self) -> Protocol:
        """How to train it: steps, ridge, samples for query and readout."""
        if self.tuned is None:
            raise InvalidInput(
                f"Option: {self.classifier} has no protocol, the target is out of its reach"
            )
        return self.tuned.protocol

    @property
    def shrinkage(self) -> float | None:
        """With which tokens are whitened first; None where noise is white, or nothing is tuned."""
        return None if self.tuned is None else self.tuned.knobs.shrinkage

    def task_of(self, task: Task, unknown: Unknown | None) -> Task:
        """The task of its answer: as given, or with the strength or length that was solved for."""
        return task if unknown is None or self.needed is None else unknown.task_at(self.needed)

    def row(self, unknown: Unknown | None) -> dict[str, Any]:
        """Flat, for tables."""
        row: dict[str, Any] = {"classifier": self.classifier}
        if unknown is not None:
            count = unknown.whole and self.needed is not None
            row[unknown.name] = int(self.needed or 0) if count else self.needed
        row |= {"value": self.value, "spread": self.spread, "limit": self.limit}
        names = ("query_count", "readout_count", "ridge", "cosine", "sharpness", "readout_step",
                 "bias_step", "query_step")  # fmt: skip
        row |= dict.fromkeys(names)
        if self.tuned is not None:
            protocol, prediction = self.tuned.protocol, self.tuned.prediction
            row |= {name: getattr(self.tuned, name) for name in names[:2]}
            row["ridge"] = protocol.ridge
            if self.shrinkage is not None:
                row["shrinkage"] = self.shrinkage
            if prediction.cosine is not None:
                row |= {"cosine": prediction.cosine, "sharpness": prediction.sharpness}
                row |= {name: getattr(protocol, name) for name in names[5:]}
        return row


@dataclass(frozen=True)
class Check:
    """Simulated runs of the recommended classifier: what one training run may look like.

    A run whose training samples all had one class counts as what it is: one that says that class
    of every sample.
    """

    predicted: Estimate
    values: tuple[float, ...]  # of the metric, one a run

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return float(np.std(self.values, ddof=1) / math.sqrt(len(self.values)))


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Shown):
    """The answer to a question about samples; see `plan`. Printed, it says it in words.

    `options` has one entry for each classifier, `best` is the recommended one. `bayes` is the error
    of the best test of all, with the signal known, where the target is out of reach of every
    classifier. Where noise is not white each option has a `shrinkage`: it is trained on
    `whitened(task, shrinkage)`. `outlook` says more: floors, crossover, sensitivities.

    >>> from sparsetoken import plan
    >>> advice = plan(Task(3, 1, 4.0), dim=30, samples=100, check=False)
    >>> advice.best.classifier, advice["pooled"].value > advice["attention"].value
    ('attention', True)
    """

    task: Task
    setting: Setting
    target: float | None
    unknown: Unknown | None
    samples: int | None
    options: tuple[Option, ...]
    warnings: tuple[str, ...]
    check: Check | None = None
    bayes: float | None = None

    def __getitem__(self, classifier: str) -> Option:
        by_name = {option.classifier: option for option in self.options}
        if classifier not in by_name:
            names = ", ".join(by_name)
            raise KeyError(f"Plan: classifier must be one of {names}, got {classifier!r}")
        return by_name[classifier]

    @property
    def dim(self) -> int:
        """The embedding dimension."""
        return self.setting.dim

    @property
    def metric(self) -> Metric:
        """What is made good."""
        return self.setting.metric

    @property
    def best(self) -> Option | None:
        """The recommended option; None if the target is out of reach for all."""
        answers = {
            option.classifier: option.value if self.unknown is None else option.needed
            for option in self.options
        }
        burdens = {name: self.burden(x) for name, x in answers.items() if x is not None}
        name = recommended(burdens)
        return None if name is None else self[name]

    def burden(self, answer: float) -> float:
        """Of an answer, a value or what is needed: the less, the better."""
        return self.metric.badness(answer) if self.unknown is None else self.unknown.burden(answer)

    @property
    def answer(self) -> Task:
        """The task of the answer: as given, or with the strength or length that was solved for."""
        return self.task if self.best is None else self.best.task_of(self.task, self.unknown)

    @property
    def title(self) -> str:
        """The task, in symbols."""
        return report.title(self)

    @property
    def headline(self) -> str:
        """The recommendation in one sentence, and why in a second."""
        return report.headline(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per classifier."""
        import pandas as pd

        return pd.DataFrame([option.row(self.unknown) for option in self.options])

    def plot(self, ax: Axes | None = None) -> Axes:
        """What each classifier gives with the samples, or how much it needs for the target.

        Bars are two standard deviations between training sets; ticks are what infinitely many
        samples would give. Needs matplotlib; `ax` is where to draw, a new figure if None.
        """
        from sparsetoken.figures import options

        best = None if self.best is None else self.best.classifier
        return options(
            list(report.option_rows(self)),
            ax,
            x=report.option_axis(self),
            bars="± 2 deviations between training sets" if self.unknown is None else "",
            ticks="with infinitely many samples",
            log=self.unknown is not None and self.unknown.whole,
            best=best,
            title=self.title,
        )

    def paragraphs(self) -> Iterator[str | pd.DataFrame]:
        """Headline, what is done to tokens, table, warnings, check."""
        return report.plan_paragraphs(self)

    def __repr__(self) -> str:
        return f"<Plan for {self.title}: {self.headline.partition(';')[0]}>"


def recommended(burdens: Mapping[str, float]) -> str | None:
    """The classifier with the least burden, or the simplest where it is as good as that."""
    least = min(burdens, key=burdens.__getitem__, default=None)
    if least is not None and SIMPLEST in burdens:
        if (1 - EDGE) * burdens[SIMPLEST] <= burdens[least]:
            return SIMPLEST
    return least


def scatter_warnings(
    words: str, value: float, spread: float, useless: float | None
) -> Iterator[str]:
    """How much training sets of that size differ, if it is much; a chance of a useless query.

    >>> list(scatter_warnings("test error", 0.04, 0.02, 0.06))[0]
    'training sets of this size differ much: test error 0.04 is a mean, with a standard deviation \
of 0.02 between them'
    """
    room = min(value, 1 - value) if value < 1 else value  # a cost may be above 1
    if spread > _WIDE * room:
        yield (
            f"training sets of this size differ much: {words} {value:.3g} is a mean, with a "
            f"standard deviation of {spread:.2g} between them"
        )
    if useless is not None and useless > _OFTEN:
        yield (
            f"{useless:.0%} of training sets give a query that does not help: with it attention is "
            "no better than mean pooling"
        )


def range_warnings(task: Task, dim: int, query_count: int, readout_count: int) -> Iterator[str]:
    """Sentences on what is outside the range in which predictions were tested; mostly none.

    `query_count` is 0 for a classifier that learns no query.

    >>> list(range_warnings(Task(10, 1, 5.0), 200, query_count=400, readout_count=800))
    []
    """
    if dim < _LEAST_DIM:
        yield (
            f"dim={dim} is small (below {_LEAST_DIM}): noise that is not Gaussian is not averaged "
            "out, single training runs scatter widely"
        )
    rarer = min(task.prevalence, 1 - task.prevalence)
    name = "positive" if task.prevalence <= 0.5 else "negative"
    stages = {"query": query_count, "readout": readout_count}
    few = {stage: count for stage, count in stages.items() if 0 < count * rarer < _FEWEST}
    if few:
        stage = min(few, key=few.__getitem__)
        yield (
            f"about {few[stage] * rarer:.2g} of the {few[stage]} samples for the {stage} will be "
            f"{name} (below {_FEWEST}): training sets have little in common, means say little"
        )
    if task.length > _LONGEST * dim:
        yield (
            f"length={task.length} is more than {_LONGEST} times dim={dim}, the most that was "
            "tested: the query may align less than predicted"
        )

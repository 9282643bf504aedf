"""What a plan chooses from: one option for each classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.planning.inverse import Line, Unknown
from sparsetoken.planning.metrics import Goal
from sparsetoken.planning.tuning import Tuned
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

NAMES = ("attention", "vectorized", "pooled")
EDGE = 0.01  # attention must be better by this part, or pooling is recommended: it is simpler


@dataclass(frozen=True)
class Option:
    """One classifier at its best: what it needs and what it gives.

    `needed` is the unknown that was asked for (None: out of reach, or nothing was asked), `value`
    the goal's with the samples given or needed, a mean over training sets of that size, `spread`
    its standard deviation between them, `limit` the goal's with infinitely many samples.
    """

    classifier: str
    needed: float | None
    value: float | None
    limit: float
    tuned: Tuned | None

    @property
    def protocol(self) -> Protocol:
        """How to train it: steps, ridge, samples for query and readout."""
        if self.tuned is None:
            raise InvalidInput(
                f"Option: {self.classifier} has no protocol, the target is out of its reach"
            )
        return self.tuned.protocol

    @property
    def spread(self) -> float | None:
        """Standard deviation of the value between training sets; None where there is no value."""
        return None if self.tuned is None else self.tuned.spread

    @property
    def useless(self) -> float | None:
        """Chance of a training set whose query does not help; None without a query."""
        return None if self.tuned is None else self.tuned.prediction.useless

    def row(self, unknown: Unknown | None) -> dict[str, Any]:
        """Flat, for tables."""
        row: dict[str, Any] = {"classifier": self.classifier}
        if unknown is not None:
            count = self.needed is not None and unknown != "strength"
            row[unknown] = int(self.needed or 0) if count else self.needed
        row |= {"value": self.value, "spread": self.spread, "limit": self.limit}
        names = ("query_count", "readout_count", "ridge", "cosine", "sharpness", "readout_step",
                 "bias_step", "query_step")  # fmt: skip
        row |= dict.fromkeys(names)
        if self.tuned is not None:
            protocol, prediction = self.tuned.protocol, self.tuned.prediction
            row["query_count"], row["readout_count"] = (
                self.tuned.query_count,
                self.tuned.readout_count,
            )
            row["ridge"] = protocol.ridge
            if prediction.cosine is not None:
                row |= {"cosine": prediction.cosine, "sharpness": prediction.sharpness}
                steps = ("readout_step", "bias_step", "query_step")
                row |= {name: getattr(protocol, name) for name in steps}
        return row


@dataclass(frozen=True)
class Check:
    """Simulated runs of the recommended classifier: what one training run may look like.

    A run whose training samples all had one class counts as what it is: one that says that class
    of every sample.
    """

    predicted: Estimate
    values: tuple[float, ...]  # of the goal, one a run

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return float(np.std(self.values, ddof=1) / math.sqrt(len(self.values)))

    def words(self, goal: Goal, dim: int) -> str:
        """Predicted and simulated, in a sentence."""
        error = math.hypot(self.standard_error, self.predicted.standard_error)
        gap = self.mean - self.predicted
        apart = f"{gap / error:+.1f} standard errors" if abs(gap) < 1e3 * error else f"{gap:+.2g}"
        return (
            f"Check by {len(self.values)} simulated runs at dim {dim}: {goal.words} predicted "
            f"{self.predicted:.4f}, simulated {self.mean:.4f} ± {self.standard_error:.4f} "
            f"({apart}); single runs from {min(self.values):.4f} to {max(self.values):.4f}."
            + (" The two differ: go by the simulated value." if abs(gap) > 4 * error else "")
        )


def recommended(options: tuple[Option, ...], goal: Goal, unknown: Unknown | None) -> Option | None:
    """The best option, or pooling where it is as good as the best."""
    able = [option for option in options if option.value is not None]
    if unknown is not None:
        able = [option for option in able if option.needed is not None]

    def cost(option: Option) -> float:
        if unknown is None:
            assert option.value is not None
            return goal.bad(option.value)
        assert option.needed is not None
        return 1 / option.needed if unknown == "length" else option.needed

    first = min(able, key=cost, default=None)
    for option in able:
        if option.classifier == "pooled" and first is not None:
            if (1 - EDGE) * cost(option) <= cost(first):
                return option
    return first


def task_of(
    option: Option, task: Task, samples: int | None, unknown: Unknown | None, dim: int
) -> Task:
    """The task of an answer: as given, or with the strength or length that was solved for."""
    if unknown is None or option.needed is None:
        return task
    return Line.of(unknown, task, samples, dim).task_at(option.needed)

"""The best that can be learned from labelled samples, and what else one might ask people for."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetoken.model.task import Task
from sparsetoken.oracles.bayes_learning import bayes_curve, samples_needed
from sparsetoken.support.checks import real, whole

_MORE_BAGS = 10  # times the labelled ones: bags without labels that are easily had


@dataclass(frozen=True)
class MoreLabels:
    """What else people could be asked for, beside labels of bags.

    `annotated` is the share of positive bags whose signal tokens are marked, `unlabelled` a number
    of bags without a label; None is ten times the labelled ones.

    >>> MoreLabels(annotated=0.3).marks
    'any learner if signal tokens of 30 % of positive bags are marked'
    """

    annotated: float = 1.0
    unlabelled: int | None = None

    def __post_init__(self) -> None:
        real("floors", "annotated", self.annotated, least=0, most=1)
        if self.unlabelled is not None:
            whole("floors", "unlabelled", self.unlabelled, least=0)

    @property
    def marks(self) -> str:
        """In words."""
        share = f" of {100 * self.annotated:g} % of positive bags" if self.annotated < 1 else ""
        return f"any learner if signal tokens{share} are marked"

    def bags(self, labelled: float) -> int:
        """How many without a label, beside so many with one."""
        return round(_MORE_BAGS * labelled) if self.unlabelled is None else self.unlabelled


@dataclass(frozen=True)
class BestLearner:
    """Any learner (or message passing alone, where `fast`), in the limit of many dimensions."""

    task: Task
    annotated: float = 0.0
    unlabelled: float = 0.0
    fast: bool = False

    def error(self, samples: float) -> float:
        """From so many samples per dimension."""
        (point,) = bayes_curve(
            self.task, [samples], annotated=self.annotated, unlabelled=self.unlabelled
        )
        return float((point.reachable if self.fast else point.best).test_error)

    def samples(self, error: float) -> float:
        """Per dimension, for an error."""
        needed = samples_needed(
            self.task, error, annotated=self.annotated, unlabelled=self.unlabelled
        )
        return float(needed.reachable if self.fast else needed.best)


def best_learners(
    task: Task, dim: int, labelled: float, more: MoreLabels
) -> dict[str, BestLearner]:
    """By words: with labels alone, with signal tokens marked, with bags that have no label.

    These are as many as `more` says beside so many labelled ones.
    """
    learners = {
        "any learner": BestLearner(task),
        "message passing": BestLearner(task, fast=True),
    }
    if more.annotated:
        learners[more.marks] = BestLearner(task, annotated=more.annotated)
    if bags := more.bags(labelled):
        words = f"any learner with {bags} bags without labels"
        learners[words] = BestLearner(task, unlabelled=bags / dim)
    return learners

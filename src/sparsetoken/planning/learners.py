"""The best that can be learned from labelled samples, and what else one might ask people for."""

from __future__ import annotations

from dataclasses import dataclass

from sparsetoken.model.task import Task
from sparsetoken.oracles.bayes_learning import bayes_curve, samples_needed

MORE_BAGS = 10  # times the labelled ones: bags without labels that are easily had


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


def best_learners(task: Task, unlabelled: float) -> dict[str, BestLearner]:
    """By words: with labels alone, with signal tokens marked, with bags that have no label."""
    learners = {
        "any learner": BestLearner(task),
        "message passing": BestLearner(task, fast=True),
        "any learner if signal tokens are marked": BestLearner(task, annotated=1.0),
    }
    if unlabelled:
        words = f"any learner with {MORE_BAGS} times as many bags without labels"
        learners[words] = BestLearner(task, unlabelled=unlabelled)
    return learners

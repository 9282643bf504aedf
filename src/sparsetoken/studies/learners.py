"""`LearnerCell`: a learner of its own at finite size, as a question for a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.simulation.experiment import run_repeat
from sparsetoken.simulation.message_passing import MessagePassing
from sparsetoken.simulation.settings import Learner, Sampler, Settings
from sparsetoken.studies.questions import Question, bare, field_values
from sparsetoken.support.checks import refusal, settle, whole


@dataclass(frozen=True)
class LearnerCell(Question):
    """Message passing on so many labelled samples per dimension, one row a repeat.

    Beside test error and cosine a row has the cosine after each round, `cosine_1` and so on.

    >>> from sparsetoken import sweep
    >>> table = sweep([LearnerCell(Task(10, 1, 5.0), 1.0, dim=500, repeats=2)])
    >>> bool((table.cosine_1 < 0.85).all()), bool((table.cosine > 0.93).all())
    (True, True)
    """

    task: Task
    samples: float
    dim: int
    learner: Learner = field(default_factory=MessagePassing)
    repeats: int = 1
    seed: int = 0
    sampler: Sampler = "reduced"
    test_samples: int = 10_000

    def __post_init__(self) -> None:
        settle(self, repeats=whole(LearnerCell, "repeats", self.repeats, least=1, most=10**6))
        if self.settings.learner is None:
            raise refusal(LearnerCell, "learner", self.learner, "one such as MessagePassing()")

    @property
    def settings(self) -> Settings:
        """What `simulate` needs."""
        return Settings(
            self.task,
            cast(Classifier, self.learner),
            Protocol(readout_samples=self.samples),
            self.dim,
            self.seed,
            self.sampler,
            test_samples=self.test_samples,
        )

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name."""
        names = ("samples", "dim", "seed", "sampler", "test_samples")
        own = {name: getattr(self, name) for name in names}
        return {"kind": "learner", "learner": bare(self.learner), **field_values(self.task), **own}

    @property
    def count(self) -> int:
        """One row per repeat."""
        return self.repeats

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """One run."""
        outcome = run_repeat(self.settings, repeat)
        rounds = {f"cosine_{i}": cosine for i, cosine in enumerate(outcome.cosines, 1)}
        results = {"test_error": outcome.test_error, **rounds}
        if outcome.query is not None:
            results["cosine"] = outcome.query.cosine
        return ("" if outcome.status == "ok" else outcome.status), results

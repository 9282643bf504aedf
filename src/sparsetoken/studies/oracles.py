"""`OracleCell`: what is possible at all, as a question for a sweep."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sparsetoken.model.checks import real, whole
from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.task import Task
from sparsetoken.studies.questions import Question, name_of
from sparsetoken.theory.oracle import bayes_error, oracle_error, signal_threshold


@dataclass(frozen=True)
class OracleCell(Question):
    """The best error of a classifier, or (`classifier=None`) of any, when the signal is known.

    With `target` the strength that reaches this error is sought, whatever the task's own is.

    >>> from sparsetoken import Pooled, sweep
    >>> table = sweep([OracleCell(Task(10, 1, 5.0), Pooled()),
    ...                OracleCell(Task(10, 1, 5.0), Pooled(), target=0.01)])
    >>> table.best_error.round(4).tolist()[0], table.strength_needed.round(3).tolist()[1]
    (0.2146, 14.713)
    """

    task: Task
    classifier: Classifier | None = None
    target: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise ValueError(f"OracleCell: task must be a Task, got {self.task!r}")
        if isinstance(self.classifier, type):
            raise ValueError(
                "OracleCell: classifier must be None or a classifier such as Pooled(), "
                f"got {self.classifier!r}"
            )
        object.__setattr__(self, "seed", whole(OracleCell, "seed", self.seed, least=0))
        if self.target is not None:
            target = real(OracleCell, "target", self.target, above=0, below=1)
            object.__setattr__(self, "target", target)

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name."""
        task = {field.name: getattr(self.task, field.name) for field in fields(Task)}
        if self.target is not None:
            task["strength"] = None
        classifier = "bayes" if self.classifier is None else name_of(self.classifier)
        return {"kind": "oracle", "classifier": classifier, **task, "seed": self.seed,
                "target": self.target}  # fmt: skip

    @property
    def shares(self) -> Any:
        """The drawn tokens."""
        return ("oracle", self.task.length, self.task.sparsity, self.classifier)

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """The error, or the strength, with its standard error."""
        if self.target is not None:
            found = signal_threshold(self.task, self.classifier, error=self.target, seed=self.seed)
            name = "strength_needed"
        elif self.classifier is None:
            found, name = bayes_error(self.task, seed=self.seed), "best_error"
        else:
            found, name = oracle_error(self.task, self.classifier, seed=self.seed), "best_error"
        return "", {name: float(found), "standard_error": found.standard_error}

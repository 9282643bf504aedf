"""`OracleCell`, `BayesCell`, `DetectionCell`, `RegretCell`: what is possible, for a sweep."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.model.protocol import check_task
from sparsetoken.model.task import Task
from sparsetoken.oracles.bayes_learning import bayes_curve
from sparsetoken.oracles.detection import Test, detection_error
from sparsetoken.oracles.learning_data import Labels
from sparsetoken.oracles.oracle import bayes_error, oracle_error, signal_threshold
from sparsetoken.oracles.regret import attention_regret
from sparsetoken.studies.questions import Question, bare, field_values
from sparsetoken.support.checks import real, refusal, settle, whole


@dataclass(frozen=True)
class OracleCell(Question):
    """The best error of a classifier, or (`classifier=None`) of any, when the signal is known.

    With `target` the strength that reaches this error is sought, whatever the task's own is. `dim`
    is for the Bayes error of a signal with a spread, which is 0 in the limit.

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
    dim: int | None = None

    def __post_init__(self) -> None:
        check_task("OracleCell", self.task)
        if isinstance(self.classifier, type):
            allowed = "None or a classifier such as Pooled()"
            raise refusal(OracleCell, "classifier", self.classifier, allowed)
        settle(self, seed=whole(OracleCell, "seed", self.seed, least=0))
        if self.target is not None:
            settle(self, target=real(OracleCell, "target", self.target, above=0, below=1))
        if self.dim is not None:
            settle(self, dim=whole(OracleCell, "dim", self.dim, least=1))

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name."""
        task = field_values(self.task)
        if self.target is not None:
            task["strength"] = None
        classifier = "bayes" if self.classifier is None else CLASSIFIERS.kind(self.classifier)
        weighting = bare(getattr(self.classifier, "weighting", None))
        own = {"seed": self.seed, "target": self.target, "weighting": weighting}
        if self.dim is not None:  # keys without it are what they were
            own["dim"] = self.dim
        return {"kind": "oracle", "classifier": classifier, **task, **own}

    @property
    def shares(self) -> Hashable:
        """The drawn tokens."""
        return ("oracle", self.task.length, self.task.sparsity, self.classifier)

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """The error, or the strength, with its standard error."""
        task, classifier, seed = self.task, self.classifier, self.seed
        if self.target is not None:
            needed = signal_threshold(task, classifier, error=self.target, seed=seed)
            return "", {"strength_needed": needed, "standard_error": needed.standard_error}
        if classifier is None:
            error = bayes_error(task, dim=self.dim, seed=seed)
        else:
            error = oracle_error(task, classifier, seed=seed)
        return "", {"best_error": error, "standard_error": error.standard_error}


@dataclass(frozen=True)
class BayesCell(Question):
    """The best that any learner can do with so many samples per dimension: of `bayes_curve`.

    >>> from sparsetoken import sweep
    >>> table = sweep([BayesCell(Task(10, 1, 5.0), samples) for samples in (0.5, 2.0)])
    >>> table.cosine.round(3).tolist(), table.hard.tolist()
    ([0.928, 0.981], [0.0, 0.0])
    """

    task: Task
    samples: float
    annotated: float = 0.0
    unlabelled: float = 0.0
    label_noise: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_task("BayesCell", self.task)
        samples = real(BayesCell, "samples", self.samples, least=0, infinite=True)
        settle(self, samples=samples, seed=whole(BayesCell, "seed", self.seed, least=0))
        Labels(self.annotated, self.unlabelled, self.label_noise, "BayesCell")

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name."""
        own = {name: value for name, value in field_values(self).items() if name != "task"}
        return {"kind": "bayes", **field_values(self.task), **own}

    @property
    def shares(self) -> Hashable:
        """What the tokens of a bag reveal."""
        return ("bayes", self.task, self.seed)

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """Both learners; `hard` is 1 where they differ."""
        (point,) = bayes_curve(
            self.task,
            [self.samples],
            annotated=self.annotated,
            unlabelled=self.unlabelled,
            label_noise=self.label_noise,
            seed=self.seed,
        )
        return "", point.numbers


@dataclass(frozen=True)
class DetectionCell(Question):
    """The error of one of the tests of `theory.detection` at its best, when the signal is known.

    >>> from sparsetoken import sweep
    >>> table = sweep([DetectionCell(Task(100, 4, 3.0), "maximum")])
    >>> table.best_error.round(4).tolist()
    [0.0845]
    """

    task: Task
    test: Test
    draws: int = 1 << 14
    seed: int = 0

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name."""
        own = {"draws": self.draws, "seed": self.seed}
        return {"kind": "detection", "test": self.test, **field_values(self.task), **own}

    @property
    def shares(self) -> Hashable:
        """The drawn tokens."""
        return ("detection", self.task.length, self.task.sparsity)

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """The error with its standard error, and the best sharpness where there is one."""
        error = detection_error(self.task, self.test, draws=self.draws, seed=self.seed)
        results = {"best_error": error, "standard_error": error.standard_error}
        if error.sharpness is not None:
            results["best_sharpness"] = error.sharpness
        return "", results


@dataclass(frozen=True)
class RegretCell(Question):
    """The Bayes error of a task, and what attention at its best adds to it.

    >>> from sparsetoken import sweep
    >>> table = sweep([RegretCell(Task(50, 5, 1.5), draws=512)])
    >>> table.best_error.round(1).tolist(), bool(table.regret[0] < 0.01)
    ([0.2], True)
    """

    task: Task
    draws: int = 1 << 10
    seed: int = 0

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name."""
        own = {"draws": self.draws, "seed": self.seed}
        return {"kind": "regret", **field_values(self.task), **own}

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """The Bayes error and the regret with their standard errors; the best sharpness."""
        floor, regret = attention_regret(self.task, draws=self.draws, seed=self.seed)
        assert regret.sharpness is not None
        results = {"best_error": floor, "standard_error": floor.standard_error}
        results |= {"regret": regret, "regret_error": regret.standard_error}
        return "", results | {"best_sharpness": regret.sharpness}

"""`Cell`: one question of a study, answered by theory or by simulation; `grid` of many."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Literal, get_args

from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.names import CLASSIFIERS, LOSSES
from sparsetoken.model.protocol import Protocol, check_kinds
from sparsetoken.model.task import Task
from sparsetoken.simulation.experiment import is_separable, run_repeat
from sparsetoken.simulation.outcome import Training
from sparsetoken.simulation.results import QUANTITIES, Simulation
from sparsetoken.simulation.settings import Sampler, Settings
from sparsetoken.studies.questions import Question, field_values
from sparsetoken.support.checks import one_of, refusal, settle, whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.theory.prediction import predict

Kind = Literal["theory", "simulation", "separability"]
_TASK = tuple(field.name for field in fields(Task))
_PROTOCOL = tuple(field.name for field in fields(Protocol))
_CHOICES: dict[str, tuple[Any, ...]] = {
    "kind": get_args(Kind),
    "sampler": get_args(Sampler),
    "training": get_args(Training),
    "dtype": ("float64", "float32"),
    "reuse_data": (False, True),
}
_MOST_REPEATS = 10**6  # rows of a cell, all listed before the work begins
_SIMULATION = (
    "dim", "seed", "sampler", "device", "dtype", "test_samples", "reuse_data", "training",
)  # fmt: skip


@dataclass(frozen=True)
class Cell(Question):
    """One question: a task, a classifier and a protocol, answered by theory or by simulation.

    >>> from sparsetoken import Pooled
    >>> cell = Cell(Task(5, 1, 4.0), Pooled(), Protocol(), kind="simulation", dim=50, repeats=3)
    >>> len(cell.units()), cell.units()[0].key == cell.units()[1].key
    (3, False)
    """

    task: Task
    classifier: Classifier
    protocol: Protocol
    kind: Kind = "theory"
    dim: int | None = None
    repeats: int = 1
    seed: int = 0
    sampler: Sampler = "reduced"
    device: str | None = None
    dtype: str = "float64"
    test_samples: int = 10_000
    reuse_data: bool = False
    training: Training = "stages"
    test_task: Task | None = None

    def __post_init__(self) -> None:
        check_kinds("Cell", self.task, self.classifier, self.protocol)
        for name, allowed in _CHOICES.items():  # also those that the theory does not need
            one_of(Cell, name, getattr(self, name), allowed)
        settle(
            self,
            repeats=whole(Cell, "repeats", self.repeats, least=1, most=_MOST_REPEATS),
            seed=whole(Cell, "seed", self.seed, least=0),
            test_samples=whole(Cell, "test_samples", self.test_samples, least=1),
        )
        if self.dim is not None:
            settle(self, dim=whole(Cell, "dim", self.dim, least=1, most=_MOST_REPEATS**2))
        if not (self.device is None or isinstance(self.device, str)):
            raise refusal(Cell, "device", self.device, "None or a name")
        if self.test_task is not None:
            if not isinstance(self.test_task, Task):
                raise refusal(Cell, "test_task", self.test_task, "a Task")
            why = self.classifier.possible(self.test_task, trained_on=self.task)
            if why is not None:
                raise InvalidInput(f"Cell: test_task: {why}")
        if self.kind == "separability":
            for name in ("sampler", "device", "dtype", "test_task"):
                value, usual = getattr(self, name), getattr(Cell, name)  # the default
                if value != usual:
                    raise refusal(Cell, name, value, f"{usual!r} for a separability")
        if self.kind != "theory":
            if self.dim is None:
                raise refusal(Cell, "dim", None, f"given for a {self.kind}")
            self.settings  # noqa: B018 (checked before any work)

    @property
    def settings(self) -> Settings:
        """What `simulate` needs; one BLAS thread, so that every executor gives the same numbers."""
        sizes: dict[str, Any] = {name: getattr(self, name) for name in _SIMULATION}
        return Settings(self.task, self.classifier, self.protocol, **sizes)

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name, flat; those that do not matter are None."""
        simulated = self.kind != "theory"
        loss, classifier = self.protocol.loss, self.classifier
        values: dict[str, Any] = {"kind": self.kind, "classifier": CLASSIFIERS.kind(classifier)}
        values |= field_values(classifier, "frozen_")
        if "frozen_weighting" in values:
            values["weighting"] = values.pop("frozen_weighting")
        values |= field_values(self.task) | field_values(self.protocol)
        values |= {"loss": LOSSES.kind(loss), **field_values(loss, "loss_")}
        values |= {name: getattr(self, name) if simulated else None for name in _SIMULATION}
        if self.sampler != "tokens":
            values |= {"test_samples": None, "reuse_data": None, "training": None}
        values |= dict.fromkeys(f"test_{name}" for name in _TASK)
        return values | (field_values(self.test_task, "test_") if self.test_task else {})

    @property
    def shares(self) -> Hashable:
        """Equal for cells whose work has something in common: the law, in theory."""
        recipe = replace(self.protocol, readout_samples=1.0, ridge=1.0)
        return (self.kind, self.task, self.classifier, recipe, self.dim, self.sampler)

    @property
    def count(self) -> int:
        """One row, or one per repeat."""
        return 1 if self.kind == "theory" else self.repeats

    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """Theory, a run of the simulation, or whether its data are separable."""
        if self.kind == "theory":
            return "", _by_theory(self)
        if self.kind == "separability":
            return "", {"separable": float(is_separable(self.settings, repeat))}
        return _by_simulation(self, repeat)


def _by_theory(cell: Cell) -> dict[str, float]:
    prediction = predict(cell.task, cell.classifier, cell.protocol)
    scores = prediction.scores if cell.test_task is None else prediction.on(cell.test_task)
    names = ("train_error", "train_loss", "bias", "residual")
    results = {name: getattr(prediction, name) for name in names}
    results |= {"test_error": scores.test_error, "auc": scores.auc}
    results["readout_norm"] = prediction.fit.norm
    if prediction.query is not None:
        results |= {"cosine": prediction.query.cosine, "norm": prediction.query.norm}
    return results


def _by_simulation(cell: Cell, repeat: int) -> tuple[str, dict[str, float]]:
    outcome = run_repeat(cell.settings, repeat)
    run = Simulation(cell.settings, (outcome,))
    values = {name: getattr(run, name)[0] for name in (*QUANTITIES, "certificate")}
    if outcome.readout is not None or outcome.only_class:
        scores = run.scores(0, cell.test_task)
        values["auc"] = scores.auc
        if cell.test_task is not None:
            values["test_error"] = scores.test_error
    return ("" if outcome.status == "ok" else outcome.status), values


def grid(**axes: Any) -> list[Cell]:
    """Cells for every combination of the given values.

    Names are those of `Task`, `Protocol` and `Cell`; a list is an axis, anything else is the same
    in all cells. The last axis varies fastest.

    Parameters
    ----------
    axes
        Fields by name, `classifier` among them: a value, or a list of values.

    Returns
    -------
    list of Cell
        One for each combination, to be given to `sweep`.

    Raises
    ------
    InvalidInput
        A name that is no field, or a value that its field does not allow.

    Examples
    --------
    >>> from sparsetoken import Attention, Pooled
    >>> cells = grid(length=10, sparsity=1, strength=[3.0, 5.0], classifier=[Attention(), Pooled()])
    >>> len(cells), cells[1].classifier, cells[2].task.strength
    (4, Pooled(), 5.0)
    """
    allowed = {*_TASK, *_PROTOCOL, *(field.name for field in fields(Cell))}
    for name in axes:
        if name not in allowed:
            raise InvalidInput(f"grid: {name!r} must be one of {', '.join(sorted(allowed))}")
    if "classifier" not in axes:
        raise InvalidInput("grid: classifier must be given")
    lists = {name: value if isinstance(value, list) else [value] for name, value in axes.items()}
    for name, values in lists.items():
        if not values:
            raise InvalidInput(f"grid: {name} must have at least one value, got []")
    combinations = itertools.product(*lists.values())
    return [_cell(dict(zip(lists, values, strict=True))) for values in combinations]


def _cell(given: dict[str, Any]) -> Cell:
    task, protocol = _part(Task, given), _part(Protocol, given)
    return Cell(task, protocol=protocol, **given)


def _part(kind: type[Task | Protocol], given: dict[str, Any]) -> Any:
    """The task or protocol, taken from what is given: whole, by fields, or whole and changed."""
    name = kind.__name__
    parts = {field.name: given.pop(field.name) for field in fields(kind) if field.name in given}
    if name.lower() in given:
        base = given.pop(name.lower())
        if type(base) is not kind:
            raise refusal("grid", name.lower(), base, f"a {name}")
        return replace(base, **parts)
    try:
        return kind(**parts)
    except TypeError:
        needed = [f.name for f in fields(kind) if f.default is MISSING and f.name not in parts]
        raise InvalidInput(f"grid: {name} needs more: {', '.join(needed)}") from None

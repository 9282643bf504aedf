"""`Cell`: one question of a study, answered by theory or by simulation; `grid` of many."""

from __future__ import annotations

import itertools
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
from sparsetoken.studies.questions import Question, bare, field_values
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.theory.prediction import predict

Kind = Literal["theory", "simulation", "separability"]
_TASK = tuple(field.name for field in fields(Task))
_PROTOCOL = tuple(field.name for field in fields(Protocol))
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
        if self.kind not in get_args(Kind):
            allowed = ", ".join(map(repr, get_args(Kind)))
            raise InvalidInput(f"Cell: kind must be one of {allowed}, got {self.kind!r}")
        if self.test_task is not None:
            self._check_test_task(self.test_task)
        self._check_sizes()
        if self.kind != "theory":
            if self.dim is None:
                raise InvalidInput(f"Cell: dim must be given for a {self.kind}, got None")
            self.settings  # noqa: B018 (checked before any work)

    def _check_sizes(self) -> None:
        """Of the simulation, also where the theory does not need them: a slip is a slip."""
        checked: dict[str, Any] = {
            "repeats": whole(Cell, "repeats", self.repeats, least=1, most=_MOST_REPEATS),
            "seed": whole(Cell, "seed", self.seed, least=0),
            "test_samples": whole(Cell, "test_samples", self.test_samples, least=1),
        }
        if self.dim is not None:
            checked["dim"] = whole(Cell, "dim", self.dim, least=1, most=_MOST_REPEATS**2)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        choices: dict[str, tuple[Any, ...]] = {
            "sampler": get_args(Sampler),
            "training": get_args(Training),
            "dtype": ("float64", "float32"),
            "reuse_data": (False, True),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if type(value) not in (str, bool) or value not in allowed:
                words = ", ".join(map(repr, allowed))
                raise InvalidInput(f"Cell: {name} must be one of {words}, got {value!r}")
        if not (self.device is None or isinstance(self.device, str)):
            raise InvalidInput(f"Cell: device must be None or a name, got {self.device!r}")
        if self.kind == "separability":
            plain = {"sampler": "reduced", "device": None, "dtype": "float64", "test_task": None}
            for name, value in plain.items():
                if getattr(self, name) != value:
                    raise InvalidInput(
                        f"Cell: {name} must be {value!r} for a separability, "
                        f"got {getattr(self, name)!r}"
                    )

    def _check_test_task(self, other: object) -> None:
        if not isinstance(other, Task):
            raise InvalidInput(f"Cell: test_task must be a Task, got {other!r}")
        why = self.classifier.possible(other, trained_on=self.task)
        if why is not None:
            raise InvalidInput(f"Cell: test_task: {why}")

    @property
    def settings(self) -> Settings:
        """What `simulate` needs; one BLAS thread, so that every executor gives the same numbers."""
        assert self.dim is not None
        return Settings(
            self.task, self.classifier, self.protocol, self.dim, self.seed, self.sampler,
            self.device, self.dtype, self.test_samples, self.reuse_data, training=self.training,
        )  # fmt: skip

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
        other = self.test_task
        values |= {f"test_{name}": other and getattr(other, name) for name in _TASK}
        return {name: bare(value) for name, value in values.items()}

    @property
    def shares(self) -> tuple[Any, ...]:
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
    results = {
        name: float(getattr(prediction, name))
        for name in ("train_error", "train_loss", "bias", "residual")
    }
    scores = prediction.scores if cell.test_task is None else prediction.on(cell.test_task)
    results |= {"test_error": scores.test_error, "auc": scores.auc}
    results["readout_norm"] = prediction.fit.norm
    query = prediction.query
    if query is not None:
        results |= {"cosine": query.cosine, "norm": query.norm}
    return results


def _by_simulation(cell: Cell, repeat: int) -> tuple[str, dict[str, float]]:
    outcome = run_repeat(cell.settings, repeat)
    run = Simulation(cell.settings, (outcome,))
    values = {name: float(getattr(run, name)[0]) for name in (*QUANTITIES, "certificate")}
    if outcome.readout is not None or outcome.only_class:
        scores = run.scores(0, cell.test_task)
        values["auc"] = scores.auc
        if cell.test_task is not None:
            values["test_error"] = scores.test_error
    present = {name: value for name, value in values.items() if value == value}
    return ("" if outcome.status == "ok" else outcome.status), present


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
    own = tuple(field.name for field in fields(Cell))
    allowed = {*_TASK, *_PROTOCOL, *own}
    for name in axes:
        if name not in allowed:
            raise InvalidInput(f"grid: {name!r} must be one of {', '.join(sorted(allowed))}")
    if "classifier" not in axes:
        raise InvalidInput("grid: classifier must be given")
    lists = {name: value if isinstance(value, list) else [value] for name, value in axes.items()}
    for name, values in lists.items():
        if not values:
            raise InvalidInput(f"grid: {name} must have at least one value, got []")
    cells = []
    for combination in itertools.product(*lists.values()):
        given = dict(zip(lists, combination, strict=True))
        task = given.pop("task", None)
        parts = {name: given.pop(name) for name in _TASK if name in given}
        task = _changed(Task, task, parts) if task is not None else _make(Task, parts)
        protocol = given.pop("protocol", Protocol())
        parts = {name: given.pop(name) for name in _PROTOCOL if name in given}
        cells.append(Cell(task, protocol=_changed(Protocol, protocol, parts), **given))
    return cells


def _make(kind: type, parts: dict[str, Any]) -> Any:
    try:
        return kind(**parts)
    except TypeError:
        needed = [f.name for f in fields(kind) if f.default is MISSING and f.name not in parts]
        raise InvalidInput(f"grid: {kind.__name__} needs more: {', '.join(needed)}") from None


def _changed(kind: type, given: Any, parts: dict[str, Any]) -> Any:
    if type(given) is not kind:
        name = kind.__name__
        raise InvalidInput(f"grid: {name.lower()} must be a {name}, got {given!r}")
    changed: Any = replace(given, **parts)  # type: ignore[type-var]
    return changed

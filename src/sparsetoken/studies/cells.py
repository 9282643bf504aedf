r"""`Cell`: one question of a study, theory or simulation, and the rows that answer it.

A cell has a row per repeat (theory has one). A row's key is a hash of everything that fixes its
numbers, so the same question is asked once, whatever study it stands in.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple

from sparsetoken.blas import one_blas_thread
from sparsetoken.model.checks import whole
from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.simulation.experiment import run_repeat
from sparsetoken.simulation.results import QUANTITIES, Simulation
from sparsetoken.simulation.settings import Sampler, Settings, check_kinds
from sparsetoken.theory.prediction import predict

Kind = Literal["theory", "simulation"]
_KEY_VERSION = 2  # of the content that is hashed
_TASK = tuple(field.name for field in fields(Task))
_PROTOCOL = tuple(field.name for field in fields(Protocol))
_SIMULATION = ("dim", "seed", "sampler", "device", "dtype", "test_samples", "reuse_data")


@dataclass(frozen=True)
class Cell:
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

    def __post_init__(self) -> None:
        check_kinds("Cell", self.task, self.classifier, self.protocol)
        if self.kind not in ("theory", "simulation"):
            raise ValueError(f"Cell: kind must be 'theory' or 'simulation', got {self.kind!r}")
        if self.kind == "simulation":
            if self.dim is None:
                raise ValueError("Cell: dim must be given for a simulation, got None")
            settings = self.settings
            checked = {name: getattr(settings, name) for name in ("dim", "seed", "test_samples")}
            checked["repeats"] = whole(Cell, "repeats", self.repeats, least=1)
            for name, value in checked.items():
                object.__setattr__(self, name, value)

    @property
    def settings(self) -> Settings:
        """What `simulate` needs; one BLAS thread, so that every executor gives the same numbers."""
        assert self.dim is not None
        return Settings(
            self.task, self.classifier, self.protocol, self.dim, self.seed, self.sampler,
            self.device, self.dtype, self.test_samples, self.reuse_data,
        )  # fmt: skip

    def parameters(self) -> dict[str, Any]:
        """Every parameter by name, flat; those that do not matter are None."""
        simulated = self.kind == "simulation"
        loss = self.protocol.loss
        classifier = self.classifier
        values: dict[str, Any] = {"kind": self.kind, "classifier": _name(classifier)}
        values |= {f"frozen_{name}": value for name, value in _dataclass_values(classifier).items()}
        values |= {name: getattr(self.task, name) for name in _TASK}
        values |= {name: getattr(self.protocol, name) for name in _PROTOCOL}
        values |= {"loss": _name(loss)}
        values |= {f"loss_{name}": value for name, value in _dataclass_values(loss).items()}
        values |= {name: getattr(self, name) if simulated else None for name in _SIMULATION}
        if self.sampler != "tokens":
            values |= {"test_samples": None, "reuse_data": None}
        return values

    @property
    def shares(self) -> tuple[Any, ...]:
        """Equal for cells whose work has something in common: the law, in theory."""
        recipe = replace(self.protocol, readout_samples=1.0, ridge=1.0)
        return (self.kind, self.task, self.classifier, recipe, self.dim, self.sampler)

    def units(self) -> list[Unit]:
        """The rows this cell asks for, in order."""
        count = self.repeats if self.kind == "simulation" else 1
        content = self.parameters()
        return [Unit(self, repeat, _key(content, repeat)) for repeat in range(count)]


class Unit(NamedTuple):
    """One row to compute: the work that is sent to a process or a machine."""

    cell: Cell
    repeat: int
    key: str


class Row(NamedTuple):
    """An answered unit."""

    key: str
    repeat: int
    parameters: dict[str, Any]
    status: str  # "ok", "no fit" or "failed"
    message: str
    results: dict[str, float]
    seconds: float


def answer(unit: Unit) -> Row:
    """Compute a row; a failure is a row that says why."""
    start = time.perf_counter()
    status, message, results = "ok", "", {}
    try:
        with one_blas_thread():
            if unit.cell.kind == "theory":
                results = _by_theory(unit.cell)
            else:
                message, results = _by_simulation(unit.cell, unit.repeat)
                status = "no fit" if message else "ok"
    except Exception as error:
        status, message = "failed", f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    return Row(unit.key, unit.repeat, unit.cell.parameters(), status, message, results, seconds)


def _by_theory(cell: Cell) -> dict[str, float]:
    prediction = predict(cell.task, cell.classifier, cell.protocol)
    results = {
        name: float(getattr(prediction, name))
        for name in ("test_error", "train_error", "train_loss", "auc", "bias", "residual")
    }
    results["readout_norm"] = prediction.fit.norm
    query = prediction.query
    if query is not None:
        results |= {"cosine": query.cosine, "norm": query.norm}
    return results


def _by_simulation(cell: Cell, repeat: int) -> tuple[str, dict[str, float]]:
    outcome = run_repeat(cell.settings, repeat)
    run = Simulation(cell.settings, (outcome,))
    values = {name: float(getattr(run, name)[0]) for name in (*QUANTITIES, "auc", "certificate")}
    present = {name: value for name, value in values.items() if value == value}
    return ("" if outcome.status == "ok" else outcome.status), present


def grid(**axes: Any) -> list[Cell]:
    """Cells for every combination of the given values.

    Names are those of `Task`, `Protocol` and `Cell`; a list is an axis, anything else is the same
    in all cells. The last axis varies fastest.

    >>> from sparsetoken import Attention, Pooled
    >>> cells = grid(length=10, sparsity=1, strength=[3.0, 5.0], classifier=[Attention(), Pooled()])
    >>> len(cells), cells[1].classifier, cells[2].task.strength
    (4, Pooled(), 5.0)
    """
    own = tuple(field.name for field in fields(Cell))
    allowed = {*_TASK, *_PROTOCOL, *own}
    for name in axes:
        if name not in allowed:
            raise ValueError(f"grid: {name!r} must be one of {', '.join(sorted(allowed))}")
    if "classifier" not in axes:
        raise ValueError("grid: classifier must be given")
    lists = {name: value if isinstance(value, list) else [value] for name, value in axes.items()}
    for name, values in lists.items():
        if not values:
            raise ValueError(f"grid: {name} must have at least one value, got []")
    cells = []
    for combination in itertools.product(*lists.values()):
        given = dict(zip(lists, combination, strict=True))
        task = given.pop("task", None)
        parts = {name: given.pop(name) for name in _TASK if name in given}
        task = replace(task, **parts) if task is not None else _make(Task, parts)
        protocol = given.pop("protocol", Protocol())
        parts = {name: given.pop(name) for name in _PROTOCOL if name in given}
        cells.append(Cell(task, protocol=replace(protocol, **parts), **given))
    return cells


def units_of(cells: Iterable[Cell]) -> list[Unit]:
    """The rows of all cells, in order, each once."""
    unique: dict[str, Unit] = {}
    for cell in cells:
        if not isinstance(cell, Cell):
            raise ValueError(f"sweep: cells must be Cell objects (see grid), got {cell!r}")
        for unit in cell.units():
            unique.setdefault(unit.key, unit)
    return list(unique.values())


def _make(kind: type, parts: dict[str, Any]) -> Any:
    try:
        return kind(**parts)
    except TypeError as error:
        raise ValueError(f"grid: {kind.__name__} needs more: {error}") from None


def _name(thing: object) -> str:
    """SquaredHinge → squared-hinge."""
    words = "".join(f"-{c.lower()}" if c.isupper() else c for c in type(thing).__name__)
    return words.lstrip("-")


def _dataclass_values(thing: Any) -> dict[str, Any]:
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


def _key(content: dict[str, Any], repeat: int) -> str:
    whole_content = {**content, "repeat": repeat, "key_version": _KEY_VERSION}
    return hashlib.sha256(json.dumps(whole_content, sort_keys=True).encode()).hexdigest()


def failed(unit: Unit, message: str) -> Row:
    """The row of a unit that gave none itself."""
    return Row(unit.key, unit.repeat, unit.cell.parameters(), "failed", message, {}, 0.0)


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as a table shows them: sequences become text."""
    return {
        name: json.dumps(value)
        if isinstance(value, Sequence) and not isinstance(value, str)
        else value
        for name, value in parameters.items()
    }

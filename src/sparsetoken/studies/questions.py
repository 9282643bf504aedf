r"""`Question`: what a sweep answers, row by row.

A question has a row per repeat. A row's key is a hash of everything that fixes its numbers, the
version of the numerics included, so the same question is asked once, whatever study it stands in,
and again when numbers have changed.
"""

from __future__ import annotations

import hashlib
import json
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.errors import ConvergenceError, InvalidInput, NoMinimiserError
from sparsetoken.support.numerics import NUMERICS

_KEY_VERSION = 2  # of the content that is hashed
_NAMED = (InvalidInput, NoMinimiserError, ConvergenceError)  # say all there is to say


class Question(ABC):
    """Anything that can be swept: it names its parameters and computes a row."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Every parameter by name, flat; those that do not matter are None."""

    @abstractmethod
    def compute(self, repeat: int) -> tuple[str, dict[str, float]]:
        """Why there is no answer ("" if there is one), and the results; NaN is none."""

    @property
    def count(self) -> int:
        """How many rows it has."""
        return 1

    @property
    def shares(self) -> Hashable:
        """Equal for questions whose work has something in common, such as a law."""
        return None

    def units(self) -> list[Unit]:
        """The rows this question asks for, in order."""
        content = self.parameters()
        units = []
        for repeat in range(self.count):
            key, *older = (_key(content, repeat, version) for version in range(NUMERICS, 0, -1))
            units.append(Unit(self, repeat, key, tuple(older)))
        return units


class Unit(NamedTuple):
    """One row to compute: the work that is sent to a process or a machine."""

    cell: Question
    repeat: int
    key: str
    older: tuple[str, ...] = ()  # its keys under older numerics, the newest first


class Row(NamedTuple):
    """An answered unit."""

    key: str
    repeat: int
    parameters: dict[str, Any]
    status: str  # "ok", "no fit" or "failed"
    message: str
    results: dict[str, float]
    seconds: float
    traceback: str = ""  # of a failure that has no name


def answer(unit: Unit) -> Row:
    """Compute a row; a failure is a row that says why."""
    start = time.perf_counter()
    results: dict[str, float] = {}
    trace = ""
    try:
        with one_blas_thread():
            message, values = unit.cell.compute(unit.repeat)
            results = {name: float(value) for name, value in values.items() if value == value}
        status = "no fit" if message else "ok"
    except Exception as error:
        status, message = "failed", f"{type(error).__name__}: {error}"
        if not isinstance(error, _NAMED):
            trace = traceback.format_exc()
    seconds = time.perf_counter() - start
    content = unit.cell.parameters()
    return Row(unit.key, unit.repeat, content, status, message, results, seconds, trace)


def failed(unit: Unit, message: str) -> Row:
    """The row of a unit that gave none itself."""
    return Row(unit.key, unit.repeat, unit.cell.parameters(), "failed", message, {}, 0.0)


def units_of(cells: Iterable[Question]) -> list[Unit]:
    """The rows of all cells, in order, each once."""
    unique: dict[str, Unit] = {}
    if isinstance(cells, Question) or not isinstance(cells, Iterable):
        raise InvalidInput(f"sweep: cells must be a list of Cell objects (see grid), got {cells!r}")
    for cell in cells:
        if not isinstance(cell, Question):
            raise InvalidInput(f"sweep: cells must be Cell objects (see grid), got {cell!r}")
        for unit in cell.units():
            unique.setdefault(unit.key, unit)
    return list(unique.values())


def kept_keys(
    units: Iterable[Unit], statuses: Mapping[str, str], retry_failed: bool, recompute: bool
) -> dict[str, str]:
    """Of units that need no work, by their keys: the keys of their rows, own or older ones."""
    keys = {}
    for unit in units:
        if unit.key in statuses and not (retry_failed and statuses[unit.key] == "failed"):
            keys[unit.key] = unit.key
        elif not recompute:
            older = [key for key in unit.older if statuses.get(key) in ("ok", "no fit")]
            if older:
                keys[unit.key] = older[0]
    return keys


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as a table shows them: sequences become text."""
    return {
        name: json.dumps(value) if isinstance(value, list | tuple) else value
        for name, value in parameters.items()
    }


def field_values(thing: Any, prefix: str = "") -> dict[str, Any]:
    """The fields of a dataclass by name, as parameters."""
    return {f"{prefix}{field.name}": bare(getattr(thing, field.name)) for field in fields(thing)}


def bare(value: object) -> Any:
    """A parameter as a number, text or None; a law or a weighting by its code."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str, tuple, list)):
        return value
    words = repr(value)
    if " at 0x" in words:
        raise InvalidInput(
            f"sweep: a parameter must have a repr that tells its values (a dataclass has), got "
            f"{words}"
        )
    return words


# Parameters that were added later: at these values the key is what it was before.
_ADDED = {
    "token_correlation": (0.0,), "test_token_correlation": (None, 0.0),
    "weighting": (None, "Softmax()"),
    "noise": ("White()",), "test_noise": (None, "White()"),
    "signal_spread": (None,), "test_signal_spread": (None,),
}  # fmt: skip


def _key(content: dict[str, Any], repeat: int, numerics: int) -> str:
    whole_content = {**content, "repeat": repeat, "key_version": _KEY_VERSION}
    if numerics > 1:  # rows of the first version had no such entry
        whole_content["numerics"] = numerics
    for name, usual in _ADDED.items():
        if name in whole_content and whole_content[name] in usual:
            del whole_content[name]
    text = json.dumps(whole_content, sort_keys=True, default=bare)
    return hashlib.sha256(text.encode()).hexdigest()

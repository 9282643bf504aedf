r"""A study as a TOML file: every combination of its lists is a cell.

The keys are the fields of `Cell` (at the top), `Task` (under [task]) and `Protocol` (under
[protocol]); classifiers, losses and weightings go by name, a strength or sparsity that varies is a
table. A wrong key or value is named with the file.
"""

from __future__ import annotations

import itertools
import os
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.covariances import Spectrum, TokenNoise, White
from sparsetoken.model.names import CLASSIFIERS, LOSSES, WEIGHTINGS
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.signals import Continuous, Discrete
from sparsetoken.model.task import Task
from sparsetoken.studies.cells import Cell, grid
from sparsetoken.support.errors import InvalidInput

_TABLES = {"task": Task, "protocol": Protocol}
_CELL = [field.name for field in fields(Cell) if field.name not in (*_TABLES, "test_task")]
_OPTIONS = ("cosine", "sharpness", "weighting")  # of classifiers that have them
_TOP = (*_CELL, *_OPTIONS)


def load_study(path: str | os.PathLike[str]) -> list[Cell]:
    """The cells of a study file."""
    name = repr(str(path))
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InvalidInput(f"study {name} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"study {name} is not a TOML file: {error}") from None
    try:
        return grid(**_axes(content))
    except InvalidInput as error:
        raise InvalidInput(f"study {name}: {error}") from None


def _axes(content: dict[str, Any]) -> dict[str, Any]:
    """What `grid` takes."""
    axes: dict[str, Any] = {}
    for key, value in content.items():
        if key in _TABLES:
            axes |= _table(key, value)
        elif key in _TOP:
            axes[key] = value
        else:
            allowed = ", ".join([*_TOP, *(f"[{table}]" for table in _TABLES)])
            raise InvalidInput(f"key {key!r} must be one of {allowed}")
    if "classifier" not in axes:
        raise InvalidInput(f"classifier must be given ({', '.join(CLASSIFIERS)})")
    axes["classifier"] = _classifiers(axes)
    if "loss" in axes:
        axes["loss"] = [LOSSES.make(loss, "[protocol]") for loss in _list(axes["loss"])]
    return axes


def _table(table: str, values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise InvalidInput(f"{table} must be a table, [{table}], got {values!r}")
    allowed = [field.name for field in fields(_TABLES[table])]
    for key in values:
        if key not in allowed:
            raise InvalidInput(f"key {key!r} under [{table}] must be one of {', '.join(allowed)}")
    if isinstance(values.get("places"), list):  # one list of weights, not an axis
        values = {**values, "places": [tuple(values["places"])]}
    return {key: _varying(key, value) for key, value in values.items()}


def _varying(key: str, value: Any) -> Any:
    """With laws for its tables: {values = […], weights = […]}, {family = …, parameters = […]}; in
    a list of spreads a list has the eigenvalues of one."""
    if isinstance(value, list):
        spreads = key == "signal_spread"
        return [
            tuple(entry) if spreads and isinstance(entry, list) else _varying(key, entry)
            for entry in value
        ]
    if key == "noise":
        return _noise(value)
    if not isinstance(value, dict):
        return value
    kinds: tuple[Any, ...] = (Discrete, Continuous)
    for kind in kinds:
        names = [field.name for field in fields(kind)]
        if value and set(value) <= set(names):
            try:
                return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in value.items()})
            except InvalidInput as error:
                raise InvalidInput(f"{key}: {error}") from None
            except TypeError:  # a key is missing
                raise InvalidInput(f"{key} must have {' and '.join(names)}") from None
    raise InvalidInput(
        f"{key} must be a number, {{values = […], weights = […]}} or "
        f"{{family = …, parameters = […]}}, got {value!r}"
    )


def _noise(value: Any) -> TokenNoise:
    """{power_law = 0.8}, with atoms = … if you like, or the fields of a `Spectrum`; "white"."""
    if value == "white":
        return White()
    law, spectrum = {"power_law", "atoms"}, {field.name for field in fields(Spectrum)}
    if isinstance(value, dict) and "power_law" in value and set(value) <= law:
        return Spectrum.power_law(value["power_law"], value.get("atoms", 100))
    if isinstance(value, dict) and "eigenvalues" in value and set(value) <= spectrum:
        return Spectrum(**value)
    raise InvalidInput(
        'noise must be "white", {power_law = …}, with atoms = … if you like, or {eigenvalues = […]}'
        f", with density = […] and signal_share = […] if you like, got {value!r}"
    )


def _classifiers(axes: dict[str, Any]) -> list[Classifier]:
    """Each classifier with every combination of the options it has, which leave the axes."""
    lists = {option: _list(axes.pop(option)) for option in _OPTIONS if option in axes}
    if "weighting" in lists:
        lists["weighting"] = [WEIGHTINGS.make(name) for name in lists["weighting"]]
    made = (
        CLASSIFIERS.make(name, **dict(zip(lists, values, strict=True)))
        for name in _list(axes["classifier"])
        for values in itertools.product(*lists.values())
    )
    return list(dict.fromkeys(made))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]

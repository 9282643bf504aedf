"""A task in the words of the command line: its noise as a file of eigenvalues, or a power law."""

from __future__ import annotations

import csv
import inspect
import json
import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

import tyro
from tyro.constructors import (
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

import sparsetoken as st
from sparsetoken.model.covariances import Spread, TokenNoise

_OPTIONS: dict[str, tuple[Any, str]] = {
    "spectrum": (
        Path | None,
        "JSON file, or CSV file with columns, of eigenvalues of the noise's covariance and, if you "
        "like, density and signal_share, of each its share; white noise if not given.",
    ),
    "power_law": (
        float | None,
        "Exponent a of eigenvalues that fall like k^-a, with mean 1, instead of such a file.",
    ),
    "signal_spread": (
        Spread,
        "Covariance of signal tokens: a number of times that of the noise, or its eigenvalues on "
        "those of the noise, joined by commas; that of the noise if not given.",
    ),
}


def task_fields(info: StructTypeInfo) -> StructConstructorSpec | None:
    """How tyro makes a `Task`."""
    if info.type is not st.Task:
        return None
    hints, words = get_type_hints(st.Task), _descriptions()
    entries = [
        StructFieldSpec(
            field.name,
            hints[field.name],
            tyro.MISSING if field.default is MISSING else field.default,
            words[field.name],
        )
        for field in fields(st.Task)
        if hints[field.name] not in (TokenNoise, Spread)
    ]
    entries += [StructFieldSpec(name, kind, None, text) for name, (kind, text) in _OPTIONS.items()]
    return StructConstructorSpec(_made, tuple(entries))


def _made(
    spectrum: Path | None, power_law: float | None, signal_spread: Spread, **task: Any
) -> st.Task:
    noise: TokenNoise = st.White()
    if spectrum is not None and power_law is not None:
        raise st.InvalidInput("spectrum and power_law must not both be given")
    if spectrum is not None:
        noise = _read(spectrum)
    if power_law is not None:
        noise = st.Spectrum.power_law(power_law)
    return st.Task(**task, noise=noise, signal_spread=signal_spread)


def _read(path: Path) -> st.Spectrum:
    """A spectrum from a JSON or CSV file."""
    content = _columns(path) if path.suffix.lower() == ".csv" else _json(path)
    allowed = [field.name for field in fields(st.Spectrum)]
    if not isinstance(content, dict) or not {"eigenvalues"} <= set(content) <= set(allowed):
        raise st.InvalidInput(
            f"spectrum: {path} must have eigenvalues and may have density and signal_share, each "
            "a list of numbers"
        )
    return st.Spectrum(**content)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise st.InvalidInput(f"spectrum: {path} must be JSON: {error}") from None


def _columns(path: Path) -> dict[str, list[float]]:
    """Columns of numbers by their names in the first line; `eigenvalue` is a name for the first."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = [row for row in csv.reader(file) if row]
        names = [name.strip() for name in table[0]]
        columns = zip(*table[1:], strict=True)
        numbers = [[float(value) for value in column] for column in columns]
        content = dict(zip(names, numbers, strict=True))
    except (ValueError, IndexError):
        raise st.InvalidInput(
            f"spectrum: {path} must have a line of names (eigenvalues, density, signal_share) and "
            "a number for each in every other line"
        ) from None
    if "eigenvalue" in content:
        content["eigenvalues"] = content.pop("eigenvalue")
    return content


def spread_words() -> PrimitiveConstructorSpec[Any]:
    """How words become a spread."""

    def read(words: list[str]) -> float | tuple[float, ...]:
        try:
            values = tuple(float(word) for word in words[0].split(","))
        except ValueError:
            raise st.InvalidInput(
                f"signal_spread must be a number, or several joined by commas, got {words[0]!r}"
            ) from None
        return values if len(values) > 1 else values[0]

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="NUMBER,…",
        instance_from_str=read,
        is_instance=lambda value: value is None or isinstance(value, int | float | tuple),
        str_from_instance=lambda value: [str(value)],
    )


def _descriptions() -> dict[str, str]:
    """What the docstring of `Task` says of each field."""
    text = inspect.cleandoc(st.Task.__doc__ or "")
    entries = re.findall(r"^(\w+) : .*\n((?:    .*\n)+)", text, re.MULTILINE)
    return {name: " ".join(line.strip() for line in lines.split("\n")) for name, lines in entries}

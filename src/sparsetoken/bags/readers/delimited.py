"""Tables as text, CSV or TSV: how they are written, and their numbers exactly as they stand there.

Every number that is none is refused with its row (counted from 1 after the header) and column.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from sparsetoken.bags.readers.tables import (
    BAGS,
    LABELS,
    BagRows,
    bag_rows,
    columns_of,
    left_aside,
    simplified,
)
from sparsetoken.bags.readers.untrusted import free_memory
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

_LONGEST_LINE = 1 << 24  # bytes: a million features of sixteen letters
_BLOCK = 1 << 22  # numbers parsed at once
_warning = Lock()  # filters of warnings are the whole process's, tables are read by threads
_NO_NUMBERS = ["", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "<NA>"]


@dataclass(frozen=True)
class Dialect:
    """What parts columns, and what they are called."""

    delimiter: str
    names: tuple[str, ...]
    header: bool

    @classmethod
    def of(cls, path: Path) -> Dialect:
        """By the first line: without a header it is a label (a number), a bag, features."""
        with text_of_strangers(), path.open(encoding="utf-8-sig", newline="") as file:
            line = file.readline(_LONGEST_LINE)
        if "\0" in line:
            raise InvalidInput("this is not text, or not in UTF-8")
        if not line.strip():
            raise InvalidInput("the first line must name the columns, it is empty")
        if len(line) >= _LONGEST_LINE:
            raise InvalidInput(f"the first line must be shorter than {_LONGEST_LINE} letters")
        delimiter = max(",;\t", key=line.count) if path.suffix.lower() == ".csv" else "\t"
        with text_of_strangers():
            (cells,) = csv.reader([line], delimiter=delimiter)
        first = [cell.strip() for cell in cells]
        named = any(simplified(cell) in {*BAGS, *LABELS} for cell in first[:2])
        if not named and len(first) > 2 and all(map(_is_number, [first[0], *first[2:]])):
            features = (f"feature {place}" for place in range(1, len(first) - 1))
            return cls(delimiter, ("label", "bag", *features), header=False)
        return cls(delimiter, tuple(first), header=True)

    def blocks(self, path: Path, kinds: dict[int, type], rows: int) -> Iterator[Any]:
        """Data frames of some columns, by their places, so many rows at a time."""
        import pandas as pd

        numbers = [place for place, kind in kinds.items() if kind is not str]
        width, before = len(self.names), 0
        every = dict.fromkeys(range(width + 1), str) | kinds  # one more: what is there is too much
        settings: dict[str, Any] = {
            "sep": self.delimiter, "header": None, "skiprows": int(self.header),
            "names": list(every), "index_col": False, "dtype": every, "keep_default_na": False,
            "na_values": {place: _NO_NUMBERS for place in numbers}, "encoding": "utf-8-sig",
        }  # fmt: skip
        if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # later ones are exact
            settings["float_precision"] = "round_trip"
        with text_of_strangers():
            table = pd.read_csv(path, chunksize=rows, **settings)
        with table:
            while True:
                with text_of_strangers(), _warning, warnings.catch_warnings():
                    warnings.simplefilter("error")  # of rows with more columns than the header
                    block = next(table, None)
                if block is None:
                    return
                excess = np.flatnonzero(block[width].fillna("") != "")
                if len(excess):
                    raise InvalidInput(
                        f"row {before + excess[0] + 1} must have {width} columns, it has more"
                    )
                before += len(block)
                yield block


@contextmanager
def text_of_strangers() -> Iterator[None]:
    """Around code of others that reads text we do not trust."""
    try:
        yield
    except InvalidInput:
        raise
    except UnicodeError as error:
        raise InvalidInput(f"this is not text in UTF-8 ({error})") from error
    except (ValueError, Warning, csv.Error, OSError, OverflowError) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise InvalidInput(f"this is not a table of text, or it is damaged ({words})") from error


@dataclass(frozen=True, eq=False)
class InMemory:
    """Tokens (N, d) in memory; a bag is found by its rows."""

    values: FloatArray
    places: FloatArray | None  # (N, 2)

    def tokens(self, key: Any) -> FloatArray:
        return self.values[key]

    def coordinates(self, key: Any) -> FloatArray | None:
        return None if self.places is None else self.places[key]


def read_delimited(
    path: Path, bag_column: str | None, label_column: str | None, group_column: str | None
) -> tuple[BagRows, InMemory, tuple[str, ...]]:
    """All of a table: bags by their rows, tokens in memory, and what was left out."""
    dialect = Dialect.of(path)
    if not dialect.header and any((bag_column, label_column, group_column)):
        raise InvalidInput(
            "bag_column, label_column and group_column must be None: the table has no header with "
            "such names"
        )
    columns = columns_of(dialect.names, bag_column, label_column, group_column)
    numeric = [*columns.features, *(columns.coordinates or ())]
    width = len(numeric)
    most = _lines(path)
    if most * width * 8 > free_memory():
        raise InvalidInput(
            f"{most} rows of {width} numbers need {most * width * 8} bytes, {free_memory():.0f} "
            "are free for them: convert the table to Parquet, of which bags are read one "
            "at a time: " + conversion(path, dialect)
        )
    values, filled = np.empty((most, width)), 0
    others = (columns.label, columns.group)
    words = {place: str for place in (columns.bag, *others) if place is not None}
    kinds: dict[int, type] = {**words, **dict.fromkeys(numeric, float)}
    rows = max(1, _BLOCK // width)

    def blocks() -> Iterator[tuple[Any, Any, Any]]:
        nonlocal filled
        try:
            for block in dialect.blocks(path, kinds, rows):
                numbers = block[numeric].to_numpy(dtype=float)
                _check_numbers(numbers, filled, [dialect.names[place] for place in numeric])
                values[filled : filled + len(numbers)] = numbers
                filled += len(numbers)
                label, group = (
                    None if place is None else block[place].fillna("") for place in others
                )
                yield block[columns.bag].fillna(""), label, group
        except InvalidInput:
            _explain(path, dialect, numeric, rows)
            raise

    label, group = (None if place is None else dialect.names[place] for place in others)
    index = bag_rows(blocks(), label, group, given=group_column is not None)
    depth = len(columns.features)
    places = values[:filled, depth:] if columns.coordinates else None
    aside = left_aside(dialect.names[place] for place in columns.aside)
    return index, InMemory(values[:filled, :depth], places), index.notes + aside


def _check_numbers(numbers: FloatArray, before: int, names: list[str]) -> None:
    if np.isfinite(numbers).all():
        return
    row, column = np.argwhere(~np.isfinite(numbers))[0]
    raise InvalidInput(
        f"row {before + row + 1}, column {names[column]!r} must have a finite number"
    )


def _explain(path: Path, dialect: Dialect, numeric: list[int], rows: int) -> None:
    """Raises for the first cell that is no number, if there is one: the parser does not say
    where."""
    before = 0
    for block in dialect.blocks(path, dict.fromkeys(numeric, str), rows):
        for row, cells in enumerate(block[numeric].fillna("").to_numpy()):
            for place, cell in zip(numeric, cells, strict=True):
                if not _is_number(cell):
                    raise InvalidInput(
                        f"row {before + row + 1}, column {dialect.names[place]!r} must have a "
                        f"finite number, got {cell[:40]!r}"
                    )
        before += len(block)


def _is_number(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word))) and "_" not in word
    except ValueError:
        return False


def _lines(path: Path) -> int:
    """At least as many as the table has rows."""
    count = 1
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            count += max(block.count(b"\n"), block.count(b"\r"))
    return count


def conversion(path: Path, dialect: Dialect) -> str:
    """A command that makes a Parquet file of a table, a block at a time."""
    features = len(dialect.names) - 2
    names = f"column_names=['label', 'bag', *map(str, range({features}))]"
    names = "" if dialect.header else names
    code = (
        "from pyarrow import csv, parquet; "
        f"r = csv.open_csv({path.name!r}, csv.ReadOptions({names}), "
        f"csv.ParseOptions(delimiter={dialect.delimiter!r})); "
        f"w = parquet.ParquetWriter({path.stem + '.parquet'!r}, r.schema); "
        "[w.write_batch(b) for b in r]; w.close()"
    )
    return f'python -c "{code}"'

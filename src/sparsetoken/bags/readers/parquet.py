"""Tables in Parquet files: the columns that say which bag are read at once, tokens when asked for.

Features are columns of numbers, or one column of lists of numbers. Rows are read by row groups, and
those read last are kept, as far as a sixteenth of memory allows: bags which follow each other in a
file are read in one pass. Rows of all bags in no order at all, in more than that, are slow to read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.tables import (
    BagRows,
    bag_rows,
    columns_of,
    left_aside,
)
from sparsetoken.bags.readers.untrusted import foreign, free_memory
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput

_KIND = "a Parquet file"
_KEPT_SHARE = 8  # row groups in memory may take this part of what may be read at once
_kept: OrderedDict[tuple[Any, ...], NDArray[Any]] = OrderedDict()  # the one used last comes last
_keeping = Lock()  # bags are read by several threads


@dataclass(frozen=True)
class ParquetTable:
    """Rows of a Parquet file, found by their numbers."""

    path: str
    features: tuple[str, ...]
    places: tuple[str, str] | None
    ends: tuple[int, ...]  # of row groups, in rows

    def tokens(self, key: IntArray) -> NDArray[Any]:
        return self._rows(key, self.features)

    def coordinates(self, key: IntArray) -> FloatArray | None:
        if self.places is None:
            return None
        return np.asarray(self._rows(key, self.places), dtype=float)

    def _rows(self, key: IntArray, columns: tuple[str, ...]) -> NDArray[Any]:
        groups = np.searchsorted(self.ends, key, side="right")
        with foreign(_KIND):
            stamp = Path(self.path).stat().st_mtime_ns
        parts = []
        for group in np.unique(groups):
            start = self.ends[group - 1] if group else 0
            numbers = _group(self.path, stamp, int(group), columns)
            if len(numbers) != self.ends[group] - start:
                raise InvalidInput("the file has changed since it was opened, open it again")
            parts.append(numbers[key[groups == group] - start])
        return np.concatenate(parts)


def read_parquet(
    path: Path, bag_column: str | None, label_column: str | None, group_column: str | None
) -> tuple[BagRows, ParquetTable, int, tuple[str, ...]]:
    """Bags by their rows, a table that finds these, how many features there are, what was left
    out."""
    with foreign(_KIND, library=True):
        with _opened(str(path)) as file:
            schema, metadata = file.schema_arrow, file.metadata
            names = list(schema.names)
            columns = columns_of(names, bag_column, label_column, group_column)
            features = tuple(names[place] for place in columns.features)
            places = columns.coordinates
            pair = None if places is None else (names[places[0]], names[places[1]])
            if metadata.num_rows * 16 > free_memory():  # numbers of bags and of rows
                raise InvalidInput(f"{metadata.num_rows} rows are more than memory has room for")
            _check_kinds(schema, features, pair)
            bag = names[columns.bag]
            label, group = (
                None if place is None else names[place] for place in (columns.label, columns.group)
            )
            words = _words(file, bag, label, group)
            index = bag_rows(words, label, group, given=group_column is not None)
            counts = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        if sum(counts) != index.count:
            raise InvalidInput(
                f"{sum(counts)} rows are promised, {index.count} are there: the file is damaged or "
                "forged"
            )
        table = ParquetTable(str(path), features, pair, tuple(np.cumsum(counts).tolist()))
        dim = table.tokens(np.array([0])).shape[1]
        aside = left_aside(names[place] for place in columns.aside)
        return index, table, dim, index.notes + aside


def _check_kinds(schema: Any, features: tuple[str, ...], places: tuple[str, str] | None) -> None:
    import pyarrow.types as kinds

    def numbers(kind: Any) -> bool:
        return bool(kinds.is_floating(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind))

    lists = [name for name in features if _is_list(schema.field(name).type)]
    if lists and (len(features) > 1 or not numbers(schema.field(lists[0]).type.value_type)):
        raise InvalidInput(
            "features must be columns of numbers or one column of lists of numbers, got "
            f"{schema.field(lists[0]).type} in column {lists[0]!r} of {len(features)}"
        )
    for name in (*(features if not lists else ()), *(places or ())):
        if not numbers(schema.field(name).type):
            raise InvalidInput(
                f"column {name!r} must have numbers, got {schema.field(name).type}: leave it out"
            )


def _is_list(kind: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def _words(
    file: Any, bag: str, label: str | None, group: str | None
) -> Iterator[tuple[Any, Any, Any]]:
    """Bags, labels and groups of a file as words, block by block; "" where there is none."""
    for batch in file.iter_batches(columns=[name for name in (bag, label, group) if name]):
        cells = {
            name: np.array(
                ["" if word is None else str(word) for word in words.to_pylist()], object
            )
            for name, words in zip(batch.schema.names, batch.columns, strict=True)
        }
        yield cells[bag], label and cells[label], group and cells[group]


def _group(path: str, stamp: int, group: int, columns: tuple[str, ...]) -> NDArray[Any]:
    """The numbers of a row group (rows, d), kept or read; `stamp` is when the file was written."""
    key = (path, stamp, group, columns)
    with _keeping:
        numbers = _kept.pop(key, None)
        if numbers is None:
            numbers = _read_group(path, group, columns)
        _kept[key] = numbers
        while len(_kept) > 1 and sum(kept.nbytes for kept in _kept.values()) > _room():
            _kept.popitem(last=False)
        return numbers


def _room() -> float:
    return free_memory() / _KEPT_SHARE


def _read_group(path: str, group: int, columns: tuple[str, ...]) -> NDArray[Any]:
    with foreign(_KIND, library=True), _opened(path) as file:
        needed = 8 * _values(file.metadata.row_group(group), columns)
        if needed > free_memory():
            raise InvalidInput(
                f"a row group needs {needed} bytes, {free_memory():.0f} are free for it: write the "
                "file with smaller ones (row_group_size)"
            )
        table = file.read_row_group(group, columns=list(columns))
        if len(columns) == 1 and _is_list(table.schema.field(0).type):
            numbers = _from_lists(table.column(0), columns[0])
        else:
            arrays = [table.column(name).to_numpy() for name in columns]
            kind = np.result_type(*(np.asarray(array[:0]).dtype for array in arrays))
            numbers = np.empty((table.num_rows, len(columns)), kind if kind.kind == "f" else float)
            for place, array in enumerate(arrays):
                numbers[:, place] = array
    numbers.flags.writeable = False
    return numbers


def _values(group: Any, columns: tuple[str, ...]) -> int:
    """How many numbers a row group has in some columns, those in lists among them."""
    parts = [group.column(place) for place in range(group.num_columns)]
    wanted = set(columns)
    return sum(part.num_values for part in parts if part.path_in_schema.split(".")[0] in wanted)


def _from_lists(column: Any, name: str) -> NDArray[Any]:
    import pyarrow.compute as compute

    sizes = compute.list_value_length(column).to_numpy()
    if column.null_count or not len(sizes) or sizes.min() != sizes.max() or sizes.min() == 0:
        raise InvalidInput(f"lists of column {name!r} must have one length, above 0")
    flat = compute.list_flatten(column).to_numpy()
    numbers = flat.reshape(len(sizes), -1)
    return numbers if numbers.dtype.kind == "f" else numbers.astype(float)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise InvalidInput(
            "Parquet files need pyarrow (pip install 'sparsetoken[bags]')"
        ) from error
    with ParquetFile(path) as file:
        yield file

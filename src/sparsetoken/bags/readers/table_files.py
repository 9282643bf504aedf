"""Small tables on disk, whole and as they are written: CSV, TSV, XLSX, Parquet.

Of text every cell is text; what a spreadsheet or a Parquet file calls a number is one. Only an
empty cell is missing: no word is taken for nothing behind the writer's back.
"""

from __future__ import annotations

import csv
import math
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.memory import machine_memory

if TYPE_CHECKING:
    import pandas as pd

_MOST_MEMORY = 0.05  # part of the memory for the bytes of a table: objects take ten times as much
_CELL = 8  # bytes of a cell, at least
_MOST_ROWS = 1 << 20  # of a spreadsheet; a forged one counts on for ever
_SEPARATORS = ",;\t"


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns; None is an empty cell."""

    name: str  # of the file, for sentences
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    text: bool = False  # whether numbers are still words

    def column(self, name: str) -> list[Any]:
        """The cells of a column."""
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def read_table(source: str | os.PathLike[str] | pd.DataFrame) -> Table:
    """A table from a file, by the ending of its name, or from a data frame."""
    if hasattr(source, "columns"):
        return _of_frame(source)
    path = Path(source)
    kinds = {
        ".csv": _of_text, ".tsv": _of_text, ".txt": _of_text, ".xlsx": _of_workbook,
        ".parquet": _of_parquet, ".pq": _of_parquet,
    }  # fmt: skip
    kind = kinds.get(path.suffix.lower())
    try:
        if not path.is_file():
            raise InvalidInput("there is no such file")
        if kind is None:
            raise InvalidInput(f"a table must end in one of {', '.join(kinds)}")
        if path.stat().st_size > _MOST_MEMORY * machine_memory():
            raise InvalidInput(f"{path.stat().st_size} bytes are too many for a table of labels")
        return kind(path)
    except InvalidInput as error:
        raise InvalidInput(f"{os.fspath(path)}: {error}") from error


def _table(name: str, lines: Iterable[tuple[int, Iterable[Any]]], text: bool = False) -> Table:
    """From numbered lines of cells, the first of which names the columns; empty ones are left."""
    columns: tuple[str, ...] | None = None
    rows = []
    for number, line in lines:
        cells = tuple(map(_cell, line))
        if all(cell is None for cell in cells):
            continue
        if columns is None:
            columns = tuple("" if cell is None else str(cell) for cell in cells)
        elif any(cell is not None for cell in cells[len(columns) :]):
            raise InvalidInput(
                f"line {number} has {len(cells)} cells, the first line names {len(columns)} columns"
            )
        else:
            rows.append((cells + (None,) * len(columns))[: len(columns)])
    if columns is None:
        raise InvalidInput("the table is empty: its first line must name the columns")
    return Table(name, columns, tuple(rows), text)


def _cell(value: Any) -> Any:
    """A cell without white space around it; None if there is nothing in it."""
    if isinstance(value, str):
        return value.strip() or None
    if hasattr(value, "item"):
        value = value.item()  # NumPy's scalars
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, (bool, int, float)) else str(value)


def _of_frame(frame: Any) -> Table:
    cells = frame.astype(object).where(frame.notna(), None)
    header = [(0, map(str, frame.columns))]
    rows = ((number, row) for number, row in enumerate(cells.itertuples(index=False), 1))
    return _table("labels", [*header, *rows])


def _of_text(path: Path) -> Table:
    with _foreign("a table in UTF-8"), path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        separator = max(_SEPARATORS, key=first.count)
        reader = csv.reader(file, delimiter=separator, strict=True)
        return _table(path.name, ((reader.line_num, row) for row in reader), text=True)


def _of_workbook(path: Path) -> Table:
    try:
        import openpyxl
    except ImportError:
        raise InvalidInput("XLSX needs openpyxl (pip install 'sparsetoken[bags]')") from None
    with _foreign("a workbook"):
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _MOST_MEMORY * machine_memory():
            raise InvalidInput(f"the workbook unpacks to {size} bytes: too many for labels")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # they may be forged
            return _table(path.name, _numbered(sheet.iter_rows(values_only=True)))
        finally:
            book.close()


def _numbered(rows: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    for number, row in enumerate(rows, 1):
        if number > _MOST_ROWS:
            raise InvalidInput(f"a sheet must have at most {_MOST_ROWS} rows")
        yield number, row


def _of_parquet(path: Path) -> Table:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InvalidInput("Parquet needs pyarrow (pip install 'sparsetoken[bags]')") from None
    with _foreign("a Parquet file"), parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        groups = [file.metadata.row_group(index) for index in range(file.num_row_groups)]
        size = sum(max(0, group.total_byte_size) for group in groups)
        size = max(size, file.metadata.num_rows * max(1, len(names)) * _CELL)
        if size > _MOST_MEMORY * machine_memory():
            raise InvalidInput(f"the table unpacks to {size} bytes: too many for labels")
        columns = [column.to_pylist() for column in file.read().columns]
        rows = zip(*columns, strict=True)
        return _table(path.name, [(0, names), *enumerate(rows, 1)])


@contextmanager
def _foreign(kind: str) -> Iterator[None]:
    """Around code of others that reads bytes we do not trust: whatever it raises, they are bad."""
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        words = (str(error) or type(error).__name__).splitlines()[0]
        raise InvalidInput(f"this is not {kind}, or it is damaged ({words})") from error

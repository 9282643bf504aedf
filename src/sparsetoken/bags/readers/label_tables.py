"""Labels and groups of bags by their names, from one table or two.

Columns are recognised by their names, or named by the caller. Bags and groups are words: "007" is
not 7. Labels in text are whole numbers if all of them are, else numbers, else truth values, else
words. NA, None and null are words like others; but among numbers they are nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparsetoken.bags.readers.table_files import Table, read_table
from sparsetoken.support.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

    TableLike = str | os.PathLike[str] | pd.DataFrame

# Letters and digits of the names of columns, the likeliest first.
BAG_COLUMNS = (
    "slideid", "slide", "bagid", "bag", "filename", "file", "slidename", "bagname", "wsi", "image",
    "imageid", "sample", "sampleid", "name", "id",
)  # fmt: skip
LABEL_COLUMNS = ("label", "labels", "y", "target", "class", "outcome", "groundtruth")
GROUP_COLUMNS = (
    "patient", "patientid", "case", "caseid", "donor", "donorid", "subject", "subjectid",
    "participant", "participantid", "individual", "individualid", "group", "groupid",
)  # fmt: skip
_NOTHING = {"na", "n/a", "#n/a", "<na>", "nan", "null", "none"}  # among numbers
_TRUTH = {"true": True, "false": False}
# 007 is a word, and so is what int64 or a float cannot hold to the last digit.
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})")
_NUMBER = re.compile(r"[+-]?((0|[1-9]\d{0,14})(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?")


@dataclass(frozen=True)
class LabelRow:
    """What a table says of a bag."""

    bag: str | None
    label: Any
    group: str | None
    place: str  # in the table, for sentences


@dataclass(frozen=True)
class LabelTable:
    """Rows of labels, and the columns they come from."""

    name: str
    rows: tuple[LabelRow, ...]
    bag_column: str
    label_column: str
    group_column: str | None

    @classmethod
    def read(
        cls,
        tables: TableLike | Sequence[TableLike],
        bag_column: str | None = None,
        label_column: str | None = None,
        group_column: str | None = None,
    ) -> LabelTable:
        """From a table of bags and labels; or from two: patients and labels, patients and bags."""
        if isinstance(tables, (list, tuple)):
            if len(tables) != 2:
                raise InvalidInput(f"labels must be one table or two, got {len(tables)}")
            clinical, slides = map(read_table, tables)
            return cls._joined(clinical, slides, bag_column, label_column, group_column)
        table = read_table(tables)  # type: ignore[arg-type]
        bag = chosen_column(table, "bag_column", bag_column, BAG_COLUMNS)
        others = [name for name in table.columns if name != bag]
        group = _group_column(table, others, group_column)
        label = _label_column(table, {bag, group}, label_column)
        names, labels = map(_word, table.column(bag)), typed(table.column(label), table.text)
        groups = map(_word, table.column(group)) if group else [None] * len(table.rows)
        rows = (
            LabelRow(*values, f"row {number} of {table.name}")
            for number, values in enumerate(zip(names, labels, groups, strict=True), 1)
        )
        return cls(table.name, tuple(rows), bag, label, group)

    @classmethod
    def _joined(
        cls,
        clinical: Table,
        slides: Table,
        bag_column: str | None,
        label_column: str | None,
        group_column: str | None,
    ) -> LabelTable:
        """A row for each slide and each row of its patient; without a label, if there is none."""
        patient = chosen_column(clinical, "group_column", group_column, GROUP_COLUMNS)
        label = _label_column(clinical, {patient}, label_column)
        group = chosen_column(slides, "group_column", group_column, GROUP_COLUMNS)
        bag = chosen_column(slides, "bag_column", bag_column, BAG_COLUMNS)
        labels: dict[str | None, list[Any]] = {}
        values = typed(clinical.column(label), clinical.text)
        for name, value in zip(map(_word, clinical.column(patient)), values, strict=True):
            labels.setdefault(name, []).append(value)
        rows = []
        cells = zip(slides.column(bag), slides.column(group), strict=True)
        for number, (name, owner) in enumerate(cells, 1):
            for value in labels.get(_word(owner), [None]):
                place = f"row {number} of {slides.name} ({group} {owner} in {clinical.name})"
                rows.append(LabelRow(_word(name), value, _word(owner), place))
        return cls(f"{clinical.name} and {slides.name}", tuple(rows), bag, label, group)


def chosen_column(table: Table, field: str, given: str | None, known: Iterable[str]) -> str:
    """The column that was given, or the likeliest of those whose names are known."""
    if given is not None:
        return _given(table, field, given)
    for word in known:
        for name in table.columns:
            if _plain(name) == word:
                return name
    raise _refusal(table, field, "no name of a column is known")


def typed(cells: Sequence[Any], text: bool) -> list[Any]:
    """Cells as values of one kind; None for what is missing.

    >>> typed(["1", "0", None], text=True), typed(["1.5", "NA"], text=True)
    ([1, 0, None], [1.5, None])
    >>> typed(["NA", "yes"], text=True), typed(["01", "2"], text=True), typed([1, "b"], text=False)
    (['NA', 'yes'], ['01', '2'], ['1', 'b'])
    """
    cells = list(cells)
    if text:
        words = {cell for cell in cells if cell is not None}
        numbers = {word for word in words if word.lower() not in _NOTHING}
        for shape, kind in ((_WHOLE, int), (_NUMBER, float)):
            if numbers and all(shape.fullmatch(word) for word in numbers):
                return [kind(cell) if cell in numbers else None for cell in cells]
        if words and all(word.lower() in _TRUTH for word in words):
            return [None if cell is None else _TRUTH[cell.lower()] for cell in cells]
        return cells
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    return [None if cell is None else str(cell) for cell in cells] if len(kinds) > 1 else cells


def _word(cell: Any) -> str | None:
    """The name of a bag or group, as one would write it."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return None if cell is None else str(cell)


def is_name_or_label(column: str) -> bool:
    """Whether a column is called as those of bags, labels and groups are.

    >>> is_name_or_label("Slide_ID"), is_name_or_label("feature_1")
    (True, False)
    """
    return _plain(column) in {*BAG_COLUMNS, *LABEL_COLUMNS, *GROUP_COLUMNS}


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def _given(table: Table, field: str, name: str) -> str:
    if table.columns.count(name) != 1:
        raise _refusal(table, field, f"got {name!r}")
    return name


def _group_column(table: Table, others: Sequence[str], given: str | None) -> str | None:
    if given is not None:
        return _given(table, "group_column", given)
    return group_among(others)


def group_among(names: Sequence[str]) -> str | None:
    """The name that is likeliest to be that of a column with groups; None if none is.

    >>> group_among(["age", "Case-ID", "patient"]), group_among(["age"])
    ('patient', None)
    """
    known = (name for word in GROUP_COLUMNS for name in names if _plain(name) == word)
    return next(known, None)


def _label_column(table: Table, others: set[str | None], given: str | None) -> str:
    """The one that is called so, or the only one that is left; never a guess between two."""
    if given is not None:
        return _given(table, "label_column", given)
    left = [name for name in table.columns if name and name not in others]
    known = [name for name in left if _plain(name) in LABEL_COLUMNS]
    if len(known) == 1:
        return known[0]
    if not known and len(left) == 1:
        return left[0]
    several = " and ".join(known)
    raise _refusal(table, "label_column", f"{several} may be" if known else "none is called label")


def _refusal(table: Table, field: str, words: str) -> InvalidInput:
    names = ", ".join(name for name in table.columns if name) or "none"
    return InvalidInput(f"{table.name}: {field} must be one of the columns {names}; {words}")

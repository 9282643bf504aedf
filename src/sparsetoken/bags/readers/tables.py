"""What tables of tokens share: columns known by their names, rows by bags, one label a bag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.label_tables import group_among, is_name_or_label
from sparsetoken.bags.source import Problem
from sparsetoken.support.arrays import IntArray
from sparsetoken.support.errors import InvalidInput

BAGS = (
    "bag", "bags", "bag_id", "bagid", "bag_name", "bag_index", "bag_number", "slide", "slide_id",
    "donor", "donor_id", "patient", "patient_id", "sample", "sample_id", "subject", "subject_id",
    "individual", "individual_id", "participant", "participant_id", "repertoire", "repertoire_id",
)  # fmt: skip
LABELS = (
    "label", "labels", "bag_label", "y", "target", "class", "disease", "condition", "status",
    "diagnosis", "phenotype", "outcome",
)  # fmt: skip
_ROW_NUMBERS = ("", "unnamed:_0", "index", "row", "__index_level_0__")
COORDINATES = (  # by these names tools write where a token is; capitals do not matter
    ("coord_x", "coord_y"), ("coords_x", "coords_y"), ("x_coord", "y_coord"), ("pos_x", "pos_y"),
    ("loc_x", "loc_y"), ("tile_x", "tile_y"), ("x", "y"),
)  # fmt: skip
# Neither: places in a table, what is known of single tokens, of patients, of how data were taken
# or split. To learn from them would be wrong: the number of a patient says what the label is.
_ASIDE = (
    *_ROW_NUMBERS, *(name for pair in COORDINATES[:-1] for name in pair), "coord_z",
    "instance", "instance_id", "instance_label", "token", "token_id", "token_label", "cell",
    "cell_id", "cell_type", "tile", "tile_id", "tile_index", "patch", "patch_id", "patch_index",
    "patch_label", "cluster", "cluster_id", "cohort", "cohort_id", "age", "sex", "gender", "fold",
    "folds", "split", "partition", "site", "site_id", "center", "center_id", "centre", "centre_id",
    "hospital", "hospital_id", "batch", "batch_id", "scanner", "scanner_id", "time", "timestamp",
    "date", "level", "magnification", "mpp",
)  # fmt: skip
_NO_FEATURES = frozenset(name.replace("_", "") for name in (*BAGS, *LABELS, *_ASIDE))
_MISSING = {"", "nan", "na", "<na>", "null"}
_SHOWN = 8  # names in a sentence


@dataclass(frozen=True)
class Columns:
    """Which columns, counted from 0, are what."""

    bag: int
    label: int | None
    group: int | None
    coordinates: tuple[int, int] | None
    features: tuple[int, ...]
    aside: tuple[int, ...]  # whose names say that they are no features


def columns_of(
    names: Sequence[str], bag: str | None, label: str | None, group: str | None
) -> Columns:
    """What the columns of a table are, by their names; those of `bag`, `label` and `group` may be
    given.

    A column y is the label, unless there is another one and a column x: then both are coordinates.
    Columns whose names say that they are no features, and were not chosen, are left out.

    >>> columns_of(["bag_id", "x", "y", "label", "0", "1"], None, None, None)
    Columns(bag=0, label=3, group=None, coordinates=(1, 2), features=(4, 5), aside=())
    """
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidInput(
            f"every column must have a name of its own, got {in_words(doubled)} twice"
        )
    plain = [simplified(name) for name in names]
    places = _coordinates(plain, label)
    others = {} if places is None else {names[place] for place in places}
    bag_name = chosen("bag_column", names, bag, BAGS)
    if bag_name is None:
        raise InvalidInput(
            f"a column must say which bag a token is of: none of {in_words(names)} is called "
            f"{in_words(BAGS[:4])} or the like; give bag_column (a table without a header has "
            "numbers as labels first, then bags, then features)"
        )
    eligible = [name for name in names if name not in others and name != bag_name]
    label_name = chosen("label_column", eligible, label, LABELS)
    group_name = group_of([name for name in eligible if name != label_name], group)
    taken = {bag_name, label_name, group_name, *others}
    left = [place for place, name in enumerate(names) if name not in taken]
    aside = [place for place in left if is_no_feature(names[place])]
    features = [place for place in left if place not in aside]
    if not features:
        raise InvalidInput(f"there must be columns with features beside {in_words(names)}")
    _check_pairs([plain[place] for place in left])
    return Columns(
        names.index(bag_name),
        None if label_name is None else names.index(label_name),
        None if group_name is None else names.index(group_name),
        places,
        tuple(features),
        tuple(aside),
    )


def is_no_feature(name: str) -> bool:
    """Whether a column is called as bags, labels, groups, places and the like are.

    >>> is_no_feature("Case ID"), is_no_feature("tile_id"), is_no_feature("f0")
    (True, True, False)
    """
    plain = simplified(name)
    return is_name_or_label(name) or (plain.replace("_", "") or plain) in _NO_FEATURES


def left_aside(names: Iterable[str]) -> tuple[str, ...]:
    """A sentence on columns that are no features; none on the numbers of rows."""
    left = [name for name in names if simplified(name) not in _ROW_NUMBERS]
    if not left:
        return ()
    columns = "column" if len(left) == 1 else "columns"
    return (
        f"by their names no features, and left out: {columns} {in_words(left)}; another name makes "
        "a feature of a column",
    )


def _check_pairs(plain: list[str]) -> None:
    """One coordinate without the other is neither a place nor a feature."""
    for pair in COORDINATES[:-1]:  # x alone may be anything
        there = [name for name in pair if name in plain]
        if len(there) == 1:
            (other,) = set(pair) - set(there)
            raise InvalidInput(
                f"column {there[0]!r} must come with {other!r}, as a place has two coordinates: "
                "call it otherwise if it is a feature, else leave it out"
            )


def group_of(names: Sequence[str], given: str | None) -> str | None:
    """The column with groups: the one given, else patient, case_id or the like, if there is one."""
    return group_among(names) if given is None else chosen("group_column", names, given, ())


def _coordinates(plain: list[str], label: str | None) -> tuple[int, int] | None:
    for across, down in COORDINATES:
        if across in plain and down in plain and simplified(label or "") != down:
            if (
                down == "y"
                and label is None
                and not any(name in plain for name in LABELS if name != "y")
            ):
                raise InvalidInput(
                    "columns x and y may be coordinates, or y the label: call them coord_x and "
                    "coord_y, or give label_column='y'"
                )
            return plain.index(across), plain.index(down)
    return None


def chosen(
    option: str, names: Sequence[str], given: str | None, known: Iterable[str]
) -> str | None:
    """The column that was given, or the one with a known name; None if there is none."""
    if given is not None:
        if given not in names:
            raise InvalidInput(f"{option} must be one of {in_words(names)}, got {given!r}")
        return given
    wanted = set(known)
    candidates = [name for name in names if simplified(name) in wanted]
    if len(candidates) > 1:
        raise InvalidInput(
            f"{option} must be given: any of {in_words(candidates)} may be what is meant"
        )
    return candidates[0] if candidates else None


def simplified(name: str) -> str:
    """Small letters, words joined by _."""
    return re.sub(r"[\s.-]+", "_", name.strip().lower())


def in_words(names: Sequence[str]) -> str:
    """A few names of many."""
    shown = ", ".join(repr(name[:40]) for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


@dataclass(frozen=True, eq=False)
class BagRows:
    """Bags in the order of their first rows: names, the rows of each, labels and groups (n,) if
    any.

    `problems` are bags of which rows say nothing, or different things; `notes` say of a column that
    it was not taken for groups.
    """

    names: tuple[str, ...]
    rows: tuple[IntArray, ...]
    labels: NDArray[Any] | None
    groups: tuple[str, ...] | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    count: int  # rows, of all bags

    @property
    def lengths(self) -> IntArray:
        """Rows of each bag (n,)."""
        return np.array([len(rows) for rows in self.rows], dtype=np.intp)


def bag_rows(
    blocks: Iterable[tuple[Any, Any, Any]],
    label_column: str | None,
    group_column: str | None,
    given: bool = False,
) -> BagRows:
    """From the bags, labels and groups (or None) of a table's rows as words, block by block.

    If the column of groups was `given`, bags that have none or several are problems; if it was
    known by its name alone, it is one of groups only where each bag has one.
    """
    import pandas as pd

    bags, labels, groups = _Codes(), _Codes(), _Codes()
    for bag_words, *others in blocks:
        codes, words = pd.factorize(np.asarray(bag_words, dtype=object))
        missing = np.flatnonzero(np.isin(codes, [-1, *_places_of_missing(words)]))
        if len(missing):
            row = bags.count + int(missing[0]) + 1
            raise InvalidInput(f"row {row} must say which bag it is of, it does not")
        bags.add(codes, words)
        for column, cells in zip((labels, groups), others, strict=True):
            if cells is not None:
                column.add(*pd.factorize(np.asarray(cells, dtype=object), use_na_sentinel=False))
    if not bags.count:
        raise InvalidInput("there must be at least one token, there is none")
    bag, names = bags.codes(), tuple(bags.words)
    order = np.argsort(bag, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(bag, minlength=len(names)))[:-1])
    first = np.array([part[0] for part in rows])
    wrong: list[Problem] = []
    notes: tuple[str, ...] = ()
    if label_column is not None:
        wrong += labels.problems(bag, names, first, label_column)
    if group_column is not None:
        unclear = list(groups.problems(bag, names, first, group_column))
        if given:
            wrong += unclear
        elif unclear:
            notes = (
                f"column {group_column!r} is not taken for groups: of bag {unclear[0].bag}, "
                f"{unclear[0].explanation}; choose it as that of groups to hear of all such bags",
            )
            group_column = None
    problems = {problem.bag: problem for problem in reversed(wrong)}
    kept = [place for place, name in enumerate(names) if name not in problems]
    return BagRows(
        tuple(names[place] for place in kept),
        tuple(rows[place] for place in kept),
        None if label_column is None else typed(labels.of(first[kept])),
        None if group_column is None else tuple(groups.of(first[kept])),
        tuple(problems[name] for name in names if name in problems),
        notes,
        bags.count,
    )


class _Codes:
    """Words as whole numbers, in the order in which they come."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.count = 0
        self._blocks: list[IntArray] = []

    def add(self, codes: IntArray, words: Any) -> None:
        table = [self.words.setdefault(str(word), len(self.words)) for word in words]
        self._blocks.append(np.asarray(table, dtype=np.int64)[codes])
        self.count += len(codes)

    def codes(self) -> IntArray:
        return np.concatenate(self._blocks)

    def of(self, rows: IntArray) -> list[str]:
        """The words of some rows."""
        words = list(self.words)
        return [words[code] for code in self.codes()[rows]]

    def problems(
        self, bag: IntArray, names: tuple[str, ...], first: IntArray, column: str
    ) -> Iterator[Problem]:
        """Bags whose rows do not say one thing; `first` are the first rows of each."""
        words, codes = list(self.words), self.codes()
        meant = codes[first]
        other = np.flatnonzero(codes != meant[bag])
        for row in other[np.unique(bag[other], return_index=True)[1]]:
            one = int(first[bag[row]])
            explanation = (
                f"column {column!r} is {words[codes[one]]!r} in row {one + 1}, "
                f"{words[codes[row]]!r} in row {row + 1}"
            )
            yield Problem(names[bag[row]], "doubled", explanation)
        for name, code, row in zip(names, meant, first, strict=True):
            if words[code].strip().lower() in _MISSING:
                yield Problem(name, "unlabelled", f"column {column!r} is empty in row {row + 1}")


def _places_of_missing(words: Any) -> list[int]:
    return [place for place, word in enumerate(words) if str(word).strip() == ""]


def typed(words: Sequence[str]) -> NDArray[Any]:
    """Labels as whole numbers if all are, else as numbers if all are, else as words.

    >>> typed(["1", "0"]).tolist(), typed(["0.5", "1"]).tolist(), typed(["-", "+"]).tolist()
    ([1, 0], [0.5, 1.0], ['-', '+'])
    """
    for kind in (np.int64, np.float64):
        try:
            numbers = np.array([kind(word) for word in words])
        except (ValueError, OverflowError):
            continue
        if np.isfinite(numbers).all():
            return numbers
    return np.array(list(words), dtype=str)

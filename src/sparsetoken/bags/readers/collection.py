"""`open_bags`: bags where they are, with labels and groups from tables, and all that is wrong.

Every problem is listed, not the first alone: who has a thousand slides wants to know at once which
have no label, and which labels have no slide.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.readers.folders import ENDINGS
from sparsetoken.bags.readers.label_tables import LabelRow, LabelTable
from sparsetoken.bags.readers.loading import naming, problem_text, problems_of, reader_of
from sparsetoken.bags.source import BagSource, Problem
from sparsetoken.support.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

    from sparsetoken.bags.readers.label_tables import TableLike
    from sparsetoken.bags.readers.loading import Reader

# Endings of slides and of files of bags: slide.svs in a table means the bag of slide.h5.
_ENDINGS = frozenset(
    ".bif .csv .czi .dcm .dicom .h5ad .isyntax .jpeg .jpg .mrxs .ndpi .ome .png .pq .pth .qptiff "
    ".scn .svs .svslide .tab .tif .tiff .tsv .vms .vmu".split()
) | {f".{part}" for ending in ENDINGS for part in ending.split(".")[1:]}


@dataclass(frozen=True, eq=False)
class BagCollection:
    """Bags with their labels and groups, and what was left out.

    >>> collection = BagCollection(Bags.of([np.ones((2, 3))]), np.array(["ill"]), None, _frame([]))
    >>> len(collection), collection.names, collection.labels.tolist(), len(collection.problems)
    (1, None, ['ill'], 0)
    """

    bags: Bags | BagSource
    labels: NDArray[Any] | None  # (n,), None where there are none
    groups: NDArray[Any] | None  # (n,) of words: bags of one patient, never to be parted
    problems: pd.DataFrame  # bag, problem, explanation; a row for each bag that was left out

    def __len__(self) -> int:
        return len(self.bags)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the bags; None where they have numbers alone."""
        return self.bags.names if isinstance(self.bags, BagSource) else None

    def readable(self, leave_out: bool = False) -> BagCollection:
        """The bags of which all tokens can be read and are finite numbers: a pass over the files.

        Raises
        ------
        InvalidInput
            Unless `leave_out`, for bags that cannot be read; the error lists all of them.
        """
        if not isinstance(self.bags, BagSource):
            return self
        problems = []
        for bag, name in enumerate(self.bags.names):
            try:
                self.bags.read(bag)
            except InvalidInput as error:
                words = str(error).removeprefix(f"bag {name}: ")
                problems.append(Problem(name, "unreadable", words))
        names = {problem.bag for problem in problems}
        kept = [bag for bag, name in enumerate(self.bags.names) if name not in names]
        if problems and not (leave_out and kept):
            raise InvalidInput(problem_text(problems))
        others = [Problem(*row) for row in self.problems.itertuples(index=False)]
        return BagCollection(
            self.bags[kept],
            None if self.labels is None else self.labels[kept],
            None if self.groups is None else self.groups[kept],
            _frame([*others, *problems]),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what else was left out, such as columns that are no features."""
        return self.bags.notes if isinstance(self.bags, BagSource) else ()


def open_bags(
    path: str | os.PathLike[str],
    *,
    layout: str | Reader | None = None,
    labels: TableLike | Sequence[TableLike] | None = None,
    bag_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    leave_out: bool = False,
) -> BagCollection:
    """Bags on disk, which stay there until they are read, with labels and groups from a table.

    Parameters
    ----------
    path : str or path
        A file or folder in a layout that `READERS` knows: an npz file; a folder of CLAM, TRIDENT,
        STAMP, Slideflow or torchmil; a folder with a file for each bag, all of one kind (.h5, .pt,
        .npy, .npz, .safetensors, .parquet, .zarr); a table with a row for each token (.csv, .tsv,
        .parquet), an h5ad file, immune repertoires.
    layout : str or reader, optional
        The name of one of `READERS`, or such a reader itself with settings of its own, as
        `Airr(encoder=own)`; else the layout is recognised.
    labels : path, data frame or two of them, optional
        A table with a row for each bag: CSV, TSV, XLSX or Parquet. Or two, as STAMP has them:
        patients and labels, then patients and bags. A bag is the row of its name; folders and
        endings such as .svs or .h5 are ignored where a name is not found as it is. Without a table,
        labels are those that the layout has, if any, as torchmil's.
    bag_column : str, optional
        The column with the names of bags; else slide_id, slide, bag, filename or the like.
    label_column : str, optional
        The column with labels; else label, y, target or the like, or the only one left.
    group_column : str, optional
        The column with groups; else patient, case_id, donor or the like, if there is one. Without a
        table, of a table of tokens, or of obs in an h5ad file.
    leave_out : bool
        Go on without the bags that have a problem, rather than refuse all.

    Returns
    -------
    BagCollection
        `bags`, `labels` (n,) or None, `groups` (n,) or None, and `problems`: a table of the bags
        that were left out, which are missing (a row without a file), doubled (two files of one
        name, two rows that contradict each other), unlabelled (a file without a row or with an
        empty cell in it, or without a label where others have one) or unreadable (damaged, or of
        another dimension than most).

    Raises
    ------
    InvalidInput
        Nothing is there, no layout or several are recognised, a table has no such column, no bag
        is left; or, unless `leave_out`, there are problems: the error lists them.

    Examples
    --------
    >>> import tempfile
    >>> import h5py
    >>> import pandas as pd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in "abc":
    ...         with h5py.File(f"{folder}/{name}.h5", "w") as file:
    ...             file["features"] = np.ones((5, 2), dtype=np.float16)
    ...     table = pd.DataFrame({"slide_id": ["a.svs", "b.svs", "d.svs"], "label": [1, 0, 1]})
    ...     collection = open_bags(folder, labels=table, leave_out=True)
    >>> collection.names, collection.labels.tolist(), collection.problems.problem.tolist()
    (('a', 'b'), [1, 0], ['unlabelled', 'missing'])
    """
    given = {"bag_column": bag_column, "label_column": label_column, "group_column": group_column}
    table = None if labels is None else LabelTable.read(labels, **given)
    with naming(path) as place:
        options = {name: column for name, column in given.items() if column is not None}
        bags, values = reader_of(place, layout, options if table is None else {}).read(place)
        names = bags.names if isinstance(bags, BagSource) else tuple(map(str, range(len(bags))))
        problems = list(problems_of(bags))
        kept, groups = list(range(len(names))), None
        if isinstance(bags, BagSource) and bags.groups is not None:
            groups = np.array(bags.groups)
        if table is not None:
            rows, contradictions = _matched(table, names, [problem.bag for problem in problems])
            problems += contradictions
            kept = [index for index in kept if names[index] in rows]
            values = np.array([rows[names[index]].label for index in kept])
            groups = None
            if table.group_column is not None:
                groups = np.array([rows[names[index]].group for index in kept])
        if problems and not (leave_out and kept):
            raise InvalidInput(problem_text(problems))
        if not kept:
            raise InvalidInput("there are no bags")
    return BagCollection(bags[kept], values, groups, _frame(problems))


def _matched(
    table: LabelTable, names: Sequence[str], others: Iterable[str]
) -> tuple[dict[str, LabelRow], list[Problem]]:
    """The row of each bag that has just one; `others` are bags that are there and not taken."""
    index = _Names([*names, *others])
    rows: dict[str, list[LabelRow]] = {}
    unclear: dict[str, str] = {}
    missing: dict[str, Problem] = {}
    for row in table.rows:
        meant = index.find(row.bag) if row.bag is not None else []
        if row.bag is None:
            words = f"the column {table.bag_column} is empty"
            missing[row.place] = Problem(f"({row.place})", "missing", words)
        elif not meant:
            missing.setdefault(row.bag, Problem(row.bag, "missing", f"{row.place} has no file"))
        elif len(meant) > 1:
            unclear |= {name: f"{row.place} may mean {' or '.join(meant)}" for name in meant}
        else:
            rows.setdefault(meant[0], []).append(row)
    taken, problems = {}, []
    for name in names:
        if name in unclear:
            problems.append(Problem(name, "doubled", unclear[name]))
        elif problem := _contradiction(table, name, rows.get(name, [])):
            problems.append(problem)
        else:
            taken[name] = rows[name][0]
    return taken, problems + list(missing.values())


def _contradiction(table: LabelTable, name: str, rows: Sequence[LabelRow]) -> Problem | None:
    """What is wrong with the rows of a bag; None if all say the same."""
    if not rows:
        return Problem(name, "unlabelled", f"{table.name} has no row for it")
    first = rows[0]
    for row in rows[1:]:
        for column, one, other in (
            (table.label_column, first.label, row.label),
            (table.group_column, first.group, row.group),
        ):
            if one != other:
                words = f"{column} is {one} in {first.place}, {other} in {row.place}"
                return Problem(name, "doubled", words)
    for column, value in ((table.label_column, first.label), (table.group_column, first.group)):
        if column is not None and value is None:
            return Problem(name, "unlabelled", f"the column {column} is empty in {first.place}")
    return None


class _Names:
    """Names of bags, found as they are, else without endings, else without folders as well."""

    def __init__(self, names: Iterable[str]) -> None:
        self._tables: list[dict[str, list[str]]] = [{}, {}, {}]
        for name in dict.fromkeys(names):
            for table, form in zip(self._tables, _forms(name), strict=True):
                table.setdefault(form, []).append(name)

    def find(self, word: str) -> list[str]:
        """The bags that a word may mean."""
        forms = _forms(word.replace("\\", "/"))
        matches = (table.get(form, []) for table, form in zip(self._tables, forms, strict=True))
        return next(filter(None, matches), [])


def _forms(name: str) -> tuple[str, str, str]:
    name = normalize("NFC", name)  # some systems keep the é of a file as an e and an accent
    return name, _bare(name), _bare(PurePosixPath(name).name)


def _bare(name: str) -> str:
    """A name without the endings of files."""
    while PurePosixPath(name).suffix.lower() in _ENDINGS:
        name = name[: -len(PurePosixPath(name).suffix)]
    return name


def _frame(problems: Iterable[Problem]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(problems), columns=list(Problem._fields))

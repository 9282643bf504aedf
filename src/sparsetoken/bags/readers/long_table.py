"""Bags in one table with a row for each token: CSV, TSV or Parquet.

A header names the columns: the bag of a token (bag, bag_id, slide_id, …), the label of that bag
(label, y, class, …), its coordinates (x and y, coord_x and coord_y), and features, which may have
any names but those of patients, tiles, folds and the like: `notes` says which were left out. A
table without a header has labels, as numbers, first, then bags, then features, as the files of the
classic benchmarks have (MUSK, elephant, …). Rows of a bag need not follow each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sparsetoken.bags.readers.airr import Airr
from sparsetoken.bags.readers.delimited import read_delimited
from sparsetoken.bags.readers.parquet import read_parquet
from sparsetoken.bags.source import BagSource

_TEXT, _PARQUET = (".csv", ".tsv", ".tab"), (".parquet", ".pq")


@dataclass(frozen=True)
class LongTable:
    """One row a token; `bag_column`, `label_column` and `group_column` where names do not tell.

    Groups (patient, case_id, …), if there are any, are those of the source. Bags without a label or
    a group, or with several, are its problems.

    Text is read at once, numbers exactly as they are written, and must fit in half of memory; of a
    Parquet file the bags are indexed, and tokens are read when asked for.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "bags.csv")
    ...     _ = path.write_text("bag,label,f1,f2\\na,1,0.5,2\\nb,0,0,1\\na,1,3,4\\n")
    ...     source, labels = LongTable().read(path)
    >>> source.names, source.lengths.tolist(), labels.tolist()
    (('a', 'b'), [2, 1], [1, 0])
    """

    bag_column: str | None = None
    label_column: str | None = None
    group_column: str | None = None

    layout = "CSV, TSV or Parquet tables with a row for each token: bag, label, features"

    def can_read(self, path: Path) -> bool:
        known = path.is_file() and path.suffix.lower() in (*_TEXT, *_PARQUET)
        return known and not Airr().can_read(path)

    def read(self, path: Path) -> tuple[BagSource, NDArray[Any] | None]:
        given = self.bag_column, self.label_column, self.group_column
        table: Any
        if path.suffix.lower() in _PARQUET:
            bags, table, dim, aside = read_parquet(path, *given)
        else:
            bags, table, aside = read_delimited(path, *given)
            dim = table.values.shape[1]
        source = BagSource(
            bags.names,
            bags.lengths,
            dim,
            bags.rows,
            table,
            bags.problems,
            groups=bags.groups,
            notes=aside,
        )
        return source, bags.labels

"""Immune repertoires: a sequence of amino acids is a token once an encoder has made it numbers.

A folder has one table a repertoire, as the AIRR community writes rearrangements (junction_aa) or as
DeepRC reads them (amino_acid); a table metadata.tsv beside them may have the labels. Or one table
has all repertoires, with a column repertoire_id. How often a sequence was counted is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.delimited import Dialect
from sparsetoken.bags.readers.folders import DEPTH, files_below, inside
from sparsetoken.bags.readers.kmers import KmerEncoder
from sparsetoken.bags.readers.tables import (
    BAGS,
    LABELS,
    BagRows,
    bag_rows,
    chosen,
    in_words,
)
from sparsetoken.bags.readers.untrusted import free_memory
from sparsetoken.bags.source import BagSource
from sparsetoken.support.errors import InvalidInput

Encoder = Callable[[list[str]], NDArray[Any]]

_SEQUENCES = ("junction_aa", "cdr3_aa", "amino_acid")  # AIRR, AIRR, DeepRC
_METADATA = ("metadata.tsv", "metadata.csv")
_REPERTOIRES = ("repertoire_id", "sample_id", "sample_processing_id", "subject_id")
_BLOCK = 1 << 18  # rows parsed at once
_LETTERS = frozenset("ACDEFGHIKLMNPQRSTVWY")
_FALSE = {"F", "f", "FALSE", "False", "false"}


@dataclass(frozen=True)
class Airr:
    """Sequences of repertoires as tokens, by an `encoder` of lists of words as arrays (L, d).

    `column` has the sequences (else junction_aa, cdr3_aa or amino_acid, whichever there is). Rows
    without a sequence, and those that `productive` says are not, are left out. The default encoder
    counts k-mers of kinds of amino acids: it shows what a repertoire holds, a trained one more.
    `bag_column` and `label_column` are columns of metadata.tsv, or of the one table.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("r1", "r2"):
    ...         _ = Path(folder, f"{name}.tsv").write_text("junction_aa\\nCASSF\\nCAWTF\\n")
    ...     source, labels = Airr(encoder=KmerEncoder(k=2)).read(Path(folder))
    >>> source.names, source.lengths.tolist(), source.dim, labels
    (('r1', 'r2'), [2, 2], 36, None)
    """

    encoder: Encoder = field(default_factory=KmerEncoder)
    column: str | None = None
    bag_column: str | None = None
    label_column: str | None = None

    layout = "folders of AIRR or DeepRC tables (tsv), a repertoire each, or one with repertoire_id"

    def can_read(self, path: Path) -> bool:
        if path.is_dir():
            tables = _tables(path)
            return bool(tables) and self._is_repertoire(tables[0])
        return (
            path.is_file()
            and path.suffix.lower() == ".tsv"
            and self._is_repertoire(path, alone=True)
        )

    def read(self, path: Path) -> tuple[BagSource, NDArray[Any] | None]:
        if path.is_dir():
            names, keys, lengths, labels = self._folder(path)
        else:
            names, keys, lengths, labels = self._one_table(path)
        repertoires = Repertoires(self.encoder)
        dim = repertoires.tokens(keys[0]).shape[1]
        return BagSource(names, np.array(lengths), dim, keys, repertoires), labels

    def _is_repertoire(self, path: Path, alone: bool = False) -> bool:
        try:
            names = Dialect.of(path).names
        except InvalidInput:
            return False
        known = any(name in names for name in (self.column, *_SEQUENCES))
        return known and (not alone or self._bags_of(names) is not None)

    def _bags_of(self, names: tuple[str, ...]) -> str | None:
        """The column that parts one table into repertoires."""
        if self.bag_column is not None:
            return chosen("bag_column", names, self.bag_column, ())
        return next((name for name in _REPERTOIRES if name in names), None)

    def _column(self, names: tuple[str, ...]) -> str:
        if self.column is not None and self.column in names:
            return self.column
        column = next((name for name in _SEQUENCES if name in names), None)
        if column is None or self.column is not None:
            wanted = in_words(_SEQUENCES if self.column is None else (self.column,))
            raise InvalidInput(
                f"a column with amino acids must be there ({wanted}), got {in_words(names)}"
            )
        return column

    def _folder(self, folder: Path) -> Any:
        """Names, keys, lengths and labels of a folder of repertoires."""
        tables = _tables(folder)
        names = tuple(table.stem for table in tables)
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise InvalidInput(
                f"repertoires must have names of their own, got {doubled[0]!r} twice"
            )
        keys, lengths = [], []
        for table in tables:
            try:
                inside(folder, table)
                key = Repertoire(str(table), self._column(Dialect.of(table).names))
                lengths.append(len(key.sequences()))
            except InvalidInput as error:
                raise InvalidInput(f"{table.name}: {error}") from error
            keys.append(key)
        labels = self._labels(folder, names)
        return names, tuple(keys), lengths, labels

    def _labels(self, folder: Path, names: tuple[str, ...]) -> NDArray[Any] | None:
        place = next((folder / name for name in _METADATA if (folder / name).is_file()), None)
        if place is None:
            return None
        try:
            inside(folder, place)
            known = self._metadata(place)
            if known is None:
                return None
            missing = [name for name in names if name not in known.names]
            if missing:
                raise InvalidInput(f"a label must be there for {in_words(missing)}, there is none")
        except InvalidInput as error:
            raise InvalidInput(f"{place.name}: {error}") from error
        assert known.labels is not None
        return known.labels[[known.names.index(name) for name in names]]

    def _metadata(self, place: Path) -> BagRows | None:
        """Names of repertoires with their labels; None if there is no column of labels."""
        dialect = Dialect.of(place)
        label = chosen("label_column", dialect.names, self.label_column, LABELS)
        bag = chosen("bag_column", dialect.names, self.bag_column, ("id", "filename", *BAGS))
        if label is None:
            return None
        if bag is None:
            raise InvalidInput(
                f"a column must have the names of repertoires, got {in_words(dialect.names)}"
            )
        kinds = {dialect.names.index(name): str for name in (bag, label)}
        blocks = (
            (
                block[dialect.names.index(bag)].fillna("").str.removesuffix(".tsv"),
                block[dialect.names.index(label)].fillna(""),
                None,
            )
            for block in dialect.blocks(place, dict(kinds), _BLOCK)
        )
        return bag_rows(blocks, label, None).checked()

    def _one_table(self, path: Path) -> Any:
        """Names, keys, lengths and labels of one table with all repertoires."""
        names = Dialect.of(path).names
        bag, column = self._bags_of(names), self._column(names)
        if bag is None:
            raise InvalidInput(f"a column of {in_words(_REPERTOIRES)} must part the repertoires")
        label = chosen("label_column", names, self.label_column, ())
        whole = Repertoire(str(path), column, (bag, label))
        rows = whole.rows()
        kinds = rows[:, 2] if label is not None else None
        bags = bag_rows([(rows[:, 1], kinds, None)], label, None).checked()
        keys = tuple(Repertoire(str(path), column, (bag, None), name) for name in bags.names)
        return bags.names, keys, bags.lengths, bags.labels


@dataclass(frozen=True)
class Repertoire:
    """The sequences of one table, or of one repertoire in it."""

    path: str
    column: str
    others: tuple[str | None, str | None] = (None, None)  # of the repertoire, of its label
    name: str | None = None

    def sequences(self) -> list[str]:
        """All of them, checked."""
        rows = self.rows()
        if self.name is not None:
            rows = rows[rows[:, 1] == self.name]
        words: list[str] = rows[:, 0].tolist()
        if not words:
            raise InvalidInput(f"the repertoire has no sequence in column {self.column!r}")
        return words

    def rows(self) -> NDArray[Any]:
        """Sequences, and the other columns if any, of rows that count (n, 1 to 3), as words."""
        path = Path(self.path)
        dialect = Dialect.of(path)
        columns = [self.column, *(name for name in self.others if name is not None)]
        for name in columns:
            if name not in dialect.names:
                raise InvalidInput(f"the column {name!r} is missing")
        productive = "productive" if "productive" in dialect.names else self.column
        places = [dialect.names.index(name) for name in (*columns, productive)]
        parts, before = [], 0
        if path.stat().st_size * 8 > free_memory():  # words of Python take more than their letters
            raise InvalidInput(f"{path.stat().st_size} bytes are more than memory has room for")
        for block in dialect.blocks(path, {place: str for place in places}, _BLOCK):
            cells = block[places].fillna("").to_numpy(dtype=object)
            for row, word in enumerate(cells[:, 0]):
                cells[row, 0] = word.strip().upper()
            kept = (cells[:, 0] != "") & ~np.isin(cells[:, -1], list(_FALSE))
            _check_letters(cells[:, 0], kept, before)
            parts.append(cells[kept, :-1])
            before += len(cells)
        return np.concatenate(parts) if parts else np.empty((0, len(columns)), dtype=object)


@dataclass(frozen=True)
class Repertoires:
    """Repertoires as tokens, by an encoder."""

    encoder: Encoder

    def tokens(self, key: Repertoire) -> NDArray[Any]:
        words = key.sequences()
        tokens = np.asarray(self.encoder(words))
        if tokens.ndim != 2 or len(tokens) != len(words) or not tokens.size:
            raise InvalidInput(
                f"the encoder must make an array ({len(words)}, d) of so many sequences, got shape "
                f"{tokens.shape}"
            )
        return tokens

    def coordinates(self, key: Repertoire) -> None:
        return None


def _check_letters(words: NDArray[Any], kept: NDArray[Any], before: int) -> None:
    for row in np.flatnonzero(kept):
        strange = set(words[row]) - _LETTERS
        if strange:
            raise InvalidInput(
                f"row {before + row + 1} must have letters of the 20 amino acids, got "
                f"{min(strange)!r} in {words[row][:40]!r}; a column 'productive' may say F of rows "
                "that are to be left out"
            )


def _tables(folder: Path) -> list[Path]:
    """Tables of repertoires in a folder and below it, in order of their names."""
    tables = (path for _, path in files_below(folder, (".tsv",), DEPTH))
    return sorted(path for path in tables if path.name not in _METADATA)

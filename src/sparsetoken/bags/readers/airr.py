"""Immune repertoires: a sequence of amino acids is a token once an encoder has made it numbers.

A folder has one table a repertoire, as the AIRR community writes rearrangements (junction_aa) or as
DeepRC reads them (amino_acid); a table metadata.tsv beside them may have the labels. Or one table
has all repertoires, with a column repertoire_id. How often a sequence was counted is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from sparsetoken.bags.source import BagSource, Problem
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
        read = self._folder if path.is_dir() else self._one_table
        keys, lengths, labels, problems = read(path)
        repertoires = Repertoires(self.encoder)
        source = BagSource(
            tuple(keys), np.array(lengths, dtype=np.intp), _dim(repertoires, keys),
            tuple(keys.values()), repertoires, tuple(sorted(problems)),
        )  # fmt: skip
        return source, labels

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

    def _folder(self, folder: Path) -> Read:
        """Repertoires of a folder, those that have a label if there are labels."""
        tables: dict[str, list[Path]] = {}
        for table in _tables(folder):
            tables.setdefault(table.stem, []).append(table)
        keys, lengths, problems = {}, {}, []
        for name in sorted(tables):
            table, *others = tables[name]
            if others:
                several = ", ".join(path.relative_to(folder).as_posix() for path in tables[name])
                problems.append(
                    Problem(name, "doubled", f"several files have this name: {several}")
                )
                continue
            try:
                inside(folder, table)
                key = Repertoire(str(table), self._column(Dialect.of(table).names))
                lengths[name], keys[name] = len(key.sequences()), key
            except (InvalidInput, OSError) as error:
                problems.append(Problem(name, "unreadable", str(error)))
        place = next((folder / name for name in _METADATA if (folder / name).is_file()), None)
        labels = None
        if place is not None:
            try:
                known = self._metadata(inside(folder, place))
            except InvalidInput as error:
                raise InvalidInput(f"{place.name}: {error}") from error
            if known is not None:
                problems += _unmatched(known, place.name, set(tables), set(keys))
                order = {name: index for index, name in enumerate(known.names)}
                keys = {name: key for name, key in keys.items() if name in order}
                assert known.labels is not None
                labels = known.labels[[order[name] for name in keys]]
        return keys, [lengths[name] for name in keys], labels, problems

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
        return bag_rows(blocks, label, None)

    def _one_table(self, path: Path) -> Read:
        """Repertoires of one table."""
        names = Dialect.of(path).names
        bag, column = self._bags_of(names), self._column(names)
        if bag is None:
            raise InvalidInput(f"a column of {in_words(_REPERTOIRES)} must part the repertoires")
        label = chosen("label_column", names, self.label_column, ())
        whole = Repertoire(str(path), column, (bag, label))
        rows = whole.rows()
        kinds = rows[:, 2] if label is not None else None
        bags = bag_rows([(rows[:, 1], kinds, None)], label, None)
        keys = {name: Repertoire(str(path), column, (bag, None), name) for name in bags.names}
        return keys, bags.lengths.tolist(), bags.labels, list(bags.problems)


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


# Repertoires by name, how many sequences each has, labels (n,) if any; what cannot be taken.
Read = tuple[dict[str, Repertoire], list[int], NDArray[Any] | None, list[Problem]]


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


def _dim(repertoires: Repertoires, keys: dict[str, Repertoire]) -> int:
    """What the encoder makes of the first repertoire that it takes; others fail when read."""
    refusals = []
    for name, key in keys.items():
        try:
            return int(repertoires.tokens(key).shape[1])
        except InvalidInput as error:
            refusals.append(f"bag {name}: {error}")
    if refusals:
        raise InvalidInput(refusals[0])
    return 0


def _unmatched(
    known: BagRows, metadata: str, tables: set[str], readable: set[str]
) -> Iterator[Problem]:
    """Repertoires of the metadata that have no table; tables that have no label there."""
    unclear = {problem.bag: problem for problem in known.problems}
    for name in sorted({*known.names, *unclear} - tables):
        yield Problem(name, "missing", f"{metadata} has a row for it, there is no file")
    for name in sorted(readable - set(known.names)):
        _, kind, words = unclear.get(name, (name, "unlabelled", "there is no row for it"))
        yield Problem(name, kind, f"{metadata}: {words}")


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

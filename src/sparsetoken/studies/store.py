r"""`Store`: results that survive anything, in one SQLite file.

Every row is its own transaction in write-ahead mode: after a kill −9 each row is there whole or not
at all, and several processes may write to the same file. A key is written once; who comes second
changes nothing. A file that is not ours, is newer, damaged or read-only is refused and left as it
is.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sparsetoken.studies.questions import Row
from sparsetoken.support.numerics import NUMERICS

APPLICATION = 0x53504B54  # "SPKT" in the header of the file
SCHEMA = 2
_PATIENCE = 60.0  # seconds to wait for another writer
_TABLE = """
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY,
    repeat INTEGER NOT NULL,
    parameters TEXT NOT NULL,
    status TEXT NOT NULL,
    message TEXT NOT NULL,
    results TEXT NOT NULL,
    seconds REAL NOT NULL,
    version TEXT NOT NULL
) WITHOUT ROWID
"""
_ADDED = (  # to the table of schema 1, column by column
    "numerics INTEGER NOT NULL DEFAULT 1",
    "traceback TEXT NOT NULL DEFAULT ''",
)
_NAMES = (
    "key", "repeat", "parameters", "status", "message", "results", "seconds", "version",
    "numerics", "traceback",
)  # fmt: skip
_COLUMNS = _NAMES[1:]
_HOW_IT_WENT = ("status", "message", "traceback", "seconds", "version", "numerics", "key")
_INSERT = f"""
INSERT INTO results ({", ".join(_NAMES)}) VALUES ({", ".join("?" * len(_NAMES))})
ON CONFLICT (key) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
WHERE results.status = 'failed' AND (excluded.status <> 'failed' OR ?)
"""


class StoreError(ValueError):
    """A store that cannot be used; the file is as it was.

    >>> raise StoreError("store 'notes.txt' is not a sparsetoken store")
    Traceback (most recent call last):
        ...
    sparsetoken.studies.store.StoreError: store 'notes.txt' is not a sparsetoken store
    """


class Store:
    """Rows by key, in a file or (`path=None`) in memory.

    >>> with Store(None) as store:
    ...     store.add(Row("k", 0, {"length": 5}, "ok", "", {"test_error": 0.1}, 0.2), "0.1.0")
    ...     store.statuses(["k", "other"])
    {'k': 'ok'}
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        if not (path is None or isinstance(path, (str, os.PathLike))):
            raise StoreError(f"store must be a path or None, got {path!r}")
        self.path = None if path is None else Path(path).absolute()
        if self.path is not None and self.path.exists():
            _check_file(self.path)
        elif self.path is not None and not self.path.parent.is_dir():
            raise StoreError(f"store {str(path)!r}: its folder does not exist")
        with self._complaints():
            self._connection = sqlite3.connect(
                ":memory:" if self.path is None else self.path,
                timeout=_PATIENCE,
                isolation_level=None,
            )
            if not self._has_table():
                self._create()
            self._upgrade()
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
        self._identity = None if self.path is None else _identity(self.path)

    def _has_table(self) -> bool:
        found = self._connection.execute("SELECT name FROM sqlite_master WHERE name = 'results'")
        return found.fetchone() is not None

    def _create(self) -> None:
        """Before write-ahead mode: our name is in the file's own header, for all to see."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
        self._connection.execute(_TABLE)
        self._connection.execute("COMMIT")

    def _upgrade(self) -> None:
        """Columns that older stores do not have; what they hold stays as it is."""
        (schema,) = self._connection.execute("PRAGMA user_version").fetchone()
        if schema == SCHEMA and not self._missing_columns():
            return
        self._connection.execute("BEGIN IMMEDIATE")
        for column in self._missing_columns():  # another process may have been quicker
            self._connection.execute(f"ALTER TABLE results ADD COLUMN {column}")
        self._connection.execute(f"PRAGMA user_version = {SCHEMA}")
        self._connection.execute("COMMIT")

    def _missing_columns(self) -> list[str]:
        table = self._connection.execute("PRAGMA table_info(results)").fetchall()
        return [each for each in _ADDED if each.split()[0] not in {column[1] for column in table}]

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was added stays."""
        self._connection.close()

    def add(self, row: Row, version: str, again: bool = False) -> None:
        """Commit a row at once. One that is there stays, unless it failed and this one did not.

        `again`: a failure may also replace a failure.
        """
        values = (
            row.key,
            row.repeat,
            json.dumps(row.parameters),
            row.status,
            row.message,
            json.dumps(row.results),
            row.seconds,
            version,
            NUMERICS,
            row.traceback,
        )
        with self._complaints():
            self._connection.execute(_INSERT, (*values, again))
            self._check_still_there()

    def statuses(self, keys: Iterable[str]) -> dict[str, str]:
        """Status of those keys that are there."""
        wanted = set(keys)
        with self._complaints():
            found = self._connection.execute("SELECT key, status FROM results")
            return {key: status for key, status in found if key in wanted}

    def rows(self, keys: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """Rows as flat dicts, in the order of the keys (all, by key, without them)."""
        with self._complaints():
            names = ", ".join(_NAMES)
            found = self._connection.execute(f"SELECT {names} FROM results ORDER BY key").fetchall()
        if keys is None:
            yield from map(_flat, found)
            return
        by_key = {each[0]: each for each in found}
        for key in keys:
            if key in by_key:
                yield _flat(by_key[key])

    def _check_still_there(self) -> None:
        """A file that is deleted, moved or replaced under way lives on unseen: save its rows."""
        if self.path is None or _identity(self.path) == self._identity:
            return
        folder = self.path.parent if self.path.parent.is_dir() else Path(tempfile.gettempdir())
        names = (folder / f"{self.path.name}.rescued{i or ''}" for i in itertools.count())
        rescued = next(name for name in names if not name.exists())
        with contextlib.closing(sqlite3.connect(rescued)) as copy:
            self._connection.backup(copy)
        raise StoreError(
            f"store {str(self.path)!r} has been deleted, moved or replaced while in use; "
            f"all its rows are in {str(rescued)!r}"
        )

    @contextlib.contextmanager
    def _complaints(self) -> Iterator[None]:
        """SQLite's errors as sentences."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"store {str(self.path)!r} cannot be used: {error} (rows that are in it are safe)"
            ) from None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_file(path: Path) -> None:
    """Refuse, without touching it, a file that is not a usable store."""
    name = repr(str(path))
    if path.is_dir():
        raise StoreError(f"store {name} is a folder, not a file")
    if not os.access(path, os.R_OK | os.W_OK):
        raise StoreError(f"store {name} is read-only; copy it, or change its permissions")
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return
    if header[:16] != b"SQLite format 3\0" or len(header) < 100:
        raise StoreError(f"store {name} is not a sparsetoken store (not an SQLite file)")
    schema, application = (int.from_bytes(header[at : at + 4], "big") for at in (60, 68))
    if application != APPLICATION:
        raise StoreError(f"store {name} is not a sparsetoken store (another program's)")
    if schema > SCHEMA:
        raise StoreError(
            f"store {name} has schema {schema}, this version reads up to {SCHEMA}: "
            "use a newer sparsetoken"
        )
    # a file without a log is not touched by looking at it; one with a log is read with it
    quiet = "" if path.with_name(path.name + "-wal").exists() else "?immutable=1"
    try:
        address = path.absolute().as_uri() + quiet
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=_PATIENCE)) as peek:
            verdict = peek.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        raise StoreError(f"store {name} is damaged: {error}") from None
    if verdict != "ok":
        raise StoreError(f"store {name} is damaged: {verdict}")


def _flat(found: tuple[Any, ...]) -> dict[str, Any]:
    row = dict(zip(_NAMES, found, strict=True))
    return {
        **json.loads(row["parameters"]),
        "repeat": row["repeat"],
        **json.loads(row["results"]),
        **{name: row[name] for name in _HOW_IT_WENT},
    }

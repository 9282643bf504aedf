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
HOW_IT_WENT = ("status", "message", "traceback", "seconds", "version", "numerics", "key")
_INSERT = f"""
INSERT INTO results ({", ".join(_NAMES)}) VALUES ({", ".join("?" * len(_NAMES))})
ON CONFLICT (key) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _NAMES[1:])}
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
            self._create_or_upgrade()
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
        self._identity = None if self.path is None else _identity(self.path)

    def _create_or_upgrade(self) -> None:
        """Before write-ahead mode: our name is in the file's own header, for all to see.

        Older stores get the columns that they do not have; what they hold stays as it is.
        """
        (schema,) = self._connection.execute("PRAGMA user_version").fetchone()
        if schema == SCHEMA and not self._missing_columns():
            return
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
        self._connection.execute(_TABLE)
        for column in self._missing_columns():  # another process may have been quicker
            self._connection.execute(f"ALTER TABLE results ADD COLUMN {column}")
        self._connection.execute(f"PRAGMA user_version = {SCHEMA}")
        self._connection.execute("COMMIT")

    def _missing_columns(self) -> list[str]:
        table = self._connection.execute("PRAGMA table_info(results)").fetchall()
        present = {name for _, name, *_ in table}
        return [column for column in _ADDED if column.split()[0] not in present]

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
        stored = row._asdict() | {"version": version, "numerics": NUMERICS}
        for name in ("parameters", "results"):
            stored[name] = json.dumps(stored[name])
        with self._complaints():
            self._connection.execute(_INSERT, (*(stored[name] for name in _NAMES), again))
            self._check_still_there()

    def statuses(self, keys: Iterable[str]) -> dict[str, str]:
        """Status of those keys that are there."""
        wanted = set(keys)
        with self._complaints():
            present = self._connection.execute("SELECT key, status FROM results")
            return {key: status for key, status in present if key in wanted}

    def rows(self, keys: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """Rows as flat dicts, in the order of the keys (all, by key, without them)."""
        with self._complaints():
            names = ", ".join(_NAMES)
            cursor = self._connection.execute(f"SELECT {names} FROM results ORDER BY key")
            stored = {values[0]: values for values in cursor}
        for key in stored if keys is None else keys:
            if key in stored:
                yield _flat(stored[key])

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
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


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


def _flat(values: tuple[Any, ...]) -> dict[str, Any]:
    row = dict(zip(_NAMES, values, strict=True))
    return {
        **json.loads(row["parameters"]),
        "repeat": row["repeat"],
        **json.loads(row["results"]),
        **{name: row[name] for name in HOW_IT_WENT},
    }

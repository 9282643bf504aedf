"""Tables for people, JSON for programs, remarks on standard error."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import json_text, number_text
from sparsetoken.support.whole_files import NotAFile, target_file

Row = dict[str, Any]


def show(rows: list[Row], as_json: bool = False) -> None:
    """Rows as JSON, or as a table; words stand left in it, numbers right."""
    if as_json:
        print(json_text(rows))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for name in rows[0] if rows else []:
        words = any(isinstance(row[name], str) for row in rows)
        table.add_column(name.replace("_", " "), justify="left" if words else "right")
    for row in rows:
        table.add_row(*(number_text(value) for value in row.values()))
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)


def arguments(command: object, function: Callable[..., Any]) -> dict[str, Any]:
    """The fields of a command that are parameters of the function, by the same names."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in vars(command).items() if name in names}


def target(field: str, name: str | None) -> Path | None:
    """A file to write, refused before the work rather than after it; None if none is asked for."""
    if name is None:
        return None
    try:
        return target_file(name)
    except NotAFile as error:
        raise InvalidInput(f"{field} must be {error}") from None


def target_folder(field: str, name: str | None) -> Path | None:
    """A folder to write to, refused before the work if it cannot be one; None if none is asked
    for."""
    if name is None:
        return None
    folder = Path(name).absolute()
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if there.is_dir() and os.access(there, os.W_OK):
        return Path(name)
    why = f"{there} is {'read-only' if there.is_dir() else 'a file'}"
    raise InvalidInput(f"{field} must be a folder, or one that can be made ({why}), got {name!r}")


def note(message: object) -> None:
    """A remark on standard error."""
    print(f"sparsetoken: {message}", file=sys.stderr)


@dataclass(frozen=True)
class Voice:
    """What a command says while it works: on standard output nothing beside JSON."""

    json: bool
    quiet: bool

    def doing(self, words: str) -> None:
        """What will take a while, on standard error."""
        if not self.quiet:
            note(words)

    def say(self, words: str) -> None:
        if not self.json:
            print(words, flush=True)

    def show(self, rows: list[Row]) -> None:
        if not self.json:
            show(rows)


@contextmanager
def warnings_as_notes(category: type[Warning] = Warning) -> Iterator[list[str]]:
    """Warnings inside the with block become remarks at its end, each once; then in the list."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", category)
        yield messages
    messages += dict.fromkeys(str(warning.message) for warning in caught)
    for message in messages:
        note(message)

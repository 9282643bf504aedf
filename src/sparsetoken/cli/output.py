"""Tables for people, JSON for programs, remarks on standard error."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import json_text, number_text
from sparsetoken.support.whole_files import NotAFile, target_file


def show(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Rows as a table or as JSON."""
    if as_json:
        print(json_text(rows))
    else:
        _print_table(rows)


def target(field: str, name: str | None) -> Path | None:
    """A file to write, refused before the work rather than after it; None if none is asked for."""
    if name is None:
        return None
    try:
        return target_file(name)
    except NotAFile as error:
        raise InvalidInput(f"{field} must be {error}") from None


def note(message: object) -> None:
    """A remark on standard error."""
    print(f"sparsetoken: {message}", file=sys.stderr)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for name in rows[0] if rows else []:
        words = name in ("classifier", "quantity", "pooling", "recommended")
        table.add_column(name.replace("_", " "), justify="left" if words else "right")
    for row in rows:
        table.add_row(*(number_text(value) for value in row.values()))
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)
    console.print(table)

"""Tables for people, JSON for programs, remarks on standard error."""

from __future__ import annotations

import sys
from typing import Any

from sparsetoken.text import json_text, number_text


def show(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Rows as a table or as JSON."""
    if as_json:
        print(json_text(rows))
    else:
        _print_table(rows)


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

"""Numbers and tables as text, anything as JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_LARGEST = 1e15  # numbers below it are written in full; nobody counts so far
_UNRESOLVED = 1e-12  # nothing here is known so well: smaller numbers are shown as such


def number_text(value: Any, digits: int = 5) -> str:
    """One cell of a table: a dash for what is missing, few digits, no 1e-253; counts in full.

    >>> [number_text(value) for value in (0.123456, 1e-253, float("nan"), None, 12, "attention")]
    ['0.12346', '<1e-12', '–', '–', '12', 'attention']
    >>> [number_text(value, digits=3) for value in (0.123456, 1810.0, 18104.7)]
    ['0.123', '1810', '18105']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if not isinstance(value, float):
        return str(value)
    if 0 < abs(value) < _UNRESOLVED:
        return f"<{_UNRESOLVED:g}"
    if 10.0**digits <= abs(value) < _LARGEST:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def table_text(frame: pd.DataFrame, most: int | None = None) -> str:
    """A table for people; of one with more than `most` rows both ends."""
    columns = []
    for k, name in enumerate(frame.columns):
        values = frame.iloc[:, k].astype(object).tolist()
        cells = list(map(number_text, values))
        if most is not None and len(cells) > most:
            cells[most // 2 : len(cells) - (most - 1) // 2] = ["…"]
        words = [str(name).replace("_", " "), *cells]
        width = max(map(len, words))
        columns.append([word.rjust(width) if k else word.ljust(width) for word in words])
    return "\n".join(map("  ".join, zip(*columns, strict=True)))


def json_text(content: Any) -> str:
    """Anything as JSON, indented; see `json_ready`."""
    return json.dumps(json_ready(content), indent=1)


def json_ready(value: Any) -> Any:
    """JSON has neither NaN nor infinity: null and the word inf.

    >>> json_ready({"a": float("nan"), "b": [float("inf"), 1.5]})
    {'a': None, 'b': ['inf', 1.5]}
    """
    if isinstance(value, dict):
        return {key: json_ready(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(float(value))
    return value

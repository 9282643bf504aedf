"""Tables as text, numbers as JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def table_text(frame: pd.DataFrame) -> str:
    """A table for people."""

    def cell(value: Any) -> str:
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "–"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    rows = [[str(name).replace("_", " ") for name in frame.columns]]
    rows += [[cell(value) for value in row] for row in frame.astype(object).to_numpy().tolist()]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(
            word.ljust(width) if k == 0 else word.rjust(width)
            for k, (word, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(lines)


def json_ready(value: Any) -> Any:
    """JSON has neither NaN nor infinity: null and the word inf."""
    if isinstance(value, dict):
        return {key: json_ready(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value

"""Results that show themselves: sentences and tables, as text and as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from sparsetoken.support.pages import Markup, element, table
from sparsetoken.support.text import number_text, table_text

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 12  # of a table: what a screen takes; the ends of longer ones


class Captioned(NamedTuple):
    """A table with the words that belong to it."""

    words: str
    table: pd.DataFrame


class Shown:
    """A result that prints itself, and is a table in a notebook; `repr` stays what it was."""

    def paragraphs(self) -> Iterator[str | pd.DataFrame | Captioned]:
        """Sentences and tables, in order."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n\n".join(map(_text, self.paragraphs()))

    def _repr_html_(self) -> str:
        """For notebooks. Words are escaped."""
        return element("div", *map(_html, self.paragraphs()))


def _text(paragraph: str | pd.DataFrame | Captioned) -> str:
    if isinstance(paragraph, str):
        return paragraph
    if isinstance(paragraph, Captioned):
        return f"{paragraph.words}\n{table_text(paragraph.table)}"
    return table_text(paragraph, _MOST_ROWS)


def _html(paragraph: str | pd.DataFrame | Captioned) -> Markup:
    if isinstance(paragraph, str):
        lines = [element("div", line) for line in paragraph.split("\n")]
        return element("p", *lines)
    if isinstance(paragraph, Captioned):
        return element("div", _html(paragraph.words), _html(paragraph.table))
    cells = [
        [number_text(value) for value in paragraph.iloc[:, k].astype(object)]
        for k in range(len(paragraph.columns))
    ]
    return table(
        [str(name).replace("_", " ") for name in paragraph.columns], zip(*cells, strict=True)
    )

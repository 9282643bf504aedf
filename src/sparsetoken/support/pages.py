"""HTML pages that need no other file: pictures lie inside, nothing is loaded and nothing runs.

Words are escaped when they become part of an element, so that what comes from data is shown as it
is written. Only `Markup`, which `element` makes, is taken as it stands.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --quiet: #5c5c5c; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  overflow-wrap: break-word; }
h1 { line-height: 1.2; margin-bottom: 0.3rem; }
h2 { margin: 2.5rem 0 0.5rem; padding-top: 0.5rem; border-top: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem;
  border-bottom: 1px solid var(--line); }
th { vertical-align: bottom; }
.table { overflow-x: auto; margin: 1rem 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.chosen td { font-weight: 600; background: var(--soft); }
img { max-width: 100%; height: auto; background: white; border-radius: 4px; }
figure { margin: 1rem 0; }
figcaption, .quiet { font-size: 0.85rem; color: var(--quiet); }
.figures { display: grid; gap: 0 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)); }
.short { background: var(--soft); border-left: 4px solid #D55E00; padding: 0.6rem 1rem; }
.short p { margin: 0.4rem 0; }
dt { font-weight: 600; margin-top: 0.6rem; }
dd { margin: 0; }
pre { overflow-x: auto; background: #8882; padding: 0.5rem; white-space: pre-wrap; }
.holds { color: #00795a; } .fails { color: #c03a00; } .inconclusive { color: #8a6d00; }
@media (prefers-color-scheme: dark) {
  :root { --quiet: #a8a8a8; }
  .holds { color: #4fd1a5; } .fails { color: #ff9466; } .inconclusive { color: #e5c453; }
}
@media (max-width: 40rem) {
  body { margin: 1rem auto; } th, td { padding: 0.3rem 0.25rem; } ul { padding-left: 1.2rem; }
  table { font-size: 0.8rem; }
}
@media print {
  body { font-size: 11pt; margin: 0; max-width: none; }
  figure, tr, .short { break-inside: avoid; } h2 { break-after: avoid; }
}
"""
_ALONE = {"img", "meta", "link"}  # elements without an end
# a page that came from strangers' words loads nothing and runs nothing, whatever they are
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Markup(str):
    """HTML, escaped already."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """An HTML element. Words inside are escaped, and attributes; `class_` is the class.

    >>> element("p", "1 < 2, ", element("b", "R&D"), class_="quiet")
    '<p class="quiet">1 &lt; 2, <b>R&amp;D</b></p>'
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
    )
    if name in _ALONE:
        return Markup(f"<{name}{words}>")
    return Markup(f"<{name}{words}>{joined(children)}</{name}>")


def joined(parts: Iterable[str]) -> Markup:
    """One after the other; words are escaped."""
    return Markup(
        "".join(part if isinstance(part, Markup) else html.escape(part) for part in parts)
    )


def quiet(*children: str) -> Markup:
    """A paragraph of lesser weight."""
    return element("p", *children, class_="quiet")


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1, chosen: int | None = None
) -> Markup:
    """A table; the first columns are words, the others numbers; one of the rows stands out.

    Without any words in the head there is none.
    """
    kinds = [{} if k < words else {"class_": "number"} for k in range(len(head))]

    def line(cell: str, cells: Sequence[str]) -> Iterable[Markup]:
        return (element(cell, text, **kind) for text, kind in zip(cells, kinds, strict=True))

    body = [
        element("tr", *line("td", cells), **({"class_": "chosen"} if k == chosen else {}))
        for k, cells in enumerate(rows)
    ]
    top = [element("thead", element("tr", *line("th", head)))] if any(head) else []
    return element("div", element("table", *top, element("tbody", *body)), class_="table")


def picture(content: bytes, kind: str, words: str, **attributes: object) -> Markup:
    """An image that lies in the page; `kind` is png or svg+xml, `words` say what it shows."""
    data = base64.b64encode(content).decode("ascii")
    return element("img", alt=words, src=f"data:image/{kind};base64,{data}", **attributes)


def page(title: str, *body: str) -> str:
    """A whole page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("link", rel="icon", href="data:,"),
        element("title", title),
        element("style", Markup(_STYLE)),
    )
    content = "\n".join(joined([part]) for part in body)
    return f'<!doctype html>\n<html lang="en">{head}<body>\n{content}\n</body></html>\n'

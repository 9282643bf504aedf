"""The report: for each claim its sentence, picture, numbers and verdict, in Markdown and HTML.

The HTML holds its pictures and needs no other file.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sparsetoken.reproduction.claim import Check, Table, Verdict

_MARKS = {"holds": "✓", "fails": "✗", "inconclusive": "?"}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem;
  border-bottom: 1px solid #8884; }
img { max-width: 100%; background: white; }
pre { overflow-x: auto; background: #8882; padding: 0.5rem; }
.holds { color: #00795a; } .fails { color: #c03a00; } .inconclusive { color: #8a6d00; }
@media (prefers-color-scheme: dark) {
  .holds { color: #4fd1a5; } .fails { color: #ff9466; } .inconclusive { color: #e5c453; }
}
"""


@dataclass(frozen=True)
class Section:
    """A claim that was computed and judged; its files lie beside the report."""

    name: str
    source: str
    sentence: str
    verdict: Verdict
    checks: list[Check]
    remarks: list[str]
    sizes: str
    command: str
    versions: list[str]  # that computed its rows
    seconds: float

    @property
    def mark(self) -> str:
        """The verdict with a sign."""
        return f"{_MARKS[self.verdict]} {self.verdict}"

    def save(self, folder: Path) -> None:
        """NAME.json, from which the report can be made again."""
        content = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        (folder / f"{self.name}.json").write_text(content, encoding="utf-8")


def sections_in(folder: Path, names: Sequence[str]) -> list[Section]:
    """The sections whose files are in a folder, in the given order."""
    found = []
    for name in names:
        path = folder / f"{name}.json"
        if path.exists():
            content = json.loads(path.read_text(encoding="utf-8"))
            content["checks"] = [Check(**check) for check in content["checks"]]
            found.append(Section(**content))
    return found


def sizes_of(table: Table) -> str:
    """Dimensions and repeats of the simulations behind a table, in words."""
    dots = table.dropna(subset=["simulation", "dim"])
    if not len(dots):
        return "No simulation: exact or sampled oracles."
    dims, repeats = (
        ", ".join(f"{value:.0f}" for value in sorted(dots[name].dropna().unique()))
        for name in ("dim", "repeats")
    )
    return f"Simulations in dimension {dims}, {repeats} runs a dot."


def write(out: Path, sections: Sequence[Section]) -> None:
    """`report.md` and `report.html` in the folder of the figures."""
    (out / "report.md").write_text(_markdown(sections), encoding="utf-8")
    (out / "report.html").write_text(_html(out, sections), encoding="utf-8")


def _about(sections: Sequence[Section]) -> str:
    versions = sorted({version for each in sections for version in each.versions})
    return (
        f"Computed by sparsetoken {', '.join(versions)}. Lines are theory, marks are simulations "
        "with bars of two standard errors (joined by thin lines where there is no theory). A claim "
        "holds if all its checks do."
    )


def _markdown(sections: Sequence[Section]) -> str:
    lines = ["# Reproduction", "", _about(sections), ""]
    lines += ["| reproduction | claim | verdict |", "|---|---|---|"]
    for each in sections:
        anchor = f"[{each.name}](#{each.name})"
        lines.append(f"| {anchor} | {_cell(each.sentence)} | {each.mark} |")
    for each in sections:
        name = each.name
        lines += ["", f"## {name}", "", f"**{each.source}.** {each.sentence} {each.sizes}", ""]
        lines += [f"![{name}]({name}.png)", ""]
        lines += ["| check | predicted | measured | rule | verdict |", "|---|---|---|---|---|"]
        for check in each.checks:
            cells = (check.what, check.predicted, check.measured, check.rule, check.verdict)
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
        lines += [line for remark in each.remarks for line in ("", remark)]
        files = f"[numbers]({name}.csv), [PDF]({name}.pdf)"
        lines += ["", f"Verdict: **{each.verdict}**. {files}. {each.seconds:.0f} s.", ""]
        lines.append(f"    {each.command}")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _html(out: Path, sections: Sequence[Section]) -> str:
    e = html.escape
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>Reproduction</title><style>{_STYLE}</style></head><body>",
        f"<h1>Reproduction</h1><p>{e(_about(sections))}</p>",
        "<table><thead><tr><th>reproduction<th>claim<th>verdict</tr></thead><tbody>",
    ]
    for each in sections:
        parts.append(
            f'<tr><td><a href="#{each.name}">{each.name}</a><td>{e(each.sentence)}'
            f'<td class="{each.verdict}">{each.mark}</tr>'
        )
    parts.append("</tbody></table>")
    for each in sections:
        picture = base64.b64encode((out / f"{each.name}.png").read_bytes()).decode("ascii")
        parts += [
            f'<section id="{each.name}"><h2>{each.name}</h2>',
            f"<p><strong>{e(each.source)}.</strong> {e(each.sentence)} {e(each.sizes)}</p>",
            f'<img alt="{e(each.sentence)}" src="data:image/png;base64,{picture}">',
            "<table><thead><tr><th>check<th>predicted<th>measured<th>rule<th>verdict</tr></thead>",
            "<tbody>",
        ]
        for check in each.checks:
            cells = (check.what, check.predicted, check.measured, check.rule)
            row = "".join(f"<td>{e(cell)}" for cell in cells)
            parts.append(f'<tr>{row}<td class="{check.verdict}">{check.verdict}</tr>')
        parts.append("</tbody></table>")
        parts += [f"<p>{e(remark)}</p>" for remark in each.remarks]
        parts.append(f'<p>Verdict: <strong class="{each.verdict}">{each.mark}</strong>.</p>')
        parts.append(f"<pre>{e(each.command)}</pre></section>")
    parts.append("</body></html>")
    return "\n".join(parts)

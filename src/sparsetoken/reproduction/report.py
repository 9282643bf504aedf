"""The report: for each claim its sentence, picture, numbers and verdict, in Markdown and HTML.

The HTML holds its pictures and needs no other file.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparsetoken.reproduction.claims import Claim, Judgement, Scale

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

    claim: Claim
    judgement: Judgement
    seconds: float
    command: str

    @property
    def verdict(self) -> str:
        """With its mark."""
        return f"{_MARKS[self.judgement.verdict]} {self.judgement.verdict}"


def write(out: Path, sections: Sequence[Section], scale: Scale, version: str) -> None:
    """`report.md` and `report.html` in the folder of the figures."""
    (out / "report.md").write_text(_markdown(sections, scale, version), encoding="utf-8")
    (out / "report.html").write_text(_html(out, sections, scale, version), encoding="utf-8")


def _about(scale: Scale, version: str) -> str:
    return (
        f"Made by sparsetoken {version}, scale “{scale.name}”, seed {scale.seed}: simulations in "
        f"dimension {scale.dim} (token by token: {scale.token_dim}), {scale.repeats} repeats. "
        "Lines are theory, marks are simulations with bars of two standard errors. A claim holds "
        "if all its checks do."
    )


def _markdown(sections: Sequence[Section], scale: Scale, version: str) -> str:
    lines = ["# Reproduction", "", _about(scale, version), ""]
    lines += ["| reproduction | claim | verdict |", "|---|---|---|"]
    for each in sections:
        anchor = f"[{each.claim.name}](#{each.claim.name})"
        lines.append(f"| {anchor} | {_cell(each.claim.sentence)} | {each.verdict} |")
    for each in sections:
        claim = each.claim
        lines += ["", f"## {claim.name}", "", f"**{claim.source}.** {claim.sentence}", ""]
        lines += [f"![{claim.name}]({claim.name}.png)", ""]
        lines += ["| check | predicted | measured | rule | verdict |", "|---|---|---|---|---|"]
        for check in each.judgement.checks:
            cells = (check.what, check.predicted, check.measured, check.rule, check.verdict)
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
        lines += [line for remark in each.judgement.remarks for line in ("", remark)]
        files = f"[numbers]({claim.name}.csv), [PDF]({claim.name}.pdf)"
        lines += ["", f"Verdict: **{each.judgement.verdict}**. {files}. {each.seconds:.0f} s.", ""]
        lines.append(f"    {each.command}")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _html(out: Path, sections: Sequence[Section], scale: Scale, version: str) -> str:
    e = html.escape
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>Reproduction</title><style>{_STYLE}</style></head><body>",
        f"<h1>Reproduction</h1><p>{e(_about(scale, version))}</p>",
        "<table><thead><tr><th>reproduction<th>claim<th>verdict</tr></thead><tbody>",
    ]
    for each in sections:
        name, kind = each.claim.name, each.judgement.verdict
        parts.append(
            f'<tr><td><a href="#{name}">{name}</a><td>{e(each.claim.sentence)}'
            f'<td class="{kind}">{each.verdict}</tr>'
        )
    parts.append("</tbody></table>")
    for each in sections:
        name, kind = each.claim.name, each.judgement.verdict
        picture = base64.b64encode((out / f"{name}.png").read_bytes()).decode("ascii")
        parts += [
            f'<section id="{name}"><h2>{name}</h2>',
            f"<p><strong>{e(each.claim.source)}.</strong> {e(each.claim.sentence)}</p>",
            f'<img alt="{e(each.claim.sentence)}" src="data:image/png;base64,{picture}">',
            "<table><thead><tr><th>check<th>predicted<th>measured<th>rule<th>verdict</tr></thead>",
            "<tbody>",
        ]
        for check in each.judgement.checks:
            cells = (check.what, check.predicted, check.measured, check.rule)
            row = "".join(f"<td>{e(cell)}" for cell in cells)
            parts.append(f'<tr>{row}<td class="{check.verdict}">{check.verdict}</tr>')
        parts.append("</tbody></table>")
        parts += [f"<p>{e(remark)}</p>" for remark in each.judgement.remarks]
        parts.append(f'<p>Verdict: <strong class="{kind}">{each.verdict}</strong>.</p>')
        parts.append(f"<pre>{e(each.command)}</pre></section>")
    parts.append("</body></html>")
    return "\n".join(parts)

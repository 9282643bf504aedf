"""The report: for each claim its sentence, picture, numbers and verdict, in Markdown and HTML.

The HTML holds its pictures and needs no other file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sparsetoken.reproduction.claim import Check, Table, Verdict
from sparsetoken.support.pages import Markup, element, page, picture, table

_MARKS = {"holds": "✓", "fails": "✗", "inconclusive": "?"}


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
    settings: dict[str, str] = field(default_factory=dict)  # what each panel was computed for
    commit: str | None = None  # "with changes" if there were any; None where it is not known
    numerics: int | None = None  # the version of the numbers
    machine: str | None = None

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
    sections = []
    for name in names:
        path = folder / f"{name}.json"
        if path.exists():
            content = json.loads(path.read_text(encoding="utf-8"))
            content["checks"] = [Check(**check) for check in content["checks"]]
            sections.append(Section(**content))
    return sections


def computed_for(section: Section) -> tuple[str, list[tuple[str, str]]]:
    """What all of a claim was computed for, in a sentence, and what each panel was."""
    words = section.settings.get("")
    shown = [(panel, text) for panel, text in section.settings.items() if panel]
    return f"Computed for {words}." if words else "", shown


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
    versions = sorted({version for section in sections for version in section.versions})
    return (
        f"Computed by sparsetoken {', '.join(versions)}. Lines are theory, marks are simulations "
        "with bars of two standard errors (joined by thin lines where there is no theory). A claim "
        "holds if all its checks do."
    )


def _markdown(sections: Sequence[Section]) -> str:
    lines = ["# Reproduction", "", _about(sections), ""]
    lines += ["| reproduction | claim | verdict |", "|---|---|---|"]
    for section in sections:
        anchor = f"[{section.name}](#{section.name})"
        lines.append(f"| {anchor} | {_cell(section.sentence)} | {section.mark} |")
    for section in sections:
        name = section.name
        lines += [
            "",
            f"## {name}",
            "",
            f"**{section.source}.** {section.sentence} {section.sizes}",
            "",
        ]
        everywhere, by_panel = computed_for(section)
        lines += [everywhere, ""] if everywhere else []
        lines += [f"- *{panel}*: {words}." for panel, words in by_panel]
        lines += [""] if by_panel else []
        lines += [f"![{name}]({name}.png)", ""]
        lines += ["| check | predicted | measured | rule | verdict |", "|---|---|---|---|---|"]
        for check in section.checks:
            cells = (check.what, check.predicted, check.measured, check.rule, check.verdict)
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
        lines += [line for remark in section.remarks for line in ("", remark)]
        files = f"[numbers]({name}.csv), [PDF]({name}.pdf)"
        where = f"{section.seconds:.0f} s{_provenance(section)}"
        lines += ["", f"Verdict: **{section.verdict}**. {files}. {where}.", ""]
        lines.append(f"    {section.command}")
    return "\n".join(lines) + "\n"


def _provenance(section: Section) -> str:
    """By what a claim was computed and where, as far as its file says."""
    parts = [
        f" on {section.machine}" if section.machine else "",
        f", commit {section.commit}" if section.commit else "",
        "" if section.numerics is None else f", numerics {section.numerics}",
    ]
    return "".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _html(out: Path, sections: Sequence[Section]) -> str:
    contents = [
        (
            element("a", section.name, href=f"#{section.name}"),
            section.sentence,
            _coloured(section.mark, section.verdict),
        )
        for section in sections
    ]
    return page(
        "Reproduction",
        element("h1", "Reproduction"),
        element("p", _about(sections)),
        table(("reproduction", "claim", "verdict"), contents, words=3),
        *(_section(out, section) for section in sections),
    )


def _section(out: Path, section: Section) -> Markup:
    rows = [
        (
            check.what,
            check.predicted,
            check.measured,
            check.rule,
            _coloured(check.verdict, check.verdict),
        )
        for check in section.checks
    ]
    everywhere, by_panel = computed_for(section)
    panels = (element("li", element("em", panel), f": {words}.") for panel, words in by_panel)
    return element(
        "section",
        element("h2", section.name),
        element(
            "p", element("strong", f"{section.source}."), f" {section.sentence} {section.sizes}"
        ),
        *([element("p", everywhere)] if everywhere else []),
        *([element("ul", *panels)] if by_panel else []),
        picture((out / f"{section.name}.png").read_bytes(), "png", section.sentence),
        table(("check", "predicted", "measured", "rule", "verdict"), rows, words=5),
        *(element("p", remark) for remark in section.remarks),
        element("p", "Verdict: ", element("strong", _coloured(section.mark, section.verdict)), "."),
        element("pre", section.command),
        id=section.name,
    )


def _coloured(words: str, verdict: Verdict) -> Markup:
    return element("span", words, class_=verdict)

"""Sections of docs/theory.md, by number: where sources send their readers."""

from __future__ import annotations

import re

from pages import DOCS
from sparsetoken.reproduction.reproduce import CLAIMS

HEADING = re.compile(r"^## (\d+)\. (.*)$", re.M)
CITED = re.compile(r"section (\d+)\s+of\s+docs/theory\.md")
SECTIONS = dict(HEADING.findall((DOCS / "theory.md").read_text()))
SOURCES = DOCS.parent / "src" / "sparsetoken"


def test_files_cite_the_section_that_names_them():
    """A heading says in which files its section is; these, if they cite one, cite this."""
    homes = {name: number for number, title in SECTIONS.items()
             for name in re.findall(r"(\w+\.py)`", title)}  # fmt: skip
    compared = 0
    for path in SOURCES.rglob("*.py"):
        for number in CITED.findall(path.read_text()):
            assert number == homes.get(path.name, number), path
            assert number in SECTIONS, path
            compared += path.name in homes
    assert compared > 3


def test_what_has_no_heading_of_its_own():
    for cited in (
        (SOURCES / "simulation" / "message_passing.py").read_text(),
        CLAIMS.make("learning").source,
    ):
        assert all("any learner" in SECTIONS[number] for number in CITED.findall(cited))
        assert CITED.findall(cited)
    pooling = (SOURCES / "simulation" / "pooling.py").read_text()
    assert all("not white" in SECTIONS[number] for number in CITED.findall(pooling))

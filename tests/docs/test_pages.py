"""Pages for programs and for readers: what they list exists, what they say runs."""

from __future__ import annotations

import json
import re
import shlex

import pytest

import sparsetoken as st
from pages import DOCS
from sparsetoken.cli import main

SKILL = (DOCS / "skill.md").read_text()


def test_every_public_name_is_in_the_reference_once():
    listed = re.findall(r"^   (\w+)$", (DOCS / "api" / "index.rst").read_text(), re.M)
    missing = set(st.__all__) - {"__version__"} - set(listed)
    assert not missing, f"docs/api/index.rst: put {missing} beside their siblings"
    assert len(listed) == len(set(listed)) and set(listed) <= set(st.__all__)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=pytest.mark.slow)
        if "--dim 200" in line or "plan" in line
        else line
        for line in re.findall(r"^    (sparsetoken .*)$", SKILL, re.M)
    ],
)
def test_commands_for_programs_print_one_document(line, capsys):
    assert main(shlex.split(line)[1:]) == 0
    json.loads(capsys.readouterr().out)


def test_programs_are_told_of_every_exit_code():
    """Those that docs/stability.md promises."""
    promised = re.search(r"exit codes \(([^)]*)\)", (DOCS / "stability.md").read_text())[1]
    codes = re.findall(r"(?:^|; )(\d+)", promised)
    told = re.findall(r"^\| (\d+) \|", SKILL, re.M)
    assert sorted(told, key=int) == codes and len(codes) == 6


def test_a_wrong_value_is_one_sentence(capsys):
    assert main(["predict", "--length", "0", "--sparsity", "1", "--strength", "5", "--json"]) == 2
    told = capsys.readouterr()
    assert not told.out and "length" in told.err


def test_programs_are_told_of_every_page():
    """llms.txt lists the pages that are written here, and no other."""
    listed = set(re.findall(r"\]\(([\w/]+)\.html\)", (DOCS / "llms.txt").read_text()))
    generated = {"gallery/index", "tutorials/index"}
    for page in listed - generated:
        assert (DOCS / f"{page}.md").exists() or (DOCS / f"{page}.rst").exists(), page
    written = {page.stem for page in DOCS.glob("*.md")}
    ways = {"index", "guides", "background"}
    assert written - ways - listed == set()


def test_no_page_has_code_as_quotation():
    """Doctests stand in fences or are indented: flush left they would be nested quotations."""
    for page in DOCS.rglob("*.md"):
        fenced = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        assert not re.search(r"^>>>", fenced, re.M), page

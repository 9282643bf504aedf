"""Every number on the pages comes from code or a file beside it, and still does.

A page with code keeps two rules: the code prints what the page says it prints, and each number in
its prose is one that the code of its section takes or prints.
"""

from __future__ import annotations

import pytest

from pages import DOCS, NumberChecker, last_place, run, sections, unfounded

EXECUTED = ["faq.md", "start.md", "choose.md"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EXECUTED, "index.md", "trust.md"])
def test_a_page_prints_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = run(DOCS / name)
    assert outcome.attempted > 3 and outcome.failed == 0


@pytest.mark.parametrize("name", [*EXECUTED, "index.md"])
def test_numbers_in_the_text_are_those_of_the_code(name):
    for title, prose, code in sections(DOCS / name):
        assert not (wrong := unfounded(prose, code)), (title, wrong)


def test_every_symptom_has_a_number_and_its_call():
    answers = list(sections(DOCS / "faq.md"))[1:]
    assert len(answers) >= 9
    for title, _, code in answers:
        assert "print(" in code and "st." in code, title


def test_the_rule_finds_a_wrong_number():
    code = ">>> print(round(0.1234, 2))\n0.12"
    assert unfounded("an error of 0.12, that is 12 %", code) == []
    assert unfounded("an error of 0.13, that is 14 %, or −0.12", code) == ["0.13", "14", "−0.12"]
    assert unfounded("about 170", "166.0") == [] and unfounded("about 180", "166.0") == ["180"]


def test_the_checker_allows_a_unit_of_the_last_digit():
    checker = NumberChecker()
    assert checker.check_output("error 0.12\n", "error 0.13\n", 0)
    assert not checker.check_output("error 0.12\n", "error 0.14\n", 0)
    assert not checker.check_output("error 0.12\n", "AUC 0.12\n", 0)
    assert not checker.check_output("4 passes\n", "5 passes\n", 0)
    checker.allowed = 10.0
    assert checker.check_output("170.0\n", "161.0\n", 0)
    assert [last_place(text) for text in ("0.25", "170", "7", "5,000", "1e-9")] == [
        0.01, 10.0, 1.0, 1000.0, 1e-9,
    ]  # fmt: skip

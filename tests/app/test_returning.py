"""Away and back before the answer has come: what is shown is of the state that is there."""

from __future__ import annotations

import json
import time

import pytest

from browser import open_browser
from explorer_page import Meddler, serving, until, wait

_EXACT = ("curves", "table", "floors", "capacities", "learners", "doubts", "code")
_SETTLED = """() => window.explorer.status.word === 'exact'
    && document.getElementById('numbers-state').textContent.startsWith('exact')
    && !document.getElementById('caption').textContent.includes('Computing')
    && document.getElementById('python').textContent !== ''"""


@pytest.fixture(scope="module")
def server():
    with serving() as opened:
        yield opened


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture
def page(browser):
    opened = browser.new_page()
    opened.set_default_timeout(60_000)
    wrong = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    yield opened
    opened.close()
    assert not wrong


def settled(page, value):
    """All exact, of this strength, and still so when nothing more can come."""
    until(page, _SETTLED, patience=30)
    page.wait_for_timeout(1000)
    assert page.evaluate(_SETTLED)
    assert page.evaluate("window.explorer.words.strength") == value
    assert f"strength={value:.1f}" in page.text_content("#python").replace(" ", "")


def held(meddler, page, kind):
    end = time.monotonic() + 60
    while not any(json.loads(text)["ask"] == kind for text in meddler.held):
        page.wait_for_timeout(50)
        assert time.monotonic() < end


def typed(page, value):
    page.fill("#strength", value)
    page.keyboard.press("Enter")


def test_a_step_and_back_while_the_answer_is_on_its_way(page, server):
    meddler = Meddler(page)
    page.goto(f"{server.address}?length=3")
    settled(page, 5)
    meddler.rule = lambda m: "hold" if m["ask"] in _EXACT else "pass"
    page.focus("#slide-strength")
    page.keyboard.press("ArrowRight")
    held(meddler, page, "table")
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(300)
    meddler.rule = lambda m: "pass"
    meddler.release()
    settled(page, 5)


def test_away_and_the_browsers_back(page, server):
    meddler = Meddler(page)
    page.goto(f"{server.address}?length=3")
    settled(page, 5)
    meddler.rule = lambda m: "hold" if m["ask"] in _EXACT else "pass"
    typed(page, "7.5")
    held(meddler, page, "table")
    page.go_back()
    page.wait_for_timeout(300)
    meddler.rule = lambda m: "pass"
    meddler.release()
    settled(page, 5)


@pytest.mark.parametrize("pause", [0, 60, 250])
def test_three_values_of_which_the_last_is_the_first(page, server, pause):
    page.goto(f"{server.address}?length=3")
    settled(page, 5)
    for value in ("3.1", "6.2", f"{3.1}"):
        typed(page, value)
        page.wait_for_timeout(pause)
    settled(page, 3.1)


def test_back_to_a_state_whose_answer_failed(page, server):
    """Its trouble is shown, or its numbers: never those of the other state for good."""
    meddler = Meddler(page)
    page.goto(f"{server.address}?length=3")
    settled(page, 5)
    meddler.rule = lambda m: "bug" if m["ask"] == "curves" else "pass"
    typed(page, "4.5")
    until(page, "() => window.explorer.status.word === 'no answer'")
    meddler.rule = lambda m: "hold" if m["ask"] == "curves" else "pass"
    typed(page, "6.5")
    held(meddler, page, "curves")
    typed(page, "4.5")
    page.wait_for_timeout(300)
    meddler.rule = lambda m: "pass"
    meddler.release()
    page.wait_for_timeout(500)
    assert page.inner_text("#status") == "no answer"
    typed(page, "6.5")
    wait(page, strength=6.5)

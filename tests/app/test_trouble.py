"""Servers and workers that die: what could not be had is asked for again."""

from __future__ import annotations

import os
import signal

import pytest

from browser import open_browser
from explorer_page import Meddler, serving, until, wait

NUMBERS = "() => document.getElementById('numbers-state').textContent.startsWith('exact')"
STORY = "() => document.querySelector('#story h2')"


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def server():
    with serving() as opened:
        yield opened


def test_a_story_that_did_not_come_comes_with_the_server(browser, server):
    page = browser.new_page()
    page.route("**/story.json", lambda route: route.abort())
    page.goto(f"{server.address}?length=5")
    until(page, "() => document.querySelector('#story [role=alert]')")
    wait(page)
    page.unroute("**/story.json")
    server.kill()
    until(page, "() => !window.explorer.connected", patience=10)
    server.start()
    until(page, STORY)
    assert page.locator("#story [role=alert]").count() == 0
    until(page, "() => document.querySelectorAll('#presets button').length === 6")
    page.close()


def test_a_story_that_did_not_come_can_be_asked_for(browser, server):
    page = browser.new_page()
    page.route("**/story.json", lambda route: route.fulfill(status=503, body="a worker died"))
    page.goto(server.address)
    until(page, "() => document.querySelector('#story [role=alert]')")
    assert "a worker died" in page.inner_text("#story")
    page.unroute("**/story.json")
    page.locator("#story button").click()
    until(page, STORY)
    assert page.locator("#presets button").count() == 6
    page.close()


@pytest.mark.parametrize(
    "size", [{"width": 1280, "height": 1000}, {"width": 390, "height": 844}], ids=["desk", "phone"]
)
def test_the_laboratory_does_not_jump_when_the_story_comes(browser, server, size):
    page = browser.new_page(viewport=size)
    waiting = []
    page.route("**/story.json", lambda route: waiting.append(route))
    page.goto(server.address)
    wait(page)
    assert page.inner_text("#story") == "The story is being computed."
    top = "document.getElementById('lab').getBoundingClientRect().top"
    before = page.evaluate(top)
    waiting[0].continue_()
    until(page, STORY)
    page.wait_for_timeout(200)
    assert abs(page.evaluate(top) - before) < 30
    page.close()


def test_workers_that_die_leave_a_button_that_asks_again(browser, server):
    page = browser.new_page()
    page.goto(f"{server.address}?length=5")
    wait(page)
    until(page, NUMBERS)
    assert page.is_hidden("#again")
    meddler_of_death(page, server)
    until(page, "() => window.explorer.status.word === 'no answer'")
    assert "try again" in page.inner_text("#trouble")
    until(page, "() => !document.getElementById('again').hidden")
    page.click("#again")
    wait(page, length=60)
    until(page, NUMBERS)
    assert page.is_hidden("#again") and page.inner_text("#trouble") == ""
    page.close()


def meddler_of_death(page, server):
    """A long state is asked for, and whoever works for it is killed until the page says so."""
    page.fill("#length", "60")
    page.keyboard.press("Enter")
    for _ in range(200):
        page.wait_for_timeout(100)
        for worker in server.workers():
            os.kill(worker, signal.SIGKILL)
        if page.evaluate("window.explorer.status.word") == "no answer":
            return


def test_the_button_is_there_for_what_is_beside_the_plot(browser, server):
    page = browser.new_page()
    meddler = Meddler(page)
    meddler.rule = lambda m: "bug" if m["ask"] in ("table", "floors") else "pass"
    page.goto(f"{server.address}?length=5")
    wait(page)
    until(page, "() => !document.getElementById('again').hidden")
    meddler.rule = lambda m: "pass"
    page.click("#again")
    until(page, NUMBERS)
    until(page, "() => document.getElementById('again').hidden")
    page.close()

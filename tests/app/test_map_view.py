"""The map for those who point, tap, listen, or see no colours."""

from __future__ import annotations

import json
import math
import re

import pytest

from browser import open_browser
from explorer_page import serving, until, wait

QUERY = "?view=map&length=2&across=strength&up=sparsity"


@pytest.fixture(scope="module")
def server():
    with serving() as opened:
        yield opened


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


def cells(page):
    """What the page was told, cell by cell."""
    with page.expect_download() as waiting:
        page.click("#save-csv")
    lines = waiting.value.path().read_text().splitlines()
    return [line.split(",") for line in lines if not line.startswith("#")][1:]


def place(page, across, up):
    """Of the middle of a cell, by its shares of the map."""
    box = page.locator("#plot canvas >> nth=-1").bounding_box()
    left, top, width, height = box["x"] + 62, box["y"] + 12, box["width"] - 74, box["height"] - 74
    return left + across * width, top + (1 - up) * height


def test_a_cell_is_told_and_gone_to(browser, server):
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.goto(f"{server.address}{QUERY}")
    wait(page, said=("exact", "sampled"))
    until(page, "() => document.querySelector('#story h2')", patience=300)  # it moves the page
    page.evaluate("document.getElementById('lab').scrollIntoView()")
    x, y = place(page, 5.5 / 13, 0.25)  # strength 25/3 of 0 to 20 in 13, one token of two
    page.mouse.move(x, y)
    until(page, "() => readout.textContent.includes('best linear')")
    words = page.inner_text("#readout")
    there = (pytest.approx(25 / 3), "1")
    (value,) = (float(row[2]) for row in cells(page) if there == (float(row[0]), row[1]))
    told = re.search(r"strength θ 8.33, sparsity R 1: attention's test error is (\S+) times", words)
    assert told, words
    assert float(told[1]) == pytest.approx(10**value, rel=0.06)
    page.mouse.click(x, y)
    until(page, "() => Math.abs(window.explorer.words.strength - 25 / 3) < 1e-9")
    assert page.inner_text("#status") in ("exact", "sampled")  # the map itself has not changed
    assert "strength=8.33" in page.evaluate("location.search")
    page.close()


def test_a_tap_tells_on_a_phone(browser, server):
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(f"{server.address}{QUERY}")
    wait(page, said=("exact", "sampled"))
    until(page, "() => document.querySelector('#story h2')")
    page.evaluate("document.getElementById('lab').scrollIntoView()")
    page.touchscreen.tap(*place(page, 6.5 / 13, 0.25))
    until(page, "() => readout.textContent.includes('best linear')")
    assert page.is_visible("#readout")
    until(page, "() => window.explorer.words.strength === 10")  # the click follows the touch
    context.close()


def test_moving_along_an_axis_keeps_the_map(browser, server):
    page = browser.new_page()
    page.goto(f"{server.address}{QUERY}")
    wait(page, said=("exact", "sampled"))
    page.fill("#strength", "8")
    page.keyboard.press("Enter")
    until(page, "() => window.explorer.words.strength === 8")
    page.wait_for_timeout(300)
    assert page.inner_text("#status") in ("exact", "sampled")
    page.close()


def test_the_map_is_told_in_words(browser, server):
    """There is no table in this view: nothing refers to one."""
    page = browser.new_page()
    page.goto(f"{server.address}{QUERY}")
    wait(page, said=("exact", "sampled"))
    rows = cells(page)
    label = page.get_attribute("#plot", "aria-label")
    assert page.is_hidden("#numbers") and "table" not in label
    wins = sum(float(value) < -2 * float(error) for _, _, value, error, _ in rows)
    shaded = sorted(float(error) for _, _, value, error, _ in rows
                    if 0 < abs(float(value)) < 1
                    and 2 * float(error) <= max(abs(float(value)), math.log10(1.01)))  # fmt: skip
    told = re.match(r"(to )?± ([\d.]+)\s% typically · 26 cells", page.inner_text("#detail"))
    middle = shaded[len(shaded) // 2]
    assert told and float(told[2]) == pytest.approx(200 * math.log(10) * middle, rel=0.4)
    assert f"attention wins in {wins} of {len(rows)} cells" in label
    assert "Where you are: strength θ 5, sparsity R 1: attention's test error is" in label
    page.close()


def test_unsure_cells_are_ties_and_losses_are_hatched(browser, server):
    """Of answers made up by the test: sure and unsure, winning and losing."""
    page = browser.new_page()
    given = [[0, 0, -0.5, 0.0], [1, 0, 0.5, 0.0], [0, 1, -0.5, 0.4], [1, 1, 0.5, 0.4]]
    parts = [{"x": [1.0, 2.0], "y": [1.0, 2.0], "cells": []},
             {"cells": given, "draft": False, "count": 4}]  # fmt: skip

    def connect(client):
        real = client.connect_to_server()

        def asked(text):
            message = json.loads(text)
            if message["ask"] != "map":
                real.send(text)
                return
            made = {"ask": "map", "id": message["id"], "parts": parts, "done": True}
            client.send(json.dumps(made))

        client.on_message(asked)
        real.on_message(client.send)

    page.route_web_socket("**/talk", connect)
    page.goto(f"{server.address}{QUERY}")
    wait(page, said=("exact", "sampled"))
    assert page.inner_text("#detail") == "4 cells, 2 unsure"
    with page.expect_download() as waiting:
        page.click("#save-svg")
    svg = waiting.value.path().read_text()
    drawn = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" '
                       r'fill="(.*?)"/>', svg)  # fmt: skip
    fills = [fill for *_, width, _, fill in drawn if float(width) > 100]
    assert len(fills) == 4 and fills[2] == fills[3] == "#c9c9c9" and len(set(fills)) == 3
    left, top, width, height = map(float, drawn[fills.index(fills[1])][:4])
    lines = re.findall(r'd="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"[^>]*stroke-width="0.8"', svg)
    big = [tuple(map(float, line)) for line in lines if float(line[1]) < top + height]
    assert len(big) > 20
    for x, y, to, up in big:  # all within the cell where attention surely loses
        assert left - 0.1 <= x <= to <= left + width and top - 0.1 <= up <= y <= top + height + 0.1
        assert math.isclose(x + y, to + up, abs_tol=0.05)
    page.close()

"""The explorer in a real Chromium: every control, view, preset, export and copied snippet."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest

from browser import open_browser
from sparsetoken.app import numbers
from sparsetoken.app.state import CONTROLS, PRESETS, State
from sparsetoken.cli import main

PATIENCE = 60_000  # milliseconds; the machine may be busy


@pytest.fixture(scope="module")
def address():
    """The command itself, on a port of its own choice."""
    command = [sys.executable, "-m", "sparsetoken", "explore", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), line
        yield line.split()[0]
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture
def page(browser, address):
    """A page of its own, on which nothing may go wrong."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address.rstrip("/"))
    opened, wrong = context.new_page(), []
    opened.set_default_timeout(PATIENCE)
    opened.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "request",
        lambda r: (
            wrong.append(r.url)
            if urlsplit(r.url).hostname != "127.0.0.1" and not r.url.startswith(("data:", "blob:"))
            else None
        ),
    )
    opened.on("response", lambda r: wrong.append(r.url) if r.status >= 400 else None)
    yield opened
    context.close()
    assert not wrong


def words_of(page):
    return json.loads(page.evaluate("window.explorerMoves.at(-1).words"))


def wait(page, said="exact", **wanted):
    """Until the page shows the exact numbers of this state."""
    page.wait_for_function(
        """([said, wanted]) => {
            const moves = window.explorerMoves || [];
            if (!moves.length || !document.getElementById('status')) return false;
            const words = JSON.parse(moves.at(-1).words);
            return Object.entries(wanted).every(([k, v]) => words[k] === v)
                && document.getElementById('status').textContent.includes(said);
        }""",
        arg=[said, wanted],
    )


def go(page, address, **words):
    page.goto(f"{address}?{State.of(words).to_query()}")
    wait(page)


def test_every_control_moves_the_state_and_the_address(page, address):
    go(page, address, length=6, sparsity=2)
    for name, control in CONTROLS.items():
        if control.choices:
            before = words_of(page)[name]
            other = next(
                each
                for each in control.choices
                if each not in (before, *map(words_of(page).get, ("across", "up")), "plan", "map")
            )
            place = list(control.choices).index(other)
            page.locator(f"#{name} input").nth(place).check()
            page.wait_for_function(
                "([n, v]) => JSON.parse(window.explorerMoves.at(-1).words)[n] === v",
                arg=[name, other],
            )
            continue
        before = words_of(page)[name]
        page.locator(f"#slide-{name}").focus()
        for _ in range(40 if control.whole else 8):  # by keyboard
            page.keyboard.press("ArrowRight" if before < control.most else "ArrowLeft")
        page.wait_for_function(
            "([n, v]) => JSON.parse(window.explorerMoves.at(-1).words)[n] !== v", arg=[name, before]
        )
        slid = words_of(page)[name]
        assert slid > before or before == control.most, name
        assert page.input_value(f"#type-{name}") == str(slid).removesuffix(".0")
    state = State.of(words_of(page))
    page.wait_for_function("q => window.location.search === q", arg="?" + state.to_query())


def test_typed_entries_wrong_ones_and_presets(page, address):
    go(page, address)
    page.fill("#type-strength", "3.25")
    page.keyboard.press("Enter")
    wait(page, strength=3.25)
    page.fill("#type-length", "many")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "document.getElementById('message').textContent.startsWith('length must be a whole number')"
    )
    for number, (name, words) in enumerate(PRESETS.items()):
        page.get_by_role("button", name=name, exact=True).click()
        wait(page, **words)
        assert page.inner_text("#message") == ""
        assert number == list(PRESETS).index(name)


def test_wrong_addresses_get_a_sentence(page, address):
    for query, words in (("length=0", "length must be"), ("evil=1", "is not one of"),
                         ("strength=NaN", "strength must be"), ("view=all", "view must be"),
                         ("sparsity=50", "sparsity must be at most the length")):  # fmt: skip
        page.goto(f"{address}?{query}")
        page.wait_for_function(
            "w => document.getElementById('message')?.textContent.includes(w)",
            arg=words,
        )


def copied(page, button):
    """What a button copies; the browser writes it a moment after the click."""
    page.evaluate("navigator.clipboard.writeText('')")
    page.click(button)
    for _ in range(100):
        text = page.evaluate("navigator.clipboard.readText()")
        if text:
            return text
        page.wait_for_timeout(50)
    raise AssertionError(f"{button} copied nothing")


def near(mine, shown):
    """A name, and numbers that agree with the six digits shown."""
    assert mine[0] == shown[0]
    wanted = [float(word) for word in shown[1:]]
    assert [float(word) for word in mine[1:]] == pytest.approx(wanted, rel=2e-6)


def test_numbers_snippets_exports_and_links(page, address, tmp_path, browser):
    words = {"length": 5, "strength": 4.0, "query": "frozen", "cosine": 0.8, "loss": "square",
             "metric": "auc"}  # fmt: skip
    go(page, address, **words)
    shown = [line.split("\t") for line in page.inner_text("#numbers").strip().splitlines()[1:]]
    code = copied(page, "#copy-python")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for line, cells in zip(out.stdout.splitlines(), shown, strict=True):
        near(line.split(), cells)
    command = copied(page, "#copy-command")
    told = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)], capture_output=True, text=True, check=True
    )
    for row, line in zip(json.loads(told.stdout), shown, strict=True):
        near([row["classifier"], row["test_error"], row["auc"]], line[:3])
    link = copied(page, "#copy-link")
    other = browser.new_page()
    other.goto(link)
    wait(other)
    assert words_of(other) == words_of(page)
    assert other.inner_text("#numbers") == page.inner_text("#numbers")
    other.close()
    for button, head in (("csv", b"series,x,y"), ("png", b"\x89PNG"), ("svg", b"<svg")):
        with page.expect_download() as waiting:
            page.click(f"#{button}")
        saved = tmp_path / f"plot.{button}"
        waiting.value.save_as(saved)
        assert saved.read_bytes().startswith(head) and saved.stat().st_size > 500
    rows = list(csv.DictReader((tmp_path / "plot.csv").read_text().splitlines()))
    state = State.of(words)
    exact = {(row.series, f"{row.x:.9g}"): row.y for row in numbers.curves(state)}
    mine = [row for row in rows if row["series"] in ("attention", "vectorized", "pooled")]
    assert len(mine) == len(exact)
    for row in mine:
        wanted = exact[row["series"], f"{float(row['x']):.9g}"]
        assert float(row["y"]) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("view", ["attention", "roc", "alignment"])
def test_views(page, address, view):
    go(page, address, view=view, length=5)
    assert page.locator("#graph .js-plotly-plot .trace").count() >= 1


def test_the_map_fills_in(page, address):
    page.goto(f"{address}?view=map&length=2&across=strength&up=sparsity")
    wait(page, said="complete")
    assert "wins" in page.inner_text("#graph")


def test_the_plan(page, address, capsys):
    page.goto(f"{address}?view=plan&length=4&strength=4&target=0.1&dim=50")
    wait(page, said="labelled samples")
    headline = page.inner_text("#status")
    page.wait_for_function("document.getElementById('command').textContent.includes('plan')")
    assert page.inner_text("#command").startswith("sparsetoken plan --length 4 ")
    exec(compile(page.inner_text("#python"), "snippet", "exec"), {})
    assert capsys.readouterr().out.strip() == headline


def test_simulate_and_cancel(page, address):
    go(page, address, length=4, strength=4.0, dim=30, repeats=2)
    page.click("#simulate")
    wait(page, said="30 of 30 runs")
    dots = page.evaluate(
        "document.querySelector('#graph .js-plotly-plot').data"
        ".filter(t => t.name.includes('simulated')).map(t => t.x.length)"
    )
    assert dots == [10, 10, 10]
    page.fill("#type-dim", "1000")
    page.keyboard.press("Enter")
    page.fill("#type-repeats", "32")
    page.keyboard.press("Enter")
    wait(page, dim=1000, repeats=32)
    page.click("#simulate")
    wait(page, said="of 480 runs")
    page.click("#cancel")
    wait(page, said="cancelled")


def test_each_page_sees_its_own_state(browser, address):
    """Pages that move at the same time, one after another in turn."""
    pages = []
    for k in range(3):
        opened = browser.new_page()
        opened.set_default_timeout(PATIENCE)
        opened.goto(f"{address}?length={3 + k}")
        pages.append(opened)
    for step in range(4):
        for k, opened in enumerate(pages):
            opened.fill("#type-strength", str(1 + k + step / 10))
            opened.keyboard.press("Enter")
    for k, opened in enumerate(pages):
        wait(opened, length=3 + k, strength=1 + k + 3 / 10)
        found = json.loads(opened.evaluate("window.explorerMoves.at(-1).words"))
        assert f"length={found['length']}" in opened.inner_text("#python")
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phones_and_the_dark(browser, address, scheme):
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    phone = context.new_page()
    phone.set_default_timeout(PATIENCE)
    phone.goto(address)
    wait(phone)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    assert phone.locator("#graph").bounding_box()["height"] == 340
    assert phone.locator("#graph .main-svg").first.bounding_box()["height"] == 340
    style = "getComputedStyle(document.body)."
    paper, ink = (phone.evaluate(style + name) for name in ("backgroundColor", "color"))
    light = sum(map(int, paper[4:-1].split(","))) > sum(map(int, ink[4:-1].split(",")))
    assert light == (scheme == "light")
    font = phone.evaluate("document.querySelector('#graph .js-plotly-plot').layout.font.color")
    assert font == ink
    context.close()


def test_the_port_is_told_and_taken_ports_are_refused(address, capsys):
    port = str(urlsplit(address).port)
    assert main(["explore", "--no-browser", "--port", port]) == 2
    assert "nothing can listen" in capsys.readouterr().err
    assert threading.active_count() < 50

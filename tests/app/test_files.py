"""What is saved and read off says what it is of: the page's state, computed places, whole lines."""

from __future__ import annotations

import csv
import re

import pytest

from browser import open_browser
from explorer_page import serving, until, wait
from sparsetoken.app import numbers
from sparsetoken.app.state import State

FLOORS = "() => !document.getElementById('caption').textContent.includes('Computing')"


@pytest.fixture(scope="module")
def address():
    with serving() as server:
        yield server.address


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, accept_downloads=True)
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    yield opened
    context.close()


def saved(page, ending):
    with page.expect_download() as waiting:
        page.click(f"#save-{ending}")
    return waiting.value.path().read_text()


def rows_of(text):
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def typed(page, name, value):
    page.evaluate("document.getElementById('more').open = true")
    page.fill(f"#{name}", value)
    page.keyboard.press("Enter")


def test_files_are_of_the_page_as_it_is(page, address):
    """Curves hold for every α₁, and are not asked for again: their files know it all the same."""
    page.goto(f"{address}?length=5")
    wait(page)
    page.locator("#metric-auc").check(force=True)
    wait(page, metric="auc")
    typed(page, "readout_samples", "20")
    typed(page, "dim", "50")
    wait(page, readout_samples=20, dim=50)
    state = State(length=5, metric="auc", readout_samples=20.0, dim=50)
    for ending in ("csv", "svg"):
        text = saved(page, ending).replace("&amp;", "&")
        for words in ("metric=auc", "readout_samples=20", f"?{state.to_query()}"):
            assert words in text, (ending, words)
        assert "dim=" not in text.replace("&dim=50", "")  # nothing was drawn in so many
    rows = rows_of(saved(page, "csv"))
    exact = numbers.curves(State(length=5, metric="auc"))["attention"].y
    own = [float(r["auc"]) for r in rows if (r["series"], r["kind"]) == ("attention", "curve")]
    assert own == pytest.approx(exact, rel=1e-9)


def test_files_with_simulated_runs_say_of_how_many(page, address):
    page.goto(f"{address}?length=4&dim=30&repeats=2")
    wait(page)
    page.click("#simulate")
    until(page, "() => document.getElementById('simulation-state').textContent.includes('30 of')")
    until(page, "() => document.getElementById('simulation-state').textContent.includes('sampled')")
    typed(page, "repeats", "5")
    text = saved(page, "csv")
    notes = [line for line in text.splitlines() if line.startswith("#") and "?" not in line]
    for words, there in (("dim=30", True), ("repeats=2", True), ("repeats=5", False)):
        assert any(words in note for note in notes) == there


def test_numbers_under_the_cursor_are_computed_ones(page, address):
    """Also at the peak, where a line between points is far from the curve."""
    state = State(length=5, loss="square", ridge=1e-6)
    page.goto(f"{address}?{state.to_query()}")
    wait(page)
    until(page, FLOORS)
    exact = numbers.curves(state)
    assert max(exact["pooled"].y) > 0.4
    for name, features in (("pooled", 1.0), ("vectorized", 5.0)):
        curve = exact[name]
        peak = curve.y.index(max(curve.y))
        assert curve.x[peak] == features, name
    box = page.locator("#plot .u-over").bounding_box()
    told = set()
    for k in range(31):  # one of them at α₁ = 1
        page.mouse.move(box["x"] + box["width"] * min(k / 30, 0.999), box["y"] + 100)
        until(page, "() => readout.textContent.startsWith('at ')")
        words = page.inner_text("#readout")
        told.add(words)
        x, pooled = re.fullmatch(r"at (\S+): .*\bpooled (≈ )?([\d.]+).*", words).group(1, 3)
        near = min(
            range(len(exact["pooled"].x)), key=lambda k: abs(exact["pooled"].x[k] - float(x))
        )
        assert float(pooled) == pytest.approx(exact["pooled"].y[near], rel=6e-3)
    assert any(words.startswith("at 1:") for words in told)


def test_lines_of_a_saved_map_are_whole(page, address):
    """The map is wider than curves with their names beside them are."""
    page.goto(f"{address}?view=map&length=3&across=prevalence&up=strength")
    wait(page, said=("exact", "sampled"))
    text = saved(page, "svg")
    lines = re.findall(r'<path d="M[^"]*" fill="none"[^>]*>', text)
    assert lines and not any("clip-path" in line for line in lines)
    assert max(float(x) for line in lines for x in re.findall(r"[ML](\S+) ", line)) > 760

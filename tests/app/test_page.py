"""The page around the plot: steps in the address, presets, words, what stays on screen."""

from __future__ import annotations

import csv
from itertools import pairwise

import pytest

from axe import violations
from browser import open_browser
from explorer_page import serving, until, wait, words_of

DESK = {"width": 1280, "height": 900}
STORY = "() => document.querySelector('#story h2')"
STEP = "n => document.querySelector('#story h2')?.textContent.startsWith(`${n}. `)"


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
    opened = browser.new_context(viewport=DESK, accept_downloads=True).new_page()
    opened.set_default_timeout(60_000)
    yield opened
    opened.context.close()


def test_the_step_is_in_the_address(page, address):
    page.goto(address)
    until(page, STEP, 1)
    assert page.evaluate("location.hash") == ""
    page.locator(".story-steps button").nth(3).click()
    until(page, STEP, 4)
    assert page.evaluate("location.hash") == "#step-4"
    page.get_by_role("button", name="Next →").click()
    until(page, STEP, 5)
    page.go_back()
    until(page, STEP, 4)
    page.go_back()
    until(page, STEP, 1)
    page.go_forward()
    until(page, STEP, 4)
    page.reload()
    until(page, STEP, 4)
    wait(page)
    page.fill("#strength", "3")  # the laboratory leaves the step alone
    page.keyboard.press("Enter")
    wait(page, strength=3)
    assert page.evaluate("location.hash") == "#step-4" and words_of(page)["strength"] == 3
    page.go_back()
    wait(page, strength=5)
    until(page, STEP, 4)


def test_presets_say_why_their_numbers_are_others(page, address):
    page.goto(address)
    until(page, "() => document.querySelectorAll('#presets button').length === 6", patience=300)
    assert page.inner_text("#presets-title") == "Begin with a step of the story"
    for number, words in ((1, "takes the best cut"), (2, "the strongest token"), (5, "the half")):
        page.locator("#presets button").nth(number).click()
        until(page, "w => remarks.textContent.includes(w)", words)
        assert "wrong" not in (page.get_attribute("#remarks", "class") or "")
    page.locator("#presets button").nth(4).click()
    until(page, "() => window.explorer.words.sparsity === 40 && remarks.textContent === ''")
    page.goto(f"{address}?evil=1")
    until(page, "() => remarks.textContent.includes('ignored')")
    assert page.get_attribute("#remarks", "class") == "wrong"


def test_words_are_explained(page, address):
    page.goto(f"{address}?length=4")
    wait(page)
    until(page, "() => document.querySelectorAll('#table tbody tr').length === 3")
    titles = page.evaluate(
        "[...document.querySelectorAll('#table abbr')].map((e) => [e.textContent, e.title])"
    )
    assert {"pooled", "vectorized", "AUC", "training loss"} <= {name for name, _ in titles}
    assert dict(titles)["pooled"] == "the mean of the tokens"
    page.locator("#metric-auc").check(force=True)
    until(page, "() => document.getElementById('metric-help').textContent.includes('ROC')")
    reasons = page.inner_text("#reasons")
    assert "0.0%" not in reasons and "the mean puts 25.0\u00a0% there" in reasons


def test_the_plot_stays_on_screen_when_more_is_open(page, address):
    page.goto(f"{address}?length=4")
    wait(page)
    until(page, STORY)
    page.evaluate("document.getElementById('more').open = true")
    page.evaluate("document.getElementById('lab').scrollIntoView()")
    for name in ("ridge", "sharpness", "target"):
        page.evaluate("n => document.getElementById(n).focus()", f"slide-{name}")
        page.wait_for_timeout(100)
        plot, slider = (page.locator(at).bounding_box() for at in ("#plot", f"#slide-{name}"))
        for box in (plot, slider):
            assert 0 <= box["y"] and box["y"] + box["height"] <= DESK["height"], name


@pytest.mark.parametrize(
    ("view", "size"),
    [("curves", (844, 390)), ("curves", (667, 375)), ("sample", (844, 390)),
     ("sample", (390, 844))],
)  # fmt: skip
def test_phones_see_what_a_slider_moves(browser, address, view, size):
    """On their side, and with a sample."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(f"{address}?length=4&view={view}")
    wait(page)
    until(page, STORY)
    shown = "#plot" if view == "curves" else "#sample"
    for name in ("strength", "readout_samples"):
        page.evaluate(
            "n => document.getElementById(n).scrollIntoView({block: 'end'})", f"slide-{name}"
        )
        page.wait_for_timeout(200)
        plot, slider = (page.locator(at).bounding_box() for at in (shown, f"#slide-{name}"))
        for box in (plot, slider):
            assert -1 <= box["y"] and box["y"] + box["height"] <= height + 1, (name, box)
        beside = slider["x"] + slider["width"] <= plot["x"]
        assert beside or plot["y"] + plot["height"] <= slider["y"], (plot, slider)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
    context.close()


def test_the_sample_view_has_link_and_code(page, address):
    page.goto(f"{address}?view=sample&length=4")
    wait(page)
    until(page, "() => document.getElementById('python').textContent.includes('predict')")
    assert page.is_visible("#copy-link") and page.is_visible("#copy-python")
    assert page.is_hidden("#save-csv") and page.is_hidden("#save-png")


def test_the_plan_as_a_table(page, address):
    page.goto(f"{address}?view=plan&length=4&strength=4&target=0.1&dim=50")
    wait(page, said=("sampled", "exact"))
    with page.expect_download() as waiting:
        page.click("#save-csv")
    text = waiting.value.path().read_text()
    assert "target=0.1" in text and "dim=50" in text
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    assert [row["classifier"] for row in rows] == ["attention", "vectorized", "pooled"]
    assert int(rows[0]["samples"]) > 10 and page.is_hidden("#save-png")


def test_names_stand_at_the_lines_of_the_roc(page, address):
    page.goto(f"{address}?view=roc&length=10")
    wait(page)
    with page.expect_download() as waiting:
        page.click("#save-svg")
    svg = waiting.value.path().read_text()
    places = {}
    for name in ("attention", "vectorized", "pooled", "guessing"):
        tag = svg[: svg.index(f">{name}</text>")].rpartition("<text ")[2]
        places[name] = [float(tag.split(f'{axis}="')[1].split('"')[0]) for axis in "xy"]
    assert places["attention"][0] < places["pooled"][0] < places["guessing"][0] - 20
    heights = sorted(y for _, y in places.values())
    assert all(low + 13 < high for low, high in pairwise(heights))

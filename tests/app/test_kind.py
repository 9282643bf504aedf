"""Kind to all: axe, phones, the dark, keyboards, less motion."""

from __future__ import annotations

import pytest

from axe import violations
from browser import open_browser
from explorer_page import Meddler, serving, until, wait
from sparsetoken.app.state import VIEWS

DESK, PHONE = {"width": 1280, "height": 1000}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def address():
    with serving() as server:
        yield server.address


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(
    ("size", "scheme", "motion"),
    [(DESK, "light", "no-preference"), (DESK, "dark", "reduce"), (PHONE, "light", "reduce")],
    ids=["desk", "dark", "phone"],
)
def test_axe_finds_nothing(browser, address, view, size, scheme, motion):
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion=motion)
    page = context.new_page()
    small = "length=2&across=strength&up=sparsity&dim=50&target=0.1"
    page.goto(f"{address}?view={view}&{small}&evil=1")
    until(page, "() => document.querySelector('#story h2')")
    page.evaluate("document.getElementById('more').open = true")
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    wait(page, said=("exact", "sampled"))
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    context.close()


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESK, "light"), (PHONE, "dark")], ids=["desk", "dark-phone"]
)
@pytest.mark.parametrize("trouble", ["outdated", "no answer"])
def test_axe_finds_nothing_when_answers_do_not_come(browser, address, trouble, size, scheme):
    context = browser.new_context(viewport=size, color_scheme=scheme)
    page = context.new_page()
    meddler = Meddler(page)
    page.goto(f"{address}?length=2&query=frozen")
    until(page, "() => document.querySelector('#story h2')")
    wait(page)
    until(page, "() => document.getElementById('numbers-state').textContent.startsWith('exact')")
    page.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
    how = "hold" if trouble == "outdated" else "bug"
    meddler.rule = lambda m: "pass" if m["ask"] == "alive" else how
    page.fill("#strength", "3")
    page.keyboard.press("Enter")
    until(page, "w => window.explorer.status.word === w", trouble)
    if trouble == "outdated":
        assert (
            page.evaluate("getComputedStyle(document.getElementById('plot')).outlineStyle")
            == "dashed"
        )
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    context.close()


def test_every_control_is_named_and_its_value_spoken(browser, address):
    page = browser.new_page()
    page.goto(f"{address}?length=5")
    wait(page)
    page.evaluate("document.getElementById('more').open = true")
    sliders = page.locator("#controls input[type=range]")
    names = set()
    for k in range(sliders.count()):
        slider = sliders.nth(k)
        names.add(slider.get_attribute("aria-label"))
        assert slider.get_attribute("aria-valuetext")
    assert len(names) == sliders.count() >= 16
    page.close()


def test_the_keyboard_goes_through_in_order(browser, address):
    """Views, then the few controls first, then the rest; everything has a visible focus."""
    page = browser.new_page()
    page.goto(f"{address}?length=5")
    wait(page)
    page.focus("#view-curves")
    order = []
    for _ in range(60):
        if page.evaluate("document.activeElement === document.body"):
            break  # through
        order.append(page.evaluate("document.activeElement.id"))
        outline = page.evaluate("""() => {
            const at = document.activeElement;
            const shown = at.type === 'radio' && at.name === 'view' ? at.nextElementSibling : at;
            return getComputedStyle(shown).outlineStyle;
        }""")
        assert outline != "none", order[-1]
        page.keyboard.press("Tab")
    wanted = ["view-curves", "slide-length", "length", "slide-sparsity", "slide-strength",
              "slide-prevalence", "slide-readout_samples", "simulate", "copy-link"]  # fmt: skip
    places = [order.index(name) for name in wanted]
    assert places == sorted(places)
    page.focus("#view-curves")
    page.keyboard.press("ArrowRight")
    until(page, "() => window.explorer.words.view === 'sample'")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_plot_and_slider_together(browser, address, scheme):
    context = browser.new_context(viewport=PHONE, color_scheme=scheme, is_mobile=True)
    page = context.new_page()
    page.goto(f"{address}?length=5")
    wait(page)
    until(page, "() => document.querySelector('#story h2')")
    for name in ("length", "strength", "readout_samples"):
        page.evaluate(
            "n => document.getElementById(n).scrollIntoView({block: 'end'})", f"slide-{name}"
        )
        page.wait_for_timeout(100)
        slider, plot = (page.locator(at).bounding_box() for at in (f"#slide-{name}", "#plot"))
        assert 0 <= plot["y"] < plot["y"] + plot["height"] <= slider["y"]
        assert slider["y"] + slider["height"] <= PHONE["height"] + 1
    style = "getComputedStyle(document.body)."
    paper, ink = (page.evaluate(style + name) for name in ("backgroundColor", "color"))
    light = sum(map(int, paper[4:-1].split(","))) > sum(map(int, ink[4:-1].split(",")))
    assert light == (scheme == "light")
    context.close()


def test_colours_follow_the_scheme_while_the_page_is_open(browser, address):
    page = browser.new_page()
    page.goto(f"{address}?length=5")
    wait(page)
    orange = """([r, g, b]) => {
        const canvas = document.querySelector('#plot canvas');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let k = 0; k < data.length; k += 4)
            if (data[k] === r && data[k + 1] === g && data[k + 2] === b) count += 1;
        return count;
    }"""  # attention's line
    assert page.evaluate(orange, [0xC0, 0x4F, 0x00]) > 50
    page.emulate_media(color_scheme="dark")
    until(page, orange, [0xFF, 0x8A, 0x3D])
    assert page.evaluate(orange, [0xC0, 0x4F, 0x00]) == 0
    page.close()

"""The built site, opened from disk in a real browser: `make docs` first, then `make test-site`.

Nothing is served and nothing may be fetched: a request that is not for a file is an error.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import sparsetoken as st
from axe import SOURCE as AXE
from browser import open_browser
from pages import DOCS

ROOT = DOCS.parent
SITE = ROOT / "build" / "site"
PATIENCE = 60_000  # milliseconds; the machine may be busy
TEN = [
    "index", "start", "choose", "faq", "theory", "bags", "measured", "glossary",
    "gallery/index", "gallery/plot_01_learning_curves", "api/index", "tutorials/plot_practitioner",
    "api/generated/sparsetoken.plan",
    "reproduction/report",
]  # fmt: skip


AUDIT = """axe.run(document, {preload: false}).then(r => r.violations.map(v => [v.id, v.nodes.map(
    n => n.target.join(' ') + ' | ' + n.html.slice(0, 160) + n.failureSummary).slice(0, 5)]))"""


COPIED = """() => {
    const said = [];
    document.addEventListener("copy", event => said.push(event.target.value));
    document.querySelectorAll(".copybtn").forEach(button => button.click());
    return said;
}"""


class Links(HTMLParser):
    """What a page points at, and what may be pointed at in it."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.names: set[str] = set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src") and value and tag != "base":
                self.targets.add(value)
            if name in ("id", "name") and value:
                self.names.add(value)


def read_links(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text())
    return links


@pytest.fixture(scope="module")
def pages():
    """All pages of the site with their links."""
    assert (SITE / "index.html").exists(), "make docs builds the site"
    paths = (path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts)
    found = {path: read_links(path) for path in paths}
    assert len(found) > 100
    return found


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture(params=[(1280, 900), (375, 740)], ids=["screen", "phone"])
def page(browser, request):
    """A page on which nothing may go wrong and nothing may be fetched."""
    width, height = request.param
    context = browser.new_context(viewport={"width": width, "height": height})
    opened, wrong = context.new_page(), []
    opened.set_default_timeout(PATIENCE)
    opened.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    allowed = ("file:", "data:", "blob:", "about:")
    opened.on("request", lambda r: None if r.url.startswith(allowed) else wrong.append(r.url))
    opened.on("requestfailed", lambda r: wrong.append(f"not there: {r.url}"))
    yield opened
    context.close()
    assert not wrong


def test_no_link_is_broken(pages):
    broken = []
    for path, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https", "mailto", "data", "javascript"):
                continue
            if parts.scheme:  # an address in a text that has become a link
                broken.append(f"{path.relative_to(SITE)}: {target}")
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not place.is_file():
                broken.append(f"{path.relative_to(SITE)}: {target}")
            elif parts.fragment and place in pages:
                if unquote(parts.fragment) not in pages[place].names:
                    broken.append(f"{path.relative_to(SITE)}: {target}")
    assert not broken


def test_no_link_is_in_a_link(pages):
    for path in pages:
        assert not re.search(r"<a\s(?:(?!</a>).)*<a\s", path.read_text(), re.S), path


def test_nothing_is_loaded_from_elsewhere(pages):
    pattern = re.compile(r"<(?:script|link|img|iframe|source)[^>]*(?:src|href)=\"https?:[^>]*>")
    for path in pages:
        found = [tag for tag in pattern.findall(path.read_text()) if 'rel="canonical"' not in tag]
        assert not found, path


def test_every_public_name_has_its_page(pages):
    listed = (DOCS / "api" / "index.rst").read_text()
    for name in set(st.__all__) - {"__version__"}:
        assert len(re.findall(rf"^   {name}$", listed, re.M)) == 1, name
        assert (SITE / "api" / "generated" / f"sparsetoken.{name}.html").exists(), name
    plan = (SITE / "api" / "generated" / "sparsetoken.plan.html").read_text()
    assert "plot_03_plan" in plan  # the example that calls it


def test_code_is_not_a_nested_quotation(pages):
    for path in pages:
        text = path.read_text()
        assert not re.search(r"<blockquote>\s*(<div>)?\s*<blockquote>", text), path


def test_examples_are_notebooks_too(pages):
    for script in (ROOT / "examples").glob("*/plot_*.py"):
        page = SITE / script.parent.name / f"{script.stem}.html"
        targets = read_links(page).targets
        assert any(target.endswith(f"{script.stem}.ipynb") for target in targets), page
        assert "image-sg" in page.read_text() or "sphx-glr-single-img" in page.read_text(), page


def test_formulas_are_rendered(page):
    page.goto((SITE / "theory.html").as_uri())
    page.wait_for_selector("mjx-container svg")
    assert page.locator("mjx-container").count() > 10
    assert page.locator("mjx-merror").count() == 0


def test_code_is_copied_without_prompts_and_output(page):
    page.goto((SITE / "start.html").as_uri())
    page.wait_for_selector(".copybtn", state="attached")
    copied = page.evaluate(COPIED)
    (code,) = (text for text in copied if "st.align(" in text)
    assert code.startswith("import sparsetoken as st\n") and "0.948" not in code
    assert not any(text.startswith(">>>") or "\n..." in text for text in copied)
    compile(next(text for text in copied if "for length in" in text), "start.md", "exec")


def test_programs_find_the_pages():
    listed = re.findall(r"\]\(([^)]+)\)", (SITE / "llms.txt").read_text())
    assert len(listed) > 15 and all((SITE / target).exists() for target in listed)


@pytest.mark.parametrize(("word", "expected"), [
    ("capacity", "capacity"), ("patients", "faq"), ("message passing", "floors"),
])  # fmt: skip
def test_search_works_from_disk(page, word, expected):
    page.goto((SITE / "search.html").as_uri() + "?q=" + word.replace(" ", "+"))
    page.wait_for_selector("#search-results li a")
    page.wait_for_function("/found|Search finished/.test(document.body.innerText)")
    links = page.eval_on_selector_all("#search-results li a", "all => all.map(a => a.href)")
    assert any(expected in link for link in links)


@pytest.mark.parametrize("name", TEN)
def test_a_page_reads_well(page, name):
    """No violation for axe, nothing wider than the screen, a heading, in light and in dark."""
    page.goto((SITE / f"{name}.html").as_uri())
    page.wait_for_load_state("load")
    assert page.locator("h1").count() == 1
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0, f"{wide} pixels too wide"
    size = page.evaluate("parseFloat(getComputedStyle(document.querySelector('p')).fontSize)")
    assert size >= 14
    page.add_script_tag(path=str(AXE))
    for theme in ("light", "dark"):
        page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        page.wait_for_timeout(300)  # colours fade
        found = page.evaluate(AUDIT)
        assert not found, theme


def test_the_story_is_on_the_first_page(page):
    """Where this version of `sparsetoken explore` can write it; else no trace of it."""
    page.goto((SITE / "index.html").as_uri())
    story = (SITE / "story.html").exists()
    assert page.locator("iframe.story").count() == int(story)
    if story:
        frame = page.frame_locator("iframe.story").locator("body")
        assert frame.inner_text().strip()
        page.locator("iframe.story").scroll_into_view_if_needed()
        for _ in range(100):  # it has told how tall it is, and nothing of it is cut off
            height = frame.evaluate("body => body.getBoundingClientRect().height")
            shown = page.locator("iframe.story").evaluate("frame => frame.clientHeight")
            if 0 <= shown - height < 3:
                break
            page.wait_for_timeout(100)
        else:
            raise AssertionError((shown, height))

"""The laboratory in a real Chromium: controls, views, what is copied and saved."""

from __future__ import annotations

import csv
import json
import shlex
import subprocess
import sys

import pytest

from browser import open_browser
from explorer_page import serving, until, wait, watched, words_of
from sparsetoken.app import numbers
from sparsetoken.app.state import CONTROLS, State

SAID = "w => document.getElementById('simulation-state').textContent.includes(w)"


@pytest.fixture(scope="module")
def address():
    with serving() as server:
        yield server.address
    assert "Traceback" not in server.log, server.log


@pytest.fixture(scope="module")
def browser():
    with open_browser() as opened:
        yield opened


@pytest.fixture
def page(browser, address):
    """A page of its own, on which nothing may go wrong."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address.rstrip("/"))
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    wrong = watched(opened, address)
    yield opened
    context.close()
    assert not wrong


def go(page, address, **words):
    page.goto(f"{address}?{State.of(words).to_query()}")
    wait(page, **words)


def test_every_control_moves_the_state_and_the_address(page, address):
    go(page, address, length=6, sparsity=2)
    page.evaluate("document.getElementById('more').open = true")
    for name, control in CONTROLS.items():
        before = words_of(page)[name]
        if control.choices:
            taken = (before, *map(words_of(page).get, ("across", "up")), "plan", "map", "sample")
            other = next(each for each in control.choices if each not in taken)
            if name in ("view", "metric"):
                page.locator(f"#{name}-{other}").check(force=True)
            else:
                page.select_option(f"#{name}", other)
            until(page, "([n, v]) => window.explorer.words[n] === v", [name, other])
            continue
        slider = page.locator(f"#slide-{name}")
        slider.focus()
        for _ in range(8):  # by keyboard
            page.keyboard.press("ArrowRight" if before < control.most else "ArrowLeft")
        until(page, "([n, v]) => window.explorer.words[n] !== v", [name, before])
        slid = words_of(page)[name]
        assert slid > before or before == control.most, name
        shown = page.input_value(f"#{name}")
        assert float(shown) == pytest.approx(slid, rel=1e-5)
        assert slider.get_attribute("aria-valuetext") == shown
    state = State.of(words_of(page))
    until(page, "q => Object.entries(q).every(([n, v]) =>"
                " new URLSearchParams(location.search).get(n) === v)",
          {name: value for name, _, value in
           (pair.partition("=") for pair in state.to_query().split("&"))})  # fmt: skip
    assert State.from_query(page.evaluate("location.search")) == state


def test_typed_entries_and_wrong_ones(page, address):
    go(page, address)
    page.fill("#strength", "3,25")
    page.keyboard.press("Enter")
    wait(page, strength=3.25)
    page.fill("#length", "many")
    page.keyboard.press("Enter")
    until(page, "() => remarks.textContent.startsWith('length must be a whole number')")
    assert page.get_attribute("#length", "aria-invalid") == "true"
    assert words_of(page)["length"] == 10
    page.fill("#length", "7")
    page.keyboard.press("Enter")
    wait(page, length=7)
    assert page.inner_text("#remarks") == ""


@pytest.mark.parametrize(
    ("query", "words"),
    [("evil=1&length=5", "ignored: evil=1"), ("length=0", "length must be"),
     ("strength=NaN", "strength must be"), ("view=all", "view must be"),
     ("sparsity=50", "sparsity=50 does not fit"),
     ("token_correlation=0.5&signal_spread=2", "token_correlation=0.5 does not fit"),
     ("across=up", "across must be")],
)  # fmt: skip
def test_wrong_addresses_get_a_remark_and_a_page(page, address, query, words):
    page.goto(f"{address}?{query}")
    wait(page)
    assert words in page.inner_text("#remarks")
    assert words_of(page)["length"] == (5 if "length=5" in query else 10)


def copied(page, button):
    page.evaluate("navigator.clipboard.writeText('')")
    page.click(button)
    until(page, "() => document.getElementById('away-state').textContent.includes('copied')")
    return page.evaluate("navigator.clipboard.readText()")


def near(own, shown):
    """A name, and numbers that agree with the digits shown."""
    assert own[0] == shown[0]
    wanted = [float(word) for word in shown[1:]]
    assert [float(word) for word in own[1:]] == pytest.approx(wanted, rel=2e-6, abs=1e-12)


def test_what_is_copied_and_saved(page, address, tmp_path, browser):
    words = {"length": 5, "strength": 4.0, "query": "frozen", "cosine": 0.8, "loss": "square"}
    go(page, address, **words)
    until(page, "() => document.querySelectorAll('#table tbody tr').length === 3")
    until(page, "() => document.getElementById('numbers-state').textContent.startsWith('exact')")
    until(page, "() => document.getElementById('python').textContent.includes('predict')")
    shown = [line.split("\t") for line in page.inner_text("#table").strip().splitlines()[1:]]
    shown = [[cell.replace("<", "") for cell in line] for line in shown]
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
    other.close()
    files = {}
    for ending, head in (
        ("csv", b"# Learning curves, exact"),
        ("png", b"\x89PNG"),
        ("svg", b"<svg"),
    ):
        with page.expect_download() as waiting:
            page.click(f"#save-{ending}")
        saved = tmp_path / f"plot.{ending}"
        waiting.value.save_as(saved)
        files[ending] = saved.read_bytes()
        assert files[ending].startswith(head) and len(files[ending]) > 500
    svg = files["svg"].decode()
    version = numbers.__name__ and __import__("sparsetoken").__version__
    for told in (
        "cosine=0.8",
        "length=5",
        link.partition("?")[2].split("&")[0],
        version,
        "#ffffff",
    ):
        assert told in svg
    lines = files["csv"].decode().splitlines()
    assert any("cosine=0.8" in line for line in lines if line.startswith("#"))
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    exact = numbers.curves(State.of(words))
    for name, curve in exact.items():
        own = [float(r["test_error"]) for r in rows if (r["series"], r["kind"]) == (name, "curve")]
        assert own == pytest.approx(curve.y, rel=1e-9)


def test_copying_without_permission(browser, address):
    """A clipboard that refuses: the text is copied as a selection is, or shown to be."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(
        "navigator.clipboard.writeText = () => Promise.reject(new Error('no'));"
        "document.execCommand = () => window.allowed ?? false;"
    )
    page.goto(f"{address}?length=5")
    wait(page)
    page.click("#copy-link")
    until(page, "() => document.getElementById('away-state').textContent.includes('by hand')")
    assert page.input_value("#by-hand").endswith("?length=5")
    assert page.evaluate("getSelection().toString() || document.activeElement.id") != ""
    page.evaluate("window.allowed = true")
    page.click("#copy-link")
    until(page, "() => document.getElementById('away-state').textContent === 'link copied'")
    assert page.is_hidden("#by-hand")
    context.close()


@pytest.mark.parametrize("view", ["roc", "alignment"])
def test_views_with_curves(page, address, view):
    go(page, address, view=view, length=5)
    until(page, "() => window.explorer.painted >= 1")
    with page.expect_download() as waiting:
        page.click("#save-csv")
    rows = waiting.value.path().read_text().splitlines()
    series = {row.split(",")[0] for row in rows if not row.startswith("#")}
    names = {"attention", "vectorized", "pooled"} if view == "roc" else {"cosine"}
    assert names <= series


def test_the_sample_view(page, address):
    go(page, address, view="sample", length=5)
    until(page, "() => document.querySelector('#sample canvas')")
    assert page.is_hidden("#plot")
    page.fill("#length", "6")
    page.keyboard.press("Enter")
    wait(page, length=6)
    page.locator("#view-curves").check(force=True)
    wait(page, view="curves")
    assert page.is_hidden("#sample") and page.is_visible("#plot")


def test_the_map(page, address):
    """Signed, with grey where neither wins, and where one is."""
    words = {"view": "map", "length": 2, "across": "strength", "up": "sparsity"}
    page.goto(f"{address}?{State.of(words).to_query()}")
    wait(page, said=("exact", "sampled"))
    with page.expect_download() as waiting:
        page.click("#save-csv")
    text = waiting.value.path().read_text()
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    assert len(rows) == 26 and {row["state"] for row in rows} == {"computed"}
    state = State.of(words)
    for row in rows:
        here = State.of(words | {"strength": float(row["strength"]),
                                 "sparsity": int(float(row["sparsity"]))})  # fmt: skip
        errors = {name: at.values["test_error"] for name, at in numbers.chosen(here).items()}
        linear = min(errors["pooled"], errors["vectorized"])
        value = float(row["log10_ratio"])
        if abs(errors["attention"] - linear) < 0.009 * linear or max(errors.values()) < 1e-12:
            assert value == 0
        else:
            assert (value < 0) == (errors["attention"] < linear)
    assert float(rows[0]["strength"]) == 0 and float(rows[0]["log10_ratio"]) == 0
    with page.expect_download() as waiting:
        page.click("#save-svg")
    assert "you are here" in waiting.value.path().read_text()
    assert state.view == "map"


def test_a_plan_is_applied_with_one_click(page, address, capsys):
    page.goto(f"{address}?view=plan&length=4&strength=4&target=0.1&dim=50")
    wait(page, said=("sampled", "exact"))
    headline = page.inner_text("#reasons p >> nth=0")
    until(page, "() => document.getElementById('command').textContent.includes('plan')")
    exec(compile(page.text_content("#python"), "snippet", "exec"), {})
    assert capsys.readouterr().out.strip() == headline
    page.get_by_role("button", name="Apply attention").click()
    wait(page, view="curves")
    words = words_of(page)
    needed = int(headline.partition(" labelled")[0].rpartition(" ")[2])
    total = (words["query_samples"] + words["readout_samples"]) * 50
    assert total == pytest.approx(needed, abs=1)
    state = State.of(words)
    until(page, "() => document.getElementById('numbers-state').textContent.startsWith('exact')")
    shown = float(page.inner_text("#table tbody tr >> nth=0").split("\t")[1])
    assert shown == pytest.approx(numbers.chosen(state)["attention"].values["test_error"], rel=1e-5)


def test_simulated_runs_belong_to_their_state(page, address):
    go(page, address, length=4, strength=4.0, dim=30, repeats=2)
    page.click("#simulate")
    until(
        page, "() => document.getElementById('simulation-state').textContent.includes('30 of 30')"
    )
    until(page, SAID, "sampled")
    dots = "() => document.querySelectorAll('#simulated tbody tr').length"
    assert page.evaluate(dots) == 15
    page.fill("#strength", "3")
    page.keyboard.press("Enter")
    wait(page, strength=3)
    assert page.evaluate(dots) == 0
    assert "of another state" in page.inner_text("#simulation-state")
    with page.expect_download() as waiting:
        page.click("#save-csv")
    assert ",simulated" not in waiting.value.path().read_text()
    page.click("#simulated-state")
    wait(page, strength=4)
    until(page, dots)
    with page.expect_download() as waiting:
        page.click("#save-csv")
    assert waiting.value.path().read_text().count(",simulated") == 30
    page.evaluate("document.getElementById('more').open = true")
    page.fill("#dim", "1000")
    page.keyboard.press("Enter")
    page.fill("#repeats", "32")
    page.keyboard.press("Enter")
    wait(page, dim=1000, repeats=32)
    page.click("#simulate")
    until(page, SAID, "of 480")
    page.click("#cancel")
    until(
        page, "() => document.getElementById('simulation-state').textContent.includes('cancelled')"
    )


def test_the_first_load_is_small(page, address):
    sizes = []
    page.on("response", lambda r: sizes.append((r.url, r)))
    page.goto(address)
    wait(page)
    until(page, "() => document.querySelector('#story h2')")
    total = sum(len(response.body()) for _, response in sizes)
    assert total < 400_000, {url: len(response.body()) for url, response in sizes}

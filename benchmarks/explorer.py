"""Latency of the explorer: from a slider's event to repainted curves, in a real Chromium.

    python benchmarks/explorer.py                 # 100 moves, beside a page that computes nothing
    python benchmarks/explorer.py --minutes 10    # ten browsers and a simulation: errors, memory
    python benchmarks/explorer.py --screenshots docs/explorer

The page that computes nothing is the same page of the same server, whose curves are kept from the
first call. A repaint is plotly's own event after drawing a figure that carries the moved state.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import open_browser

_AT_REST = """() => document.querySelector('#graph .js-plotly-plot').data
    .some((trace) => trace.name.startsWith('capacity'))"""
_WATCH = """() => {
    const plot = document.querySelector('#graph .js-plotly-plot');
    window.painted = {};
    plot.on('plotly_afterplot', () => {
        const meta = plot.layout.meta;
        if (!(meta in window.painted)) window.painted[meta] = performance.now();
    });
}"""


_SERVER = """
from sparsetoken.app import numbers
from sparsetoken.app.explore import explore
if __name__ == "__main__":
    {patch}
    explore(browser=False, ready=lambda address: print(address, flush=True))
"""
_NOTHING = "kept = numbers.curves_draft(numbers.State()); numbers.curves_draft = lambda state: kept"


@contextlib.contextmanager
def served(patch: str = "pass"):
    """A server in a process of its own: its address and its number."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "server.py"
        script.write_text(_SERVER.format(patch=patch))
        process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.terminate()
            process.wait()


def moves(page, address: str, count: int) -> np.ndarray:
    """Milliseconds from event to repaint, of single steps of the strength's slider."""
    page.goto(address)
    page.wait_for_function("(document.getElementById('status') || {}).textContent === 'exact'")
    page.wait_for_function(_AT_REST)
    page.evaluate(_WATCH)
    page.locator("#slide-strength").focus()
    times = []
    for k in range(count):
        page.keyboard.press("ArrowRight" if k < count / 2 else "ArrowLeft")
        page.wait_for_function("window.explorerMoves.at(-1).words in window.painted")
        times.append(page.evaluate(
            "window.painted[window.explorerMoves.at(-1).words] - window.explorerMoves.at(-1).at"
        ))  # fmt: skip
        page.evaluate("window.painted = {}")
    return np.array(times)


def latency(count: int) -> None:
    print("what                          median ms   95 % ms")
    for what, patch in (("learning curves", "pass"), ("the same, computing nothing", _NOTHING)):
        with served(patch) as (address, _), open_browser() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            page.set_default_timeout(60_000)
            tell(what, moves(page, address, count))


def tell(what: str, found: np.ndarray) -> None:
    print(f"{what:<29} {np.median(found):9.0f} {np.quantile(found, 0.95):9.0f}", flush=True)


def memory(server: int) -> float:
    """Megabytes of the server and the processes it has begun."""
    listed = subprocess.run(["pgrep", "-P", str(server)], capture_output=True, text=True)
    pages = 0
    for pid in [str(server), *listed.stdout.split()]:
        with contextlib.suppress(FileNotFoundError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def crowd(minutes: float) -> None:
    """Ten pages move sliders and one simulates: no error, memory bounded, own answers."""
    wrong = []
    with served() as (address, server), open_browser() as browser:
        pages = []
        for k in range(10):
            page = browser.new_page()
            page.set_default_timeout(120_000)
            page.on("response", lambda r: wrong.append(r.url) if r.status >= 400 else None)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.goto(f"{address}?length={3 + k}&dim=200&repeats=32")
            page.wait_for_selector("#graph .js-plotly-plot")
            pages.append(page)
        pages[0].click("#simulate")
        start, before, moved = time.monotonic(), None, 0
        while time.monotonic() - start < 60 * minutes:
            for page in pages:
                page.locator("#slide-strength").focus()
                for _ in range(5):
                    page.keyboard.press("ArrowRight" if moved % 400 < 200 else "ArrowLeft")
                    moved += 1
            if before is None and time.monotonic() - start > 6 * minutes:
                before = memory(server)  # once everything has been used
        after = memory(server)
        for k, page in enumerate(pages):
            page.wait_for_function("document.getElementById('status').innerText.includes('exact')")
            assert f"length={3 + k}" in page.inner_text("#python"), k
    print(f"{moved} moves of ten pages in {minutes:g} minutes, {len(wrong)} errors {wrong[:3]}")
    print(f"memory of the server: {before:.0f} MB after a tenth of it, {after:.0f} MB at the end")


def screenshots(folder: str) -> None:
    """Light, dark, and a phone."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    looks = {
        "light": ({"width": 1280, "height": 1000}, "light", "?dim=100&repeats=4"),
        "dark": ({"width": 1280, "height": 1000}, "dark", "?view=attention&length=30"),
        "map": ({"width": 1280, "height": 1000}, "light", "?view=map"),
        "phone": ({"width": 390, "height": 844}, "light", "?strength=4"),
    }
    with served() as (address, _), open_browser() as browser:
        for name, (size, scheme, query) in looks.items():
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            page.set_default_timeout(300_000)
            page.goto(address + query)
            said = "complete" if name == "map" else "exact"
            page.wait_for_function(
                f"document.getElementById('status')?.innerText.includes('{said}')"
            )
            if name == "light":
                page.click("#simulate")
                page.wait_for_function(
                    "document.getElementById('status').innerText.includes('60 of 60 runs')"
                )
                page.evaluate("window.scrollTo(0, 0)")
            time.sleep(5)  # floors and capacities
            page.screenshot(path=f"{folder}/{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--screenshots", metavar="FOLDER", help="take them, measure nothing")
    given = parser.parse_args()
    if given.screenshots:
        screenshots(given.screenshots)
    elif given.minutes:
        crowd(given.minutes)
    else:
        latency(given.moves)


if __name__ == "__main__":
    main()

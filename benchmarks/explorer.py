"""The explorer in a real Chromium: how soon, how often, for how many.

    python benchmarks/explorer.py                 # first load, slider steps, a real drag
    python benchmarks/explorer.py --lecture       # 40 pages with one link, 40 states
    python benchmarks/explorer.py --minutes 10    # ten browsers and a simulation: errors, memory
    python benchmarks/explorer.py --screenshots docs/explorer

A repaint is counted where the page draws; a slider step ends with the first frame that has curves
of that state, draft or exact.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from browser import open_browser
from explorer_page import Talk, serving, until, wait

DESK = {"width": 1280, "height": 1000}
_STEPS = """([count, name]) => new Promise((resolve) => {
    const slider = document.getElementById(`slide-${name}`);
    const times = [];
    const step = () => {
        if (times.length === count) return resolve(times);
        slider.value = Number(slider.value) + 5; // a new state each time: nothing is kept of it
        const start = performance.now();
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        const look = () => {
            const { status, words } = window.explorer;
            const own = String(words[name]) === slider.dataset.value;
            if (own && ["draft", "exact", "sampled"].includes(status.word)) {
                times.push(performance.now() - start);
                setTimeout(step, 300);
            } else soon();
        };
        // when the frame has been drawn: before, the page may be about to paint in it
        const soon = () => requestAnimationFrame(() => setTimeout(look));
        soon();
    };
    step();
})"""
_FRAMES = """() => {
    window.seen = { longest: 0, last: performance.now(), start: window.explorer.painted };
    const step = (now) => {
        window.seen.longest = Math.max(window.seen.longest, now - window.seen.last);
        window.seen.last = now;
        requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
}"""


def first_load(times: int = 3) -> None:
    """From the first request of a server that has just begun to curves; bytes of all files."""
    found = []
    for _ in range(times):
        with serving() as server, open_browser() as browser:
            page = browser.new_page(viewport=DESK)
            responses = []
            page.on("response", lambda r, seen=responses: seen.append(r))
            start = time.monotonic()
            page.goto(server.address)
            until(page, "() => window.explorer?.painted > 0")
            curves = time.monotonic() - start
            wait(page)
            exact = time.monotonic() - start
            until(page, "() => document.querySelector('#story h2')")
            size = sum(len(response.body()) for response in responses)
            found.append((curves, exact, size))
    curves, exact, size = np.median(found, axis=0)
    print(f"first load: {size / 1000:.0f} kB; curves after {curves:.2f} s, exact {exact:.2f} s")


def slider(count: int) -> None:
    """Milliseconds from event to repainted curves, of single steps of the strength's slider."""
    with serving() as server, open_browser() as browser:
        page = browser.new_page(viewport=DESK)
        page.goto(f"{server.address}?strength=1")
        wait(page)
        until(page, "() => !caption.textContent.includes('Computing')", patience=300)
        times = np.array(page.evaluate(_STEPS, [count, "strength"]))
        low, high = np.median(times), np.quantile(times, 0.95)
        print(f"slider step: median {low:.0f} ms, 95 % {high:.0f} ms")


def drag(seconds: float = 3.0) -> None:
    """A real mouse on the slider, sixty events a second."""
    with serving() as server, open_browser() as browser:
        page = browser.new_page(viewport=DESK)
        page.goto(server.address)
        wait(page)
        until(page, "() => !caption.textContent.includes('Computing')", patience=300)
        until(
            page, "() => document.querySelector('#story h2')", patience=300
        )  # it moves what is below
        slider = page.locator("#slide-strength")
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        y = box["y"] + box["height"] / 2
        page.evaluate(_FRAMES)
        page.mouse.move(box["x"] + box["width"] / 4, y)
        page.mouse.down()
        start, events = time.monotonic(), 0
        while (t := time.monotonic() - start) < seconds:
            page.mouse.move(box["x"] + box["width"] * (0.25 + 0.6 * t / seconds), y)
            events += 1
            time.sleep(max(0.0, events / 60 - (time.monotonic() - start)))
        painted = page.evaluate("window.explorer.painted - window.seen.start")
        longest = page.evaluate("window.seen.longest")
        page.mouse.up()
    print(f"drag: {events / seconds:.0f} events and {painted / seconds:.0f} repaints a second, "
          f"longest pause of a frame {longest:.0f} ms")  # fmt: skip


def lecture() -> None:
    """Forty pages without a browser: seconds until each has its exact curves."""
    crowds = {
        "one link": [{"strength": 4.2}] * 40,
        "40 states": [{"strength": 3 + k / 20} for k in range(40)],
    }
    for what, wishes in crowds.items():
        with serving() as server:
            times = [float("nan")] * len(wishes)

            def page(k, times=times, wishes=wishes, address=server.address):
                start = time.monotonic()
                talk = Talk(address)
                if "answer" in talk.answer("curves", wishes[k]):
                    times[k] = time.monotonic() - start
                talk.close()

            threads = [threading.Thread(target=page, args=(k,)) for k in range(len(wishes))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        refused = int(np.isnan(times).sum())
        print(f"{what}: median {np.nanmedian(times):.1f} s, last {np.nanmax(times):.1f} s, "
              f"{refused} refused", flush=True)  # fmt: skip


def memory(processes: list[int]) -> float:
    """Megabytes."""
    pages = 0
    for pid in processes:
        with contextlib.suppress(FileNotFoundError):
            resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
            pages += resident - shared
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def crowd(minutes: float) -> None:
    """Ten pages move sliders and one simulates: no error, memory bounded, own answers."""
    wrong: list[str] = []
    with serving() as server, open_browser() as browser:
        pages = []
        for k in range(10):
            page = browser.new_page(viewport=DESK)
            page.on("response", lambda r: wrong.append(r.url) if r.status >= 400 else None)
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.goto(f"{server.address}?length={3 + k}&dim=200&repeats=32")
            until(page, "() => window.explorer?.painted > 0")
            pages.append(page)
        pages[0].click("#simulate")
        start, before, moved = time.monotonic(), 0.0, 0
        while time.monotonic() - start < 60 * minutes:
            for page in pages:
                page.locator("#slide-strength").focus()
                for _ in range(5):
                    page.keyboard.press("ArrowRight" if moved % 400 < 200 else "ArrowLeft")
                    moved += 1
            if not before and time.monotonic() - start > 6 * minutes:
                before = memory([server.process.pid, *server.workers()])  # all has been used
        after = memory([server.process.pid, *server.workers()])
        for k, page in enumerate(pages):
            wait(page, patience=300, length=3 + k)
            until(page, "w => python.textContent.includes(w)", f"length={3 + k}")
    wrong += [line for line in server.log.splitlines() if "Error" in line]
    print(f"{moved} moves of ten pages in {minutes:g} minutes, {len(wrong)} errors {wrong[:3]}")
    print(f"memory of the server: {before:.0f} MB after a tenth of it, {after:.0f} MB at the end")


def screenshots(folder: str) -> None:
    """Light with simulated runs, dark, the map, a plan, and a phone."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    phone = {"width": 390, "height": 844}
    looks = {
        "light": (DESK, "light", "?length=10&dim=100&repeats=4"),
        "dark": (DESK, "dark", "?view=roc&length=30"),
        "map": (DESK, "light", "?view=map&length=30"),
        "plan": (DESK, "light", "?view=plan&length=10"),
        "phone": (phone, "light", "?strength=4"),
    }
    with serving() as server, open_browser() as browser:
        for name, (size, scheme, query) in looks.items():
            page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
            page.goto(server.address + query)
            until(page, "() => document.querySelector('#story h2')", patience=300)
            wait(page, said=("exact", "sampled"), patience=300)
            if name == "light":
                page.click("#simulate")
                until(page, "() => document.getElementById('simulation-state')"
                            ".textContent.includes('60 of 60')", patience=300)  # fmt: skip
            if name in ("light", "phone"):
                until(page, "() => !caption.textContent.includes('Computing')", patience=300)
            page.evaluate("document.getElementById('lab').scrollIntoView()")
            page.screenshot(path=f"{folder}/{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moves", type=int, default=100)
    parser.add_argument("--lecture", action="store_true")
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--screenshots", metavar="FOLDER", help="take them, measure nothing")
    given = parser.parse_args()
    if given.screenshots:
        screenshots(given.screenshots)
    elif given.minutes:
        crowd(given.minutes)
    elif given.lecture:
        lecture()
    else:
        first_load()
        slider(given.moves)
        drag()


if __name__ == "__main__":
    main()

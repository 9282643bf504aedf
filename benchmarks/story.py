"""Pictures of every step of the story, in light, in the dark and on a phone, for docs.

python benchmarks/story.py --out docs/explorer
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import sparsetoken as st
from browser import open_browser

_MODES = {
    "light": {"viewport": {"width": 1080, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1080, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light"},
}
_STEPS, _GAP = 6, 12
_PLAYED = 4000  # milliseconds of samples in the first step


def pictures(browser, address, options):
    """One image a step."""
    page = browser.new_page(**options)
    page.goto(address)
    taken = []
    for step in range(_STEPS):
        page.locator(".story-steps button").nth(step).click()
        if step == 0:
            page.get_by_role("button", name="Play").click()
            page.wait_for_timeout(_PLAYED)
            page.get_by_role("button", name="Pause").click()
            page.get_by_role("button", name="Positive").click()
        page.wait_for_timeout(300)
        taken.append(Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB"))
    page.close()
    return taken


def sheet(taken, columns):
    """Side by side, in rows as high as their highest."""
    rows = [taken[k : k + columns] for k in range(0, len(taken), columns)]
    width = columns * (taken[0].width + _GAP) - _GAP
    made = Image.new("RGB", (width, sum(max(i.height for i in row) + _GAP for row in rows)), "#888")
    down = 0
    for row in rows:
        for place, image in enumerate(row):
            made.paste(image, (place * (image.width + _GAP), down))
        down += max(image.height for image in row) + _GAP
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/explorer"))
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        file = st.export_story(Path(folder) / "story.html")
        for mode, options in _MODES.items():
            taken = pictures(browser, file.as_uri(), options)
            made = sheet(taken, columns=6 if mode == "phone" else 3)
            made.quantize(256).save(out / f"story-{mode}.png", optimize=True)
            print(out / f"story-{mode}.png")


if __name__ == "__main__":
    main()

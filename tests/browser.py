"""A real Chromium for tests of pages."""

from __future__ import annotations

import contextlib

_QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


@contextlib.contextmanager
def open_browser():
    """A headless browser (scripts/install-browser installs it)."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=_QUIET)
        try:
            yield browser
        finally:
            browser.close()

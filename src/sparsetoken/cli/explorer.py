"""The theory in the browser: explore."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sparsetoken as st


@dataclass(frozen=True)
class Explore:
    """Move the sliders, see the theory move; Ctrl-C ends it.

    The page is served to this machine alone unless --host says otherwise, and asks nothing of any
    other. Needs the extra app: pip install 'sparsetoken[app]'. --export needs nothing.
    """

    host: str = "127.0.0.1"
    """Where to listen; 0.0.0.0 lets other machines in."""
    port: int | None = None
    """Where to listen; 8642 or the next that is free by default, 0 takes any."""
    no_browser: bool = False
    """Do not open a browser."""
    export: Path | None = None
    """Write the story to this HTML file, complete in itself, and serve nothing."""

    def run(self) -> None:
        if self.export is not None:
            written = st.export_story(self.export)
            print(f"{written}: {written.stat().st_size / 1000:.0f} kB, for any browser")
            return
        try:
            st.explore(self.host, self.port, browser=not self.no_browser, ready=_announce)
        except KeyboardInterrupt:
            print()


def _announce(address: str) -> None:
    print(f"{address}  (Ctrl-C ends it)", flush=True)

"""axe-core in a page: scripts/install-axe puts it where this finds it."""

from __future__ import annotations

from pathlib import Path

_SOURCE = Path(__file__).parents[1] / "build/axe/node_modules/axe-core/axe.min.js"


def violations(page) -> list[str]:
    """What axe finds wrong with the page as it is: rule, and the elements."""
    if not _SOURCE.exists():
        raise FileNotFoundError(f"{_SOURCE} is not there: run scripts/install-axe")
    page.evaluate(_SOURCE.read_text(encoding="utf-8"))  # evaluated, so a policy does not matter
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{found['id']}: {', '.join(str(node['target']) for node in found['nodes'])}"
        for found in result["violations"]
    ]

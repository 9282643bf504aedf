"""axe-core in a page: `scripts/npm-package axe-core@…` puts it where this finds it."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "build/npm/node_modules/axe-core/axe.min.js"


def violations(page) -> list[str]:
    """What axe finds wrong with the page as it is: rule, and the elements."""
    if not SOURCE.exists():
        raise FileNotFoundError(f"{SOURCE} is not there: make test-explorer fetches axe-core")
    page.evaluate(SOURCE.read_text(encoding="utf-8"))  # evaluated, so a policy does not matter
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{found['id']}: {', '.join(str(node['target']) for node in found['nodes'])}"
        for found in result["violations"]
    ]

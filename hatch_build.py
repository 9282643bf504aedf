"""What hatchling runs before it packs: the commit goes into the package, as `built_from.txt`.

A wheel that is built from an sdist finds the file of the sdist; an editable install has none and
asks git when it is asked (`support/provenance.py`).
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "built_from.txt"


class CommitHook(BuildHookInterface):
    """Writes nothing into the tree that is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, if the tree is a checkout."""
        if version == "editable":
            return
        commit = _git(self.root, "rev-parse", "HEAD")
        if commit is None or (Path(self.root) / "src" / "sparsetoken" / NAME).exists():
            return  # an sdist: its file is among the others
        changed = _git(self.root, "status", "--porcelain", "--untracked-files=no")
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / NAME
        path.write_text(f"{commit}{' with changes' if changed else ''}\n", encoding="ascii")
        inside = "src/sparsetoken" if self.target_name == "sdist" else "sparsetoken"
        build_data["force_include"][str(path)] = f"{inside}/{NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The file is packed: its folder goes."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _git(root: str, *words: str) -> str | None:
    """What git says of the checkout whose root this is; None if it is none, or there is no git."""
    if not (Path(root) / ".git").exists():
        return None
    try:
        command = ["git", "-C", root, *words]
        out = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return out.stdout.strip()

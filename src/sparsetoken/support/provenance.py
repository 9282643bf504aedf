"""Which commit this is: baked into a wheel when it was built, asked of git in a checkout; and
which machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_SHOWN = 12  # letters of a commit
_PATIENCE = 10.0  # seconds for git to answer


def commit(package: Path = _PACKAGE) -> str | None:
    """The commit, "with changes" if files have been changed since; None where it is not known.

    >>> from tempfile import gettempdir
    >>> commit(Path(gettempdir())) is None
    True
    """
    baked = package / "built_from.txt"  # by hatch_build.py
    if baked.exists():
        first, _, changes = baked.read_text(encoding="ascii").strip().partition(" ")
        return f"{first[:_SHOWN]} {changes}".strip()
    root = package.parent.parent
    if not (root / ".git").exists() or package != root / "src" / package.name:
        return None  # another project's repository may hold our environment: not ours to name
    number = _git(root, "rev-parse", f"--short={_SHOWN}", "HEAD")
    if number is None:
        return None
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{number} with changes" if changed else number


def machine() -> str:
    """System, processors that this process may use, Python: what may move a last digit or a second.

    >>> "cores, Python 3." in machine()
    True
    """
    everywhere = os.cpu_count() or 1
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else everywhere
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{system}, {own} cores, Python {platform.python_version()}"


def _git(root: Path, *words: str) -> str | None:
    try:
        out = subprocess.run(
            ["git", "-C", root, *words],
            capture_output=True, text=True, check=True, timeout=_PATIENCE,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return out.stdout.strip()

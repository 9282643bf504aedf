"""Python files of the user's that register classes of their own.

A file is imported as a module of its name from its folder: a process that is sent an object of one
of its classes can import it too, and one that is sent names alone is told the `PLUGINS`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path

from sparsetoken.support.errors import InvalidInput

PLUGINS: list[str] = []  # the modules


def load_plugin(name: str) -> None:
    """Run a Python file; one that fails shows its own traceback."""
    path = Path(os.path.abspath(name))
    if path.suffix != ".py" or not path.is_file():
        raise InvalidInput(f"plugin must be a Python file (.py) that exists, got {name!r}")
    module = path.stem
    if not module.isidentifier() or not _is_free(module, path):
        raise InvalidInput(
            f"plugin must have a file name that is a Python name and of no other module, got "
            f"{name!r}; rename it"
        )
    sys.path.append(str(path.parent))  # last: files beside it hide no library
    try:
        import_plugins([module])
    except (Exception, SystemExit) as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
            frames = frames.tb_next  # ours, and those of the import
        traceback.print_exception(error.with_traceback(frames))
        raise InvalidInput(f"plugin {name!r} failed: see the lines above") from None
    PLUGINS.append(module)


def import_plugins(modules: Iterable[str]) -> None:
    """Here, or in another process that has this one's folders."""
    for module in modules:
        importlib.import_module(module)


def _is_free(module: str, path: Path) -> bool:
    """Whether importing a module of this name would run the file at this path, or has."""
    known = sys.modules.get(module) or importlib.util.find_spec(module)
    file = getattr(known, "__file__", None) or getattr(known, "origin", None) or ""
    return known is None or (os.path.exists(file) and os.path.samefile(file, path))

"""Classes of one's own on the command line: `--plugin FILE.py`, run before the command is read.

The file registers what it defines (`st.LOSSES.register("steep", Steep)`), and every command, study
file and page knows it. It is imported as a module of its name from its folder, as other processes
do when they are sent an object of it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from sparsetoken.support.errors import InvalidInput


def load_plugins(arguments: Sequence[str]) -> list[str]:
    """Run the files of all --plugin options; the other arguments."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--plugin", action="append", default=[])
    try:
        options, others = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise InvalidInput(f"{error} (a Python file)") from None
    for name in options.plugin:
        _load(name)
    return others


def _load(name: str) -> None:
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
        importlib.import_module(module)
    except (Exception, SystemExit) as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
            frames = frames.tb_next  # ours, and those of the import
        traceback.print_exception(error.with_traceback(frames))
        raise InvalidInput(f"plugin {name!r} failed: see the lines above") from None


def _is_free(module: str, path: Path) -> bool:
    """Whether importing a module of this name would run the file at this path, or has."""
    known = sys.modules.get(module) or importlib.util.find_spec(module)
    file = getattr(known, "__file__", None) or getattr(known, "origin", None) or ""
    return known is None or (os.path.exists(file) and os.path.samefile(file, path))

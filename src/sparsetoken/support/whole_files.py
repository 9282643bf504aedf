"""Files that are written whole or not at all, and only where files belong.

A file is written beside its target and moved there when it is complete: a crash, a full disk or an
interrupt leave what was there, and nothing else. Only new names and regular files are targets: a
device, a pipe or a folder is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sparsetoken.support.errors import InvalidInput


class NotAFile(ValueError):
    """A target that cannot be written to; says why."""


def target_file(name: str | os.PathLike[str]) -> Path:
    """The path, if a whole file can be written there; `NotAFile` if not.

    >>> target_file("/")
    Traceback (most recent call last):
        ...
    sparsetoken.support.whole_files.NotAFile: a file that is new or regular, in a folder that is
    there (not a folder), got '/'
    """
    path = Path(name)
    real = Path(os.path.realpath(path))  # a link leads to what is written
    if not real.parent.is_dir():
        raise _refusal(name, "that folder is not there")
    if real.is_dir():
        raise _refusal(name, "not a folder")
    if real.exists() and not stat.S_ISREG(real.stat().st_mode):
        raise _refusal(name, "not a device, pipe or socket")
    if not os.access(real.parent, os.W_OK):
        raise _refusal(name, "that folder is read-only")
    return real


def _refusal(name: str | os.PathLike[str], why: str) -> NotAFile:
    allowed = "a file that is new or regular, in a folder that is there"
    return NotAFile(f"{allowed} ({why}), got {os.fspath(name)!r}")


@contextmanager
def whole_file(name: str | os.PathLike[str]) -> Iterator[Path]:
    """A place to write to, which becomes the target at the end; on an error nothing is left."""
    target = target_file(name)
    draft = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        # made by us, with the rights that new files have here
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield draft
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def save_arrays(owner: str, name: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Arrays as an npz file at the caller's `path`, whole or not at all."""
    try:
        with whole_file(name) as draft, draft.open("wb") as stream:
            np.savez(stream, **arrays)
    except NotAFile as error:
        raise InvalidInput(f"{owner}: path must be {error}") from None

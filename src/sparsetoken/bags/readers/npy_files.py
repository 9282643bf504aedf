"""Arrays in npy and npz files, a bag each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.npz import read_arrays, read_headers
from sparsetoken.bags.readers.untrusted import (
    ArrayHeader,
    check_npy_dtype,
    check_size,
    foreign,
    read_npy_header,
)

_NAME = "the array"


class NpyFile:
    """One array, mapped: what is asked for is read, no more."""

    def headers(self, path: Path) -> Mapping[str, ArrayHeader]:
        return {"": _header(path)[0]}

    def array(self, path: Path, name: str) -> NDArray[Any]:
        header, start = _header(path)
        if not header.size:
            return np.zeros(header.shape, header.dtype)
        with foreign("an npy file"):
            return np.memmap(
                path, header.dtype, "r", start, header.shape, "F" if header.fortran else "C"
            )


class NpzFile:
    """Arrays by name."""

    def headers(self, path: Path) -> Mapping[str, ArrayHeader]:
        return read_headers(path)

    def array(self, path: Path, name: str) -> NDArray[Any]:
        return read_arrays(path, (name,))[name]


def _header(path: Path) -> tuple[ArrayHeader, int]:
    """And where the numbers begin."""
    with foreign("an npy file"), path.open("rb") as stream:
        header, start = read_npy_header(stream), stream.tell()
        check_npy_dtype(_NAME, header.dtype)
        check_size(_NAME, header, path.stat().st_size - start)
        return header, start

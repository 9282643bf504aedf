"""Bytes of strangers: what every reader needs before it believes a word of them."""

from __future__ import annotations

import ast
import math
import re
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from struct import error as StructError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.memory import machine_memory

_MOST_MEMORY = 0.5  # part of this machine's memory that the arrays of a file may take
_UNREADABLE: tuple[type[Exception], ...] = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, LZMAError, StructError, EOFError,
    RuntimeError, NotImplementedError, MemoryError, OverflowError, UnicodeError, SyntaxError,
    tokenize.TokenError, ValueError, TypeError, IndexError, KeyError, AttributeError, OSError,
    Warning,
)  # fmt: skip

_NPY_VERSIONS = {(1, 0): (2, "latin1"), (2, 0): (4, "latin1"), (3, 0): (4, "utf-8")}


class ArrayHeader(NamedTuple):
    """What a file says of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool = False

    @property
    def size(self) -> int:
        """Bytes it takes."""
        return math.prod(self.shape) * self.dtype.itemsize


@contextmanager
def foreign(kind: str, library: bool = False) -> Iterator[None]:
    """Around code of others that reads bytes we do not trust: whatever it raises, they are bad.

    A `library` has errors of its own: any of them is meant.
    """
    try:
        yield
    except InvalidInput:
        raise
    except Exception as error:
        if not library and not isinstance(error, _UNREADABLE):
            raise
        words = " ".join(str(error).split()) or type(error).__name__
        raise InvalidInput(f"this is not {kind}, or it is damaged ({words[:200]})") from error


def free_memory() -> float:
    """Bytes that the arrays of a file may take."""
    return _MOST_MEMORY * machine_memory()


def check_memory(name: str, shape: tuple[int, ...], itemsize: int, room: float) -> float:
    """Bytes that an array takes as numbers to compute with, of which there must be room."""
    needed = math.prod(shape) * max(8, itemsize)
    if needed > room:
        raise InvalidInput(f"{name} needs {needed} bytes, {max(0, int(room))} are free for it")
    return needed


def check_size(name: str, header: ArrayHeader, there: int) -> None:
    """A header claims as many bytes as are there."""
    if header.size != there or any(length < 0 for length in header.shape):
        raise InvalidInput(
            f"{name} claims shape {header.shape} of {header.dtype}, {header.size} bytes, but "
            f"{there} are there: the file is damaged or forged"
        )


def read_npy_header(stream: Any) -> ArrayHeader:
    """Shape, order and dtype as the header of an npy file has them."""
    version = np.lib.format.read_magic(stream)
    if version not in _NPY_VERSIONS:
        raise InvalidInput(f"npy format {version} is not known")
    size, encoding = _NPY_VERSIONS[version]
    length = int.from_bytes(stream.read(size), "little")
    if length > 10_000:
        raise InvalidInput(f"a header of {length} bytes is too long")
    words = stream.read(length).decode(encoding)
    content = ast.literal_eval(re.sub(r"(\d)L\b", r"\1", words).strip())  # 3L: so Python 2 wrote 3
    shape, fortran = tuple(map(int, content["shape"])), bool(content["fortran_order"])
    return ArrayHeader(shape, np.dtype(content["descr"]), fortran)


def check_npy_dtype(name: str, dtype: np.dtype[Any]) -> None:
    """Numbers and words are read; objects are not."""
    if dtype.kind not in "biufcSU":
        raise InvalidInput(
            f"{name} must hold numbers or words, got dtype {dtype}: objects would have to be "
            "unpickled, which is never done"
        )


def from_bfloat16(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """bfloat16 is the first half of a float32.

    >>> from_bfloat16(np.array([0x3F80, 0xC000], np.uint16)).tolist()
    [1.0, -2.0]
    """
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)

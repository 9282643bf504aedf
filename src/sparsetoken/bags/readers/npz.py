"""Bags and arrays in npz files, read with suspicion: nothing is unpickled, no size is believed.

The header of every array is compared with the size of its entry, and that with the bytes that are
there, before anything is allocated.
"""

from __future__ import annotations

import ast
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from struct import error as StructError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags, LabelledBags
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.memory import machine_memory

_MOST_MEMORY = 0.5  # part of this machine's memory that the arrays of a file may take
_MOST_SHRINKAGE = 1100  # deflate cannot make a file smaller by more
_UNREADABLE = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, LZMAError, StructError, EOFError,
    RuntimeError, NotImplementedError, MemoryError, OverflowError, UnicodeError, SyntaxError,
    tokenize.TokenError, ValueError, TypeError, IndexError, KeyError, AttributeError, OSError,
)  # fmt: skip


class Npz:
    """X (n, L, d), or X (N, d) and offsets (n + 1,); labels y (n,) if any.

    With offsets, bag i is X[offsets[i]:offsets[i + 1]]. An array `mask` (n, L) of truth values may
    say which tokens of a three-dimensional X count. Other arrays are ignored.
    """

    layout = "npz archives of X (bags, tokens, features), or X (tokens, features) and offsets"

    def can_read(self, path: Path) -> bool:
        return path.is_file() and (path.suffix == ".npz" or zipfile.is_zipfile(path))

    def read(self, path: Path) -> LabelledBags:
        arrays = read_arrays(path, ("X", "offsets", "mask", "y"))
        if "X" not in arrays:
            raise InvalidInput("the array X (tokens) is missing")
        tokens, offsets, mask = arrays["X"], arrays.get("offsets"), arrays.get("mask")
        if tokens.dtype.kind not in "fiub":
            raise InvalidInput(f"X must hold real numbers, got dtype {tokens.dtype}")
        if tokens.ndim == 3 and offsets is None:
            bags = Bags.of(tokens, mask)
        elif tokens.ndim == 2 and offsets is not None and mask is None:
            bags = Bags.of_flat(tokens, offsets)
        else:
            others = [name for name in ("offsets", "mask") if name in arrays]
            raise InvalidInput(
                "X must have three dimensions (bags, tokens, features), or two (tokens, features) "
                f"with offsets, got shape {tokens.shape} with {' and '.join(others) or 'neither'}"
            )
        labels = arrays.get("y")
        if labels is not None and labels.dtype.kind not in "biufU":
            raise InvalidInput(f"y must hold numbers or words, got dtype {labels.dtype}")
        if labels is not None and (labels.ndim != 1 or len(labels) != len(bags)):
            raise InvalidInput(
                f"y must have one label for each of the {len(bags)} bags, got shape {labels.shape}"
            )
        return LabelledBags(bags, labels)


def read_names(path: Path, name: str) -> NDArray[Any]:
    """The array of that name, with a number or a word for each bag."""
    arrays = read_arrays(path, (name,))
    if name not in arrays:
        raise InvalidInput(f"the array {name} (groups) is missing")
    names = arrays[name]
    if names.dtype.kind not in "biufU" or names.ndim != 1:
        raise InvalidInput(
            f"{name} must hold a number or a word for each bag, got {names.dtype} of shape "
            f"{names.shape}"
        )
    return names


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """Those of the named arrays that an npz file has; numbers, truth values and words only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old headers: what they mean is checked below
        with _foreign():
            archive = zipfile.ZipFile(path)
        with archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            room, arrays = _MOST_MEMORY * machine_memory(), {}
            for name in names:
                entry = entries.get(f"{name}.npy")
                if entry is not None:
                    arrays[name] = _array(archive, entry, name, room)
                    room -= arrays[name].size * max(8, arrays[name].itemsize)
            return arrays


@contextmanager
def _foreign() -> Iterator[None]:
    """Around code of others that reads bytes we do not trust: whatever it raises, they are bad."""
    try:
        yield
    except InvalidInput:
        raise
    except _UNREADABLE as error:
        words = str(error) or type(error).__name__
        raise InvalidInput(f"this is not an npz file, or it is damaged ({words})") from error


def _array(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, room: float
) -> NDArray[Any]:
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidInput(f"{name} is packed in a way that NumPy never does: the file is forged")
    if entry.file_size > _MOST_SHRINKAGE * max(entry.compress_size, 1):
        raise InvalidInput(
            f"{name} claims {entry.file_size} bytes in an entry of {entry.compress_size}: the file "
            "is damaged or forged"
        )
    with _foreign():
        opened = archive.open(entry)
    with opened as stream:
        with _foreign():
            shape, fortran, dtype = _header(stream)
        if dtype.kind not in "biufcSU":
            raise InvalidInput(
                f"{name} must hold numbers or words, got dtype {dtype}: objects would have to be "
                "unpickled, which is never done"
            )
        size = math.prod(shape) * dtype.itemsize
        there = entry.file_size - stream.tell()
        if size != there or any(length < 0 for length in shape):
            raise InvalidInput(
                f"{name} claims shape {shape} of {dtype}, {size} bytes, but {there} are there: "
                "the file is damaged or forged"
            )
        needed = math.prod(shape) * max(8, dtype.itemsize)  # as numbers to compute with
        if needed > room:
            raise InvalidInput(f"{name} needs {needed} bytes, {max(0, int(room))} are free for it")
        with _foreign():
            data, more = stream.read(size), stream.read(1)
        if len(data) < size:
            raise InvalidInput(
                f"{name} ends after {len(data)} of {size} bytes: the file is damaged"
            )
        if more:
            raise InvalidInput(f"{name} goes on after its {size} bytes: the file is damaged")
    if size == 0:
        return np.zeros(shape, dtype)
    array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    if dtype.kind == "U":
        letters = np.frombuffer(data, np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if np.any((letters > 0x10FFFF) | ((letters >= 0xD800) & (letters < 0xE000))):
            raise InvalidInput(
                f"{name} has letters that do not exist: the file is damaged or forged"
            )
    return array


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and dtype as the header of an npy entry has them."""
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version in readers:
        return readers[version](stream)
    if version != (3, 0):
        raise InvalidInput(f"npy format {version} is not known")
    length = int.from_bytes(stream.read(4), "little")
    if length > 10_000:
        raise InvalidInput(f"a header of {length} bytes is too long")
    content = ast.literal_eval(stream.read(length).decode())
    shape, fortran = tuple(map(int, content["shape"])), bool(content["fortran_order"])
    return shape, fortran, np.dtype(content["descr"])

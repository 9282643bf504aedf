"""Bags and arrays in npz files, read with suspicion: nothing is unpickled, no size is believed.

The header of every array is compared with the size of its entry, and that with the bytes that are
there, before anything is allocated.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags, LabelledBags
from sparsetoken.bags.readers.untrusted import (
    ArrayHeader,
    check_memory,
    check_npy_dtype,
    check_size,
    foreign,
    free_memory,
    read_npy_header,
)
from sparsetoken.support.errors import InvalidInput

_KIND = "an npz file"
_MOST_SHRINKAGE = 1100  # deflate cannot make a file smaller by more


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
    with _opened(path) as archive:
        entries = _entries(archive)
        room, arrays = free_memory(), {}
        for name in names:
            if name in entries:
                arrays[name] = _array(archive, entries[name], name, room)
                room -= arrays[name].size * max(8, arrays[name].itemsize)
        return arrays


def read_headers(path: Path) -> dict[str, ArrayHeader]:
    """What an npz file says of its arrays: of their numbers nothing is read."""
    with _opened(path) as archive:
        headers = {}
        for name, entry in _entries(archive).items():
            with _entry(archive, entry, name) as (_, headers[name]):
                pass
        return headers


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    with foreign(_KIND):
        archive = zipfile.ZipFile(path)
    with archive:
        yield archive


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """By the names of arrays."""
    return {
        entry.filename.removesuffix(".npy"): entry
        for entry in archive.infolist()
        if entry.filename.endswith(".npy")
    }


@contextmanager
def _entry(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str
) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
    """A stream of an array's bytes, and its header, which claims what is there."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InvalidInput(f"{name} is packed in a way that NumPy never does: the file is forged")
    if entry.file_size > _MOST_SHRINKAGE * max(entry.compress_size, 1):
        raise InvalidInput(
            f"{name} claims {entry.file_size} bytes in an entry of {entry.compress_size}: the file "
            "is damaged or forged"
        )
    with foreign(_KIND):
        opened = archive.open(entry)
    with opened as stream:
        with foreign(_KIND):
            header = read_npy_header(stream)
        check_npy_dtype(name, header.dtype)
        check_size(name, header, entry.file_size - stream.tell())
        yield stream, header


def _array(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, name: str, room: float
) -> NDArray[Any]:
    with _entry(archive, entry, name) as (stream, header):
        shape, dtype, fortran = header
        size = header.size
        check_memory(name, shape, dtype.itemsize, room)
        with foreign(_KIND):
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

"""One bag in one HDF5 file, read with suspicion.

A file may ask for other files (external links, external and virtual datasets), claim a size that is
not there, and hold a few kilobytes that unpack to gigabytes. All of that is refused before anything
is allocated.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.folders import bag_room, inside
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

TOKENS = ("features", "feats")  # CLAM's and TRIDENT's dataset, STAMP's
_COORDINATES = "coords"
_UNIT, _MICROMETRES = "unit", "um"  # an attribute of STAMP's files, from version 2 on
_LONGEST = 100  # bytes of it
_GZIP = 1  # the numbers that HDF5 has given to filters
_CHECKSUM = 3
_FILTERS = {_GZIP: "gzip", 2: "shuffle", _CHECKSUM: "fletcher32", 4: "szip", 32000: "lzf"}
_ORDER_ALONE = {2, _CHECKSUM}  # filters that do not change how much there is
_MOST_SHRINKAGE = 1100  # deflate cannot make a file smaller by more
_GROWTH = 1.01, 1024  # of what cannot be packed: a factor, and bytes of headers
_UNREADABLE = (
    OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError, IndexError,
    OverflowError, MemoryError, NotImplementedError,
)  # fmt: skip


class Hdf5File:
    """The tokens of a bag in `features` or `feats`, (L, d) or (1, L, d); `coords` if any."""

    def shape(self, path: Path) -> tuple[int, int]:
        with _opened(path) as file:
            dataset = _dataset(file, path, tokens_name(file))
            length, dim = _flat(dataset)
            return length, dim

    def tokens(self, path: Path) -> NDArray[Any]:
        with _opened(path) as file:
            return _values(_dataset(file, path, tokens_name(file)))

    def coordinates(self, path: Path) -> FloatArray | None:
        with _opened(path) as file:
            if _COORDINATES not in file.keys():
                return None
            return _values(_dataset(file, path, _COORDINATES)).astype(float)

    def in_micrometres(self, path: Path) -> bool:
        """Whether coordinates are, not in pixels: files of STAMP say so."""
        with _opened(path) as file:
            if _UNIT not in file.attrs or file.attrs.get_id(_UNIT).get_storage_size() > _LONGEST:
                return False
            return str(file.attrs[_UNIT]) == _MICROMETRES


def tokens_name(file: Any) -> str:
    """Which dataset has the tokens."""
    for name in TOKENS:
        if name in file.keys():
            return name
    known = ", ".join(sorted(file.keys())[:10]) or "nothing"
    raise InvalidInput(f"there is no dataset {' or '.join(TOKENS)}; there is {known}")


def tokens_name_of(folder: Path, path: Path) -> str | None:
    """Which dataset of a file in a folder has the tokens; None where none has."""
    try:
        with _opened(inside(folder, path)) as file:
            return tokens_name(file)
    except InvalidInput:
        return None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """An HDF5 file; whatever HDF5 raises about it, the file is bad."""
    try:
        import h5py
    except ImportError:
        raise InvalidInput("HDF5 files need h5py (pip install 'sparsetoken[bags]')") from None
    try:
        with h5py.File(path, "r", locking=False) as file:  # locks fail on many shared disks
            yield file
    except InvalidInput:
        raise
    except _UNREADABLE as error:
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(f"this is not an HDF5 file, or it is damaged ({words})") from error


def _dataset(file: Any, path: Path, name: str) -> Any:
    """A dataset of numbers that is in this file, with all the bytes that it claims."""
    import h5py

    if file.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
        raise InvalidInput(f"{name} is a link, which is never followed")
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset):
        raise InvalidInput(f"{name} must be a dataset, got a {type(dataset).__name__.lower()}")
    creation = dataset.id.get_create_plist()
    if creation.get_layout() == h5py.h5d.VIRTUAL or creation.get_external_count():
        raise InvalidInput(f"{name} is kept in other files, which are never read")
    if dataset.dtype.kind not in "fiu":
        raise InvalidInput(f"{name} must hold real numbers, got dtype {dataset.dtype}")
    _flat(dataset)
    filters = _filters(creation, name)
    size, itemsize = math.prod(dataset.shape) * dataset.dtype.itemsize, dataset.dtype.itemsize
    if dataset.chunks and math.prod(dataset.chunks) * itemsize > bag_room():
        raise InvalidInput(f"{name} is in pieces of shape {dataset.chunks}, too large for memory")
    there = min(dataset.id.get_storage_size(), path.stat().st_size)
    if size > there * (_MOST_SHRINKAGE if filters - _ORDER_ALONE else 1):
        raise InvalidInput(
            f"{name} claims shape {dataset.shape} of {dataset.dtype}, {size} bytes, but {there} "
            "are there: the file is damaged or forged"
        )
    return dataset


def _flat(dataset: Any) -> tuple[int, ...]:
    """(L, d) of a dataset (L, d) or (1, L, d)."""
    shape: tuple[int, ...] = dataset.shape or ()  # None, of a dataset that is empty by its kind
    if len(shape) == 3 and shape[0] == 1:
        return shape[1:]
    if len(shape) != 2:
        raise InvalidInput(
            f"{dataset.name[1:]} must have shape (tokens, dim) or (1, tokens, dim), got {shape}"
        )
    return shape


def _filters(creation: Any, name: str) -> set[int]:
    """How a dataset is packed: at most once, by what HDF5 brings with it."""
    filters = [creation.get_filter(index) for index in range(creation.get_nfilters())]
    for code, *_, words in filters:
        if code not in _FILTERS:
            raise InvalidInput(
                f"{name} is packed by the filter {words.decode(errors='replace') or code}, known "
                f"are {', '.join(_FILTERS.values())} (h5repack -f GZIP=4 packs it anew)"
            )
    codes = [code for code, *_ in filters]
    if len([code for code in codes if code not in _ORDER_ALONE]) > 1:
        raise InvalidInput(f"{name} is packed more than once: the file is forged")
    return set(codes)


def _values(dataset: Any) -> NDArray[Any]:
    """All of a dataset, in the precision in which it is stored."""
    if dataset.chunks:
        _unpackable(dataset)
    values = np.empty(dataset.shape, dataset.dtype)
    if values.size:
        dataset.read_direct(values)
    return values.reshape(_flat(dataset))


def _unpackable(dataset: Any) -> None:
    """Refuse pieces that unpack to more than they may: HDF5 would go on until memory is full."""
    piece = math.prod(dataset.chunks) * dataset.dtype.itemsize
    factor, header = _GROWTH
    packed = _GZIP in _filters(dataset.id.get_create_plist(), dataset.name)
    forged = InvalidInput(
        f"a piece of {dataset.name[1:]} holds more than its {piece} bytes: the file is forged"
    )
    large = []

    def look(stored: Any) -> None:
        if stored.size > factor * piece + header:
            raise forged
        if packed and stored.size * _MOST_SHRINKAGE > bag_room():
            large.append(stored)

    dataset.id.chunk_iter(look)
    for stored in large:
        mask, content = dataset.id.read_direct_chunk(stored.chunk_offset)
        stream, total = zlib.decompressobj(), 0
        while mask == 0 and content and not stream.eof:
            total += len(stream.decompress(content, 1 << 20))
            content = stream.unconsumed_tail
            if total > piece + header:
                raise forged

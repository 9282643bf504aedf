"""Arrays in zarr stores, a bag each: directories or zip archives, of version 2 or 3.

The metadata of an array are read here, as JSON, before the zarr library sees the store: it may hold
numbers alone, in the common packings, and chunks that fit in memory. A codec that would unpickle
objects is refused.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.untrusted import ArrayHeader, check_memory, foreign, free_memory
from sparsetoken.support.errors import InvalidInput

_KIND = "a zarr store"
_MOST_WORDS = 2**20  # bytes of JSON that describe an array
_MOST_HOLES = 10  # chunks for a file that is there: zarr leaves out those of zeros
_OLD, _NEW = ".zarray", "zarr.json"
_ALL_WORDS = (_OLD, _NEW, ".zgroup", ".zattrs", ".zmetadata")
_CODECS = {  # that pack numbers, of both versions
    "blosc", "zlib", "gzip", "zstd", "lz4", "bz2", "lzma", "shuffle", "delta", "crc32", "crc32c",
    "adler32", "bytes", "endian", "transpose", "sharding_indexed",
}  # fmt: skip
_BLOSC = struct.Struct("<4xIII")
_DTYPE = re.compile(  # of version 2, of version 3
    r"[<>|]?(b1|[iu][1248]|f[248])|bool|u?int(8|16|32|64)|float(16|32|64)"
)


class ZarrStore:
    """The array of a store, or those of its root group by name."""

    def headers(self, path: Path) -> Mapping[str, ArrayHeader]:
        return {name: array.header for name, array in _arrays(_store(path)).items()}

    def array(self, path: Path, name: str) -> NDArray[Any]:
        files = _store(path)
        _arrays(files)[name].check_chunks(files)
        zarr = _zarr()
        with foreign(_KIND, library=True):
            if path.is_dir():
                store = zarr.storage.LocalStore(path, read_only=True)
            else:
                store = zarr.storage.ZipStore(path, mode="r", read_only=True)
            try:
                return np.asarray(zarr.open_array(store, path=name, mode="r")[...])
            finally:
                store.close()


@dataclass(frozen=True)
class _Store:
    """The files of a store."""

    path: Path
    files: frozenset[str]

    def starts(self, files: Iterable[str], most: int) -> Iterator[tuple[str, bytes, int]]:
        """The first bytes of files, and how many there are."""
        with foreign(_KIND):
            if self.path.is_dir():
                for file in files:
                    with (self.path / file).open("rb") as stream:
                        yield file, stream.read(most), (self.path / file).stat().st_size
                return
            with zipfile.ZipFile(self.path) as archive:
                for file in files:
                    with archive.open(file) as entry:
                        yield file, entry.read(most), archive.getinfo(file).file_size

    def chunks(self, name: str) -> list[str]:
        """Files with the numbers of an array."""
        start = f"{name}/" if name else ""
        return [
            file
            for file in self.files
            if file.startswith(start)
            and not file.endswith("/")
            and file.split("/")[-1] not in _ALL_WORDS
        ]


@dataclass(frozen=True)
class _Array:
    """What the metadata of an array claim."""

    name: str
    header: ArrayHeader
    chunk: int  # bytes, unpacked
    blosc: bool

    def check_chunks(self, store: _Store) -> None:
        """Frames of blosc are as long as they say: its decoder would read on behind a shorter one.

        A frame begins with four bytes, then come the sizes unpacked, of blocks, and packed.
        """
        files = store.chunks(self.name) if self.blosc else []
        for file, start, size in store.starts(files, _BLOSC.size):
            if len(start) < _BLOSC.size or _BLOSC.unpack(start)[::2] != (self.chunk, size):
                raise InvalidInput(f"the chunk {file} has another size than it says: it is damaged")


def _arrays(store: _Store) -> dict[str, _Array]:
    """Those of the root, or of its group."""
    arrays = {}
    about = [
        file
        for file in sorted(store.files)
        if file.count("/") < 2 and file.split("/")[-1] in (_OLD, _NEW)
    ]
    for file, words, size in store.starts(about, _MOST_WORDS):
        if size > _MOST_WORDS:
            raise InvalidInput(f"{file} is longer than {_MOST_WORDS} bytes")
        *folders, kind = file.split("/")
        name = "/".join(folders)
        with foreign(_KIND):
            content = json.loads(words)
            if kind == _OLD or content["node_type"] != "group":
                arrays[name] = _described(name, content, kind, len(store.files))
    if not arrays:
        raise InvalidInput(f"this is not {_KIND}, or it has no array")
    for name in arrays:
        if not store.chunks(name):
            raise InvalidInput(f"{name or 'the array'} has no numbers: the store is damaged")
    return arrays


def _store(path: Path) -> _Store:
    if path.is_dir():
        return _Store(path, frozenset(_listed(path)))
    with foreign(_KIND), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if len(set(names)) < len(names):
        raise InvalidInput("an entry stands twice in the archive: it is forged")
    return _Store(path, frozenset(names))


def _listed(path: Path) -> list[str]:
    """Names of all files; links are refused, for stores have none."""
    names = []
    for folder, folders, files in os.walk(path):
        place = Path(folder)
        for name in (*folders, *files):
            if (place / name).is_symlink():
                raise InvalidInput("there is a link in the store")
        names += [(place / name).relative_to(path).as_posix() for name in files]
    return names


def _described(name: str, words: Any, kind: str, files: int) -> _Array:
    """An array in a store of so many files; whatever its metadata lack is an error of theirs."""
    if kind == _NEW:
        dtype, chunks = words["data_type"], words["chunk_grid"]["configuration"]["chunk_shape"]
        codecs = _all_codecs(words["codecs"])
        if words.get("storage_transformers"):
            raise InvalidInput("storage transformers are not known")
    else:
        dtype, chunks = words["dtype"], words["chunks"]
        packings = [*(words.get("filters") or ()), words.get("compressor")]
        codecs = [packing["id"] for packing in packings if packing is not None]
    if not isinstance(dtype, str) or not _DTYPE.fullmatch(dtype):
        raise InvalidInput(f"an array must hold numbers, got dtype {str(dtype)[:60]}")
    for codec in codecs:
        if codec not in _CODECS:
            raise InvalidInput(
                f"the codec {str(codec)[:60]!r} is not one that packs numbers "
                f"({', '.join(sorted(_CODECS))})"
            )
    if "blosc" in codecs[:-1]:
        raise InvalidInput("blosc must be the last codec: elsewhere its frames cannot be checked")
    sides = (*words["shape"], *chunks)
    if any(not isinstance(side, int) or side < 1 for side in sides):
        raise InvalidInput(f"shape and chunks must be whole numbers, none 0, got {str(sides)[:60]}")
    header = ArrayHeader(tuple(words["shape"]), np.dtype(dtype))
    count = math.prod(-(-n // side) for n, side in zip(header.shape, chunks, strict=True))
    if count > _MOST_HOLES * files:
        raise InvalidInput(
            f"an array of {count} chunks in a store of {files} files: it is damaged or forged"
        )
    check_memory("a chunk", tuple(chunks), header.dtype.itemsize, free_memory())
    chunk = ArrayHeader(tuple(chunks), header.dtype).size
    return _Array(name, header, chunk, codecs[-1:] == ["blosc"])


def _all_codecs(codecs: Any) -> list[Any]:
    """Names of codecs, those inside of others before them."""
    names = []
    for codec in codecs:
        inner = codec.get("configuration") or {}
        for part in ("codecs", "index_codecs"):
            names += _all_codecs(inner.get(part, ()))
        names.append(codec["name"])
    return names


def _zarr() -> ModuleType:
    try:
        import zarr
        import zarr.storage
    except ImportError as error:
        raise InvalidInput("a zarr store needs zarr (pip install 'sparsetoken[bags]')") from error
    return zarr

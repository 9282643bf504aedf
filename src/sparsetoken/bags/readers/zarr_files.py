"""Arrays in zarr stores, a bag each: directories or zip archives, of version 2 or 3.

The metadata of an array are read here, as JSON, before the zarr library sees the store: it may hold
numbers alone, in the common packings, and chunks that fit in memory. A codec that would unpickle
objects is refused.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Mapping
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
_DTYPES = {
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64",
}  # fmt: skip


class ZarrStore:
    """The array of a store, or those of its root group by name."""

    def headers(self, path: Path) -> Mapping[str, ArrayHeader]:
        store = _store(path)
        names = sorted(name for name in store.files if name.split("/")[-1] in (_OLD, _NEW))
        headers = {}
        for file in names:
            *folders, kind = file.split("/")
            if len(folders) < 2:
                header = _header(store.words(file), kind, len(store.files))
                if header is not None:
                    headers["/".join(folders)] = header
        if not headers:
            raise InvalidInput(f"this is not {_KIND}, or it has no array")
        for name in headers:
            start = f"{name}/" if name else ""
            if not any(file.startswith(start) and not _is_words(file) for file in store.files):
                raise InvalidInput(f"{name or 'the array'} has no numbers: the store is damaged")
        return headers

    def array(self, path: Path, name: str) -> NDArray[Any]:
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

    def words(self, file: str) -> Any:
        """A file of JSON."""
        with foreign(_KIND):
            if self.path.is_dir():
                with (self.path / file).open("rb") as stream:
                    data = stream.read(_MOST_WORDS + 1)
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(file) as stream:
                    data = stream.read(_MOST_WORDS + 1)
            if len(data) > _MOST_WORDS:
                raise InvalidInput(f"{file} is longer than {_MOST_WORDS} bytes")
            return json.loads(data)


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


def _is_words(file: str) -> bool:
    return file.endswith("/") or file.split("/")[-1] in _ALL_WORDS


def _header(words: Any, kind: str, files: int) -> ArrayHeader | None:
    """What the metadata of an array claim, in a store of so many files; None for a group."""
    with foreign(_KIND):
        if kind == _NEW and words["node_type"] == "group":
            return None
        if kind == _NEW:
            codecs = list(words["codecs"])
            dtype, chunks = words["data_type"], words["chunk_grid"]["configuration"]["chunk_shape"]
            for codec in codecs:
                inner = codec.get("configuration") or {}
                codecs += [*inner.get("codecs", ()), *inner.get("index_codecs", ())]
                if len(codecs) > 100:
                    raise InvalidInput("an array is packed more than 100 times")
            used = [codec["name"] for codec in codecs]
            transformers = words.get("storage_transformers")
            if transformers:
                raise InvalidInput("storage transformers are not known")
        else:
            dtype, chunks = words["dtype"], words["chunks"]
            codecs = [words.get("compressor"), *(words.get("filters") or ())]
            used = [codec["id"] for codec in codecs if codec is not None]
        if not isinstance(dtype, str) or np.dtype(dtype).name not in _DTYPES:
            raise InvalidInput(f"an array must hold numbers, got dtype {str(dtype)[:60]}")
        for codec in used:
            if codec not in _CODECS:
                raise InvalidInput(
                    f"the codec {str(codec)[:60]!r} is not one that packs numbers "
                    f"({', '.join(sorted(_CODECS))})"
                )
        sides = (*words["shape"], *chunks)
        if any(not isinstance(side, int) or side < 0 for side in sides):
            raise InvalidInput("shape and chunks must be whole numbers: the store is forged")
        header = ArrayHeader(tuple(words["shape"]), np.dtype(dtype))
        count = math.prod(-(-n // side) for n, side in zip(header.shape, chunks, strict=True))
    if count > _MOST_HOLES * files:
        raise InvalidInput(
            f"an array of {count} chunks in a store of {files} files: it is damaged or forged"
        )
    check_memory("a chunk", tuple(chunks), header.dtype.itemsize, free_memory())
    return header


def _zarr() -> ModuleType:
    try:
        import zarr
        import zarr.storage
    except ImportError as error:
        raise InvalidInput("a zarr store needs zarr (pip install 'sparsetoken[bags]')") from error
    return zarr

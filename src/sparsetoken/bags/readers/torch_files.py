"""Tensors in .pt files, read without torch: a zip archive of a pickle and of raw numbers.

    <name>/data.pkl      what there is: `pickled_tensors` reads it, nothing of it is run
    <name>/data/0, …     the numbers of each storage, never packed
    <name>/byteorder     little or big

To know the shape of a tensor the pickle alone is read. The numbers are read when asked for, and
with them their checksum.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.pickled_tensors import (
    BFLOAT16,
    MOST_PICKLE,
    Storage,
    Tensor,
    pickled_tensors,
)
from sparsetoken.bags.readers.untrusted import (
    ArrayHeader,
    check_memory,
    foreign,
    free_memory,
    from_bfloat16,
)
from sparsetoken.support.errors import InvalidInput

_KIND = "a file of torch.save"
_ZIP = b"PK\x03\x04"
_OLD = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"  # its magic number, pickled
_MOST_WORDS = 1000  # bytes of the record byteorder, and more than it needs
_PROGRAM = "constants.pkl"  # what torch.jit.save writes beside the pickle


class TorchFile:
    """A tensor, or a dict of tensors by name; bfloat16 becomes float32."""

    def headers(self, path: Path) -> Mapping[str, ArrayHeader]:
        with _opened(path) as archive:
            return {
                name: ArrayHeader(tensor.shape, _handed_out(tensor.storage))
                for name, tensor in archive.tensors().items()
            }

    def array(self, path: Path, name: str) -> NDArray[Any]:
        with _opened(path) as archive:
            return archive.read(archive.tensors()[name])


@dataclass(frozen=True)
class _Archive:
    archive: zipfile.ZipFile
    entries: Mapping[str, zipfile.ZipInfo]  # by their names in the archive's one folder

    def tensors(self) -> dict[str, Tensor]:
        """What the pickle says of them, where the archive has as many numbers."""
        tensors = pickled_tensors(self._content("data.pkl", MOST_PICKLE))
        for tensor in tensors.values():
            storage = tensor.storage
            entry, size = self._storage(storage), storage.count * storage.itemsize
            if entry.file_size != size:
                raise InvalidInput(
                    f"a storage claims {storage.count} numbers, {size} bytes, but "
                    f"{entry.file_size} are there: the file is damaged or forged"
                )
        return tensors

    def read(self, tensor: Tensor) -> NDArray[Any]:
        """The numbers of a tensor, in this machine's byte order."""
        storage = tensor.storage
        check_memory("its storage", (storage.count,), storage.itemsize, free_memory())
        kind = np.dtype("u2" if storage.kind == BFLOAT16 else storage.kind)
        stored = kind.newbyteorder(self._order())
        data = self._content(f"data/{storage.key}", storage.count * storage.itemsize)
        numbers = np.frombuffer(data, stored)
        if 0 in tensor.shape:
            view = np.zeros(tensor.shape, stored)
        else:
            steps = tuple(step * stored.itemsize for step in tensor.strides)
            view = np.lib.stride_tricks.as_strided(  # inside: pickled_tensors has seen to that
                numbers[tensor.offset :], tensor.shape, steps, writeable=False
            )
        array = np.asarray(view, stored.newbyteorder("="), order="C")
        return from_bfloat16(array) if storage.kind == BFLOAT16 else array

    def _order(self) -> Literal["little", "big"]:
        if "byteorder" not in self.entries:  # before 2.1: the order of the machine that wrote it
            return sys.byteorder
        match self._content("byteorder", _MOST_WORDS):
            case b"little":
                return "little"
            case b"big":
                return "big"
        raise InvalidInput("its byte order is neither little nor big: the file is damaged")

    def _storage(self, storage: Storage) -> zipfile.ZipInfo:
        entry = self.entries.get(f"data/{storage.key}")
        if entry is None:
            raise InvalidInput(f"storage {storage.key} is missing: the file is damaged")
        return entry

    def _content(self, name: str, most: int) -> bytes:
        """An entry, compared with its checksum."""
        entry = self.entries[name]
        if entry.file_size > most:
            raise InvalidInput(f"{name} has {entry.file_size} bytes, {most} are allowed")
        with foreign(_KIND):
            data = self.archive.read(entry)
        if len(data) != entry.file_size:
            raise InvalidInput(f"{name} ends after {len(data)} of {entry.file_size} bytes")
        return data


@contextmanager
def _opened(path: Path) -> Iterator[_Archive]:
    with foreign(_KIND):
        with path.open("rb") as stream:
            start = stream.read(2 + len(_OLD))
        if start[2:] == _OLD:
            raise InvalidInput(
                "this is torch's format from before version 1.6, which cannot be read without "
                "running it. If you trust the file, write it again: "
                "torch.save(torch.load(path), path)"
            )
        if not start.startswith(_ZIP):
            raise InvalidInput(f"this is not {_KIND}, or it is damaged (it is no zip archive)")
        archive = zipfile.ZipFile(path)
    with archive:
        yield _Archive(archive, _checked(archive, path.stat().st_size))


def _checked(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The entries of an archive as torch writes them, without its one folder."""
    entries: dict[str, zipfile.ZipInfo] = {}
    folder = archive.infolist()[0].filename.split("/")[0] if archive.infolist() else ""
    if f"{folder}/{_PROGRAM}" in archive.namelist():
        raise InvalidInput("this is a TorchScript program, not tensors")
    for entry in archive.infolist():
        parts = entry.filename.split("/")
        name = "/".join(parts[1:])
        if parts[0] != folder or not name or {"", ".", ".."} & set(parts) or "\\" in name:
            raise InvalidInput(
                f"an entry is called {entry.filename!r:.60}: torch.save does not write that"
            )
        if name in entries:
            raise InvalidInput(f"the entry {name[:60]} stands twice: the file is forged")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise InvalidInput(
                f"the entry {name[:60]} is packed, which torch.save never does: the file is forged"
            )
        if entry.header_offset + entry.file_size > size:
            raise InvalidInput(f"the entry {name[:60]} is longer than the file: it is damaged")
        entries[name] = entry
    if "data.pkl" not in entries:
        raise InvalidInput(f"this is not {_KIND}: data.pkl is missing")
    return entries


def _handed_out(storage: Storage) -> np.dtype[Any]:
    return np.dtype(np.float32) if storage.kind == BFLOAT16 else np.dtype(storage.kind)

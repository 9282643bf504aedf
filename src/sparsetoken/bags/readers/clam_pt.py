"""Folders of CLAM with tensors: pt_files/<slide>.pt."""

from __future__ import annotations

from pathlib import Path

from sparsetoken.bags.readers.file_bags import ArrayFiles, files_below, source_of
from sparsetoken.bags.readers.torch_files import TorchFile
from sparsetoken.bags.source import BagSource

_TENSORS, _HDF5 = "pt_files", "h5_files"


class ClamTensors:
    """A folder with pt_files/<slide>.pt, without coordinates: those are in h5_files.

    Where h5_files stands beside it, tokens are read from there, and their coordinates.
    """

    layout = "folders of CLAM with pt_files"

    def can_read(self, path: Path) -> bool:
        return (path / _TENSORS).is_dir() and not (path / _HDF5).is_dir()

    def read(self, path: Path) -> tuple[BagSource, None]:
        return source_of(
            files_below(path / _TENSORS, (".pt",)), ArrayFiles(path, TorchFile())
        ), None

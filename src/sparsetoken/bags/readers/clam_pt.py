"""Folders of CLAM with tensors: pt_files/SLIDE.pt."""

from __future__ import annotations

from pathlib import Path

from sparsetoken.bags.readers.array_files import ArrayFiles
from sparsetoken.bags.readers.folders import HDF5, files_below, has_files, source_of
from sparsetoken.bags.readers.torch_files import TorchFile
from sparsetoken.bags.source import BagSource

_TENSORS, _HDF5 = "pt_files", "h5_files"


class ClamTensors:
    """A folder with pt_files/SLIDE.pt, without coordinates: those are in h5_files.

    Where files are in h5_files beside it, tokens are read from there, and their coordinates.
    """

    layout = "a folder of CLAM without h5_files (pt_files/SLIDE.pt)"

    def can_read(self, path: Path) -> bool:
        return has_files(path / _TENSORS, (".pt",)) and not has_files(path / _HDF5, HDF5)

    def read(self, path: Path) -> tuple[BagSource, None]:
        files = files_below(path / _TENSORS, (".pt",))
        return source_of(path, files, ArrayFiles(TorchFile())), None

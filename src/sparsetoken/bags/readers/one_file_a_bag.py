"""Plain folders with a file for each bag, all of one kind."""

from __future__ import annotations

from pathlib import Path

from sparsetoken.bags.readers.array_files import ArrayFiles
from sparsetoken.bags.readers.folders import (
    HDF5,
    STORE,
    FileFormat,
    count_files,
    files_below,
    has_files,
    source_of,
)
from sparsetoken.bags.readers.npy_files import NpyFile, NpzFile
from sparsetoken.bags.readers.parquet_files import ParquetFiles
from sparsetoken.bags.readers.safetensors_files import SafetensorsFile
from sparsetoken.bags.readers.slides import has_own_layout
from sparsetoken.bags.readers.torch_files import TorchFile
from sparsetoken.bags.readers.zarr_files import ZarrStore
from sparsetoken.bags.source import BagSource
from sparsetoken.support.errors import InvalidInput

_FORMATS: dict[str, FileFormat] = {
    ".pt": ArrayFiles(TorchFile()),
    ".npy": ArrayFiles(NpyFile()),
    ".npz": ArrayFiles(NpzFile()),
    ".safetensors": ArrayFiles(SafetensorsFile()),
    ".parquet": ParquetFiles(),
    STORE: ArrayFiles(ZarrStore()),
    ".zarr.zip": ArrayFiles(ZarrStore()),
}


class OneFileABag:
    """A folder of .pt, .npy, .npz, .safetensors, .parquet or .zarr files, a bag each.

    Bags are called as the files are, without their ending. Files that hide (.DS_Store, ._slide) and
    those of other endings (labels.csv, settings.json) are ignored. Beside HDF5 files nobody can
    know which are meant.
    """

    layout = f"a folder with one file a bag ({', '.join(_FORMATS)})"

    def can_read(self, path: Path) -> bool:
        return has_files(path, tuple(_FORMATS)) and not has_own_layout(path)

    def read(self, path: Path) -> tuple[BagSource, None]:
        counts = count_files(path)
        if len(counts) > 1:
            listed = ", ".join(f"{count} of {ending}" for ending, count in counts.items())
            more = "; layout hdf5 takes those of HDF5 alone" if set(counts) & set(HDF5) else ""
            raise InvalidInput(f"the files of a folder must be of one kind, got {listed}{more}")
        ending = next(iter(counts), None)
        if ending not in _FORMATS:
            raise InvalidInput(f"there are no files of {', '.join(_FORMATS)}")
        files = files_below(path, (ending,))
        return source_of(path, files, _FORMATS[ending], directories=ending == STORE), None

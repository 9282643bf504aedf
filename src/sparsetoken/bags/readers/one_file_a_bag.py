"""Plain folders with a file for each bag, all of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from sparsetoken.bags.readers.file_bags import (
    ArrayFiles,
    FileFormat,
    files_below,
    has_files,
    source_of,
)
from sparsetoken.bags.readers.npy_files import NpyFile, NpzFile
from sparsetoken.bags.readers.parquet_files import ParquetFiles
from sparsetoken.bags.readers.safetensors_files import SafetensorsFile
from sparsetoken.bags.readers.slideflow import Slideflow
from sparsetoken.bags.readers.torch_files import TorchFile
from sparsetoken.bags.readers.zarr_files import ZarrStore
from sparsetoken.bags.source import BagSource
from sparsetoken.support.errors import InvalidInput

_FORMATS: dict[str, Callable[[Path], FileFormat]] = {
    ".pt": lambda folder: ArrayFiles(folder, TorchFile()),
    ".npy": lambda folder: ArrayFiles(folder, NpyFile()),
    ".npz": lambda folder: ArrayFiles(folder, NpzFile()),
    ".safetensors": lambda folder: ArrayFiles(folder, SafetensorsFile()),
    ".parquet": ParquetFiles,
    ".zarr": lambda folder: ArrayFiles(folder, ZarrStore(), directories=True),
    ".zarr.zip": lambda folder: ArrayFiles(folder, ZarrStore()),
}
_OTHERS = (".h5", ".hdf5")  # hold bags too: which of two kinds is meant, nobody can know


class OneFileABag:
    """A folder of .pt, .npy, .npz, .safetensors, .parquet or .zarr files, a bag each.

    Bags are called as the files are, without their ending. Files that hide (.DS_Store, ._slide) and
    those of other endings (labels.csv, settings.json) are ignored.
    """

    layout = f"folders with one file a bag ({', '.join(_FORMATS)})"

    def can_read(self, path: Path) -> bool:
        return has_files(path, tuple(_FORMATS)) and not Slideflow().can_read(path)

    def read(self, path: Path) -> tuple[BagSource, None]:
        counts = Counter(
            {end: sum(1 for _ in files_below(path, (end,))) for end in (*_FORMATS, *_OTHERS)}
        )
        kinds = [end for end, count in counts.items() if count]
        if len(kinds) > 1:
            listed = ", ".join(f"{counts[end]} of {end}" for end in kinds)
            raise InvalidInput(f"the files of a folder must be of one kind, got {listed}")
        return source_of(files_below(path, tuple(kinds)), _FORMATS[kinds[0]](path)), None

"""Folders of slides as computational pathology keeps them: CLAM, TRIDENT, STAMP; or plain HDF5.

    CLAM      FOLDER/h5_files/SLIDE.h5                             features, coords
    TRIDENT   FOLDER/20x_256px_0px_overlap/features_NAME/SLIDE.h5  features, coords
    STAMP     FOLDER/SLIDE.h5, or FOLDER/SITE/SLIDE.h5             feats, coords
    plain     FOLDER/SLIDE.h5, or one file                         features or feats, coords if any

Labels are in tables beside them (`label_tables.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from sparsetoken.bags.readers.clam_pt import ClamTensors
from sparsetoken.bags.readers.folders import (
    DEPTH,
    HDF5,
    count_files,
    files_below,
    has_files,
    source_of,
)
from sparsetoken.bags.readers.hdf5 import Hdf5File, tokens_name_of
from sparsetoken.bags.readers.slideflow import Slideflow
from sparsetoken.bags.readers.torchmil import Torchmil
from sparsetoken.bags.source import BagSource
from sparsetoken.support.errors import InvalidInput

_GLANCE = 10  # files that are opened to recognise a layout: some may be damaged
_JOB_DEPTH = 2  # of TRIDENT's features below the folder of a job


class Clam:
    """CLAM: `h5_files` has a file for each slide."""

    layout = "a folder of CLAM (h5_files/SLIDE.h5 with features)"

    def can_read(self, path: Path) -> bool:
        return _has_slides(path / "h5_files")

    def read(self, path: Path) -> tuple[BagSource, None]:
        return source_of(path, _slides(path / "h5_files", depth=1), Hdf5File()), None


class Trident:
    """TRIDENT: a folder `features_…` for each encoder, below that of a job."""

    layout = "a folder of TRIDENT (features_ENCODER/SLIDE.h5 with features)"

    def can_read(self, path: Path) -> bool:
        return path.is_dir() and any(_encoders(path))

    def read(self, path: Path) -> tuple[BagSource, None]:
        folders = sorted(_encoders(path))
        if not folders:
            raise InvalidInput("there is no folder features_ENCODER with HDF5 files")
        if len(folders) > 1:
            names = ", ".join(folder.relative_to(path).as_posix() for folder in folders)
            raise InvalidInput(f"there are features of several kinds ({names}): give one of these")
        return source_of(path, _slides(folders[0]), Hdf5File()), None


class Stamp:
    """STAMP: a file for each slide, which says `feats`."""

    layout = "a folder of STAMP (SLIDE.h5 with feats)"

    def can_read(self, path: Path) -> bool:
        return _plain_folder(path) and _says_feats(path)

    def read(self, path: Path) -> tuple[BagSource, None]:
        return source_of(path, _slides(path), Hdf5File()), None


class Hdf5:
    """Any other folder with a file for each bag, or one such file."""

    layout = "HDF5 files (NAME.h5 with features or feats), one or a folder of them"

    def can_read(self, path: Path) -> bool:
        if path.is_file():
            place = path.resolve()
            known = path.suffix.lower() in HDF5
            return known and tokens_name_of(place.parent, place) is not None
        return _plain_folder(path) and not _says_feats(path)

    def read(self, path: Path) -> tuple[BagSource, None]:
        if path.is_file():
            place = path.resolve()
            return source_of(place.parent, [(path.stem, place)], Hdf5File()), None
        return source_of(path, _slides(path), Hdf5File()), None


def has_own_layout(folder: Path) -> bool:
    """Whether one of the layouts that folders and files with names of their own tell is here."""
    readers = (Clam(), ClamTensors(), Trident(), Slideflow(), Torchmil())
    return any(reader.can_read(folder) for reader in readers)


def _slides(folder: Path, depth: int = DEPTH) -> Iterator[tuple[str, Path]]:
    return files_below(folder, HDF5, depth)


def _has_slides(folder: Path) -> bool:
    return has_files(folder, HDF5, DEPTH)


def _encoders(folder: Path) -> Iterator[Path]:
    """Folders of features of one encoder each."""
    for depth in range(_JOB_DEPTH):
        yield from filter(_has_slides, folder.glob("*/" * depth + "features_*"))


def _plain_folder(path: Path) -> bool:
    """Slides alone, none of them in a folder of CLAM or TRIDENT: that is to be given itself."""
    if not _has_slides(path) or has_own_layout(path) or set(count_files(path)) - set(HDF5):
        return False
    folders = {folder for name, _ in _slides(path) for folder in name.split("/")[:-1]}
    return not any(name == "h5_files" or name.startswith("features_") for name in folders)


def _says_feats(folder: Path) -> bool:
    """What the first file that can be read says of its tokens."""
    first = islice(_slides(folder), _GLANCE)
    return next(filter(None, (tokens_name_of(folder, path) for _, path in first)), "") == "feats"

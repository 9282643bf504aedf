"""Folders of torchmil: features/, labels/, coords/, inst_labels/, each with <bag>.npy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.file_bags import (
    ArrayFiles,
    files_below,
    has_files,
    inside,
    read_places,
    source_of,
)
from sparsetoken.bags.readers.npy_files import NpyFile
from sparsetoken.bags.source import BagSource
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

_FEATURES, _LABELS, _COORDINATES = "features", "labels", "coords"
_OTHERS = ("labels", "coords", "inst_labels", "patch_labels")  # one of them tells the layout
_SUFFIX = ".npy"


@dataclass(frozen=True)
class TorchmilFiles:
    """An array of features in its folder, and one of coordinates in theirs."""

    folder: Path

    def shape(self, path: Path) -> tuple[int, int]:
        """Tokens and dimensions, from the header alone."""
        return self._arrays().shape(path)

    def tokens(self, key: Any) -> NDArray[Any]:
        return self._arrays().tokens(key)

    def coordinates(self, key: Any) -> FloatArray | None:
        """None also where tokens are not in a plane, as slices of a scan."""
        path = self.folder / _COORDINATES / key.name
        if not path.exists():
            return None
        place = inside(self.folder, path)
        shape = NpyFile().headers(place)[""].shape
        if len(shape) != 2 or shape[1] != 2:
            return None
        return read_places(NpyFile(), place, "")

    def _arrays(self) -> ArrayFiles:
        return ArrayFiles(self.folder, NpyFile())


class Torchmil:
    """A folder with features/<bag>.npy (tokens, dimensions), or features/<name>/<bag>.npy.

    labels/<bag>.npy has one label, coords/<bag>.npy (tokens, 2) where each token is; labels of
    tokens are not read.
    """

    layout = "folders of torchmil with features/ and labels/ of npy files"

    def can_read(self, path: Path) -> bool:
        return any((path / name).is_dir() for name in _OTHERS) and bool(_feature_folders(path))

    def read(self, path: Path) -> tuple[BagSource, NDArray[Any] | None]:
        folders = _feature_folders(path)
        if len(folders) > 1:
            raise InvalidInput(
                "features must be of one kind, got "
                f"{', '.join(folder.name for folder in folders)[:200]}: leave one of them, or read "
                "that folder without labels"
            )
        source = source_of(files_below(folders[0], (_SUFFIX,)), TorchmilFiles(path))
        return source, _labels(path, source.keys)


def _feature_folders(path: Path) -> list[Path]:
    """Folders of npy files: features itself, or those in it."""
    features = path / _FEATURES
    if has_files(features, (_SUFFIX,)):
        return [features]
    try:
        return [folder for folder in sorted(features.iterdir()) if has_files(folder, (_SUFFIX,))]
    except OSError:
        return []


def _labels(folder: Path, keys: tuple[Path, ...]) -> NDArray[Any] | None:
    """Of the bags, in order; None if there is no folder of them."""
    if not (folder / _LABELS).is_dir():
        return None
    paths = [folder / _LABELS / key.name for key in keys]
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        raise InvalidInput(
            f"every bag must have a label, {_LABELS}/{missing[0]} is missing"
            + (f" (and {len(missing) - 1} more)" if missing[1:] else "")
        )
    return np.array([_label(folder, path) for path in paths])


def _label(folder: Path, path: Path) -> Any:
    try:
        place = inside(folder, path)
        header = NpyFile().headers(place)[""]
        if header.dtype.kind not in "biufU" or header.size != header.dtype.itemsize:
            raise InvalidInput(
                f"a label must be one number or word, got {header.dtype} of shape {header.shape}"
            )
        return np.asarray(NpyFile().array(place, "")).item()
    except InvalidInput as error:
        raise InvalidInput(f"{_LABELS}/{path.name}: {error}") from error

"""Folders of torchmil: features/, labels/, coords/, inst_labels/, each with BAG.npy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.labels import is_missing
from sparsetoken.bags.readers.array_files import ArrayFiles, read_places
from sparsetoken.bags.readers.folders import files_below, has_files, inside, source_of
from sparsetoken.bags.readers.npy_files import NpyFile
from sparsetoken.bags.source import BagSource, Problem
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
        return ArrayFiles(NpyFile()).shape(path)

    def tokens(self, key: Any) -> NDArray[Any]:
        return ArrayFiles(NpyFile()).tokens(key)

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


class Torchmil:
    """A folder with features/BAG.npy (tokens, dimensions), or features/NAME/BAG.npy.

    labels/BAG.npy has one label, coords/BAG.npy (tokens, 2) where each token is; labels of tokens
    are not read. Where some bags have a label, those without one are `problems`.
    """

    layout = "a folder of torchmil (features/BAG.npy, labels/BAG.npy)"

    def can_read(self, path: Path) -> bool:
        return any((path / name).is_dir() for name in _OTHERS) and bool(_feature_folders(path))

    def read(self, path: Path) -> tuple[BagSource, NDArray[Any] | None]:
        folders = _feature_folders(path)
        if not folders:
            raise InvalidInput(f"there are no npy files in {_FEATURES}, or in a folder of it")
        if len(folders) > 1:
            raise InvalidInput(
                "features must be of one kind, got "
                f"{', '.join(folder.name for folder in folders)[:200]}: leave one of them, or read "
                "that folder without labels"
            )
        files = files_below(folders[0], (_SUFFIX,))
        return _labelled(path, source_of(path, files, TorchmilFiles(path.resolve())))


def _feature_folders(path: Path) -> list[Path]:
    """Folders of npy files: features itself, or those in it."""
    features = path / _FEATURES
    if not features.is_dir():
        return []
    folders = (folder for folder in sorted(features.iterdir()) if not folder.name.startswith("."))
    return [
        folder
        for folder in ([features] if has_files(features, (_SUFFIX,)) else folders)
        if has_files(folder, (_SUFFIX,))
    ]


def _labelled(folder: Path, source: BagSource) -> tuple[BagSource, NDArray[Any] | None]:
    """The bags that have a label, and these; all, and None, if there are no labels."""
    if not has_files(folder / _LABELS, (_SUFFIX,)):
        return source, None
    kept, labels, problems = [], [], []
    for index, (name, key) in enumerate(zip(source.names, source.keys, strict=True)):
        path = folder / _LABELS / key.name
        try:
            if not path.exists():
                raise InvalidInput("it is missing")
            labels.append(_label(inside(folder, path)))
            kept.append(index)
        except (InvalidInput, OSError) as error:
            problems.append(Problem(name, "unlabelled", f"{_LABELS}/{path.name}: {error}"))
    there = {*source.names, *(problem.bag for problem in source.problems)}
    for name, path in files_below(folder / _LABELS, (_SUFFIX,)):
        if name not in there:
            problems.append(Problem(name, "missing", f"{_LABELS}/{path.name} has no features"))
    problems = sorted((*source.problems, *problems))
    return replace(source[kept], problems=tuple(problems)), np.array(labels)


def _label(path: Path) -> Any:
    header = NpyFile().headers(path)[""]
    if header.dtype.kind not in "biufU" or header.size != header.dtype.itemsize:
        raise InvalidInput(
            f"a label must be one number or word, got {header.dtype} of shape {header.shape}"
        )
    label = np.asarray(NpyFile().array(path, "")).item()
    if is_missing(label):
        raise InvalidInput(f"a label must be one number or word, got {label!r}")
    return label

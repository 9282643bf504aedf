"""Folders of bags that Slideflow writes: SLIDE.pt, and SLIDE.index.npz with its tiles."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sparsetoken.bags.readers.array_files import ArrayFiles, read_places
from sparsetoken.bags.readers.folders import (
    count_files,
    files_below,
    has_files,
    inside,
    source_of,
)
from sparsetoken.bags.readers.npy_files import NpyFile, NpzFile
from sparsetoken.bags.readers.torch_files import TorchFile
from sparsetoken.bags.source import BagSource
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

_INDEX = ".index.npz"
_PLAIN_INDEX = ".index.npy"  # where Slideflow was told not to pack it
_ARRAY = "arr_0"  # the name that NumPy gives to an array without one


@dataclass(frozen=True)
class SlideflowFiles:
    """A tensor of a slide's tiles, and where they are: the centre of each, in pixels."""

    centres = True

    def shape(self, path: Path) -> tuple[int, int]:
        """Tokens and dimensions, from the header alone."""
        return ArrayFiles(TorchFile()).shape(path)

    def tokens(self, key: Any) -> NDArray[Any]:
        return ArrayFiles(TorchFile()).tokens(key)

    def coordinates(self, key: Any) -> FloatArray | None:
        packed, plain = (key.with_name(key.stem + end) for end in (_INDEX, _PLAIN_INDEX))
        if packed.exists():
            place, file = inside(key.parent, packed), NpzFile()
            if _ARRAY not in file.headers(place):
                raise InvalidInput(f"{packed.name} must have the array {_ARRAY}")
            return read_places(file, place, _ARRAY)
        if plain.exists():
            return read_places(NpyFile(), inside(key.parent, plain), "")
        return None


class Slideflow:
    """A folder of SLIDE.pt, and SLIDE.index.npz (or .npy) of which one at least is there."""

    layout = "a folder of Slideflow (SLIDE.pt and SLIDE.index.npz)"

    def can_read(self, path: Path) -> bool:
        if not (has_files(path, (_INDEX, _PLAIN_INDEX)) and has_files(path, (".pt",))):
            return False
        return not set(count_files(path)) - {".pt", ".npz", ".npy"}

    def read(self, path: Path) -> tuple[BagSource, None]:
        return source_of(path, files_below(path, (".pt",)), SlideflowFiles()), None

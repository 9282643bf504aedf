"""Folders with a file for each bag: what the readers of such layouts share.

A reader lists its files by the names of their bags; `source_of` asks the format for the header of
each. A file that is damaged, or does not belong to the others, becomes a `Problem` of the source:
one bad file among thousands is no reason to say nothing of the rest. Files that hide (a name that
begins with a point: .DS_Store, ._slide) are left alone. Links may lead to other files of the
folder, not out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from sparsetoken.bags.source import BagFormat, BagSource, Problem
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.memory import machine_memory

HDF5 = (".h5", ".hdf5")
STORE = ".zarr"  # a directory, as one file of others
ENDINGS = (*HDF5, ".pt", ".npy", ".npz", ".safetensors", ".parquet", STORE, ".zarr.zip")
DEPTH = 4  # folders inside one another in which HDF5 is looked for: sites, patients, dates
_MOST_MEMORY = 0.25  # part of the memory that one bag may take: it is copied once or twice
_NUMBER = 8  # bytes of a number to compute with, whatever it is stored in


class FileFormat(BagFormat, Protocol):
    """How one file of one bag is read; its key is its path."""

    def shape(self, path: Path) -> tuple[int, int]:
        """Tokens and dimension, from the header alone; `InvalidInput` if that cannot be."""
        ...


def source_of(
    folder: Path, files: Iterable[tuple[str, Path]], format: FileFormat, directories: bool = False
) -> BagSource:
    """Bags of which each is a file below a folder, from names and paths; only headers are read.

    A "file" may be one of `directories`, as a store of zarr. Keys are paths from the root of the
    disk that end in the names of files: beside a link lies what belongs to the bag of its name.
    A name that comes twice, a file that is a link out of the folder, cannot be read, has no tokens,
    does not fit into memory or has another dimension than most is left to the `problems`.
    """
    paths: dict[str, list[Path]] = {}
    for name, path in files:
        paths.setdefault(name, []).append(path)
    shapes: dict[str, tuple[int, int]] = {}
    places: dict[str, Path] = {}
    problems = []
    for name in sorted(paths):
        if len(paths[name]) > 1:
            several = ", ".join(path.name for path in paths[name])
            problems.append(Problem(name, "doubled", f"several files have this name: {several}"))
            continue
        try:
            places[name] = paths[name][0].parent.resolve() / paths[name][0].name
            inside(folder, places[name], directories)
            shapes[name] = _checked(format.shape(places[name]))
        except (InvalidInput, OSError) as error:
            problems.append(Problem(name, "unreadable", str(error)))
    (dim, most), *_ = Counter(dim for _, dim in shapes.values()).most_common(1) or [(0, 0)]
    for name, (_, own) in list(shapes.items()):
        if own != dim:
            words = f"tokens have {own} dimensions, those of {most} other bags have {dim}"
            problems.append(Problem(name, "unreadable", words))
            del shapes[name]
    lengths = np.array([length for length, _ in shapes.values()], dtype=np.intp)
    keys = tuple(places[name] for name in shapes)
    return BagSource(tuple(shapes), lengths, dim, keys, format, tuple(sorted(problems)))


def files_below(
    folder: Path, suffixes: tuple[str, ...], depth: int = 1
) -> Iterator[tuple[str, Path]]:
    """Names and paths of the files with these endings, in order; so many folders deep.

    A name is the path inside the folder without the ending: `slide`, or `site/slide`. Folders that
    are links, and stores of zarr, are not entered; what is hidden is left alone.
    """
    folders = [(folder, 1)]
    while folders:
        place, level = folders.pop()
        try:
            paths = sorted(place.iterdir())
        except PermissionError:
            raise InvalidInput(f"the folder {place.name} may not be read") from None
        except (FileNotFoundError, NotADirectoryError):
            raise InvalidInput(f"there is no folder {place.name}") from None
        for path in paths:
            if path.name.startswith("."):
                continue
            small = path.name.lower()
            ending = max(filter(small.endswith, suffixes), key=len, default=None)
            if ending is not None:
                yield path.relative_to(folder).as_posix()[: -len(ending)], path
            elif small.endswith(STORE):
                continue  # all that is in it is numbers of one bag
            elif level < depth and path.is_dir() and not path.is_symlink():
                folders.append((path, level + 1))


def has_files(folder: Path, suffixes: tuple[str, ...], depth: int = 1) -> bool:
    """Whether this is a folder with a file of one of these endings."""
    return folder.is_dir() and any(True for _ in files_below(folder, suffixes, depth))


def count_files(folder: Path) -> dict[str, int]:
    """How many files of each kind of bags there are: in the folder, those of HDF5 below it too."""
    depths = {ending: DEPTH if ending in HDF5 else 1 for ending in ENDINGS}
    counts = {end: sum(1 for _ in files_below(folder, (end,), depths[end])) for end in ENDINGS}
    return {ending: count for ending, count in counts.items() if count}


def inside(folder: Path, path: Path, directory: bool = False) -> Path:
    """A regular file of the folder (or a directory); a link that leads out of it is refused."""
    place = path.resolve()
    if not place.is_relative_to(folder.resolve()):
        raise InvalidInput("the file is a link that leads out of the folder")
    if not (place.is_file() or (directory and place.is_dir())):
        raise InvalidInput("this is not a regular file")
    return place


def bag_room() -> float:
    """Bytes that one bag may take."""
    return _MOST_MEMORY * machine_memory()


def _checked(shape: tuple[int, int]) -> tuple[int, int]:
    """The shape of a bag that has tokens and may be read at once."""
    length, dim = shape
    if length < 1 or dim < 1:
        raise InvalidInput(f"there are no tokens: they have shape {shape}")
    needed, room = length * dim * _NUMBER, bag_room()
    if needed > room:
        raise InvalidInput(
            f"{length} tokens in {dim} dimensions take {needed / 2**30:.3g} GiB, a bag may take "
            f"{room / 2**30:.3g} GiB (a quarter of the memory)"
        )
    return length, dim

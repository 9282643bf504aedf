"""One file a bag: which array of a file holds the tokens, and a source made of many files.

Files that hide (a name that begins with a point: .DS_Store, ._slide) are ignored. Links may lead to
other files of the folder, not out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.untrusted import ArrayHeader, check_memory, free_memory
from sparsetoken.bags.source import BagFormat, BagSource
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

# By these names the pipelines of the field write them.
_TOKENS = ("features", "feats", "embeddings", "bag_feats", "tokens", "X", "x")
_COORDINATES = ("coords", "coordinates", "locations", "positions")
_SHOWN = 8  # names that a sentence lists


class ArrayFile(Protocol):
    """A kind of file that holds arrays by name; a file of one array has it under ""."""

    def headers(self, path: Path) -> Mapping[str, ArrayHeader]:
        """What it holds; no numbers are read."""
        ...

    def array(self, path: Path, name: str) -> NDArray[Any]:
        """One of its arrays."""
        ...


@dataclass(frozen=True)
class ArrayFiles:
    """Files of one kind in a folder: tokens, and coordinates where a file has them.

    Tokens are the only array; or the one called features, feats, embeddings, bag_feats, tokens, X
    or x; or the only one of two dimensions that does not hold coordinates. Those are called coords,
    coordinates, locations or positions.
    """

    folder: Path
    file: ArrayFile
    directories: bool = False  # whether a "file" may be one

    def shape(self, path: Path) -> tuple[int, int]:
        """Tokens and dimensions, from the header alone."""
        headers = self.file.headers(self._inside(path))
        return _token_shape(headers[_tokens_name(headers)])

    def tokens(self, key: Any) -> NDArray[Any]:
        place = self._inside(key)
        headers = self.file.headers(place)
        name = _tokens_name(headers)
        header = headers[name]
        _token_shape(header)
        check_memory("the bag", header.shape, header.dtype.itemsize, free_memory())
        return self.file.array(place, name)

    def coordinates(self, key: Any) -> FloatArray | None:
        place = self._inside(key)
        headers = self.file.headers(place)
        names = [name for name in _COORDINATES if name in headers]
        if not names:
            return None
        return read_places(self.file, place, names[0])

    def _inside(self, path: Path) -> Path:
        return inside(self.folder, path, self.directories)


def read_places(file: ArrayFile, path: Path, name: str) -> FloatArray:
    """The coordinates (L, 2) that a file has by that name."""
    header = file.headers(path)[name]
    if header.dtype.kind not in "fiu" or len(header.shape) != 2 or header.shape[1] != 2:
        raise InvalidInput(
            f"{name or 'coordinates'} must hold x and y of each token (tokens, 2), got "
            f"{header.dtype} of shape {tuple(header.shape)}"
        )
    check_memory(name, header.shape, header.dtype.itemsize, free_memory())
    return np.array(file.array(path, name), dtype=np.float64)


def _tokens_name(headers: Mapping[str, ArrayHeader]) -> str:
    if len(headers) == 1:
        return next(iter(headers))
    names = [name for name in _TOKENS if name in headers]
    if not names:
        names = [
            name
            for name, header in headers.items()
            if len(header.shape) == 2 and name not in _COORDINATES
        ]
        if len(names) != 1:
            listed = ", ".join(f"{name} {headers[name].shape}" for name in list(headers)[:_SHOWN])
            raise InvalidInput(
                f"tokens must be called one of {', '.join(_TOKENS)}, or be the only array of two "
                f"dimensions; the file has {listed or 'no array'}"
                + (" ..." if len(headers) > _SHOWN else "")
            )
    return names[0]


def _token_shape(header: ArrayHeader) -> tuple[int, int]:
    if header.dtype.kind not in "fiub":
        raise InvalidInput(f"tokens must be real numbers, got dtype {header.dtype}")
    if len(header.shape) != 2 or 0 in header.shape:
        raise InvalidInput(
            f"tokens must have shape (tokens, dimensions), none 0, got {tuple(header.shape)}"
        )
    return header.shape[0], header.shape[1]


class FileFormat(BagFormat, Protocol):
    """How one file of one bag is read; its key is its path."""

    def shape(self, path: Path) -> tuple[int, int]:
        """Tokens and dimensions, from the header alone."""
        ...


def source_of(files: Iterable[tuple[str, Path]], format: FileFormat) -> BagSource:
    """Bags of which each is a file, by their names; nothing but headers is read."""
    paths: dict[str, Path] = {}
    shapes, problems = {}, []
    for name, path in files:
        if name in paths:
            problems.append(f"{path.name}: another file has the name of this bag")
            continue
        paths[name] = path
        try:
            shapes[name] = format.shape(path)
        except (InvalidInput, OSError) as error:
            problems.append(f"{path.name}: {error}")
    if problems:
        more = f" (and {len(problems) - 1} more that cannot be read)" if problems[1:] else ""
        raise InvalidInput(problems[0] + more)
    if not shapes:
        raise InvalidInput("the folder has no bags")
    names = sorted(shapes)
    dims = Counter(dim for _, dim in shapes.values())
    if len(dims) > 1:
        (most, count), *_ = dims.most_common(1)
        odd = next(name for name in names if shapes[name][1] != most)
        raise InvalidInput(
            f"all bags must have the same dimension, {count} have {most}, {paths[odd].name} has "
            f"{shapes[odd][1]}"
        )
    lengths = np.array([shapes[name][0] for name in names], dtype=np.intp)
    return BagSource(tuple(names), lengths, next(iter(dims)), tuple(map(paths.get, names)), format)


def files_below(folder: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Names and paths of what has one of these endings and does not hide, in order."""
    for path in sorted(folder.iterdir()):
        ending = next((end for end in suffixes if path.name.lower().endswith(end)), None)
        if ending and not path.name.startswith("."):
            yield path.name[: -len(ending)], path


def has_files(folder: Path, suffixes: tuple[str, ...]) -> bool:
    """Whether this is a folder with a file of one of these endings, as far as one may look."""
    try:
        return folder.is_dir() and any(files_below(folder, suffixes))
    except OSError:
        return False


def inside(folder: Path, path: Path, directory: bool = False) -> Path:
    """A regular file of the folder (or a directory); a link that leads out of it is refused."""
    place = path.resolve()
    if not place.is_relative_to(folder.resolve()):
        raise InvalidInput("the file is a link that leads out of the folder")
    if not (place.is_file() or (directory and place.is_dir())):
        raise InvalidInput("this is not a regular file")
    return place

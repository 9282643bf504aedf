"""A bag in a file of arrays, of whatever kind: which holds the tokens, which their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.untrusted import ArrayHeader, check_memory, free_memory
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
    """Files of one kind: tokens, and coordinates where a file has them.

    Tokens are the only array; or the one called features, feats, embeddings, bag_feats, tokens, X
    or x; or the only one of two dimensions that does not hold coordinates. Those are called coords,
    coordinates, locations or positions.
    """

    file: ArrayFile

    def shape(self, path: Path) -> tuple[int, int]:
        """Tokens and dimensions, from the header alone."""
        headers = self.file.headers(path)
        return _token_shape(headers[_tokens_name(headers)])

    def tokens(self, key: Any) -> NDArray[Any]:
        headers = self.file.headers(key)
        name = _tokens_name(headers)
        header = headers[name]
        _token_shape(header)
        check_memory("the bag", header.shape, header.dtype.itemsize, free_memory())
        return self.file.array(key, name)

    def coordinates(self, key: Any) -> FloatArray | None:
        headers = self.file.headers(key)
        names = [name for name in _COORDINATES if name in headers]
        if not names:
            return None
        return read_places(self.file, key, names[0])


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

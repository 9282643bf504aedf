"""Arrays in safetensors files: a length of 8 bytes, names and places as JSON, then the numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.readers.untrusted import ArrayHeader, foreign, from_bfloat16
from sparsetoken.support.errors import InvalidInput

_KIND = "a safetensors file"
_LENGTH = 8  # bytes that say how long the JSON is
_MOST_WORDS = 2**20  # bytes of JSON: thousands of tensors, where a bag needs a few
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "u1",
}  # fmt: skip
_BFLOAT16 = "BF16"


class _Place(NamedTuple):
    header: ArrayHeader  # as the numbers are handed out
    start: int  # in the file
    stored: np.dtype[Any]


class SafetensorsFile:
    """Tensors by name; bfloat16 becomes float32."""

    def headers(self, path: Path) -> Mapping[str, ArrayHeader]:
        return {name: place.header for name, place in _places(path).items()}

    def array(self, path: Path, name: str) -> NDArray[Any]:
        header, start, stored = _places(path)[name]
        if not header.size:
            return np.zeros(header.shape, header.dtype)
        with foreign(_KIND):
            numbers = np.memmap(path, stored, "r", start, header.shape)
        return numbers if stored == header.dtype else from_bfloat16(numbers)


def _places(path: Path) -> dict[str, _Place]:
    """Of all tensors, which lie side by side and fill the file."""
    with foreign(_KIND), path.open("rb") as stream:
        size = path.stat().st_size
        words = int.from_bytes(stream.read(_LENGTH), "little")
        if size < _LENGTH or words > size - _LENGTH:
            raise InvalidInput(
                f"this is not {_KIND}, or it is damaged: {words} bytes of header are announced, "
                f"{max(0, size - _LENGTH)} are there"
            )
        if words > _MOST_WORDS:
            raise InvalidInput(f"a header of {words} bytes is too long, {_MOST_WORDS} are allowed")
        content = json.loads(stream.read(words), object_pairs_hook=_once)
        if not isinstance(content, dict):
            raise InvalidInput(f"this is not {_KIND}: its header names no tensors")
        content.pop("__metadata__", None)
        places = {name: _place(name, about, _LENGTH + words) for name, about in content.items()}
    end = _LENGTH + words
    spans = sorted(
        (start, start + ArrayHeader(header.shape, stored).size, name)
        for name, (header, start, stored) in places.items()
    )
    for start, stop, name in spans:
        if start != end:
            raise InvalidInput(
                f"{name} begins at byte {start}, where {end} is expected: the file is damaged or "
                "forged"
            )
        end = stop
    if end != size:
        raise InvalidInput(
            f"the tensors end at byte {end}, the file at {size}: it is damaged or forged"
        )
    return places


def _place(name: str, about: Any, base: int) -> _Place:
    kind, shape, (start, stop) = about["dtype"], tuple(about["shape"]), about["data_offsets"]
    if any(not isinstance(number, int) or number < 0 for number in (*shape, start, stop)):
        raise InvalidInput(f"{name} has no shape and place of whole numbers: the file is forged")
    if kind not in _DTYPES and kind != _BFLOAT16:
        raise InvalidInput(
            f"{name} has dtype {kind!r:.40}, one of {', '.join([*_DTYPES, _BFLOAT16])} is needed"
        )
    stored = np.dtype(_DTYPES.get(kind, "<u2"))
    dtype = np.dtype(np.float32) if kind == _BFLOAT16 else stored
    size = ArrayHeader(shape, stored).size
    if stop - start != size:
        raise InvalidInput(
            f"{name} claims shape {shape} of {kind}, {size} bytes, but {stop - start} are there: "
            "the file is damaged or forged"
        )
    return _Place(ArrayHeader(shape, dtype), base + start, stored)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise InvalidInput("a name stands twice in the header: the file is forged")
    return content

r"""Bags of one length side by side (k, L, d): the shape in which sums over tokens are products.

Parts and stacks depend on the lengths of bags and on the dimension alone, not on where the bags
are: whoever adds up parts in their order gets the same digits in memory, from files, in threads,
in processes and on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.support.arrays import Array, FloatArray, IntArray
from sparsetoken.support.devices import array_on, to_numpy

_PART = 1 << 22  # numbers of a part, unless one bag has more: 8 to 32 megabytes
_PIECE = 1 << 18  # numbers worked on at once: two megabytes, which stay in a cache
_DEVICE_PIECE = 1 << 25  # on a device, whose memory is all alike: enough to keep it busy


def parts(lengths: IntArray, dim: int) -> Iterator[slice]:
    """Bags that are worked on together, in order; a part has one bag at least.

    >>> list(parts(np.array([1, 1, 3_000_000, 1]), 2))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    ends = np.cumsum(lengths) * dim
    first = done = 0
    while first < len(lengths):
        last = max(first + 1, int(np.searchsorted(ends, done + _PART, "right")))
        yield slice(first, last)
        first, done = last, ends[last - 1]


@dataclass(frozen=True, eq=False)
class Stack:
    """Bags of one length, and which of a part they are."""

    index: IntArray  # (k,)
    tokens: NDArray[Any]  # (k, L, d), as they are stored
    device: str | None  # where the work is done: NumPy, or torch by its name

    @property
    def length(self) -> int:
        """Tokens of each bag."""
        return int(self.tokens.shape[1])

    def pieces(self) -> Iterator[Array]:
        """All tokens in double precision (k, l, d): at once, or one long bag by its parts."""
        count, length, dim = self.tokens.shape
        step = max(1, _most(self.device) // (count * dim))
        if step >= length:
            yield self._whole
            return
        for start in range(0, length, step):
            yield array_on(self.device, self.tokens[:, start : start + step])

    @cached_property
    def _whole(self) -> Array:
        """All tokens: made, and moved to the device, once."""
        return array_on(self.device, self.tokens)

    def on_device(self, values: FloatArray) -> Array:
        """Other numbers, where the tokens are."""
        return array_on(self.device, values)

    def numbers(self, values: Array) -> FloatArray:
        """Results, as NumPy has them."""
        return to_numpy(values)


def _most(device: str | None) -> int:
    """Numbers worked on at once."""
    return _PIECE if device is None else _DEVICE_PIECE


def stacks(
    tokens: NDArray[Any], offsets: IntArray, chosen: IntArray, device: str | None
) -> Iterator[Stack]:
    """Chosen bags of a part: tokens (N, d), bag i being tokens[offsets[i]:offsets[i + 1]]."""
    lengths, dim = np.diff(offsets)[chosen], tokens.shape[1]
    for length in np.unique(lengths):
        alike, step = chosen[lengths == length], max(1, _most(device) // (int(length) * dim))
        for start in range(0, len(alike), step):
            index = alike[start : start + step]
            if index[-1] - index[0] == len(index) - 1:  # next to each other: nothing is copied
                rows = tokens[offsets[index[0]] : offsets[index[-1] + 1]]
            else:
                rows = tokens[(offsets[index][:, None] + np.arange(length)).ravel()]
            yield Stack(index, rows.reshape(len(index), int(length), dim), device)

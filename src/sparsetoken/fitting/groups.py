"""Rows in groups of any size, side by side in one array, never padded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.support.arrays import FloatArray, IntArray

_BLOCK = 1 << 20  # numbers worked on at once: a few megabytes, which stay in a cache


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows (N, d) and offsets (n + 1,): group i is rows[offsets[i]:offsets[i + 1]], none empty.

    >>> groups = Groups(np.eye(3), np.array([0, 2, 3]))
    >>> groups.total(np.array([1.0, 2.0, 3.0])).tolist(), groups.softmax(np.zeros(3)).tolist()
    ([3.0, 3.0], [0.5, 0.5, 1.0])
    """

    rows: NDArray[Any]
    offsets: IntArray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def dim(self) -> int:
        return int(self.rows.shape[1])

    @property
    def lengths(self) -> IntArray:
        """Rows of each group."""
        return np.diff(self.offsets)

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Rows a few megabytes at a time, and the groups they belong to, some of them in part."""
        most = max(1, _BLOCK // self.dim)
        count = int(self.offsets[-1])
        for start in range(0, count, most):
            stop = min(start + most, count)
            first = int(np.searchsorted(self.offsets, start, "right")) - 1
            last = int(np.searchsorted(self.offsets, stop, "left"))
            yield slice(first, last), slice(start, stop)

    def project(self, direction: FloatArray) -> FloatArray:
        """⟨row, direction⟩ (N,), or (N, k) for directions (d, k)."""
        with np.errstate(over="ignore"):
            along = direction.astype(self.rows.dtype)
        if np.isfinite(along).all():
            return np.asarray(self.rows @ along, dtype=float)
        blocks = [self.rows[rows].astype(float) @ direction for _, rows in self.blocks()]
        return np.concatenate(blocks)  # single precision has no such numbers

    def sums(self, values: FloatArray) -> FloatArray:
        """Σ value·row over all rows: (k, d) for values (k, N)."""
        total = np.zeros((len(values), self.dim))
        for _, part in self.blocks():
            total += values[:, part] @ self.rows[part]
        return total

    def total(self, values: FloatArray) -> FloatArray:
        """Sum over each group of values (N,)."""
        return np.add.reduceat(values, self.offsets[:-1])

    def spread(self, values: FloatArray) -> FloatArray:
        """One value for each group (n,) to all its rows (N,)."""
        return np.repeat(values, self.lengths)

    def softmax(self, logits: FloatArray) -> FloatArray:
        """Weights (N,) from logits (N,), summing to one in each group."""
        highest = np.maximum.reduceat(logits, self.offsets[:-1])
        raw = np.exp(logits - self.spread(highest))
        return raw / self.spread(self.total(raw))

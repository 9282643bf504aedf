"""Bags that share tokens: words, kinds of cells, images drawn many times. Each is kept once.

`RepeatedBags` gives the numbers that `Bags` of the same tokens would give, in the time and memory
of the different tokens. `counted` has each of them once: there are no more of them to learn from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags
from sparsetoken.support.arrays import FloatArray, IntArray

_BLOCK = 1 << 20  # numbers of different tokens in double precision at once
_ODD = np.uint64(0x9E3779B97F4A7C15)  # its powers modulo 2⁶⁴ are far from each other
_OFTEN = 2  # times that tokens occur, on average, from which on they are kept once


@dataclass(frozen=True, eq=False)
class RepeatedBags(Bags):
    """Different tokens (D, d), and which of them each token (N,) of the bags is.

    >>> bags = RepeatedBags(np.eye(2), np.array([0, 2, 3]), np.array([0, 1, 1]))
    >>> bags.tokens.tolist(), bags.mean().tolist()
    ([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [[0.5, 0.5], [0.0, 1.0]])
    """

    index: IntArray

    @property
    def tokens(self) -> NDArray[Any]:
        """Of all bags, (N, d): a copy."""
        return self.rows[self.index]

    @property
    def _once(self) -> Bags:
        """Each of the different tokens in a bag of its own."""
        return Bags(self.rows, np.arange(len(self.rows) + 1))

    def project(self, direction: FloatArray) -> FloatArray:
        return self._once.project(direction)[self.index]

    def sums(self, values: FloatArray) -> FloatArray:
        count = len(self.rows)
        return self._once.sums(np.stack([np.bincount(self.index, row, count) for row in values]))

    def pool(self, weights: FloatArray) -> FloatArray:
        from scipy.sparse import csr_array

        many = np.atleast_2d(weights)
        pooled = np.empty((len(many), len(self), self.dim))
        shape, step = (len(self), len(self.rows)), max(1, _BLOCK // len(self.rows))
        sums = [csr_array((weight, self.index, self.offsets), shape=shape) for weight in many]
        for start in range(0, self.dim, step):
            part = slice(start, start + step)
            rows = np.asarray(self.rows[:, part], dtype=float)
            for index, matrix in enumerate(sums):
                pooled[index, :, part] = matrix @ rows
        return pooled if np.ndim(weights) == 2 else pooled[0]

    def counted(self, weights: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Different tokens (m, d) of bags with a weight (n,), and their shares."""
        shares = self.spread(weights / (weights @ self.lengths))
        once: FloatArray = np.bincount(self.index, shares, len(self.rows)).astype(float)
        yield from self._once.counted(once)

    def count(self, weights: FloatArray) -> int:
        return len(np.unique(self.index[self.spread(weights) > 0]))


def repeated(bags: Bags) -> tuple[IntArray, IntArray] | None:
    """Where each different token occurs first (D,), and which of these each token is (N,).

    None where tokens occur less than twice, on average.
    """
    tokens = np.ascontiguousarray(bags.tokens + 0.0)  # no −0, whose bits are not those of 0
    first, index = _alike(_codes(tokens))
    if not np.array_equal(tokens, tokens[first[index]]):  # two tokens with one code
        first, index = _alike(tokens.view(np.dtype((np.void, tokens[0].nbytes))).ravel())
    return None if _OFTEN * len(first) > len(tokens) else (first, index)


def _alike(codes: NDArray[Any]) -> tuple[IntArray, IntArray]:
    _, first, index = np.unique(codes, return_index=True, return_inverse=True)
    return first, index.ravel()


def _codes(tokens: NDArray[Any]) -> NDArray[np.uint64]:
    """A number for each token (N,), of its bits alone: hardly ever the same for different ones."""
    words = tokens.view(np.uint64 if tokens.itemsize == 8 else np.uint32).astype(np.uint64)
    words ^= words >> np.uint64(32)  # round numbers have all their bits there
    factors = np.cumprod(np.full(tokens.shape[1], _ODD))  # modulo 2⁶⁴
    return np.asarray(words @ factors)

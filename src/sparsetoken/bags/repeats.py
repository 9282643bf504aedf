"""Bags that share tokens: words, kinds of cells, images drawn many times. Each is kept once.

`RepeatedBags` gives the numbers that `Bags` of the same tokens would give, in the memory of the
different tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags
from sparsetoken.support.arrays import FloatArray, IntArray

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

    def __getitem__(self, chosen: Any) -> Bags:
        """Some of the bags, with all their tokens."""
        places = Bags(self.index[:, None], self.offsets)[chosen]
        return Bags(self.rows[places.tokens[:, 0]], places.offsets)

    def load(self) -> Bags:
        """With all their tokens."""
        return Bags(self.tokens, self.offsets)

    def project(self, direction: FloatArray) -> FloatArray:
        return Bags(self.rows, np.arange(len(self.rows) + 1)).project(direction)[self.index]

    def pool(self, weights: FloatArray) -> FloatArray:
        return self.load().pool(weights)

    def count(self, weights: FloatArray) -> int:
        """Different tokens of bags with a weight (n,): there are no more of them to learn from."""
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

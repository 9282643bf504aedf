r"""Units of coordinates: what the numbers of a coordinate are measured in.

Two units, multiplied by |c| where the coordinate is multiplied by c, so that numbers measured in
them do not depend on those the caller has chosen:

    deviation = √m₂,      size = √(m₄/m₂),      m_k: the k-th central moment.

A coordinate that is 0 but for a share p of the tokens, where it is about 1, has a deviation of √p
and a size of about 1: the one blows up what is rare, the other leaves it as rare as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.support.arrays import FloatArray

_NARROWEST = 1e-300  # range of a coordinate that varies: the inverse of less may be infinite
_LEAST = 1e-14  # variance in units of the range; below it is rounding, or tokens that hardly count


@dataclass(frozen=True, eq=False)
class Units:
    """Mean and units (d,) of coordinates; units of 0 where they do not vary."""

    mean: FloatArray
    deviation: FloatArray
    size: FloatArray

    @classmethod
    def of(cls, bags: Bags, weights: FloatArray) -> Units:
        """From the tokens of bags with a weight (n,).

        >>> Units.of(Bags.of(np.array([[[0.0, 7.0]], [[4.0, 7.0]]])), np.ones(2)).size.tolist()
        [2.0, 0.0]
        """
        low, high = np.full(bags.dim, np.inf), np.full(bags.dim, -np.inf)
        for tokens, _ in bags.counted(weights):
            low = np.minimum(low, tokens.min(axis=0))
            high = np.maximum(high, tokens.max(axis=0))
        middle, reach = low / 2 + high / 2, high / 2 - low / 2
        first, second, third, fourth = np.zeros((4, bags.dim))
        per_reach = inverse(np.where(reach > _NARROWEST, reach, 0.0))
        for tokens, share in bags.counted(weights):  # from −1 to 1 now: no power overflows
            tokens = (tokens - middle) * per_reach
            square = tokens * tokens
            first += share @ tokens
            second += share @ square
            third += share @ (square * tokens)
            fourth += share @ (square * square)
        variance = second - first**2
        varies = variance > _LEAST
        fourth += first * (-4 * third + first * (6 * second - 3 * first**2))
        deviation = np.sqrt(np.where(varies, variance, 0.0))
        size = np.sqrt(np.where(varies, fourth, 0.0)) * inverse(deviation)
        return cls(middle + reach * first, reach * deviation, reach * size)

    def squared_lengths(self, bags: Bags, unit: FloatArray) -> FloatArray:
        """‖x‖² of all tokens (N,), from the mean, in these units (d,) of coordinates."""
        per_unit = inverse(unit)
        squares = np.empty(len(bags.tokens))
        for _, rows in bags.blocks():
            tokens = (np.asarray(bags.tokens[rows], dtype=float) - self.mean) * per_unit
            squares[rows] = np.einsum("td,td->t", tokens, tokens)
        return squares

    def or_else(self, other: Units) -> Units:
        """With the units of another where a coordinate does not vary."""
        varies = self.deviation > 0
        return Units(
            self.mean,
            np.where(varies, self.deviation, other.deviation),
            np.where(varies, self.size, other.size),
        )


def inverse(units: FloatArray) -> FloatArray:
    """1/unit, and 0 for coordinates without one: they say nothing."""
    return np.divide(1.0, units, out=np.zeros_like(units), where=units > 0)

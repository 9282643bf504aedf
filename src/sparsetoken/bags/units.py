r"""Units of coordinates: what the numbers of a coordinate are measured in.

Two units, multiplied by |c| where the coordinate is multiplied by c, so that numbers measured in
them do not depend on those the caller has chosen:

    deviation = √m₂,      size = √(m₄/m₂),      m_k: the k-th central moment.

A coordinate that is 0 but for a share p of the tokens, where it is about 1, has a deviation of √p
and a size of about 1: the one blows up what is rare, the other leaves it as rare as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsetoken.bags.bags import Walked
from sparsetoken.support.arrays import FloatArray

Target = Literal["deviations", "sizes"]  # the units in which a covariance is spherical
TARGETS: tuple[Target, ...] = ("deviations", "sizes")
_NARROWEST = 1e-300  # range of a coordinate that varies: the inverse of less may be infinite
_LEAST = 1e-14  # variance in units of the range; below it is rounding, or tokens that hardly count


@dataclass(frozen=True, eq=False)
class Units:
    """Mean and units (d,) of coordinates; units of 0 where they do not vary."""

    mean: FloatArray
    deviation: FloatArray
    size: FloatArray

    @classmethod
    def of(cls, bags: Walked, weights: FloatArray) -> Units:
        """From the tokens of bags with a weight (n,).

        >>> from sparsetoken.bags.bags import Bags
        >>> Units.of(Bags.of(np.array([[[0.0, 7.0]], [[4.0, 7.0]]])), np.ones(2)).size.tolist()
        [2.0, 0.0]
        """
        counted = weights > 0
        summary = bags.summary[counted]
        share = (weights * bags.lengths)[counted]
        low, high = summary.least.min(axis=0), summary.greatest.max(axis=0)
        middle, reach = low / 2 + high / 2, high / 2 - low / 2
        per_reach = inverse(np.where(reach > _NARROWEST, reach, 0.0))
        # a token of a bag is a + b·t from −1 to 1: no power overflows
        a, b = (summary.middle - middle) * per_reach, summary.reach * per_reach
        t1, t2, t3, t4 = summary.powers
        first, second, third, fourth = (
            share / share.sum() @ moment
            for moment in (
                a + b * t1,
                a * (a + 2 * b * t1) + b**2 * t2,
                a * (a * (a + 3 * b * t1) + 3 * b**2 * t2) + b**3 * t3,
                a * (a * (a * (a + 4 * b * t1) + 6 * b**2 * t2) + 4 * b**3 * t3) + b**4 * t4,
            )
        )
        variance = second - first**2
        varies = variance > _LEAST
        fourth += first * (-4 * third + first * (6 * second - 3 * first**2))
        deviation = np.sqrt(np.where(varies, variance, 0.0))
        size = np.sqrt(np.where(varies, fourth, 0.0)) * inverse(deviation)
        return cls(middle + reach * first, reach * deviation, reach * size)

    def squared_lengths(self, bags: Walked) -> FloatArray:
        """‖x‖² of a bag's tokens on average (n,), from the mean, in deviations."""
        summary, per_unit = bags.summary, inverse(self.deviation)
        apart, reach = (summary.middle - self.mean) * per_unit, summary.reach * per_unit
        first, second = summary.powers[:2]
        return np.sum(apart * (apart + 2 * reach * first) + reach**2 * second, axis=1)

    def ratio(self, target: Target) -> FloatArray:
        """Of deviation and the target's unit (d,)."""
        unit = self.deviation if target == "deviations" else self.size
        return self.deviation * inverse(unit)

    def scale(self, target: Target) -> FloatArray:
        """What a coordinate (d,) is multiplied by to be in the target's units, about."""
        return self.ratio(target) * inverse(self.deviation)

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

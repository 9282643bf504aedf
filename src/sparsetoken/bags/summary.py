r"""Each bag by a few numbers a coordinate: range and moments, from one pass over its tokens.

Means, deviations and units of any set of bags follow from these without the tokens. Powers are
those of t = (x − middle)/reach, which is between −1 and 1 in its bag: none of them overflows,
whatever the caller's units are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetoken.bags.stacks import Stack
from sparsetoken.support.arrays import FloatArray, floats

_NARROWEST = 1e-300  # range of a coordinate that varies: the inverse of less may be infinite


@dataclass(frozen=True, eq=False)
class BagSummary:
    """Of n bags, in each of d coordinates."""

    least: FloatArray  # (n, d)
    greatest: FloatArray  # (n, d)
    powers: FloatArray  # (4, n, d), mean over tokens of t, t², t³, t⁴

    @classmethod
    def of(cls, table: FloatArray) -> BagSummary:
        """From what `summarise` gives (6, n, d)."""
        return cls(table[0], table[1], table[2:])

    @property
    def middle(self) -> FloatArray:
        return self.least / 2 + self.greatest / 2

    @property
    def reach(self) -> FloatArray:
        """Half the range (n, d)."""
        return self.greatest / 2 - self.least / 2

    @property
    def mean(self) -> FloatArray:
        """Mean token of each bag (n, d); to the last digit where all its tokens are alike."""
        mean = self.middle + self.reach * self.powers[0]
        return np.clip(mean, self.least, self.greatest)

    @property
    def deviation(self) -> FloatArray:
        """Standard deviation of the tokens of each bag (n, d)."""
        first, second = self.powers[:2]
        return self.reach * np.sqrt(np.maximum(second - first**2, 0.0))

    def __getitem__(self, chosen: Any) -> BagSummary:
        """Of some of the bags."""
        return BagSummary(self.least[chosen], self.greatest[chosen], self.powers[:, chosen])


def summarise(stack: Stack) -> FloatArray:
    """least, greatest and the four powers of each bag of a stack (6, k, d)."""
    ranges = []
    for tokens in stack.pieces():
        space, tokens = floats(tokens)
        ranges.append((space.min(tokens, axis=1), space.max(tokens, axis=1)))
    least, greatest = ranges[0]
    for low, high in ranges[1:]:
        least, greatest = space.minimum(least, low), space.maximum(greatest, high)
    middle, reach = least / 2 + greatest / 2, greatest / 2 - least / 2
    varies = reach > _NARROWEST
    per_reach = space.where(varies, 1.0, 0.0) / space.where(varies, reach, 1.0)
    powers = space.zeros_like(space.stack([reach] * 4))
    for tokens in stack.pieces():
        scaled = (tokens - middle[:, None]) * per_reach[:, None]
        values = scaled
        for power in range(4):
            powers[power] += space.sum(values, axis=1)
            values = values * scaled
    return stack.numbers(space.concat([least[None], greatest[None], powers / stack.length]))

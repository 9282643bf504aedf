r"""The best cut: the threshold c on a statistic T with the least expected cost

    miss · P₊(T ≤ c) + alarm · P₋(T > c),   miss = π and alarm = 1 − π for the error,

from the cost as a smooth function of c, or from weighted values of T in both classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sparsetoken.support.arrays import FloatArray


class Cut(NamedTuple):
    """A threshold and its expected cost; at −∞ and ∞ every sample is of one class."""

    cost: float
    threshold: float


def smooth_cut(
    cost: Callable[[float], float],
    grid: FloatArray,
    costs: FloatArray,
    tolerance: float,
    reach: int = 1,
) -> Cut:
    """Brent's method within `reach` steps of the best point of a grid with these costs."""
    from scipy.optimize import minimize_scalar

    best = int(np.argmin(costs))
    ends = grid[max(best - reach, 0)], grid[min(best + reach, len(grid) - 1)]
    minimum = minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": tolerance})
    return Cut(float(minimum.fun), float(minimum.x))


def counted_cut(values: FloatArray, gains: FloatArray) -> Cut:
    """From weighted values of T in both classes, shape (n,): `miss` times the weight of a positive
    one, −`alarm` times that of a negative one.

    The cost is counted from that of c = −∞. Half-way between two values is best for values not yet
    seen.

    >>> counted_cut(np.array([2.0, 5.0, 0.0, 3.0]), np.array([0.3, 0.3, -0.25, -0.25]))
    Cut(cost=-0.25, threshold=1.0)
    """
    order = np.argsort(values)
    ranked = values[order]
    costs = np.append(0.0, np.cumsum(gains[order]))
    costs[1:-1][ranked[1:] == ranked[:-1]] = np.inf  # no cut is between equal values
    best = int(np.argmin(costs))
    padded = np.concatenate([[-np.inf], ranked, [np.inf]])
    return Cut(float(costs[best]), float(0.5 * (padded[best] + padded[best + 1])))

r"""Fewer atoms, same moments: a discrete law replaced by a smaller one, exactly.

A law on N atoms and any D functions of them: Carathéodory says that D atoms, with new positive
weights, reproduce all D averages. `recombine` finds them by linear algebra alone (no optimiser,
nothing to tune): along a null vector of the D×n matrix of function values the averages do not
change, so weights move along it until one of them reaches zero. Atoms are first bundled into 2D
groups, so that the cost is O(ND + D³ log(N/D)).
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def recombine(values: FloatArray, weights: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Indices and positive weights of at most D atoms with the same averages.

    `values` has shape (N, D), one column a function (include a constant to keep the total
    weight); `weights` shape (N,), positive.

    >>> x = np.linspace(-1, 1, 1000)
    >>> index, w = recombine(np.vander(x, 6), np.full(1000, 1e-3))
    >>> len(index) <= 6, bool(abs(w @ x[index] ** 4 - np.mean(x**4)) < 1e-12)
    (True, True)
    """
    functions = values.shape[1]
    index = np.arange(len(weights))
    weights = np.array(weights, dtype=float)
    while len(index) > functions:
        groups = np.array_split(np.arange(len(index)), min(2 * functions, len(index)))
        starts = np.array([group[0] for group in groups])
        mass = np.add.reduceat(weights, starts)
        centres = np.add.reduceat(values[index] * weights[:, None], starts, axis=0) / mass[:, None]
        new_mass = _eliminate(centres, mass)
        scale = np.repeat(new_mass / mass, [len(group) for group in groups])
        keep = scale > 0
        index, weights = index[keep], (weights * scale)[keep]
        if len(groups) == len(starts) == len(keep):  # every group was one atom: done
            break
    return index, weights


def _eliminate(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Move `weights` along the null space of `points`ᵀ until at most rank(points) are positive."""
    count = len(points)
    left, singular, _ = np.linalg.svd(points, full_matrices=True)
    rank = int(np.sum(singular > singular[0] * 1e-13 * count))
    null = left[:, rank:]  # (n, n − rank)
    weights = weights.copy()
    while null.shape[1]:
        direction, null = null[:, -1], null[:, :-1]
        if not np.any(direction > 0):
            direction = -direction
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(direction > 0, weights / direction, np.inf)
        out = int(np.argmin(room))
        weights -= room[out] * direction
        weights[out] = 0.0
        np.maximum(weights, 0.0, out=weights)
        null = null - np.outer(direction, null[out] / direction[out])
        null[out] = 0.0
    return weights


def polynomial_basis(points: FloatArray, weights: FloatArray, degree: int) -> FloatArray:
    """Polynomials up to a total degree, orthonormal under the cloud; shape (N, D).

    Chebyshev polynomials on the range of each variable stay bounded however heavy the tails.
    Combinations that (nearly) vanish on the cloud are dropped: a variable that does not move, say.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    moving = high - low > 1e-12 * (1.0 + np.abs(points).max(axis=0))
    scaled = (2 * points[:, moving] - (low + high)[moving]) / (high - low)[moving]
    variables = scaled.shape[1]
    powers = np.cos(np.arange(degree + 1)[:, None, None] * np.arccos(np.clip(scaled, -1, 1)))
    columns = []
    for exponents in itertools.product(range(degree + 1), repeat=variables):
        if sum(exponents) <= degree:
            column = np.ones(len(points))
            for variable, exponent in enumerate(exponents):
                if exponent:
                    column = column * powers[exponent, :, variable]
            columns.append(column)
    basis = np.stack(columns, axis=1)
    share, vectors = np.linalg.eigh((basis.T * (weights / weights.sum())) @ basis)
    kept = share > share[-1] * 1e-12
    return basis @ (vectors[:, kept] / np.sqrt(share[kept]))

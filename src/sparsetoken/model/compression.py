r"""Fewer atoms, same moments: a discrete law replaced by a smaller one, exactly.

A law on N atoms and any D functions of them: Carathéodory says that D atoms, with new positive
weights, reproduce all D averages. They are found by linear algebra alone (no optimiser, nothing to
tune): along a null vector of the D×n matrix of function values the averages do not change, so
weights move along it until one of them reaches zero. Atoms are first bundled into groups, which are
halved from round to round, so that the cost is O(ND + D³ log(N/D)).

The functions are polynomials in each of several equally large slices of the cloud: high degrees in
few slices suit smooth functions, low degrees in many suit kinks. All slices are treated at once.
"""

from __future__ import annotations

import itertools
from functools import reduce

import numpy as np

from sparsetoken.support.arrays import FloatArray, IntArray


def compress(
    points: FloatArray, weights: FloatArray, degree: int, slices: int
) -> tuple[IntArray, FloatArray]:
    """Indices and positive weights of few points that average polynomials exactly.

    `points` (N, v) are sliced along their first coordinate; in every slice all polynomials up to a
    total `degree` keep their averages.

    >>> x = np.random.default_rng(0).normal(size=(4000, 1))
    >>> index, w = compress(x, np.full(4000, 1 / 4000), degree=5, slices=2)
    >>> len(index) <= 12, bool(abs(w @ x[index, 0] ** 4 - np.mean(x**4)) < 1e-9)
    (True, True)
    """
    order = np.argsort(points[:, 0], kind="stable")
    functions = len(_exponents(points.shape[1], degree))
    block = 2 ** int(np.ceil(np.log2(functions + 1)))  # groups in the first round
    size = max(1, -(-len(order) // (slices * block)))
    size = 2 ** int(np.ceil(np.log2(size)))
    order = np.concatenate([order, np.full(slices * block * size - len(order), order[-1])])
    mass = weights[order].copy()
    mass[len(weights) :] = 0.0  # padding
    order, mass = order.reshape(slices, -1), mass.reshape(slices, -1)
    basis = polynomial_basis(points[order], mass, degree)
    index, new = recombine(basis, mass)
    total = new.sum(axis=1, keepdims=True)
    new *= np.divide(
        mass.sum(axis=1, keepdims=True), total, out=np.zeros_like(total), where=total > 0
    )
    chosen = np.take_along_axis(order, index, axis=1)
    kept = new > 0
    return chosen[kept], new[kept]


def recombine(values: FloatArray, weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """At most D atoms with the same averages, in each slice: indices and weights, (slices, D).

    `values` is (slices, N, D), one column a function; `weights` (slices, N), not negative. N must
    be a power of two times a number of groups above D.
    """
    slices, count, functions = values.shape
    index = np.broadcast_to(np.arange(count), (slices, count))
    size = 1
    while count % (2 * size) == 0 and count // (2 * size) > functions:
        size *= 2
    while True:
        shape = (slices, -1, size)
        mass = weights.reshape(shape).sum(axis=-1)
        held = values * weights[..., None]
        centres = held.reshape(*shape, functions).sum(axis=2)
        centres /= np.maximum(mass, 1e-300)[..., None]
        new = _eliminate(centres, mass)
        best = np.argsort(-new, axis=1)[:, : min(functions, new.shape[1])]
        scale = np.take_along_axis(new / np.maximum(mass, 1e-300), best, axis=1)
        groups, row = best.shape[1], np.arange(slices)[:, None]
        index = index.reshape(shape)[row, best].reshape(slices, -1)
        weights = (weights.reshape(shape)[row, best] * scale[..., None]).reshape(slices, -1)
        if size == 1:
            return index, weights
        values = values.reshape(*shape, functions)[row, best].reshape(slices, groups * size, -1)
        size //= 2


def _eliminate(points: FloatArray, weights: FloatArray) -> FloatArray:
    """Move weights along null vectors of the points until at most D of n are positive.

    `points` is (slices, n, D), `weights` (slices, n).
    """
    slices, count, functions = points.shape
    weights = weights.copy()
    if count <= functions:
        return weights
    null = np.linalg.qr(points, mode="complete").Q[..., functions:]  # orthogonal to all columns
    row = np.arange(slices)
    while null.shape[-1]:
        direction, null = null[..., -1], null[..., :-1]
        direction = np.where(direction.max(axis=1, keepdims=True) > 0, direction, -direction)
        room = np.full_like(weights, np.inf)
        np.divide(weights, direction, out=room, where=direction > 1e-14)
        out = room.argmin(axis=1)
        step = room[row, out]
        step[np.isinf(step)] = 0.0
        weights -= step[:, None] * direction
        np.maximum(weights, 0.0, out=weights)
        weights[row, out] = 0.0
        null -= direction[..., None] * (null[row, out] / direction[row, out][:, None])[:, None]
        null[row, out] = 0.0
    return weights


def polynomial_basis(points: FloatArray, weights: FloatArray, degree: int) -> FloatArray:
    """Polynomials up to a total degree, orthonormal in each slice; shape (slices, N, D).

    Chebyshev polynomials on the range of each variable stay bounded however heavy the tails.
    Combinations that (nearly) vanish on a slice become zero: a variable that does not move, say.
    """
    low, high = points.min(axis=1, keepdims=True), points.max(axis=1, keepdims=True)
    moving = high - low > 1e-12 * (1.0 + np.abs(points).max(axis=1, keepdims=True))
    scaled = np.where(moving, (2 * points - low - high) / np.where(moving, high - low, 1.0), 0.0)
    scaled = np.clip(scaled, -1.0, 1.0)
    powers = [np.ones_like(scaled), scaled]
    for _ in range(degree - 1):
        powers.append(2 * scaled * powers[-1] - powers[-2])
    # a variable at rest would contribute constants again
    masked = [np.ascontiguousarray(np.moveaxis(power * moving, -1, 0)) for power in powers]
    every = _exponents(points.shape[-1], degree)
    basis = np.empty((*points.shape[:2], len(every)))
    for place, exponents in enumerate(every):
        factors = [masked[k][variable] for variable, k in enumerate(exponents) if k]
        basis[..., place] = reduce(np.multiply, factors, 1.0)
    share = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    gram = np.swapaxes(basis * share[..., None], 1, 2) @ basis
    values, vectors = np.linalg.eigh(gram)
    kept = values > values[:, -1:] * 1e-12
    scale = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return basis @ (vectors * scale[:, None, :])


def _exponents(variables: int, degree: int) -> list[tuple[int, ...]]:
    every = itertools.product(range(degree + 1), repeat=variables)
    return [exponents for exponents in every if sum(exponents) <= degree]

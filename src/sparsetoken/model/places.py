"""Where the signal sits: position weights, checked; sets of places, drawn and summed over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from sparsetoken.support.arrays import Array, BoolArray, FloatArray, floats
from sparsetoken.support.checks import real
from sparsetoken.support.errors import InvalidInput


def checked_places(places: Sequence[float], length: int, sparsity: int) -> tuple[float, ...]:
    try:
        weights = np.asarray(places, dtype=float)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"Task: places must be None or {length} position weights (the length), got {places!r}"
        ) from None
    if weights.shape != (length,):
        raise InvalidInput(
            f"Task: places must be None or {length} position weights (the length), "
            f"got shape {weights.shape}"
        )
    for position, weight in enumerate(weights):
        real("Task", f"places[{position}]", float(weight), least=0, most=1e100)
    if np.count_nonzero(weights) < sparsity:
        raise InvalidInput(
            f"Task: places must have at least {sparsity} positive weights (the sparsity), "
            f"got {np.count_nonzero(weights)}"
        )
    return tuple((weights / weights.sum()).tolist())


def log_choose(count: ArrayLike, size: ArrayLike) -> FloatArray:
    """log C(n, k), for real n and k too.

    >>> round(float(np.exp(log_choose(5, 2))), 9)
    10.0
    """
    count, size = np.asarray(count), np.asarray(size)
    return np.asarray(gammaln(count + 1) - gammaln(size + 1) - gammaln(count - size + 1))


def log_subset_sums(log_weights: Array, size: int) -> list[Array]:
    """log e_k (k = 0, …, size) of the first l of L numbers (l = 0, …, L), from their logarithms
    (…, L) in an array of any library; shape (…, L + 1) each.

    >>> [np.exp(sums).round(9).tolist() for sums in log_subset_sums(np.log([1.0, 2.0, 3.0]), 2)]
    [[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 3.0, 6.0], [0.0, 0.0, 2.0, 11.0]]
    """
    xp, log_weights = floats(log_weights)
    none = xp.full_like(log_weights[..., :1], -math.inf)
    sums = [xp.zeros_like(xp.concat([none, log_weights], axis=-1))]
    for _ in range(size):
        terms = log_weights + sums[-1][..., :-1]  # the last of k is the l-th
        sums.append(xp.concat([none, _log_cumulative(xp, terms)], axis=-1))
    return sums


def carrier_chances(log_weights: Array, size: int) -> tuple[Array, Array]:
    """log e_R(x), and the chance of each to be among R drawn with P(S) ∝ Π x_l, from log x (…, L).

    Shapes (…,) and (…, L), 1 ≤ R = size ≤ L. Holds 2RL numbers for each row.

    >>> log_sum, chances = carrier_chances(np.log([1.0, 2.0, 3.0]), 2)
    >>> round(float(np.exp(log_sum)), 9), (11 * chances).round(9).tolist()
    (11.0, [5.0, 8.0, 9.0])
    """
    xp, log_weights = floats(log_weights)
    before = log_subset_sums(log_weights, size)
    reverse = log_subset_sums(xp.flip(log_weights, axis=-1), size)
    after = [xp.flip(sums, axis=-1) for sums in reverse]  # of all from the l-th on
    total = before[size][..., -1]
    others = before[0][..., :-1] + after[size - 1][..., 1:]  # e_{R−1} of all but the l-th
    for k in range(1, size):
        others = xp.logaddexp(others, before[k][..., :-1] + after[size - 1 - k][..., 1:])
    logs = log_weights + others - total[..., None]
    return total, xp.exp(xp.minimum(logs, xp.zeros_like(logs)))


def _log_cumulative(xp: Any, values: Array) -> Array:
    """log of the sums of e^x of the first 1, 2, … values along the last axis."""
    if xp is np:
        return np.logaddexp.accumulate(values, axis=-1)
    return xp.logcumsumexp(values, -1)


def weighted_subsets(weights: FloatArray, size: int, n: int, rng: np.random.Generator) -> BoolArray:
    """Draw subsets with P(v) ∝ Π p_l, walking the positions once.

    Position l joins, when k ones are still to be placed, with probability
    p_l e_{k−1}(p_{l+1}, …) / e_k(p_l, …).
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    # entry [k, l] is log e_k(p_l, p_{l+1}, …)
    table = np.flip(log_subset_sums(np.flip(log_weights), size), axis=-1)
    places = np.zeros((n, len(weights)), dtype=bool)
    left = np.full(n, size)
    for position in range(len(weights)):
        joins = np.zeros(n)
        open_ = left > 0
        k = left[open_]
        joins[open_] = np.exp(
            log_weights[position] + table[k - 1, position + 1] - table[k, position]
        )
        places[:, position] = rng.random(n) < joins
        left -= places[:, position]
    return places

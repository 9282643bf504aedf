"""Where the signal sits: position weights, checked, and sets of places drawn with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from sparsetoken.support.arrays import BoolArray, FloatArray
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


def log_subset_sums(log_weights: FloatArray, size: int) -> FloatArray:
    """log e_k of every tail: entry [l, k] is log e_k(p_l, p_{l+1}, …); shape (L+1, size+1)."""
    length = len(log_weights)
    table = np.full((length + 1, size + 1), -np.inf)
    table[:, 0] = 0.0
    for start in range(length - 1, -1, -1):
        table[start, 1:] = np.logaddexp(
            table[start + 1, 1:], log_weights[start] + table[start + 1, :-1]
        )
    return table


def weighted_subsets(weights: FloatArray, size: int, n: int, rng: np.random.Generator) -> BoolArray:
    """Draw subsets with P(v) ∝ Π p_l, walking the positions once.

    Position l joins, when k ones are still to be placed, with probability
    p_l e_{k−1}(p_{l+1}, …) / e_k(p_l, …).
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    table = log_subset_sums(log_weights, size)
    places = np.zeros((n, len(weights)), dtype=bool)
    left = np.full(n, size)
    for position in range(len(weights)):
        joins = np.zeros(n)
        open_ = left > 0
        k = left[open_]
        joins[open_] = np.exp(
            log_weights[position] + table[position + 1, k - 1] - table[position, k]
        )
        places[:, position] = rng.random(n) < joins
        left -= places[:, position]
    return places

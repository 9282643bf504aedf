r"""How a query is learned: in two steps, in one more round, jointly with the readout.

In the limit of a small readout step and with the bias that balances the classes, stages 1 to 3 of
the protocol are two weighted sums. With s_i = y_i/(weight of its class) and P = I − 11ᵀ/L,

    w¹ = Σ s_i · mean token of bag i,       q = Σ s_i · (1/L_i) X_iᵀ P X_i w¹:

the difference of the classes' mean tokens, then the difference of their covariances within a bag
applied to it. No step sizes are left; the length of q is the sharpness, chosen separately.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.mixture import Mixture, histogram
from sparsetoken.bags.whitening import Whitening
from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError

_MOST_STEPS = 2000
_CERTIFIED = 1e-2  # largest gradient left, relative to that at zero: bags are few, and stop early


def two_step_query(
    bags: Bags, means: FloatArray, labels: FloatArray, weights: FloatArray, whitening: Whitening
) -> FloatArray:
    """The direction of the query in whitened coordinates, of norm 1 (0 if there is none).

    `means` are the whitened mean tokens (n, d); bags of weight 0 do not count.
    """
    signed = balanced(labels, weights)
    first = signed @ means
    level = bags.project(whitening.root @ first)
    level -= bags.spread(bags.total(level) / bags.lengths)
    pull = level * bags.spread(signed / bags.lengths)
    query = np.zeros(bags.dim)
    for _, rows in bags.blocks():
        query += pull[rows] @ (np.asarray(bags.tokens[rows], dtype=float) - whitening.mean)
    query = whitening.root @ query
    norm = float(np.linalg.norm(query))
    return query / norm if norm > 0 else query


class Refined(NamedTuple):
    """A better direction, and what it is the difference of the classes of."""

    query: FloatArray  # (d,), of norm 1, whitened
    pooled: FloatArray  # (n, d), tokens weighted by their chance to carry the signal, not whitened


def refined(
    bags: Bags, query: FloatArray, labels: FloatArray, weights: FloatArray, whitening: Whitening
) -> Refined:
    """One round of expectation–maximisation: along a query, how likely does each token carry the
    signal? The difference of the classes, tokens weighted by that, is a better query."""
    level = bags.project(whitening.root @ query)
    share = bags.spread(np.where(labels < 0, weights, 0.0))
    share = share / share.sum()
    level -= share @ level
    level /= max(float(np.sqrt(share @ level**2)), 1e-300)
    counted = bags.spread(np.where(labels > 0, weights, 0.0))
    mixture = Mixture.fit(histogram(level[None], counted[None]))
    chance = mixture.chance(level[None])[0]
    pooled = bags.pool(chance) - np.outer(bags.total(chance), whitening.mean)
    better = balanced(labels, weights) @ pooled @ whitening.root
    norm = float(np.linalg.norm(better))
    return Refined(better / norm if norm > 0 else better, pooled)


def balanced(labels: FloatArray, weights: FloatArray) -> FloatArray:
    """Weights of sum 1 for the positive class and −1 for the negative one."""
    signed = np.zeros(len(labels))
    for label in (1.0, -1.0):
        mine = labels == label
        signed[mine] = label * weights[mine] / weights[mine].sum()
    return signed


def train_all(
    bags: Bags,
    labels: FloatArray,
    weights: FloatArray,
    whitening: Whitening,
    loss: Loss,
    ridge: float,
    query_ridge: float,
    start: FloatArray,
) -> FloatArray:
    """(q, w, b), shape (2d + 1,), by L-BFGS on all of them from a start; all in whitened units."""
    from scipy.optimize import minimize

    share, dim = weights / weights.sum(), bags.dim
    root, mean = whitening.root, whitening.mean

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        both = root @ x[:-1].reshape(2, dim).T  # (d, 2), for tokens as they are
        projected = bags.project(both)
        attention = bags.softmax(projected[:, 0])
        level = projected[:, 1]
        pooled = bags.total(attention * level)
        margin = labels * (pooled - mean @ both[:, 1] + x[-1])
        h = share * labels * loss.slope(margin)
        pull = attention * bags.spread(h)  # (N,), of w
        turn = pull * (level - bags.spread(pooled))  # of q
        gradient = np.zeros((2, dim))
        for _, rows in bags.blocks():
            gradient += np.stack([turn[rows], pull[rows]]) @ bags.tokens[rows]
        gradient[1] -= h.sum() * mean
        gradient = gradient @ root
        q, w = x[:dim], x[dim:-1]
        gradient[0] += query_ridge * q
        gradient[1] += ridge * w
        penalty = 0.5 * (ridge * (w @ w) + query_ridge * (q @ q))
        value = float(share @ loss.value(margin) + penalty)
        return value, np.append(gradient.ravel(), h.sum())

    options: Any = {"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "gtol": 1e-6, "ftol": 1e-9}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    at_zero = np.abs(objective(np.zeros_like(start))[1]).max()
    left = float(np.abs(objective(found.x)[1]).max() / max(at_zero, np.finfo(float).tiny))
    if left > _CERTIFIED:
        raise ConvergenceError(
            f"joint training: relative gradient {left:.1e} after {found.nit} steps, "
            f"{_CERTIFIED:g} is required (ridge={ridge:g})"
        )
    return np.asarray(found.x)

r"""How a query is learned: in two steps, in one more round.

In the limit of a small readout step and with the bias that balances the classes, stages 1 to 3 of
the protocol are two weighted sums. With s_i = y_i/(weight of its class) and P = I − 11ᵀ/L,

    w¹ = Σ s_i · mean token of bag i,       q = Σ s_i · (1/L_i) X_iᵀ P X_i w¹:

the difference of the classes' mean tokens, then the difference of their covariances within a bag
applied to it. No step sizes are left; the length of q is the sharpness, chosen separately.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.mixture import Mixture, histogram
from sparsetoken.bags.whitening import Whitening
from sparsetoken.support.arrays import FloatArray


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

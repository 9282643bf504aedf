r"""What the estimators are made of: whitening, the two-step query, the weighted convex fit.

In the limit of a small readout step and with the bias that balances the classes, stages 1 to 3 of
the protocol are two weighted sums. With s_i = y_i/(weight of its class) and P = I − 11ᵀ/L,

    w¹ = Σ s_i · mean token of bag i,       q = Σ s_i · (1/L_i) X_iᵀ P X_i w¹:

the difference of the classes' mean tokens, then the difference of their covariances within a bag
applied to it. No step sizes are left; the length of q is the sharpness, chosen separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.model.errors import ConvergenceError
from sparsetoken.model.losses import Loss
from sparsetoken.practice.bags import Bags, FloatArray
from sparsetoken.practice.mixture import Mixture, histogram

_MOST_IN_SHRINKAGE = 1 << 23  # numbers; of more tokens, evenly chosen ones give the shrinkage
_MOST_STEPS = 500


@dataclass(frozen=True, eq=False)
class Whitening:
    """x → root·(x − mean): tokens of mean 0 and covariance 1, so that noise is what theory has."""

    mean: FloatArray  # (d,)
    root: FloatArray  # (d, d), symmetric

    @classmethod
    def none(cls, dim: int) -> Whitening:
        """Leaves everything as it is."""
        return cls(np.zeros(dim), np.eye(dim))

    @classmethod
    def of(cls, bags: Bags, weights: FloatArray) -> Whitening:
        """From the tokens of bags with a weight; covariance shrunk as Ledoit and Wolf do."""
        from sklearn.covariance import ledoit_wolf_shrinkage

        dim, total = bags.dim, float(weights @ bags.lengths)
        mean, second = np.zeros(dim), np.zeros((dim, dim))
        share = bags.spread(weights) / total
        counted = np.flatnonzero(share > 0)
        shift = np.asarray(bags.tokens[counted[0]], dtype=float)  # against cancellation
        for _, rows in bags.blocks():
            if not share[rows].any():
                continue
            tokens = np.asarray(bags.tokens[rows], dtype=float) - shift
            weighted = tokens * share[rows, None]
            mean += weighted.sum(axis=0)
            second += weighted.T @ tokens
        covariance = second - np.outer(mean, mean)
        count = len(counted)
        step = -(-count * dim // _MOST_IN_SHRINKAGE)
        shrinkage = 0.0
        if count > 1:
            some = np.asarray(bags.tokens[counted[::step]], dtype=float)
            shrinkage = min(1.0, float(ledoit_wolf_shrinkage(some)) * len(some) / count)
        level = float(np.trace(covariance)) / dim
        covariance = (1 - shrinkage) * covariance + shrinkage * level * np.eye(dim)
        values, vectors = np.linalg.eigh(covariance)
        # directions in which tokens do not vary are left out: nothing can be learned there
        floor = max(float(values[-1]), 0.0) * dim * np.finfo(float).eps
        inverse = np.where(values > floor, 1.0 / np.sqrt(np.maximum(values, floor or 1.0)), 0.0)
        return cls(mean + shift, (vectors * inverse) @ vectors.T)

    def __call__(self, pooled: FloatArray) -> FloatArray:
        """Whitened, for rows that are averages of tokens."""
        return (pooled - self.mean) @ self.root


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
        query += pull[rows] @ np.asarray(bags.tokens[rows], dtype=float)
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


def fit_readout(
    features: FloatArray,
    labels: FloatArray,
    weights: FloatArray,
    loss: Loss,
    ridge: float,
    start: FloatArray | None = None,
) -> FloatArray:
    """(w, b) that minimise Σ weight·ℓ(y(⟨w, f⟩ + b))/Σ weight + (ridge/2)‖w‖²; shape (p + 1,)."""
    from scipy.optimize import minimize

    share = weights / weights.sum()
    kept = share > 0
    features, labels, share = features[kept], labels[kept], share[kept]

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        margin = labels * (features @ x[:-1] + x[-1])
        pull = share * labels * loss.slope(margin)
        value = float(share @ loss.value(margin) + 0.5 * ridge * x[:-1] @ x[:-1])
        return value, np.append(pull @ features + ridge * x[:-1], pull.sum())

    first = np.zeros(features.shape[1] + 1) if start is None else start
    options: Any = {"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "gtol": 1e-7, "ftol": 1e-14}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
    scale = np.abs(objective(np.zeros(features.shape[1] + 1))[1]).max()
    left = float(np.abs(found.jac).max())
    if not left <= 1e-3 * max(float(scale), 1e-12):
        raise ConvergenceError(
            f"fit_readout: gradient {left:.1e} after {found.nit} iterations (ridge={ridge:g})"
        )
    return np.asarray(found.x)


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
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x)


def sigmoid_fit(scores: FloatArray, labels: FloatArray, weights: FloatArray) -> FloatArray:
    """(slope, offset) of P(positive | score) = 1/(1 + e^{−slope·score − offset}), slope ≥ 0.

    Platt's targets, a little inside 0 and 1, keep it finite where scores separate the classes.
    """
    from scipy.optimize import minimize

    up, down = weights[labels > 0].sum(), weights[labels < 0].sum()
    target = np.where(labels > 0, (up + 1) / (up + 2), 1 / (down + 2))
    share = weights / weights.sum()
    scale = max(float(np.sqrt(share @ scores**2)), 1e-12)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        logit = x[0] * scores / scale + x[1]
        value = share @ (np.logaddexp(0.0, logit) - target * logit)
        pull = share * (1 / (1 + np.exp(-np.clip(logit, -700, 700))) - target)
        return float(value), np.array([pull @ scores / scale, pull.sum()])

    bounds: Any = [(0.0, None), (None, None)]
    start = np.array([1.0, np.log(up / down)])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.array([found.x[0] / scale, found.x[1]])

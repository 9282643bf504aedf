r"""How tokens are weighted by their scores: a = a(τg), g the projections on the query.

A weighting is any rule that gives L scores L weights, none negative, with sum 1, and does not mind
the order of the tokens. Tied scores get equal weights; at sharpness τ = 0 all are tied, and every
weighting is the mean. One class with `weights` is all that a new one needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sparsetoken.support.arrays import Array, floats
from sparsetoken.support.checks import refusal, settle, whole
from sparsetoken.support.errors import InvalidInput


class Weighting(Protocol):
    """What a weighting must offer."""

    def weights(self, scores: Array) -> Array:
        """Scores (…, L) of any array library to weights (…, L)."""
        ...

    def __hash__(self) -> int:
        """Laws are kept by it: equal weightings must have equal ones."""
        ...


@dataclass(frozen=True)
class Softmax:
    """a_l ∝ e^{τg_l}.

    >>> Softmax().weights([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """

    def weights(self, scores: Array) -> Array:
        """Without overflow."""
        xp, scores = floats(scores)
        weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return weights / xp.sum(weights, axis=-1, keepdims=True)


SOFTMAX = Softmax()


@dataclass(frozen=True)
class HardMax:
    """All weight on the largest score, at any sharpness.

    >>> HardMax().weights([1.0, 3.0, 2.0]).tolist()
    [0.0, 1.0, 0.0]
    """

    def weights(self, scores: Array) -> Array:
        """Equal weights on the largest, if there are several."""
        xp, scores = floats(scores)
        best = scores >= xp.max(scores, axis=-1, keepdims=True)
        weights = xp.where(best, xp.ones_like(scores), xp.zeros_like(scores))
        return weights / xp.sum(weights, axis=-1, keepdims=True)


@dataclass(frozen=True)
class TopK:
    """Softmax over the k largest scores; over all of fewer tokens.

    >>> TopK(2).weights([1.0, 3.0, 3.0]).tolist()
    [0.0, 0.5, 0.5]
    """

    k: int

    def __post_init__(self) -> None:
        settle(self, k=whole(TopK, "k", self.k, least=1))

    def weights(self, scores: Array) -> Array:
        """Scores that tie with the k-th count too."""
        xp, scores = floats(scores)
        length = scores.shape[-1]
        if self.k >= length:
            return Softmax().weights(scores)
        least = xp.sort(scores, axis=-1)[..., length - self.k, None]
        raw = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        raw = xp.where(scores >= least, raw, xp.zeros_like(raw))
        return raw / xp.sum(raw, axis=-1, keepdims=True)


@dataclass(frozen=True)
class Sparsemax:
    r"""The point of the simplex nearest to the scores: a_l = (τg_l − c)₊ with Σ a_l = 1.

    >>> Sparsemax().weights([0.0, 0.5, -2.0]).tolist()
    [0.25, 0.75, 0.0]
    """

    def weights(self, scores: Array) -> Array:
        """With z sorted downwards, c = (z₁ + … + z_k − 1)/k for the last k with 1 + kz_k > Σ."""
        xp, scores = floats(scores)
        scores = scores - xp.max(scores, axis=-1, keepdims=True)
        down = xp.flip(xp.sort(scores, axis=-1), axis=-1)
        sums = _running_sum(xp, down)
        count = xp.ones_like(down)
        count = _running_sum(xp, count)
        inside = xp.where(1 + count * down > sums, count, xp.zeros_like(count))
        size = xp.max(inside, axis=-1, keepdims=True)
        total = xp.sum(xp.where(count <= size, down, xp.zeros_like(down)), axis=-1, keepdims=True)
        weights = xp.where(
            scores > (total - 1) / size, scores - (total - 1) / size, xp.zeros_like(scores)
        )
        return weights / xp.sum(weights, axis=-1, keepdims=True)


def _running_sum(xp: Array, values: Array) -> Array:
    name = "cumulative_sum" if hasattr(xp, "cumulative_sum") else "cumsum"
    return getattr(xp, name)(values, axis=-1)


def check_weighting(owner: type | str, weighting: object) -> None:
    """Refuse what is not a weighting, or one that breaks its word."""
    rule = getattr(weighting, "weights", None)
    if isinstance(weighting, type) or not callable(rule):
        allowed = "a weighting such as Softmax() or TopK(3)"
        raise refusal(owner, "weighting", weighting, allowed)
    try:
        hash(weighting)
    except TypeError:
        allowed = "hashable (a frozen dataclass, say)"
        raise refusal(owner, "weighting", weighting, allowed) from None
    scores = np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 2.0]])
    weights = np.asarray(rule(scores))
    fair = weights.shape == scores.shape and np.all(weights >= 0)
    if not fair or not np.allclose(weights.sum(axis=1), 1.0):
        raise InvalidInput(
            f"{owner if isinstance(owner, str) else owner.__name__}: weighting must give weights "
            f"that are not negative and have sum 1, got {weights.tolist()} from {weighting!r} for "
            f"scores {scores.tolist()}"
        )

r"""Which tokens of a positive bag carry the signal: given log ratios r_l of its tokens.

`log r_l` is the log density of a token with the signal over that of noise. How many carry it:

* `FixedCount`: R of L, all subsets alike, or none (a silent bag, with probability z),

      P(bag)/P(noise) = z + (1 − z)·e_R(r)/C(L, R),
      P(token l carries it) ∝ (1 − z)·r_l·e_{R−1}(r without l)/C(L, R),

  e_R the elementary symmetric polynomial;

* `VaryingShare`: each with probability s by itself, s drawn for each bag from a few values,

      P(bag)/P(noise) = Σ_s w_s Π_l (1 − s + s·r_l).

Lesions are small and large, so that the second is often nearer to data; it is learned by
expectation–maximisation, together with the shift and width of the signal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import logsumexp

from sparsetoken.bags.likelihood import Levels, Signal
from sparsetoken.bags.mixture import Mixture, histogram
from sparsetoken.model.places import carrier_chances, log_choose
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError

_MOST_PRODUCTS = 4_000_000  # of tokens and R, up to which e_R without each token is computed
_SHARES = 16  # beside 0; neighbours differ by less than their bags can tell
_HIGHEST_SHARE = 0.9
_MOST_LOG = 600.0  # a ratio beyond is as good as sure, and its exponential is a number
_ROUNDS, _RISE = 2000, 1e-2  # of expectation and maximisation; of the log likelihood, at the end
_LEAST_SHIFT = 0.05  # of noise that is cut in two: below it nothing is told apart


class Bag(NamedTuple):
    """What a bag's ratios say."""

    log_ratio: float  # log P(bag)/P(noise) of a positive bag
    chances: FloatArray  # (L,), that a token carries the signal, if the bag is positive


class Carriers(Protocol):
    """A law of how many tokens carry the signal in a positive bag."""

    def bag(self, log_ratios: FloatArray) -> Bag:
        """Of one bag, from the log ratios of its tokens (L,)."""
        ...


@dataclass(frozen=True)
class FixedCount:
    """R tokens, or none with probability `silent`.

    >>> FixedCount(1).bag(np.log([1.0, 3.0])).chances.round(12).tolist()
    [0.25, 0.75]
    """

    count: int
    silent: float = 0.0

    def bag(self, log_ratios: FloatArray) -> Bag:
        length = len(log_ratios)
        count = min(self.count, length)
        if length * count > _MOST_PRODUCTS:
            loud = VaryingShare((count / length,), (1.0,)).bag(log_ratios)
        else:
            loud = _subsets(log_ratios, count)
        if self.silent == 0:
            return loud
        heard = np.log1p(-self.silent) + loud.log_ratio
        total = float(np.logaddexp(np.log(self.silent), heard))
        return Bag(total, np.exp(heard - total) * loud.chances)


@dataclass(frozen=True)
class VaryingShare:
    """Each token with a probability that is one of `shares` (k,), the same in a bag.

    >>> VaryingShare((0.5,), (1.0,)).bag(np.log([1.0, 3.0])).chances.round(12).tolist()
    [0.5, 0.75]
    """

    shares: tuple[float, ...]
    weights: tuple[float, ...]

    def bag(self, log_ratios: FloatArray) -> Bag:
        shares = np.array(self.shares)[:, None]
        more = np.expm1(np.minimum(log_ratios, _MOST_LOG))
        with np.errstate(divide="ignore"):
            heights = np.log(self.weights) + np.log1p(shares * more).sum(axis=1)
        total = float(logsumexp(heights))
        chances = shares * (1 + more) / (1 + shares * more)
        return Bag(total, np.exp(heights - total) @ chances)


def _subsets(log_ratios: FloatArray, count: int) -> Bag:
    """All subsets of `count` tokens alike."""
    log_sum, chances = carrier_chances(log_ratios, count)
    return Bag(float(log_sum - log_choose(len(log_ratios), count)), chances)


class Varying(NamedTuple):
    """The likeliest signal of varying share."""

    shift: float
    width: float
    carriers: VaryingShare
    height: float  # log likelihood of all bags


def fit_varying(levels: Levels, *, spread: bool) -> Varying:
    """By expectation–maximisation, from the shift of all tokens' mixture; τ free if `spread`."""
    length = float(np.median(levels.lengths))
    low = min(0.5 / length, _HIGHEST_SHARE / 2)
    shares = np.concatenate([[0.0], np.geomspace(low, _HIGHEST_SHARE, _SHARES)])
    weights = np.full(len(shares), 1 / len(shares))
    shift = max(float(Mixture.fit(histogram(levels.tokens[None])).shift[0]), _LEAST_SHIFT)
    width, height = 1.0, -np.inf
    counted = levels.counted / levels.counted.sum()
    for _ in range(_ROUNDS):
        ratios = levels.log_ratios(Signal(shift, width, 1, 0.0))
        more = np.expm1(np.minimum(ratios, _MOST_LOG))
        bags = np.stack(
            [np.add.reduceat(np.log1p(share * more), levels.starts) for share in shares]
        )
        with np.errstate(divide="ignore"):
            heights = np.log(weights)[:, None] + bags
        totals = logsumexp(heights, axis=0)
        before, height = height, float(levels.counted @ totals)
        if height - before < _RISE:
            law = VaryingShare(tuple(shares.tolist()), tuple(weights.tolist()))
            return Varying(shift, width, law, height)
        chances = np.zeros(len(more))
        posterior = np.exp(heights - totals)  # (shares, bags)
        for share, of_bags in zip(shares, posterior, strict=True):
            part = share * (1 + more) / (1 + share * more)
            chances += np.repeat(of_bags * levels.counted, levels.lengths) * part
        weights = posterior @ counted
        mass = max(float(chances.sum()), 1e-12)
        shift = max(float(chances @ levels.tokens) / mass, _LEAST_SHIFT)
        if spread:
            width = float(np.sqrt(max(float(chances @ (levels.tokens - shift) ** 2) / mass, 1.0)))
    raise ConvergenceError(
        f"TokenPosterior: the likelihood of the bags still rises by {height - before:g} after "
        f"{_ROUNDS} rounds, {_RISE:g} is required"
    )

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

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sparsetoken.bags.likelihood import Levels, Signal
from sparsetoken.bags.mixture import Mixture, histogram
from sparsetoken.model.places import carrier_chances, log_choose
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.errors import ConvergenceError

_MOST_PRODUCTS = 4_000_000  # of tokens and R, up to which e_R without each token is computed
_SHARES = 16  # beside 0; neighbours differ by less than their bags can tell
_HIGHEST_SHARE = 0.9
_MOST_LOG = 600.0  # a ratio beyond is as good as sure, and its exponential is a number
_ROUNDS, _RISE = 2000, 1e-2  # of expectation and maximisation; of the log likelihood, at the end
VARYING = 2  # parameters of a varying share: a place and a width, whatever the number of its atoms
_LEAST_SHIFT = 0.05  # of noise that is cut in two: below it nothing is told apart


class Bag(NamedTuple):
    """What a bag's ratios say."""

    log_ratio: float  # log P(bag)/P(noise) of a positive bag
    chances: FloatArray  # (L,), that a token carries the signal, if the bag is positive


class ManyBags(NamedTuple):
    """What the ratios of all of them say."""

    log_ratios: FloatArray  # (n,), log P(bag)/P(noise) of a positive bag
    chances: FloatArray  # (N,), that a token carries the signal, if its bag is positive
    shares: FloatArray  # (k, n), the posterior of each share; none where there are no shares


class Carriers(ABC):
    """A law of how many tokens carry the signal in a positive bag."""

    @abstractmethod
    def bags(self, log_ratios: FloatArray, lengths: IntArray) -> ManyBags:
        """Of bags one after the other, from the log ratios of all tokens (N,)."""

    def bag(self, log_ratios: FloatArray) -> Bag:
        """Of one bag, from the log ratios of its tokens (L,)."""
        bag = self.bags(log_ratios, np.array([len(log_ratios)]))
        return Bag(float(bag.log_ratios[0]), bag.chances)

    def learned(self, carried: ManyBags, counted: FloatArray) -> Carriers:
        """The likelier law, by what it says of bags of these weights, of sum 1."""
        return self


@dataclass(frozen=True)
class FixedCount(Carriers):
    """R tokens, or none with probability `silent`.

    >>> FixedCount(1).bag(np.log([1.0, 3.0])).chances.round(12).tolist()
    [0.25, 0.75]
    """

    count: int
    silent: float = 0.0

    def bags(self, log_ratios: FloatArray, lengths: IntArray) -> ManyBags:
        starts = np.cumsum(lengths) - lengths
        log_sums, chances = np.empty(len(lengths)), np.empty(len(log_ratios))
        for length in np.unique(lengths).tolist():
            alike, count = np.flatnonzero(lengths == length), min(self.count, length)
            step = max(1, _MOST_PRODUCTS // (length * count))
            for first in range(0, len(alike), step):
                own = alike[first : first + step]
                places = starts[own][:, None] + np.arange(length)
                log_sums[own], chances[places] = _subsets(log_ratios[places], count)
        if self.silent > 0:
            heard = np.log1p(-self.silent) + log_sums
            log_sums = np.logaddexp(np.log(self.silent), heard)
            chances *= np.repeat(np.exp(heard - log_sums), lengths)
        return ManyBags(log_sums, chances, np.empty((0, len(lengths))))


@dataclass(frozen=True)
class VaryingShare(Carriers):
    """Each token with a probability that is one of `shares` (k,), the same in a bag.

    >>> VaryingShare((0.5,), (1.0,)).bag(np.log([1.0, 3.0])).chances.round(12).tolist()
    [0.5, 0.75]
    """

    shares: tuple[float, ...]
    weights: tuple[float, ...]

    def bags(self, log_ratios: FloatArray, lengths: IntArray) -> ManyBags:
        starts = np.cumsum(lengths) - lengths
        more = np.expm1(np.minimum(log_ratios, _MOST_LOG))
        by_share = np.stack(
            [np.add.reduceat(np.log1p(share * more), starts) for share in self.shares]
        )
        with np.errstate(divide="ignore"):
            heights = np.log(self.weights)[:, None] + by_share
        totals = logsumexp(heights, axis=0)
        posterior = np.exp(heights - totals)
        chances = np.zeros(len(more))
        for share, of_bags in zip(self.shares, posterior, strict=True):
            chances += np.repeat(share * of_bags, lengths) / (1 + share * more)
        return ManyBags(totals, chances * (1 + more), posterior)

    def learned(self, carried: ManyBags, counted: FloatArray) -> VaryingShare:
        return replace(self, weights=tuple((carried.shares @ counted).tolist()))


def _subsets(log_ratios: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """log P(bag)/P(noise) (n,) and chances (n, L): all subsets of `count` tokens alike, or each
    token by itself where there are too many."""
    length = log_ratios.shape[1]
    if length * count > _MOST_PRODUCTS:
        alone = VaryingShare((count / length,), (1.0,)).bags(
            log_ratios.ravel(), np.full(len(log_ratios), length)
        )
        return alone.log_ratios, alone.chances.reshape(log_ratios.shape)
    log_sums, chances = carrier_chances(log_ratios, count)
    return log_sums - log_choose(length, count), chances


class Carried(NamedTuple):
    """The likeliest signal, with carriers of one kind."""

    shift: float
    width: float
    carriers: Carriers
    height: float  # log likelihood of all bags


def fit_varying(levels: Levels, *, spread: bool) -> Carried:
    """Of varying share, from the shift of all tokens' mixture; τ free if `spread`."""
    length = float(np.median(levels.lengths))
    low = min(0.5 / length, _HIGHEST_SHARE / 2)
    shares = np.concatenate([[0.0], np.geomspace(low, _HIGHEST_SHARE, _SHARES)])
    weights = np.full(len(shares), 1 / len(shares))
    shift = max(float(Mixture.fit(histogram(levels.tokens[None])).shift[0]), _LEAST_SHIFT)
    carriers = VaryingShare(tuple(shares.tolist()), tuple(weights.tolist()))
    return refit(levels, Carried(shift, 1.0, carriers, -np.inf), spread=spread)


def refit(levels: Levels, start: Carried, *, spread: bool) -> Carried:
    """By expectation–maximisation from a start, with its kind of carriers; τ free if `spread`."""
    signal, counted = start._replace(height=-np.inf), levels.counted / levels.counted.sum()
    for _ in range(_ROUNDS):
        shift, width, carriers, before = signal
        carried = carriers.bags(levels.log_ratios(Signal(shift, width, 1, 0.0)), levels.lengths)
        height = float(levels.counted @ carried.log_ratios)
        if height - before < _RISE:
            return signal._replace(height=height)
        chances = carried.chances * np.repeat(levels.counted, levels.lengths)
        mass = max(float(chances.sum()), 1e-12)
        shift = max(float(chances @ levels.tokens) / mass, _LEAST_SHIFT)
        if spread:
            width = float(np.sqrt(max(float(chances @ (levels.tokens - shift) ** 2) / mass, 1.0)))
        signal = Carried(shift, width, carriers.learned(carried, counted), height)
    raise ConvergenceError(
        f"TokenPosterior: the likelihood of the bags still rises by {height - before:g} after "
        f"{_ROUNDS} rounds, {_RISE:g} is required"
    )

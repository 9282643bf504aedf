r"""How many tokens are shifted, and by how much: (ρ, δ) of (1−ρ)N(0, 1) + ρN(δ, 1), δ > 0.

Maximum likelihood on histograms, many of them at once. For each δ of a grid the likelihood is
concave in ρ, so that its maximum is found by bisection and none is missed; a few steps of
expectation–maximisation then polish the best point of the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError

_WIDTH = 0.05  # of a bin, in standard deviations
_LOWEST, _CORE, _HIGHEST = -8.0, 10.0, 1e6  # values beyond are counted at the ends
_RATIO = 1.005  # of bins above the core
_SHIFTS = 48
_BISECTIONS = 16  # of a share: 1.5e-5
_POLISH, _RISE = 5000, 1e-4  # rounds at most; what is left of a log likelihood, about


@dataclass(frozen=True, eq=False)
class Mixture:
    """Shares ρ and shifts δ, one for each histogram."""

    share: FloatArray
    shift: FloatArray

    @classmethod
    def fit(cls, counts: FloatArray, share: float | None = None) -> Mixture:
        """The likeliest, for histograms (k, bins) as `histogram` makes them; with ρ given or free.

        >>> rng = np.random.default_rng(0)
        >>> values = rng.standard_normal(40_000) + 3.0 * (rng.random(40_000) < 0.1)
        >>> mixture = Mixture.fit(histogram(values[None]))
        >>> round(float(mixture.share[0]), 2), round(float(mixture.shift[0]), 1)
        (0.1, 3.0)
        """
        used = np.flatnonzero(counts.any(axis=0))
        at, counts = centres()[used], counts[:, used]
        shifts = np.geomspace(0.05, max(float(at[-1]), 1.0), _SHIFTS)
        gain = shifts[:, None] * at - 0.5 * shifts[:, None] ** 2  # (shifts, bins), log ratio
        ratio = np.expm1(np.minimum(gain, 60.0))
        best = [cls._best(row, gain, ratio, share) for row in counts]
        shares, places = zip(*best, strict=True)
        return cls(np.array(shares), shifts[list(places)])._polished(at, counts, share)

    @staticmethod
    def _best(
        counts: FloatArray, gain: FloatArray, ratio: FloatArray, share: float | None
    ) -> tuple[float, int]:
        """The best share, and the number of its shift."""
        low, high = np.zeros(len(gain)), np.ones(len(gain))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            with np.errstate(divide="ignore"):
                rising = (ratio / (1 + middle[:, None] * ratio)) @ counts > 0
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        ends = np.where(high == 1.0, 1.0, 0.5 * (low + high))
        shares = ends if share is None else np.full(len(gain), share)
        values = _log_likelihoods(gain, shares) @ counts
        best = int(np.argmax(values))
        return float(shares[best]), best

    def _polished(self, at: FloatArray, counts: FloatArray, fixed: float | None) -> Mixture:
        """By expectation and maximisation, which only rises, until it rises by less than
        `_RISE`: with nine tenths of the information missing, a hundredth of a standard error."""
        share, shift, total = self.share, self.shift, counts.sum(axis=1)
        height = self._height(at, counts)
        for _ in range(_POLISH):
            shifted = counts * Mixture(share, shift).chance(at)
            mass = np.maximum(shifted.sum(axis=1), 1e-12)
            shift = np.maximum(shifted @ at / mass, 0.0)
            if fixed is None:
                share = np.minimum(mass / total, 1.0)
            before, height = height, Mixture(share, shift)._height(at, counts)
            if np.all(height - before < _RISE):
                return Mixture(share, shift)
        raise ConvergenceError(
            "estimate_task: the likelihood of the mixture still rises by "
            f"{(height - before).max():g} after {_POLISH} rounds, {_RISE:g} is required"
        )

    def _height(self, at: FloatArray, counts: FloatArray) -> FloatArray:
        """The log likelihood of each histogram, (k,)."""
        return np.einsum("kb,kb->k", counts, np.maximum(self.log_ratio(at[None]), -1e3))

    def chance(self, values: FloatArray) -> FloatArray:
        """Probability (k, N) that a value is of a shifted token."""
        share, shift = self.share[:, None], self.shift[:, None]
        with np.errstate(divide="ignore"):
            odds = np.log(share) - np.log1p(-share) + shift * values - 0.5 * shift**2
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -700, 700))), dtype=float)

    def log_ratio(self, values: FloatArray) -> FloatArray:
        """log of the density of the mixture over that of N(0, 1), (k, N)."""
        shift = self.shift[:, None]
        return _log_likelihoods(shift * values - 0.5 * shift**2, self.share)


def _log_likelihoods(gain: FloatArray, share: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        noise, signal = np.log1p(-share)[:, None], np.log(share)[:, None]
    return np.asarray(np.logaddexp(noise, signal + gain), dtype=float)


@lru_cache
def edges() -> FloatArray:
    """Ends of the bins: of one width up to the core's end, then of one ratio."""
    core = np.linspace(_LOWEST, _CORE, round((_CORE - _LOWEST) / _WIDTH) + 1)
    count = math.ceil(math.log(_HIGHEST / _CORE) / math.log(_RATIO))
    return np.concatenate([core, _CORE * _RATIO ** np.arange(1, count + 1)])


def centres() -> FloatArray:
    """Middles of the bins."""
    return 0.5 * (edges()[1:] + edges()[:-1])


def histogram(values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Counts (k, bins) of values (k, N), with weights (k, N)."""
    bins = len(edges()) - 1
    place = ((np.clip(values, _LOWEST, _CORE) - _LOWEST) / _WIDTH).astype(int)
    far = values >= _CORE
    if far.any():
        beyond = np.log(np.minimum(values[far], _HIGHEST) / _CORE) / math.log(_RATIO)
        place[far] = round((_CORE - _LOWEST) / _WIDTH) + beyond.astype(int)
    place = np.minimum(place, bins - 1) + bins * np.arange(len(values))[:, None]
    flat = None if weights is None else weights.ravel()
    counts = np.bincount(place.ravel(), flat, minlength=bins * len(values))
    return counts.reshape(len(values), bins).astype(float)

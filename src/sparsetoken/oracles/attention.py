r"""The attention oracle, sampled: T = ⟨softmax(τg), g⟩ against c, at the best (τ, c).

One token is integrated out, so that estimates are smooth in θ, τ and c. With S₀ = Σe^{τg} and
S₁ = Σge^{τg} over the other tokens and y = g − c for the one,

    T > c  ⟺  τy e^{τy} > ρ = τ(cS₀ − S₁)e^{−τc}
           ⟺  y > W₀(ρ)/τ,  or  −1/e < ρ < 0 and y < W₋₁(ρ)/τ,  or  ρ ≤ −1/e   (W: Lambert).

In a positive sample the one is a token that carries the signal; in a negative one it is the
largest, N(0,1) above the second largest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, wrightomega

from sparsetoken.model.cuts import Cut, smooth_cut
from sparsetoken.model.task import Task
from sparsetoken.oracles.exact import MeanOrMaximum
from sparsetoken.oracles.extremes import (
    Rest,
    SoftmaxSums,
    mean_of_replicates,
    rows_of,
    softmax_sums,
)
from sparsetoken.oracles.thresholds import sampled_threshold
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.estimate import Estimate

_FEW = 1 << 10  # draws for first looks
_SHARPEST = 30.0  # the largest finite τ tried; its errors are within 1e-5 of the maximum's


class _Sums(NamedTuple):
    """What a positive and a negative sample are to the attention statistic, one token missing."""

    sharpness: float
    strength: float
    positive: SoftmaxSums
    negative: SoftmaxSums
    lower: FloatArray


@dataclass(frozen=True)
class AttentionOracle:
    """T = ⟨softmax(τg), g⟩ against c; τ = 0, the mean, and τ = ∞, the maximum, are exact."""

    task: Task
    rest: Rest

    def error(self, strength: float) -> Estimate:
        """The mean's or the maximum's, unless a finite τ is better beyond its standard error.

        A τ near the largest that is tried only repeats the maximum.
        """
        exact = MeanOrMaximum(self.task).error(strength)
        if strength == 0:
            return exact
        sampled = self._sampled(strength)
        better = sampled + sampled.standard_error < exact
        return sampled if better and (sampled.sharpness or 0.0) < _SHARPEST / 2 else exact

    def threshold(self, error: float) -> Estimate:
        exact = MeanOrMaximum(self.task).threshold(error)
        if self.error(float(exact)).standard_error == 0:
            return exact
        return min(exact, sampled_threshold(self._sampled, error, guess=exact))

    def _sampled(self, strength: float, few: bool = False) -> Estimate:
        """The best finite τ: on a grid with few draws, refined with more, evaluated with all.

        The error may have two valleys in τ, one of them at τ = ∞. Up to two on the grid, if they
        may be the lowest, are refined.
        """
        from scipy.optimize import minimize_scalar

        grid = np.append(0.0, np.geomspace(0.03, _SHARPEST, 13))
        draws = rows_of(self.rest, slice(_FEW))
        losses = [self._best_cut(_sums(draws, tau, strength)).cost for tau in grid]
        lowest = int(np.argmin(losses))
        if few:
            return Estimate(losses[lowest], sharpness=grid[lowest])
        draws = rows_of(self.rest, slice(8 * _FEW))
        refined: dict[float, Cut] = {}

        def loss(log_sharpness: float) -> float:
            tau = math.exp(log_sharpness) - 0.01  # so that τ = 0 is inside
            refined[tau] = self._best_cut(_sums(draws, tau, strength))
            return refined[tau].cost

        last = len(grid) - 1
        valleys = [i for i in range(last) if losses[i] <= min(losses[max(i - 1, 0) : i + 2])]
        for i in {lowest, *sorted(valleys, key=lambda i: losses[i])[:2]}:
            if losses[i] <= 1.05 * losses[lowest]:
                low, high = np.log(grid[[max(i - 1, 0), min(i + 1, last)]] + 0.01).tolist()
                minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 0.03})
        tau = min(refined, key=lambda tau: refined[tau].cost)
        sums = _sums(self.rest, tau, strength)
        half = len(sums.lower) // 2
        # c for one half of the draws comes from the other half: it cannot fit their noise
        one, two = rows_of(sums, slice(half)), rows_of(sums, slice(half, None))
        parts = [
            _losses(here, self.task.prevalence, self._best_cut(there).threshold)
            for here, there in ((one, two), (two, one))
        ]
        return mean_of_replicates(np.concatenate(parts), tau)

    def _best_cut(self, sums: _Sums) -> Cut:
        """On a grid with few draws, then refined with all."""

        def loss(cut: float, some: _Sums = sums) -> float:
            return float(_losses(some, self.task.prevalence, cut).mean())

        few = rows_of(sums, slice(_FEW // 2))
        statistics = _statistics(few)
        low, high = statistics.min(), statistics.max()
        cuts = np.linspace(low, high + 0.3 * (high - low), 30)
        losses = np.array([loss(cut, few) for cut in cuts])
        # two steps to either side: few draws do not tell neighbours apart
        return smooth_cut(loss, cuts, losses, 0.02 * (cuts[1] - cuts[0]), reach=2)


def _sums(rest: Rest, sharpness: float, strength: float) -> _Sums:
    """The mean (τ = 0) is taken as τ = 1e-9, which spares every formula its limit."""
    sharpness = max(sharpness, 1e-9)
    signal, noise = softmax_sums(rest.signal, sharpness), softmax_sums(rest.noise, sharpness)
    positive = noise.joined(signal.shifted(strength, sharpness))
    negative = softmax_sums(rest.negative, sharpness)
    return _Sums(sharpness, strength, positive, negative, rest.lower)


def _statistics(sums: _Sums) -> FloatArray:
    """Values of T in both classes, the missing token drawn."""
    points = np.random.default_rng(0).random((2, len(sums.lower)))
    signal = sums.strength + ndtri(points[0])
    noise = -ndtri(points[1] * ndtr(-sums.lower))
    tau = sums.sharpness
    whole_samples = [
        part.joined(SoftmaxSums(tau * token, token)).mean
        for part, token in ((sums.positive, signal), (sums.negative, noise))
    ]
    return np.concatenate(whole_samples)


def _losses(sums: _Sums, prevalence: float, cut: float) -> FloatArray:
    """π P₊(T < c | rest) + (1−π) P₋(T > c | rest) of every draw."""
    low, high = _interval(sums.positive, sums.sharpness, cut)
    miss = ndtr(high - sums.strength) - ndtr(low - sums.strength)
    low, high = _interval(sums.negative, sums.sharpness, cut)
    above = ndtr(-np.maximum(low, sums.lower)) - ndtr(-np.maximum(high, sums.lower))
    return np.asarray(prevalence * miss + (1 - prevalence) * (1 - above / ndtr(-sums.lower)))


def _interval(sums: SoftmaxSums, sharpness: float, cut: float) -> tuple[FloatArray, FloatArray]:
    """(low, high): T ≤ c where the missing token lies between them (equal where it nowhere is)."""
    gap = cut - sums.mean
    with np.errstate(divide="ignore"):
        log_rho = math.log(sharpness) + np.log(np.abs(gap)) + sums.log_total - sharpness * cut
    up = gap >= 0  # the sign of ρ
    upper, lower = np.empty_like(gap), np.full_like(gap, -np.inf)
    upper[up] = wrightomega(log_rho[up])
    upper[~up], lower[~up] = _negative_branches(-log_rho[~up])
    return cut + lower / sharpness, cut + upper / sharpness


def _negative_branches(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """W₀ and W₋₁ at −e^{−a}: the roots −u of u − log u = a; both −1 for a ≤ 1.

    Newton from the expansions at the branch point, in log u for the smaller root: three steps
    leave an error of 1e-12 for every a.
    """
    none = a <= 1
    a = np.maximum(a, 1 + 1e-12)
    p = np.sqrt(2 * (a - 1))
    small = -np.minimum(p + p**2 / 6, 700.0)  # log u
    large = 1 + p + p**2 / 3
    for _ in range(3):
        u = np.exp(small)
        small -= (u - small - a) / (u - 1)
        large *= (np.log(large) + a - 1) / (large - 1)
    return np.where(none, -1.0, -np.exp(small)), np.where(none, -1.0, -large)

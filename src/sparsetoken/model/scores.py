r"""Test metrics of a linear readout: the two classes' scores are mixtures of Gaussians.

Under a law a test sample scores μ_i + d_i G, with μ_i = Σ_k m_k w_k + b and d_i = σ_i r for atom i:

    error             Σ_i p_i Φ(−y_i μ_i / d_i)
    ROC at c          (P₋(score > c), P₊(score > c))
    AUC               Σ_{i∈+, j∈−} p_i p_j Φ((μ_i − μ_j) / √(d_i² + d_j²)),  Σp = 1 in each class
    average precision ∫ πTPR/(πTPR + (1−π)FPR) dTPR

Rates use every atom. AUC and average precision, which compare many with many, first merge atoms of
nearly equal mean and deviation, keeping mean and variance. Where atoms are draws, every metric is
an `Estimate` whose standard error is the spread of the metric over 16 parts of them, divided by 4.
For quasi-random draws that is an upper estimate: from about the spread between independent clouds
up to some ten times it, where few tokens make the cloud very even (tests/model/test_scores.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from sparsetoken.model.cuts import Cut, counted_cut, smooth_cut
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real, whole
from sparsetoken.support.estimate import Estimate

_STRATA, _STEPS = 32, 200  # of deviations and of means, at most, when atoms are merged
_FEW = 256  # atoms that are compared pair by pair as they are
_MOST_CUTS, _MOST_RATES = 1 << 16, 1 << 20  # thresholds tried, and those times atoms
_QUANTILES = 1 << 12  # that represent a mixture
_PARTS = 16  # of draws, for a standard error


class Mixture(NamedTuple):
    """Weighted Gaussians on the line: the scores of one class."""

    mean: FloatArray
    deviation: FloatArray
    weight: FloatArray

    def part(self, place: int) -> Mixture:
        """One of the parts of a mixture of draws; the whole of a few exact atoms."""
        size = len(self.mean) // _PARTS
        if size < 2:
            return self
        rows = slice(place * size, (place + 1) * size)
        weight = self.weight[rows]
        return Mixture(self.mean[rows], self.deviation[rows], weight / weight.sum())

    def above(self, threshold: ArrayLike) -> FloatArray:
        """P(score > c) for each c, a tie counting half; any shape of thresholds."""
        flat = np.atleast_1d(np.asarray(threshold, dtype=float)).ravel()
        result = np.empty(len(flat))
        block = max(1, (1 << 21) // len(self.mean))
        for start in range(0, len(flat), block):
            gap = self.mean - flat[start : start + block, None]  # (block, atoms)
            result[start : start + block] = phi_ratio(gap, self.deviation) @ self.weight
        return result.reshape(np.shape(threshold))

    def below(self, threshold: ArrayLike) -> FloatArray:
        """P(score < c) for each c, a tie counting half: small ones without loss of digits."""
        return Mixture(-self.mean, self.deviation, self.weight).above(-np.asarray(threshold))

    def stratified(self) -> FloatArray:
        """Scores that represent the mixture: quantiles of each Gaussian, shifted from one to the
        next by the golden ratio where atoms are many."""
        count = max(1, _QUANTILES // len(self.mean))
        shift = (np.arange(len(self.mean)) * 0.6180339887498949) % 1.0
        levels = (np.arange(count) + np.maximum(shift[:, None], 1e-9)) / count
        return (self.mean[:, None] + self.deviation[:, None] * ndtri(levels)).ravel()

    def quantile(self, upper: float) -> float:
        """The threshold c with P(score > c) = upper, to rounding."""
        from scipy.optimize import brentq

        low = float(np.min(self.mean - 40 * self.deviation))  # Φ(−40) is zero in floats
        high = float(np.max(self.mean + 40 * self.deviation))

        def excess(threshold: float) -> float:
            return float(self.above(threshold)) - upper

        small = self.merged()
        if len(small.mean) < len(self.mean):  # a bracket around what few Gaussians say
            guess, width = small.quantile(upper), 1e-6 * (high - low)
            # each ends at the end of the mixture: log₁₆ 10⁶ = 5 steps
            while low < guess - width and excess(guess - width) <= 0:
                width *= 16
            low = max(low, guess - width)
            while guess + width < high and excess(guess + width) >= 0:
                width *= 16
            high = min(high, guess + width)
        if excess(low) <= 0 or excess(high) >= 0:  # all in one place, or no such level
            return low if excess(low) <= 0 else high
        return float(brentq(excess, low, high, xtol=1e-300, rtol=8.9e-16, maxiter=500))

    def merged(self) -> Mixture:
        """Neighbours in (deviation, mean) become one Gaussian, far fewer than the atoms.

        Deviations are cut in equal ratios, means in steps of 0.4 deviations, which a Gaussian of
        the same mean and variance hides. Deviations too small for that are not told apart.
        """
        if len(self.mean) <= _FEW:
            return self
        logs = np.log(np.maximum(self.deviation, np.finfo(float).tiny))
        low, ratio = logs.min(), (logs.max() - logs.min()) / _STRATA
        stratum = np.minimum((logs - low) / max(ratio, 1e-300), _STRATA - 1).astype(int)
        base, extent = self.mean.min(), np.ptp(self.mean)
        step = 0.4 * np.exp(low + ratio * np.arange(_STRATA))
        stratum = np.maximum(stratum, np.count_nonzero(step < extent / _STEPS) - 1)
        step = np.maximum(step, extent / _STEPS)
        place = np.zeros(len(logs), int)
        if extent > 0:
            place = np.minimum((self.mean - base) / step[stratum], _STEPS - 1).astype(int)
        cell = stratum * _STEPS + place
        weight: FloatArray = np.bincount(cell, self.weight).astype(float)
        occupied = weight > 0
        mean = np.bincount(cell, self.weight * self.mean)[occupied] / weight[occupied]
        spread = (self.mean - mean[(np.cumsum(occupied) - 1)[cell]]) ** 2 + self.deviation**2
        variance = np.bincount(cell, self.weight * spread)[occupied] / weight[occupied]
        return Mixture(mean, np.sqrt(variance), weight[occupied])


@dataclass(frozen=True, eq=False)
class Scores:
    """The distribution of scores in each class, and every metric that follows from it.

    `sampled` says that the atoms of at least one class are draws, in order: then metrics have
    standard errors.

    >>> one = np.ones(1)
    >>> scores = Scores(Mixture(one, one, one), Mixture(-one, one, one), prevalence=0.5)
    >>> round(scores.test_error, 6), round(scores.auc, 6), round(scores.sensitivity(0.9), 6)
    (0.158655, 0.92135, 0.76376)
    """

    positive: Mixture
    negative: Mixture
    prevalence: float
    sampled: bool = False

    def _estimate(self, value: float, metric: Callable[[Scores], float]) -> Estimate:
        """A value with the standard error of the metric it is the value of."""
        if not self.sampled:
            return Estimate(value)
        of = self.positive, self.negative, self.prevalence
        return Estimate(value, partial(_spread_over_parts, metric, *of))

    @classmethod
    def always(cls, label: float, prevalence: float) -> Scores:
        """Of a classifier that says one class of every sample: what one class alone teaches.

        >>> Scores.always(-1.0, prevalence=0.2).test_error, Scores.always(-1.0, 0.2).auc
        (0.2, 0.5)
        """
        same = Mixture(np.array([label]), np.zeros(1), np.ones(1))
        return cls(same, same, prevalence)

    @cached_property
    def false_positive_rate(self) -> Estimate:
        """P(score > 0) for a negative sample."""
        rate = float(self.negative.above(0.0))
        return self._estimate(rate, lambda scores: scores.false_positive_rate)

    @cached_property
    def false_negative_rate(self) -> Estimate:
        """P(score < 0) for a positive sample."""
        miss = phi_ratio(-self.positive.mean, self.positive.deviation) @ self.positive.weight
        return self._estimate(float(miss), lambda scores: scores.false_negative_rate)

    @property
    def test_error(self) -> Estimate:
        """π × false negative rate + (1 − π) × false positive rate."""
        rare = self.prevalence
        value = rare * self.false_negative_rate + (1 - rare) * self.false_positive_rate
        return self._estimate(value, lambda scores: scores.test_error)

    def roc(self, points: int = 201) -> tuple[FloatArray, FloatArray]:
        """False and true positive rates, both rising from 0 to 1; two arrays of `points`."""
        points = whole("roc", "points", points, least=3)
        low = min(self.positive.quantile(1 - 1e-6), self.negative.quantile(1 - 1e-6))
        high = max(self.positive.quantile(1e-6), self.negative.quantile(1e-6))
        thresholds = np.linspace(high, low, points - 2)
        rates = (side.above(thresholds) for side in (self.negative, self.positive))
        false, true = (np.concatenate([[0.0], rate, [1.0]]) for rate in rates)
        return false, true

    @cached_property
    def auc(self) -> Estimate:
        """Probability that a positive sample scores above a negative one."""
        up, down = self.positive.merged(), self.negative.merged()
        total: Any = 0.0
        for start in range(0, len(up.mean), 256):
            part = slice(start, start + 256)
            gap = up.mean[part, None] - down.mean
            total += (
                up.weight[part]
                @ phi_ratio(gap, np.hypot(up.deviation[part, None], down.deviation))
                @ down.weight
            )
        return self._estimate(float(total), lambda scores: scores.auc)

    @cached_property
    def average_precision(self) -> Estimate:
        """Area under the precision–recall curve at this prevalence, by the trapezoidal rule.

        Thresholds are quantiles of the positive scores, dense at both ends.
        """
        up, down = self.positive.merged(), self.negative.merged()
        count = int(np.clip((1 << 18) // (len(up.mean) + len(down.mean)), 512, 1 << 13))
        levels = 0.5 + 0.5 * np.cos(np.linspace(0, np.pi, count))  # from 1 down to 0
        scores = up.stratified()
        lowest = np.nextafter(scores.min(), -np.inf)  # below it, a tie would count half
        thresholds = np.append(np.quantile(scores, levels), lowest)
        recall = up.above(thresholds)
        true = self.prevalence * recall
        false = (1 - self.prevalence) * down.above(thresholds)
        precision = true / np.maximum(true + false, np.finfo(float).tiny)
        recall = np.concatenate([[0.0], recall, [1.0]])
        precision = np.concatenate([precision[:1], precision, precision[-1:]])
        area = float(np.diff(recall) @ (precision[1:] + precision[:-1]) / 2)
        return self._estimate(area, lambda scores: scores.average_precision)

    def best_cut(self, miss: float, alarm: float) -> Cut:
        """The threshold c with the least miss·P₊(score ≤ c) + alarm·P₋(score > c).

        Merged atoms find it, and all of them give its cost: it is flat there.
        """
        one_class = min(Cut(miss, math.inf), Cut(alarm, -math.inf))
        up, down = self.positive, self.negative
        deviation = float(max(up.weight @ up.deviation, down.weight @ down.deviation))
        if deviation == 0:
            gains = np.concatenate([miss * up.weight, -alarm * down.weight])
            cut = counted_cut(np.concatenate([up.mean, down.mean]), gains)
            return min(Cut(max(cut.cost + alarm, 0.0), cut.threshold), one_class)
        up, down = up.merged(), down.merged()
        ends = [side.mean + sign * 8 * side.deviation for side in (up, down) for sign in (-1, 1)]
        low, high = min(map(np.min, ends)), max(map(np.max, ends))
        # half a deviation tells valleys apart; fewer thresholds where atoms are many
        most = min(_MOST_CUTS, _MOST_RATES // (len(up.mean) + len(down.mean)))
        grid = np.linspace(low, high, int(np.clip(2 * (high - low) / deviation, 32, most)) + 1)

        def cost(threshold: Any, up: Mixture = up, down: Mixture = down) -> Any:
            return miss * up.below(threshold) + alarm * down.above(threshold)

        cut = smooth_cut(cost, grid, cost(grid), 1e-9 * deviation)
        exact = float(cost(cut.threshold, self.positive, self.negative))
        return min(Cut(exact, cut.threshold), one_class)

    def sensitivity(self, specificity: float) -> Estimate:
        """True positive rate at the threshold with the given true negative rate."""
        specificity = real("sensitivity", "specificity", specificity, above=0, below=1)
        threshold = self.negative.quantile(1 - specificity)
        rate = float(self.positive.above(threshold))
        return self._estimate(rate, lambda scores: scores.sensitivity(specificity))


def _spread_over_parts(
    metric: Callable[[Scores], float], positive: Mixture, negative: Mixture, prevalence: float
) -> float:
    """Standard error of a metric of draws, from its values on parts of them."""
    parts = range(_PARTS)
    values = [metric(Scores(positive.part(i), negative.part(i), prevalence)) for i in parts]
    return float(np.std(values, ddof=1) / math.sqrt(_PARTS))


def phi_ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Φ(numerator/denominator), its limit 0, ½ or 1 where the denominator is zero."""
    tied = (np.asarray(numerator) == 0) & (np.asarray(denominator) == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return ndtr(np.where(tied, 0.0, numerator / denominator))

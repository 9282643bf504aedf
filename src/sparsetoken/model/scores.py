r"""Test metrics of a linear readout: the two classes' scores are mixtures of Gaussians.

Under a law a test sample scores μ_i + d_i G, with μ_i = Σ_k m_k w_k + b and d_i = σ_i r for atom i:

    error             Σ_i p_i Φ(−y_i μ_i / d_i)
    ROC at c          (P₋(score > c), P₊(score > c))
    AUC               Σ_{i∈+, j∈−} p_i p_j Φ((μ_i − μ_j) / √(d_i² + d_j²)),  Σp = 1 in each class
    average precision ∫ πTPR/(πTPR + (1−π)FPR) dTPR

Error and operating points use every atom. What compares the classes pair by pair (AUC, average
precision) first merges atoms of nearly equal mean and deviation, keeping mean and variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sparsetoken.model.checks import real, whole

FloatArray = NDArray[np.float64]

_STRATA, _GROUPS = 8, 160  # merged components: deviations × means


class Mixture(NamedTuple):
    """Weighted Gaussians on the line: the scores of one class."""

    mean: FloatArray
    deviation: FloatArray
    weight: FloatArray

    def above(self, threshold: FloatArray) -> FloatArray:
        """P(score > c) for each c, a tie counting half; any shape of thresholds."""
        flat = np.atleast_1d(np.asarray(threshold, dtype=float)).ravel()
        result = np.empty(len(flat))
        block = max(1, (1 << 21) // len(self.mean))
        for start in range(0, len(flat), block):
            gap = self.mean - flat[start : start + block, None]  # (block, atoms)
            result[start : start + block] = phi_ratio(gap, self.deviation) @ self.weight
        return result.reshape(np.shape(threshold))

    def density(self, at: FloatArray) -> FloatArray:
        """Probability density at each point of a one-dimensional array."""
        gap = (at[:, None] - self.mean) / self.deviation
        return (np.exp(-0.5 * gap**2) / self.deviation) @ self.weight / np.sqrt(2 * np.pi)

    def span(self, reach: float = 9.0) -> tuple[float, float]:
        """An interval that holds all but Φ(−reach) of the scores."""
        return (
            float(np.min(self.mean - reach * self.deviation)),
            float(np.max(self.mean + reach * self.deviation)),
        )

    def quantile(self, upper: float) -> float:
        """The threshold c with P(score > c) = upper, by bisection to rounding."""
        low, high = self.span(40.0)
        for _ in range(200):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if self.above(np.float64(middle)) > upper:  # type: ignore[arg-type]
                low = middle
            else:
                high = middle
        return 0.5 * (low + high)

    def merged(self) -> Mixture:
        """At most 8 × 160 components: neighbours in (deviation, mean) become one Gaussian."""
        if len(self.mean) <= _STRATA * _GROUPS:
            return self
        parts = np.array_split(np.argsort(self.deviation, kind="stable"), _STRATA)
        parts = [part[np.argsort(self.mean[part], kind="stable")] for part in parts]
        # cosine spacing: fine groups in both tails, where the classes meet
        share = 0.5 - 0.5 * np.cos(np.linspace(0, np.pi, _GROUPS + 1)[1:-1])
        groups = [
            group
            for part in parts
            for group in np.split(part, np.unique((share * len(part)).astype(int)))
            if len(group)
        ]
        sizes = [len(group) for group in groups]
        starts = np.cumsum([0, *sizes[:-1]])
        order = np.concatenate(groups)
        p, m = self.weight[order], self.mean[order]
        weight = np.add.reduceat(p, starts)
        mean = np.add.reduceat(p * m, starts) / weight
        spread = (m - np.repeat(mean, sizes)) ** 2 + self.deviation[order] ** 2
        return Mixture(mean, np.sqrt(np.add.reduceat(p * spread, starts) / weight), weight)


@dataclass(frozen=True, eq=False)
class Scores:
    """The distribution of scores in each class, and every metric that follows from it."""

    positive: Mixture
    negative: Mixture
    prevalence: float

    @cached_property
    def false_positive_rate(self) -> float:
        """P(score > 0) for a negative sample."""
        return float(self.negative.above(np.float64(0.0)))  # type: ignore[arg-type]

    @cached_property
    def false_negative_rate(self) -> float:
        """P(score < 0) for a positive sample."""
        return float(phi_ratio(-self.positive.mean, self.positive.deviation) @ self.positive.weight)

    @property
    def test_error(self) -> float:
        """π × false negative rate + (1 − π) × false positive rate."""
        rare = self.prevalence
        return rare * self.false_negative_rate + (1 - rare) * self.false_positive_rate

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
    def auc(self) -> float:
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
        return float(total)

    @cached_property
    def average_precision(self) -> float:
        """Area under the precision–recall curve at this prevalence."""
        up, down = self.positive.merged(), self.negative.merged()
        if not np.all(up.deviation > 0):
            return self.prevalence  # a constant score: precision is the prevalence everywhere
        # panels between the positive class's quantiles, eight Gauss–Legendre nodes in each
        grid = np.linspace(*up.span(), 2001)
        share = up.above(grid)[::-1]
        levels = np.concatenate([np.logspace(-12, -2, 16), np.linspace(0.02, 0.98, 48)])
        levels = np.concatenate([levels, 1 - np.logspace(-2, -12, 16)])
        edges = np.interp(levels, share, grid[::-1])
        edges = np.concatenate([[grid[-1]], edges, [grid[0]]])[::-1]
        x, w = np.polynomial.legendre.leggauss(8)
        centre, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * (edges[1:] - edges[:-1])
        at = (centre[:, None] + half[:, None] * x).ravel()
        true, false = self.prevalence * up.above(at), (1 - self.prevalence) * down.above(at)
        precision = true / np.maximum(true + false, np.finfo(float).tiny)
        return float((half[:, None] * w).ravel() @ (precision * up.density(at)))

    def sensitivity(self, specificity: float) -> float:
        """True positive rate at the threshold with the given true negative rate."""
        specificity = real("sensitivity", "specificity", specificity, above=0, below=1)
        threshold = self.negative.quantile(1 - specificity)
        return float(self.positive.above(np.float64(threshold)))  # type: ignore[arg-type]


def phi_ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Φ(numerator/denominator), its limit 0, ½ or 1 where the denominator is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = numerator / denominator
    return ndtr(np.where(np.isnan(ratio), 0.0, ratio))

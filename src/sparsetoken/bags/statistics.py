r"""Statistics of bags: mean, standard deviation, least and greatest of each coordinate.

For bags whose tokens are not noise and a few shifted ones: what distinguishes them may be how far
tokens reach. Over the bags that are learned from, each statistic has mean 0 and variance 1. A
readout takes these points z themselves, or the features φ of a Gaussian kernel,

    ⟨φ(z), φ(z′)⟩ = exp(−rate·‖z − z′‖²),    rate = sharpness/(statistics that vary),

by a Cholesky factor of the kernel between landmarks: φ(z) = L⁻¹ k(landmarks, z), K = L Lᵀ. That is
K^(−1/2) k but for a rotation, which a ridge does not see. Landmarks are bags that are learned from,
each the one that those before explain least: all that add something, or the first so many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from sparsetoken.bags.bags import Bags, SummaryKernel, Walked
from sparsetoken.bags.poolings import Candidate, Pooling
from sparsetoken.bags.queries import Job
from sparsetoken.bags.summary import BagSummary, summarise
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Root, Whitening
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput

_STATISTICS = 4
_ROUNDING = 1e-12  # of its size, by which a statistic that does not vary may seem to
_MOST_LANDMARKS = 500  # a choice: the readout's fits take a time like their square
_EXPLAINED = 1e-6  # what is left of a bag's ‖φ‖² = 1 where it adds nothing

_nothing = partial(np.zeros, 0)


def statistics(bags: Walked, root: Root | None) -> FloatArray:
    """All of each bag (n, 4d), of tokens as they are or times a root."""
    summary = bags.summary
    if root is not None:
        summary = BagSummary.of(bags.run(WhitenedKernel(len(bags), bags.dim, root))["table"])
    parts = (summary.mean, summary.deviation, summary.least, summary.greatest)
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True, eq=False)
class WhitenedKernel(SummaryKernel):
    """Range and moments of each bag (6, n, d), of whitened tokens."""

    root: Root

    def of_part(self, bags: slice) -> WhitenedKernel:
        return self

    def __call__(self, part: Bags, device: str | None) -> FloatArray:
        table = np.empty((6, len(part), part.dim))
        for stack in part.stacks():
            whitened = np.asarray(stack.tokens, dtype=float) @ self.root  # the mean does not matter
            table[:, stack.index] = summarise(replace(stack, tokens=whitened))
        return table


@dataclass(frozen=True, eq=False, kw_only=True)
class Statistics(Pooling):
    """Standardised statistics of bags, or features of a kernel between them."""

    sharpnesses: tuple[float, ...]  # of the kernel, over the number of statistics; 0 is none
    whiten: bool  # whether statistics are those of whitened tokens
    centre: FloatArray = field(default_factory=_nothing)  # (4d,), of the statistics
    scale: FloatArray = field(default_factory=_nothing)  # (4d,), one over their deviation, or 0
    rate: float = 0.0  # of the kernel; 0 is none
    landmarks: FloatArray = field(default_factory=_nothing)  # (m, 4d)
    factor: FloatArray = field(default_factory=_nothing)  # (m, m), lower triangle
    names = ("centre", "scale", "rate", "landmarks", "factor")

    def candidates(
        self, jobs: Sequence[Job], sharpnesses: Sequence[float]
    ) -> Iterator[list[Candidate]]:
        for job in jobs:
            yield list(self._candidates(*job, sharpnesses))

    def _candidates(
        self, data: TrainingData, whitening: Whitening, sharpnesses: Sequence[float]
    ) -> Iterator[Candidate]:
        values = self._statistics(data.bags, whitening)
        centre, scale = _standard(values, data.weights)
        points = (values - centre) * scale
        for sharpness in sharpnesses:
            rate = sharpness / max(1, int(np.count_nonzero(scale)))
            landmarks, factor = _chosen(points[data.weights > 0], rate)
            pooling = replace(
                self, centre=centre, scale=scale, rate=rate, landmarks=landmarks, factor=factor
            )
            features = pooling._features(points)
            yield Candidate(sharpness, pooling, data.weights, features, features)

    def restored(self, length: int, dim: int, arrays: Mapping[str, FloatArray]) -> Pooling:
        shapes = {name: arrays[name].shape for name in self.names}
        count, wide = len(np.atleast_1d(arrays["landmarks"])), (_STATISTICS * dim,)
        expected = {
            "centre": wide, "scale": wide, "rate": (), "landmarks": (count, *wide),
            "factor": (count, count),
        }  # fmt: skip
        if shapes != expected:
            raise InvalidInput(f"arrays have shapes {shapes}, which do not fit dimension {dim}")
        rate = float(arrays["rate"])
        if rate < 0 or (rate > 0) != (count > 0) or np.any(np.diag(arrays["factor"]) <= 0):
            raise InvalidInput("rate, landmarks and factor are not those of a kernel")
        return replace(
            self,
            centre=arrays["centre"],
            scale=arrays["scale"],
            rate=rate,
            landmarks=arrays["landmarks"],
            factor=arrays["factor"],
        )

    def count(self, dim: int) -> int:
        return len(self.landmarks) if self.rate else _STATISTICS * dim

    def features(self, bags: Bags, whitening: Whitening) -> FloatArray:
        return self._features((self._statistics(bags, whitening) - self.centre) * self.scale)

    def contributions(self, bags: Bags, whitening: Whitening, readout: FloatArray) -> FloatArray:
        raise InvalidInput(
            "contributions of tokens are not defined for statistics: the spread, the least and the "
            "greatest of a bag are no sums over its tokens; attention has them"
        )

    def _statistics(self, bags: Walked, whitening: Whitening) -> FloatArray:
        return statistics(bags, whitening.root if self.whiten else None)

    def _features(self, points: FloatArray) -> FloatArray:
        """Of standardised statistics (n, 4d)."""
        from scipy.linalg import solve_triangular

        if not self.rate:
            return points
        kernel = _kernel(self.landmarks, points, self.rate)
        return np.asarray(solve_triangular(self.factor, kernel, lower=True).T)


def _standard(values: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (p,) of the rows with a weight, and one over their deviation; 0 where they are alike."""
    rows, share = values[weights > 0], weights[weights > 0] / weights.sum()
    apart = rows - rows[0]  # exactly 0 where all are alike
    unit = np.abs(apart).max(axis=0)
    unit = np.where(unit > 0, unit, 1.0)
    mean = share @ (apart / unit)
    centre = rows[0] + unit * mean
    deviation = unit * np.sqrt(share @ (apart / unit - mean) ** 2)
    varies = deviation > np.maximum(_ROUNDING * np.abs(centre), 1e-300)  # its inverse is finite
    return centre, np.where(varies, 1.0, 0.0) / np.where(varies, deviation, 1.0)


def _kernel(landmarks: FloatArray, points: FloatArray, rate: float) -> FloatArray:
    """exp(−rate·‖landmark − point‖²), (m, n)."""
    sizes = np.sum(landmarks**2, axis=1)[:, None] + np.sum(points**2, axis=1)
    return np.asarray(np.exp(-rate * np.maximum(sizes - 2 * landmarks @ points.T, 0.0)))


def _chosen(points: FloatArray, rate: float) -> tuple[FloatArray, FloatArray]:
    """Landmarks (m, p) among points (n, p), and the factor of their kernel: pivoted Cholesky."""
    if not rate:
        return points[:0], np.zeros((0, 0))
    # ties are broken by distance from the mean, not by the order in which bags are given
    points = points[np.argsort(-np.sum(points**2, axis=1), kind="stable")]
    most = min(len(points), _MOST_LANDMARKS)
    rows, left = np.zeros((most, len(points))), np.ones(len(points))
    chosen: list[int] = []
    while len(chosen) < most and left.max() > _EXPLAINED:
        pivot, done = int(left.argmax()), len(chosen)
        row = _kernel(points[pivot : pivot + 1], points, rate)[0]
        rows[done] = (row - rows[:done, pivot] @ rows[:done]) / np.sqrt(left[pivot])
        left -= rows[done] ** 2
        chosen.append(pivot)
        left[chosen] = 0.0
    index: IntArray = np.array(chosen)
    return points[index], np.tril(rows[: len(index), index].T)

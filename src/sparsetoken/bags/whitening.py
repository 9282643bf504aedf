r"""Whitening: tokens of mean 0 and covariance 1, so that their noise is what the theory has.

Coordinates are measured in a unit u of their own (`Units`), in which the covariance S of noise is
shrunk towards a multiple of the identity,

    root = diag(1/u)·((1 − s)S + s·level·1)^{−1/2},      level = mean of the diagonal of S,

so that neither signs nor units of the caller's coordinates matter. In deviations S is the
correlation; in sizes, what is rare stays small. s is what Ledoit and Wolf find right, or more.

Of fewer tokens than coordinates no (d, d) matrix is made: S = TᵀT has the eigenvalues of TTᵀ, and
what its eigenvectors do not span is only divided by the root of s·level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from sparsetoken.bags.bags import Bags, Walked
from sparsetoken.bags.noise import NoiseSums
from sparsetoken.bags.units import TARGETS, Target, Units
from sparsetoken.fitting.low_rank import LowRank
from sparsetoken.support.arrays import FloatArray

Root = FloatArray | LowRank


class Shrinking(NamedTuple):
    """How a covariance is shrunk."""

    target: Target | None  # the units in which it becomes spherical; None without whitening
    least: float  # part that is shrunk, at least


UNWHITENED = Shrinking(None, 0.0)


@dataclass(frozen=True, eq=False)
class Whitening:
    """x → rootᵀ(x − mean)."""

    mean: FloatArray  # (d,)
    root: Root  # (d, d)

    @classmethod
    def none(cls, mean: FloatArray) -> Whitening:
        """Removes the mean alone."""
        return cls(mean, LowRank.identity(len(mean)))

    def __call__(self, pooled: FloatArray) -> FloatArray:
        """Whitened, for rows that are averages of tokens."""
        return (pooled - self.mean) @ self.root

    def project(self, bags: Bags, direction: FloatArray) -> FloatArray:
        """⟨whitened token, direction⟩ of all tokens (N,)."""
        along = self.root @ direction
        return bags.project(along) - self.mean @ along

    def in_span(self, bags: Bags) -> tuple[Bags, FloatArray]:
        """Whitened bags of fewer tokens than coordinates, in coordinates of what these span; and
        its orthonormal basis (d, N)."""
        basis, coordinates = np.linalg.qr(self(np.asarray(bags.tokens, dtype=float)).T)
        return Bags(np.ascontiguousarray(coordinates.T), bags.offsets), basis


class Shrunk(NamedTuple):
    """Eigenvalues v become (1 − part)·v + part·level."""

    part: float
    level: float

    def roots(self, values: FloatArray, largest: float, count: int) -> FloatArray:
        """Of all of them; what is rounding beside the largest of so many becomes `level`."""
        shrunk, most = ((1 - self.part) * v + self.part * self.level for v in (values, largest))
        return np.sqrt(np.where(shrunk > most * count * np.finfo(float).eps, shrunk, self.level))


@dataclass(frozen=True, eq=False)
class Square:
    """A covariance of as many tokens as coordinates, or more, in any units: all of it."""

    matrix: FloatArray  # (d, d)

    @property
    def sizes(self) -> tuple[FloatArray, float]:
        """Its diagonal (d,), and the sum of the squares of all entries."""
        return np.diag(self.matrix), float(np.sum(self.matrix**2))

    def with_variances(self, variances: FloatArray) -> Square:
        """These on the diagonal (d,)."""
        matrix = self.matrix.copy()
        np.fill_diagonal(matrix, variances)
        return Square(matrix)

    def roots(self, unit: FloatArray, shrunk: Iterable[Shrunk]) -> Iterator[Root]:
        """For each way to shrink it, diag(unit)·covariance^{−1/2}."""
        values, vectors = np.linalg.eigh(self.matrix)
        for shrinking in shrunk:
            roots = shrinking.roots(values, values[-1], len(values))
            root = unit[:, None] * ((vectors / roots) @ vectors.T)
            root[:, unit == 0] = 0.0  # but for rounding it is
            yield root


@dataclass(frozen=True, eq=False)
class Wide:
    """A covariance diag(own) + TᵀT of fewer tokens T than coordinates."""

    tokens: FloatArray  # T (m, d), in any units, each times the root of its share
    gram: FloatArray  # TTᵀ (m, m)
    own: FloatArray  # (d,), not 0 only where all tokens are 0

    @classmethod
    def of(cls, tokens: FloatArray) -> Wide:
        return cls(tokens, tokens @ tokens.T, np.zeros(tokens.shape[1]))

    @property
    def sizes(self) -> tuple[FloatArray, float]:
        """Its diagonal (d,), and the sum of the squares of all entries."""
        return np.einsum("td,td->d", self.tokens, self.tokens), float(np.sum(self.gram**2))

    def with_variances(self, variances: FloatArray) -> Wide:
        """These on the diagonal (d,) where tokens are 0: elsewhere they are there."""
        return replace(self, own=np.where(self.sizes[0] > 0, 0.0, variances))

    def roots(self, unit: FloatArray, shrunk: Iterable[Shrunk]) -> Iterator[Root]:
        """For each way to shrink it, diag(unit)·covariance^{−1/2}."""
        values, turns = np.linalg.eigh(self.gram)
        kept = values > values[-1] * len(values) * np.finfo(float).eps
        values = values[kept]
        vectors = self.tokens.T @ (turns[:, kept] / np.sqrt(values))  # (d, r), of length 1
        largest = float(max(values.max(initial=0.0), self.own.max()))
        for shrinking in shrunk:
            alone, along, none = (
                1 / shrinking.roots(part, largest, len(self.own))
                for part in (self.own, values, np.zeros(1))
            )
            scaled = unit[:, None] * vectors * (along - none)
            yield LowRank(unit * alone, scaled, vectors)


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and covariance of tokens, and how much Ledoit and Wolf would shrink it."""

    units: Units
    covariances: dict[Target, Square | Wide]  # in the target's units
    shrinkage: dict[Target, float]

    @classmethod
    def of(cls, bags: Walked, weights: FloatArray, others: FloatArray | None = None) -> Moments:
        """From the tokens of bags with a weight (n,).

        Where these do not vary, units are those of bags with a weight in `others`.
        """
        (moments,) = cls.of_sets(bags, [weights], [weights if others is None else others])
        return moments

    @classmethod
    def of_sets(
        cls, bags: Walked, sets: Sequence[FloatArray], others: Sequence[FloatArray]
    ) -> Iterator[Moments]:
        """Of several sets of bags in one pass; a bag has one weight in all sets that have it."""
        units = [
            Units.of(bags, weights).or_else(Units.of(bags, rest))
            for weights, rest in zip(sets, others, strict=True)
        ]
        means = np.stack([unit.mean for unit in units])
        scales = np.stack([[unit.scale(target) for target in TARGETS] for unit in units])
        sums = NoiseSums.of(bags, sets, means, scales)
        for place, weights in enumerate(sets):
            wide = bags.lengths[weights > 0].sum() < bags.dim
            yield cls._of(units[place], sums, place, bags.count(weights), wide)

    @classmethod
    def _of(cls, units: Units, sums: NoiseSums, place: int, count: int, wide: bool) -> Moments:
        """Of one set, of so many tokens, from sums over all."""
        covariances: dict[Target, Square | Wide] = {}
        shrinkage: dict[Target, float] = {}
        for target, length in zip(TARGETS, sums.fourth[place], strict=True):
            setting = (place, units.mean, units.scale(target))
            covariance = (
                Wide.of(sums.tokens(*setting)) if wide else Square(sums.covariance(*setting))
            )
            shrinkage[target] = _ledoit_wolf(*covariance.sizes, float(length), count)
            # where noise does not vary there is no scale but that of the other coordinates
            covariances[target] = covariance.with_variances(units.ratio(target) ** 2)
        return cls(units, covariances, shrinkage)

    def whitening(self, target: Target = "deviations", least: float = 0.0) -> Whitening:
        """By the covariance shrunk so."""
        ((_, whitening),) = self.whitenings([Shrinking(target, least)])
        return whitening

    def whitenings(self, shrinkings: Sequence[Shrinking]) -> Iterator[tuple[Shrinking, Whitening]]:
        """For each, none of them without a target, the whitening by the covariance shrunk so."""
        for target, group in groupby(shrinkings, key=lambda shrinking: shrinking.target):
            assert target is not None
            same, ratio = list(group), self.units.ratio(target)
            level = float(np.mean(ratio[ratio > 0] ** 2)) if ratio.any() else 1.0
            shrunk = [
                Shrunk(max(self.shrinkage[target], shrinking.least), level) for shrinking in same
            ]
            roots = self.covariances[target].roots(self.units.scale(target), shrunk)
            for shrinking, root in zip(same, roots, strict=True):
                yield shrinking, Whitening(self.units.mean, root)


def _ledoit_wolf(diagonal: FloatArray, squares: float, fourth: float, count: int) -> float:
    """Part of a covariance of `count` tokens that is best replaced by a multiple of the identity.

    `squares` is the sum of the squares of its entries, `fourth` the mean of the fourth power of
    the tokens' length. O. Ledoit and M. Wolf, J. Multivariate Analysis 88 (2004), 365: noise of the
    covariance over its distance from the target.
    """
    live = int(np.count_nonzero(diagonal))
    apart = squares - float(diagonal.sum()) ** 2 / live if live else 0.0
    noise = (fourth - squares) / count
    return min(noise / apart, 1.0) if apart > 0 and noise > 0 else float(noise > 0)

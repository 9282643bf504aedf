r"""Whitening: tokens of mean 0 and covariance 1, so that their noise is what the theory has.

Coordinates are measured in a unit u of their own (`Units`), in which the covariance S of noise is
shrunk towards a multiple of the identity,

    root = diag(1/u)·((1 − s)S + s·level·1)^{−1/2},      level = mean of the diagonal of S,

so that neither signs nor units of the caller's coordinates matter. In deviations S is the
correlation; in sizes, what is rare stays small. s is what Ledoit and Wolf find right, or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.units import Units, inverse
from sparsetoken.support.arrays import FloatArray

Target = Literal["deviations", "sizes"]
TARGETS: tuple[Target, ...] = ("deviations", "sizes")


class Shrinking(NamedTuple):
    """How a covariance is shrunk."""

    target: Target | None  # the units in which it becomes spherical; None without whitening
    least: float  # part that is shrunk, at least


UNWHITENED = Shrinking(None, 0.0)


@dataclass(frozen=True, eq=False)
class Whitening:
    """x → rootᵀ(x − mean)."""

    mean: FloatArray  # (d,)
    root: FloatArray  # (d, d)

    @classmethod
    def none(cls, mean: FloatArray) -> Whitening:
        """Removes the mean alone."""
        return cls(mean, np.eye(len(mean)))

    def __call__(self, pooled: FloatArray) -> FloatArray:
        """Whitened, for rows that are averages of tokens."""
        return (pooled - self.mean) @ self.root

    def project(self, bags: Bags, direction: FloatArray) -> FloatArray:
        """⟨whitened token, direction⟩ of all tokens (N,)."""
        along = self.root @ direction
        return bags.project(along) - self.mean @ along


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and covariance of tokens, and how much Ledoit and Wolf would shrink it."""

    units: Units
    correlation: FloatArray  # (d, d); the covariance in units of deviations
    shrinkage: dict[Target, float]

    @classmethod
    def of(cls, bags: Bags, weights: FloatArray, others: FloatArray | None = None) -> Moments:
        """From the tokens of bags with a weight (n,).

        Where these do not vary, units are those of bags with a weight in `others`.
        """
        units = Units.of(bags, weights)
        if others is not None and not units.deviation.all():
            units = units.or_else(Units.of(bags, others))
        per_deviation = inverse(units.deviation)
        ratios = {target: _ratio(units, target) for target in TARGETS}
        squared = np.stack([ratio**2 for ratio in ratios.values()], axis=1)  # (d, targets)
        correlation = np.zeros((bags.dim, bags.dim))
        count, lengths = 0, np.zeros(len(TARGETS))  # ‖x‖⁴ on average
        for tokens, share in bags.counted(weights):
            tokens = (tokens - units.mean) * per_deviation
            correlation += (tokens * share[:, None]).T @ tokens
            lengths += share @ (tokens**2 @ squared) ** 2
            count += len(tokens)
        shrinkage = {
            target: _ledoit_wolf(np.outer(ratio, ratio) * correlation, length, count)
            for (target, ratio), length in zip(ratios.items(), lengths, strict=True)
        }
        # where noise does not vary there is no scale but that of the other coordinates
        np.fill_diagonal(correlation, 1.0)
        return cls(units, correlation, shrinkage)

    def whitening(self, target: Target = "deviations", least: float = 0.0) -> Whitening:
        """By the covariance shrunk so."""
        ((_, whitening),) = self.whitenings([Shrinking(target, least)])
        return whitening

    def whitenings(self, shrinkings: Sequence[Shrinking]) -> Iterator[tuple[Shrinking, Whitening]]:
        """For each, none of them without a target, the whitening by the covariance shrunk so."""
        for target, same in groupby(shrinkings, key=lambda shrinking: shrinking.target):
            assert target is not None
            ratio = _ratio(self.units, target)
            per_unit = ratio * inverse(self.units.deviation)
            level = float(np.mean(ratio[ratio > 0] ** 2)) if ratio.any() else 1.0
            values, vectors = np.linalg.eigh(np.outer(ratio, ratio) * self.correlation)
            for shrinking in same:
                part = max(self.shrinkage[target], shrinking.least)
                shrunk = (1 - part) * values + part * level
                floor = shrunk[-1] * len(shrunk) * np.finfo(float).eps
                shrunk = np.where(shrunk > floor, shrunk, level)
                root = per_unit[:, None] * ((vectors / np.sqrt(shrunk)) @ vectors.T)
                root[:, per_unit == 0] = 0.0  # but for rounding it is
                yield shrinking, Whitening(self.units.mean, root)


def _ratio(units: Units, target: Target) -> FloatArray:
    """Of deviation and the target's unit (d,)."""
    unit = units.deviation if target == "deviations" else units.size
    return units.deviation * inverse(unit)


def _ledoit_wolf(covariance: FloatArray, fourth: float, count: int) -> float:
    """Part of a covariance of `count` tokens that is best replaced by a multiple of the identity.

    `fourth` is the mean of the fourth power of their length. O. Ledoit and M. Wolf, J. Multivariate
    Analysis 88 (2004), 365: noise of the covariance over its distance from the target.
    """
    diagonal = np.diag(covariance)
    live = int(np.count_nonzero(diagonal))
    squares = float(np.sum(covariance**2))
    apart = squares - float(diagonal.sum()) ** 2 / live if live else 0.0
    noise = (fourth - squares) / count
    return min(noise / apart, 1.0) if apart > 0 and noise > 0 else float(noise > 0)

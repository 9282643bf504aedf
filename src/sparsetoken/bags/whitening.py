"""Whitening: tokens of mean 0 and covariance 1, so that their noise is what the theory has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.support.arrays import FloatArray

_MOST_IN_SHRINKAGE = 1 << 23  # numbers; of more tokens, evenly chosen ones give the shrinkage


@dataclass(frozen=True, eq=False)
class Whitening:
    """x → root·(x − mean)."""

    mean: FloatArray  # (d,)
    root: FloatArray  # (d, d), symmetric

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

    mean: FloatArray
    covariance: FloatArray
    shrinkage: float

    @classmethod
    def of(cls, bags: Bags, weights: FloatArray) -> Moments:
        """From the tokens of bags with a weight."""
        from sklearn.covariance import ledoit_wolf_shrinkage

        dim, total = bags.dim, float(weights @ bags.lengths)
        mean, second = np.zeros(dim), np.zeros((dim, dim))
        share = bags.spread(weights) / total
        counted = np.flatnonzero(share > 0)
        shift = np.asarray(bags.tokens[counted[0]], dtype=float)  # against cancellation
        for _, rows in bags.blocks():
            if not share[rows].any():
                continue
            tokens = np.asarray(bags.tokens[rows], dtype=float) - shift
            weighted = tokens * share[rows, None]
            mean += weighted.sum(axis=0)
            second += weighted.T @ tokens
        count = len(counted)
        step = -(-count * dim // _MOST_IN_SHRINKAGE)
        shrinkage = 0.0
        if count > 1:
            some = np.asarray(bags.tokens[counted[::step]], dtype=float)
            shrinkage = min(1.0, float(ledoit_wolf_shrinkage(some)) * len(some) / count)
        return cls(mean + shift, second - np.outer(mean, mean), shrinkage)

    def whitening(self, least: float = 0.0) -> Whitening:
        """By the covariance shrunk towards its mean variance, by at least so much."""
        dim, shrinkage = len(self.mean), max(self.shrinkage, least)
        level = float(np.trace(self.covariance)) / dim
        covariance = (1 - shrinkage) * self.covariance + shrinkage * level * np.eye(dim)
        values, vectors = np.linalg.eigh(covariance)
        # where noise does not vary there is no scale but that of the other directions
        floor = max(float(values[-1]), 0.0) * dim * np.finfo(float).eps
        values = np.where(values > floor, values, level if level > 0 else 1.0)
        return Whitening(self.mean, (vectors / np.sqrt(values)) @ vectors.T)

"""Passes over bags for what is different from token to token: along vectors, and weighted sums.

Numbers of tokens (N,) are held, tokens (N, d) are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sparsetoken.bags.bags import Arrays, Bags
from sparsetoken.bags.stacks import Stack
from sparsetoken.support.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TurnKernel:
    """(1/L) Xᵀ P X w of each bag of a part, for several w (q, n, d)."""

    along: FloatArray  # w (d, q)
    means: FloatArray  # of bags (n, d)
    words: ClassVar[str] = "queries of each bag"

    def of_part(self, bags: slice) -> TurnKernel:
        return replace(self, means=self.means[bags])

    def __call__(self, part: Bags, device: str | None) -> FloatArray:
        turned = np.empty((self.along.shape[1], len(part), part.dim))
        for stack in part.stacks(device):
            along, mean = (
                stack.on_device(values)
                for values in (self.along, self.means[stack.index][:, None])  # (d, q), (k, 1, d)
            )
            total = 0.0
            for tokens in stack.pieces():
                apart = tokens - mean
                total = total + (apart @ along).swapaxes(1, 2) @ apart  # (k, q, d)
            turned[:, stack.index] = stack.numbers(total / stack.length).swapaxes(0, 1)
        return turned

    def combined(self, results: Iterable[tuple[slice, FloatArray]]) -> Arrays:
        return {"sums": np.concatenate([turned for _, turned in results], axis=1)}


@dataclass(frozen=True, eq=False)
class LevelKernel:
    """⟨token, vector of its bag⟩ of all tokens of a part, for several vectors a bag (q, N)."""

    vectors: FloatArray  # (q, n, d)
    words: ClassVar[str] = "tokens along queries"

    def of_part(self, bags: slice) -> LevelKernel:
        return replace(self, vectors=self.vectors[:, bags])

    def __call__(self, part: Bags, device: str | None) -> FloatArray:
        levels = np.empty((len(self.vectors), len(part.tokens)))
        for stack in part.stacks(device):
            vectors = stack.on_device(self.vectors[:, stack.index].transpose(1, 2, 0))  # (k, d, q)
            along = [stack.numbers(tokens @ vectors) for tokens in stack.pieces()]
            levels[:, _rows(part.offsets, stack)] = np.concatenate(along, axis=1).transpose(2, 0, 1)
        return levels

    def combined(self, results: Iterable[tuple[slice, FloatArray]]) -> Arrays:
        return {"levels": np.concatenate([levels for _, levels in results], axis=1)}


@dataclass(frozen=True, eq=False)
class PoolKernel:
    """Σ_l a_l x_l of each bag of a part, for several weights of all tokens (q, n, d)."""

    weights: FloatArray  # a (q, N)
    offsets: IntArray  # of bags among tokens (n + 1,)
    words: ClassVar[str] = "weighted tokens"

    def of_part(self, bags: slice) -> PoolKernel:
        offsets = self.offsets[bags.start : bags.stop + 1]
        own = slice(int(offsets[0]), int(offsets[-1]))
        return replace(self, weights=self.weights[:, own], offsets=offsets - offsets[0])

    def __call__(self, part: Bags, device: str | None) -> FloatArray:
        pooled = np.empty((len(self.weights), len(part), part.dim))
        for stack in part.stacks(device):
            rows = _rows(self.offsets, stack)
            weights = stack.on_device(self.weights[:, rows].swapaxes(0, 1))  # (k, q, L)
            sums, start = 0.0, 0
            for tokens in stack.pieces():
                end = start + tokens.shape[1]
                sums, start = sums + weights[:, :, start:end] @ tokens, end
            pooled[:, stack.index] = stack.numbers(sums).swapaxes(0, 1)
        return pooled

    def combined(self, results: Iterable[tuple[slice, FloatArray]]) -> Arrays:
        return {"sums": np.concatenate([pooled for _, pooled in results], axis=1)}


def _rows(offsets: IntArray, stack: Stack) -> IntArray:
    """Where the tokens of a stack stand in their part (k, L)."""
    return np.asarray(offsets[stack.index][:, None] + np.arange(stack.length))

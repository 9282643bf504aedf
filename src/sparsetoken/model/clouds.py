"""Quasi-random clouds: scrambled Sobol points, as uniforms or as standard normals.

Another seed is another scramble, so that clouds of several seeds are independent replicates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from sparsetoken.support.arrays import FloatArray

Seed = int | Sequence[int] | np.random.SeedSequence

BLOCK = 1 << 23  # numbers held at once while a cloud is made: 64 MiB
_WIDEST = 21_201  # dimensions of scipy's Sobol sequences
_CELL = 2.0**-30  # scipy's Sobol points are multiples of it


def normal_cloud(width: int, seed: Seed, count: int) -> FloatArray:
    """Normals (count, width) of mean 0 and covariance 1, or nearly so where the count is not a
    power of two."""
    whole_net = 1 << (count - 1).bit_length()
    return np.concatenate(list(normal_blocks(width, seed, whole_net)))[:count]


def normal_blocks(
    width: int,
    seed: Seed,
    count: int,
    points_per_dim: float = 4,
    numbers: int = BLOCK,
    widest: int = _WIDEST,
) -> Iterator[FloatArray]:
    """Normals in blocks of about so many numbers; wider samples than `widest` are independent.

    A cloud that fits in one block, with so many points per dimension, is shifted and turned so that
    its mean is exactly 0 and its covariance exactly 1. That costs the tails: with 14 points per
    dimension, errors of 10 % become 9 %.
    """
    for points in _points(width, seed, count, numbers, widest):
        noise = ndtri(np.clip(points, 1e-15, 1 - 1e-15))
        if len(noise) == count >= points_per_dim * width:
            noise -= noise.mean(axis=0)
            root = np.linalg.cholesky(noise.T @ noise / count)
            noise = np.linalg.solve(root, noise.T).T
        yield noise


def kept_blocks(width: int, seed: int, count: int, points_per_dim: float) -> Iterator[FloatArray]:
    """The same, read-only and kept for the next call where it fits in memory."""
    if width * count <= BLOCK:
        return iter(_kept_blocks(width, seed, count, points_per_dim))
    return normal_blocks(width, seed, count, points_per_dim)


@lru_cache(maxsize=4)
def _kept_blocks(
    width: int, seed: int, count: int, points_per_dim: float
) -> tuple[FloatArray, ...]:
    blocks = tuple(normal_blocks(width, seed, count, points_per_dim))
    for block in blocks:
        block.setflags(write=False)
    return blocks


def uniform_cloud(width: int, seed: Seed, count: int, widest: int = _WIDEST) -> FloatArray:
    """Points (count, width) in the open cube: the middles of the cells of a net, or independent."""
    if width == 0:
        return np.empty((count, 0))
    (points,) = _points(width, seed, count, width * count, widest)
    return points + _CELL / 2 if width <= widest else np.maximum(points, 2.0**-53)


def _points(width: int, seed: Seed, count: int, numbers: int, widest: int) -> Iterator[FloatArray]:
    from scipy.stats import qmc  # heavy: only when something is drawn

    rng = np.random.default_rng(seed)
    net = qmc.Sobol(width, scramble=True, rng=rng) if width <= widest else None
    rows = min(count, 1 << max(numbers // width, 1).bit_length() - 1)
    for _ in range(0, count, rows):
        yield rng.random((rows, width)) if net is None else net.random(rows)

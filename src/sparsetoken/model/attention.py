r"""Attention weights on tokens, and the law of what they pool (section 5 of docs/theory.md).

The tokens enter through their projections on the query, g_l ~ N(θ s v_l, 1), s the cosine of query
and signal; the weights are a = softmax(τg), τ = β‖q‖. Along q̂ and ξ⊥ the pooled token is

    m_q̂ = ⟨a, g⟩,   m_ξ⊥ = √(1−s²) θ ⟨a, v⟩,   σ = ‖a‖.

All three are symmetric in the tokens, so the places of the signal may be taken to be the first R.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sparsetoken.model.arrays import Array, floats
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.task import FloatArray, Task

LONGEST = 20_000  # tokens in a sample of a law; Sobol sequences end soon after
_CLOUD = 1 << 15  # quasi-random points per class
_BLOCK = 1 << 23  # numbers held at once while a cloud is made: 64 MiB


def softmax(scores: Array) -> Array:
    """Softmax over the last axis, without overflow; arrays of any library."""
    xp, scores = floats(scores)
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def attention_coordinates(
    noise: FloatArray, signal: NDArray[Any], task: Task, cosine: float, sharpness: float
) -> tuple[FloatArray, FloatArray]:
    """Means (n, 2) and scales (n,) from the tokens' noise along q̂ and the places, (n, L) each.

    Places of shape (L,) are those of every sample.
    """
    scores = noise + task.strength * cosine * signal
    weights = softmax(sharpness * scores)
    along = np.einsum("nl,nl->n", weights, scores)
    caught = np.einsum("nl,nl->n", weights, np.broadcast_to(signal, weights.shape))
    across = math.sqrt(max(0.0, 1 - cosine**2)) * task.strength * caught
    return np.column_stack([along, across]), np.sqrt(np.einsum("nl,nl->n", weights, weights))


def first_places(task: Task) -> FloatArray:
    """The signal in the first R of L tokens, shape (L,)."""
    return (np.arange(task.length) < task.sparsity).astype(float)


def draw_coordinates(
    task: Task, labels: FloatArray, cosine: float, sharpness: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Means (n, 2) and scales (n,) of n samples with these labels, exact in law."""
    means, scales = np.empty((len(labels), 2)), np.empty(len(labels))
    rows = max(1, (_BLOCK >> 2) // task.length)
    for start in range(0, len(labels), rows):
        part = slice(start, start + rows)
        places = (labels[part, None] > 0) * first_places(task)
        noise = rng.standard_normal(places.shape)
        means[part], scales[part] = attention_coordinates(noise, places, task, cosine, sharpness)
    return means, scales


def attention_law(task: Task, cosine: float, sharpness: float) -> FeatureLaw:
    """The law as atoms, from quasi-random token noise."""
    sides = []
    for seed, places in ((1, first_places(task)), (2, np.zeros(task.length))):
        blocks = [
            attention_coordinates(noise, places, task, cosine, sharpness)
            for noise in _noise_cloud(task.length, seed)
        ]
        means, scales = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        sides.append((means, scales, np.full(len(scales), 1.0 / len(scales))))
    noisy = [False, True]
    return FeatureLaw.of_classes(task.prevalence, sides[0], sides[1], noisy, sampled=True)


cached_attention_law = lru_cache(maxsize=32)(attention_law)


def _points(length: int) -> int:
    """Points of a cloud: long samples get fewer, their averages fluctuate less."""
    return _CLOUD if length <= 512 else _CLOUD // 4


def _noise_cloud(length: int, seed: int) -> Iterator[FloatArray]:
    """Normal token noise in blocks of shape (points, L); one that fits in memory is kept."""
    if length * _points(length) <= _BLOCK:
        return iter(_kept_cloud(length, seed))
    return _sobol_normals(length, seed)


@lru_cache(maxsize=4)
def _kept_cloud(length: int, seed: int) -> tuple[FloatArray, ...]:
    blocks = tuple(_sobol_normals(length, seed))
    for block in blocks:
        block.setflags(write=False)
    return blocks


def _sobol_normals(length: int, seed: int) -> Iterator[FloatArray]:
    """Scrambled Sobol normals, in blocks.

    A cloud of short samples comes in one block, shifted and turned so that its mean is exactly 0
    and its covariance exactly 1.
    """
    from scipy.stats import qmc  # heavy: only when a law is built

    count = _points(length)
    engine = qmc.Sobol(length, scramble=True, rng=np.random.default_rng(seed))
    block = min(count, 1 << (_BLOCK // length).bit_length() - 1)
    for _ in range(0, count, block):
        noise = ndtri(np.clip(engine.random(block), 1e-15, 1 - 1e-15))
        if block == count:
            noise -= noise.mean(axis=0)
            root = np.linalg.cholesky(noise.T @ noise / count)
            noise = np.linalg.solve(root, noise.T).T
        yield noise

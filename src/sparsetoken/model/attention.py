r"""Attention weights on tokens, and the law of what they pool (section 5 of docs/theory.md).

The tokens enter through their projections on the query, g_l ~ N(θ s v_l, 1), s the cosine of query
and signal; the weights are a = a(τg), τ = β‖q‖, softmax or another weighting. Along q̂ and ξ⊥ the
pooled token is

    m_q̂ = ⟨a, g⟩,   m_ξ⊥ = √(1−s²) θ ⟨a, v⟩,   σ² = ‖a‖².

All three are symmetric in the tokens, so the places of the signal may be taken to be the first R.
Tokens that share a part of their noise have g_l = θ s v_l + √ρ z₀ + √(1−ρ) ε_l, and Σa = 1 gives
σ² = ρ + (1−ρ)‖a‖². Where θ and R vary, each sample has its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparsetoken.model.clouds import kept_blocks, normal_blocks
from sparsetoken.model.geometry import Geometry
from sparsetoken.model.law import Coordinates, FeatureLaw, Readout
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.support.arrays import FloatArray

# Normals (n, normals), to be overwritten, and classes (n,) to means (n, K) and scales
Making: TypeAlias = Callable[[NDArray[Any], NDArray[Any]], tuple[FloatArray, FloatArray]]

LONGEST = 20_000  # tokens in a sample of a law; Sobol sequences end soon after
_CLOUD = 1 << 15  # quasi-random points per class
_POINTS_PER_DIM = 64  # below, a cloud is left as it is: turned, the tails of its law would be light
_IN_CACHE = 1 << 16  # numbers worked on at once
_PARTS = 16  # of a cloud, for standard errors; as in `law.py`
# Mixtures for rare samples, of positives and of negatives: how far one noise token is shifted up
# and the signal tokens down, in standard deviations. Any are exact; these span the tails that
# thresholds of 10 to 10⁴ samples per dimension average over.
_SHIFTS = {
    True: ((0.0, 0.0), (0.0, 1.5), (0.0, 2.5), (2.0, 1.5)),
    False: ((0.0, 0.0), (1.5, 0.0), (2.5, 0.0), (3.5, 0.0)),
}


def attention_coordinates(
    noise: NDArray[Any],
    positive: NDArray[Any],
    task: Task,
    cosine: float,
    sharpness: float,
    weighting: Weighting,
) -> tuple[FloatArray, FloatArray]:
    """Means (n, 2) and scales (n,) from `task.normals` normals a sample and the classes.

    The first L normals (n, …) are the tokens' noise along q̂. `positive` (n,) is 1 for a positive
    sample, whose first R tokens carry the signal, else 0. The noise becomes scores: give it away.
    """
    scores, strength, sparsity = token_scores(noise, positive, task, cosine)
    weights = weighting.weights(sharpness * scores)
    along = np.einsum("nl,nl->n", weights, scores)
    if task.varies:
        caught = np.where(_carriers(task, sparsity), weights, 0.0).sum(axis=1)
    else:
        caught = weights[:, :sparsity].sum(axis=1)
    across = math.sqrt(max(0.0, 1 - cosine**2)) * strength * positive * caught
    variance = np.einsum("nl,nl->n", weights, weights)
    if task.token_correlation:
        variance = task.token_correlation + (1 - task.token_correlation) * variance
    return np.column_stack([along, across]), np.sqrt(variance)


def token_scores(
    noise: NDArray[Any], positive: NDArray[Any], task: Task, cosine: float
) -> tuple[NDArray[Any], Any, Any]:
    """g (n, L), a view of the noise, with the strength and sparsity of each sample."""
    scores, extra = split_noise(noise, task)
    strength, sparsity = task.signal_at(extra)
    shift = (strength * cosine * positive)[:, None]
    if task.varies:
        scores += shift * _carriers(task, sparsity)
    else:
        scores[:, :sparsity] += shift
    return scores, strength, sparsity


def split_noise(noise: NDArray[Any], task: Task) -> tuple[NDArray[Any], NDArray[Any]]:
    """The noise of the tokens (n, L), the part they share in it, and the normals left for signals;
    views of what is given."""
    own, extra = noise[:, : task.length], noise[:, task.length :]
    shared = task.token_correlation
    if shared:
        own *= math.sqrt(1 - shared)
        own += math.sqrt(shared) * extra[:, :1]
    return own, extra


def _carriers(task: Task, sparsity: Any) -> NDArray[np.bool_]:
    """Which tokens carry the signal, (n, L) or (1, L): the first."""
    return np.asarray(np.arange(task.length) < np.reshape(sparsity, (-1, 1)))


class TokenPooling(NamedTuple):
    """What attention pools: its coordinates from normals, and the directions they are along."""

    task: Task
    making: Making
    noisy: NDArray[np.bool_]
    geometry: Geometry | None = None  # of noise that is not white

    def draw(self, labels: FloatArray, rng: np.random.Generator) -> Coordinates:
        """Of samples with these labels, exact in law; some rows at a time."""
        parts = []
        rows = max(1, _IN_CACHE // self.task.normals)
        for start in range(0, max(len(labels), 1), rows):
            positive = (labels[start : start + rows] > 0).astype(float)
            normals = rng.standard_normal((len(positive), self.task.normals))
            parts.append(self.making(normals, positive))
        means, scales = map(np.concatenate, zip(*parts, strict=True))
        return Coordinates(labels, means, scales, self.noisy, geometry=self.geometry)

    def law(self, seed: int = 0, points: int | None = None) -> FeatureLaw:
        """Atoms from quasi-random token noise.

        Another seed is another cloud; fewer `points` (a power of two) are a draft.
        """
        sides = []
        for positive in (True, False):
            means, scales = self.cloud(positive, np.float64, seed, points)
            sides.append((means, scales, np.full(len(scales), 1.0 / len(scales))))
        return self._law_of(*sides)

    def tail_law(self, seed: int = 0) -> FeatureLaw:
        """Weighted atoms, those of samples on the wrong side drawn more often.

        Capacity is an average over rare samples: negatives with one large token, positives whose
        signal tokens are weak, or both. A quarter of the points each are drawn as they are and with
        three such shifts of the tokens' noise; weights are the ratio of the true density to that of
        the mixture, averaged over the tokens that could have been the shifted one. No weight is
        above 4, and thresholds of thousands of samples per dimension are resolved to a part in a
        thousand.
        """
        task = self.task
        points = _points(task.length) // len(_SHIFTS[True])
        sides = []
        for positive in (True, False):
            blocks = [
                _shifted_block(noise, task, self.making, positive, shift)
                for place, shift in enumerate(_SHIFTS[positive])
                for noise in normal_blocks(
                    task.normals, (seed, 1 + positive, place), points, _POINTS_PER_DIM
                )
            ]
            parts = (
                np.concatenate(part).reshape(len(_SHIFTS[positive]), _PARTS, -1, *part[0].shape[1:])
                for part in zip(*blocks, strict=True)
            )
            # one part of each mixture component after the other: standard errors come from parts
            means, scales, weights = (
                np.swapaxes(part, 0, 1).reshape(-1, *part.shape[3:]) for part in parts
            )
            sides.append((means, scales, weights))
        return self._law_of(*sides)

    def cloud(
        self, positive: bool, dtype: type, seed: int = 0, points: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Means (points, K) and scales of one class; the work stays in cache."""
        points = points or _points(self.task.length)
        rows = max(1, _IN_CACHE // self.task.normals)
        parts = []
        seed = 2 * seed + (1 if positive else 2)
        for cloud in kept_blocks(self.task.normals, seed, points, _POINTS_PER_DIM):
            for start in range(0, len(cloud), rows):
                noise: NDArray[Any] = cloud[start : start + rows].astype(dtype)  # overwritten
                classes: NDArray[Any] = np.full(len(noise), positive, dtype)
                parts.append(self.making(noise, classes))
        means, scales = (np.concatenate(part) for part in zip(*parts, strict=True))
        return means.astype(float, copy=False), scales.astype(float, copy=False)

    def _law_of(self, positive: Any, negative: Any) -> FeatureLaw:
        return FeatureLaw.of_classes(
            self.task.prevalence,
            positive,
            negative,
            self.noisy,
            sampled=True,
            geometry=self.geometry,
        )


def white_pooling(
    task: Task, cosine: float, sharpness: float, weighting: Weighting = SOFTMAX
) -> TokenPooling:
    """With noise that is white: q̂, which takes all noise along it, and ξ⊥."""
    making = partial(
        attention_coordinates, task=task, cosine=cosine, sharpness=sharpness, weighting=weighting
    )
    return TokenPooling(task, making, np.array([False, True]))


@lru_cache(maxsize=32)
def cached_attention_law(
    task: Task, cosine: float, sharpness: float, weighting: Weighting = SOFTMAX
) -> FeatureLaw:
    """The law of such a pooling; a few are kept."""
    return white_pooling(task, cosine, sharpness, weighting).law()


def _shifted_block(
    noise: FloatArray, task: Task, making: Making, positive: bool, shift: tuple[float, float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, scales and weights of draws whose noise is shifted: one noise token up, the signal
    tokens down by a total of so many standard deviations."""
    length = task.length
    _, sparsity = task.signal_at(noise[:, length:])
    ones = np.broadcast_to(sparsity if positive else 0, len(noise)).astype(int)
    carriers = np.arange(length) < ones[:, None]  # (n, L)
    roots = np.sqrt(np.maximum(ones, 1))
    up, down = shift
    room = ones < length  # for a token without signal
    noise[np.flatnonzero(room), ones[room]] += up
    noise[:, :length] -= carriers * (down / roots)[:, None]
    tokens = noise[:, :length]
    along = np.where(carriers, tokens, 0.0).sum(axis=1) / roots  # of signal tokens
    log_ratio = np.full(len(noise), -np.inf)  # of the mixture's density to the true one
    for high, low in _SHIFTS[positive]:
        term = np.where(ones > 0, -low * along - 0.5 * low**2, 0.0)
        if high:
            lifted = np.where(carriers, -np.inf, high * tokens - 0.5 * high**2)
            top = lifted.max(axis=1, initial=-np.inf, keepdims=True)
            top = np.where(np.isfinite(top), top, 0.0)
            total = np.exp(lifted - top).sum(axis=1) / np.maximum(length - ones, 1)
            term = term + np.where(room, top[:, 0] + np.log(np.where(room, total, 1.0)), 0.0)
        log_ratio = np.logaddexp(log_ratio, term)
    weights = np.exp(math.log(len(_SHIFTS[positive])) - log_ratio)
    means, scales = making(noise, np.full(len(noise), float(positive)))
    return means, scales, weights


def cloud_scores(pooling: TokenPooling, readout: Readout) -> Scores:
    """The scores of a readout where noise is white, without keeping the law; weights in float32,
    whose rounding is a thousandth of what the finite cloud leaves open."""
    sides = []
    for positive in (True, False):
        means, scales = pooling.cloud(positive, np.float32)
        mean = means @ readout.weights + readout.bias
        weight = np.full(len(mean), 1.0 / len(mean))
        sides.append(Mixture(mean, scales * readout.noise, weight))
    return Scores(sides[0], sides[1], pooling.task.prevalence, sampled=True)


def _points(length: int) -> int:
    """Points of a cloud: long samples get fewer, their averages fluctuate less."""
    return _CLOUD if length <= 512 else _CLOUD // 4

r"""The classifiers sign(⟨w, f(X)⟩ + b): their features and the laws of those features.

| classifier   | feature f(X)    | p   | explicit directions       | m for places v          | σ   |
|--------------|-----------------|-----|---------------------------|-------------------------|-----|
| `Pooled`     | Xᵀ1/L           | d   | ξ (noisy)                 | θR/L                    | L^-½|
| `Vectorized` | X, flattened    | L·d | L^-½1⊗ξ, or e_l⊗ξ (noisy) | θR/√L, or θv_l          | 1   |
| `Attention`  | Xᵀ softmax(βXq) | d   | q̂ (not), ξ⊥ (noisy)      | ⟨a,g⟩ and √(1−s²)θ⟨a,v⟩ | ‖a‖ |

This is a positive sample; a negative one has θ = 0. For attention the tokens enter through their
projections on the query, g_l ~ N(θ s v_l, 1), s the cosine of query and signal, and
a = softmax(τg), τ = β‖q‖.

`Vectorized` with uniform places: by symmetry the best readout treats all positions alike, so one
direction is enough. With position weights it keeps one coordinate per position.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sparsetoken.model.checks import real
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.task import FloatArray, Task

_CLOUD = 1 << 15  # quasi-random points per class for attention
_LONGEST = 20_000  # tokens in a sample of it; Sobol sequences end soon after
_BLOCK = 1 << 23  # numbers held at once while a cloud is made: 64 MiB
_MOST_PLACES = 1 << 24  # entries of the table of subsets for `Vectorized` with position weights


class Query(NamedTuple):
    """An attention query as the theory sees it.

    `overlap` ⟨q, ξ⟩, `norm` ‖q‖, `sharpness` τ = β‖q‖ and `cosine` = overlap/norm (0 for a query of
    zero: it has no direction, and at sharpness 0 none is needed).

    >>> Query(overlap=0.3, norm=0.5, sharpness=1.0).cosine
    0.6
    """

    overlap: float
    norm: float
    sharpness: float

    @property
    def cosine(self) -> float:
        return self.overlap / self.norm if self.norm > 0 else 0.0


class Classifier(Protocol):
    """What every part of the package may ask of a classifier."""

    @property
    def learns_query(self) -> bool:
        """Whether stages 1–3 of the protocol must supply a query."""
        ...

    def features(self, tokens: FloatArray, query: FloatArray | None = None) -> FloatArray: ...

    def law(self, task: Task, query: Query | None = None) -> FeatureLaw: ...


@dataclass(frozen=True)
class Pooled:
    """Mean pooling: f(X) = Xᵀ1/L.

    >>> law = Pooled().law(Task(length=4, sparsity=1, strength=2.0))
    >>> law.means.ravel().tolist(), law.scales.tolist()
    ([0.5, 0.0], [0.5, 0.5])
    """

    learns_query = False

    def features(self, tokens: FloatArray, query: FloatArray | None = None) -> FloatArray:
        """(n, L, d) tokens to (n, d) features."""
        return np.asarray(tokens).mean(axis=1)

    def law(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """Two Gaussians: one atom a class, exact."""
        mean, scale = task.strength * task.sparsity / task.length, task.length**-0.5
        return FeatureLaw.of_classes(
            task.prevalence, ([[mean]], [scale], [1.0]), ([[0.0]], [scale], [1.0]), [True]
        )


@dataclass(frozen=True)
class Vectorized:
    """All tokens side by side: f(X) = X, flattened.

    >>> Vectorized().law(Task(length=4, sparsity=2, strength=3.0)).means.ravel().tolist()
    [3.0, 0.0]
    """

    learns_query = False

    def features(self, tokens: FloatArray, query: FloatArray | None = None) -> FloatArray:
        """(n, L, d) tokens to (n, L·d) features."""
        tokens = np.asarray(tokens)
        return tokens.reshape(len(tokens), -1)

    def law(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """One direction for uniform places, one coordinate per position with weights; exact."""
        if not task.uniform_places:
            return self.law_by_position(task)
        mean = task.strength * task.sparsity / math.sqrt(task.length)
        sides = ([[mean]], [1.0], [1.0]), ([[0.0]], [1.0], [1.0])
        return FeatureLaw.of_classes(task.prevalence, *sides, [True], features_per_dim=task.length)

    def law_by_position(self, task: Task) -> FeatureLaw:
        """One coordinate per position, one atom per set of places."""
        length, sparsity = task.length, task.sparsity
        subsets = math.comb(length, sparsity)
        if subsets * length > _MOST_PLACES:
            raise ValueError(
                "Vectorized: places with weights need one atom for each of "
                f"C(length, sparsity) = {subsets:.3g} sets of {length} coordinates; "
                f"C(length, sparsity)·length must be at most {_MOST_PLACES:.3g} "
                "(uniform places, places=None, have no such limit)"
            )
        chosen = np.array(list(combinations(range(length), sparsity)))  # (subsets, R)
        places = np.zeros((subsets, length))
        np.put_along_axis(places, chosen, 1.0, axis=1)
        weights = np.ones(subsets)
        if task.places is not None:
            with np.errstate(divide="ignore"):
                log_weights = np.log(task.places)[chosen].sum(axis=1)  # products may underflow
            weights = np.exp(log_weights - log_weights.max())
        possible = weights > 0
        positive = (
            task.strength * places[possible],
            np.ones(int(possible.sum())),
            weights[possible],
        )
        negative = (np.zeros((1, length)), [1.0], [1.0])
        noisy = np.ones(length, dtype=bool)
        return FeatureLaw.of_classes(task.prevalence, positive, negative, noisy, length)


@dataclass(frozen=True)
class Attention:
    """Softmax pooling: f(X) = Xᵀ softmax(βXq).

    With `cosine` and `sharpness` the query is frozen (stages 1–3 are skipped); without them it is
    learned by the protocol.

    >>> law = Attention(cosine=0.95, sharpness=1.0).law(Task(length=10, sparsity=1, strength=5.0))
    >>> law.noisy.tolist(), len(law.compressed.labels) < 400 < len(law.labels)
    ([False, True], True)
    """

    cosine: float | None = None
    sharpness: float | None = None

    def __post_init__(self) -> None:
        if (self.cosine is None) != (self.sharpness is None):
            raise ValueError(
                "Attention: cosine and sharpness must be given together (a frozen query) or not "
                f"at all (a learned one), got cosine={self.cosine!r}, sharpness={self.sharpness!r}"
            )
        if self.cosine is not None:
            cosine = real(Attention, "cosine", self.cosine, least=-1, most=1)
            sharpness = real(Attention, "sharpness", self.sharpness, least=0)
            object.__setattr__(self, "cosine", cosine)
            object.__setattr__(self, "sharpness", sharpness)

    @property
    def learns_query(self) -> bool:
        return self.cosine is None

    def features(self, tokens: FloatArray, query: FloatArray | None = None) -> FloatArray:
        """(n, L, d) tokens and the vector βq (d,) to (n, d) features."""
        if query is None:
            raise ValueError("Attention: features need query, a vector of shape (d,) (β times q)")
        tokens = np.asarray(tokens)
        attention = softmax(tokens @ np.asarray(query))  # (n, L)
        return np.einsum("nl,nld->nd", attention, tokens)

    def law(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """The law at the given query; `query=None` takes the frozen one."""
        frozen = self if query is None else query
        if frozen.cosine is None or frozen.sharpness is None:
            raise ValueError(
                "Attention: the query is learned; give cosine and sharpness to freeze it, "
                "or a query (from align)"
            )
        cosine = real("Query", "cosine", frozen.cosine, least=-1 - 1e-9, most=1 + 1e-9)
        sharpness = real("Query", "sharpness", frozen.sharpness, least=0)
        if task.length > _LONGEST:
            raise ValueError(
                f"Attention: the law of a task needs a length of at most {_LONGEST}, "
                f"got {task.length}"
            )
        plain = replace(task, prevalence=0.5, places=None)  # the law does not depend on them
        law = _attention_law(plain, float(np.clip(cosine, -1, 1)), sharpness)
        return law if task.prevalence == 0.5 else law.with_prevalence(task.prevalence)


def softmax(scores: Any) -> Any:
    """Softmax over the last axis, without overflow."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attention_coordinates(
    noise: FloatArray, signal: NDArray[Any], task: Task, cosine: float, sharpness: float
) -> tuple[FloatArray, FloatArray]:
    """Means (n, 2) and scales (n,) from the tokens' noise along q̂ (n, L) and the places (n, L)."""
    scores = noise + task.strength * cosine * signal
    weights = softmax(sharpness * scores)
    along = np.einsum("nl,nl->n", weights, scores)
    across = math.sqrt(max(0.0, 1 - cosine**2)) * task.strength * (weights @ signal)
    return np.column_stack([along, across]), np.sqrt(np.einsum("nl,nl->n", weights, weights))


@lru_cache(maxsize=32)
def _attention_law(task: Task, cosine: float, sharpness: float) -> FeatureLaw:
    """Atoms from quasi-random token noise; the signal tokens take the first, best coordinates."""
    signal = (np.arange(task.length) < task.sparsity).astype(float)
    sides = []
    for seed, places in ((1, signal), (2, np.zeros(task.length))):
        blocks = [
            attention_coordinates(noise, places, task, cosine, sharpness)
            for noise in _noise_cloud(task.length, seed)
        ]
        means, scales = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        sides.append((means, scales, np.full(len(scales), 1.0 / len(scales))))
    return FeatureLaw.of_classes(0.5, sides[0], sides[1], [False, True], sampled=True)


def _noise_cloud(length: int, seed: int) -> Iterator[FloatArray]:
    """Scrambled Sobol normals, in blocks of shape (points, L) that fit in memory.

    A cloud of short samples comes in one block, shifted and turned so that its mean is exactly 0
    and its covariance exactly 1. Long samples get fewer points: their averages fluctuate less.
    """
    from scipy.stats import qmc  # heavy: only when a law is built

    count = _CLOUD if length <= 512 else _CLOUD // 4
    engine = qmc.Sobol(length, scramble=True, rng=np.random.default_rng(seed))
    block = min(count, 1 << (_BLOCK // length).bit_length() - 1)
    for _ in range(0, count, block):
        noise = ndtri(np.clip(engine.random(block), 1e-15, 1 - 1e-15))
        if block == count:
            noise -= noise.mean(axis=0)
            root = np.linalg.cholesky(noise.T @ noise / count)
            noise = np.linalg.solve(root, noise.T).T
        yield noise

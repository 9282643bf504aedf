r"""Features of tokens whose noise is not white, or whose signal is a cloud (docs/theory.md).

A query q = A(Σ)ξ + noise with covariance B²(Σ)/d gives noise tokens the score σ₀g, σ₀² = qᵀΣq, and
signal tokens θ⟨q,ξ⟩ + σ₁g, σ₁² = qᵀCq. With a the attention and v the places of the signal,

    f = θ⟨a,v⟩ ξ + (Σ_noise a_l g_l) Σq/σ₀ + (Σ_signal a_l g_l) Cq/σ₁ + s₀Σ′^½z + s₁C′^½z′,

s₀² = Σ_noise a_l², s₁² = Σ_signal a_l²: two covariances, off each of which its own direction is
taken. Where C = cΣ both are one, with s² = s₀² + c s₁² and, u = Σq/σ₀, o = ⟨q,ξ⟩/σ₀,

    f = ⟨a, scores/σ₀⟩ u + nθ⟨a,v⟩ (ξ − ou)/n + sΣ′^½z,

n = ‖ξ − ou‖, so that white noise has the coordinates of `attention.py`. The mean token, and all
tokens side by side, have one direction, ξ, and nothing is taken off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.model.attention import TokenPooling, split_noise
from sparsetoken.model.covariances import Covariances, JointSpectrum
from sparsetoken.model.geometry import Geometry, MatrixGeometry, SpectralGeometry
from sparsetoken.model.law import Coordinates, FeatureLaw
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import Weighting
from sparsetoken.support.arrays import FloatArray

_TWO = np.array([[False, True, True], [True, False, True]])  # Σq/σ₀ is off Σ, Cq/σ₁ off C
# In place of what vanishes: the scale of a signal token without noise, attended to alone, and
# eigenvalues of C, relative to those of Σ. Errors move by squares of the first.
_LEAST_SCALE, _LEAST_VALUE = 1e-4, 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class ShapedQuery:
    """A query in noise that is not white: how it lies there is more than a cosine.

    `overlap` ⟨q, ξ⟩, `norm` ‖q‖, `sharpness` β‖q‖ and `cosine` are as of a `Query`.
    """

    overlap: float
    norm: float
    sharpness: float

    @property
    def cosine(self) -> float:
        return self.overlap / self.norm if self.norm > 0 else 0.0

    @property
    def _shape(self) -> str:
        """How much there is beside the numbers."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Without the functions on the spectrum, which are as long as it is."""
        names = ("overlap", "norm", "sharpness", "cosine")
        numbers = ", ".join(f"{name}={getattr(self, name):.6g}" for name in names)
        return f"{type(self).__name__}({numbers}, {self._shape})"


@dataclass(frozen=True, repr=False)
class ColouredQuery(ShapedQuery):
    """A query by what it is on the spectrum of the noise: A(x)ξ + noise of covariance B²(x)/d.

    `signal` and `noise` are A and B² of q/‖q‖ on the atoms of the task's joint spectrum.

    >>> query = ColouredQuery(0.3, 0.5, 1.0, signal=(0.6, 0.6), noise=(0.64, 0.64))
    >>> query
    ColouredQuery(overlap=0.3, norm=0.5, sharpness=1, cosine=0.6, 2 atoms)
    """

    signal: tuple[float, ...]
    noise: tuple[float, ...]

    @property
    def _shape(self) -> str:
        return f"{len(self.signal)} atoms"


@dataclass(frozen=True, eq=False, repr=False)
class MatrixQuery(ShapedQuery):
    """The same where Σ and C do not commute: q/‖q‖ is a `vector` (d,) and noise of covariance
    `spread`/d, (d, d)."""

    vector: FloatArray
    spread: FloatArray

    @property
    def _shape(self) -> str:
        return f"dim={len(self.vector)}"


@lru_cache(maxsize=16)
def generic_query(task: Task, cosine: float, sharpness: float) -> ShapedQuery:
    """c ξ + √(1−c²) g with g ~ N(0, I/d): a query that knows nothing of the noise."""
    joint = task.joint_spectrum
    if joint is None:
        _, _, xi = matrices(task)
        rest = (1 - cosine**2) * np.eye(len(xi))
        return MatrixQuery(cosine, 1.0, sharpness, cosine * xi, rest)
    ones = (1.0,) * len(joint.density)
    signal, noise = (tuple(part * one for one in ones) for part in (cosine, 1 - cosine**2))
    return ColouredQuery(cosine, 1.0, sharpness, signal, noise)


def linear_law(task: Task, share: float, unit: float, features_per_dim: int = 1) -> FeatureLaw:
    """Along ξ a positive sample lies at θR·share; of its noise, of variance `unit`, the part
    (L−R)/L is that of noise tokens and R/L that of signal tokens."""
    atoms, joint = task.signals, task.joint_spectrum
    part = atoms.sparsities / task.length
    means = (atoms.strengths * atoms.sparsities * share)[:, None]
    scales = _scales(joint, unit * (1 - part), unit * part)
    none = _scales(joint, np.array([unit]), np.zeros(1))
    geometry = linear_geometry(task)
    return FeatureLaw.of_classes(
        task.prevalence,
        (means, scales, atoms.weights),
        ([[0.0]], none, [1.0]),
        np.ones((geometry.covariances, 1), dtype=bool),
        features_per_dim,
        geometry=geometry,
    )


def linear_coordinates(
    task: Task, labels: FloatArray, share: float, unit: float, rng: np.random.Generator
) -> Coordinates:
    """Draws of the same."""
    strength, sparsity = task.sample_signals(len(labels), rng)
    ones = np.where(labels > 0, sparsity, 0.0) / task.length
    scales = _scales(task.joint_spectrum, unit * (1 - ones), unit * ones)
    geometry = linear_geometry(task)
    means = (strength * share * task.length * ones)[:, None]
    noisy = np.ones((geometry.covariances, 1), dtype=bool)
    return Coordinates(labels, means, scales, noisy, geometry=geometry)


def linear_geometry(task: Task) -> Geometry:
    """ξ alone."""
    joint = task.joint_spectrum
    if joint is None:
        sigma, c, xi = matrices(task)
        near = _diagonals(task)
        values = np.array([near.noise, near.signal])
        surrogate = SpectralGeometry(values, near.density, near.share[:, None, None])
        return MatrixGeometry(np.array([sigma, c]), np.outer(xi, xi)[None, None], surrogate)
    return SpectralGeometry(_values(joint), joint.density, joint.share[:, None, None])


class Frame(NamedTuple):
    """A query as scores see it, and the directions that features then have."""

    overlap: float  # ⟨q, ξ⟩, of a query of norm 1
    noise: float  # σ₀
    signal: float  # σ₁
    ratio: float | None  # c of C = cΣ; None for two covariances
    lean: float  # n
    geometry: Geometry
    noisy: NDArray[np.bool_]  # (J, K)


def frame(task: Task, query: ShapedQuery) -> Frame:
    """The directions of features under a query."""
    if isinstance(query, MatrixQuery):
        return _matrix_frame(task, query)
    assert isinstance(query, ColouredQuery)
    joint = task.joint_spectrum
    assert joint is not None
    density, share = joint.density, joint.share
    along, across = np.array(query.signal), np.array(query.noise)
    square = share * along**2 + density * across  # of q, on the atoms
    overlap = float(share @ along)
    noise, signal = (math.sqrt(float(x @ square)) for x in (joint.noise, joint.signal))
    mixed = share * along  # of ξ and q
    if not joint.is_proportional:
        gram = _two_grams(joint, noise, signal, share, mixed, square)
        geometry = SpectralGeometry(_values(joint), density, gram)
        return Frame(overlap, noise, signal, None, 1.0, geometry, _TWO)
    u = joint.noise / noise if noise > 0 else np.zeros_like(joint.noise)
    own, lean_towards = square * u * u, overlap / noise if noise > 0 else 0.0
    rest = share - 2 * lean_towards * mixed * u + lean_towards**2 * own  # of ξ − ou
    total = float(rest.sum())
    lean = math.sqrt(total) if total > 1e-14 else 0.0
    inverse = 1 / lean if lean else 0.0
    gram = np.empty((len(density), 2, 2))
    gram[:, 0, 0], gram[:, 1, 1] = own, rest * inverse**2
    gram[:, 0, 1] = gram[:, 1, 0] = (mixed * u - lean_towards * own) * inverse
    geometry = SpectralGeometry(_values(joint), density, gram)
    return Frame(overlap, noise, signal, joint.ratio, lean, geometry, np.array([[False, True]]))


def noise_score(task: Task, query: ShapedQuery) -> float:
    """σ₀, what the score of a noise token varies by, for a query of norm 1."""
    if isinstance(query, MatrixQuery):
        sigma, _, _ = matrices(task)
        own = query.vector @ sigma @ query.vector + np.vdot(sigma, query.spread) / len(sigma)
        return math.sqrt(max(float(own), 0.0))
    assert isinstance(query, ColouredQuery)
    joint = task.joint_spectrum
    assert joint is not None
    square = joint.share * np.array(query.signal) ** 2 + joint.density * np.array(query.noise)
    return math.sqrt(float(joint.noise @ square))


def _two_grams(
    joint: JointSpectrum,
    noise: float,
    signal: float,
    share: FloatArray,
    mixed: FloatArray,
    square: FloatArray,
) -> FloatArray:
    """Inner products of Σq/σ₀, Cq/σ₁ and ξ on each atom (atoms, 3, 3), from those of ξ and q."""
    u, c = (
        values / scale if scale > 0 else np.zeros_like(values)
        for values, scale in ((joint.noise, noise), (joint.signal, signal))
    )
    gram = np.empty((len(share), 3, 3))
    for i, left in enumerate((u, c)):
        for j, right in enumerate((u, c)):
            gram[:, i, j] = square * left * right
        gram[:, i, 2] = gram[:, 2, i] = mixed * left
    gram[:, 2, 2] = share
    return gram


def _matrix_frame(task: Task, query: MatrixQuery) -> Frame:
    """With matrices: the directions Σq/σ₀, Cq/σ₁ and ξ by their outer products."""
    sigma, c, xi = matrices(task)
    size, vector = len(xi), query.vector
    square = np.outer(vector, vector) + query.spread / size  # E[qqᵀ]
    variances = [float(np.vdot(matrix, square)) for matrix in (sigma, c)]
    noise, signal = (math.sqrt(max(variance, 0.0)) for variance in variances)
    maps = [
        matrix / scale if scale > 0 else np.zeros_like(matrix)
        for matrix, scale in ((sigma, noise), (c, signal))
    ]
    products = np.empty((3, 3, size, size))
    for i, left in enumerate(maps):
        for j, right in enumerate(maps):
            products[i, j] = left @ square @ right
        products[i, 2] = np.outer(left @ vector, xi)
        products[2, i] = products[i, 2].T
    products[2, 2] = np.outer(xi, xi)
    near = _diagonals(task)
    vectors = np.linalg.eigh(sigma)[1]
    turned = vectors.T @ vector
    spread = np.einsum("ia,ij,ja->a", vectors, query.spread, vectors, optimize=True)
    alike = turned**2 + spread / size
    values = np.array([near.noise, near.signal])
    sizes = np.sqrt(values @ alike)
    mixed = (vectors.T @ xi) * turned
    gram = _two_grams(near, float(sizes[0]), float(sizes[1]), near.share, mixed, alike)
    surrogate = SpectralGeometry(values, near.density, gram)
    geometry = MatrixGeometry(np.array([sigma, c]), products, surrogate)
    return Frame(float(vector @ xi), noise, signal, None, 1.0, geometry, _TWO)


def _diagonals(task: Task) -> JointSpectrum:
    """In the eigenvectors of Σ, what of C is diagonal there."""
    sigma, c, xi = matrices(task)
    values, vectors = np.linalg.eigh(sigma)
    other = np.einsum("ia,ij,ja->a", vectors, c, vectors, optimize=True)
    density = np.full(len(xi), 1 / len(xi))
    return JointSpectrum(values, np.maximum(other, 0.0), density, (vectors.T @ xi) ** 2)


class TokenScores(NamedTuple):
    """Scores of tokens (n, L) for a query of norm 1, and what they are made of."""

    total: NDArray[Any]
    fluctuation: NDArray[Any]  # of variance 1; views of the noise given
    carries: NDArray[np.bool_]  # which tokens carry the signal, the first
    strength: float | FloatArray


def token_scores(noise: NDArray[Any], positive: NDArray[Any], task: Task, at: Frame) -> TokenScores:
    """From `task.normals` normals a sample and the classes (1, else not positive)."""
    scores, extra = split_noise(noise, task)
    strength, sparsity = task.signal_at(extra)
    carries = np.arange(task.length) < np.reshape(sparsity, (-1, 1))
    carries = carries & (positive[:, None] > 0)
    shift = np.reshape(strength, (-1, 1)) * at.overlap * carries
    total = at.noise * scores
    np.copyto(total, at.signal * scores, where=carries)
    total += shift
    return TokenScores(total, scores, carries, strength)


def coordinates(
    noise: NDArray[Any],
    positive: NDArray[Any],
    task: Task,
    at: Frame,
    sharpness: float,
    weighting: Weighting,
) -> tuple[FloatArray, FloatArray]:
    """Means (n, K) and scales (n, J) from `task.normals` normals a sample and the classes.

    As `attention_coordinates` for white noise: the first L normals are the tokens' noise along the
    query, the first R tokens of a positive sample (1, else 0) carry the signal.
    """
    total, scores, carries, strength = token_scores(noise, positive, task, at)
    weights = weighting.weights(sharpness * total)
    square = weights * weights
    held, caught = (np.where(carries, part, 0.0).sum(axis=1) for part in (square, weights))
    free = np.maximum(square.sum(axis=1) - held, 0.0)
    across = at.lean * strength * caught
    if at.ratio is not None:
        along = np.einsum("nl,nl->n", weights, total) / (at.noise or 1.0)
        variance = free + at.ratio * held
        variance = task.token_correlation + (1 - task.token_correlation) * variance
        means = np.column_stack([along, across])
        return means, np.maximum(np.sqrt(variance), _LEAST_SCALE)[:, None]
    pulled = weights * scores
    by_signal = np.where(carries, pulled, 0.0).sum(axis=1)
    means = np.column_stack([pulled.sum(axis=1) - by_signal, by_signal, across])
    return means, np.sqrt(np.column_stack([free, held]))


def pooling(task: Task, query: ShapedQuery, weighting: Weighting) -> TokenPooling:
    """What attention pools with such a query."""
    at = frame(task, query)
    # what is the same but for rounding, a rotation say, has the same atoms
    numbers = [
        float(f"{x:.12g}") for x in (at.overlap, at.noise, at.signal, at.lean, query.sharpness)
    ]
    overlap, noise, signal, lean, sharpness = numbers
    rounded = at._replace(overlap=overlap, noise=noise, signal=signal, lean=lean)
    making = partial(coordinates, task=task, at=rounded, sharpness=sharpness, weighting=weighting)
    return TokenPooling(task, making, at.noisy, at.geometry)


@lru_cache(maxsize=16)
def cached_attention_law(task: Task, query: ShapedQuery, weighting: Weighting) -> FeatureLaw:
    """Its law; a few are kept."""
    return pooling(task, query, weighting).law()


def matrices(task: Task) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Σ, C and ξ of a task with matrices that do not commute."""
    assert isinstance(task.noise, Covariances) and task.noise.signal is not None
    return task.noise.noise, task.noise.signal, task.noise.mean


def _values(joint: JointSpectrum) -> FloatArray:
    """(J, atoms): Σ alone where C is proportional to it."""
    if joint.is_proportional:
        return joint.noise[None]
    return np.array([joint.noise, np.maximum(joint.signal, _LEAST_VALUE * joint.noise)])


def _scales(joint: JointSpectrum | None, noise: FloatArray, signal: FloatArray) -> FloatArray:
    """(n, J) from the variances that noise tokens and signal tokens give."""
    if joint is None or not joint.is_proportional:
        return np.sqrt(np.column_stack([np.maximum(noise, 0.0), signal]))
    return np.maximum(np.sqrt(noise + joint.ratio * signal), _LEAST_SCALE)[:, None]

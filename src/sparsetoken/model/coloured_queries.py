r"""The query of stages 1–3 with coloured noise and a spread of the signal, drawn exactly.

A token is θvξ + S^½ζ, S = Σ or C, ζ white. With c̃ = c_i/L for each token of a sample, the sums

    g_S = Σ c̃ζ/‖c̃‖  over the tokens of covariance S

are N(0, I), and w¹ = mξ − (η_w/n) Σ_S ‖c̃‖S^½g_S.
Given them and ĉ = c̃/‖c̃‖, the projections of tokens on u = S^½w¹ are p = ĉ⟨g_S, u⟩ + ‖u‖(I − ĉĉᵀ)ε:
all of the logits, and t = X_i w¹ of every token. The pull of the query sums ζ with weights
τ = h_i(t − t̄_i); what is still open of the ζ is Gaussian in the complement of ĉ and u,

    Σ τζ = ⟨ĉ,τ⟩g_S + ⟨p − ĉ⟨g_S,u⟩, τ⟩ u/‖u‖² + ‖(I − ĉĉᵀ)τ‖ (I − ûûᵀ)g′_S.

That costs O(n₀L + d) random numbers. Nothing asks that tokens of one sample have one covariance.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from sparsetoken.model.coloured import ColouredQuery, MatrixQuery, ShapedQuery
from sparsetoken.model.covariances import Covariances, Spectrum
from sparsetoken.model.layout import Layout, times
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import BoolArray, FloatArray


def draw_query_vector(
    task: Task, protocol: Protocol, layout: Layout, n: int, rng: np.random.Generator
) -> FloatArray:
    """Stages 1–3 with n samples in the dimension of the layout: q (d,), exact in law.

    >>> from sparsetoken.model.covariances import Spectrum
    >>> from sparsetoken.model.layout import draw_layout
    >>> task = Task(10, 1, 5.0, noise=Spectrum((0.5, 2.0), (0.8, 0.2)), signal_spread=1.5)
    >>> rng = np.random.default_rng(0)
    >>> layout = draw_layout(task.noise, task.signal_spread, 1000, rng)
    >>> query = draw_query_vector(task, Protocol(), layout, 2000, rng)
    >>> bool(query @ layout.signal > 0.8 * np.linalg.norm(query))
    True
    """
    length, dim, loss = task.length, len(layout.signal), protocol.loss
    labels = task.sample_labels(n, rng)
    theta, sparsity = task.sample_signals(n, rng)
    places = task.sample_places(n, rng, sparsity) & (labels > 0)[:, None]
    signal = np.broadcast_to(theta, n)[:, None] * places  # θv (n, L)
    c = labels * float(loss.slope(0.0))
    kinds = [
        _Tokens(members, root, task.token_correlation, c, dim, rng)
        for members, root in zip(_members(places, layout), layout.roots, strict=False)
    ]
    step = -protocol.readout_step / n
    readout = step * (
        float(c @ signal.mean(axis=1)) * layout.signal + sum(kind.total for kind in kinds)
    )
    along = float(readout @ layout.signal)
    projections = signal * along  # t (n, L)
    for kind in kinds:
        projections += kind.project(readout)
    level = projections.mean(axis=1)
    bias = -protocol.bias_step * float(c.mean())
    h = labels * loss.slope(labels * (level + bias))
    weights = h[:, None] * (projections - level[:, None])  # τ
    pull = float((weights * signal).sum()) * layout.signal
    for kind in kinds:
        pull = pull + kind.pull(weights)
    scale = -protocol.query_step * protocol.inverse_temperature / (n * length)
    return np.asarray(scale * pull)


def at_size(task: Task, dim: int) -> Task:
    """The same with the spectrum that it has in d dimensions: whole numbers of coordinates.

    >>> from sparsetoken.model.covariances import Spectrum
    >>> task = Task(5, 1, 3.0, noise=Spectrum((1.0, 2.0, 4.0), (0.5, 0.48, 0.02), (0.5, 0.5, 0)))
    >>> at_size(task, 10).noise
    Spectrum(eigenvalues=(1.0, 2.0), density=(0.5, 0.5), signal_share=(0.5, 0.5))
    """
    counts = task.noise.counts(dim)
    if not isinstance(task.noise, Spectrum):
        return task
    here = np.flatnonzero(counts)

    def kept(values: Any) -> tuple[float, ...]:
        return tuple(np.asarray(values, dtype=float)[here].tolist())

    density, share = kept(counts / dim), np.array(kept(task.noise.signal_share))
    noise = Spectrum(kept(task.noise.eigenvalues), density, tuple((share / share.sum()).tolist()))
    spread = task.signal_spread
    return replace(
        task, noise=noise, signal_spread=kept(spread) if isinstance(spread, tuple) else spread
    )


def shaped_query(task: Task, layout: Layout, vector: FloatArray) -> ShapedQuery:
    """A vector κ = βq (d,) as features see it, of norm and sharpness ‖κ‖: what it has of ξ, and
    beside it, on each eigenvalue of the layout of a task `at_size`; as it is where Σ and C do not
    commute."""
    xi, overlap = layout.signal, float(layout.signal @ vector)
    norm = float(np.linalg.norm(vector))
    unit = vector / norm if norm > 0 else np.zeros_like(vector)
    if task.joint_spectrum is None:
        return MatrixQuery(overlap, norm, norm, unit, np.zeros((len(xi), len(xi))))
    if isinstance(task.noise, Covariances):
        vectors = task.noise.eigenvectors
        assert vectors is not None
        unit, xi = unit @ vectors, xi @ vectors
    counts = layout.counts[layout.counts > 0]
    starts = np.cumsum(counts) - counts
    own, mixed, square = (
        np.add.reduceat(product, starts) for product in (xi * xi, xi * unit, unit * unit)
    )
    signal = np.divide(mixed, own, out=np.zeros_like(own), where=own > 0)
    noise = np.maximum(square - signal * mixed, 0.0) * (len(xi) / counts)
    return ColouredQuery(overlap, norm, norm, tuple(signal.tolist()), tuple(noise.tolist()))


def _members(places: BoolArray, layout: Layout) -> list[FloatArray]:
    """Which tokens (n, L) have which covariance: all the same one without a spread."""
    if not layout.has_spread:
        return [np.ones(places.shape)]
    return [np.where(places, 0.0, 1.0), np.where(places, 1.0, 0.0)]


class _Tokens:
    """Tokens of one covariance S, with the part of their noise that a sample shares in front."""

    def __init__(
        self,
        members: FloatArray,
        root: FloatArray,
        shared: float,
        c: FloatArray,
        dim: int,
        rng: np.random.Generator,
    ) -> None:
        self._root, self._rng = root, rng
        parts = [math.sqrt(1 - shared) * members]
        if shared:
            parts.insert(0, np.full((len(members), 1), math.sqrt(shared)))
        self._amounts = np.concatenate(parts, axis=1)  # of each ζ in its token, or in all of them
        own = (c / members.shape[1])[:, None] * self._amounts
        if shared:  # it is in the mean of the tokens as a whole
            own[:, 0] = c * self._amounts[:, 0]
        self._size = float(np.linalg.norm(own))  # ‖c̃‖
        self._own = own / self._size if self._size > 0 else own  # ĉ
        self._shared = bool(shared)
        self._g = rng.standard_normal(dim)

    @property
    def total(self) -> FloatArray:
        """Σ c_i times the noise of the mean token (d,)."""
        return self._size * times(self._root, self._g)

    def project(self, readout: FloatArray) -> FloatArray:
        """The noise of tokens (n, L) along w¹; 0 for tokens that are not among these."""
        self._u = times(self._root, readout)
        norm = float(np.linalg.norm(self._u))
        noise = self._rng.standard_normal(self._own.shape) * (self._amounts > 0)
        self._open = norm * (noise - self._own * float((self._own * noise).sum()))
        along = self._amounts * (self._own * float(self._g @ self._u) + self._open)
        return along[:, 1:] + along[:, :1] if self._shared else along

    def pull(self, weights: FloatArray) -> FloatArray:
        """Σ τ times the noise of tokens (d,); τ (n, L) sums to zero in each sample."""
        tau = self._amounts.copy()
        tau[:, int(self._shared) :] *= weights
        if self._shared:
            tau[:, 0] = 0.0
        on_own = float((self._own * tau).sum())
        direction = self._u / max(float(np.linalg.norm(self._u)), 1e-300)
        fresh = self._rng.standard_normal(len(self._g))
        fresh -= float(fresh @ direction) * direction
        free = math.sqrt(max(0.0, float((tau**2).sum()) - on_own**2))
        seen = float((self._open * tau).sum()) / max(float(self._u @ self._u), 1e-300)
        return times(self._root, on_own * self._g + seen * self._u + free * fresh)

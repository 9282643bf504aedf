r"""The covariances of a task's tokens in d dimensions: ξ, Σ^½ and C^½, once for all of a run.

A noise token is Σ^½z, a signal token θξ + C^½z (`covariances.py`). With a spectrum the coordinates
are eigenvectors, as many for each atom as `counts(d)` says, and ξ has in those of each atom a
random direction and exactly its share of the length. Matrices are used as they are, and their ξ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetoken.model.covariances import Covariances, Spectrum
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import Array, FloatArray, IntArray, floats

_WHOLE = slice(None)


@dataclass(frozen=True, eq=False)
class Layout:
    """ξ and the roots of both covariances: (d,) where coordinates are eigenvectors, or (d, d).

    >>> from sparsetoken.model.covariances import Spectrum
    >>> task = Task(5, 1, 3.0, noise=Spectrum((1.0, 4.0), (0.5, 0.5), (0.2, 0.8)))
    >>> layout = draw_layout(task, 6, np.random.default_rng(0))
    >>> layout.noise_root.tolist(), float((layout.signal**2)[3:].sum().round(9)), layout.has_spread
    ([1.0, 1.0, 1.0, 2.0, 2.0, 2.0], 0.8, False)
    """

    signal: FloatArray  # (d,), the unit vector ξ
    noise_root: FloatArray
    signal_root: FloatArray  # the same object where C = Σ
    counts: IntArray  # of coordinates that are alike, one group after the other

    @property
    def by_coordinates(self) -> bool:
        """Whether the noise of one coordinate tells nothing of the others."""
        return self.noise_root.ndim == self.signal_root.ndim == 1

    @property
    def has_spread(self) -> bool:
        """Whether signal tokens have a covariance of their own."""
        return self.noise_root is not self.signal_root

    @property
    def roots(self) -> tuple[FloatArray, FloatArray]:
        """Σ^½ and C^½."""
        return self.noise_root, self.signal_root

    def coloured(self, white: Array, which: Any, where: Any, columns: slice = _WHOLE) -> Array:
        """White noise of tokens (n, L, columns) with their covariances; it is written to.

        Tokens (which, where) carry the signal.
        """
        special = white[which, where] if self.has_spread else None
        tokens = _coloured(white, self.noise_root, columns)
        if special is not None:
            tokens[which, where] = _coloured(special, self.signal_root, columns)
        return tokens


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


def draw_layout(task: Task, dim: int, rng: np.random.Generator) -> Layout:
    """That of a run, with a signal of random direction as far as the task leaves it open."""
    counts = task.noise.counts(dim)
    if isinstance(task.noise, Covariances):
        noise, signal, mean = task.noise.arrays
        root = _root(noise)
        return Layout(mean, root, root if signal is None else _root(signal), counts)
    joint = task.joint_spectrum
    assert joint is not None
    xi, stop = rng.standard_normal(dim), np.cumsum(counts)
    for share, low, high in zip(joint.share, stop - counts, stop, strict=True):
        if high > low:
            xi[low:high] *= math.sqrt(share) / np.linalg.norm(xi[low:high])
    root = np.repeat(np.sqrt(joint.noise), counts)
    other = np.repeat(np.sqrt(joint.signal), counts) if task.has_spread else root
    return Layout(xi / np.linalg.norm(xi), root, other, counts)


def times(root: FloatArray, vectors: FloatArray) -> FloatArray:
    """A root times vectors (…, d)."""
    return root * vectors if root.ndim == 1 else vectors @ root


def _coloured(tokens: Array, root: FloatArray, columns: slice) -> Array:
    xp, tokens = floats(tokens)
    own = xp.asarray(root, dtype=tokens.dtype, device=tokens.device)
    if root.ndim == 2:
        return tokens @ own
    tokens *= own[columns]
    return tokens


def _root(covariance: FloatArray) -> FloatArray:
    """The symmetric root (d, d)."""
    values, vectors = np.linalg.eigh(covariance)
    root: FloatArray = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root

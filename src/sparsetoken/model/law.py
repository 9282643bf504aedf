r"""`FeatureLaw`: the one reduction every classifier goes through (section 5 of docs/theory.md).

Given low-dimensional randomness, a feature vector in R^p is

    f = Σ_k m_k e_k + σ z,

K orthonormal explicit directions e_k, random coordinates m_k, a random scale σ > 0 and isotropic
Gaussian z. A direction is *noisy* if z also has a component along it (then m_k is only the mean),
or not (then m_k is the whole coordinate). A law is the joint distribution of (y, m, σ), kept as
weighted atoms. Solver, capacity, metrics, simulation and planner see nothing else.

Where noise has other covariances than I, f = Σ_k m_k d_k + Σ_j s_j Σ′_j^½ z_j: a few covariances
with random scales, and directions that lie in them as the law's `Geometry` says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparsetoken.model.compression import compress
from sparsetoken.model.geometry import Geometry
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real, refusal, settle, whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

# Compression: polynomials of (m, log σ) up to this total degree are averaged exactly in each of
# these many equally likely slices of the first coordinate (see docs/theory.md for what it costs).
_DEGREE, _SLICES = 4, 4
_FINE_DEGREE, _FINE_SLICES = 4, 32
_DEGREE_OF_SEVERAL = 3  # with two scales: errors move by 1e-6, and it takes half a second
_DRAFT_DEGREE, _DRAFT_POINTS = 3, 1 << 11
_FEW_ATOMS = 4096
_MOST_DIRECTIONS = 3  # with a geometry, that moments are matched of
_PARTS = 16  # of a sampled cloud, for standard errors


class Readout(NamedTuple):
    """A linear readout as a law sees it: score = Σ_k m_k w_k + b + σ r G.

    >>> Readout(weights=np.array([1.0, 0.5]), bias=-1.0, noise=0.7).noise
    0.7
    """

    weights: FloatArray  # (K,), w_k on the explicit directions
    bias: float  # b
    noise: float | FloatArray  # r, norm of the readout on everything z reaches; (J,) with J of them


class Coordinates(NamedTuple):
    """n samples as a law sees them: f = Σ_k m_k e_k + σ z for each."""

    labels: FloatArray  # (n,)
    means: FloatArray  # (n, K)
    scales: FloatArray  # (n,), or (n, J) with a geometry
    noisy: NDArray[np.bool_]  # (K,), whether z has a component along e_k; (J, K) with a geometry
    features_per_dim: int = 1  # p/d
    geometry: Geometry | None = None  # None: white noise, orthonormal directions


@dataclass(frozen=True, eq=False)
class FeatureLaw:
    """The joint law of (label y, coordinates m, scale σ) as weighted atoms.

    Parameters
    ----------
    labels : array
        +1 or −1, shape (atoms,); both classes must occur.
    means : array
        Coordinates m_k, shape (atoms, K).
    scales : array
        σ > 0, shape (atoms,). With a geometry s_j ≥ 0, shape (atoms, J), not all zero in an atom.
    weights : array
        Probabilities of the atoms, positive, shape (atoms,); normalised here.
    noisy : array
        Whether z has a component along e_k, shape (K,). With a geometry whether Σ_j has all its
        noise along d_k, shape (J, K): d_k d_kᵀ is taken off it where not.
    features_per_dim : int
        p/d, features per embedding dimension (L for `Vectorized`, else 1).
    sampled : bool
        Whether the atoms are (quasi-)random draws of a continuous law, in order, rather than exact.
    geometry : Geometry, optional
        How the directions lie in the covariances of the noise; None for white noise and orthonormal
        directions.

    Examples
    --------
    A mixture of two Gaussians at 0 and 2:

    >>> law = FeatureLaw(labels=[1, -1], means=[[2.0], [0.0]], scales=[1, 1],
    ...                  weights=[0.5, 0.5], noisy=[True])
    >>> law.prevalence
    0.5
    >>> scores = law.scores(Readout(weights=np.array([1.0]), bias=-1.0, noise=1.0))
    >>> round(scores.test_error, 6)  # Φ(−1)
    0.158655
    """

    labels: FloatArray
    means: FloatArray
    scales: FloatArray
    weights: FloatArray
    noisy: NDArray[np.bool_]
    features_per_dim: int = 1
    sampled: bool = False
    geometry: Geometry | None = None

    def __post_init__(self) -> None:
        noisy, atoms = self._checked_noisy(), (np.size(self.labels),)
        shapes = {"labels": atoms, "means": (*atoms, noisy.shape[-1]), "weights": atoms}
        shapes["scales"] = (*atoms, *noisy.shape[:-1])
        arrays = {field: np.asarray(getattr(self, field), dtype=float) for field in shapes}
        for field, array in arrays.items():
            if array.shape != shapes[field] or not np.all(np.isfinite(array)):
                raise InvalidInput(
                    f"FeatureLaw: {field} must be finite numbers of shape {shapes[field]} "
                    f"(labels and noisy give the sizes), got shape {array.shape}"
                )
            least = array.max(axis=1) if field == "scales" and array.ndim == 2 else array
            if field in ("scales", "weights") and not (np.all(least > 0) and np.all(array >= 0)):
                raise InvalidInput(f"FeatureLaw: {field} must be positive, got {array.min():g}")
        labels = np.unique(arrays["labels"])
        if labels.tolist() != [-1.0, 1.0]:
            raise refusal(FeatureLaw, "labels", labels[:5].tolist(), "both +1 and -1")
        arrays["weights"] = arrays["weights"] / arrays["weights"].sum()
        for field, array in {**arrays, "noisy": noisy}.items():
            if array.flags.writeable:  # the caller's array stays the caller's
                array = array.copy()
                array.setflags(write=False)
            settle(self, **{field: array})
        features_per_dim = whole(FeatureLaw, "features_per_dim", self.features_per_dim, least=1)
        settle(self, features_per_dim=features_per_dim)

    def _checked_noisy(self) -> NDArray[np.bool_]:
        noisy, shape = np.asarray(self.noisy), "(K,)"
        if self.geometry is None:
            allowed = noisy.ndim == 1
        else:
            sizes = (self.geometry.covariances, self.geometry.directions)
            shape, allowed = f"{sizes}", noisy.shape == sizes
        if noisy.dtype != bool or not allowed:
            raise refusal(FeatureLaw, "noisy", self.noisy, f"truth values of shape {shape}")
        return noisy

    @classmethod
    def of_classes(
        cls,
        prevalence: float,
        positive: tuple[ArrayLike, ArrayLike, ArrayLike],
        negative: tuple[ArrayLike, ArrayLike, ArrayLike],
        noisy: ArrayLike,
        features_per_dim: int = 1,
        sampled: bool = False,
        geometry: Geometry | None = None,
    ) -> FeatureLaw:
        """From (means (n, K), scales (n,), weights (n,)) of each class, weighted by prevalence."""
        sides = []
        for label, mass, side in ((1.0, prevalence, positive), (-1.0, 1 - prevalence, negative)):
            means, scales, weights = (np.asarray(part, dtype=float) for part in side)
            sides.append(
                (np.full(len(scales), label), means, scales, mass * weights / weights.sum())
            )
        labels, means, scales, weights = (
            np.concatenate(parts) for parts in zip(*sides, strict=True)
        )
        noisy = np.asarray(noisy)
        return cls(labels, means, scales, weights, noisy, features_per_dim, sampled, geometry)

    @cached_property
    def design(self) -> FloatArray:
        """Coordinates and a column of ones, (atoms, K + 1): (w, b) @ designᵀ is the mean score."""
        return np.column_stack([self.means, np.ones(len(self.labels))])

    @property
    def prevalence(self) -> float:
        """Probability of a positive sample."""
        return float(self.weights[self.labels > 0].sum())

    def with_prevalence(self, prevalence: float) -> FeatureLaw:
        """The same two class laws, mixed with another probability of a positive sample."""
        prevalence = real("with_prevalence", "prevalence", prevalence, above=0, below=1)
        share = np.where(
            self.labels > 0, prevalence / self.prevalence, (1 - prevalence) / (1 - self.prevalence)
        )
        law = replace(self, weights=self.weights * share)
        # moments are matched in each class: the smaller laws are made once, for every prevalence
        for name, small in (("compressed", self.compressed), ("refined", self.refined)):
            if small is not self:
                law.__dict__[name] = small.with_prevalence(prevalence)
        return law

    @cached_property
    def compressed(self) -> FeatureLaw:
        """A law of a few hundred atoms with the same moments of (m, log σ) in each class.

        Cheap to solve, and close. A law of few atoms, or of many directions (moments would
        outnumber atoms), is returned as it is.
        """
        return self if self._is_small else self.smaller(self._degree(_DEGREE), _SLICES)

    @cached_property
    def refined(self) -> FeatureLaw:
        """A law of one or two thousand atoms, fine enough for losses with kinks.

        The solver finishes on it; test metrics of the solution use every atom.
        """
        return self if self._is_small else self.smaller(self._degree(_FINE_DEGREE), _FINE_SLICES)

    def _degree(self, usual: int) -> int:
        """Of the moments that are matched: five variables have many."""
        return usual if self.scales.ndim == 1 or self.scales.shape[1] == 1 else _DEGREE_OF_SEVERAL

    @property
    def _is_small(self) -> bool:
        most = 2 if self.geometry is None else _MOST_DIRECTIONS
        return len(self.labels) <= _FEW_ATOMS or self.means.shape[1] > most

    def smaller(self, degree: int, slices: int) -> FeatureLaw:
        """A law of fewer atoms with the same moments up to a degree in each slice of each class.

        Slices are those of the first coordinate; at most two directions.
        """
        return self.selected(*self.selection(degree, slices))

    def draft_selection(self) -> tuple[NDArray[np.intp], FloatArray]:
        """A hundred atoms or two that stand for a sampled law in drafts, and their weights."""
        return self.selection(_DRAFT_DEGREE, _SLICES, _DRAFT_POINTS)

    def selection(
        self, degree: int, slices: int, points: int | None = None
    ) -> tuple[NDArray[np.intp], FloatArray]:
        """Which atoms the smaller law has, and their weights; some of the first points alone."""
        chosen, weights = [], []
        for label in (1.0, -1.0):
            index = np.flatnonzero(self.labels == label)[:points]
            places = np.column_stack([self.means[index], self._log_scales(index)])
            moving = np.ptp(places, axis=0) > 1e-12
            moving[0] = True
            kept, new = compress(places[:, moving], self.weights[index], degree, slices)
            chosen.append(index[kept])
            weights.append(new)
        return np.concatenate(chosen), np.concatenate(weights)

    def _log_scales(self, index: NDArray[np.intp]) -> FloatArray:
        """log σ (n,); of several the logarithm of all together, and the part of each but the
        first, some of which may be zero."""
        scales = self.scales[index]
        if scales.ndim == 1:
            return np.log(scales)
        total = (scales**2).sum(axis=1, keepdims=True)
        return np.column_stack([0.5 * np.log(total), scales[:, 1:] ** 2 / total])

    def selected(self, index: NDArray[np.intp], weights: FloatArray) -> FeatureLaw:
        """Some of the atoms, with other weights."""
        return FeatureLaw(
            self.labels[index],
            self.means[index],
            self.scales[index],
            weights,
            self.noisy,
            self.features_per_dim,
            geometry=self.geometry,
        )

    def head(self, points: int) -> FeatureLaw:
        """The first `points` atoms of each class, equally likely: of a sampled law, a draft."""
        index = np.concatenate([np.flatnonzero(self.labels == y)[:points] for y in (1.0, -1.0)])
        share = np.where(self.labels[index] > 0, self.prevalence, 1 - self.prevalence)
        return replace(self.selected(index, share), sampled=self.sampled)

    def sample(self, n: int, rng: np.random.Generator | int) -> Coordinates:
        """Draw n atoms with their probabilities: labels (n,), means (n, K), scales (n,)."""
        rng = np.random.default_rng(rng)
        chosen = rng.choice(
            len(self.weights), size=whole("sample", "n", n, least=0), p=self.weights
        )
        return Coordinates(
            self.labels[chosen],
            self.means[chosen],
            self.scales[chosen],
            self.noisy,
            self.features_per_dim,
            self.geometry,
        )

    def deviations(self, noise: float | FloatArray) -> FloatArray:
        """σr of each atom (atoms,), or √(Σ s_j²r_j²) of several."""
        return self.scales * noise if self.scales.ndim == 1 else np.sqrt(self.variances(noise**2))

    def variances(self, squares: float | FloatArray) -> FloatArray:
        """σ²v of each atom (atoms,), or Σ s_j²v_j of several."""
        return self.scales**2 * squares if self.scales.ndim == 1 else self.scales**2 @ squares

    def scores(self, readout: Readout) -> Scores:
        """The score distributions of a readout, with every test metric."""
        directions = self.means.shape[1]
        if np.shape(readout.weights) != (directions,) or not np.all(np.isfinite(readout[0])):
            raise InvalidInput(
                f"scores: weights must be {directions} finite numbers (one a direction), "
                f"got {readout.weights!r}"
            )
        real("scores", "bias", readout.bias)
        if np.shape(readout.noise) != self.scales.shape[1:]:
            raise InvalidInput(
                f"scores: noise must be of shape {self.scales.shape[1:]} (one a covariance), "
                f"got {readout.noise!r}"
            )
        for value in np.ravel(readout.noise):
            real("scores", "noise", value, least=0)
        mean = self.means @ readout.weights + readout.bias
        deviation = self.deviations(readout.noise)

        def side(label: float) -> Mixture:
            chosen = self.labels == label
            weight = self.weights[chosen]
            return Mixture(mean[chosen], deviation[chosen], weight / weight.sum())

        return Scores(side(1.0), side(-1.0), self.prevalence, self.sampled)

    def average(self, values: ArrayLike) -> Estimate:
        """The mean of a number of each atom; with a standard error, from 16 parts, if sampled."""
        values = np.asarray(values, dtype=float)
        mean = float(self.weights @ values)
        if not self.sampled:
            return Estimate(mean)
        parts = np.zeros(_PARTS)
        for label in (1.0, -1.0):
            side = self.labels == label
            mass = self.weights[side]
            sums = [
                np.array([block.sum() for block in np.array_split(sequence, _PARTS)])
                for sequence in (mass * values[side], mass)
            ]
            parts += mass.sum() * sums[0] / sums[1]
        return Estimate(mean, parts.std(ddof=1) / math.sqrt(_PARTS))

r"""How the explicit directions of a law lie in the covariances of its noise.

Features are f = Σ_k m_k d_k + Σ_j s_j Σ′_j^½ z_j: K directions d_k, the columns of D, with random
coordinates, and J covariances Σ_j with random scales; of Σ′_j = Σ_j − Σ_k d_k d_kᵀ the directions
are taken off whose coordinate m_k is all there is. A readout that is fitted to them answers with
K = (λ + Σ_j κ_j Σ_j)⁻¹, and all that matters of it is in `Kernel`; tr̄ is the trace over p.

Where all Σ_j commute, sums over their joint spectrum are enough, `SpectralGeometry`; white noise
with orthonormal directions is the case of one eigenvalue.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import settle
from sparsetoken.support.errors import InvalidInput


class Kernel(NamedTuple):
    """What K is to the directions and the covariances, for several problems at once."""

    gram: FloatArray  # (problems, K, K), DᵀKD
    grams: FloatArray  # (problems, J, K, K), DᵀKΣ_jKD
    triples: FloatArray  # (problems, J, J, K, K), DᵀK(Σ_iKΣ_j + Σ_jKΣ_i)KD
    traces: FloatArray  # (problems, J), tr̄[Σ_jK]
    pairs: FloatArray  # (problems, J, J), tr̄[Σ_iKΣ_jK]
    cubes: FloatArray  # (problems, J, J, J), tr̄[Σ_lK(Σ_iKΣ_jK + Σ_jKΣ_iK)]


class Geometry(ABC):
    """Directions and covariances, as far as a readout sees them."""

    @property
    @abstractmethod
    def directions(self) -> int:
        """K."""

    @property
    @abstractmethod
    def covariances(self) -> int:
        """J."""

    @property
    @abstractmethod
    def mean_variances(self) -> FloatArray:
        """(J,), tr̄Σ_j."""

    @property
    @abstractmethod
    def lengths(self) -> FloatArray:
        """(K,), ‖d_k‖."""

    @abstractmethod
    def kernel(self, ridge: FloatArray, kappa: FloatArray) -> Kernel:
        """Of ridges λ (problems,) and κ (problems, J)."""

    @abstractmethod
    def norm_squared(
        self, ridge: float, kappa: FloatArray, pulls: FloatArray, power: FloatArray
    ) -> float:
        """‖w‖² = tᵀDᵀK²Dt + Σ_j F_j tr̄[Σ_jK²] of pulls t (K,) and powers F (J,)."""

    @abstractmethod
    def whitened_gram(self) -> FloatArray:
        """(K, K), DᵀΣ⁻¹D, of one covariance."""

    @abstractmethod
    def like(self, other: Geometry) -> bool:
        """Whether these are the same directions in the same covariances."""


@dataclass(frozen=True, eq=False)
class SpectralGeometry(Geometry):
    """Covariances that commute, by their joint spectrum.

    Parameters
    ----------
    values : array
        Eigenvalues of each covariance, shape (J, atoms), not negative.
    density : array
        Share of the coordinates with these eigenvalues, shape (atoms,); sums to one.
    gram : array
        Inner products of the directions within each atom, shape (atoms, K, K).

    >>> geometry = SpectralGeometry([[0.5, 2.0]], [0.8, 0.2], [[[0.3]], [[0.7]]])
    >>> geometry.mean_variances.round(9).tolist(), geometry.lengths.tolist()
    ([0.8], [1.0])
    """

    values: FloatArray
    density: FloatArray
    gram: FloatArray

    def __post_init__(self) -> None:
        values, density, gram = (
            np.array(given, dtype=float) for given in (self.values, self.density, self.gram)
        )
        atoms, size = density.shape, gram.shape[-1] if gram.ndim == 3 else 0
        if (
            len(atoms) != 1
            or values.shape != (len(values), *atoms)
            or gram.shape != (*atoms, size, size)
            or not all(np.all(np.isfinite(array)) for array in (values, density, gram))
            or not (values >= 0).all()
            or not (density >= 0).all()
        ):
            raise InvalidInput(
                "SpectralGeometry: values (J, atoms) and density (atoms,) must be finite numbers "
                "of at least 0, gram finite numbers of shape (atoms, K, K), got shapes "
                f"{values.shape}, {density.shape} and {gram.shape}"
            )
        for array in (values, density, gram):
            array.setflags(write=False)
        settle(self, values=values, density=density, gram=gram)

    @property
    def directions(self) -> int:
        return self.gram.shape[-1]

    @property
    def covariances(self) -> int:
        return len(self.values)

    @property
    def mean_variances(self) -> FloatArray:
        return np.asarray(self.values @ self.density)

    @cached_property
    def lengths(self) -> FloatArray:
        return np.sqrt(np.einsum("akk->k", self.gram))

    @cached_property
    def _columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What is averaged with the first three powers of 1/(λ + Σ κ_j x_j); rows are atoms."""
        x, atoms = self.values, len(self.density)
        flat = self.gram.reshape(atoms, -1)  # (atoms, K²)
        pairs = np.einsum("ia,ja->aij", x, x).reshape(atoms, -1)
        cubes = (pairs[:, :, None] * x.T[:, None, :]).reshape(atoms, -1)

        def columns(powers: FloatArray, more: FloatArray) -> FloatArray:
            """Of the directions times powers, of traces times one power more."""
            products = (powers[:, :, None] * flat[:, None, :]).reshape(atoms, -1)
            return np.column_stack([products, more * self.density[:, None]])

        return columns(np.ones((atoms, 1)), x.T), columns(x.T, pairs), columns(2 * pairs, 2 * cubes)

    def kernel(self, ridge: FloatArray, kappa: FloatArray) -> Kernel:
        j, k, p = self.covariances, self.directions, len(ridge)
        inverse = 1.0 / (ridge[:, None] + kappa @ self.values)  # (problems, atoms)
        first, second, third = self._columns
        one, two = inverse @ first, inverse**2 @ second
        three = inverse**3 @ third
        square = k * k
        return Kernel(
            one[:, :square].reshape(p, k, k),
            two[:, : j * square].reshape(p, j, k, k),
            three[:, : j * j * square].reshape(p, j, j, k, k),
            one[:, square:],
            two[:, j * square :].reshape(p, j, j),
            three[:, j * j * square :].reshape(p, j, j, j),
        )

    def norm_squared(
        self, ridge: float, kappa: FloatArray, pulls: FloatArray, power: FloatArray
    ) -> float:
        square = (ridge + kappa @ self.values) ** -2.0  # (atoms,)
        along = np.einsum("a,akl,k,l->", square, self.gram, pulls, pulls)
        return float(along + power @ (self.values * self.density) @ square)

    def whitened_gram(self) -> FloatArray:
        return np.einsum("akl,a->kl", self.gram, 1.0 / self.values[0])

    def like(self, other: Geometry) -> bool:
        mine = (self.values, self.density, self.gram)
        if not isinstance(other, SpectralGeometry):
            return False
        return all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12)
            for a, b in zip(mine, (other.values, other.density, other.gram), strict=True)
        )

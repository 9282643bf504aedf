r"""How the explicit directions of a law lie in the covariances of its noise.

Features are f = Σ_k m_k d_k + Σ_j s_j Σ′_j^½ z_j: K directions d_k, the columns of D, with random
coordinates, and J covariances Σ_j with random scales; of Σ′_j = Σ_j − Σ_k d_k d_kᵀ the directions
are taken off whose coordinate m_k is all there is. A readout that is fitted to them answers with
K = (λ + Σ_j κ_j Σ_j)⁻¹, and all that matters of it is in `Kernel`; tr̄ is the trace over p.

Where all Σ_j commute, sums over their joint spectrum are enough, `SpectralGeometry`; white noise
with orthonormal directions is the case of one eigenvalue. Else K is a matrix, `MatrixGeometry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

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


class TwoKernels(NamedTuple):
    """What two answers K and K′ of one ridge and κ are to each other, with their derivatives: those
    of K by −Σ_aκ̇_aKΣ_aK, of K′ with b in place of a."""

    grams: FloatArray  # (J, K, K), DᵀKΣ_jKD
    grams_once: FloatArray  # (a, j, K, K), DᵀKΣ_aKΣ_jKD
    grams_twice: FloatArray  # (a, b, j, K, K), DᵀKΣ_aKΣ_jKΣ_bKD
    pairs: FloatArray  # (i, j), tr̄[Σ_iKΣ_jK]
    pairs_once: FloatArray  # (a, i, j), tr̄[Σ_iKΣ_aKΣ_jK]
    pairs_twice: FloatArray  # (a, b, i, j), tr̄[Σ_iKΣ_aKΣ_jKΣ_bK]


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

    @property
    @abstractmethod
    def surrogate(self) -> SpectralGeometry:
        """A spectrum that resembles it: its solutions, found quickly, are where to begin."""

    @abstractmethod
    def kernel(self, ridge: FloatArray, kappa: FloatArray) -> Kernel:
        """Of ridges λ (problems,) and κ (problems, J)."""

    @abstractmethod
    def two_kernels(self, ridge: float, kappa: FloatArray) -> TwoKernels:
        """Of one problem."""

    @abstractmethod
    def norm_squared(
        self, ridge: float, kappa: FloatArray, pulls: FloatArray, power: FloatArray
    ) -> float:
        """‖w‖² = tᵀDᵀK²Dt + Σ_j F_j tr̄[Σ_jK²] of pulls t (K,) and powers F (J,)."""

    @abstractmethod
    def without_directions(self, features: int) -> Geometry:
        """The same with traces over what the directions leave of so many features: at finite size
        they are no part of the noise that K answers."""

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
    def surrogate(self) -> SpectralGeometry:
        return self

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

    def two_kernels(self, ridge: float, kappa: FloatArray) -> TwoKernels:
        x, flat = self.values, self.gram.reshape(len(self.density), -1)
        inverse = 1.0 / (ridge + kappa @ x)
        two = x[:, None] * x
        three = two[:, :, None] * x
        four = three[:, :, :, None] * x

        def summed(values: FloatArray, power: int, gram: bool) -> FloatArray:
            weighted = values * inverse**power
            if gram:
                shape = (*values.shape[:-1], self.directions, self.directions)
                return np.asarray((weighted @ flat).reshape(shape))
            return np.asarray(weighted @ self.density)

        return TwoKernels(
            summed(x, 2, True), summed(two, 3, True), summed(three, 4, True),
            summed(two, 2, False), summed(three, 3, False), summed(four, 4, False),
        )  # fmt: skip

    def norm_squared(
        self, ridge: float, kappa: FloatArray, pulls: FloatArray, power: FloatArray
    ) -> float:
        square = (ridge + kappa @ self.values) ** -2.0  # (atoms,)
        along = np.einsum("a,akl,k,l->", square, self.gram, pulls, pulls)
        return float(along + power @ (self.values * self.density) @ square)

    def without_directions(self, features: int) -> SpectralGeometry:
        inverse = np.linalg.pinv(self.gram.sum(axis=0), rcond=1e-9, hermitian=True)
        taken = np.einsum("kl,akl->a", inverse, self.gram)  # of the projector on them
        left = np.maximum(features * self.density - taken, 0.0)
        return SpectralGeometry(self.values, left / left.sum(), self.gram)

    def whitened_gram(self) -> FloatArray:
        return np.einsum("akl,a->kl", self.gram, 1.0 / self.values[0])

    def like(self, other: Geometry) -> bool:
        own = (self.values, self.density, self.gram)
        if not isinstance(other, SpectralGeometry):
            return False
        return all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12)
            for a, b in zip(own, (other.values, other.density, other.gram), strict=True)
        )


@dataclass(frozen=True, eq=False)
class MatrixGeometry(Geometry):
    """Covariances that do not commute, as matrices.

    Parameters
    ----------
    matrices : array
        Σ_j, symmetric, shape (J, d, d).
    products : array
        E[d_k d_lᵀ], outer products of the directions, shape (K, K, d, d).
    near : SpectralGeometry
        One that resembles it.

    >>> near = SpectralGeometry([[0.5, 2.0]], [0.5, 0.5], np.full((2, 1, 1), 0.5))
    >>> geometry = MatrixGeometry([np.diag([0.5, 2.0])], np.eye(2)[None, None] / 2, near)
    >>> geometry.mean_variances.tolist(), geometry.lengths.tolist()
    ([1.25], [1.0])
    """

    matrices: FloatArray
    products: FloatArray
    near: SpectralGeometry

    def __post_init__(self) -> None:
        matrices, products = (np.array(given, float) for given in (self.matrices, self.products))
        size = matrices.shape[-1]
        if (
            matrices.shape != (len(matrices), size, size)
            or products.ndim != 4
            or products.shape != (len(products), len(products), size, size)
        ):
            raise InvalidInput(
                "MatrixGeometry: matrices must be of shape (J, d, d) and products of shape "
                f"(K, K, d, d), got shapes {matrices.shape} and {products.shape}"
            )
        for array in (matrices, products):
            array.setflags(write=False)
        settle(self, matrices=matrices, products=products)

    @property
    def directions(self) -> int:
        return len(self.products)

    @property
    def surrogate(self) -> SpectralGeometry:
        return self.near

    @property
    def covariances(self) -> int:
        return len(self.matrices)

    @cached_property
    def mean_variances(self) -> FloatArray:
        return np.einsum("jii->j", self.matrices) / self.matrices.shape[-1]

    @cached_property
    def lengths(self) -> FloatArray:
        return np.sqrt(np.einsum("kkii->k", self.products))

    def kernel(self, ridge: FloatArray, kappa: FloatArray) -> Kernel:
        parts = [self._one(float(r), k) for r, k in zip(ridge, kappa, strict=True)]
        return Kernel(*(np.array(part) for part in zip(*parts, strict=True)))

    def _one(self, ridge: float, kappa: FloatArray) -> Kernel:
        """Of one problem: a factorisation and J(J + 5)/2 products of matrices."""
        count, size = self.covariances, self.matrices.shape[-1]
        inverse = self._inverse(ridge, kappa)
        left = [inverse @ matrix for matrix in self.matrices]  # KΣ_j
        once = [factor @ inverse for factor in left]  # KΣ_jK
        triples = np.empty((count, count, self.directions, self.directions))
        pairs, cubes = np.empty((count, count)), np.empty((count, count, count))
        for i in range(count):
            pairs[i] = [np.vdot(self.matrices[j], once[i]) / size for j in range(count)]
            for j in range(i + 1):
                twice = left[i] @ once[j]
                twice = twice + twice.T  # KΣ_iKΣ_jK and its mirror image
                triples[i, j] = triples[j, i] = self._along(twice)
                cubes[i, j] = [np.vdot(matrix, twice) / size for matrix in self.matrices]
                cubes[j, i] = cubes[i, j]
        return Kernel(
            self._along(inverse),
            np.array([self._along(matrix) for matrix in once]),
            triples,
            np.array([np.vdot(matrix, inverse) / size for matrix in self.matrices]),
            pairs,
            cubes,
        )

    def two_kernels(self, ridge: float, kappa: FloatArray) -> TwoKernels:
        count, k = self.covariances, self.directions
        inverse = self._inverse(ridge, kappa)
        left = [inverse @ matrix for matrix in self.matrices]  # KΣ_j
        once = [factor @ inverse for factor in left]
        grams_once, pairs_once = np.empty((count, count, k, k)), np.empty((count,) * 3)
        grams_twice, pairs_twice = np.empty((count,) * 3 + (k, k)), np.empty((count,) * 4)
        for j, b in np.ndindex(count, count):
            twice = left[j] @ once[b]  # KΣ_jKΣ_bK
            grams_once[j, b], pairs_once[j, :, b] = self._along(twice), self._traces(twice)
            for a in range(count):
                thrice = left[a] @ twice
                grams_twice[a, b, j] = self._along(thrice)
                pairs_twice[a, b, :, j] = self._traces(thrice)
        return TwoKernels(
            np.array([self._along(matrix) for matrix in once]),
            grams_once,
            grams_twice,
            np.array([self._traces(matrix) for matrix in once]),
            pairs_once,
            pairs_twice,
        )

    def _traces(self, matrix: FloatArray) -> FloatArray:
        """(J,), tr̄[Σ_i f]."""
        return np.array([np.vdot(covariance, matrix) for covariance in self.matrices]) / len(matrix)

    def _inverse(self, ridge: float, kappa: FloatArray) -> FloatArray:
        total = np.einsum("j,jab->ab", kappa, self.matrices)
        total[np.diag_indices(len(total))] += ridge
        factor, _ = dpotrf(total, lower=1, overwrite_a=1)
        inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
        lower = np.tril(inverse)
        return np.asarray(lower + np.tril(lower, -1).T)

    def _along(self, matrix: FloatArray) -> FloatArray:
        """(K, K), d_kᵀ f d_l."""
        flat = self.products.reshape(self.directions**2, -1) @ matrix.ravel()
        return np.asarray(flat.reshape(self.directions, self.directions))

    def norm_squared(
        self, ridge: float, kappa: FloatArray, pulls: FloatArray, power: FloatArray
    ) -> float:
        inverse = self._inverse(ridge, kappa)
        square = inverse @ inverse
        traces = np.array([np.vdot(matrix, square) for matrix in self.matrices]) / len(square)
        return float(pulls @ self._along(square) @ pulls + power @ traces)

    def without_directions(self, features: int) -> MatrixGeometry:
        """As it is: what they leave has the same traces but for a share of K/p."""
        return self

    def whitened_gram(self) -> FloatArray:
        return self._along(np.linalg.inv(self.matrices[0]))

    def like(self, other: Geometry) -> bool:
        if not isinstance(other, MatrixGeometry):
            return False
        pairs = ((self.matrices, other.matrices), (self.products, other.products))
        return all(
            a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in pairs
        )

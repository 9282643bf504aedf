r"""Tokens X = uξᵀ + Z through their products alone: Xa and Xᵀb for one vector after another.

An algorithm that sees tokens through such products needs no tokens. Given what earlier products
told of the Gaussian matrix Z, all else of it is as random as before: with orthonormal vectors q_k
and p_j of which Zq_k and Zᵀp_j are known, a new direction q, orthogonal to all q_k, has

    Zq = Σ_j p_j ⟨Zᵀp_j, q⟩ + (I − Σ_j p_j p_jᵀ) g,      g ~ N(0, I),

and a new p alike. Exact in law at any size, from O(rows + dim) random numbers a product.
"""

from __future__ import annotations

import math

from sparsetoken.simulation.devices import Source
from sparsetoken.support.arrays import Array, floats

_ROUNDING = 1e-14  # of a vector's length: less is left of it beside earlier ones by rounding


class Spiked:
    """A matrix uξᵀ + Z with `left` u (rows,) and `right` ξ (dim,), a vector of any length."""

    def __init__(self, left: Array, right: Array, source: Source) -> None:
        self.left, self.right, self._source = left, right, source
        rows, dim = left.shape[0], right.shape[0]
        self._rows = _Known(rows, dim, source)  # p_j and Zᵀp_j
        self._columns = _Known(dim, rows, source)  # q_k and Zq_k

    def times(self, vector: Array) -> Array:
        """Xa (rows,) for a vector (dim,)."""
        return self._noise(self._columns, self._rows, vector) + (vector @ self.right) * self.left

    def transposed_times(self, vector: Array) -> Array:
        """Xᵀb (dim,) for a vector (rows,)."""
        product = self._noise(self._rows, self._columns, vector)
        return product + (vector @ self.left) * self.right

    def _noise(self, own: _Known, other: _Known, vector: Array) -> Array:
        """Z or Zᵀ times a vector, from what is known of vectors of its kind and of the others."""
        rest = own.less(vector)
        product = (own.vectors @ vector) @ own.images
        length = math.sqrt(float(rest @ rest))
        if length > _ROUNDING * math.sqrt(float(vector @ vector)):
            direction = rest / length
            fresh = other.less(self._source.standard_normal(product.shape))
            image = fresh + (other.images @ direction) @ other.vectors
            own.add(direction, image)
            product = product + length * image
        return product


class _Known:
    """Orthonormal vectors (k, size), and their images under the noise (k, other size)."""

    def __init__(self, size: int, other: int, source: Source) -> None:
        self.vectors = source.device.empty((0, size))
        self.images = source.device.empty((0, other))

    def less(self, vector: Array) -> Array:
        """What a vector has beside these; twice, for rounding."""
        for _ in range(2):
            vector = vector - (self.vectors @ vector) @ self.vectors
        return vector

    def add(self, vector: Array, image: Array) -> None:
        xp, vectors = floats(self.vectors)
        self.vectors = xp.concat([vectors, vector[None, :]])
        self.images = xp.concat([self.images, image[None, :]])

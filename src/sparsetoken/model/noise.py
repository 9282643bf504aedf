r"""The noise of tokens, as data: mean 0, and variance 1 in every coordinate.

| noise        | a coordinate is                                                | `shape`  |
|--------------|----------------------------------------------------------------|----------|
| `Gaussian`   | N(0, 1)                                                        |          |
| `Rademacher` | ±1                                                             |          |
| `Student`    | t_ν √((ν−2)/ν), each coordinate for itself                     | ν > 2    |
| `Sparse`     | ±1/√ε with probability ε, else 0                               | 0 < ε ≤ 1|
| `Elliptical` | N(0, 1)·S, one S for the whole token, S² = (ν−2)/χ²_ν: mean 1  | ν > 2    |
| `Shared`     | √ρ z₀ + √(1−ρ) z_l, z₀ the same for all tokens of a sample     |          |
| `Coloured`   | (Cz)_j with CCᵀ = Σ, Σ_jk = c^|j−k|                            |          |

z is noise of any kind. The theory has the first, alone or shared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np

from sparsetoken.support.arrays import Array, FloatArray, floats
from sparsetoken.support.checks import Bounds, real, settle

Random = Any  # a NumPy generator, or what draws arrays by the same methods on a device
_MOST_DEGREES = 1e6  # of freedom, where nothing but a Gaussian is left


class Noise(Protocol):
    """What a stream of tokens asks of its noise."""

    @property
    def by_coordinates(self) -> bool:
        """Whether coordinates are independent: then some of them may be drawn without the rest."""
        ...

    def draw(self, size: tuple[int, ...], rng: Random) -> Array:
        """Noise of tokens, (…, L, columns)."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """Independent N(0, 1)."""

    by_coordinates: ClassVar = True

    def draw(self, size: tuple[int, ...], rng: Random) -> Array:
        return rng.standard_normal(size)


@dataclass(frozen=True)
class Rademacher:
    """±1, as likely."""

    by_coordinates: ClassVar = True

    def draw(self, size: tuple[int, ...], rng: Random) -> Array:
        return 2.0 * rng.integers(0, 2, size) - 1.0


@dataclass(frozen=True)
class _Shaped:
    """White noise with a parameter."""

    shape: float
    bounds: ClassVar[Bounds] = {"above": 2, "most": _MOST_DEGREES}
    by_coordinates: ClassVar = True

    def __post_init__(self) -> None:
        settle(self, shape=real(type(self), "shape", self.shape, **self.bounds))


class Student(_Shaped):
    """Student's t with `shape` degrees of freedom.

    >>> Student(5.0).draw((2, 3), np.random.default_rng(0)).shape
    (2, 3)
    """

    def draw(self, size: tuple[int, ...], rng: Random) -> Array:
        return rng.standard_t(self.shape, size) * math.sqrt(1 - 2 / self.shape)


class Sparse(_Shaped):
    """Zero but for a share `shape` of the coordinates."""

    bounds: ClassVar[Bounds] = {"above": 0, "most": 1}

    def draw(self, size: tuple[int, ...], rng: Random) -> Array:
        xp, uniform = floats(rng.random(size) - 0.5)  # the middle 1 − ε: 0; above: +; below: −
        return xp.sign(uniform) * (2 * abs(uniform) >= 1 - self.shape) * self.shape**-0.5


class Elliptical(_Shaped):
    """Gaussian tokens, each with a random scale: Student's t in d dimensions."""

    by_coordinates: ClassVar = False

    def draw(self, size: tuple[int, ...], rng: Random) -> Array:
        scale = ((self.shape - 2) / rng.chisquare(self.shape, (*size[:-1], 1))) ** 0.5
        return scale * rng.standard_normal(size)


@dataclass(frozen=True)
class _Correlated:
    """Noise made of other noise."""

    correlation: float
    noise: Noise = field(default_factory=Gaussian)

    def __post_init__(self) -> None:
        settle(
            self, correlation=real(type(self), "correlation", self.correlation, least=0, below=1)
        )


class Shared(_Correlated):
    """Noise of which the tokens of a sample share the part ρ = `correlation` of the variance."""

    @property
    def by_coordinates(self) -> bool:
        return self.noise.by_coordinates

    def draw(self, size: tuple[int, ...], rng: Random) -> Array:
        tokens = self.noise.draw(size, rng)
        tokens *= math.sqrt(1 - self.correlation)
        tokens += math.sqrt(self.correlation) * self.noise.draw((*size[:-2], 1, size[-1]), rng)
        return tokens


class Coloured(_Correlated):
    """Noise whose neighbouring coordinates have the correlation c; its variance stays 1.

    >>> Coloured(0.6).covariance(3)[0].round(2).tolist()
    [1.0, 0.6, 0.36]
    """

    by_coordinates: ClassVar = False

    def covariance(self, dim: int) -> FloatArray:
        """Σ (d, d)."""
        steps = np.arange(dim)
        covariance: FloatArray = self.correlation ** np.abs(steps[:, None] - steps).astype(float)
        return covariance

    def draw(self, size: tuple[int, ...], rng: Random) -> Array:
        xp, white = floats(self.noise.draw(size, rng))
        root = xp.asarray(_root(self, size[-1]), dtype=white.dtype, device=white.device)
        return white @ root.T


@lru_cache(maxsize=4)
def _root(coloured: Coloured, dim: int) -> FloatArray:
    """The lower triangle C with CCᵀ = Σ; every block of a stream needs it."""
    return np.asarray(np.linalg.cholesky(coloured.covariance(dim)), dtype=float)

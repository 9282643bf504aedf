r"""The covariances of tokens, as data: Σ of noise tokens, C of signal tokens.

A noise token is Σ^½ζ, a signal token θξ + C^½ζ, ζ ~ N(0, I), ξ a unit vector. In units in which
white noise has variance 1:

| noise         | Σ and ξ                                                                    |
|---------------|----------------------------------------------------------------------------|
| `White`       | Σ = I                                                                      |
| `Spectrum`    | eigenvalues x_a of Σ, their density ν_a, the share μ_a of ‖ξ‖² in each     |
| `Covariances` | matrices Σ and C, and a vector in the direction of ξ, in d dimensions      |

Where Σ and C commute, as they do with the first two, all that matters of them is their joint
spectrum (`JointSpectrum`): pairs of eigenvalues with their density and the signal's share.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.checks import real, refusal, settle, whole
from sparsetoken.support.errors import InvalidInput

Spread: TypeAlias = float | tuple[float, ...] | None

MOST_ATOMS = 10_000
_LARGEST = 1e9  # eigenvalue
_SUM = 1e-6  # how far from one shares may sum, as numbers are written in few digits
_EXACT = 1e-12  # shares that sum to one as well as floats can are left alone
_SYMMETRIC, _SINGULAR = 1e-9, 1e-12  # relative to the largest entry, the largest eigenvalue
_ROUNDING = 1e-9  # relative to the largest eigenvalue: one that should be 0
_SHRINK = (
    "; an estimate from no more tokens than dimensions has such: shrink it, for instance to "
    "0.99 Σ + 0.01 tr(Σ)/d I"
)
_SPREAD = "a number or a tuple of numbers (eigenvalues of C on the atoms of the noise)"
_COMMUTING = 1e-10  # ‖ΣC − CΣ‖ relative to ‖Σ‖‖C‖
_TURN = math.sqrt(2) - 1  # Σ + turn·C has eigenvectors of both, but for coincidences


@dataclass(frozen=True, eq=False)
class JointSpectrum:
    """Common eigenspaces of Σ and C: eigenvalues of both, densities, shares of the signal.

    >>> joint = Spectrum((0.5, 2.0), (0.8, 0.2), (0.5, 0.5)).joint((1.0, 3.0))
    >>> joint.noise.tolist(), joint.signal.tolist(), joint.is_proportional
    ([0.5, 2.0], [1.0, 3.0], False)
    """

    noise: FloatArray  # (atoms,), of Σ
    signal: FloatArray  # (atoms,), of C
    density: FloatArray  # (atoms,), sums to one
    share: FloatArray  # (atoms,), of ‖ξ‖² = 1

    @property
    def ratio(self) -> float:
        """c of C = cΣ, where they are proportional."""
        return float(self.signal[0] / self.noise[0])

    @property
    def is_proportional(self) -> bool:
        """Whether C is a number times Σ."""
        return bool(np.all(np.abs(self.signal - self.ratio * self.noise) <= 1e-14 * self.signal))

    @property
    def has_spread(self) -> bool:
        """Whether C is not Σ."""
        return bool(np.any(self.signal != self.noise))

    def merged(self, atoms: int) -> JointSpectrum:
        """So many of equal density, each the mean over its part of it, the loudest first.

        Of atoms of density 0 nothing is kept.

        >>> few = Spectrum((1.0, 2.0, 6.0), None, (0.1, 0.2, 0.7)).joint(None).merged(2)
        >>> few.noise.round(3).tolist(), few.share.round(3).tolist()
        ([4.667, 1.333], [0.8, 0.2])
        """
        order = np.argsort(-self.noise, kind="stable")
        density = self.density[order]
        stop, edges = np.cumsum(density), np.arange(atoms + 1) / atoms
        low = np.maximum(edges[:-1, None], stop - density)
        parts = np.maximum(np.minimum(edges[1:, None], stop) - low, 0.0)  # (new, old), of density
        noise, signal = (atoms * (parts @ x[order]) for x in (self.noise, self.signal))
        share = parts @ (self.share[order] / np.where(density > 0, density, 1.0))
        return JointSpectrum(noise, signal, np.full(atoms, 1 / atoms), share / share.sum())

    @property
    def is_white(self) -> bool:
        """Whether both are I."""
        return bool(np.all(self.noise == 1) and np.all(self.signal == 1))


class TokenNoise(ABC):
    """What the noise of tokens may be."""

    @property
    def dim(self) -> int | None:
        """The only number of dimensions there can be; None for any."""
        return None

    @abstractmethod
    def checked_spread(self, spread: object) -> Spread:
        """`Task.signal_spread`, checked: None for C = Σ."""

    @abstractmethod
    def joint(self, spread: Spread) -> JointSpectrum | None:
        """Σ and C in their common eigenspaces; None where they do not commute."""

    @property
    @abstractmethod
    def mean_variance(self) -> float:
        """tr̄Σ, the mean variance of a coordinate."""

    def counts(self, dim: int) -> IntArray:
        """Coordinates (atoms,) of each atom of the joint spectrum in d dimensions."""
        raise refusal(type(self), "noise", self, "one with a spectrum")


@dataclass(frozen=True)
class White(TokenNoise):
    """Σ = I.

    >>> White().joint(4.0).signal.tolist()
    [4.0]
    """

    @property
    def mean_variance(self) -> float:
        return 1.0

    def checked_spread(self, spread: object) -> Spread:
        return _checked_spread(spread, 1)

    def joint(self, spread: Spread) -> JointSpectrum:
        one = np.ones(1)
        return JointSpectrum(one, _signal_eigenvalues(one, spread), one, one)

    def counts(self, dim: int) -> IntArray:
        return np.array([dim])


@dataclass(frozen=True)
class Spectrum(TokenNoise):
    """Eigenvalues of Σ, how many coordinates have each, and how much of the signal lies there.

    Parameters
    ----------
    eigenvalues : sequence of float
        x_a > 0, in units of white noise's variance; some may be equal.
    density : sequence of float, optional
        ν_a ≥ 0, the share of the coordinates with this eigenvalue; they sum to one. Equal ones if
        none are given. An atom of density 0 is a direction or two among many.
    signal_share : sequence of float, optional
        μ_a ≥ 0, the share of ‖ξ‖² in these coordinates; they sum to one. The density if not given:
        a signal in a direction that knows nothing of the noise.

    Raises
    ------
    InvalidInput
        For sizes that differ, a number that is not allowed, shares that do not sum to one.

    Examples
    --------
    >>> noise = Spectrum((0.2, 1.0, 4.0), (0.5, 0.35, 0.15))
    >>> noise.signal_share == noise.density, noise.counts(20).tolist()
    (True, [10, 7, 3])
    >>> Spectrum((1.0, 2.0), (0.5, 0.6))
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: Spectrum: density must sum to one, got a sum of 1.1
    """

    eigenvalues: tuple[float, ...]
    density: tuple[float, ...] = ()
    signal_share: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        eigenvalues = _numbers("eigenvalues", self.eigenvalues)
        if not 1 <= len(eigenvalues) <= MOST_ATOMS:
            raise InvalidInput(
                f"Spectrum: eigenvalues must be 1 to {MOST_ATOMS} numbers, got {len(eigenvalues)}"
            )
        for place, value in enumerate(eigenvalues):
            real(Spectrum, f"eigenvalues[{place}]", value, above=0, most=_LARGEST)
        settle(self, eigenvalues=eigenvalues)
        usual = (1 / len(eigenvalues),) * len(eigenvalues)
        for name in ("density", "signal_share"):
            given = _numbers(name, () if getattr(self, name) is None else getattr(self, name))
            usual = _shares(name, given, len(eigenvalues)) if given else usual
            settle(self, **{name: usual})

    @classmethod
    def power_law(cls, exponent: float, atoms: int = 100) -> Spectrum:
        """Eigenvalues that fall like k^−exponent, k = 1, 2, …, with mean 1; white noise for 0.

        Parameters
        ----------
        exponent : float
            At least 0: the a of k^−a.
        atoms : int
            How many eigenvalues stand for the spectrum, equally many coordinates each.

        Returns
        -------
        Spectrum
            The largest first; the signal lies in all alike.

        Raises
        ------
        InvalidInput
            For values that are not allowed.

        Examples
        --------
        >>> Spectrum.power_law(1.0, atoms=3).eigenvalues  # in proportions 1 : 1/2 : 1/3
        (1.6363636363636365, 0.8181818181818182, 0.5454545454545455)
        """
        exponent = real("power_law", "exponent", exponent, least=0, most=4)
        count = whole("power_law", "atoms", atoms, least=1, most=MOST_ATOMS)
        values = np.arange(1, count + 1) ** -exponent
        return cls(tuple((values / values.mean()).tolist()))

    @property
    def mean_variance(self) -> float:
        return float(np.dot(self.eigenvalues, self.density))

    def checked_spread(self, spread: object) -> Spread:
        return _checked_spread(spread, len(self.eigenvalues))

    def joint(self, spread: Spread) -> JointSpectrum:
        noise = np.array(self.eigenvalues)
        signal = _signal_eigenvalues(noise, spread)
        return JointSpectrum(noise, signal, np.array(self.density), np.array(self.signal_share))

    def counts(self, dim: int) -> IntArray:
        """Coordinates (atoms,) of each eigenvalue in d dimensions.

        Coordinate j = 0, …, d − 1 has the eigenvalue at the quantile (j + ½)/d of the density,
        atoms in the order given; where the signal has a share but the density no coordinate, one
        is taken from the most numerous.
        """
        dim = whole("Spectrum", "dim", dim, least=1)
        ends = np.floor(np.round(dim * np.cumsum(self.density), 9) + 0.5).astype(np.intp)
        ends[-1] = dim
        counts = np.diff(ends, prepend=0)
        lacking = (counts == 0) & (np.array(self.signal_share) > 0)
        counts[lacking] = 1
        for _ in range(int(np.count_nonzero(lacking))):
            counts[int(np.argmax(counts))] -= 1
        if np.any((counts == 0) & (np.array(self.signal_share) > 0)):
            raise InvalidInput(
                f"Spectrum: dim must be at least {np.count_nonzero(self.signal_share)} (one "
                "coordinate for each eigenvalue with a share of the signal; `Task.for_dim` makes "
                f"them fewer), got {dim}"
            )
        return counts


@dataclass(frozen=True, eq=False, repr=False)
class Covariances(TokenNoise):
    """Covariance matrices of noise and signal tokens, and the signal's direction, as estimated.

    Parameters
    ----------
    noise : array
        Σ, symmetric and positive definite, shape (d, d).
    signal : array or None
        C, symmetric and positive semidefinite, shape (d, d); None for Σ.
    mean : array
        A vector (d,) in the direction of ξ; its length does not matter (`Task.strength` does).

    Raises
    ------
    InvalidInput
        For shapes that do not agree, a matrix that is not symmetric or not positive.

    Examples
    --------
    >>> made = Covariances(np.diag([1.0, 2.0]), None, [0.0, 3.0])
    >>> made.dim, made.joint(None).share.tolist(), made == Covariances(*made.arrays)
    (2, [0.0, 1.0], True)
    >>> Covariances([[1.0, 0.5], [0.0, 1.0]], None, [1.0, 0.0])
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: Covariances: noise must be symmetric, got entries (0, 1) and (1, 0)
    that differ by 0.5
    """

    noise: FloatArray
    signal: FloatArray | None
    mean: FloatArray

    def __post_init__(self) -> None:
        noise = _matrix("noise", self.noise, None)
        size = len(noise)
        signal = None if self.signal is None else _matrix("signal", self.signal, size)
        mean = _array("mean", self.mean)
        if mean.shape != (size,):
            raise InvalidInput(
                f"Covariances: mean must be a vector of shape ({size},), as noise has {size} rows, "
                f"got shape {mean.shape}"
            )
        length = float(np.linalg.norm(mean))
        if not length > 0:
            raise InvalidInput("Covariances: mean must not be zero (it is the signal's direction)")
        mean = mean / length
        for array in (noise, mean, *([] if signal is None else [signal])):
            array.setflags(write=False)
        settle(self, noise=noise, signal=signal, mean=mean)

    @property
    def dim(self) -> int:
        return len(self.noise)

    @property
    def mean_variance(self) -> float:
        return float(np.trace(self.noise)) / self.dim

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray | None, FloatArray]:
        """Σ, C (None for Σ) and ξ."""
        return self.noise, self.signal, self.mean

    @cached_property
    def digest(self) -> str:
        """What tells these matrices from others."""
        content = hashlib.sha256()
        for array in self.arrays:
            content.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        return content.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Covariances) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Covariances(dim={self.dim}, digest={self.digest[:16]!r})"

    def checked_spread(self, spread: object) -> Spread:
        if spread is not None:
            raise refusal("Task", "signal_spread", spread, "None with Covariances (which have it)")
        return None

    def joint(self, spread: Spread) -> JointSpectrum | None:
        return self._joint

    def counts(self, dim: int) -> IntArray:
        """One coordinate for each eigenvalue; d must be the matrices' own."""
        if dim != self.dim:
            raise InvalidInput(f"Covariances: dim must be {self.dim} (their size), got {dim}")
        return np.ones(dim, dtype=np.intp)

    @cached_property
    def eigenvectors(self) -> FloatArray | None:
        """Orthonormal columns (d, d) that both matrices share; None where they do not commute."""
        if self.signal is None:
            return np.linalg.eigh(self.noise)[1]
        size = float(np.linalg.norm(self.noise) * np.linalg.norm(self.signal))
        product = self.noise @ self.signal
        if np.linalg.norm(product - product.T) > _COMMUTING * size:
            return None
        scale = np.linalg.norm(self.noise) / max(float(np.linalg.norm(self.signal)), 1e-300)
        vectors = np.linalg.eigh(self.noise + _TURN * scale * self.signal)[1]
        for matrix in (self.noise, self.signal):
            turned = vectors.T @ matrix @ vectors
            rest = turned - np.diag(np.diag(turned))
            if np.linalg.norm(rest) > math.sqrt(_COMMUTING) * np.linalg.norm(matrix):
                return None
        return vectors

    @cached_property
    def _joint(self) -> JointSpectrum | None:
        vectors = self.eigenvectors
        if vectors is None:
            return None
        noise = np.einsum("ia,ij,ja->a", vectors, self.noise, vectors, optimize=True)
        signal = noise
        if self.signal is not None:
            signal = np.einsum("ia,ij,ja->a", vectors, self.signal, vectors, optimize=True)
        return JointSpectrum(
            noise,
            np.maximum(signal, 0.0),
            np.full(self.dim, 1 / self.dim),
            (self.mean @ vectors) ** 2,
        )


def _signal_eigenvalues(noise: FloatArray, spread: Spread) -> FloatArray:
    """Those of C on the atoms of Σ."""
    if spread is None:
        return noise
    return np.array(spread) if isinstance(spread, tuple) else spread * noise


def _checked_spread(spread: object, atoms: int) -> Spread:
    """None, a number, or a number for each atom; None for what is the same as the noise's."""
    if spread is None:
        return None
    if isinstance(spread, Iterable) and not isinstance(spread, (str, bytes)):
        values = _numbers("signal_spread", spread, _SPREAD, owner="Task")
        if len(values) != atoms:
            raise InvalidInput(
                f"Task: signal_spread must be a number or {atoms} of them (one for each eigenvalue "
                f"of the noise), got {len(values)}"
            )
        for place, value in enumerate(values):
            real("Task", f"signal_spread[{place}]", value, least=0, most=_LARGEST)
        return values
    if not isinstance(spread, (int, float, np.number)) or isinstance(spread, bool):
        raise refusal("Task", "signal_spread", spread, _SPREAD)
    number = real("Task", "signal_spread", spread, least=0, most=_LARGEST)
    return None if number == 1 else number


def _numbers(
    field: str, given: Any, allowed: str = "a list of numbers", owner: str = "Spectrum"
) -> tuple[float, ...]:
    flat = not isinstance(given, np.ndarray) or given.ndim == 1
    values = given.tolist() if isinstance(given, np.ndarray) else given
    if not flat or not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise refusal(owner, field, given, allowed)
    return tuple(real(owner, f"{field}[{i}]", value) for i, value in enumerate(values))


def _shares(field: str, values: tuple[float, ...], atoms: int) -> tuple[float, ...]:
    """Not negative, one for each eigenvalue, with sum one."""
    if len(values) != atoms:
        raise InvalidInput(
            f"Spectrum: {field} must be {atoms} numbers (one for each eigenvalue), "
            f"got {len(values)}"
        )
    for place, value in enumerate(values):
        real(Spectrum, f"{field}[{place}]", value, least=0)
    total = math.fsum(values)
    if not abs(total - 1) <= _SUM:
        raise InvalidInput(f"Spectrum: {field} must sum to one, got a sum of {total:.6g}")
    return values if abs(total - 1) <= _EXACT else tuple(value / total for value in values)


def _array(field: str, given: object) -> FloatArray:
    try:
        array = np.array(given, dtype=float)
    except (TypeError, ValueError):
        raise refusal(Covariances, field, given, "an array of numbers") from None
    if not np.all(np.isfinite(array)):
        raise InvalidInput(f"Covariances: {field} must be finite numbers")
    return array


def _matrix(field: str, given: object, size: int | None) -> FloatArray:
    """Symmetric and positive, in d dimensions."""
    matrix = _array(field, given)
    rows = (len(matrix) if matrix.ndim else 1) if size is None else size
    if matrix.shape != (rows, rows) or not rows:
        why = "" if size is None else f" (noise has {size} rows)"
        raise InvalidInput(
            f"Covariances: {field} must be a square matrix{why}, got shape {matrix.shape}"
        )
    gap = np.abs(matrix - matrix.T)
    if gap.max() > _SYMMETRIC * np.abs(matrix).max():
        i, j = np.unravel_index(int(gap.argmax()), gap.shape)
        raise InvalidInput(
            f"Covariances: {field} must be symmetric, got entries ({i}, {j}) and ({j}, {i}) that "
            f"differ by {gap.max():.6g}"
        )
    matrix = 0.5 * (matrix + matrix.T)
    values = np.linalg.eigvalsh(matrix)
    least = _SINGULAR * values[-1] if field == "noise" else -_SYMMETRIC * max(values[-1], 0.0)
    if values[0] < least or not values[-1] >= 0 or (field == "noise" and values[0] <= 0):
        kind = "definite" if field == "noise" else "semidefinite"
        hint = _SHRINK if abs(values[0]) < _ROUNDING * values[-1] else ""
        raise InvalidInput(
            f"Covariances: {field} must be positive {kind}, got an eigenvalue of "
            f"{values[0]:.6g}{hint}"
        )
    return matrix

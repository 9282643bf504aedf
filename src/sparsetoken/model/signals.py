r"""Numbers that vary from sample to sample: the strength θ or the sparsity R of a task.

A law of such a number is asked two things: its values at standard normals z, that is F⁻¹(Φ(z)), by
which it is drawn (random or quasi-random normals alike); and atoms with weights that average smooth
functions. A discrete law is its own atoms. For a continuous one they are the nodes of Gauss and
Legendre in z, |z| ≤ 8.3, where E f = ∫ f(F⁻¹(Φ(z))) φ(z) dz is smooth up to its ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real, settle
from sparsetoken.support.errors import InvalidInput

_NODES, _REACH = 64, 8.3  # φ(8.3) is 4e-16
_MOST_ATOMS = 10_000


class Varying(ABC):
    """A number that varies from sample to sample."""

    @abstractmethod
    def at(self, normals: ArrayLike) -> FloatArray:
        """Its values F⁻¹(Φ(z)) at standard normals z, any shape."""

    @abstractmethod
    def atoms(self) -> tuple[FloatArray, FloatArray]:
        """Values (k,) and their probabilities (k,)."""

    @abstractmethod
    def scaled(self, factor: float) -> Varying:
        """The law of the number times a factor above 0."""

    def mean(self) -> float:
        """Expectation."""
        values, weights = self.atoms()
        return float(values @ weights)


@dataclass(frozen=True)
class Discrete(Varying):
    """A few values with probabilities; equal ones if none are given.

    >>> Discrete([3.0, 5.0], [0.25, 0.75]).mean()
    4.5
    >>> Discrete([1, 2, 4]).at([-1.0, 0.0, 1.0]).tolist()
    [1.0, 2.0, 4.0]
    """

    values: tuple[float, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        values = _numbers("values", self.values)
        weights = () if self.weights is None else _numbers("weights", self.weights)
        weights = weights or (1.0,) * len(values)
        if not values or len(values) > _MOST_ATOMS:
            raise InvalidInput(
                f"Discrete: values must be 1 to {_MOST_ATOMS} numbers, got {len(values)}"
            )
        if len(set(values)) < len(values):
            raise InvalidInput(f"Discrete: values must differ from one another, got {values!r}")
        if len(weights) != len(values):
            raise InvalidInput(
                f"Discrete: weights must be {len(values)} numbers (one a value), got {len(weights)}"
            )
        for place, weight in enumerate(weights):
            real(Discrete, f"weights[{place}]", weight, above=0, most=1e100)
        order = np.argsort(values)
        total = float(np.sum(weights))
        if min(weights) / total == 0:
            raise InvalidInput(
                f"Discrete: weights must be within a factor 1e300 of their sum, got {weights!r}"
            )
        settle(
            self,
            values=tuple(values[i] for i in order),
            weights=tuple(weights[i] / total for i in order),
        )

    def at(self, normals: ArrayLike) -> FloatArray:
        edges = np.cumsum(self.weights)[:-1]
        level = ndtr(np.asarray(normals, dtype=float))
        return np.asarray(self.values)[np.searchsorted(edges, level, side="right")]

    def atoms(self) -> tuple[FloatArray, FloatArray]:
        return np.array(self.values), np.array(self.weights)

    def scaled(self, factor: float) -> Discrete:
        return Discrete(tuple(factor * value for value in self.values), self.weights)


@dataclass(frozen=True)
class Continuous(Varying):
    """A continuous law of scipy.stats by its name and its parameters (shapes, loc, scale).

    >>> uniform = Continuous("uniform", (2.0, 4.0))  # from 2, 4 wide
    >>> uniform.at(0.0).tolist(), round(uniform.mean(), 12)
    (4.0, 4.0)
    """

    family: str
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        settle(self, parameters=_numbers("parameters", self.parameters))
        _frozen(self.family, self.parameters)

    def at(self, normals: ArrayLike) -> FloatArray:
        law, z = _frozen(self.family, self.parameters), np.asarray(normals, dtype=float)
        # either tail from its own end: no digits are lost
        return np.where(z < 0, law.ppf(ndtr(z)), law.isf(ndtr(-z)))

    def atoms(self) -> tuple[FloatArray, FloatArray]:
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        z = _REACH * nodes
        density = weights * np.exp(-0.5 * z**2)
        return self.at(z), density / density.sum()

    def scaled(self, factor: float) -> Continuous:
        *shapes, loc, scale = self.parameters
        return Continuous(self.family, (*shapes, factor * loc, factor * scale))

    @property
    def support(self) -> tuple[float, float]:
        """Least and largest value."""
        low, high = _frozen(self.family, self.parameters).support()
        return float(low), float(high)


def law_in_words(text: str) -> Varying:
    """A discrete law as it is typed: values with weights, 3:0.25,5:0.75, or values alone, 3,5.

    >>> law_in_words("3:1,5:3").mean()
    4.5
    """
    pairs = [pair.partition(":") for pair in text.split(",")]
    try:
        values = tuple(float(value) for value, _, _ in pairs)
        weights = tuple(float(weight) for _, colon, weight in pairs if colon)
    except ValueError:
        raise InvalidInput(
            f"a number, or values with weights such as 3:0.25,5:0.75, is needed, got {text!r}"
        ) from None
    return Discrete(values, weights)


def shown(number: float | Varying) -> str:
    """A number, or a law in few words."""
    if isinstance(number, Discrete):
        return "varying over " + ", ".join(f"{value:g}" for value in number.values[:6])
    if isinstance(number, Continuous):
        return f"varying ({number.family}, mean {number.mean():.4g})"
    return f"{number:.4g}"


def varying(owner: type | str, field: str, value: Any) -> Varying | None:
    """A law given as one of the above or as a frozen one of scipy.stats; None for anything else."""
    if isinstance(value, Varying):
        return value
    law: Any = getattr(value, "dist", None)
    if law is None or not callable(getattr(value, "ppf", None)):
        return None
    name = owner if isinstance(owner, str) else owner.__name__
    if hasattr(value, "pmf"):
        values = np.arange(_MOST_ATOMS + 1)
        weights = np.asarray(value.pmf(values), dtype=float)
        if weights.shape != values.shape or not abs(weights.sum() - 1) < 1e-9:
            raise InvalidInput(
                f"{name}: {field} must be a law on whole numbers from 0 to {_MOST_ATOMS}, or "
                f"Discrete(values, weights), got {_in_words(value)}"
            )
        kept = weights > 1e-15
        return Discrete(tuple(values[kept].tolist()), tuple(weights[kept].tolist()))
    import scipy.stats

    if type(law) is not type(getattr(scipy.stats, str(law.name), None)):
        raise InvalidInput(
            f"{name}: {field} must be a number, Discrete(values, weights) or a law of scipy.stats, "
            f"got {_in_words(value)}"
        )
    try:
        shapes, loc, scale = value.dist._parse_args(*value.args, **value.kwds)
        return Continuous(value.dist.name, (*map(float, shapes), float(loc), float(scale)))
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"{name}: {field} must be a number, or a law such as Discrete([3, 5]) or "
            f"scipy.stats.gamma(4), got {_in_words(value)} ({error})"
        ) from None


@lru_cache(maxsize=64)
def _frozen(family: str, parameters: tuple[float, ...]) -> Any:
    import scipy.stats  # heavy: only where a law varies continuously

    generic = getattr(scipy.stats, family, None) if isinstance(family, str) else None
    if not isinstance(generic, scipy.stats.rv_continuous):
        raise InvalidInput(
            "Continuous: family must be the name of a continuous law of scipy.stats such as "
            f"'gamma', got {family!r}"
        )
    law: Any = generic
    if len(parameters) != law.numargs + 2:
        raise InvalidInput(
            f"Continuous: parameters of {family} must be {law.numargs + 2} numbers "
            f"({law.shapes + ', ' if law.shapes else ''}loc, scale), got {parameters!r}"
        )
    frozen = law(*parameters)
    if not np.isfinite(frozen.ppf(0.5)):
        raise InvalidInput(
            f"Continuous: parameters must be allowed by scipy.stats.{family}, got {parameters!r}"
        )
    return frozen


def _in_words(law: Any) -> str:
    return f"{law.dist.name}{law.args}" if hasattr(law, "args") else repr(law)


def _numbers(field: str, given: Any) -> tuple[float, ...]:
    if isinstance(given, (str, Mapping)):
        raise InvalidInput(f"Varying: {field} must be a list of numbers, got {given!r}")
    try:
        return tuple(real(Varying, field, value) for value in given)
    except TypeError:
        raise InvalidInput(f"Varying: {field} must be numbers, got {given!r}") from None

r"""The task (section 1 of docs/theory.md): a weak signal hidden in a few of many noisy tokens.

A sample is X ∈ R^{L×d}, with Z an L×d matrix of independent N(0, 1) and ξ a fixed unit vector:

    y = −1 (probability 1 − π):  X = Z
    y = +1 (probability π):      X = θ v ξᵀ + Z,   v ∈ {0,1}^L with exactly R ones.

The places of the ones are uniform over subsets, or, with position weights p_l, drawn from

    P(v) = Π_{l: v_l = 1} p_l / e_R(p),   e_R the elementary symmetric polynomial,

which is p itself (normalised) for R = 1 and uniform for equal weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.model.checks import real, whole

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class Sample(NamedTuple):
    """What `Task.sample` draws.

    >>> sample = Task(length=2, sparsity=1, strength=1.0).sample(3, dim=4, rng=0)
    >>> sample.labels.shape, sample.tokens.shape, sample.places.shape, sample.signal.shape
    ((3,), (3, 2, 4), (3, 2), (4,))
    """

    labels: FloatArray  # (n,), +1 or −1
    tokens: FloatArray  # (n, L, d)
    places: BoolArray  # (n, L), True where a token carries the signal
    signal: FloatArray  # (d,), the unit vector ξ


@dataclass(frozen=True)
class Task:
    """What a sample is: X = θ v ξᵀ + Z for a positive sample, X = Z for a negative one.

    Parameters
    ----------
    length : int
        L, tokens in a sample.
    sparsity : int
        R, tokens that carry the signal in a positive sample, 1 ≤ R ≤ L.
    strength : float
        θ ≥ 0, length of the signal in one token, in units of the noise.
    prevalence : float
        π, probability of a positive sample, 0 < π < 1.
    places : tuple of float, optional
        Weights of the L positions (at least R positive); None for uniform subsets.

    Examples
    --------
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> sample = task.sample(4, dim=3, rng=0)
    >>> sample.tokens.shape
    (4, 10, 3)
    >>> Task(length=10, sparsity=11, strength=5.0)
    Traceback (most recent call last):
        ...
    ValueError: Task: sparsity must be a whole number between 1 and 10 (the length), got 11
    """

    length: int
    sparsity: int
    strength: float
    prevalence: float = 0.5
    places: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        length = whole(Task, "length", self.length, least=1, most=10**9)
        sparsity = whole(Task, "sparsity", self.sparsity, least=1, most=length, why="the length")
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "sparsity", sparsity)
        strength = real(Task, "strength", self.strength, least=0, most=1e6)
        object.__setattr__(self, "strength", strength)
        prevalence = real(Task, "prevalence", self.prevalence, above=0, below=1)
        if min(prevalence, 1 - prevalence) < 1e-12:
            raise ValueError(
                f"Task: prevalence must be between 1e-12 and 1 - 1e-12, got {prevalence!r}"
            )
        object.__setattr__(self, "prevalence", prevalence)
        if self.places is not None:
            object.__setattr__(self, "places", _checked_places(self.places, length, sparsity))

    @property
    def uniform_places(self) -> bool:
        """Whether every subset of positions is equally likely."""
        return self.places is None or len(set(self.places)) == 1

    def sample_labels(self, n: int, rng: np.random.Generator | int) -> FloatArray:
        """n labels, +1 with probability `prevalence`, else −1; shape (n,)."""
        rng = np.random.default_rng(rng)
        n = whole("sample_labels", "n", n, least=0)
        return np.where(rng.random(n) < self.prevalence, 1.0, -1.0)

    def sample_places(self, n: int, rng: np.random.Generator | int) -> BoolArray:
        """n independent sets of signal positions; shape (n, L), R True in each row."""
        rng = np.random.default_rng(rng)
        n = whole("sample_places", "n", n, least=0)
        if self.uniform_places:
            ranks = rng.random((n, self.length))
            chosen = np.argpartition(ranks, self.sparsity - 1, axis=1)[:, : self.sparsity]
            places = np.zeros((n, self.length), dtype=bool)
            np.put_along_axis(places, chosen, True, axis=1)
            return places
        assert self.places is not None
        return _weighted_subsets(np.asarray(self.places), self.sparsity, n, rng)

    def sample(
        self,
        n: int,
        dim: int,
        rng: np.random.Generator | int,
        signal: FloatArray | None = None,
    ) -> Sample:
        """Draw n labelled samples in dimension `dim`.

        `signal` is the unit vector ξ; a uniformly random one is drawn when it is not given.
        Returns `Sample(labels (n,), tokens (n, L, d), places (n, L), signal (d,))`;
        the places of a negative sample are all False.

        >>> drawn = Task(length=3, sparsity=2, strength=1.0).sample(100, dim=5, rng=1)
        >>> sorted(set(drawn.places.sum(axis=1).tolist()))
        [0, 2]
        """
        rng = np.random.default_rng(rng)
        n = whole("sample", "n", n, least=0)
        dim = whole("sample", "dim", dim, least=1)
        if signal is None:
            signal = rng.standard_normal(dim)
            signal /= np.linalg.norm(signal)
        signal = np.asarray(signal, dtype=float)
        if signal.shape != (dim,) or not abs(np.linalg.norm(signal) - 1) < 1e-8:
            raise ValueError(
                f"sample: signal must be a unit vector of shape ({dim},), got shape "
                f"{signal.shape} and norm {np.linalg.norm(signal):g}"
            )
        labels = self.sample_labels(n, rng)
        places = self.sample_places(n, rng) & (labels > 0)[:, None]
        tokens = rng.standard_normal((n, self.length, dim))
        tokens[places] += self.strength * signal
        return Sample(labels, tokens, places, signal)


def _checked_places(places: Sequence[float], length: int, sparsity: int) -> tuple[float, ...]:
    try:
        weights = np.asarray(places, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"Task: places must be None or {length} position weights (the length), got {places!r}"
        ) from None
    if weights.shape != (length,):
        raise ValueError(
            f"Task: places must be None or {length} position weights (the length), "
            f"got shape {weights.shape}"
        )
    for position, weight in enumerate(weights):
        real(Task, f"places[{position}]", float(weight), least=0, most=1e100)
    if np.count_nonzero(weights) < sparsity:
        raise ValueError(
            f"Task: places must have at least {sparsity} positive weights (the sparsity), "
            f"got {np.count_nonzero(weights)}"
        )
    return tuple((weights / weights.sum()).tolist())


def log_subset_sums(log_weights: FloatArray, size: int) -> FloatArray:
    """log e_k of every tail: entry [l, k] is log e_k(p_l, p_{l+1}, …); shape (L+1, size+1)."""
    length = len(log_weights)
    table = np.full((length + 1, size + 1), -np.inf)
    table[:, 0] = 0.0
    for start in range(length - 1, -1, -1):
        table[start, 1:] = np.logaddexp(
            table[start + 1, 1:], log_weights[start] + table[start + 1, :-1]
        )
    return table


def _weighted_subsets(
    weights: FloatArray, size: int, n: int, rng: np.random.Generator
) -> BoolArray:
    """Draw subsets with P(v) ∝ Π p_l, walking the positions once.

    Position l joins, when k ones are still to be placed, with probability
    p_l e_{k−1}(p_{l+1}, …) / e_k(p_l, …).
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    table = log_subset_sums(log_weights, size)
    places = np.zeros((n, len(weights)), dtype=bool)
    left = np.full(n, size)
    for position in range(len(weights)):
        joins = np.zeros(n)
        open_ = left > 0
        k = left[open_]
        joins[open_] = np.exp(
            log_weights[position] + table[position + 1, k - 1] - table[position, k]
        )
        places[:, position] = rng.random(n) < joins
        left -= places[:, position]
    return places

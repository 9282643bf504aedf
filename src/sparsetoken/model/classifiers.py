r"""The classifiers sign(⟨w, f(X)⟩ + b): their features and the laws of those features.

| classifier   | feature f(X)    | p   | explicit directions       | m for places v          | σ   |
|--------------|-----------------|-----|---------------------------|-------------------------|-----|
| `Pooled`     | Xᵀ1/L           | d   | ξ (noisy)                 | θR/L                    | L^-½|
| `Vectorized` | X, flattened    | L·d | L^-½1⊗ξ, or e_l⊗ξ (noisy) | θR/√L, or θv_l          | 1   |
| `Attention`  | Xᵀ softmax(βXq) | d   | q̂ (not), ξ⊥ (noisy)      | ⟨a,g⟩ and √(1−s²)θ⟨a,v⟩ | ‖a‖ |

This is a positive sample; a negative one has θ = 0. Tokens that share noise give `Pooled`
σ² = ρ + (1−ρ)/L, and `Vectorized` (`vectorized.py`) no such law. What attention weights do is in
`attention.py`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from sparsetoken.model import coloured
from sparsetoken.model.attention import (
    LONGEST,
    TokenPooling,
    cached_attention_law,
    cloud_scores,
    white_pooling,
)
from sparsetoken.model.coloured import ShapedQuery, generic_query
from sparsetoken.model.law import Coordinates, FeatureLaw, Readout
from sparsetoken.model.scores import Scores
from sparsetoken.model.task import Task, in_short
from sparsetoken.model.task import coloured as not_white
from sparsetoken.model.weightings import SOFTMAX, Weighting, check_weighting
from sparsetoken.support.arrays import Array, FloatArray, floats
from sparsetoken.support.checks import real, settle
from sparsetoken.support.errors import InvalidInput

# Drafts of attention's laws: points of a class, fewer where tokens are many
_FEWEST_POINTS, _MOST_POINTS, _DRAFT_NUMBERS = 1 << 8, 1 << 13, 1 << 19
_SKETCH_POINTS = 1 << 10


class Query(NamedTuple):
    """An attention query as the theory sees it.

    `overlap` ⟨q, ξ⟩, `norm` ‖q‖, `sharpness` τ = β‖q‖ and `cosine` = overlap/norm (0 for a query of
    zero: it has no direction, and at sharpness 0 none is needed).

    >>> Query(overlap=0.3, norm=0.5, sharpness=1.0).cosine
    0.6
    """

    overlap: float
    norm: float
    sharpness: float

    @property
    def cosine(self) -> float:
        return self.overlap / self.norm if self.norm > 0 else 0.0


AnyQuery = Query | ShapedQuery


class Classifier(Protocol):
    """What every part of the package may ask of a classifier.

    A new one is a frozen dataclass that inherits from this and has at least `features`, `law` and
    `draw`; the rest has the answers of a classifier without a query.
    """

    @abstractmethod
    def features(self, tokens: Array, query: Array | None = None) -> Array:
        """The finite-size map: (n, L, d) tokens of any array library to (n, p) features."""

    @abstractmethod
    def law(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """The law of the features, in the limit of many dimensions."""

    @abstractmethod
    def draw(
        self, task: Task, labels: FloatArray, rng: Generator, query: AnyQuery | None = None
    ) -> Coordinates:
        """Coordinates of samples with these labels, exact in law at any finite size."""

    def scores(self, task: Task, readout: Readout, query: AnyQuery | None = None) -> Scores:
        """Test scores of a readout that is known in the directions of `law` or of `draw`."""
        return self.law(task, query).scores(readout)

    def draft(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """A law for predictions at finite size, quick to make.

        Coarser where `law` takes long; the noise is the same for every query. With every direction
        along which finitely many samples tell a readout something else than infinitely many.
        """
        return self.law(task, query)

    def sketch(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """The same law within milliseconds, sampled ones of few points: for whoever drags."""
        return self.law(task, query)

    def tail_law(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """The same law, sampled ones with their rare samples drawn more often: for capacity."""
        return self.law(task, query)

    def possible(self, task: Task, trained_on: Task | None = None) -> str | None:
        """Why there is no law of this task, in a sentence; None if there is one.

        With `trained_on` also why a readout trained on that task cannot be tested on this one.
        """
        return not_white(type(self).__name__, task)

    def features_per_dim(self, task: Task) -> int:
        """p/d, features per embedding dimension."""
        return 1

    @property
    def directions(self) -> int:
        """Directions of the embedding space that the law singles out: the signal's, the query's."""
        return 1

    @property
    def learns_query(self) -> bool:
        """Whether stages 1–3 of the protocol must supply a query."""
        return False

    @property
    def learns_jointly(self) -> bool:
        """Whether query and readout can be trained at once, by the gradient of softmax."""
        return False

    def frozen(self, query: AnyQuery | None) -> Classifier:
        """The same with its query frozen at the given one; itself where it has none to freeze."""
        return self

    def query_vector(self, signal: FloatArray, rng: Generator) -> FloatArray | None:
        """βq (d,) of a frozen query, what its cosine leaves open random; None without one."""
        return None


@dataclass(frozen=True)
class Pooled(Classifier):
    """Mean pooling: f(X) = Xᵀ1/L.

    >>> law = Pooled().law(Task(length=4, sparsity=1, strength=2.0))
    >>> law.means.ravel().tolist(), law.scales.tolist()
    ([0.5, 0.0], [0.5, 0.5])
    """

    def possible(self, task: Task, trained_on: Task | None = None) -> str | None:
        """Everywhere; a trained readout on tasks with the same noise."""
        return other_noise("Pooled", task, trained_on)

    def features(self, tokens: Array, query: Array | None = None) -> Array:
        """(n, L, d) tokens to (n, d) features."""
        xp, tokens = floats(tokens)
        return xp.mean(tokens, axis=1)

    def law(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """Two Gaussians: one atom a class, exact; or one for every θR, where it varies."""
        refuse(self.possible(task))
        if not task.is_white:
            return coloured.linear_law(task, 1 / task.length, task.mean_variance)
        return linear_law(task, 1 / task.length, math.sqrt(task.mean_variance))

    def draw(
        self, task: Task, labels: FloatArray, rng: Generator, query: AnyQuery | None = None
    ) -> Coordinates:
        """Nothing is random but the label, and θR where it varies."""
        refuse(self.possible(task))
        if not task.is_white:
            unit = task.mean_variance
            return coloured.linear_coordinates(task, labels, 1 / task.length, unit, rng)
        strength, sparsity = task.sample_signals(len(labels), rng)
        means = np.where(labels > 0, strength * sparsity / task.length, 0.0)[:, None]
        scale = math.sqrt(task.mean_variance)
        return Coordinates(labels, means, np.full(len(labels), scale), np.array([True]))


@dataclass(frozen=True)
class Attention(Classifier):
    """Softmax pooling: f(X) = Xᵀ softmax(βXq); or another weighting of the tokens by βXq.

    With `cosine` and `sharpness` the query is frozen (stages 1–3 are skipped); without them it is
    learned by the protocol, whose two steps are those of softmax whatever the `weighting` it is
    then used with (`Softmax()`, `HardMax()`, `TopK(k)`, `Sparsemax()`).

    >>> law = Attention(cosine=0.95, sharpness=1.0).law(Task(length=10, sparsity=1, strength=5.0))
    >>> law.noisy.tolist(), len(law.compressed.labels) < 400 < len(law.labels)
    ([False, True], True)
    """

    cosine: float | None = None
    sharpness: float | None = None
    weighting: Weighting = SOFTMAX
    directions: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_weighting(Attention, self.weighting)
        if (self.cosine is None) != (self.sharpness is None):
            raise InvalidInput(
                "Attention: cosine and sharpness must be given together (a frozen query) or not "
                f"at all (a learned one), got cosine={self.cosine!r}, sharpness={self.sharpness!r}"
            )
        if self.cosine is not None:
            cosine = real(Attention, "cosine", self.cosine, least=-1, most=1)
            settle(
                self, cosine=cosine, sharpness=real(Attention, "sharpness", self.sharpness, least=0)
            )

    @property
    def learns_query(self) -> bool:
        return self.cosine is None

    @property
    def learns_jointly(self) -> bool:
        return self.weighting == SOFTMAX

    def possible(self, task: Task, trained_on: Task | None = None) -> str | None:
        """Up to the longest sample that quasi-random points have coordinates for."""
        if task.length <= LONGEST:
            return other_noise("Attention", task, trained_on)
        return (
            f"Attention: the law of a task needs a length of at most {LONGEST}, got {task.length}"
        )

    def frozen(self, query: AnyQuery | None) -> Attention:
        """With cosine and sharpness of the query."""
        if isinstance(query, ShapedQuery):
            raise InvalidInput(
                "Attention: a query learned where noise is not white is more than a cosine and a "
                "sharpness, and cannot be frozen; give it to law or scores as it is"
            )
        cosine, sharpness = self._query(query)
        return replace(self, cosine=cosine, sharpness=sharpness)

    def query_vector(self, signal: FloatArray, rng: Generator) -> FloatArray | None:
        """βq with the given cosine to the signal and sharpness, its other direction random."""
        if self.cosine is None or self.sharpness is None:
            return None
        other = rng.standard_normal(len(signal))
        other -= (other @ signal) * signal
        other *= math.sqrt(1 - self.cosine**2) / np.linalg.norm(other)
        return self.sharpness * (self.cosine * signal + other)

    def features(self, tokens: Array, query: Array | None = None) -> Array:
        """(n, L, d) tokens and the vector βq (d,) to (n, d) features."""
        if query is None:
            raise InvalidInput("Attention: features need query, a vector of shape (d,) (β times q)")
        xp, tokens = floats(tokens)
        attention = self.weighting.weights(tokens @ xp.asarray(query))  # (n, L)
        return (attention[:, None, :] @ tokens)[:, 0, :]

    def law(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """The law at the given query; `query=None` takes the frozen one."""
        query = self._given(task, query)
        refuse(self.possible(task))
        plain = replace(task, prevalence=0.5, places=None)  # the law does not depend on them
        if isinstance(query, ShapedQuery):
            law = coloured.cached_attention_law(plain, query, self.weighting)
        else:
            law = cached_attention_law(plain, query.cosine, query.sharpness, self.weighting)
        return law if task.prevalence == 0.5 else law.with_prevalence(task.prevalence)

    def draft(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """A law of fewer points, made anew each time."""
        points = 1 << (_DRAFT_NUMBERS // task.length).bit_length() - 1
        points = min(max(points, _FEWEST_POINTS), _MOST_POINTS)
        return self._pooling(replace(task, places=None), query).law(points=points)

    def sketch(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """A law of a thousand points, with errors good to about 0.005."""
        return self._pooling(task, query).law(points=_SKETCH_POINTS)

    def tail_law(self, task: Task, query: AnyQuery | None = None) -> FeatureLaw:
        """The law by importance sampling of its tails."""
        return self._pooling(replace(task, places=None), query).tail_law()

    def draw(
        self, task: Task, labels: FloatArray, rng: Generator, query: AnyQuery | None = None
    ) -> Coordinates:
        """Coordinates along q̂ and ξ⊥, from the noise of every token along q̂."""
        return self._pooling(task, query).draw(labels, rng)

    def scores(self, task: Task, readout: Readout, query: AnyQuery | None = None) -> Scores:
        """Test scores on the law's cloud; the law of a frozen query is kept, others are not."""
        if query is None or not task.is_white:
            return self.law(task, query).scores(readout)
        return cloud_scores(self._pooling(task, query), readout)

    def _pooling(self, task: Task, query: AnyQuery | None) -> TokenPooling:
        """What tokens become under the given query, or the frozen one."""
        query = self._given(task, query)
        refuse(self.possible(task))
        if isinstance(query, ShapedQuery):
            return coloured.pooling(task, query, self.weighting)
        return white_pooling(task, query.cosine, query.sharpness, self.weighting)

    def _given(self, task: Task, query: AnyQuery | None) -> AnyQuery:
        """The given query or the frozen one, as the noise of the task asks for; where noise is not
        white and the query knows no more than a cosine, a generic one."""
        if isinstance(query, ShapedQuery) and not task.is_white:
            return query
        cosine, sharpness = self._query(query)
        return (
            Query(cosine, 1.0, sharpness)
            if task.is_white
            else generic_query(task, cosine, sharpness)
        )

    def _query(self, query: AnyQuery | None) -> tuple[float, float]:
        """Cosine and sharpness of the given query, or of the frozen one."""
        source = self if query is None else query
        if source.cosine is None or source.sharpness is None:
            raise InvalidInput(
                "Attention: the query is learned; give cosine and sharpness to freeze it, "
                "or a query (from align)"
            )
        cosine = real("Query", "cosine", source.cosine, least=-1 - 1e-9, most=1 + 1e-9)
        sharpness = real("Query", "sharpness", source.sharpness, least=0)
        return min(1.0, max(-1.0, cosine)), sharpness


def linear_law(task: Task, share: float, scale: float, features_per_dim: int = 1) -> FeatureLaw:
    """One direction along which a positive sample lies at θR·share, with noise of one scale."""
    atoms = task.signals
    means = (atoms.strengths * atoms.sparsities * share)[:, None]
    positive = (means, np.full(len(means), scale), atoms.weights)
    negative = ([[0.0]], [scale], [1.0])
    return FeatureLaw.of_classes(task.prevalence, positive, negative, [True], features_per_dim)


def other_noise(owner: str, task: Task, trained_on: Task | None) -> str | None:
    """Why a readout trained on one task is not tested on another: their noise differs."""
    if trained_on is None or (task.is_white and trained_on.is_white):
        return None
    if (task.noise, task.signal_spread) == (trained_on.noise, trained_on.signal_spread):
        return None
    return (
        f"{owner}: a trained readout must meet the noise and the signal_spread that it was trained "
        f"with, {in_short(trained_on)}, got {in_short(task)}"
    )


def refuse(why: str | None) -> None:
    if why is not None:
        raise InvalidInput(why)

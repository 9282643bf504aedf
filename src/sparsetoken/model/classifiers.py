r"""The classifiers sign(⟨w, f(X)⟩ + b): their features and the laws of those features.

| classifier   | feature f(X)    | p   | explicit directions       | m for places v          | σ   |
|--------------|-----------------|-----|---------------------------|-------------------------|-----|
| `Pooled`     | Xᵀ1/L           | d   | ξ (noisy)                 | θR/L                    | L^-½|
| `Vectorized` | X, flattened    | L·d | L^-½1⊗ξ, or e_l⊗ξ (noisy) | θR/√L, or θv_l          | 1   |
| `Attention`  | Xᵀ softmax(βXq) | d   | q̂ (not), ξ⊥ (noisy)      | ⟨a,g⟩ and √(1−s²)θ⟨a,v⟩ | ‖a‖ |

This is a positive sample; a negative one has θ = 0. What attention weights do is in `attention.py`.
Tokens that share noise give `Pooled` σ² = ρ + (1−ρ)/L, and `Vectorized` no such law.

`Vectorized` with uniform places: by symmetry the best readout treats all positions alike, so one
direction is enough for the law. A readout fitted to finitely many samples does not, so `draw`, and
the law with position weights, keep one coordinate per position.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsetoken.model.attention import (
    LONGEST,
    attention_law,
    cached_attention_law,
    cloud_scores,
    draw_coordinates,
    tail_law,
)
from sparsetoken.model.law import Coordinates, FeatureLaw, Readout
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX, Weighting, check_weighting
from sparsetoken.support.arrays import Array, FloatArray, floats
from sparsetoken.support.checks import real, settle, whole
from sparsetoken.support.errors import InvalidInput

_MOST_PLACES = 1 << 24  # entries of the table of subsets for `Vectorized` with position weights
# Drafts of attention's laws: points of a class, fewer where tokens are many
_FEWEST_POINTS, _MOST_POINTS, _DRAFT_NUMBERS = 1 << 8, 1 << 13, 1 << 19
_SKETCH_POINTS = 1 << 10
_FEW_POSITIONS, _FEW_SUBSETS = 40, 1 << 10  # up to which drafts tell positions apart
_MANY_SUBSETS = 1 << 15  # sets of places averaged over in the scores of a `Vectorized` readout


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


class Classifier(Protocol):
    """What every part of the package may ask of a classifier.

    A new one is a frozen dataclass that inherits from this and has at least `features`, `law` and
    `draw`; the rest has the answers of a classifier without a query.
    """

    @abstractmethod
    def features(self, tokens: Array, query: Array | None = None) -> Array:
        """The finite-size map: (n, L, d) tokens of any array library to (n, p) features."""

    @abstractmethod
    def law(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """The law of the features, in the limit of many dimensions."""

    @abstractmethod
    def draw(
        self, task: Task, labels: FloatArray, rng: np.random.Generator, query: Query | None = None
    ) -> Coordinates:
        """Coordinates of samples with these labels, exact in law at any finite size."""

    def scores(self, task: Task, readout: Readout, query: Query | None = None) -> Scores:
        """Test scores of a readout that is known in the directions of `law` or of `draw`."""
        return self.law(task, query).scores(readout)

    def draft(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """A law for predictions at finite size, quick to make.

        Coarser where `law` takes long; the noise is the same for every query. With every direction
        along which finitely many samples tell a readout something else than infinitely many.
        """
        return self.law(task, query)

    def sketch(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """The same law within milliseconds, sampled ones of few points: for whoever drags."""
        return self.law(task, query)

    def tail_law(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """The same law, sampled ones with their rare samples drawn more often: for capacity."""
        return self.law(task, query)

    def possible(self, task: Task, trained_on: Task | None = None) -> str | None:
        """Why there is no law of this task, in a sentence; None if there is one.

        With `trained_on` also why a readout trained on that task cannot be tested on this one.
        """
        return None

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

    def frozen(self, query: Query | None) -> Classifier:
        """The same with its query frozen at the given one; itself where it has none to freeze."""
        return self

    def query_vector(self, signal: FloatArray, rng: np.random.Generator) -> FloatArray | None:
        """βq (d,) of a frozen query, what its cosine leaves open random; None without one."""
        return None


@dataclass(frozen=True)
class Pooled(Classifier):
    """Mean pooling: f(X) = Xᵀ1/L.

    >>> law = Pooled().law(Task(length=4, sparsity=1, strength=2.0))
    >>> law.means.ravel().tolist(), law.scales.tolist()
    ([0.5, 0.0], [0.5, 0.5])
    """

    def features(self, tokens: Array, query: Array | None = None) -> Array:
        """(n, L, d) tokens to (n, d) features."""
        xp, tokens = floats(tokens)
        return xp.mean(tokens, axis=1)

    def law(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """Two Gaussians: one atom a class, exact; or one for every θR, where it varies."""
        return _linear_law(task, 1 / task.length, math.sqrt(task.mean_variance))

    def draw(
        self, task: Task, labels: FloatArray, rng: np.random.Generator, query: Query | None = None
    ) -> Coordinates:
        """Nothing is random but the label, and θR where it varies."""
        strength, sparsity = task.sample_signals(len(labels), rng)
        means = np.where(labels > 0, strength * sparsity / task.length, 0.0)[:, None]
        scale = math.sqrt(task.mean_variance)
        return Coordinates(labels, means, np.full(len(labels), scale), np.array([True]))


@dataclass(frozen=True)
class Vectorized(Classifier):
    """All tokens side by side: f(X) = X, flattened.

    >>> Vectorized().law(Task(length=4, sparsity=2, strength=3.0)).means.ravel().tolist()
    [3.0, 0.0]
    """

    def features_per_dim(self, task: Task) -> int:
        """Every token has its d coordinates."""
        return task.length

    def possible(self, task: Task, trained_on: Task | None = None) -> str | None:
        """Not for tokens that share noise, too many sets of places, or at another length.

        >>> Vectorized().possible(Task(4, 1, 3.0, token_correlation=0.5))
        'Vectorized: token_correlation must be 0 (tokens that share noise, side by side, are
        features with coloured noise, for which this theory is not made), got 0.5; use Pooled() or
        Attention()'
        """
        if trained_on is None:
            return _coloured(task) or (None if task.uniform_places else _too_many_places(task))
        if task.length != trained_on.length:
            return (
                f"Vectorized: a trained readout must keep the length {trained_on.length} (one "
                f"weight per position), got {task.length}"
            )
        return _coloured(task)  # scores need no law

    def features(self, tokens: Array, query: Array | None = None) -> Array:
        """(n, L, d) tokens to (n, L·d) features."""
        xp, tokens = floats(tokens)
        return xp.reshape(tokens, (tokens.shape[0], -1))

    def law(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """One direction for uniform places, one coordinate per position with weights; exact."""
        _refuse(self.possible(task))
        if not task.uniform_places:
            return self.law_by_position(task)
        return _linear_law(task, 1 / math.sqrt(task.length), 1.0, features_per_dim=task.length)

    def draft(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """One coordinate per position, if sets of places are few: each is learned on its own."""
        _refuse(self.possible(task))
        few = task.length <= _FEW_POSITIONS and not task.varies
        if few and math.comb(task.length, task.fixed_sparsity) <= _FEW_SUBSETS:
            return self.law_by_position(task)
        return self.law(task)

    def law_by_position(self, task: Task) -> FeatureLaw:
        """One coordinate per position, one atom per set of places."""
        _refuse(_too_many_places(task))
        length = task.length
        chosen, weights = _all_places(task)
        places = np.zeros((len(chosen), length))
        np.put_along_axis(places, chosen, 1.0, axis=1)
        positive = (task.fixed_strength * places, np.ones(len(chosen)), weights)
        negative = (np.zeros((1, length)), [1.0], [1.0])
        noisy = np.ones(length, dtype=bool)
        return FeatureLaw.of_classes(task.prevalence, positive, negative, noisy, length)

    def draw(
        self, task: Task, labels: FloatArray, rng: np.random.Generator, query: Query | None = None
    ) -> Coordinates:
        """One coordinate per position, θ where the signal sits."""
        _refuse(_coloured(task))
        strength, sparsity = task.sample_signals(len(labels), rng)
        places = task.sample_places(len(labels), rng, sparsity) & (labels > 0)[:, None]
        means = np.reshape(strength, (-1, 1)) * places
        noisy = np.ones(task.length, dtype=bool)
        return Coordinates(labels, means.astype(float), np.ones(len(labels)), noisy, task.length)

    def scores(
        self, task: Task, readout: Readout, query: Query | None = None, *, seed: int = 0
    ) -> Scores:
        """Test scores of a readout with one weight per position, or one for all of them alike.

        All sets of places are averaged over, or 2^15 random ones where there are more (drawn with
        the seed): then metrics have standard errors.
        """
        _refuse(_coloured(task))
        if len(readout.weights) == 1:  # where the signal sits makes no difference
            return self.law(replace(task, places=None)).scores(readout)
        if len(readout.weights) != task.length:
            raise InvalidInput(
                f"Vectorized: scores of a readout with {len(readout.weights)} positions need a "
                f"task of that length (one weight per position), got {task.length}"
            )
        few = not task.varies and math.comb(task.length, task.fixed_sparsity) <= _MANY_SUBSETS
        if few:
            chosen, weights = _all_places(task)
            along = task.strength * np.asarray(readout.weights)[chosen].sum(axis=1)
        else:
            rng = np.random.default_rng(whole("Vectorized", "seed", seed, least=0))
            strength, sparsity = task.sample_signals(_MANY_SUBSETS, rng)
            places = task.sample_places(_MANY_SUBSETS, rng, sparsity)
            along = strength * (places @ np.asarray(readout.weights))
            weights = np.full(_MANY_SUBSETS, 1 / _MANY_SUBSETS)
        mean = readout.bias + along
        deviation = np.full(len(mean), float(readout.noise))
        return Scores(
            Mixture(mean, deviation, weights),
            Mixture(np.array([float(readout.bias)]), deviation[:1], np.ones(1)),
            task.prevalence,
            sampled=not few,
        )


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
            return None
        return (
            f"Attention: the law of a task needs a length of at most {LONGEST}, got {task.length}"
        )

    def frozen(self, query: Query | None) -> Attention:
        """With cosine and sharpness of the query."""
        cosine, sharpness = self._query(query)
        return replace(self, cosine=cosine, sharpness=sharpness)

    def query_vector(self, signal: FloatArray, rng: np.random.Generator) -> FloatArray | None:
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

    def law(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """The law at the given query; `query=None` takes the frozen one."""
        cosine, sharpness = self._query(query)
        _refuse(self.possible(task))
        plain = replace(task, prevalence=0.5, places=None)  # the law does not depend on them
        law = cached_attention_law(plain, cosine, sharpness, weighting=self.weighting)
        return law if task.prevalence == 0.5 else law.with_prevalence(task.prevalence)

    def draft(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """A law of fewer points, made anew each time."""
        cosine, sharpness = self._query(query)
        _refuse(self.possible(task))
        points = 1 << (_DRAFT_NUMBERS // task.length).bit_length() - 1
        points = min(max(points, _FEWEST_POINTS), _MOST_POINTS)
        plain = replace(task, places=None)
        return attention_law(plain, cosine, sharpness, points=points, weighting=self.weighting)

    def sketch(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """A law of a thousand points, with errors good to about 0.005."""
        _refuse(self.possible(task))
        return attention_law(
            task, *self._query(query), points=_SKETCH_POINTS, weighting=self.weighting
        )

    def tail_law(self, task: Task, query: Query | None = None) -> FeatureLaw:
        """The law by importance sampling of its tails."""
        cosine, sharpness = self._query(query)
        _refuse(self.possible(task))
        return tail_law(replace(task, places=None), cosine, sharpness, self.weighting)

    def draw(
        self, task: Task, labels: FloatArray, rng: np.random.Generator, query: Query | None = None
    ) -> Coordinates:
        """Coordinates along q̂ and ξ⊥, from the noise of every token along q̂."""
        means, scales = draw_coordinates(task, labels, *self._query(query), self.weighting, rng)
        return Coordinates(labels, means, scales, np.array([False, True]))

    def scores(self, task: Task, readout: Readout, query: Query | None = None) -> Scores:
        """Test scores on the law's cloud; the law of a frozen query is kept, others are not."""
        if query is None:
            return self.law(task).scores(readout)
        _refuse(self.possible(task))
        return cloud_scores(task, *self._query(query), self.weighting, readout)

    def _query(self, query: Query | None) -> tuple[float, float]:
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


def _linear_law(task: Task, share: float, scale: float, features_per_dim: int = 1) -> FeatureLaw:
    """One direction along which a positive sample lies at θR·share, with noise of one scale."""
    atoms = task.signals
    means = (atoms.strengths * atoms.sparsities * share)[:, None]
    positive = (means, np.full(len(means), scale), atoms.weights)
    negative = ([[0.0]], [scale], [1.0])
    return FeatureLaw.of_classes(task.prevalence, positive, negative, [True], features_per_dim)


def _refuse(why: str | None) -> None:
    if why is not None:
        raise InvalidInput(why)


def _coloured(task: Task) -> str | None:
    """Side by side, tokens that share noise are features with coloured noise: no such law here."""
    if not task.token_correlation:
        return None
    return (
        "Vectorized: token_correlation must be 0 (tokens that share noise, side by side, are "
        "features with coloured noise, for which this theory is not made), "
        f"got {task.token_correlation:g}; use Pooled() or Attention()"
    )


def _too_many_places(task: Task) -> str | None:
    subsets = math.comb(task.length, task.fixed_sparsity)
    if subsets * task.length <= _MOST_PLACES:
        return None
    return (
        f"Vectorized: places with weights need one atom for each of C(length, sparsity) = "
        f"{subsets:.3g} sets of {task.length} coordinates; C(length, sparsity)·length must be at "
        f"most {_MOST_PLACES:.3g} (uniform places, places=None, have no such limit)"
    )


def _all_places(task: Task) -> tuple[NDArray[np.intp], FloatArray]:
    """Every possible set of places (subsets, R) and its probability (subsets,)."""
    chosen = np.array(list(combinations(range(task.length), task.fixed_sparsity)))
    weights = np.ones(len(chosen))
    if task.places is not None:
        with np.errstate(divide="ignore"):
            log_weights = np.log(task.places)[chosen].sum(axis=1)  # products may underflow
        weights = np.exp(log_weights - log_weights.max())
    possible = weights > 0
    return chosen[possible], weights[possible] / weights[possible].sum()

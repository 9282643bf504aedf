r"""From bags to features: what the classifiers differ in.

A `Pooling` says what is tried; from training bags it makes a `Candidate` for each sharpness: the
features a readout is fitted to, and the `Pool` that gives those of new bags.

* the mean token;
* all tokens side by side, where bags have one length;
* Σ a_l x_l with a = softmax(⟨x_l, query⟩), the query learned from training bags, its length the
  sharpness.

All in whitened coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.model_selection import StratifiedKFold

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.query import refined, two_step_query
from sparsetoken.bags.whitening import Whitening
from sparsetoken.model.weightings import Weighting
from sparsetoken.support.arrays import BoolArray, FloatArray
from sparsetoken.support.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Bags with labels ±1 and weights; a weight of 0 keeps a bag out."""

    bags: Bags
    labels: FloatArray
    weights: FloatArray
    means: FloatArray  # mean tokens (n, d), not whitened

    def without(self, held: BoolArray) -> TrainingData:
        """Some bags held out."""
        return replace(self, weights=np.where(held, 0.0, self.weights))

    def folds(self, count: int) -> Iterator[BoolArray]:
        """Which bags (n,) are held out in turn; always the same, no random numbers.

        None where a class has a single bag.
        """
        counted = self.weights > 0
        fewest = min(int(np.sum(counted & (self.labels == side))) for side in (1, -1))
        if fewest < 2:
            return
        index = np.flatnonzero(counted)
        for _, test in StratifiedKFold(min(count, fewest)).split(index, self.labels[index]):
            held = np.zeros(len(self.labels), dtype=bool)
            held[index[test]] = True
            yield held


class Pool(Protocol):
    """Features of bags, once everything is learned: what it was, can be kept in a file."""

    @property
    def length(self) -> int:
        """Of bags; 0 where they may have any."""
        ...

    @property
    def query(self) -> FloatArray | None:
        """(d,), whitened; None where there is none."""
        ...

    def features(self, bags: Bags, whitening: Whitening) -> FloatArray:
        """(n, p)."""
        ...

    def contributions(self, bags: Bags, whitening: Whitening, readout: FloatArray) -> FloatArray:
        """What each token (N,) adds to ⟨readout, features⟩ of its bag."""
        ...


class Candidate(NamedTuple):
    """Features of all bags at one sharpness."""

    sharpness: float
    pool: Pool
    weights: FloatArray  # (n,), of the bags the readout learns from
    fitted: FloatArray  # (n, p), to fit on
    scored: FloatArray  # (n, p), as new bags would have them


class Pooling(Protocol):
    """What may be tried on bags."""

    @property
    def sharpnesses(self) -> tuple[float, ...]: ...

    @property
    def joint(self) -> bool:
        """Whether query and readout are trained together as well."""
        ...

    def pool(self, length: int, query: FloatArray | None) -> Pool:
        """From what was learned."""
        ...

    def candidates(
        self, data: TrainingData, whitening: Whitening, sharpnesses: Sequence[float]
    ) -> Iterator[Candidate]:
        """One for each sharpness, learned from the bags with a weight."""
        ...


@dataclass(frozen=True)
class WeighedPool:
    """Tokens weighted by ⟨query, token⟩: all alike, if there is no query."""

    query: FloatArray | None = None
    weighting: Weighting | None = None
    length = 0

    def attention(self, bags: Bags, whitening: Whitening) -> FloatArray:
        """Weights of all tokens (N,), of sum 1 in each bag."""
        if self.query is None or self.weighting is None:
            return 1.0 / bags.spread(bags.lengths.astype(float))
        return bags.weigh(self.weighting, bags.project(whitening.root @ self.query))

    def features(self, bags: Bags, whitening: Whitening) -> FloatArray:
        return whitening(bags.pool(self.attention(bags, whitening)))

    def contributions(self, bags: Bags, whitening: Whitening, readout: FloatArray) -> FloatArray:
        return self.attention(bags, whitening) * whitening.project(bags, readout)


@dataclass(frozen=True)
class SideBySidePool:
    """All tokens of bags of one length."""

    length: int
    query = None

    def features(self, bags: Bags, whitening: Whitening) -> FloatArray:
        lengths = np.unique(bags.lengths)
        if len(lengths) > 1 or lengths[0] != self.length:
            raise InvalidInput(
                f"VectorizedClassifier needs bags of one length ({self.length}), got lengths "
                f"from {lengths[0]} to {lengths[-1]}"
            )
        return whitening(np.asarray(bags.tokens, dtype=float)).reshape(len(bags), -1)

    def contributions(self, bags: Bags, whitening: Whitening, readout: FloatArray) -> FloatArray:
        return (self.features(bags, whitening) * readout).reshape(-1, bags.dim).sum(axis=1)


@dataclass(frozen=True)
class Mean:
    """The mean token."""

    sharpnesses = (0.0,)
    joint = False

    def pool(self, length: int, query: FloatArray | None) -> Pool:
        return WeighedPool()

    def candidates(
        self, data: TrainingData, whitening: Whitening, sharpnesses: Sequence[float]
    ) -> Iterator[Candidate]:
        means = whitening(data.means)
        yield Candidate(0.0, self.pool(0, None), data.weights, means, means)


@dataclass(frozen=True)
class SideBySide:
    """All tokens, one after the other."""

    sharpnesses = (0.0,)
    joint = False

    def pool(self, length: int, query: FloatArray | None) -> Pool:
        return SideBySidePool(length)

    def candidates(
        self, data: TrainingData, whitening: Whitening, sharpnesses: Sequence[float]
    ) -> Iterator[Candidate]:
        pool = self.pool(int(data.bags.lengths[0]), None)
        features = pool.features(data.bags, whitening)
        yield Candidate(0.0, pool, data.weights, features, features)


@dataclass(frozen=True)
class Attending:
    """Tokens weighted by a query that is learned from the bags.

    The readout learns from the bags that teach the query (`reuse` is "all"), from the same but each
    seen through a query that has not seen it ("cross"), or from every other bag ("split").
    """

    sharpnesses: tuple[float, ...]
    weighting: Weighting
    reuse: str
    joint: bool  # begins with one round more for the query
    folds: int

    def pool(self, length: int, query: FloatArray | None) -> Pool:
        return WeighedPool(query, self.weighting)

    def candidates(
        self, data: TrainingData, whitening: Whitening, sharpnesses: Sequence[float]
    ) -> Iterator[Candidate]:
        teaching = learning = data
        if self.reuse == "split":
            first = _every_other(data)
            teaching, learning = data.without(~first), data.without(first)
        query = self._query(teaching, whitening)
        logits = data.bags.project(whitening.root @ query)
        scored = self._features(data.bags, whitening, logits, sharpnesses)
        fitted = scored
        if self.reuse == "cross":
            unseen = self._unseen_logits(data, whitening, logits)
            fitted = self._features(data.bags, whitening, unseen, sharpnesses)
        for sharpness, fit_on, score in zip(sharpnesses, fitted, scored, strict=True):
            pool = self.pool(0, sharpness * query)
            yield Candidate(sharpness, pool, learning.weights, fit_on, score)

    def _query(self, data: TrainingData, whitening: Whitening) -> FloatArray:
        """The direction of the query (d,), whitened."""
        given = data.labels, data.weights, whitening
        query = two_step_query(data.bags, whitening(data.means), *given)
        return refined(data.bags, query, *given).query if self.joint else query

    def _unseen_logits(
        self, data: TrainingData, whitening: Whitening, logits: FloatArray
    ) -> FloatArray:
        """⟨query, token⟩ (N,) by a query that has not seen the token's bag."""
        unseen = logits.copy()
        for held in data.folds(self.folds):
            query = self._query(data.without(held), whitening)
            tokens = np.repeat(held, data.bags.lengths)
            unseen[tokens] = data.bags.project(whitening.root @ query)[tokens]
        return unseen

    def _features(
        self, bags: Bags, whitening: Whitening, logits: FloatArray, sharpnesses: Sequence[float]
    ) -> list[FloatArray]:
        """(n, d) for each sharpness, in one pass over the tokens."""
        weights = np.stack([bags.weigh(self.weighting, tau * logits) for tau in sharpnesses])
        return [whitening(pooled) for pooled in bags.pool(weights)]


def _every_other(data: TrainingData) -> Any:
    """Which bags (n,) are every other one that counts, in each class."""
    first = np.zeros(len(data.labels), dtype=bool)
    for label in (1.0, -1.0):
        first[np.flatnonzero((data.weights > 0) & (data.labels == label))[::2]] = True
    return first

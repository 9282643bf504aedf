r"""From bags to features: what the classifiers differ in.

A `Pooling` says what is tried; from training bags it makes a `Candidate` for each sharpness: the
features a readout is fitted to, and the pooling, taught, that gives those of new bags.

* the mean token;
* all tokens side by side, where bags have one length;
* Σ a_l x_l with a = softmax(⟨x_l, query⟩), the query learned from training bags, its length the
  sharpness.

All in whitened coordinates. In the limit of a small readout step and with the bias that balances
the classes, stages 1 to 3 of the protocol are two weighted sums. With s_i = y_i/(weight of its
class) and P = I − 11ᵀ/L,

    w¹ = Σ s_i · mean token of bag i,       q = Σ s_i · (1/L_i) X_iᵀ P X_i w¹:

the difference of the classes' mean tokens, then the difference of their covariances within a bag
applied to it. No step sizes are left; the length of q is the sharpness, chosen separately.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.mixture import Mixture, histogram
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Whitening
from sparsetoken.model.weightings import SOFTMAX, Weighting, check_weighting
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

# Of mapped tokens that occur in many bags: held-out bags are too easy where all tokens of a bag
# count, since each is remembered, and choose too little. Best for digits 3, 5 and 8 (docs/bags.md)
_SHARP = 4.0
_MOST_NUMBERS = 1 << 24  # of all bags' tokens, with which all of them side by side are tried


def two_step_query(data: TrainingData, whitening: Whitening) -> FloatArray:
    """The direction of the query in whitened coordinates, of norm 1 (0 if there is none)."""
    bags, signed = data.bags, data.signed
    difference = signed @ (data.means - whitening.mean) @ whitening.root
    level = bags.project(whitening.root @ difference)
    level -= bags.spread(bags.total(level) / bags.lengths)
    pull = level * bags.spread(signed / bags.lengths)
    query = bags.sums(pull[None])[0] - pull.sum() * whitening.mean
    return _unit(whitening.root.T @ query)


def refined(
    data: TrainingData, query: FloatArray, whitening: Whitening
) -> tuple[FloatArray, FloatArray]:
    """One round of expectation–maximisation: along a query, how likely does each token carry the
    signal? The difference of the classes, tokens weighted by that, is a better query.

    That query (d,), of norm 1; and the tokens of each bag weighted so (n, d), not whitened.
    """
    bags = data.bags
    level = bags.project(whitening.root @ query)
    share = bags.spread(data.weights_of(-1))
    share = share / share.sum()
    level -= share @ level
    level /= max(float(np.sqrt(share @ level**2)), 1e-300)
    counted = bags.spread(data.weights_of(1))
    chance = Mixture.fit(histogram(level[None], counted[None])).chance(level[None])[0]
    pooled = bags.pool(chance) - np.outer(bags.total(chance), whitening.mean)
    return _unit(data.signed @ pooled @ whitening.root), pooled


def _unit(vector: FloatArray) -> FloatArray:
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm > 0 else vector


class Candidate(NamedTuple):
    """Features of all bags at one sharpness."""

    sharpness: float
    pooling: Pooling  # with what it has learned
    weights: FloatArray  # (n,), of the bags the readout learns from
    fitted: FloatArray  # (n, p), to fit on
    scored: FloatArray  # (n, p), as new bags would have them


class Pooling(ABC):
    """What is tried on bags; and, with a `length` or a `query` learned, what makes features."""

    sharpnesses: tuple[float, ...] = (0.0,)
    joint: bool = False  # whether query and readout are trained together as well
    length: int = 0  # of bags; 0 where they may have any
    learns_query: bool = False
    query: FloatArray = np.zeros(0)  # (d,), whitened; (0,) where there is none
    names: tuple[str, ...] = ()  # of the arrays that it learns

    def suits(self, bags: Bags) -> bool:
        """Whether bags like these can be pooled so."""
        return True

    @property
    def fewest(self) -> int:
        """Bags of each class that it needs."""
        return 1

    def sharpnesses_mapped(self, repeats: bool) -> tuple[float, ...]:
        """That are tried of tokens as a `NystroemMap` shows them, known from other bags or not."""
        return self.sharpnesses

    @abstractmethod
    def candidates(
        self, data: TrainingData, whitening: Whitening, sharpnesses: Sequence[float]
    ) -> Iterator[Candidate]:
        """One for each sharpness, learned from the bags with a weight."""

    def learned(self, length: int, query: FloatArray) -> Pooling:
        """With what was learned."""
        return self

    def arrays(self) -> dict[str, FloatArray]:
        """What was learned, for a file."""
        return {name: np.asarray(getattr(self, name)) for name in self.names}

    def restored(self, length: int, dim: int, arrays: Mapping[str, FloatArray]) -> Pooling:
        """From the arrays of a file, whose shapes may be anything."""
        if not self.learns_query:
            return self.learned(length, self.query)
        if arrays["query"].shape != (dim,):
            raise InvalidInput(f"query has shape {arrays['query'].shape}, not ({dim},)")
        return self.learned(length, arrays["query"])

    def count(self, dim: int) -> int:
        """Features, for tokens of that dimension."""
        return dim

    def attention(self, bags: Bags, whitening: Whitening) -> FloatArray:
        """Weights of all tokens (N,), of sum 1 in each bag."""
        return bags.spread(1.0 / bags.lengths)

    def features(self, bags: Bags, whitening: Whitening) -> FloatArray:
        """(n, p)."""
        return whitening(bags.pool(self.attention(bags, whitening)))

    def contributions(self, bags: Bags, whitening: Whitening, readout: FloatArray) -> FloatArray:
        """What each token (N,) adds to ⟨readout, features⟩ of its bag."""
        return self.attention(bags, whitening) * whitening.project(bags, readout)


class Mean(Pooling):
    """The mean token."""

    def candidates(
        self, data: TrainingData, whitening: Whitening, sharpnesses: Sequence[float]
    ) -> Iterator[Candidate]:
        means = whitening(data.means)
        yield Candidate(0.0, self, data.weights, means, means)


@dataclass(frozen=True)
class SideBySide(Pooling):
    """All tokens, one after the other, of bags of one length."""

    length: int = 0

    def suits(self, bags: Bags) -> bool:
        return len(np.unique(bags.lengths)) == 1 and bags.tokens.size <= _MOST_NUMBERS

    def candidates(
        self, data: TrainingData, whitening: Whitening, sharpnesses: Sequence[float]
    ) -> Iterator[Candidate]:
        pooling = SideBySide(int(data.bags.lengths[0]))
        features = pooling.features(data.bags, whitening)
        yield Candidate(0.0, pooling, data.weights, features, features)

    def learned(self, length: int, query: FloatArray) -> Pooling:
        return SideBySide(length)

    def count(self, dim: int) -> int:
        return self.length * dim

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


@dataclass(frozen=True, eq=False, kw_only=True)
class Attending(Pooling):
    """Tokens weighted by a query that is learned from the bags.

    The readout learns from the bags that teach the query (`reuse` is "all"), from the same but each
    seen through a query that has not seen it ("cross"), or from the half that does not ("split").
    """

    sharpnesses: tuple[float, ...]
    weighting: Weighting
    reuse: str
    joint: bool  # begins with one round more for the query
    folds: int
    query: FloatArray = field(default_factory=partial(np.zeros, 0))
    learns_query = True
    names = ("query",)

    def __post_init__(self) -> None:
        check_weighting("AttentionClassifier", self.weighting)
        if self.joint and self.weighting != SOFTMAX:
            raise InvalidInput(
                "query must be 'two-step' for a weighting other than softmax (whose gradient "
                f"joint training follows), got weighting={self.weighting!r}"
            )

    def sharpnesses_mapped(self, repeats: bool) -> tuple[float, ...]:
        if len(self.sharpnesses) == 1:
            return self.sharpnesses
        return (_SHARP,) if repeats else self.sharpnesses[::2]

    @property
    def fewest(self) -> int:
        return 4 if self.reuse == "split" else 1  # query and readout, in each of two folds

    def candidates(
        self, data: TrainingData, whitening: Whitening, sharpnesses: Sequence[float]
    ) -> Iterator[Candidate]:
        teaching = learning = data
        if self.reuse == "split":
            first = data.half()
            teaching, learning = data.without(~first), data.without(first)
        query = self._query(teaching, whitening)
        logits = data.bags.project(whitening.root @ query)
        fitted = scored = self._features(data.bags, whitening, logits, sharpnesses)
        if self.reuse == "cross":
            unseen = self._unseen_logits(data, whitening, logits)
            fitted = self._features(data.bags, whitening, unseen, sharpnesses)
        for sharpness, fit_on, score in zip(sharpnesses, fitted, scored, strict=True):
            pooling = self.learned(0, sharpness * query)
            yield Candidate(sharpness, pooling, learning.weights, fit_on, score)

    def learned(self, length: int, query: FloatArray) -> Pooling:
        return replace(self, query=query)

    def attention(self, bags: Bags, whitening: Whitening) -> FloatArray:
        return bags.weigh(self.weighting, bags.project(whitening.root @ self.query))

    def _query(self, data: TrainingData, whitening: Whitening) -> FloatArray:
        """The direction of the query (d,), whitened."""
        query = two_step_query(data, whitening)
        return refined(data, query, whitening)[0] if self.joint else query

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

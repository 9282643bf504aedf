r"""From bags to features: what the classifiers differ in.

A `Pooling` says what is tried; from training bags it makes a `Candidate` for each sharpness: the
features a readout is fitted to, and the pooling, taught, that gives those of new bags.

* the mean token;
* all tokens side by side, where bags have one length;
* Σ a_l x_l with a = softmax(⟨x_l, query⟩), the query learned from training bags, its length the
  sharpness.

All in whitened coordinates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sparsetoken.bags.bags import Bags, Walked
from sparsetoken.bags.queries import FeatureKernel, Job, refined, two_step_queries
from sparsetoken.bags.whitening import Whitening
from sparsetoken.model.weightings import SOFTMAX, Weighting, check_weighting
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput

# Of mapped tokens that occur in many bags: held-out bags are too easy where all tokens of a bag
# count, since each is remembered, and choose too little. Best for digits 3, 5 and 8 (docs/bags.md)
_SHARP = 4.0
_MOST_NUMBERS = 1 << 24  # of all bags' tokens, with which all of them side by side are tried


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
    posterior: bool = False  # whether what expectation–maximisation learns is tried as well
    length: int = 0  # of bags; 0 where they may have any
    learns_query: bool = False
    query: FloatArray = np.zeros(0)  # (d,), whitened; (0,) where there is none
    names: tuple[str, ...] = ()  # of the arrays that it learns

    @property
    def in_memory(self) -> bool:
        """Whether all bags must be at hand at once."""
        return False

    def suits(self, bags: Walked) -> bool:
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
        self, jobs: Sequence[Job], sharpnesses: Sequence[float]
    ) -> Iterator[list[Candidate]]:
        """For each job, all of the same bags, one for each sharpness."""

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
        self, jobs: Sequence[Job], sharpnesses: Sequence[float]
    ) -> Iterator[list[Candidate]]:
        for data, whitening in jobs:
            means = whitening(data.bags.summary.mean)
            yield [Candidate(0.0, self, data.weights, means, means)]


@dataclass(frozen=True)
class SideBySide(Pooling):
    """All tokens, one after the other, of bags of one length."""

    length: int = 0

    @property
    def in_memory(self) -> bool:
        return True

    def suits(self, bags: Walked) -> bool:
        numbers = int(bags.lengths.sum()) * bags.dim
        return len(np.unique(bags.lengths)) == 1 and numbers <= _MOST_NUMBERS

    def candidates(
        self, jobs: Sequence[Job], sharpnesses: Sequence[float]
    ) -> Iterator[list[Candidate]]:
        pooling = SideBySide(int(jobs[0].data.bags.lengths[0]))
        for data, whitening in jobs:
            features = pooling.features(data.bags.load(), whitening)
            yield [Candidate(0.0, pooling, data.weights, features, features)]

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
    posterior: bool = False
    query: FloatArray = field(default_factory=partial(np.zeros, 0))
    learns_query = True
    names = ("query",)

    def __post_init__(self) -> None:
        check_weighting("AttentionClassifier", self.weighting)
        if self.posterior and self.reuse != "all":
            raise InvalidInput(
                "reuse must be 'all' for query='posterior', which sees each bag along what the "
                f"others say, got reuse={self.reuse!r}"
            )
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

    @property
    def in_memory(self) -> bool:
        return self.joint

    def suits(self, bags: Walked) -> bool:
        return bags.fits or not self.in_memory

    def candidates(
        self, jobs: Sequence[Job], sharpnesses: Sequence[float]
    ) -> Iterator[list[Candidate]]:
        if self.reuse == "all":
            yield from self.seen_along(jobs, self._queries(jobs), sharpnesses)
            return
        teaching, learning = list(jobs), [data.weights for data, _ in jobs]
        if self.reuse == "split":
            halves = [data.half() for data, _ in jobs]
            teaching = [
                Job(data.without(~half), whitening)
                for (data, whitening), half in zip(jobs, halves, strict=True)
            ]
            learning = [
                data.without(half).weights for (data, _), half in zip(jobs, halves, strict=True)
            ]
        main = np.repeat(np.arange(len(jobs))[:, None], len(learning[0]), axis=1)
        unseen = main.copy()  # by which query each bag is seen that fits the readout
        if self.reuse == "cross":
            for place, (data, whitening) in enumerate(jobs):
                for held in data.folds(self.folds):
                    unseen[place, held] = len(teaching)
                    teaching.append(Job(data.without(held), whitening))
        queries = self._queries(teaching)
        which = np.concatenate([main, unseen]) if self.reuse == "cross" else main
        pooled = self._pooled(teaching, queries, which, sharpnesses)
        for place, ((_, whitening), weights) in enumerate(zip(jobs, learning, strict=True)):
            candidates = []
            for number, sharpness in enumerate(sharpnesses):
                fitted = scored = whitening(pooled[place, number])
                if self.reuse == "cross":
                    fitted = whitening(pooled[len(jobs) + place, number])
                pooling = self.learned(0, sharpness * queries[place])
                candidates.append(Candidate(sharpness, pooling, weights, fitted, scored))
            yield candidates

    def seen_along(
        self, jobs: Sequence[Job], queries: Sequence[FloatArray], sharpnesses: Sequence[float]
    ) -> Iterator[list[Candidate]]:
        """All bags along queries that are known, one for each job; all of them fit the readout."""
        which = np.repeat(np.arange(len(jobs))[:, None], len(jobs[0].data.bags), axis=1)
        pooled = self._pooled(jobs, queries, which, sharpnesses)
        for (data, whitening), query, rows in zip(jobs, queries, pooled, strict=True):
            candidates = []
            for sharpness, row in zip(sharpnesses, rows, strict=True):
                features, pooling = whitening(row), self.learned(0, sharpness * query)
                candidates.append(Candidate(sharpness, pooling, data.weights, features, features))
            yield candidates

    def learned(self, length: int, query: FloatArray) -> Pooling:
        return replace(self, query=query)

    def attention(self, bags: Bags, whitening: Whitening) -> FloatArray:
        return bags.weigh(self.weighting, bags.project(whitening.root @ self.query))

    def _queries(self, jobs: Sequence[Job]) -> list[FloatArray]:
        """The directions of the queries (d,), whitened."""
        queries = two_step_queries(jobs)
        if not self.joint:
            return queries
        return [
            refined(data, query, whitening)[0]
            for (data, whitening), query in zip(jobs, queries, strict=True)
        ]

    def _pooled(
        self,
        jobs: Sequence[Job],
        queries: Sequence[FloatArray],
        which: IntArray,
        sharpnesses: Sequence[float],
    ) -> FloatArray:
        """Tokens of each bag weighted by one of the queries (f, s, n, d), not whitened."""
        along = [job.whitening.root @ query for job, query in zip(jobs, queries, strict=True)]
        kernel = FeatureKernel(np.stack(along, axis=1), which, tuple(sharpnesses), self.weighting)
        return jobs[0].data.bags.run(kernel)["pooled"]

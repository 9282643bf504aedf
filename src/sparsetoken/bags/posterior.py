r"""The query that expectation–maximisation learns, and the log likelihood ratio of a bag along it.

Bags begin with the two-step query. Then, a few times over: along the query, how much does noise
vary, how strong and how frequent is the signal, and how likely does each token carry it? The
difference of the classes, tokens weighted by that, is the next query; a negative bag counts as far
as it would be taken for a positive one, which in the model hardly happens, and in real data does.
Each bag is seen along what the others say, without what it has added itself to the query: otherwise
its own noise would look like signal. That is message passing, its correction taken bag by bag.

What is learned in the end scores bags in two ways: as attention with that query, and by

    log Σ_s w_s Π_l (1 − s + s·r_l),     r_l = N(x_l; δ, τ²)/g(x_l),

as in `carriers.py`, x_l the tokens along the query and g the density of noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, cast

import numpy as np
from scipy.special import expit

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.carriers import (
    VARYING,
    Carried,
    Carriers,
    FixedCount,
    VaryingShare,
    fit_varying,
    refit,
)
from sparsetoken.bags.likelihood import Levels, NoiseDensity, Signal
from sparsetoken.bags.poolings import Candidate, Pooling
from sparsetoken.bags.queries import Job
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Whitening
from sparsetoken.support.arrays import BoolArray, FloatArray
from sparsetoken.support.errors import InvalidInput

_ROUNDS = 3  # more change little: with 100 bags of 10 or 30 images the third still does
_FEW = 8  # tokens that carry the signal, up to which their number may be a fixed one
_FURTHEST = 1e8  # units of noise, beyond which all tokens are alike: noise may not vary at all
_LAW_FROM = 1 << 17  # tokens of positive bags, at most, that a law of few parameters is fitted to


@dataclass(frozen=True, eq=False)
class TokenLaw:
    """Of tokens along a query: noise, signal, and how many of a positive bag carry it."""

    centre: float  # of noise
    unit: float  # its standard deviation
    noise: NoiseDensity  # in these units
    signal: Carried

    def levels(self, along: FloatArray, bags: Bags) -> Levels:
        """In units of the noise."""
        levels = np.clip((along - self.centre) / self.unit, -_FURTHEST, _FURTHEST)
        return Levels(self.noise.log(levels), levels, bags.lengths, np.ones(len(bags)))

    def of_bags(self, along: FloatArray, bags: Bags) -> tuple[FloatArray, FloatArray]:
        """log P(bag)/P(noise) of positive bags (n,), and for each token (N,) that it carries the
        signal if its bag is positive; from tokens along the query (N,)."""
        shift, width, carriers, _ = self.signal
        ratios = self.levels(along, bags).log_ratios(Signal(shift, width, 1, 0.0))
        carried = carriers.bags(ratios, bags.lengths)
        return carried.log_ratios, carried.chances


class Taught(NamedTuple):
    """What one set of bags has taught."""

    query: FloatArray  # (d,), whitened, of norm 1
    law: TokenLaw
    log_ratios: FloatArray  # (n,), of its bags, each along what the others say


@dataclass(frozen=True, eq=False, kw_only=True)
class LikelihoodRatio(Pooling):
    """How much likelier a bag is with the signal than without: a single feature."""

    query: FloatArray = field(default_factory=partial(np.zeros, 0))
    law: TokenLaw | None = None
    learns_query = True
    names = ("query", "density", "numbers", "shares")

    def candidates(
        self, jobs: Sequence[Job], sharpnesses: Sequence[float]
    ) -> Iterator[list[Candidate]]:
        for job, taught in zip(jobs, learn(jobs), strict=True):
            yield [self.candidate(job, taught)]

    def candidate(self, job: Job, taught: Taught) -> Candidate:
        """The features of bags that have taught, and of bags that have not."""
        pooling = replace(self, query=taught.query, law=taught.law)
        scored = pooling.features(job.data.bags.load(), job.whitening)
        counted = (job.data.weights > 0)[:, None]
        fitted = np.where(counted, taught.log_ratios[:, None], scored)
        return Candidate(1.0, pooling, job.data.weights, fitted, scored)

    def count(self, dim: int) -> int:
        return 1

    def attention(self, bags: Bags, whitening: Whitening) -> FloatArray:
        """By the chances of tokens to carry the signal."""
        _, chances = self._of_bags(bags, whitening)
        total = np.add.reduceat(chances, bags.offsets[:-1])
        alike = bags.spread((total <= 0).astype(float)) / bags.spread(bags.lengths.astype(float))
        return np.asarray(chances / np.maximum(bags.spread(total), 1e-300) + alike)

    def features(self, bags: Bags, whitening: Whitening) -> FloatArray:
        log_ratios, _ = self._of_bags(bags, whitening)
        return log_ratios[:, None]

    def contributions(self, bags: Bags, whitening: Whitening, readout: FloatArray) -> FloatArray:
        """The bag's log ratio, shared out by the chances of its tokens."""
        log_ratios = self.features(bags, whitening)[:, 0]
        return readout[0] * bags.spread(log_ratios) * self.attention(bags, whitening)

    def arrays(self) -> dict[str, FloatArray]:
        law = self._law
        shift, width, carriers, height = law.signal
        count, shares = 0.0, np.empty((2, 0))
        if isinstance(carriers, VaryingShare):
            shares = np.array([carriers.shares, carriers.weights])
        else:
            count = float(cast(FixedCount, carriers).count)
        numbers = np.array([law.centre, law.unit, law.noise.unseen, shift, width, height, count])
        arrays = (self.query, law.noise.density, numbers, shares)
        return dict(zip(self.names, arrays, strict=True))

    def restored(self, length: int, dim: int, arrays: Mapping[str, FloatArray]) -> Pooling:
        query, density, numbers, shares = (arrays[name] for name in self.names)
        if query.shape != (dim,):
            raise InvalidInput(f"query has shape {query.shape}, not ({dim},)")
        if numbers.shape != (7,) or shares.ndim != 2 or len(shares) != 2:
            raise InvalidInput(f"the law of tokens has shapes {numbers.shape}, {shares.shape}")
        centre, own_unit, unseen, shift, width, height, count = numbers.tolist()
        noise = NoiseDensity.restored(density, unseen)
        sound = density.shape == noise.at.shape and not np.any(density < 0)
        sound = sound and 0 < unseen <= 1 and own_unit > 0 and width > 0
        if count == 0 and shares.size:
            sound = sound and 0 <= shares.min() and shares[0].max() < 1 and shares[1].sum() > 0
            carriers: Carriers = VaryingShare(*(tuple(row) for row in shares.tolist()))
        else:
            sound = sound and count in range(1, _FEW + 1)
            carriers = FixedCount(int(count))
        if not sound:
            raise InvalidInput("the law of tokens is not one")
        law = TokenLaw(centre, own_unit, noise, Carried(shift, width, carriers, height))
        return replace(self, query=query, law=law)

    @property
    def _law(self) -> TokenLaw:
        assert self.law is not None  # a pooling that has learned nothing makes no features
        return self.law

    def _of_bags(self, bags: Bags, whitening: Whitening) -> tuple[FloatArray, FloatArray]:
        return self._law.of_bags(whitening.project(bags, self.query), bags)


def learn(jobs: Sequence[Job], rounds: int = _ROUNDS) -> list[Taught]:
    """From several sets of the same bags."""
    bags = jobs[0].data.bags.load()
    turned = _turned(jobs, bags)
    states = [_State.first(job, bags, own) for job, own in zip(jobs, turned, strict=True)]
    for _ in range(rounds):
        chances = np.stack([state.chances for state in states])
        pooled = bags.pool(chances)
        states = [
            state.next(bags, own - np.outer(bags.total(chance), state.job.whitening.mean))
            for state, own, chance in zip(states, pooled, chances, strict=True)
        ]
    return [Taught(state.query, state.law, state.log_ratios) for state in states]


@dataclass(frozen=True, eq=False)
class _State:
    """Of a set of bags, after some rounds."""

    job: Job
    query: FloatArray  # (d,), whitened, of norm 1
    law: TokenLaw
    log_ratios: FloatArray  # (n,)
    chances: FloatArray  # (N,), that a token carries the signal; negative bags as if not labelled

    @classmethod
    def first(cls, job: Job, bags: Bags, own: FloatArray) -> _State:
        return cls._of(job, bags, own, None)

    def next(self, bags: Bags, own: FloatArray) -> _State:
        return self._of(self.job, bags, own, self.law)

    @classmethod
    def _of(cls, job: Job, bags: Bags, own: FloatArray, before: TokenLaw | None) -> _State:
        """From what each bag adds to the query (n, d), not whitened, but for its weight."""
        data, whitening = job
        added = (data.signed[:, None] * own) @ whitening.root  # (n, d)
        total = added.sum(axis=0)
        length = max(float(np.linalg.norm(total)), 1e-300)
        along = whitening.project(bags, total / length)
        along -= _across(bags, added @ whitening.root.T / length, whitening.mean)
        law = _law(data, bags, along, before)
        log_ratios, chances = law.of_bags(along, bags)
        share = data.weights_of(1).sum() / data.weights.sum()
        positive = expit(log_ratios + np.log(share / (1 - share)))  # if its label were not known
        counted = np.where(data.labels > 0, 1.0, positive)
        return cls(job, total / length, law, log_ratios, bags.spread(counted) * chances)


def _turned(jobs: Sequence[Job], bags: Bags) -> FloatArray:
    """What each bag adds to the two-step query, (1/L) Xᵀ P X w, but for its weight (q, n, d)."""
    means = bags.summary.mean
    steps = [
        whitening.root @ (data.signed @ (means - whitening.mean) @ whitening.root)
        for data, whitening in jobs
    ]
    along = bags.project(np.stack(steps, axis=1)).T  # (q, N)
    lengths = bags.lengths
    centred = [level - bags.spread(bags.total(level) / lengths) for level in along]
    return bags.pool(np.stack(centred) / bags.spread(lengths.astype(float)))


def _across(bags: Bags, vectors: FloatArray, mean: FloatArray) -> FloatArray:
    """⟨token − mean, vector of its bag⟩ of all tokens (N,), for vectors (n, d)."""
    own = np.repeat(np.arange(len(bags)), bags.lengths)
    across = [
        np.einsum("td,td->t", np.asarray(bags.tokens[rows], dtype=float), vectors[own[rows]])
        for _, rows in bags.blocks()
    ]
    return np.concatenate(across) - bags.spread(vectors @ mean)


def _law(data: TrainingData, bags: Bags, along: FloatArray, before: TokenLaw | None) -> TokenLaw:
    """What fits best; from a law that is near, if there is one."""
    quiet = bags.spread(data.weights_of(-1))
    share = quiet / quiet.sum()
    centre = float(share @ along)
    deviation = max(float(np.sqrt(share @ (along - centre) ** 2)), 1e-300)
    scaled = np.clip((along - centre) / deviation, -_FURTHEST, _FURTHEST)
    noise = NoiseDensity(scaled[quiet > 0], quiet[quiet > 0])
    chosen = _some(data, bags)
    rows = bags.spread(chosen.astype(float)) > 0
    levels = Levels(
        noise.log(scaled[rows]), scaled[rows], bags.lengths[chosen], data.weights[chosen]
    )
    return TokenLaw(centre, deviation, noise, _signal(levels, before))


def _signal(levels: Levels, before: TokenLaw | None) -> Carried:
    """The likeliest, at the price of log n a parameter: of varying share, or of a few tokens in
    each bag."""
    if before is None:
        return fit_varying(levels, spread=True)
    shift, width, carriers, _ = before.signal
    if not isinstance(carriers, VaryingShare):
        return refit(levels, before.signal, spread=True)
    varying = refit(levels, before.signal, spread=True)
    number = float(np.dot(carriers.shares, carriers.weights)) * float(np.median(levels.lengths))
    fixed = [
        refit(levels, Carried(shift, width, FixedCount(count), 0.0), spread=True)
        for count in {math.floor(number), math.ceil(number)}
        if 0 < count <= _FEW
    ]
    price = VARYING * np.log(max(float(levels.counted.sum()), 2.0))
    return max([varying._replace(height=varying.height - price), *fixed], key=lambda x: x.height)


def _some(data: TrainingData, bags: Bags) -> BoolArray:
    """Positive bags that count (n,), spread over all of them where they hold too many tokens."""
    positive = data.order[data.weights_of(1)[data.order] > 0]
    step = max(1, -(-int(bags.lengths[positive].sum()) // _LAW_FROM))
    chosen = np.zeros(len(bags), dtype=bool)
    chosen[positive[::step]] = True
    return chosen

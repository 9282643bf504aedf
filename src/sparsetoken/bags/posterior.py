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
from sparsetoken.bags.token_passes import LevelKernel, PoolKernel, TurnKernel
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Whitening
from sparsetoken.fitting.groups import Groups
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

    def levels(self, along: FloatArray, bags: Groups) -> Levels:
        """In units of the noise."""
        levels = np.clip((along - self.centre) / self.unit, -_FURTHEST, _FURTHEST)
        return Levels(self.noise.log(levels), levels, bags.lengths, np.ones(len(bags)))

    def of_bags(self, along: FloatArray, bags: Groups) -> tuple[FloatArray, FloatArray]:
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
    log_ratios: FloatArray  # (n,), of its bags, each along what the others say,
    scored: FloatArray  # and as bags that have not taught


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
        scored = taught.scored[:, None]
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
    """From several sets of the same bags, in 3 + 2·rounds passes over them."""
    bags = jobs[0].data.bags
    offsets = np.concatenate([[0], np.cumsum(bags.lengths)])
    places = Groups(np.empty((offsets[-1], 0)), offsets)  # of tokens, which stay where they are
    steps = [_Step.of(job, own) for job, own in zip(jobs, _turned(jobs), strict=True)]
    states = _states(steps, places, [None] * len(jobs))
    for _ in range(rounds):
        chances = np.stack([state.chances for state in states])
        pooled = bags.run(PoolKernel(chances, offsets))["sums"]
        steps = [
            _Step.of(job, own - np.outer(places.total(chance), job.whitening.mean))
            for job, own, chance in zip(jobs, pooled, chances, strict=True)
        ]
        states = _states(steps, places, [state.law for state in states])
    levels = _levels(jobs, places, [np.tile(step.whole, (len(bags), 1)) for step in steps])
    return [
        Taught(step.query, state.law, state.log_ratios, state.law.of_bags(along, places)[0])
        for step, state, along in zip(steps, states, levels, strict=True)
    ]


class _Step(NamedTuple):
    """A query, and for each bag the same without what it has added itself."""

    job: Job
    query: FloatArray  # (d,), whitened, of norm 1
    whole: FloatArray  # (d,), acting on tokens as they are,
    others: FloatArray  # and without a bag's own part (n, d)

    @classmethod
    def of(cls, job: Job, own: FloatArray) -> _Step:
        """From what each bag adds to the query (n, d), not whitened, but for its weight."""
        root = job.whitening.root
        added = (job.data.signed[:, None] * own) @ root  # (n, d)
        total = added.sum(axis=0)
        length = max(float(np.linalg.norm(total)), 1e-300)
        whole = root @ (total / length)
        return cls(job, total / length, whole, whole - added @ root.T / length)


class _State(NamedTuple):
    """What is known of a set of bags along a query."""

    law: TokenLaw
    log_ratios: FloatArray  # (n,)
    chances: FloatArray  # (N,), that a token carries the signal; negative bags as if not labelled


def _states(
    steps: Sequence[_Step], places: Groups, before: Sequence[TokenLaw | None]
) -> list[_State]:
    """Of each set, from tokens along its query; laws that are near, if there are any."""
    jobs = [step.job for step in steps]
    states = []
    levels = _levels(jobs, places, [step.others for step in steps])
    for (data, _), along, near in zip(jobs, levels, before, strict=True):
        law = _law(data, places, along, near)
        log_ratios, chances = law.of_bags(along, places)
        share = data.weights_of(1).sum() / data.weights.sum()
        positive = expit(log_ratios + np.log(share / (1 - share)))  # if its label were not known
        counted = np.where(data.labels > 0, 1.0, positive)
        states.append(_State(law, log_ratios, places.spread(counted) * chances))
    return states


def _turned(jobs: Sequence[Job]) -> FloatArray:
    """What each bag adds to the two-step query, (1/L) Xᵀ P X w, but for its weight (q, n, d)."""
    bags = jobs[0].data.bags
    means = bags.summary.mean
    steps = [
        whitening.root @ (data.signed @ (means - whitening.mean) @ whitening.root)
        for data, whitening in jobs
    ]
    return bags.run(TurnKernel(np.stack(steps, axis=1), means))["sums"]


def _levels(jobs: Sequence[Job], places: Groups, vectors: Sequence[FloatArray]) -> list[FloatArray]:
    """⟨token − mean, vector of its bag⟩ of all tokens (N,), for vectors (n, d) of each set."""
    levels = jobs[0].data.bags.run(LevelKernel(np.stack(vectors)))["levels"]
    return [
        level - places.spread(own @ whitening.mean)
        for level, own, (_, whitening) in zip(levels, vectors, jobs, strict=True)
    ]


def _law(data: TrainingData, bags: Groups, along: FloatArray, before: TokenLaw | None) -> TokenLaw:
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


def _some(data: TrainingData, bags: Groups) -> BoolArray:
    """Positive bags that count (n,), spread over all of them where they hold too many tokens."""
    positive = data.order[data.weights_of(1)[data.order] > 0]
    step = max(1, -(-int(bags.lengths[positive].sum()) // _LAW_FROM))
    chosen = np.zeros(len(bags), dtype=bool)
    chosen[positive[::step]] = True
    return chosen

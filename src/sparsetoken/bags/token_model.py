r"""Which tokens carry the signal, as probabilities: what is learned from labelled bags.

Each fold of the bags is measured along a direction that the others have taught (whitening, two-step
query, a round of expectation–maximisation), in units of the noise of bags without the signal. Along
it a token of noise has a density g that is estimated, a token with the signal is N(δ, τ²), and
`carriers.py` says how many there are in a positive bag. Then

    P(token carries it | bag) = P(bag is positive | bag) · P(token carries it | positive bag),

the first by Bayes's rule with the prevalence of the bags at hand. Where held-out bags say that its
logit has another slope or offset (tokens of a bag are not independent, noise is not what it was
taken for), a sigmoid corrects it.

The direction that is used on new bags is taught by all of them. Ten folds teach nearly as good
ones: what is learned along them, δ among it, is true of that one too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.carriers import VARYING, Carriers, FixedCount, fit_varying
from sparsetoken.bags.estimate import SHRINKINGS, recognised
from sparsetoken.bags.likelihood import Levels, NoiseDensity, Signal, fit_signal
from sparsetoken.bags.measured import rank_evidence, rank_surplus
from sparsetoken.bags.mixture import Mixture, histogram
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.views import directions
from sparsetoken.bags.whitening import Shrinking
from sparsetoken.fitting.calibration import Sigmoid, fit_sigmoid
from sparsetoken.support.arrays import BoolArray, FloatArray
from sparsetoken.support.errors import InvalidInput

_FOLDS = 10
# Of these, so many choose how to whiten where there are so many numbers in all tokens that each
# fold takes seconds
_FEWER, _LARGE = 3, 1 << 24
_FEW = 8  # tokens, up to which their number is told from one more or less
_FURTHEST = 1e8  # units of noise, beyond which all tokens are alike: noise may not vary at all


@dataclass(frozen=True, eq=False)
class TokenModel:
    """All that turns the tokens of a bag into probabilities."""

    direction: FloatArray  # (d,), acting on tokens as they are
    centre: float  # of noise along it
    unit: float  # its standard deviation
    noise: NoiseDensity  # in these units
    shift: float  # δ
    width: float  # τ
    carriers: Carriers
    sigmoid: Sigmoid  # of the log ratio of a bag: the logit of its being positive

    def posterior(self, bags: Bags) -> list[FloatArray]:
        """For each token, that it carries the signal: arrays (L_i,)."""
        along = (bags.project(self.direction) - self.centre) / self.unit
        levels = _levels(along, bags, self.noise)
        ratios = levels.log_ratios(Signal(self.shift, self.width, 1, 0.0))
        posteriors = []
        for log_ratios in bags.split(ratios):
            bag = self.carriers.bag(log_ratios)
            logit = self.sigmoid.slope * bag.log_ratio + self.sigmoid.offset
            positive = 1 / (1 + np.exp(-np.clip(logit, -700, 700)))
            posteriors.append(positive * bag.chances)
        return posteriors


class Learned(NamedTuple):
    """The model, and how well it tells held-out bags."""

    model: TokenModel
    evidence: float  # standard errors by which positive bags rank above others


def learn_tokens(data: TrainingData) -> Learned:
    """From labelled bags, of which each can be held out.

    Raises
    ------
    InvalidInput
        Groups that cannot be held out without a whole class.
    """
    folds = list(data.folds(_FOLDS))
    if not folds:
        raise InvalidInput("TokenPosterior: groups cannot be held out without a whole class")
    positive, quiet = data.labels > 0, data.bags.load().spread(data.labels) < 0
    best = _best_shrinking(data, folds if data.bags.load().tokens.size < _LARGE else folds[:_FEWER])
    (along,) = _held_out(data, folds, [best])
    measured = _in_units(along, quiet)
    noise = NoiseDensity(measured.levels[quiet])
    levels = _levels(measured.levels, data.bags.load(), noise)
    shift, width, carriers = _signal(levels[positive])
    ratios = levels.log_ratios(Signal(shift, width, 1, 0.0))
    scores = np.array([carriers.bag(bag).log_ratio for bag in data.bags.load().split(ratios)])
    surplus, variance = rank_surplus(scores, positive)
    evidence = rank_evidence(surplus, variance, data.groups)
    ((direction, origin),) = directions(data, [best])
    model = TokenModel(
        direction, origin + measured.centre, measured.unit, noise, shift, width, carriers,
        _sigmoid(scores, data),
    )  # fmt: skip
    return Learned(model, evidence)


class _Measured(NamedTuple):
    levels: FloatArray  # (N,)
    centre: float
    unit: float


def _held_out(
    data: TrainingData, folds: Sequence[BoolArray], shrinkings: Sequence[Shrinking]
) -> FloatArray:
    """For each way to whiten, all tokens (k, N) along directions that their bags have not taught; 0
    for those that are in none of the folds."""
    levels = np.zeros((len(shrinkings), len(data.bags.load().tokens)))
    for held in folds:
        rows, bags = np.repeat(held, data.bags.lengths), data.bags.load()[held]
        taught = list(directions(data.without(held), shrinkings))
        along = bags.project(np.stack([direction for direction, _ in taught], axis=1))
        levels[:, rows] = (along - [origin for _, origin in taught]).T
    return levels


def _best_shrinking(data: TrainingData, folds: Sequence[BoolArray]) -> Shrinking:
    """The way to whiten that tells the bags of these folds apart best."""
    seen = np.any(folds, axis=0)
    bags, labels = data.bags.load()[seen], data.labels[seen]
    levels = _held_out(data, folds, SHRINKINGS)[:, np.repeat(seen, data.bags.lengths)]
    quiet = bags.spread(labels) < 0
    worth = [_screened(_in_units(along, quiet), bags, quiet, labels > 0) for along in levels]
    return SHRINKINGS[int(np.argmax(worth))]


def _in_units(along: FloatArray, quiet: BoolArray) -> _Measured:
    """With the noise of mean 0 and variance 1."""
    centre, unit = float(along[quiet].mean()), max(float(along[quiet].std()), 1e-300)
    return _Measured(np.clip((along - centre) / unit, -_FURTHEST, _FURTHEST), centre, unit)


def _levels(along: FloatArray, bags: Bags, noise: NoiseDensity) -> Levels:
    return Levels(noise.log(along), along, bags.lengths, np.ones(len(bags)))


def _screened(measured: _Measured, bags: Bags, quiet: BoolArray, positive: BoolArray) -> float:
    """How well bags are told apart by the mixture of all tokens of positive ones: at a glance."""
    levels = _levels(measured.levels, bags, NoiseDensity(measured.levels[quiet]))
    mixture = Mixture.fit(histogram(measured.levels[None, ~quiet]))
    count = max(1, round(float(mixture.share[0]) * float(np.median(bags.lengths))))
    return recognised(levels, positive, Signal(float(mixture.shift[0]), 1.0, count, 0.0))


def _signal(levels: Levels) -> tuple[float, float, Carriers]:
    """δ, τ and who carries the signal: the likeliest, at the price of log n a parameter, as in
    `likelihood.py`."""
    signal, height = _fixed(levels)
    price = np.log(max(float(levels.counted.sum()), 2.0))
    best = height - price * signal.extras
    answer: tuple[float, float, Carriers] = (
        signal.shift,
        signal.width,
        FixedCount(signal.count, signal.silent),
    )
    for spread in (False, True):
        varying = fit_varying(levels, spread=spread)
        worth = varying.height - price * (VARYING + spread)
        if worth > best:
            best, answer = worth, (varying.shift, varying.width, varying.carriers)
    return answer


def _fixed(levels: Levels) -> tuple[Signal, float]:
    """The likeliest signal of a fixed count, and its log likelihood; of few tokens, by the exact
    likelihood of whole bags, which `fit_signal` approximates where there are many."""
    fit = fit_signal(levels)
    count = fit.signal.count
    if count > _FEW:
        return fit.signal, fit.height
    shortest = int(levels.lengths.min())
    near = {count, *fit.counts, count - 1, count + 1} & set(range(1, min(_FEW, shortest) + 1))
    signals = [_best_shift(levels, replace(fit.signal, count=number)) for number in near | {count}]
    heights = [levels.height(signal, exact=True) for signal in signals]
    best = int(np.argmax(heights))
    return signals[best], heights[best]


def _best_shift(levels: Levels, signal: Signal) -> Signal:
    """The likeliest shift, all else as it is; within a quarter."""
    optimum = minimize_scalar(
        lambda shift: -levels.height(replace(signal, shift=shift), exact=True),
        bounds=(0.75 * signal.shift, 1.25 * signal.shift),
        method="bounded",
        options={"xatol": 5e-3},
    )
    return replace(signal, shift=float(optimum.x))


def _sigmoid(scores: FloatArray, data: TrainingData) -> Sigmoid:
    """Bayes's rule with the prevalence, unless another slope and offset are likelier by log n: what
    two parameters cost by Bayes's information criterion."""
    share = float(np.mean(data.labels > 0))
    plain = Sigmoid(1.0, float(np.log(share / (1 - share))))
    fitted = fit_sigmoid(scores, data.labels, data.weights)
    gain = sum(
        sign * float(np.logaddexp(0.0, -data.labels * sigmoid.logit(scores)).sum())
        for sign, sigmoid in ((1, plain), (-1, fitted))
    )
    return fitted if gain > np.log(len(scores)) else plain

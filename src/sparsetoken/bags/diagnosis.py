r"""Does the model fit? White noise after whitening, independent tokens, Gaussian projections.

Each check is a number with what it would be under the model, and a sentence if it is far off:
far off means both more than chance allows and enough to matter for a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.likelihood import Levels, NoiseDensity, Signal
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.views import Split, halved, levels_of
from sparsetoken.bags.whitening import Moments, Whitening
from sparsetoken.support.arrays import FloatArray, IntArray

_SURE = 4.0  # standard errors from which a deviation is not chance
_SHARED = 0.1  # of the variance of a mean token, that shared parts of tokens may add
_ROOM = 1.15  # for finite sizes, beyond the edges of the spectrum
_SHRUNK = 3.0  # below them: shrinkage leaves small variances smaller still, which does no harm
_DISTANCE = 0.03  # of distribution functions, that predictions stand
_CRITICAL = 1.63  # of a difference of distribution functions, times √n: 1 % by chance
_COPIES = 20  # of positive bags that are made to compare with: their own chance is a quarter
_UNEVEN = 1.5  # upper over lower quartile of lengths


@dataclass(frozen=True)
class Diagnosis:
    """What was checked. `problems` are sentences, none if the model fits.

    `tokens` are those of negative bags. `variances` are the least and greatest variance of held-out
    noise over all directions, whitened, and `edges` what they would be for white noise.
    `correlation` is that of two tokens of a negative bag in the same coordinate, with its standard
    error. `noise_distance` and
    `signal_distance` are the greatest differences of distribution functions: of negative tokens
    along the direction from the normal one; of the likelihoods of positive bags from those of bags
    made of noise and the fitted signal, and `detectable` what would have been seen. `sparse_gain`
    is how much likelier held-out positive bags are under a sparse signal than under one in all
    tokens: mean logarithm a bag, with its standard error.
    """

    tokens: int
    variances: tuple[float, float]
    edges: tuple[float, float]
    correlation: tuple[float, float]
    noise_distance: float
    signal_distance: float
    detectable: float
    sparse_gain: tuple[float, float]
    problems: tuple[str, ...]

    @property
    def white(self) -> bool:
        """Whether noise is, after whitening; no where that cannot be told."""
        (least, greatest), (low, high) = self.variances, self.edges
        return math.isfinite(high) and greatest <= _ROOM * high and least >= low / _SHRUNK

    @property
    def sparse(self) -> bool | None:
        """Whether a sparse signal fits better than a dense one; None if that cannot be told."""
        gain, error = self.sparse_gain
        return None if abs(gain) <= 2 * error else gain > 0


def variances(whitening: Whitening, own: Bags, other: Bags) -> tuple[FloatArray, FloatArray]:
    """Least and greatest variance of other noise in coordinates learned from own; the edges.

    White noise would reach, with h² = y₁ + y₂ − y₁y₂ (y₁ = d/N of the noise measured, y₂ of that
    learned from), up to ((1 ± h)/(1 − y₂))²: the spectrum of a ratio of covariances.
    """
    _, covariance = other.covariance()
    values = np.asarray(np.linalg.eigvalsh(whitening.root.T @ covariance @ whitening.root))
    values = values[values > 1e-9 * values[-1]]  # there is no noise in the other directions
    if not len(values):
        return np.ones(2), np.array([0.0, np.inf])
    ends, dim = np.array([values[0], values[-1]]), len(values)
    measured, learned = dim / len(other.tokens), dim / len(own.tokens)
    if learned >= 1:
        return ends, np.array([0.0, np.inf])
    width = math.sqrt(measured + learned - measured * learned)
    edges = ((1 + width * np.array([-1, 1])) / (1 - learned)) ** 2
    if width > 1:
        edges[0] = 0.0
    return ends, edges


def correlation(whitening: Whitening, noise: Bags) -> tuple[float, float]:
    """Of two tokens of a bag in the same coordinate: mean and its standard error over bags."""
    sums = noise.pool(np.ones(len(noise.tokens)))
    sums = (sums - noise.lengths[:, None] * whitening.mean) @ whitening.root
    squares = np.empty(len(noise.tokens))
    for _, rows in noise.blocks():
        whitened = whitening(np.asarray(noise.tokens[rows], dtype=float))
        squares[rows] = (whitened**2).sum(axis=1)
    shared = ((sums**2).sum(axis=1) - noise.total(squares)) / noise.dim
    pairs = noise.lengths * (noise.lengths - 1.0)  # of each bag
    total = float(pairs.sum())
    if total == 0:
        return 0.0, math.inf
    value = float(shared.sum() / total)
    return value, float(np.sqrt(np.sum((shared - value * pairs) ** 2)) / total)


def diagnosed(
    data: TrainingData, split: Split, signal: Signal, gain: tuple[float, float]
) -> Diagnosis:
    """All checks, of the bags and of two halves of them seen along one another's direction."""
    from scipy.special import ndtr

    held = halved(data)
    halves = [data.bags.load()[half & (data.labels < 0)] for half in (held, ~held)]
    whitenings = [Moments.of(half, np.ones(len(half))).whitening() for half in halves]
    ends, edges = np.swapaxes(
        [variances(whitenings[own], halves[own], halves[1 - own]) for own in (0, 1)], 0, 1
    )
    noise = data.bags.load()[data.labels < 0]
    levels = np.sort(np.concatenate([view.noise for view in split.views]))
    steps = np.arange(len(levels) + 1) / len(levels)
    apart = np.maximum(np.abs(ndtr(levels) - steps[1:]), np.abs(ndtr(levels) - steps[:-1]))
    positive = sum(int(view.positive.sum()) for view in split.views)
    measured = Diagnosis(
        tokens=len(noise.tokens),
        variances=(float(ends[:, 0].min()), float(ends[:, 1].max())),
        edges=(float(edges[:, 0].min()), float(edges[:, 1].max())),
        correlation=correlation(Moments.of(noise, np.ones(len(noise))).whitening(), noise),
        noise_distance=float(apart.max()),
        signal_distance=_signal_distance(split, signal),
        detectable=_DISTANCE + _CRITICAL / math.sqrt(positive),
        sparse_gain=gain,
        problems=(),
    )
    sentences = problems(measured, data.bags.lengths)
    return replace(measured, problems=tuple(sentences))


def _signal_distance(split: Split, signal: Signal) -> float:
    """Of the likelihoods of positive bags from those of bags as the fitted signal makes them."""
    from scipy.stats import ks_2samp

    rng = np.random.default_rng(0)  # always the same bags
    seen, made = [], []
    for view in split.views:
        noise = NoiseDensity(view.noise)
        bags = levels_of([view], noise)[view.positive]
        seen.append(bags.log_likelihoods(signal))
        lengths = np.tile(bags.lengths, _COPIES)
        tokens = rng.choice(view.noise, int(lengths.sum()))
        count = np.minimum(signal.count, lengths)
        place = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        loud = rng.random(len(lengths)) >= signal.silent
        carries = (place < np.repeat(count, lengths)) & np.repeat(loud, lengths)
        drawn = signal.shift + signal.width * rng.standard_normal(int(carries.sum()))
        tokens[carries] = drawn
        copies = Levels(noise.log(tokens), tokens, lengths, np.ones(len(lengths)))
        made.append(copies.log_likelihoods(signal))
    return float(ks_2samp(np.concatenate(seen), np.concatenate(made)).statistic)


def problems(measured: Diagnosis, lengths: IntArray) -> Iterator[str]:
    """What does not fit, in sentences."""
    (least, greatest), (low, high) = measured.variances, measured.edges
    if not np.isfinite(high):
        yield (
            f"{measured.tokens} tokens of negative bags are too few to learn the covariance of the "
            "noise, and strengths are in its units: give more of them, or fewer dimensions"
        )
    elif not measured.white:
        yield (
            "the noise is not white after whitening: variances of held-out tokens go from "
            f"{least:.2g} to {greatest:.2g}, white noise would stay within {low:.2g} to "
            f"{high:.2g}; predictions take every one for 1, and are too good if the "
            "signal lies in louder ones"
        )
    shared, error = measured.correlation
    change = shared * (float(np.mean(lengths)) - 1)  # of the variance of a mean token
    if abs(shared) > _SURE * error and abs(change) > _SHARED:
        yield (
            f"tokens of a bag are not independent: their correlation is {shared:.3f} ± "
            f"{error:.3f}, which changes the variance of a mean token by a factor of "
            f"{max(0.0, 1 + change):.2g}"
        )
    if measured.noise_distance > _DISTANCE + _CRITICAL / math.sqrt(measured.tokens):
        yield (
            "noise along the direction of the signal is not Gaussian: distribution functions "
            f"differ by {measured.noise_distance:.3f}; theory may be too good or too bad"
        )
    if measured.signal_distance > measured.detectable:
        yield (
            "positive bags are not noise and one shifted component: distribution functions of "
            f"their likelihoods differ by {measured.signal_distance:.3f}, more than "
            f"{measured.detectable:.3f}; theory is mostly too good then"
        )
    short, long = np.quantile(lengths, [0.25, 0.75])
    if long > _UNEVEN * short:
        yield (
            f"lengths differ: a quarter of the bags has at most {short:.0f} tokens, a quarter at "
            f"least {long:.0f}; predictions are for one length"
        )

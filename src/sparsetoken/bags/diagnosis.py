r"""Does the model fit? White noise after whitening, independent tokens, Gaussian projections.

Each check is a number with what it would be under the model, and a sentence if it is far off:
far off means both more than chance allows and enough to matter for a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.mixture import Mixture, cumulative
from sparsetoken.bags.whitening import Whitening
from sparsetoken.support.arrays import FloatArray, IntArray

_SURE = 4.0  # standard errors from which a deviation is not chance
_SHARED = 0.1  # of the variance of a mean token, that shared parts of tokens may add
_ROOM = 1.15  # for finite sizes, beyond the edges of the spectrum
_SHRUNK = 3.0  # below them: shrinkage leaves small variances smaller still, which does no harm
_DISTANCE = 0.03  # of distribution functions, that predictions stand
_UNEVEN = 1.5  # upper over lower quartile of lengths


@dataclass(frozen=True)
class Diagnosis:
    """What was checked. `problems` are sentences, none if the model fits.

    `variances` are the least and greatest variance of held-out noise over all directions, whitened,
    and `edges` what they would be for white noise. `correlation` is that of two tokens of a
    negative bag in the same coordinate, with its standard error. `noise_distance` and
    `signal_distance` are the greatest differences of distribution functions: of negative tokens
    along the direction from the normal one, of positive ones from the fitted mixture. `sparse_gain`
    is how much likelier held-out positive bags are under a sparse signal than under one in all
    tokens: mean logarithm a bag, with its standard error.
    """

    variances: tuple[float, float]
    edges: tuple[float, float]
    correlation: tuple[float, float]
    noise_distance: float
    signal_distance: float
    sparse_gain: tuple[float, float]
    problems: tuple[str, ...]

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


def distance(counts: FloatArray, mixture: Mixture) -> float:
    """Greatest difference between the distribution functions of a histogram and a mixture."""
    measured = np.cumsum(counts) / counts.sum()
    return float(np.abs(measured - cumulative(mixture)).max())


def problems(
    measured: Diagnosis, lengths: IntArray, noise_tokens: int, signal_tokens: int
) -> Iterator[str]:
    """What does not fit, in sentences."""
    (least, greatest), (low, high) = measured.variances, measured.edges
    if not np.isfinite(high):
        yield (
            f"{noise_tokens} tokens of negative bags are too few to learn the covariance of the "
            "noise: give more of them, or fewer dimensions"
        )
    elif greatest > _ROOM * high or least < low / _SHRUNK:
        yield (
            f"the noise is not white after whitening: variances of held-out tokens go from "
            f"{least:.2g} to {greatest:.2g}, white noise would stay within {low:.2g} to {high:.2g}"
        )
    shared, error = measured.correlation
    change = shared * (float(np.mean(lengths)) - 1)  # of the variance of a mean token
    if abs(shared) > _SURE * error and abs(change) > _SHARED:
        yield (
            f"tokens of a bag are not independent: their correlation is {shared:.3f} ± "
            f"{error:.3f}, which changes the variance of a mean token by a factor of "
            f"{max(0.0, 1 + change):.2g}"
        )
    noise = measured.noise_distance, noise_tokens
    signal = measured.signal_distance, signal_tokens
    for words, (apart, count) in (
        ("noise along the direction of the signal is not Gaussian", noise),
        ("tokens of positive bags are not a mixture of noise and one shifted component", signal),
    ):
        if apart > _DISTANCE + 1.6 / math.sqrt(count):
            yield f"{words}: distribution functions differ by {apart:.3f}"
    short, long = np.quantile(lengths, [0.25, 0.75])
    if long > _UNEVEN * short:
        yield (
            f"lengths differ: a quarter of the bags has at most {short:.0f} tokens, a quarter at "
            f"least {long:.0f}; predictions are for one length"
        )

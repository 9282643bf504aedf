r"""The noise of one sample as the oracle needs it: few numbers, however long the sample is.

**Tokens.** N draws of n independent N(0, 1) tokens, in decreasing order by Rényi's representation,
with E_i standard exponentials:

    Γ_j = Σ_{i≤j} E_i/(n−i+1),   P_j = 1 − e^{−Γ_j} the upper tail,   g_(j) = −Φ⁻¹(P_j).

No statistic here minds the order, and a Sobol sequence whose first coordinates are the largest
tokens is three to ten times as precise as one that draws them side by side.

Up to 512 tokens are all drawn: exact. Of more, only the k largest are; given t = g_(k) the other
m = n − k, *hidden*, are independent N(0, 1) conditioned to lie below t. They enter through sums of
e^{sg} and ge^{sg}, which are replaced by their joint Gaussian limit, with exact means and
covariances from M(s) = E[e^{s(g−t)} | g < t]: with q(x) = e^{x²/2}Φ(−x) and x = s − t,

    M = e^{−t²/2} q/Φ(t),   M′ = e^{−t²/2}(xq − (2π)^{-½})/Φ(t),
    M″ = e^{−t²/2}((1+x²)q − x(2π)^{-½})/Φ(t).

**That central limit is the only approximation**: the tokens that could make a sum heavy-tailed are
the ones that are drawn. (Of the power sums Σe^{iθg} the third and higher, which hardly matter, are
kept at their means.)
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import erfcx, ndtr, ndtri, ndtri_exp

from sparsetoken.model.clouds import uniform_cloud
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.estimate import Estimate

REPLICATES = 16  # independent scrambles: their spread is the standard error
ALL_DRAWN = 512  # tokens up to which every one is drawn
LARGEST = 256  # tokens drawn of a longer block
MOST_NUMBERS = 10_500_000  # kept for one class of samples: 84 MB
_FEWEST_BITS = 10  # 2^10 samples are kept at least
MOST_TOKENS = MOST_NUMBERS >> _FEWEST_BITS  # what can be drawn one by one
_MOST_SAMPLES = 1 << 16
SOBOL_DIMENSIONS = 1200  # beyond, pseudo-random numbers are as good
_ROOT_TAU = np.sqrt(2 * np.pi)

Draws = TypeVar("Draws", bound=tuple[Any, ...])


def mean_of_replicates(losses: FloatArray, sharpness: float | None = None) -> Estimate:
    """Mean over all draws; standard error from the spread of the replicates' means.

    An error of less than ten in N draws may rest on draws that did not occur: then the standard
    error is 1/N at least.
    """
    means = losses.reshape(REPLICATES, -1).mean(axis=1)
    value, spread = means.mean(), means.std(ddof=1) / math.sqrt(REPLICATES)
    if value < 10 / len(losses):
        spread = max(spread, 1 / len(losses))
    return Estimate(value, spread, sharpness)


def rows_of(draws: Draws, chosen: slice) -> Draws:
    """Some of the draws: those rows of every array in a named tuple, and in named tuples in it."""

    def rows(part: Any) -> Any:
        if isinstance(part, tuple):
            return rows_of(part, chosen)
        return part[chosen] if isinstance(part, np.ndarray) else part

    return type(draws)(*map(rows, draws))


class Tokens(NamedTuple):
    """N draws of n = k + `hidden` independent N(0, 1) tokens."""

    seen: FloatArray  # (N, k), decreasing along a row
    hidden: int  # how many lie below the last one seen
    shocks: FloatArray  # (N, 2), the standard normals of the hidden tokens' sums


def draw_tokens(
    counts: tuple[int, ...], seed: np.random.SeedSequence, draws: int, largest: int = LARGEST
) -> list[Tokens]:
    """One `Tokens` for each count, jointly: row i of all of them is draw i.

    Rows come in `REPLICATES` independent replicates of equal size, one after the other. A block of
    more than max(512, 2·largest) tokens keeps its `largest`.

    >>> short, long = draw_tokens((3, 10**6), np.random.SeedSequence(0), draws=1024)
    >>> short.seen.shape, short.hidden, long.seen.shape, long.hidden
    ((1024, 3), 0, (1024, 256), 999744)
    """
    blocks = [
        Tokens(np.empty((draws, k)), n - k, np.empty((draws, 2 * (n > k))))
        for n, k in ((n, _kept(n, largest)) for n in counts)
    ]
    *ends, width = np.cumsum([_width(n, largest) for n in counts]).tolist()
    size = draws // REPLICATES
    for replicate, stream in enumerate(seed.spawn(REPLICATES)):
        rows = slice(replicate * size, (replicate + 1) * size)
        parts = np.split(uniform_cloud(width, stream, size, SOBOL_DIMENSIONS), ends, axis=1)
        for tokens, n, part in zip(blocks, counts, parts, strict=True):
            k = tokens.seen.shape[1]
            tokens.seen[rows] = _largest(part[:, :k], n)
            tokens.shocks[rows] = ndtri(part[:, k:])
    return blocks


class Rest(NamedTuple):
    """Tokens of positive and negative samples, but for one token that is left to integrals.

    Left out are one of the tokens that carry the signal, and the largest token of a negative
    sample, which is N(0, 1) above `lower`.
    """

    signal: Tokens  # R − 1 tokens that carry the signal in a positive sample
    noise: Tokens  # L − R tokens that do not
    negative: Tokens  # L − 1 tokens
    lower: FloatArray  # (N,)


@lru_cache(maxsize=1)  # 84 MB; many strengths of one length follow one another
def draw_rest(
    length: int, sparsity: int, seed: int, *, largest: int = LARGEST, most: int | None = None
) -> Rest:
    """What is random in the samples of a task with L ≥ 2 tokens, R of them with signal.

    As many draws, a power of two from 2^10 to 2^16, as memory allows; `most`, a power of two,
    limits them further.

    >>> rest = draw_rest(10**6, 1, seed=0)
    >>> rest.signal.seen.shape, rest.noise.seen.shape, rest.negative.seen.shape
    ((32768, 0), (32768, 256), (32768, 255))
    """
    one, two = np.random.SeedSequence(seed).spawn(2)
    counts = (sparsity - 1, length - sparsity)
    fitting = MOST_NUMBERS // sum(_width(n, largest) for n in counts)
    draws = 1 << max(fitting.bit_length() - 1, _FEWEST_BITS)
    draws = min(draws, _MOST_SAMPLES, most or _MOST_SAMPLES)
    signal, noise = draw_tokens(counts, one, draws, largest)
    (every,) = draw_tokens((length,), two, draws, largest)
    negative = Tokens(every.seen[:, 1:], every.hidden, every.shocks)
    return Rest(signal, noise, negative, every.seen[:, 1])


def drawn_tokens(length: int, sparsity: int, largest: int = LARGEST) -> int:
    """How many tokens of a sample `draw_rest` draws one by one."""
    return _kept(sparsity - 1, largest) + _kept(length - sparsity, largest)


def _kept(count: int, largest: int) -> int:
    return count if count <= max(ALL_DRAWN, 2 * largest) else largest


def _width(count: int, largest: int) -> int:
    """Numbers in a draw of a block: its tokens, and the two shocks of hidden ones."""
    kept = _kept(count, largest)
    return kept + 2 * (count > kept)


def _largest(points: FloatArray, n: int) -> FloatArray:
    """The k largest of n standard normals, decreasing, from k uniforms."""
    gaps = np.log1p(-points)
    gaps /= n - np.arange(points.shape[1])
    return np.asarray(ndtri_exp(np.cumsum(gaps, axis=1)))  # of −Γ_j = log Φ(g_(j)): loses no tail


def hidden_moments(t: FloatArray, s: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """M(s), M′(s), M″(s): moments of e^{s(g−t)} for a standard normal g below t.

    >>> m, slope, curvature = hidden_moments(np.array([1.0]), 0.0)
    >>> round(float(m[0]), 12)
    1.0
    """
    x = s - t
    q = 0.5 * erfcx(x / np.sqrt(2.0))
    scale = np.exp(-0.5 * t**2) / ndtr(t)
    return (
        scale * q,
        scale * (x * q - 1 / _ROOT_TAU),
        scale * ((1 + x**2) * q - x / _ROOT_TAU),
    )


class SoftmaxSums(NamedTuple):
    """Σ e^{τg} and Σ g e^{τg} of some tokens, as log Σ e^{τg} and the mean under softmax(τg)."""

    log_total: FloatArray  # (N,)
    mean: FloatArray  # (N,)

    def shifted(self, shift: float, sharpness: float) -> SoftmaxSums:
        """The same tokens, each moved by `shift`."""
        return SoftmaxSums(self.log_total + sharpness * shift, self.mean + shift)

    def joined(self, other: SoftmaxSums) -> SoftmaxSums:
        """Both sets of tokens together."""
        log_total = np.logaddexp(self.log_total, other.log_total)
        with np.errstate(invalid="ignore"):
            share = np.where(log_total > -np.inf, np.exp(other.log_total - log_total), 0.0)
        return SoftmaxSums(log_total, self.mean + share * (other.mean - self.mean))


def softmax_sums(tokens: Tokens, sharpness: float) -> SoftmaxSums:
    """The sums over all n tokens of every draw.

    >>> sums = softmax_sums(Tokens(np.array([[1.0, 3.0]]), 0, np.empty((1, 0))), 0.0)
    >>> round(float(np.exp(sums.log_total[0])), 12), float(sums.mean[0])
    (2.0, 2.0)
    """
    draws, width = tokens.seen.shape
    if width == 0:
        return SoftmaxSums(np.full(draws, -np.inf), np.zeros(draws))
    log_total, mean = np.empty(draws), np.empty(draws)
    for rows in row_blocks(draws, width):
        seen = tokens.seen[rows]
        top = seen.max(axis=1)
        weights = np.exp(sharpness * (seen - top[:, None]))
        total, first = weights.sum(axis=1), np.einsum("nk,nk->n", weights, seen)
        if tokens.hidden:
            t = seen[:, -1]
            scale = np.exp(sharpness * (t - top))
            means = hidden_moments(t, sharpness)[:2]  # of e^{s(g−t)} and (g−t)e^{s(g−t)}
            squares = hidden_moments(t, 2 * sharpness)
            below, centred = hidden_pair(rows_of(tokens, rows), *means, *squares)
            below = np.maximum(below, 0.0)
            total += scale * below
            first += scale * (centred + t * below)
        log_total[rows], mean[rows] = sharpness * top + np.log(total), first / total
    return SoftmaxSums(log_total, mean)


def hidden_pair(
    tokens: Tokens, x: FloatArray, y: FloatArray, xx: FloatArray, xy: FloatArray, yy: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Sums of x and y over the hidden tokens, a Gaussian pair, from E x, E y, E x², E xy, E y²."""
    deviation = np.sqrt(np.maximum(xx - x**2, 0.0))
    along = np.divide(xy - x * y, deviation, out=np.zeros_like(x), where=deviation > 1e-9)
    across = np.sqrt(np.maximum(yy - y**2 - along**2, 0.0))
    m, root = tokens.hidden, np.sqrt(tokens.hidden)
    one, two = tokens.shocks.T
    return m * x + root * deviation * one, m * y + root * (along * one + across * two)


def row_blocks(draws: int, width: int, numbers: int = 1 << 17) -> list[slice]:
    """Slices of at most 4096 rows and so many numbers: 1 MB, which stays in the heap and in cache
    (temporaries of 4 MB are mapped anew each time, which takes three times as long as exp)."""
    size = min(max(1, numbers // max(width, 1)), 1 << 12)
    return [slice(start, min(start + size, draws)) for start in range(0, draws, size)]

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

**Elementary symmetric polynomials** e_j(x) = [z^j] Π(1 + x_l z), by Cauchy's integral on |z| = 1/μ.
With p_l = x_l/(μ + x_l), μ^{-j} e_j/Π(1 + x_l/μ) is the probability that independent coins p_l show
j heads. With μ such that Σp_l ≈ j it is never tiny, and the trapezoidal rule with M nodes is wrong
only by the probability of j ± M, j ± 2M, … heads. Heads vary by σ ≤ √j: at most 33 nodes, within
|angle| ≲ 9/σ, give log e_j to 1e-9 or better, for any j and any number of values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, expit, ndtr, ndtri

FloatArray = NDArray[np.float64]

REPLICATES = 16  # independent scrambles: their spread is the standard error
ALL_DRAWN = 512  # tokens up to which every one is drawn
LARGEST = 256  # tokens drawn of a longer block
MOST_NUMBERS = 10_500_000  # kept for one class of samples: 84 MB
MOST_TOKENS = MOST_NUMBERS >> 10  # what can be drawn one by one: 2^10 samples of them are kept
_MOST_SAMPLES = 1 << 16
_SOBOL_DIMENSIONS = 1200  # beyond, pseudo-random numbers are as good
_MOST_HALF_NODES = 16  # the circle has up to 2·16 + 1 nodes
_SERIES = 12  # powers of the hidden tokens kept in log Π(1 + xz); |xz| ≤ 1/3
_ROOT_TAU = np.sqrt(2 * np.pi)


class Tokens(NamedTuple):
    """N draws of n = k + `hidden` independent N(0, 1) tokens."""

    seen: FloatArray  # (N, k), decreasing along a row
    hidden: int  # how many lie below the last one seen
    shocks: FloatArray  # (N, 2), the standard normals of the hidden tokens' sums

    def rows(self, chosen: slice) -> Tokens:
        """The same tokens in some of the draws."""
        return Tokens(self.seen[chosen], self.hidden, self.shocks[chosen])


def draw_tokens(
    counts: tuple[int, ...],
    seed: np.random.SeedSequence,
    *,
    largest: int = LARGEST,
    draws: int | None = None,
) -> list[Tokens]:
    """One `Tokens` for each count, jointly: row i of all of them is draw i.

    Rows come in `REPLICATES` independent replicates of equal size, one after the other. A block of
    more than max(512, 2·largest) tokens keeps its `largest`. `draws` overrules `sample_size`.

    >>> short, long = draw_tokens((3, 10**6), np.random.SeedSequence(0))
    >>> short.seen.shape, short.hidden, long.seen.shape, long.hidden
    ((32768, 3), 0, (32768, 256), 999744)
    """
    kept = [_kept(n, largest) for n in counts]
    widths = [k + 2 * (n > k) for n, k in zip(counts, kept, strict=True)]
    size = (draws or sample_size(sum(widths))) // REPLICATES
    blocks = [
        Tokens(np.empty((size * REPLICATES, k)), n - k, np.empty((size * REPLICATES, 2 * (n > k))))
        for n, k in zip(counts, kept, strict=True)
    ]
    for replicate, stream in enumerate(seed.spawn(REPLICATES)):
        points = _uniform_points(size, sum(widths), np.random.default_rng(stream))
        rows = slice(replicate * size, (replicate + 1) * size)
        for tokens, n, part in zip(
            blocks, counts, np.split(points, np.cumsum(widths)[:-1], axis=1), strict=True
        ):
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

    def rows(self, chosen: slice) -> Rest:
        """The same in some of the draws."""
        signal, noise, negative = (tokens.rows(chosen) for tokens in self[:3])
        return Rest(signal, noise, negative, self.lower[chosen])


def draw_rest(length: int, sparsity: int, seed: int, *, largest: int = LARGEST) -> Rest:
    """What is random in the samples of a task with L ≥ 2 tokens, R of them with signal.

    >>> rest = draw_rest(10**6, 1, seed=0)
    >>> rest.signal.seen.shape, rest.noise.seen.shape, rest.negative.seen.shape
    ((32768, 0), (32768, 256), (32768, 255))
    """
    one, two = np.random.SeedSequence(seed).spawn(2)
    signal, noise = draw_tokens((sparsity - 1, length - sparsity), one, largest=largest)
    (every,) = draw_tokens((length,), two, largest=largest, draws=len(noise.seen))
    negative = Tokens(every.seen[:, 1:], every.hidden, every.shocks)
    return Rest(signal, noise, negative, every.seen[:, 1])


def drawn_tokens(length: int, sparsity: int, largest: int = LARGEST) -> int:
    """How many tokens of a sample `draw_rest` draws one by one."""
    return _kept(sparsity - 1, largest) + _kept(length - sparsity, largest)


def _kept(count: int, largest: int) -> int:
    return count if count <= max(ALL_DRAWN, 2 * largest) else largest


def sample_size(width: int) -> int:
    """Draws of `width` numbers each: a power of two between 2^10 and 2^16 that memory allows."""
    fitting = MOST_NUMBERS // max(width, 1)
    return min(_MOST_SAMPLES, max(1 << 10, 1 << max(fitting.bit_length() - 1, 0)))


def _uniform_points(size: int, width: int, rng: np.random.Generator) -> FloatArray:
    """(size, width) points in the open cube: scrambled Sobol, or pseudo-random if very many."""
    if width == 0:
        return np.empty((size, 0))
    if width > _SOBOL_DIMENSIONS:
        return np.maximum(rng.random((size, width)), 2.0**-53)
    from scipy.stats import qmc  # heavy: only when something is drawn

    points: FloatArray = qmc.Sobol(width, scramble=True, rng=rng).random(size)
    points += 2.0**-31  # the middle of the cells of 30-bit points: never 0 or 1
    return points


def _largest(points: FloatArray, n: int) -> FloatArray:
    """The k largest of n standard normals, decreasing, from k uniforms."""
    gaps = -np.log1p(-points)
    gaps /= n - np.arange(points.shape[1])
    tails = np.cumsum(gaps, axis=1)  # Γ_j; whichever tail is small is computed without loss
    return np.where(tails < 0.7, -ndtri(-np.expm1(-tails)), ndtri(np.exp(-tails)))


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

    def rows(self, chosen: slice) -> SoftmaxSums:
        """The same sums in some of the draws."""
        return SoftmaxSums(self.log_total[chosen], self.mean[chosen])

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
            below, centred = _hidden_softmax(tokens.rows(rows), t, sharpness)
            total += scale * below
            first += scale * (centred + t * below)
        log_total[rows], mean[rows] = sharpness * top + np.log(total), first / total
    return SoftmaxSums(log_total, mean)


def _hidden_softmax(tokens: Tokens, t: FloatArray, s: float) -> tuple[FloatArray, FloatArray]:
    """Σ e^{s(g−t)} and Σ (g−t)e^{s(g−t)} over the hidden tokens: a Gaussian pair."""
    mean, slope, _ = hidden_moments(t, s)
    second, cross, square = hidden_moments(t, 2 * s)
    variance = np.maximum(second - mean**2, 0.0)
    covariance = cross - mean * slope
    deviation = np.sqrt(variance)
    along = np.divide(covariance, deviation, out=np.zeros_like(t), where=deviation > 1e-9)
    across = np.sqrt(np.maximum(square - slope**2 - along**2, 0.0))
    m, root = tokens.hidden, np.sqrt(tokens.hidden)
    one, two = tokens.shocks.T
    total = np.maximum(m * mean + root * deviation * one, 0.0)
    return total, m * slope + root * (along * one + across * two)


def log_elementary(
    log_values: FloatArray, size: int, hidden: tuple[Tokens, float] | None = None
) -> tuple[FloatArray, FloatArray]:
    """log e_{R−1}(x) and log e_R(x) for every row of log x, shape (N, n), 1 ≤ R = size ≤ n.

    `hidden` = (tokens, θ) adds the hidden tokens of `tokens`, with values e^{θg}. Holds about
    100·N·n bytes: give it `row_blocks` at a time.

    >>> lower, upper = log_elementary(np.log([[1.0, 2.0, 3.0]]), 2)
    >>> np.exp([lower[0], upper[0]]).round(9).tolist()
    [6.0, 11.0]
    """
    log_powers = np.empty((0, len(log_values)))
    if hidden is not None and hidden[0].hidden:
        log_powers = _hidden_powers(*hidden, _SERIES if size > 1 else 1)
    if size == 1:
        return np.zeros(len(log_values)), _log_sum(log_values, log_powers)
    return _on_circle(log_values, size, log_powers)


def _log_sum(values: FloatArray, log_powers: FloatArray) -> FloatArray:
    terms = np.concatenate([values, log_powers.T], axis=1)
    top = terms.max(axis=1, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))


def _hidden_powers(tokens: Tokens, strength: float, order: int) -> FloatArray:
    """log Σ e^{iθg} over the hidden tokens for i = 1, …, order; shape (order, N).

    The first two sums fluctuate (a Gaussian pair), the others stay at their mean: they are
    smaller by powers of x_(k)/μ ≤ 1/3.
    """
    t = tokens.seen[:, -1]
    count = max(order, 4)
    moments = [hidden_moments(t, i * strength)[0] for i in range(1, count + 1)]
    m, root = tokens.hidden, np.sqrt(tokens.hidden)
    one, two = tokens.shocks.T
    deviation = np.sqrt(np.maximum(moments[1] - moments[0] ** 2, 1e-300))
    along = (moments[2] - moments[0] * moments[1]) / deviation
    across = np.sqrt(np.maximum(moments[3] - moments[1] ** 2 - along**2, 0.0))
    sums = [m * moment for moment in moments[:order]]
    sums[0] = sums[0] + root * deviation * one
    if order > 1:
        sums[1] = sums[1] + root * (along * one + across * two)
    powers = np.arange(1, order + 1)[:, None] * strength * t
    return np.asarray(powers + np.log(np.maximum(sums, 1e-300)))


def _on_circle(
    values: FloatArray, size: int, log_powers: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """log e_{R−1} and log e_R, R ≥ 2, by the trapezoidal rule on the circle of radius 1/μ."""
    log_radius = _tilt(values, size - 0.5, log_powers)  # log μ, (N,)
    coins = expit(values - log_radius[:, None])  # (N, n)
    variance = np.einsum("nl,nl->n", coins, 1 - coins)
    signs = -((-1.0) ** np.arange(1, len(log_powers) + 1))  # of log(1+xz) = Σ ± p_i z^i / i
    steps = np.arange(1, len(log_powers) + 1)[:, None]
    series = signs[:, None] * np.exp(log_powers - steps * log_radius) / steps  # (order, N)
    variance += (series * steps * signs[:, None]).sum(axis=0) if len(series) else 0.0
    half = min(_MOST_HALF_NODES, 8 + size // 2)
    spacing = 2 * np.pi / np.maximum(2 * half + 1, 9.5 * np.sqrt(variance))  # (N,)
    angles = np.arange(half + 1)[:, None] * spacing  # (nodes, N): the others are conjugate
    turn = np.exp(1j * angles) - 1
    product = np.exp(_sum_series(series, angles))
    term = np.empty_like(turn)
    for coin in np.ascontiguousarray(coins.T):
        np.multiply(turn, coin, out=term)
        term += 1
        product *= term
    product[0] *= 0.5
    scale = np.logaddexp(0.0, values - log_radius[:, None]).sum(axis=1) + series.sum(axis=0)
    results = []
    for j in (size - 1, size):
        heads = (product * np.exp(-1j * j * angles)).real.sum(axis=0) * spacing / np.pi
        results.append(scale + j * log_radius + np.log(np.maximum(heads, 1e-300)))
    return results[0], results[1]


def _sum_series(series: FloatArray, angles: FloatArray) -> NDArray[np.complex128]:
    """Σ_i series_i (e^{i·angle} − 1) for i = 1, 2, …; shape of `angles`."""
    total = np.zeros(angles.shape, dtype=complex)
    for i, coefficient in enumerate(series, start=1):
        total += coefficient * (np.exp(1j * i * angles) - 1)
    return total


def _tilt(values: FloatArray, heads: float, log_powers: FloatArray) -> FloatArray:
    """log μ with Σ x_l/(μ + x_l) = heads, roughly: any μ is exact, a good one is well conditioned.

    Newton on the logit of the mean coin (linear when all values are equal), kept inside a bracket.
    """
    n = values.shape[1]
    extra = log_powers[0] if len(log_powers) else np.full(len(values), -np.inf)
    low = np.full(len(values), -np.inf)
    high = np.full(len(values), np.inf)
    place = int(heads + 0.5)  # at the R-th largest value R − ½ heads are expected, or more
    guess = np.partition(values, n - place, axis=1)[:, n - place]
    guess = np.maximum(guess, extra - np.log(heads))
    for _ in range(60):
        coins = expit(values - guess[:, None])
        more = np.exp(np.minimum(extra - guess, 50.0))
        total = coins.sum(axis=1) + more
        slope = np.einsum("nl,nl->n", coins, 1 - coins) + more
        far = np.abs(total - heads) > 0.2 * (np.sqrt(slope) + 0.25)
        if not far.any():
            break
        low, high = np.where(total > heads, guess, low), np.where(total < heads, guess, high)
        with np.errstate(all="ignore"):
            step = np.log(total / heads) * total / slope
            if not len(log_powers):
                step += np.log((n - heads) / (n - total)) * total / slope
                step *= (n - total) / n
            middle = 0.5 * (low + high)
        moved = guess + np.where(np.abs(step) < 50.0, step, np.sign(total - heads))
        inside = ((moved > low) & (moved < high)) | ~np.isfinite(middle)
        guess = np.where(far, np.where(inside, moved, middle), guess)
    return guess


def row_blocks(draws: int, width: int) -> list[slice]:
    """Slices of at most 4096 rows and about 2^19 numbers: temporaries stay small, and in cache."""
    size = min(max(1, (1 << 19) // max(width, 1)), 1 << 12)
    return [slice(start, min(start + size, draws)) for start in range(0, draws, size)]

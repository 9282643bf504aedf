r"""Elementary symmetric polynomials e_j(x) = [z^j] Π(1 + x_l z), by Cauchy's integral on |z| = 1/μ.
With p_l = x_l/(μ + x_l), μ^{-j} e_j/Π(1 + x_l/μ) is the probability that independent coins p_l show
j heads. With μ such that Σp_l ≈ j it is never tiny, and the trapezoidal rule with M nodes is wrong
only by the probability of j ± M, j ± 2M, … heads. Heads vary by σ ≤ √j: at most 33 nodes, within
|angle| ≲ 9/σ, give log e_j to 1e-9 or better, for any j and any number of values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sparsetoken.oracles.extremes import LARGEST, Tokens, hidden_moments, hidden_pair
from sparsetoken.support.arrays import FloatArray

_MOST_HALF_NODES = 16  # the circle has up to 2·16 + 1 nodes
_POWERS = 12  # powers of small values kept in log Π(1 + xz); |xz| ≤ 1/3


def log_elementary(
    log_values: FloatArray, size: int, hidden: tuple[Tokens, float] | None = None
) -> tuple[FloatArray, FloatArray]:
    """log e_{R−1}(x) and log e_R(x) for every row of log x, shape (N, n), 1 ≤ R = size ≤ n + 1.

    `hidden` = (tokens, θ) adds the hidden tokens of `tokens`, with values e^{θg}. Of many values
    the small ones enter through their power sums. Holds about 100·N·n bytes: give it `row_blocks`
    at a time.

    >>> lower, upper = log_elementary(np.log([[1.0, 2.0, 3.0]]), 2)
    >>> np.exp([lower[0], upper[0]]).round(9).tolist()
    [6.0, 11.0]
    """
    if size > log_values.shape[1] and (hidden is None or not hidden[0].hidden):
        return log_values.sum(axis=1), np.full(len(log_values), -np.inf)  # Π x_l, and nothing
    log_powers, order = np.empty((0, len(log_values))), _POWERS if size > 1 else 1
    kept, count = max(LARGEST, 4 * size), log_values.shape[1]
    if hidden is not None and hidden[0].hidden:
        log_powers = _hidden_powers(*hidden, order)
    elif count > 2 * kept:
        parted = np.partition(log_values, count - kept, axis=1)
        log_values = parted[:, count - kept :]
        log_powers = _log_powers(parted[:, : count - kept], log_values.min(axis=1), order)
    if size == 1:
        return np.zeros(len(log_values)), _log_sum(log_values, log_powers)
    return _on_circle(log_values, size, log_powers)


def _log_powers(log_values: FloatArray, scale: FloatArray, order: int) -> FloatArray:
    """log Σ x^i for i = 1, …, order from log x ≤ `scale`; shape (order, N)."""
    value = np.exp(log_values - scale[:, None])
    power, sums = value.copy(), np.empty((order, len(log_values)))
    for i in range(order):
        with np.errstate(divide="ignore"):  # all may be too small for a float
            sums[i] = (i + 1) * scale + np.log(power.sum(axis=1))
        power *= value
    return sums


def _log_sum(values: FloatArray, log_powers: FloatArray) -> FloatArray:
    terms = np.concatenate([values.T, log_powers])  # the long axis last
    top = terms.max(axis=0, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        terms -= top
        return np.asarray(top + np.log(np.exp(terms, out=terms).sum(axis=0)))


def _hidden_powers(tokens: Tokens, strength: float, order: int) -> FloatArray:
    """log Σ e^{iθg} over the hidden tokens for i = 1, …, order; shape (order, N).

    The first two sums fluctuate (a Gaussian pair), the others stay at their mean: they are
    smaller by powers of x_(k)/μ ≤ 1/3.
    """
    t = tokens.seen[:, -1]
    moments = [hidden_moments(t, i * strength)[0] for i in range(1, max(order, 4) + 1)]
    pair = hidden_pair(tokens, moments[0], moments[1], *moments[1:4])
    sums = [*pair, *(tokens.hidden * moment for moment in moments[2:])][:order]
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
    # a μ that is not reached costs no digits until heads become improbable: 60 bisections of any
    # bracket of logarithms are beyond that
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

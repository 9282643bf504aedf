r"""Rare and weak signals: where any test can work, and the errors of five of them.

R = L^{1−b} of L tokens carry the signal, θ = √(2r log L); b is the *rarity*, r the *amplitude*. As
L → ∞ the error of the likelihood-ratio test at prevalence ½ tends, for ½ < b < 1, to 0 above and to
½ below the detection boundary (Ingster; Donoho and Jin)

    r*(b) = b − ½ for b ≤ ¾,   (1 − √(1−b))² for b ≥ ¾.

The maximum needs r > (1 − √(1−b))² for every b. The mean is κ = R θ/√L apart: it works for b < ½ at
any r > 0 and fails for b > ½.

**Attention** at a sharpness τ < √(2 log L)/2 is T = Σ ge^{τg}/Σ e^{τg}, to first order
τ + Σ (g−τ)e^{τg}/(Le^{τ²/2}). A token with signal adds θe^{τθ+τ²/2} to the mean of (g−τ)e^{τg},
whose noise has variance (1+τ²)e^{2τ²}. In units of its noise T is thus moved by

    κ_T = R/√L · θe^{τθ−τ²/2}/√(1+τ²),   the likelihood ratio by   κ = R/√L · √(e^{θ²}−1),

and both errors are Φ(−κ/2) where such sums are Gaussian. At τ = θ, κ_T ≈ L^{½−b+r}: attention finds
what can be found for b ≤ ¾; for b ≥ ¾ it does so as the maximum. τ = θ/2 for weak signals makes
(g−τ)e^{τg} proportional to e^{θg−θ²/2} − 1 up to second order. `attention_efficiency` is the best
κ_T/κ: never below 0.988.

**Higher criticism** compares the p-values p = Φ(−g), sorted, with what noise would give:

    HC = max over i ≤ L/2 of √L (i/L − p_(i)) / √(p_(i)(1 − p_(i))).

It knows neither b nor r. Its samples are exact: sorted p-values of noise are partial sums of
exponentials, S_i/S_{n+1}, and the few of the signal are sorted in. Half of the exponentials are
never looked at: their sum is a Gamma variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr

from sparsetoken.model.cuts import counted_cut
from sparsetoken.model.task import Task, require_white
from sparsetoken.oracles.attention import AttentionOracle
from sparsetoken.oracles.bayes import bayes_oracle
from sparsetoken.oracles.exact import MeanOrMaximum, check_plain
from sparsetoken.oracles.extremes import draw_rest, mean_of_replicates
from sparsetoken.oracles.thresholds import trivial_error
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import one_of, real, refusal, whole
from sparsetoken.support.estimate import Estimate

Test = Literal["pooled", "attention", "maximum", "higher criticism", "bayes"]
TESTS: tuple[Test, ...] = get_args(Test)

_BLOCK = 1 << 17  # p-values worked on at once: they stay in cache
_LONGEST = 10**6


def detection_boundary(rarity: float) -> float:
    """r*(b): the amplitude above which some test works; 0 for b ≤ ½.

    >>> [round(detection_boundary(b), 4) for b in (0.4, 0.6, 0.75, 0.9)]
    [0.0, 0.1, 0.25, 0.4675]
    """
    rarity = real("detection_boundary", "rarity", rarity, above=0, below=1)
    return max(rarity - 0.5, 0.0) if rarity <= 0.75 else maximum_boundary(rarity)


def maximum_boundary(rarity: float) -> float:
    """(1 − √(1−b))²: the amplitude above which the maximum works.

    >>> round(maximum_boundary(0.6), 4), maximum_boundary(0.75)
    (0.1351, 0.25)
    """
    rarity = real("maximum_boundary", "rarity", rarity, above=0, below=1)
    return (1 - math.sqrt(1 - rarity)) ** 2


def rare_and_weak(length: int, rarity: float, amplitude: float) -> Task:
    """The task with R = L^{1−b}, rounded, and θ = √(2r log L), at prevalence ½.

    >>> task = rare_and_weak(1000, rarity=0.7, amplitude=0.3)
    >>> task.fixed_sparsity, round(task.fixed_strength, 3)
    (8, 2.036)
    """
    owner = "rare_and_weak"
    length = whole(owner, "length", length, least=2, most=_LONGEST)
    rarity = real(owner, "rarity", rarity, above=0, below=1)
    amplitude = real(owner, "amplitude", amplitude, least=0, most=10)
    return Task(length, round(length ** (1 - rarity)), math.sqrt(2 * amplitude * math.log(length)))


def attention_efficiency(strength: float) -> float:
    """The best over τ of θe^{τθ−τ²/2}/√((1+τ²)(e^{θ²}−1)): attention's κ over that of Bayes.

    The derivative of its logarithm vanishes where θ = τ + τ/(1+τ²), which grows with τ.

    >>> [round(attention_efficiency(strength), 3) for strength in (0.5, 1.5, 3.0, 10.0)]
    [1.0, 0.99, 0.997, 1.0]
    """
    from scipy.optimize import brentq

    theta = real("attention_efficiency", "strength", strength, above=0, most=1e6)
    tau = brentq(lambda t: t + t / (1 + t * t) - theta, 0.0, theta, xtol=1e-12)
    gain = tau * theta - tau**2 / 2 - theta**2 / 2 - 0.5 * math.log1p(tau**2)
    return theta * math.exp(gain) / math.sqrt(-math.expm1(-(theta**2)))


def detection_error(task: Task, test: Test, *, draws: int = 1 << 14, seed: int = 0) -> Estimate:
    """The error of a test at its best threshold (and sharpness); ξ is known.

    The mean and the maximum are exact. `draws`, a power of two, is how many samples of each class
    are drawn for the others, at most: Bayes keeps fewer where the signal is in many tokens.

    >>> task = rare_and_weak(100, rarity=0.6, amplitude=0.5)
    >>> errors = {test: round(detection_error(task, test, draws=4096), 2) for test in TESTS}
    >>> errors["pooled"], errors["maximum"], errors["bayes"]
    (0.26, 0.18, 0.11)
    """
    owner = "detection_error"
    draws = whole(owner, "draws", draws, least=1 << 10, most=1 << 16)
    seed = whole(owner, "seed", seed, least=0)
    if draws & (draws - 1):
        raise refusal(owner, "draws", draws, "a power of two")
    one_of(owner, "test", test, TESTS)
    require_white(owner, task)
    check_plain(owner, task)
    most = task.length - 1
    whole(owner, "sparsity", task.fixed_sparsity, least=1, most=most, why="the length − 1")
    return _ERRORS[test](task, draws, seed)


def _higher_criticism_error(task: Task, draws: int, seed: int) -> Estimate:
    """The threshold for one half of the draws comes from the other: it cannot fit their noise."""
    if task.fixed_strength == 0:
        return Estimate(trivial_error(task.prevalence))
    positive = higher_criticism(
        task.length, task.fixed_sparsity, task.fixed_strength, draws, [seed, 1]
    )
    negative = _without_signal(task.length, draws, seed)
    losses = np.empty(draws)
    gains = np.repeat([task.prevalence, task.prevalence - 1], draws // 2)
    halves = slice(draws // 2), slice(draws // 2, None)
    for here, there in (halves, halves[::-1]):
        values = np.concatenate([positive[there], negative[there]])
        cut = counted_cut(values, gains).threshold
        losses[here] = task.prevalence * (positive[here] <= cut)
        losses[here] += (1 - task.prevalence) * (negative[here] > cut)
    return mean_of_replicates(losses)


@lru_cache(maxsize=4)  # the same for every signal
def _without_signal(length: int, draws: int, seed: int) -> FloatArray:
    return higher_criticism(length, 0, 0.0, draws, [seed, 2])


def higher_criticism(
    length: int, sparsity: int, strength: float, draws: int, seed: int | list[int]
) -> FloatArray:
    """HC of independent samples, R of their L tokens shifted by θ; shape (draws,)."""
    rng = np.random.default_rng(seed)
    statistics = np.empty(draws)
    noise = length - sparsity
    seen = min(length // 2, noise)
    size = max(1, _BLOCK // length)
    for start in range(0, draws, size):
        block = statistics[start : start + size]
        tails = np.cumsum(rng.standard_exponential((len(block), seen)), axis=1)
        tails /= tails[:, -1:] + rng.standard_gamma(noise + 1 - seen, (len(block), 1))
        if sparsity:
            shifted = ndtr(-strength - rng.standard_normal((len(block), sparsity)))
            shifted.sort(axis=1)
            # two sorted runs: a stable sort merges them
            tails = np.sort(np.concatenate([tails, shifted], axis=1), axis=1, kind="stable")
        tails = np.maximum(tails[:, : length // 2], 1e-300)
        ranks = np.arange(1, tails.shape[1] + 1) / length
        scores = (ranks - tails) / np.sqrt(tails * (1 - tails))
        block[:] = math.sqrt(length) * scores.max(axis=1)
    return statistics


def _attention_error(task: Task, draws: int, seed: int) -> Estimate:
    rest = draw_rest(task.length, task.fixed_sparsity, seed, most=draws)
    return AttentionOracle(task, rest).error(task.fixed_strength)


def _bayes_error(task: Task, draws: int, seed: int) -> Estimate:
    return bayes_oracle("detection_error", task, seed, most=draws).error(task.fixed_strength)


_ERRORS: dict[Test, Callable[[Task, int, int], Estimate]] = {
    "pooled": lambda task, draws, seed: MeanOrMaximum(task).mean.error(task.fixed_strength),
    "attention": _attention_error,
    "maximum": lambda task, draws, seed: MeanOrMaximum(task).maximum.error(task.fixed_strength),
    "higher criticism": _higher_criticism_error,
    "bayes": _bayes_error,
}

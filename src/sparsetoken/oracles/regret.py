r"""What attention loses to the Bayes test, sampled so that a small loss is not lost in noise.

With η the posterior probability of a positive sample, a test that says "positive" where T > c errs
with probability E[(1−η)1{T > c} + η1{T ≤ c}]. The least possible is E min(η, 1−η), and the rest,

    regret = E |2η − 1| 1{T > c differs from η > ½},

is an average of small numbers over the few samples on which the two disagree: its standard error is
many times smaller than that of a difference of two error rates. The best c makes the partial sums
of 2η − 1, in increasing order of T, as small as they get.

Whole samples are drawn, token by token: T and η of one sample belong together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from sparsetoken.model.cuts import counted_cut
from sparsetoken.model.task import Task
from sparsetoken.oracles.exact import check_plain
from sparsetoken.oracles.extremes import row_blocks
from sparsetoken.oracles.posterior import log_likelihood_ratio
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import whole
from sparsetoken.support.estimate import Estimate

_LONGEST = 10**5
_BLOCK = 1 << 18  # tokens worked on at once: 25 MB
_FOLDS = 8
_STEPS = 16  # sharpnesses tried: 0, 0.1θ, …, 1.6θ, and ∞


class Regret(NamedTuple):
    """Two parts of attention's error: what nobody avoids, and what it adds at its best (τ, c)."""

    bayes: Estimate
    regret: Estimate  # with the best sharpness


def attention_regret(task: Task, *, draws: int = 1 << 10, seed: int = 0) -> Regret:
    """The Bayes error, and by how much attention at its best sharpness and threshold exceeds it.

    `draws` samples of each class are drawn. Sharpness and threshold for each eighth of them are the
    best for the others.

    >>> bayes, regret = attention_regret(Task(100, 8, 1.5), draws=2048)
    >>> abs(bayes - 0.192) < 0.01, regret < 0.002, regret.standard_error < 3e-4
    (True, True, True)
    """
    owner = "attention_regret"
    draws = whole(owner, "draws", draws, least=64, most=1 << 20)
    seed = whole(owner, "seed", seed, least=0)
    check_plain(owner, task)
    whole(owner, "length", task.length, least=2, most=_LONGEST)
    rng = np.random.default_rng([seed, 3])
    odds, statistics = np.empty((2, draws)), np.empty((2, draws, _STEPS + 2))
    level = math.log((1 - task.prevalence) / task.prevalence)
    for positive in (0, 1):
        for rows in row_blocks(draws, task.length, _BLOCK):
            tokens = rng.standard_normal((rows.stop - rows.start, task.length))
            # no statistic minds the order
            tokens[:, : positive * task.fixed_sparsity] += task.fixed_strength
            odds[positive, rows] = log_likelihood_ratio(task, tokens) - level
            statistics[positive, rows] = _statistics(tokens, task.fixed_strength)
    posterior = expit(odds)
    weights = np.array([[1 - task.prevalence], [task.prevalence]])
    floor = (weights * np.minimum(posterior, 1 - posterior)).sum(axis=0)
    gains = weights * (2 * posterior - 1)
    extra, chosen = np.empty(draws), []
    for here in np.array_split(np.arange(draws), _FOLDS):
        others = np.delete(np.arange(draws), here)
        best, cut = _best_test(statistics[:, others], gains[:, others])
        chosen.append(math.inf if best > _STEPS else 0.1 * best * task.fixed_strength)
        differ = (statistics[:, here, best] > cut) != (odds[:, here] > 0)
        extra[here] = (np.abs(gains[:, here]) * differ).sum(axis=0)
    return Regret(_mean(floor), _mean(extra, float(np.median(chosen))))


def _mean(losses: FloatArray, sharpness: float | None = None) -> Estimate:
    """The mean of independent draws; fewer than ten that lose anything may not be typical."""
    spread = losses.std(ddof=1) / math.sqrt(len(losses))
    if np.count_nonzero(losses > 1e-3) < 10:
        spread = max(spread, 1 / len(losses))
    return Estimate(losses.mean(), spread, sharpness)


def _statistics(tokens: FloatArray, strength: float) -> FloatArray:
    """⟨softmax(τg), g⟩ at τ = 0, 0.1θ, …, and the maximum; shape (n, steps + 2)."""
    top = tokens.max(axis=1)
    ratio = np.exp(0.1 * strength * (tokens - top[:, None]))
    weights = np.ones_like(tokens)
    statistics = np.empty((len(tokens), _STEPS + 2))
    for step in range(_STEPS + 1):
        statistics[:, step] = np.einsum("nl,nl->n", weights, tokens) / weights.sum(axis=1)
        weights *= ratio
    statistics[:, -1] = top
    return statistics


def _best_test(statistics: FloatArray, gains: FloatArray) -> tuple[int, float]:
    """The sharpness, by its place, and the threshold with the smallest error.

    That error is a constant plus the sum of `gains`, 2η − 1 with weights, where T ≤ c. Sharpnesses
    that differ by less than one sample are equal: the middle one is taken.
    """
    columns = statistics.reshape(-1, statistics.shape[-1]).T
    cuts = [counted_cut(values, gains.ravel()) for values in columns]
    costs = np.array([cut.cost for cut in cuts])
    good = np.flatnonzero(costs <= costs.min() + np.abs(gains).max())
    best = int(good[len(good) // 2])
    return best, cuts[best].threshold

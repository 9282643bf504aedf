r"""Oracles of tasks beyond the paper's, and of other weightings: sampled as they are.

Strengths and sparsities that vary, tokens that share noise, weightings other than softmax: nothing
is integrated out, whole samples are drawn, and errors counted.

* `Pooled`: θR/(L√v̄) = κ has atoms with weights p: min over c of π Σ p Φ(c−κ) + (1−π)Φ(−c); exact.
* `Attention`: T = ⟨a(τg), g⟩ against c. The best (τ, c) of one half of the draws is tried on the
  other: what it finds by chance does not count.
* Bayes: g ~ N(θv, Σ), Σ = (1−ρ)I + ρ11ᵀ, Σ⁻¹ = (I − k11ᵀ)/(1−ρ) with k = ρ/(1 − ρ + ρL). The
  likelihood ratio is the average over (θ, R) of

      e_R(e^{θ(g − kΣg)/(1−ρ)}) / C(L, R) · e^{−θ²(R − kR²)/(2(1−ρ))}.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from sparsetoken.model.attention import attention_coordinates, token_scores
from sparsetoken.model.clouds import normal_blocks
from sparsetoken.model.places import log_choose
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import Weighting
from sparsetoken.oracles.attention import mean_of_replicates
from sparsetoken.oracles.exact import trivial_error
from sparsetoken.oracles.extremes import REPLICATES, SOBOL_DIMENSIONS
from sparsetoken.oracles.symmetric import log_elementary
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

_MOST_DRAWS, _MOST_NUMBERS = 1 << 16, 1 << 24
_MOST_WORK = 1 << 31  # numbers weighted in all, at the fewest draws: half a minute or so
_MOST_TERMS = 1 << 27  # of all likelihoods of a class: half a minute or so
_BLOCK = 1 << 18  # numbers worked on at once
_SHARPNESS = np.append(0.0, np.geomspace(0.03, 30.0, 25))


def pooled_error(task: Task) -> Estimate:
    """The best threshold for the mean token along ξ; no sampling.

    A continuous law of strengths is 64 nodes: good to 1e-6 while θR/√L varies by a few units, to
    some percent of a small error where it varies by a hundred.
    """
    from scipy.optimize import minimize_scalar

    atoms = task.signals
    scale = task.length * math.sqrt(task.mean_variance)
    apart = atoms.strengths * atoms.sparsities / scale

    def loss(cut: float) -> float:
        miss = float(atoms.weights @ ndtr(cut - apart))
        return task.prevalence * miss + (1 - task.prevalence) * float(ndtr(-cut))

    cuts = np.linspace(-9.0, float(apart.max()) + 9.0, 400 + 10 * int(min(apart.max(), 1e4)))
    best = int(np.argmin([loss(cut) for cut in cuts]))
    ends = cuts[max(best - 1, 0)], cuts[min(best + 1, len(cuts) - 1)]
    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return Estimate(min(float(found.fun), trivial_error(task.prevalence)))


def weighted_error(task: Task, weighting: Weighting, seed: int) -> Estimate:
    """⟨a(τg), g⟩ against c at the best (τ, c)."""
    work = 2 * len(_SHARPNESS) * 16 * REPLICATES * task.normals
    if work > _MOST_WORK:
        most = _MOST_WORK // (2 * len(_SHARPNESS) * 16 * REPLICATES)
        raise InvalidInput(
            f"oracle_error: task must have at most {most} tokens where strength or sparsity vary, "
            f"tokens share noise or the weighting is not softmax (every token is drawn: minutes), "
            f"got length {task.length}"
        )
    draws = _draws(task, _MOST_NUMBERS // task.normals)
    values = np.empty((2, len(_SHARPNESS), draws))
    for side, rows, noise in _blocks(task, draws, seed):
        positive = np.full(len(noise), float(side))
        for place, tau in enumerate(_SHARPNESS):
            means, _ = attention_coordinates(noise.copy(), positive, task, 1.0, tau, weighting)
            values[side, place, rows] = means[:, 0]
    losses, half = np.empty(draws), draws // 2

    def best(rows: slice) -> tuple[int, float]:
        """Place of the best τ, and its c, on some of the draws."""
        found = [_best_cut(at[1, rows], at[0, rows], task.prevalence) for at in by_sharpness]
        place = int(np.argmin([error for error, _ in found]))
        return place, found[place][1]

    by_sharpness = np.swapaxes(values, 0, 1)
    for here, there in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        place, cut = best(there)
        miss = _below(values[1, place, here], cut)
        alarm = 1 - _below(values[0, place, here], cut)
        losses[here] = task.prevalence * miss + (1 - task.prevalence) * alarm
    sharpness = float(_SHARPNESS[best(slice(None))[0]])
    return _at_most_trivial(task, mean_of_replicates(losses, sharpness))


def likelihood_error(task: Task, seed: int) -> Estimate:
    """The likelihood ratio against (1−π)/π."""
    terms = task.normals * len(task.signals.weights) * int(task.signals.sparsities.max())
    if terms * REPLICATES * 16 > _MOST_TERMS:
        raise InvalidInput(
            "bayes_error: task must have at most "
            f"{_MOST_TERMS // (REPLICATES * 16):.3g} tokens times values of (strength, sparsity) "
            f"times the largest sparsity where they vary or tokens share noise, got {terms:.3g}"
        )
    draws = _draws(task, _MOST_TERMS // terms)
    losses = np.zeros(draws)
    level = math.log((1 - task.prevalence) / task.prevalence)
    for side, rows, noise in _blocks(task, draws, seed):
        positive = np.full(len(noise), float(side))
        scores, _, _ = token_scores(noise.copy(), positive, task, 1.0)
        below = _below(_log_likelihood(task, scores), level)
        losses[rows] += task.prevalence * below if side else (1 - task.prevalence) * (1 - below)
    return _at_most_trivial(task, mean_of_replicates(losses))


def _at_most_trivial(task: Task, found: Estimate) -> Estimate:
    """Naming the likelier class is always possible: what draws say beyond that is their noise."""
    least = trivial_error(task.prevalence)
    return found if found < least else Estimate(least, sharpness=found.sharpness)


def _log_likelihood(task: Task, scores: FloatArray) -> FloatArray:
    """log P(g | +)/P(g | −) of samples with token scores g (n, L)."""
    length, own = task.length, 1 - task.token_correlation
    k = task.token_correlation / (own + task.token_correlation * length)
    centred = (scores - k * scores.sum(axis=1, keepdims=True)) / own
    terms = []
    for theta, ones, weight in zip(*task.signals, strict=True):
        if weight == 0:
            continue
        size = int(ones)
        energy = theta**2 * (size - k * size**2) / (2 * own)
        _, log_sum = log_elementary(theta * centred, size)
        terms.append(math.log(weight) + log_sum - log_choose(length, size) - energy)
    return np.asarray(logsumexp(terms, axis=0))


def _draws(task: Task, affordable: int) -> int:
    """Samples of each class: a power of two, in equal replicates."""
    count = min(_MOST_DRAWS, max(affordable, 16 * REPLICATES))
    return 1 << (count.bit_length() - 1)


def _blocks(task: Task, draws: int, seed: int) -> Iterator[tuple[int, slice, FloatArray]]:
    """Class (1 or 0), rows and standard normals (rows, `task.normals`), replicate by replicate."""
    size = draws // REPLICATES
    for side in (1, 0):
        for replicate in range(REPLICATES):
            start, seeds = replicate * size, (seed, side, replicate)
            for noise in normal_blocks(task.normals, seeds, size, _BLOCK, SOBOL_DIMENSIONS):
                yield side, slice(start, start + len(noise)), noise
                start += len(noise)


def _best_cut(high: FloatArray, low: FloatArray, prevalence: float) -> tuple[float, float]:
    """The least error of a threshold on drawn statistics, and the threshold."""
    values = np.concatenate([high, low])
    gain = np.concatenate(
        [np.full(len(high), prevalence / len(high)), np.full(len(low), (prevalence - 1) / len(low))]
    )
    order = np.argsort(values)
    error = (1 - prevalence) + np.append(0.0, np.cumsum(gain[order]))
    best = int(np.argmin(error))
    padded = np.concatenate([[-np.inf], values[order], [np.inf]])
    return float(error[best]), float(0.5 * (padded[best] + padded[best + 1]))


def _below(values: FloatArray, cut: float) -> NDArray[np.float64]:
    """1 below the cut, ½ on it, 0 above."""
    return np.asarray((values < cut) + 0.5 * (values == cut), dtype=float)

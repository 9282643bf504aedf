r"""The Bayes error with uniform places, whatever varies: strength, sparsity, shared noise.

g ~ N(θv, Σ), Σ = (1−ρ)I + ρ11ᵀ, Σ⁻¹ = (I − k11ᵀ)/(1−ρ) with k = ρ/(1 − ρ + ρL). The likelihood
ratio is the average over (θ, R) of

    e_R(e^{θ(g − kΣg)/(1−ρ)}) / C(L, R) · e^{−θ²(R − kR²)/(2(1−ρ))}.

Whole samples are drawn. With η the posterior probability of a positive one the error is
E min(η, 1−η): to count errors instead would be to toss a coin for every sample.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import expit, logsumexp

from sparsetoken.model.attention import token_scores
from sparsetoken.model.clouds import normal_blocks
from sparsetoken.model.places import log_choose
from sparsetoken.model.task import Task
from sparsetoken.oracles.extremes import REPLICATES, SOBOL_DIMENSIONS, mean_of_replicates
from sparsetoken.oracles.symmetric import log_elementary
from sparsetoken.oracles.thresholds import trivial_error
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

_FEWEST_DRAWS, _MOST_DRAWS = 16 * REPLICATES, 1 << 16
_MOST_TERMS = 1 << 27  # of all likelihoods of a class: half a minute or so
_BLOCK = 1 << 18  # numbers worked on at once


def posterior_error(task: Task, seed: int) -> Estimate:
    """E min(η, 1−η) over samples of both classes."""
    terms = task.normals * len(task.signals.weights) * int(task.signals.sparsities.max())
    if terms * _FEWEST_DRAWS > _MOST_TERMS:
        raise InvalidInput(
            f"bayes_error: task must have at most {_MOST_TERMS // _FEWEST_DRAWS:.3g} tokens times "
            "values of (strength, sparsity) times the largest sparsity where they vary or tokens "
            f"share noise, got {terms:.3g}"
        )
    draws = min(_MOST_DRAWS, max(_MOST_TERMS // terms, _FEWEST_DRAWS))
    size = (1 << draws.bit_length() - 1) // REPLICATES
    odds = math.log((1 - task.prevalence) / task.prevalence)
    losses = np.zeros(size * REPLICATES)
    for positive, share in ((1, task.prevalence), (0, 1 - task.prevalence)):
        for replicate in range(REPLICATES):
            start, seeds = replicate * size, (seed, positive, replicate)
            for noise in _noise(task.normals, seeds, size):
                classes = np.full(len(noise), float(positive))
                scores, _, _ = token_scores(noise, classes, task, 1.0)
                log_odds = np.abs(log_likelihood_ratio(task, scores) - odds)
                losses[start : start + len(noise)] += share * expit(-log_odds)
                start += len(noise)
    error = mean_of_replicates(losses)
    # naming the likelier class is always possible: what draws say beyond that is their noise
    trivial = trivial_error(task.prevalence)
    return error if error < trivial else Estimate(trivial)


_noise = partial(  # as it comes: replicates are independent
    normal_blocks, points_per_dim=math.inf, numbers=_BLOCK, widest=SOBOL_DIMENSIONS
)


def log_likelihood_ratio(task: Task, scores: FloatArray) -> FloatArray:
    """log P(g | +)/P(g | −) of samples with token scores g (n, L)."""
    length, own = task.length, 1 - task.token_correlation
    k = task.token_correlation / (own + task.token_correlation * length)
    centred = (scores - k * scores.sum(axis=1, keepdims=True)) / own
    terms = []
    for theta, ones, weight in zip(*task.signals, strict=True):
        if weight == 0:
            continue
        size = int(ones)
        if size == 0:  # a positive sample without signal: as likely as a negative one
            terms.append(np.full(len(scores), math.log(weight)))
            continue
        energy = theta**2 * (size - k * size**2) / (2 * own)
        _, log_sum = log_elementary(theta * centred, size)
        terms.append(math.log(weight) + log_sum - log_choose(length, size) - energy)
    return np.asarray(logsumexp(terms, axis=0))

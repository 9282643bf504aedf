r"""The Bayes error with uniform places, whatever varies: strength, sparsity, shared noise.

g ~ N(θv, Σ), Σ = (1−ρ)I + ρ11ᵀ, Σ⁻¹ = (I − k11ᵀ)/(1−ρ) with k = ρ/(1 − ρ + ρL). The likelihood
ratio is the average over (θ, R) of

    e_R(e^{θ(g − kΣg)/(1−ρ)}) / C(L, R) · e^{−θ²(R − kR²)/(2(1−ρ))}.

With (θ, R) and the places known in part, û, the posterior mean of u = θv, says how much of the
signal the tokens tell: E⟨u, Σ⁻¹û⟩.

Whole samples are drawn. With η the posterior probability of a positive one the error is
E min(η, 1−η): to count errors instead would be to toss a coin for every sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from scipy.special import expit, logsumexp, softmax

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


@dataclass(frozen=True, eq=False)
class PosteriorOracle:
    """The Bayes test of a task with uniform places, from at most so many draws of each class."""

    task: Task
    seed: int
    most: int = _MOST_DRAWS
    owner: str = "bayes_error"

    def __post_init__(self) -> None:
        if self._terms * _FEWEST_DRAWS > _MOST_TERMS:
            raise InvalidInput(
                f"{self.owner}: task must have at most {_MOST_TERMS // _FEWEST_DRAWS:.3g} tokens "
                "times values of (strength, sparsity) times the largest sparsity where they vary "
                f"or tokens share noise, got {self._terms:.3g}"
            )

    def error(self) -> Estimate:
        """E min(η, 1−η) over samples of both classes."""
        task, size = self.task, self._replicate
        odds = math.log((1 - task.prevalence) / task.prevalence)
        losses = np.zeros(size * REPLICATES)
        for positive, share in ((1, task.prevalence), (0, 1 - task.prevalence)):
            for rows, noise in self._noise(positive):
                classes = np.full(len(noise), float(positive))
                scores, _, _ = token_scores(noise, classes, task, 1.0)
                log_odds = np.abs(log_likelihood_ratio(task, scores) - odds)
                losses[rows] += share * expit(-log_odds)
        error = mean_of_replicates(losses)
        # naming the likelier class is always possible: what draws say beyond that is their noise
        trivial = trivial_error(task.prevalence)
        return error if error < trivial else Estimate(trivial)

    def overlaps(self, chance: float) -> FloatArray:
        """E⟨u, Σ⁻¹û⟩, u = θv, of samples that are positive with this chance, by replicates (16,).

        All tokens with the signal are alike: û is computed for the first.
        """
        task, own = self.task, 1 - self.task.token_correlation
        k, known = _removed(task), np.zeros(self._replicate * REPLICATES)
        for rows, noise in self._noise(1):
            scores, theta, ones = token_scores(noise, np.ones(len(noise)), task, 1.0)
            first, total = _posterior_means(task, scores, chance)
            known[rows] = theta * ones * (first - k * total) / own
        return chance * known.reshape(REPLICATES, -1).mean(axis=1)

    @property
    def _terms(self) -> int:
        """Of the likelihoods of a sample."""
        ones = int(self.task.signals.sparsities.max())
        return self.task.normals * len(self.task.signals.weights) * ones

    @property
    def _replicate(self) -> int:
        """Draws of each replicate."""
        draws = min(self.most, max(_MOST_TERMS // self._terms, _FEWEST_DRAWS))
        return (1 << draws.bit_length() - 1) // REPLICATES

    def _noise(self, positive: int) -> Iterator[tuple[slice, FloatArray]]:
        """Normals of a class, and whose they are; replicates are independent."""
        for replicate in range(REPLICATES):
            start, seeds = replicate * self._replicate, (self.seed, positive, replicate)
            for noise in _blocks(self.task.normals, seeds, self._replicate):
                yield slice(start, start + len(noise)), noise
                start += len(noise)


_noise = partial(  # as it comes: replicates are independent
    normal_blocks, points_per_dim=math.inf, numbers=_BLOCK, widest=SOBOL_DIMENSIONS
)


def _blocks(width: int, seeds: tuple[int, ...], count: int) -> Iterator[FloatArray]:
    """Normals of a replicate, to be written over; a single block is kept for the next strength."""
    if width * count > _BLOCK:
        return _noise(width, seeds, count)
    return iter([_kept(width, seeds, count).copy()])


@lru_cache(maxsize=2 * REPLICATES)  # of both classes: 64 MB
def _kept(width: int, seeds: tuple[int, ...], count: int) -> FloatArray:
    (block,) = _noise(width, seeds, count)
    return block


def log_likelihood_ratio(task: Task, scores: FloatArray) -> FloatArray:
    """log P(g | +)/P(g | −) of samples with token scores g (n, L)."""
    centred = _centred(task, scores)
    terms = []
    for theta, size, log_weight in _hypotheses(task):
        log_sum = log_elementary(theta * centred, size)[1] if size else 0.0
        terms.append(np.full(len(scores), log_weight) + log_sum)
    return np.asarray(logsumexp(terms, axis=0))


def _posterior_means(
    task: Task, scores: FloatArray, chance: float
) -> tuple[FloatArray, FloatArray]:
    """Of the signal in the first token and in all of them, u_1 and Σu; shapes (n,)."""
    centred = _centred(task, scores)
    log_terms, firsts, totals = [], [], []
    for theta, size, log_weight in _hypotheses(task):
        own = at = np.full(len(scores), log_weight)
        if size:
            values = theta * centred
            below, rest = log_elementary(values[:, 1:], size)
            own, at = own + values[:, 0] + below, at + rest
        else:
            own = np.full(len(scores), -np.inf)
        log_terms.append(np.logaddexp(own, at))
        firsts.append(theta * np.exp(own - log_terms[-1]))
        totals.append(theta * size)
    if chance < 1:
        log_terms.append(np.full(len(scores), math.log((1 - chance) / chance)))
    weights = softmax(log_terms, axis=0)[: len(firsts)]  # (k, n)
    return np.einsum("kn,kn->n", weights, firsts), totals @ weights


def _hypotheses(task: Task) -> Iterator[tuple[float, int, float]]:
    """Each (θ, R) with the log of its probability over C(L, R) e^{θ²(R − kR²)/(2(1−ρ))}."""
    for theta, ones, weight in zip(*task.signals, strict=True):
        size = int(ones)
        if weight > 0:
            energy = theta**2 * places_energy(task, size) / 2
            yield theta, size, math.log(weight) - float(log_choose(task.length, size)) - energy


def places_energy(task: Task, size: float | FloatArray) -> float | FloatArray:
    """vᵀΣ⁻¹v of R ones."""
    return (size - _removed(task) * size**2) / (1 - task.token_correlation)


def _centred(task: Task, scores: FloatArray) -> FloatArray:
    """Σ⁻¹g (n, L)."""
    shared = _removed(task) * scores.sum(axis=1, keepdims=True)
    return np.asarray((scores - shared) / (1 - task.token_correlation))


def _removed(task: Task) -> float:
    """k, the part of their sum that Σ⁻¹ takes off all tokens."""
    shared = task.token_correlation
    return shared / (1 - shared + shared * task.length)

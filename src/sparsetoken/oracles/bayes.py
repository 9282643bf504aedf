r"""The Bayes test, sampled: e_R(pe^{θg})/e_R(p) · e^{−Rθ²/2} against (1−π)/π, p position weights.

One token is integrated out: e_R(all) = e_R(rest) + x e_{R−1}(rest) is linear in its x = pe^{θg}, so
that the test is a threshold on its g. In a positive sample it is a token that carries the signal;
in a negative one it is the largest.

The same rest says how well the places are known. A sample that is positive with probability c has
its token at l among those with the signal with the posterior probability

    v̂_l = expit(log pe^{θg_l} + log e_{R−1}(rest) − log(e_R(rest) + K)),
    K = (1−c)/c · e_R(p) e^{Rθ²/2}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sparsetoken.model.places import log_choose
from sparsetoken.model.task import Task
from sparsetoken.oracles.exact import Gaussian, MeanOrMaximum, mean_expit
from sparsetoken.oracles.extremes import (
    LARGEST,
    MOST_TOKENS,
    REPLICATES,
    Rest,
    Tokens,
    draw_rest,
    drawn_tokens,
    mean_of_replicates,
    row_blocks,
    rows_of,
)
from sparsetoken.oracles.symmetric import log_elementary
from sparsetoken.oracles.thresholds import sampled_threshold
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

Order = NDArray[np.uint16]  # (N, L), all positions of a sample in the order of its tokens


@dataclass(frozen=True)
class BayesOracle:
    """The likelihood ratio against (1−π)/π. `orders`, for position weights, place the tokens.

    The token left out comes first; then `signal`, `noise` in positive samples, or `negative`.
    """

    task: Task
    rest: Rest
    orders: tuple[Order, Order] | None = None

    def error(self, strength: float, few: bool = False) -> Estimate:
        """The sampled error, held below those of the mean and the maximum, which are exact."""
        bound = MeanOrMaximum(self.task).error(strength)
        if strength == 0:
            return Estimate(bound)
        sampled = self._sampled(strength, few)
        return Estimate(min(bound, sampled), min(bound, sampled.standard_error))

    def threshold(self, error: float) -> Estimate:
        guess = MeanOrMaximum(self.task).threshold(error)
        return sampled_threshold(self.error, error, guess)

    def overlaps(self, strength: float, chance: float = 1.0) -> FloatArray:
        """E⟨v, v̂⟩ of samples that are positive with this chance, by replicates (16,)."""
        draws = len(self.rest.lower)
        known = np.empty(draws)
        level = self._level(strength, chance) if chance < 1 else -math.inf
        for rows in row_blocks(draws, self._width):
            values, noise, order = self._positive(strength, rows)
            below, at, own = self._sums(values, strength, noise, order)
            odds = own + below - np.logaddexp(at, level)
            known[rows] = mean_expit(odds + strength**2, strength)
        return self.task.fixed_sparsity * chance * known.reshape(REPLICATES, -1).mean(axis=1)

    @property
    def _width(self) -> int:
        return self.rest.noise.seen.shape[1] + self.task.fixed_sparsity

    def _positive(self, strength: float, rows: slice) -> tuple[FloatArray, Tokens, Order | None]:
        """θg of the tokens of positive samples but one with the signal; the others; their order."""
        signal, noise, _, _ = rows_of(self.rest, rows)
        values = np.hstack([signal.seen + strength, noise.seen]) * strength
        return values, noise, self.orders[0][rows] if self.orders else None

    def _sampled(self, strength: float, few: bool) -> Estimate:
        draws, prevalence = len(self.rest.lower), self.task.prevalence
        losses = np.empty(max(draws // REPLICATES, 256) if few else draws)
        level = self._level(strength, prevalence)
        for rows in row_blocks(len(losses), self._width):
            _, _, negative, lower = rows_of(self.rest, rows)
            down = self.orders[1][rows] if self.orders else None
            values, noise, up = self._positive(strength, rows)
            miss = ndtr(self._cut(values, strength, level, noise, up) - strength)
            cut = self._cut(negative.seen * strength, strength, level, negative, down)
            alarm = ndtr(-np.maximum(cut, lower)) / ndtr(-lower)
            losses[rows] = prevalence * miss + (1 - prevalence) * alarm
        return Estimate(losses.mean()) if few else mean_of_replicates(losses)

    def _level(self, strength: float, prevalence: float) -> float:
        """log of what e_R(pe^{θg}) must exceed: (1−π)/π · e_R(p) · e^{Rθ²/2}."""
        size, length = self.task.fixed_sparsity, self.task.length
        if self.task.places is None:
            log_sum = float(log_choose(length, size))
        else:
            log_sum = log_elementary(np.log([self.task.places]), size)[1][0]
        return float(math.log((1 - prevalence) / prevalence) + log_sum + size * strength**2 / 2)

    def _cut(
        self,
        values: FloatArray,
        strength: float,
        level: float,
        hidden: Tokens,
        order: Order | None,
    ) -> FloatArray:
        """The missing token's g at which e_R(rest) + pe^{θg} e_{R−1}(rest) is at the level."""
        below, at, own = self._sums(values, strength, hidden, order)
        with np.errstate(divide="ignore"):
            log_missing = level + np.log(-np.expm1(np.minimum(at - level, 0.0)))
        return np.asarray((log_missing - below - own) / strength)

    def _sums(
        self, values: FloatArray, strength: float, hidden: Tokens, order: Order | None
    ) -> tuple[FloatArray, FloatArray, FloatArray | float]:
        """log e_{R−1} and log e_R of the rest, and log p of the missing token."""
        own: FloatArray | float = 0.0
        if order is not None:
            log_weights = np.log(np.asarray(self.task.places))[order]
            values, own = values + log_weights[:, 1:], log_weights[:, 0]
        below, at = log_elementary(values, self.task.fixed_sparsity, (hidden, strength))
        return below, at, own


def sampled_orders(task: Task, draws: int, seed: int) -> tuple[Order, Order]:
    """Positions in random order; in a positive sample those that carry the signal come first."""
    rng = np.random.default_rng([seed, 1])
    positive, negative = np.empty((2, draws, task.length), dtype=np.uint16)
    for rows in row_blocks(draws, task.length, 1 << 19):  # of random numbers: never another size
        ranks = rng.random(positive[rows].shape)
        negative[rows] = np.argsort(ranks, axis=1)
        positive[rows] = np.argsort(ranks - task.sample_places(len(ranks), rng), axis=1)
    return positive, negative


def bayes_oracle(
    owner: str, task: Task, seed: int, most: int | None = None
) -> Gaussian | BayesOracle:
    """The Bayes test of a plain task, from at most so many draws.

    Positions that never carry the signal are dropped: the likelihood ratio ignores them.
    """
    if task.places is not None:
        weights = tuple(weight for weight in task.places if weight > 0)
        places = None if len(set(weights)) == 1 else weights
        task = replace(task, length=len(weights), places=places)
    length, sparsity = task.length, task.fixed_sparsity
    if sparsity == length:  # the places are known
        return Gaussian(math.sqrt(sparsity), task.prevalence)
    largest = length if task.places else max(LARGEST, 4 * sparsity)
    drawn = drawn_tokens(length, sparsity, largest)
    if drawn > MOST_TOKENS:
        raise InvalidInput(
            f"{owner}: the Bayes test must need at most {MOST_TOKENS} tokens of a sample "
            "one by one (about five times sparsity, or length where that is less or places have "
            f"weights), got {drawn} for length {length} and sparsity {sparsity}"
        )
    rest = draw_rest(length, sparsity, seed, largest=largest, most=most)
    orders = sampled_orders(task, len(rest.lower), seed) if task.places else None
    return BayesOracle(task, rest, orders)

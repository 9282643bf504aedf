r"""What weighted tokens of two covariances add up to, by scores (section 12 of docs/theory.md).

With scores t_l = θv_l⟨κ,ξ⟩ + σ_l g_l, κ = βq, σ_l² = κᵀSκ, S = Σ of noise and C of signal tokens,
and weights a = a(t), a pooled token is

    θ⟨a,v⟩ξ + Σ_S ( ⟨a,g⟩_S Sκ/σ_S + ‖a‖_S (S − SκκᵀS/σ_S²)^½ z_S ),

⟨·⟩_S over the tokens of covariance S. So the score of a readout w is Gaussian given (dose, along,
sizes) below, and a `TokenReadout` — its products with ξ and with both covariances — has all its
test metrics.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparsetoken.model.clouds import kept_blocks
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import Weighting
from sparsetoken.support.arrays import BoolArray, FloatArray
from sparsetoken.support.errors import InvalidInput

_POINTS = 1 << 14  # quasi-random samples of a class
_BLOCK = 1 << 18  # numbers worked on at once
_MANY_PLACES = 1 << 13  # random samples of which `Vectorized` readouts are tested


class Pull(NamedTuple):
    """A query κ = βq as tokens see it."""

    overlap: float  # ⟨κ, ξ⟩
    noise: float  # √(κᵀΣκ)
    signal: float  # √(κᵀCκ)


class Pooled(NamedTuple):
    """n pooled tokens, given their scores."""

    dose: FloatArray  # (n,), θ⟨a, v⟩
    along: FloatArray  # (n, 2), ⟨a, g⟩ over noise and signal tokens
    sizes: FloatArray  # (n, 2), ‖a‖ over noise and signal tokens


def pooled(
    noise: FloatArray,
    places: BoolArray,
    strength: float | FloatArray,
    task: Task,
    weighting: Weighting,
    pull: Pull,
) -> Pooled:
    """From normals (n, L), and one more where tokens share noise; places (n, L) of the signal.

    Without a spread of the signal the two kinds of tokens are one, and `along` and `sizes` of
    signal tokens zero.
    """
    shared, length = task.token_correlation, task.length
    g = noise[:, :length]
    if shared:
        g = math.sqrt(1 - shared) * g + math.sqrt(shared) * noise[:, length : length + 1]
    strengths = np.broadcast_to(strength, len(g))
    own = np.where(places, pull.signal, pull.noise)
    weights = weighting.weights((strengths * pull.overlap)[:, None] * places + own * g)
    special = weights * places
    dose = strengths * special.sum(axis=1)
    if not task.has_spread:
        special = np.zeros_like(weights)
    rest = weights - special
    along = np.stack([(part * g).sum(axis=1) for part in (rest, special)], axis=1)
    squares = np.stack([(part**2).sum(axis=1) for part in (rest, special)], axis=1)
    if shared:  # and then no spread
        squares[:, 0] = shared + (1 - shared) * squares[:, 0]
    return Pooled(dose, along, np.sqrt(squares))


@dataclass(frozen=True, eq=False)
class TokenReadout:
    """A readout on pooled tokens, as far as its scores on fresh samples depend on it."""

    on_signal: float  # ⟨w, ξ⟩
    on_query: FloatArray  # (2,), wᵀSκ/σ_S for noise and signal tokens
    spread: FloatArray  # (2,), √(wᵀSw − (wᵀSκ)²/σ_S²)
    bias: float
    pull: Pull
    weighting: Weighting
    covariances: tuple[object, object]  # noise and signal_spread of the task it was made on

    def scores(self, task: Task, seed: int = 0) -> Scores:
        """On fresh samples of a task with the same covariances."""
        _check(task, self.covariances)
        return Scores(
            self._side(task, True, seed), self._side(task, False, seed), task.prevalence, True
        )

    def _side(self, task: Task, positive: bool, seed: int) -> Mixture:
        means, deviations = [], []
        for noise in _normals(task, 2 * seed + positive):
            strength, sparsity = task.signal_at(noise[:, task.length :])
            first = np.arange(task.length) < np.reshape(sparsity, (-1, 1))
            places = np.broadcast_to(first & positive, (len(noise), task.length))
            tokens = pooled(noise, places, strength, task, self.weighting, self.pull)
            means.append(self.bias + tokens.dose * self.on_signal + tokens.along @ self.on_query)
            deviations.append(np.sqrt(tokens.sizes**2 @ self.spread**2))
        mean = np.concatenate(means)
        return Mixture(mean, np.concatenate(deviations), np.full(len(mean), 1 / len(mean)))


@dataclass(frozen=True, eq=False)
class PositionReadout:
    """A readout on tokens side by side, position by position."""

    on_signal: FloatArray  # (L,), ⟨w_l, ξ⟩
    squares: FloatArray  # (L, 2), w_lᵀSw_l
    bias: float
    covariances: tuple[object, object]

    def scores(self, task: Task, seed: int = 0) -> Scores:
        """On fresh samples of a task with the same covariances and length."""
        _check(task, self.covariances)
        if task.length != len(self.on_signal):
            raise InvalidInput(
                f"Vectorized: a trained readout must keep the length {len(self.on_signal)} (one "
                f"weight per position), got {task.length}"
            )
        rng = np.random.default_rng([seed, 1])
        strength, sparsity = task.sample_signals(_MANY_PLACES, rng)
        places = task.sample_places(_MANY_PLACES, rng, sparsity)
        mean = self.bias + strength * (places @ self.on_signal)
        own = self.squares @ [-1.0, 1.0]
        base = float(self.squares[:, 0].sum())
        deviation = np.sqrt(np.maximum(base + places @ own, 0.0))
        positive = Mixture(mean, deviation, np.full(len(mean), 1 / len(mean)))
        negative = Mixture(np.array([self.bias]), np.array([math.sqrt(base)]), np.ones(1))
        return Scores(positive, negative, task.prevalence, sampled=True)


def _check(task: Task, covariances: tuple[object, object]) -> None:
    if (task.noise, task.signal_spread) != covariances:
        raise InvalidInput(
            "Simulation: scores on another task need the noise and the signal_spread of training "
            f"(a readout is kept by its products with them), got noise={task.noise!r} and "
            f"signal_spread={task.signal_spread!r}"
        )


def _normals(task: Task, seed: int) -> Iterator[FloatArray]:
    points = _POINTS if task.length <= 512 else _POINTS // 4
    for block in kept_blocks(task.normals, seed, points, 64):
        rows = max(1, _BLOCK // task.normals)
        for start in range(0, len(block), rows):
            yield block[start : start + rows]

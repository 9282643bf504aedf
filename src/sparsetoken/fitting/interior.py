r"""A primal–dual interior-point method for losses with kinks.

For −ℓ′ = clip(c·gap + a₀, 0, A) the fit is a quadratic programme in the pulls 0 ≤ a_i ≤ A of the
samples, with multipliers u (at 0) and v (at A):

    λw = Σ s_i y_i a_i f_i,   Σ s_i y_i a_i = 0,   gap_i + a₀/c = a_i/c − u_i + v_i,
    u_i a_i = μ,   v_i (A − a_i) = μ,   μ → 0.

A Newton step on it is one system FᵀDF + λ with s/D = 1/c + u/a + v/(A − a), factored once and
used twice (Mehrotra's predictor and corrector). It takes 10 to 25 steps, whatever the ridge: where
data are separable and the ridge is tiny, plain Newton steps would run into kinks for ever.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from sparsetoken.fitting.newton import Factored
from sparsetoken.fitting.objective import Fitted, Objective
from sparsetoken.support.arrays import Array

_MOST_STEPS = 100
_PATIENCE = 4  # steps without a better certificate, at the level of rounding
_TO_THE_WALL = 0.995  # share of the way to a bound that a step may go


class _Point(NamedTuple):
    """Where the method stands, a, u and v strictly inside their bounds; or a change of all that."""

    weights: Array  # w, (p,)
    bias: float
    scores: Array  # (n,)
    pull: Array  # a, (n,)
    lower: Array  # u, (n,)
    upper: Array  # v, (n,)

    def moved(self, step: _Point, length: float) -> _Point:
        return _Point(*(here + length * move for here, move in zip(self, step, strict=True)))


def minimise_kinked(objective: Objective) -> Fitted:
    """The certified minimiser for a loss with a `dual_box`."""
    path = _CentralPath(objective)
    point = path.start()
    best: Fitted | None = None  # among those that rounding alone may keep from the tolerance
    for steps in range(_MOST_STEPS):
        gradient = objective.gradient(point.weights, point.scores)
        if objective.met(gradient, stuck=True):
            fitted, again = objective.judge(point.weights, point.bias, steps, 2 * steps)
            if objective.met(again):
                return fitted
            better = best is None or fitted.certificate < best.certificate
            if better and objective.met(again, stuck=True):
                best = fitted
        if best is not None and steps > best.steps + _PATIENCE:
            return best
        objective.refuse_separable(point.scores)
        point = path.after(point)
    raise objective.shortfall(gradient.certificate)


class _CentralPath:
    """The equations of the programme, and Newton's steps on them."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.curve, self.offset, self.top = objective.loss.dual_box  # type: ignore[attr-defined]

    def start(self) -> _Point:
        xp = self.objective.xp
        weights = xp.zeros_like(self.objective.features[0, :])
        nothing = xp.zeros_like(self.objective.labels)
        scores = self.objective.scores(weights, 0.0)
        # gap + a₀/c: the pull over c that a sample would have without bounds
        wanted = 1.0 - self.objective.labels * scores + self.offset / self.curve
        if math.isinf(self.top):
            pull, upper = self.curve * (xp.clip(wanted, min=0.0) + 0.5), nothing
        else:
            pull = nothing + 0.5 * self.top
            upper = xp.clip(wanted - pull / self.curve, min=0.0) + 0.5 * self.top
        return _Point(weights, 0.0, scores, pull, pull / self.curve + upper - wanted, upper)

    def after(self, point: _Point) -> _Point:
        """One predictor–corrector step."""
        stiffness = (  # s/D
            1.0 / self.curve + point.lower / point.pull + point.upper / (self.top - point.pull)
        )
        factored = Factored(self.objective, self.objective.shared(1.0 / stiffness))
        now = self._complementarity(point)
        ahead = self._toward(point, factored, stiffness, 0.0, 0.0)
        reached = self._complementarity(point.moved(ahead, self._longest(point, ahead)))
        goal = now * (reached / now) ** 3
        corrected = goal - ahead.lower * ahead.pull, goal + ahead.upper * ahead.pull
        step = self._toward(point, factored, stiffness, *corrected)
        return point.moved(step, min(1.0, _TO_THE_WALL * self._longest(point, step)))

    def _toward(
        self, point: _Point, factored: Factored, stiffness: Array, at_lower: Array, at_upper: Array
    ) -> _Point:
        """Newton's step to u·a = at_lower and v·(A − a) = at_upper."""
        labels, features = self.objective.labels, self.objective.features
        room = self.top - point.pull
        push = at_upper / room - point.upper
        right = at_lower / point.pull - point.lower - push
        pulls = self.objective.shared(labels * (point.pull + right / stiffness))
        along = self.objective.ridge * point.weights - features.T @ pulls
        move = factored.solve(along, -float(pulls.sum()))
        scores = features @ move.weights + move.bias
        pull = (right - labels * scores) / stiffness
        upper = push + point.upper * pull / room
        lower = pull / self.curve + upper + labels * scores
        return _Point(move.weights, move.bias, scores, pull, lower, upper)

    def _complementarity(self, point: _Point) -> float:
        """Mean of u·a and v·(A − a)."""
        total = float(point.lower @ point.pull)
        if math.isinf(self.top):
            return total / self.objective.n
        return (total + float(point.upper @ (self.top - point.pull))) / (2 * self.objective.n)

    def _longest(self, point: _Point, step: _Point) -> float:
        """How far a step can go before something leaves its bounds; at most 1."""
        xp = self.objective.xp
        pairs = [(point.pull, step.pull), (point.lower, step.lower)]
        if not math.isinf(self.top):
            pairs += [(point.upper, step.upper), (self.top - point.pull, -step.pull)]
        smallest = float(xp.finfo(point.pull.dtype).tiny)
        steepest = max(
            float(xp.max(-change / xp.clip(value, min=smallest))) for value, change in pairs
        )
        return 1.0 if steepest <= 1.0 else 1.0 / steepest

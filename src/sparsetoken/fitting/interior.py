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

from sparsetoken.fitting.newton import Factored, refuse_separable
from sparsetoken.fitting.objective import Fitted, Objective
from sparsetoken.support.arrays import Array
from sparsetoken.support.errors import ConvergenceError

_MOST_STEPS = 100
_PATIENCE = 4  # steps without a better certificate, at the level of rounding
_TO_THE_WALL = 0.995  # share of the way to a bound that a step may go


class _Step(NamedTuple):
    weights: Array  # change of w, (p,)
    bias: float
    scores: Array  # (n,)
    pull: Array  # of a, (n,)
    lower: Array  # of u, (n,)
    upper: Array  # of v, (n,)


def minimise_kinked(objective: Objective) -> Fitted:
    """The certified minimiser for a loss with a `dual_box`."""
    path = _CentralPath(objective)
    best: Fitted | None = None  # among those that rounding alone may keep from the tolerance
    for steps in range(_MOST_STEPS):
        gradient = objective.gradient(path.weights, path.scores)
        if objective.met(gradient, stuck=True):
            arguments = (path.weights, path.bias, steps, 2 * steps)
            fitted, accepted = objective.judge(*arguments)
            if accepted:
                return fitted
            _, near = objective.judge(*arguments, stuck=True)
            if near and (best is None or fitted.certificate < best.certificate):
                best = fitted
        if best is not None and steps > best.steps + _PATIENCE:
            return best
        if objective.ridge == 0:
            refuse_separable(objective, path.scores)
        path.advance()
    raise ConvergenceError(objective.shortfall(gradient.certificate))


class _CentralPath:
    """Where the method stands: w, b, scores, and a, u, v strictly inside their bounds."""

    def __init__(self, objective: Objective) -> None:
        xp, labels = objective.xp, objective.labels
        self.objective = objective
        self.curve, self.offset, self.top = objective.loss.dual_box  # type: ignore[attr-defined]
        self.weights = xp.zeros_like(objective.features[0, :])
        self.bias, self.scores = 0.0, objective.scores(self.weights, 0.0)
        nothing = xp.zeros_like(labels)
        if math.isinf(self.top):
            self.pull = self.curve * (xp.clip(self._wanted(), min=0.0) + 0.5)
            self.upper = nothing
        else:
            self.pull = nothing + 0.5 * self.top
            self.upper = xp.clip(self._wanted() - self.pull / self.curve, min=0.0) + 0.5 * self.top
        self.lower = self.pull / self.curve + self.upper - self._wanted()

    def _wanted(self) -> Array:
        """gap + a₀/c: the pull over c that a sample would have without bounds."""
        return 1.0 - self.objective.labels * self.scores + self.offset / self.curve

    def advance(self) -> None:
        """One predictor–corrector step."""
        curvature = self.objective.shared(1.0 / self._stiffness())
        factored = Factored(self.objective, curvature)
        now = self._complementarity(0.0, None)
        ahead = self._toward(factored, 0.0, None)
        reached = self._complementarity(self._longest(ahead), ahead)
        step = self._toward(factored, now * (reached / now) ** 3, ahead)
        length = min(1.0, _TO_THE_WALL * self._longest(step))
        self.weights = self.weights + length * step.weights
        self.bias += length * step.bias
        self.scores = self.scores + length * step.scores
        self.pull = self.pull + length * step.pull
        self.upper = self.upper + length * step.upper
        self.lower = self.lower + length * step.lower

    def _stiffness(self) -> Array:
        """s/D."""
        return 1.0 / self.curve + self.lower / self.pull + self.upper / (self.top - self.pull)

    def _toward(self, factored: Factored, goal: float, ahead: _Step | None) -> _Step:
        """Newton's step to μ = goal, with the second-order terms of the step `ahead`."""
        labels, features = self.objective.labels, self.objective.features
        room, stiffness = self.top - self.pull, self._stiffness()
        at_lower = at_upper = goal
        if ahead is not None:
            at_lower, at_upper = goal - ahead.lower * ahead.pull, goal + ahead.upper * ahead.pull
        push = at_upper / room - self.upper
        right = at_lower / self.pull - self.lower - push
        pulls = self.objective.shared(labels * (self.pull + right / stiffness))
        along = self.objective.ridge * self.weights - features.T @ pulls
        bias = -float(self.objective.xp.sum(pulls))
        move = factored.solve(along, bias)
        scores = features @ move.weights + move.bias
        pull = (right - labels * scores) / stiffness
        upper = push + self.upper * pull / room
        lower = pull / self.curve + upper + labels * scores
        return _Step(move.weights, move.bias, scores, pull, lower, upper)

    def _complementarity(self, length: float, step: _Step | None) -> float:
        """Mean of u·a and v·(A − a) after a step of some length."""
        pull, lower, upper = self.pull, self.lower, self.upper
        if step is not None:
            pull, lower = pull + length * step.pull, lower + length * step.lower
            upper = upper + length * step.upper
        total = float(lower @ pull)
        if math.isinf(self.top):
            return total / self.objective.n
        return (total + float(upper @ (self.top - pull))) / (2 * self.objective.n)

    def _longest(self, step: _Step) -> float:
        """How far a step can go before something leaves its bounds; at most 1."""
        xp = self.objective.xp
        pairs = [(self.pull, step.pull), (self.lower, step.lower)]
        if not math.isinf(self.top):
            pairs += [(self.upper, step.upper), (self.top - self.pull, -step.pull)]
        smallest = float(xp.finfo(self.pull.dtype).tiny)
        steepest = max(
            float(xp.max(-change / xp.clip(value, min=smallest))) for value, change in pairs
        )
        return 1.0 if steepest <= 1.0 else 1.0 / steepest

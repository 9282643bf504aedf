r"""Newton's method for the smooth convex fit.

A step solves (FᵀDF + λ) δ = −∇, D the curvatures times the shares of the samples, with the bias
eliminated:

- by conjugate gradients, preconditioned by the diagonal, on a float32 copy of F: a step need not be
  exact, only the gradient it answers to is (float64, always);
- in float64, once float32 steps stop paying;
- by Cholesky, where it is cheaper than that many products.

The step length is found on the slope along the step, whose evaluations cost O(n). Where samples
have lost their curvature (hinge losses) a full step would run far: short steps raise a floor under
D, full steps lower it again.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsetoken.fitting import algebra
from sparsetoken.fitting.objective import Derivatives, Fitted, Gradient, Objective, sample_rows
from sparsetoken.model.envelopes import PiecewiseQuadratic
from sparsetoken.support.arrays import Array
from sparsetoken.support.errors import InvalidInput

_MOST_STEPS = 200
_MOST_KINKED = 25  # with a loss that has kinks; then the interior-point method is cheaper
_LOOSEST = 0.1  # relative residual of the first conjugate-gradient solutions
_LOOSEST_QUADRATIC = 1e-3  # for quadratic pieces: the first steps may be nearly the last
# A matrix product does this many times the operations of products with a vector in the same time
# (measured: 2 to 6 on CPUs, about 28 on a GPU): Cholesky or conjugate gradients?
_GAIN_CPU, _GAIN_OTHER = 2, 28
_LEAST_FALL = 1e-3  # share of the objective by which a step must lower it, where the gradient stays
_LEAST_CURVATURE = 1e-12  # keeps the bias solvable when no sample has curvature


class Direction(NamedTuple):
    weights: Array  # (p,)
    bias: float
    products: int


def minimise(
    objective: Objective,
    factorise: bool | None = None,
    start: tuple[Array, float] | None = None,
) -> Fitted | None:
    """The certified minimiser, or None where another method should take over.

    That is where factorisations are cheaper than conjugate gradients, but n < p (the Gram matrix is
    smaller) or the loss is square and all samples weigh the same (one factor is enough); and where
    the loss has kinks and full steps keep running into them.
    """
    xp, features = objective.xp, objective.features
    kinked, n, p = objective.kinked, objective.n, objective.p
    elsewhere = kinked or objective.one_factor or n < p  # once matrices must be factored
    weights, bias = start if start is not None else (xp.zeros_like(features[0, :]), 0.0)
    scores, derivatives = objective.scores(weights, bias), None
    solver = _Steps(objective, factorise)
    products, floor, stalls = 0, 0.0, 0
    before, value_before = math.inf, math.inf
    for steps in range(_MOST_KINKED if kinked else _MOST_STEPS):
        gradient = objective.gradient(weights, scores, derivatives)
        if steps == 0 and not math.isfinite(gradient.norm):  # any nan or inf reaches the gradient
            raise InvalidInput("fit: features must be finite numbers, got nan or inf among them")
        if objective.met(gradient):
            counts = steps, products
            if steps * gradient.rounding < gradient.certificate:
                return Fitted(weights, bias, scores, gradient.certificate, gradient.norm, *counts)
            # once more, without accumulated rounding
            fitted, again = objective.judge(weights, bias, *counts)
            if objective.met(again):
                return fitted
            scores = fitted.scores
        # far from the minimum the gradient need not shrink, the objective does
        if gradient.norm <= 0.7 * before:
            stalls, value_before = 0, math.inf
        else:
            value = objective.value(weights, scores)
            stalls = 0 if value <= (1 - _LEAST_FALL) * value_before else stalls + 1
            value_before = value
        if stalls >= 4 and floor == 0:
            if solver.factorises:
                return objective.settle(weights, bias, steps, products)
            solver.escalate()
            stalls = 0
        if solver.factorises and elsewhere:
            return None
        if not gradient.curvatures.any():
            floor = max(floor, 0.1)
        least = max(floor, _LEAST_CURVATURE)
        raised = xp.where(gradient.curvatures > least, gradient.curvatures, least)
        step = solver.direction(gradient, objective.shared(raised))
        products += step.products
        along = features @ step.weights + step.bias
        length, derivatives = _line_search(objective, gradient, weights, scores, step, along)
        weights, bias = weights + length * step.weights, bias + length * step.bias
        scores = scores + length * along
        if length < 0.2:
            floor = min(1.0, max(10 * floor, 1e-3))
        elif length > 0.9:
            floor = floor / 10 if floor > 1e-6 else 0.0
        before = gradient.norm
        objective.refuse_separable(scores)
    if kinked:
        return None
    raise objective.shortfall(gradient.certificate)


class _Steps:
    """Newton directions, by the cheapest means that still pays."""

    def __init__(self, objective: Objective, factorise: bool | None) -> None:
        self.objective = objective
        xp, features = objective.xp, objective.features
        gain = _GAIN_CPU if xp is np else _GAIN_OTHER
        # products that cost as much as (half) the matrix of a step and its Cholesky factor
        self.budget = min(features.shape) // (4 * gain)
        self.factorises = self.budget < 8 if factorise is None else factorise
        if factorise is False:  # conjugate gradients to their end
            self.budget = max(features.shape)
        self.loosest = _LOOSEST
        if isinstance(objective.loss, PiecewiseQuadratic):
            self.loosest = _LOOSEST_QUADRATIC
        if objective.kinked:
            self.budget *= 8  # the alternative, an interior-point method, takes many of them
        self.previous = math.inf
        if self.factorises:
            return
        self.rows = sample_rows(objective.n)  # estimate the columns' scales, to precondition
        self.copy = features
        largest = float(xp.max(xp.abs(features[self.rows])))
        if 1e-12 < largest < 1e12:  # whose squares float32 can hold
            self.copy = xp.astype(features, xp.float32, copy=False)
        self.squares = self.copy[self.rows] ** 2

    def escalate(self) -> None:
        """Go on to more exact steps."""
        if self.copy.dtype != self.objective.features.dtype:
            self.copy = self.objective.features
        else:
            self.factorises = True
        self.previous = math.inf

    def direction(self, gradient: Gradient, curvature: Array) -> Direction:
        if self.factorises:
            return Factored(self.objective, curvature).solve(gradient.weights, gradient.bias)
        # superlinear, but no more exact than the certificate needs or the copy can give
        wanted = self.loosest
        if math.isfinite(self.previous):
            wanted = min(wanted, 0.9 * (gradient.norm / self.previous) ** 1.5)
        enough = 0.3 * max(
            self.objective.tolerance / gradient.certificate,
            self.objective.gradient_norm / gradient.norm,
        )
        finest = 1e-4 if self.copy.dtype == self.objective.xp.float32 else 1e-8
        self.previous = gradient.norm
        step = self._by_conjugate_gradients(gradient, curvature, max(wanted, enough, finest))
        if step.products >= 2 * self.budget:
            self.factorises = True
        return step

    def _by_conjugate_gradients(
        self, gradient: Gradient, curvature: Array, accuracy: float
    ) -> Direction:
        """(FᵀDF − hhᵀ/ΣD + λ) δ = −(∇ − h ∇_b/ΣD), h = FᵀD1."""
        xp, matrix, ridge = self.objective.xp, self.copy, self.objective.ridge
        weight = xp.astype(curvature, matrix.dtype)
        total = float(curvature.sum())
        lift = matrix.T @ weight  # h
        scale = self.squares.T @ weight[self.rows] * (self.objective.n / self.squares.shape[0])
        if self.objective.n < matrix.shape[1]:
            # with one scale for all columns the solution stays a combination of samples, and the
            # directions no sample reaches (curvature λ) never enter
            scale = xp.mean(scale)
        inverse = 1.0 / (scale + ridge)
        residual = lift * (gradient.bias / total) - xp.astype(gradient.weights, matrix.dtype)
        solution = xp.zeros_like(residual)
        small = accuracy**2 * float(residual @ residual)
        preconditioned = inverse * residual
        toward, energy = preconditioned, float(residual @ preconditioned)
        products = 0
        while products < 2 * self.budget and energy > 0:
            products += 1
            image = matrix @ toward - float(lift @ toward) / total
            pushed = matrix.T @ (weight * image) + ridge * toward
            length = energy / float(toward @ pushed)
            solution = solution + length * toward
            residual = residual - length * pushed
            if float(residual @ residual) <= small:
                break
            preconditioned = inverse * residual
            energy, last = float(residual @ preconditioned), energy
            toward = preconditioned + (energy / last) * toward
        bias = -(gradient.bias + float(lift @ solution)) / total
        return Direction(xp.astype(solution, self.objective.features.dtype), bias, products)


class Factored:
    """FᵀDF + λ with the bias eliminated, factored once for any number of gradients."""

    def __init__(self, objective: Objective, curvature: Array) -> None:
        xp, features = objective.xp, objective.features
        self.xp = xp
        self.total = float(curvature.sum())
        self.lift = features.T @ curvature  # h
        hessian = algebra.outer_gram(xp, features * xp.sqrt(curvature)[:, None])
        largest = float(xp.max(xp.abs(hessian)))
        hessian -= self.lift[:, None] * (self.lift[None, :] / self.total)
        algebra.add_to_diagonal(hessian, objective.ridge)
        try:
            self.root = algebra.cholesky(xp, hessian)
        except algebra.SingularError:  # to rounding: a little more on the diagonal
            epsilon = float(xp.finfo(hessian.dtype).eps)
            algebra.add_to_diagonal(hessian, 100 * epsilon * largest * hessian.shape[0])
            self.root = algebra.cholesky(xp, hessian)

    def solve(self, along: Array, level: float) -> Direction:
        """The step that removes a gradient (∇_w, ∇_b)."""
        pull = self.lift * (level / self.total) - along
        weights = algebra.solve_root(self.xp, self.root, pull)
        bias = -(level + float(self.lift @ weights)) / self.total
        return Direction(weights, bias, 0)


def _line_search(
    objective: Objective,
    gradient: Gradient,
    weights: Array,
    scores: Array,
    step: Direction,
    along: Array,
) -> tuple[float, Derivatives | None]:
    """t where the slope φ′(t) along the step has lost most of its size; 1 if half is lost there.

    With the derivatives of the loss there, which the next step needs, if they are known. φ is
    convex, so φ′ rises; the root is bracketed, then approached by the Illinois method.
    """
    margin, change = objective.labels * scores, objective.labels * along
    pushed = change if objective.shares is None else objective.n * objective.shared(change)
    inner = objective.ridge * float(weights @ step.weights)
    square = objective.ridge * float(step.weights @ step.weights)

    def slope(t: float) -> tuple[float, Derivatives]:
        derivatives = objective.loss.derivatives(margin + t * change)
        pull = float(derivatives[0] @ pushed) / objective.n
        return pull + inner + t * square, derivatives

    start = float(gradient.weights @ step.weights) + gradient.bias * step.bias
    if not start < 0:  # rounding: the step no longer descends
        return 1.0, None
    low, at_low, high = 0.0, start, 1.0
    at_high, derivatives = slope(high)
    if abs(at_high) <= -0.5 * start:
        return high, derivatives
    while at_high < 0:
        low, at_low, high = high, at_high, 4 * high
        at_high, derivatives = slope(high)
        if abs(at_high) <= -0.1 * start or high > 1e9:
            return high, derivatives
    side = 0
    # inside a bracket of a rising slope; what it ends with descends, and the caller certifies
    for _ in range(60):
        t = (low * at_high - high * at_low) / (at_high - at_low)
        value, derivatives = slope(t)
        if abs(value) <= -0.1 * start:
            break
        if value < 0:
            low, at_low = t, value
            at_high = 0.5 * at_high if side < 0 else at_high
            side = -1
        else:
            high, at_high = t, value
            at_low = 0.5 * at_low if side > 0 else at_low
            side = 1
    return t, derivatives

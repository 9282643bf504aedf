r"""Newton's method on the equations of `saddle`, and other routes for what it cannot reach.

From its cold start Newton solves almost every problem in four to twenty evaluations. The few
on which it gets stuck are reached by way of their population limit, or of larger ridges. Whatever
the route, a solution is certified by the scale-free residual, never by the size of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from sparsetoken.model.law import FeatureLaw
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.theory.saddle import Point, Saddle, equations, starting_point
from sparsetoken.theory.several import SeveralSaddle

CERTIFIED = 1e-9  # largest residual of a solution
LONGEST_LOG_STEP = 1.5
MOST_STEPS = 60
SHORTEST = 1e-9  # part of a step that is tried
_RARE_SHARE = 0.05  # of a class: from there on cold starts are safe

Solved = tuple[FloatArray, FloatArray, IntArray]  # states, residuals, evaluations


def newton(
    problem: Saddle, state: FloatArray, tolerance: float, shortest: float = SHORTEST
) -> Solved:
    """Damped Newton on all problems at once: states, max|g| and evaluations of each.

    A step changes a logarithm by at most 1.5 and must reduce ‖g‖; each problem has its own step
    length and stops when it is solved, or when no length above the `shortest` helps.
    """
    state = state.copy()
    with np.errstate(all="ignore"):  # whatever a start gives, the residual certifies the end
        g, jacobian = problem.equations(state)
    count = np.ones(len(state), dtype=np.intp)
    alive = np.ones(len(state), dtype=bool)
    for _ in range(MOST_STEPS):
        active = np.flatnonzero(alive & (np.abs(g).max(axis=1) > tolerance))
        if not len(active):
            break
        step = _solve(jacobian[active], -g[active])
        usable = np.isfinite(step).all(axis=1)
        alive[active[~usable]] = False
        active, step = active[usable], step[usable]
        if problem.logarithms:
            longest = np.abs(step[:, -problem.logarithms :]).max(axis=1)
            step *= np.minimum(1.0, LONGEST_LOG_STEP / np.maximum(longest, 1e-300))[:, None]
        length = 1.0
        while len(active) and length > shortest:
            trial = state[active] + length * step
            with np.errstate(all="ignore"):  # a wild trial may overflow: it is then refused
                new_g, new_jacobian = problem.subset(active).equations(trial)
            count[active] += 1
            size = np.linalg.norm(new_g, axis=1)
            better = size < (1 - 1e-4 * length) * np.linalg.norm(g[active], axis=1)
            better &= np.isfinite(new_jacobian).all(axis=(1, 2))
            won = active[better]
            state[won], g[won], jacobian[won] = trial[better], new_g[better], new_jacobian[better]
            active, step = active[~better], step[~better]
            length *= 0.5
        alive[active] = False
    return state, np.abs(g).max(axis=1), count


def continuation(problem: Saddle, tolerance: float) -> Solved:
    """One problem by way of larger ridges, for the few on which Newton's cold start gets stuck.

    Under a ridge so large that w is small, the bias alone balances the classes. From there
    the ridge falls by factors (ten, less where a step fails) to its value, each solution,
    extrapolated, starting the next. Returns what `newton` does.
    """
    target = float(problem.ridge[0])
    size = problem.size  # of κ̂, what a ridge is added to
    ridge, floor = max(target, 1e4 * size), 1e-14 * size  # the floor stands for no ridge
    rung = replace(problem, ridge=np.array([ridge]))
    state, residual, count = newton(rung, rung.start_at_the_bias(), tolerance)
    slope, factor = np.zeros_like(state), 10.0  # ∂state/∂log ridge
    while residual[0] <= CERTIFIED and ridge > target and factor > 1.001:
        lower = max(ridge / factor, target) if ridge > floor else target
        drop = math.log(lower / ridge) if lower > 0 else 0.0
        rung = replace(problem, ridge=np.array([lower]))
        new, new_residual, more = newton(rung, state + slope * drop, tolerance)
        count = count + more
        if new_residual[0] <= CERTIFIED:
            slope = (new - state) / drop if drop else slope
            state, residual, ridge = new, new_residual, lower
            factor = min(10.0, factor * 2)
        else:
            factor = math.sqrt(factor)
    return state, residual if ridge == target else np.array([np.inf]), count


def population_minimum(problem: Saddle, tolerance: float) -> Solved:
    """One problem at α = ∞ as what it is, a convex minimisation; returns what `newton` does.

    Levenberg's steps must lower the objective E ℓ + (λ/2)‖w‖², which has no traps; ‖g‖ has, where
    no noise smooths a loss with kinks, or where both classes lie on straight pieces of it.
    """
    law, loss, ridge = problem.law, problem.loss, float(problem.ridge[0])

    def objective(wb: FloatArray) -> float:
        r = Point.noise_of(problem, wb, np.zeros(len(wb)))
        values = loss.mean_value(law.labels * (wb @ law.design.T), law.scales * r[:, None], 0.0)
        return float(values[0] @ law.weights + 0.5 * ridge * wb[0, :-1] @ wb[0, :-1])

    state = starting_point(problem)
    with np.errstate(all="ignore"):  # a wild trial may overflow: it is then refused
        value, damping, count = objective(state), 1e-12, 1
        for _ in range(10 * MOST_STEPS):
            g, jacobian = equations(problem, state)
            count += 1
            if np.abs(g).max() <= tolerance or damping > 1e6:
                break
            trial = state + _solve(jacobian + damping * np.eye(state.shape[1]), -g)
            trial_value = objective(trial)
            if trial_value < value:
                state, value, damping = trial, trial_value, max(0.1 * damping, 1e-14)
            else:
                damping *= 10.0
    state, residual, more = newton(problem, state, tolerance)
    return state, residual, count + more


def from_population(problem: Saddle, tolerance: float) -> Solved:
    """One problem by way of its population limit; returns what `newton` does.

    There the equations are those of a convex minimisation. With its ψ, χ = 1/(α(λ + κ̂)) and
    ρ² = αχ²E[σ²ψ²] complete a starting point that is close for many samples per dimension, also
    where little noise is left to smooth a loss with kinks.
    """
    law = problem.law
    limit = replace(problem, alpha=np.full(len(problem.alpha), np.inf))
    wb, _, first = population_minimum(limit, tolerance)
    nothing = np.zeros(len(wb))
    moments = Point(problem, wb, nothing, nothing).moments
    mass = law.weights * law.scales**2
    chi = 1.0 / (problem.alpha * (problem.ridge + np.maximum(moments.delta @ mass, 1e-300)))
    rho = chi * np.sqrt(problem.alpha * np.maximum(moments.psi_squared @ mass, 1e-300))
    state, residual, second = newton(
        problem, np.column_stack([wb, np.log(rho), np.log(chi)]), tolerance
    )
    return state, residual, first + second


def through_prevalence(problem: Saddle, tolerance: float) -> Solved:
    """One problem with very unequal classes by way of less unequal ones; as `newton` returns it.

    The rarer class's share falls by factors of four from 5 % to its own, each solution,
    extrapolated, starting the next: two or three dozen evaluations under a small ridge, where a
    cold start may get stuck. The residual is inf where classes are less unequal.
    """
    law, share = problem.law, min(problem.law.prevalence, 1 - problem.law.prevalence)
    if share > _RARE_SHARE / 4:
        return problem.start(), np.full(1, np.inf), np.zeros(1, dtype=np.intp)
    steps = math.ceil(math.log(_RARE_SHARE / share) / math.log(4.0))
    shares = np.geomspace(_RARE_SHARE, share, steps + 1)[:-1]
    prevalences = shares if law.prevalence < 0.5 else 1 - shares
    easier = (law.with_prevalence(float(prevalence)) for prevalence in prevalences)
    return _down_the_ladder(problem, chain(easier, [law]), tolerance)


def through_noise(problem: SeveralSaddle, tolerance: float) -> Solved:
    """One problem by way of others with more noise, for laws some of whose atoms have next to none.

    The first scale of every atom is raised to a part of their mean, which falls by factors of three
    to a millionth and then to nothing, each solution, extrapolated, starting the next.
    """
    size = math.sqrt(float(problem.mean_squares.max()))

    def noisier(law: FeatureLaw, part: float) -> FeatureLaw:
        scales = law.scales.copy()
        scales[:, 0] = np.hypot(scales[:, 0], part * size)
        return replace(law, scales=scales)

    rungs = (noisier(problem.law, part) for part in np.geomspace(0.5, 1e-6, 13))
    return _down_the_ladder(problem, chain(rungs, [problem.law]), tolerance)


def _down_the_ladder(problem: Saddle, laws: Iterable[FeatureLaw], tolerance: float) -> Solved:
    """The problem with one law after the other, each solution, extrapolated, starting the next; up
    to the first that is not solved. Returns what `newton` does, of the last."""
    count = np.zeros(1, dtype=np.intp)
    path: list[FloatArray] = []
    for law in laws:
        rung = replace(problem, law=law)
        start = 2 * path[-1] - path[-2:][0] if path else rung.start()
        state, residual, more = newton(rung, start, tolerance)
        count = count + more
        if not residual[0] <= CERTIFIED:
            break
        path.append(state)
    return state, residual, count


Route = Callable[[Any, float], Solved]


def other_routes(problem: Saddle) -> tuple[Route, ...]:
    """What to try, in this order, where Newton's cold start gets stuck."""
    if isinstance(problem, SeveralSaddle):
        return (through_noise, through_prevalence, continuation)
    if problem.population:
        return (population_minimum,)
    return (through_prevalence, from_population, continuation)


def _solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Solve each system; a singular one in the sense of least squares."""
    columns = right[..., None]
    try:
        solution = np.linalg.solve(matrix, columns)
    except np.linalg.LinAlgError:
        solution = np.linalg.pinv(matrix) @ columns
    return np.asarray(solution[..., 0], dtype=float)

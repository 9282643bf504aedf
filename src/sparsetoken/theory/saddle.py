r"""The scale-free equations of the fit and their exact derivatives; where to start solving them.

With χ = ρ/(√α t), V = σ²χ, Ψ = χψ (of order one however small λ is), r² = ρ² + Σ_noisy w_k² and
c = χE[σ²∂ψ/∂ω] = E[ΨσG]/r (Stein; the second form is the one differentiated, it needs no
third derivative of the loss), a solution of the saddle point in `asymptotics` has

    g_k = (α/r) (χλw_k + [noisy] c w_k + E[Ψm_k]) = 0       g_b = (α/r) σ̄ E[Ψ] = 0
    g_ρ = ½ log(α E[σ²Ψ²]/ρ²) = 0                            g_χ = log(α(χλ + c)) = 0

in the unknowns x = (w, b, log ρ, log χ), σ̄² = Eσ². The logarithms keep Newton on course over many
decades; without them g_ρ and g_χ are flat far from the solution. In the population limit α = ∞
(ρ = χ = 0, V = 0) only g_k and g_b are left, with ψ for Ψ.

Every function takes a batch of problems on one law: leading axis `problems`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.losses import Loss, balancing_bias
from sparsetoken.support.arrays import FloatArray, IntArray

_RARE, _STRONG = 0.01, 0.05  # share of a class and ridge with a cold start of their own
LEAST_NOISE = 1e-6  # r is kept above this where it vanishes: an error of its square


@dataclass(frozen=True, eq=False)
class Saddle:
    """Problems that share a law and a loss: ridge λ and n/p = α, shape (problems,) each."""

    law: FeatureLaw
    loss: Loss
    ridge: FloatArray
    alpha: FloatArray

    @property
    def population(self) -> bool:
        """Whether these are population limits, α = ∞: all problems of a batch are, or none."""
        return bool(np.isinf(self.alpha[0]))

    @property
    def logarithms(self) -> int:
        """How many of the unknowns are logarithms: the last."""
        return 0 if self.population else 2

    def subset(self, chosen: IntArray) -> Self:
        return replace(self, ridge=self.ridge[chosen], alpha=self.alpha[chosen])

    def equations(self, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals and their derivatives, as the function below has them."""
        return equations(self, state)

    @property
    def size(self) -> float:
        """What a ridge is added to: the features' variance."""
        return float(self.law.weights @ self.law.scales**2)

    @property
    def surrogate(self) -> Self:
        """One that resembles it: its solution, found quickly, is where to begin."""
        return self

    def norm(self, state: FloatArray) -> float:
        """‖w‖ of the solution of one problem, (1, unknowns)."""
        size = self.law.means.shape[1]
        rest = math.exp(state[0, size + 1]) if self.logarithms else 0.0
        return math.hypot(rest, *state[0, :size])

    def start(self) -> FloatArray:
        """A cold start."""
        return starting_point(self)

    def start_at_the_bias(self) -> FloatArray:
        """Another, for large ridges and very unequal classes."""
        return start_at_the_bias(self)


def square_solution(problem: Saddle) -> FloatArray:
    """The exact solution for the loss ½(1 − x)², in closed form but for the scalar χ.

    χ solves αχ(λ + E[σ²/(1+σ²χ)]) = 1: concave and increasing, so Newton from the lower bound
    1/(α(λ + Eσ²)) is monotone. Then (w, b) solve linear equations and ρ² follows.
    Returns x = (w, b, log ρ, log χ), shape (problems, K + 3).
    """
    law, ridge, alpha = problem.law, problem.ridge, problem.alpha
    p, square = law.weights, law.scales**2
    chi = 1.0 / (alpha * (ridge + p @ square))
    # monotone and quadratic; what it gives is certified by the residual, or is only a start
    for _ in range(100):
        shrink = 1.0 / (1.0 + square * chi[:, None])  # (problems, atoms)
        excess = 1.0 - alpha * chi * (ridge + shrink @ (p * square))
        step = excess / (alpha * (ridge + shrink**2 @ (p * square)))
        chi = chi + step
        if np.all(np.abs(step) <= 1e-15 * chi):
            break
    shrink = 1.0 / (1.0 + square * chi[:, None])
    wb = _linear_readout(problem, shrink)
    gap = wb @ law.design.T - law.labels  # ω − y without its noise
    signal = wb[:, :-1] ** 2 @ law.noisy
    factor = alpha * chi**2
    own = factor * (shrink**2 @ (p * square**2))
    rest = factor * ((shrink**2 * (gap**2 + square * signal[:, None])) @ (p * square))
    return np.column_stack([wb, 0.5 * np.log(rest / (1.0 - own)), np.log(chi)])


def _linear_readout(problem: Saddle, shrink: FloatArray) -> FloatArray:
    """(w, b) of the square loss given the factors 1/(1+V); shape (problems, K + 1)."""
    law, design = problem.law, problem.law.design
    weight = shrink * law.weights
    matrix = np.einsum("pa,ak,aj->pkj", weight, design, design, optimize=True)
    index = np.arange(len(law.noisy))
    matrix[:, index, index] += problem.ridge[:, None]
    matrix[:, index, index] += (weight @ law.scales**2)[:, None] * law.noisy
    return np.linalg.solve(matrix, ((weight * law.labels) @ design)[..., None])[..., 0]


def starting_point(problem: Saddle) -> FloatArray:
    """A cold start: the exact solution for a parabola that resembles the loss where it matters.

    The parabola (k/2)(x − T)² has the loss's slope and curvature at u = prox(0; V̄), the margin
    that a training point of score zero is pulled to. For it the square loss's closed form
    holds with λ/k: w, b, ρ scale by T, χ by 1/k. In the population limit, the minimiser of the
    square loss.
    """
    law, loss = problem.law, problem.loss
    if problem.population:
        return _linear_readout(problem, np.ones((len(problem.ridge), len(law.labels))))
    mean_square = law.weights @ law.scales**2
    margin = np.zeros(len(problem.alpha))
    for _ in range(3):  # each sees the last one's prox: closer is not worth a fourth
        slope, bend = loss.slope(margin), loss.curvature(margin)
        bend = np.where(bend > 0, bend, -slope / np.where(margin < 1, 1 - margin, 1.0))
        target = margin - slope / bend
        state = square_solution(Saddle(law, loss, problem.ridge / bend, problem.alpha))
        state[:, :-2] *= target[:, None]
        state[:, -2] += np.log(target)
        state[:, -1] -= np.log(bend)
        margin = loss.prox(0.0, mean_square * np.exp(state[:, -1]))
    held_down = problem.ridge > _STRONG * mean_square
    if min(law.prevalence, 1 - law.prevalence) > _RARE or not held_down.any():
        return state
    return np.where(held_down[:, None], start_at_the_bias(problem), state)


def start_at_the_bias(problem: Saddle) -> FloatArray:
    """Another cold start, for very unequal classes: the bias that balances them when w = 0, and the
    first-order answer of w, ρ and χ to it: two to six evaluations from there where the ridge is
    beyond `_STRONG` times the features' variance, instead of up to a thousand."""
    law, loss, ridge, alpha = problem.law, problem.loss, problem.ridge, problem.alpha
    p, square = law.weights, law.scales**2
    mean_square = float(p @ square)
    chi = 1.0 / (alpha * (ridge + 0.25 * mean_square))
    wb = np.zeros((len(alpha), len(law.noisy) + 1))
    wb[:, -1] = balancing_bias(loss, law.prevalence, 1 - law.prevalence, mean_square * chi)
    moments = Point(problem, wb, np.full(len(alpha), LEAST_NOISE), chi).moments
    kappa = moments.delta @ (p * square)
    chi = 1.0 / (alpha * (ridge + kappa))
    pulls = moments.psi @ ((p * law.labels)[:, None] * law.means)
    wb[:, :-1] = -pulls / (ridge[:, None] + law.noisy * kappa[:, None])
    rho = chi * np.sqrt(alpha * (moments.psi_squared @ (p * square)))
    return np.column_stack([wb, np.log(rho), np.log(chi)])


class Point:
    """One evaluation: the averages at a state, and how averages move with it."""

    def __init__(self, problem: Saddle, wb: FloatArray, rho: FloatArray, chi: FloatArray) -> None:
        law = problem.law
        self.noisy = law.noisy.astype(float)
        self.tilt = self.noisy * wb[:, :-1]  # w_k on noisy directions
        self.r = self.noise_of(problem, wb, rho)
        self.variance = law.scales**2 * chi[:, None]  # (problems, atoms)
        self.moments = problem.loss.moments(
            law.labels * (wb @ law.design.T), law.scales * self.r[:, None], self.variance
        )
        # ∂r/∂x for x = (w, b, log ρ, log χ)
        self.dr = np.zeros((len(wb), wb.shape[1] + 2))
        self.dr[:, : wb.shape[1] - 1] = self.tilt / self.r[:, None]
        self.dr[:, -2] = rho**2 / self.r
        self._problem = problem

    @staticmethod
    def noise_of(problem: Saddle, wb: FloatArray, rho: FloatArray) -> FloatArray:
        """r of every problem, kept above zero."""
        r = np.sqrt(rho**2 + wb[:, :-1] ** 2 @ problem.law.noisy)
        return np.maximum(r, LEAST_NOISE * (1.0 + np.abs(wb[:, :-1]).sum(axis=1)))

    def derivative(
        self, of: FloatArray, mean: FloatArray, noise: FloatArray, log_chi: FloatArray
    ) -> FloatArray:
        """Derivative of Σ_a of[a, f] E_a[F] in x; shape (problems, f, K + 3).

        The margin moves by ∂x = y·∂μ + σG·∂r, so E[∂F/∂x] (`mean`), E[G ∂F/∂x] (`noise`) and
        E[∂F/∂log χ] (`log_chi`), one number a problem and atom, are all it takes.
        """
        law, design = self._problem.law, self._problem.law.design
        result = ((noise * law.scales) @ of)[..., None] * self.dr[:, None, :]
        result[..., :-2] += ((mean * law.labels)[:, None, :] * of.T) @ design
        result[..., -1] += log_chi @ of
        return result


def _readout_rows(
    problem: Saddle, at: Point, w: FloatArray, unit: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """χλw_k + [noisy] c w_k + E[Ψm_k] and E[Ψ], their derivatives, c and its derivative.

    `unit` is χ, or 1 in the population limit.
    """
    law, m, x = problem.law, at.moments, unit[:, None]
    p, variance, r = law.weights, law.scales**2, at.r[:, None]
    psi, psi_delta = x * m.psi, x**2 * m.psi_delta  # Ψ, ΨD
    delta, delta_noise = x * m.delta, x * m.delta_noise  # D, DG

    c = delta @ (p * variance)
    by_log = x * m.psi_noise - variance * x**2 * m.psi_delta_noise
    along = at.derivative((p * law.scales)[:, None], delta_noise, x * m.delta_noise_squared, by_log)
    dc = (along[:, 0] - c[:, None] * at.dr) / r

    signed = (p * law.labels)[:, None] * law.design  # (atoms, K + 1)
    rows = psi @ signed
    jacobian = at.derivative(signed, delta, delta_noise, psi - variance * psi_delta)
    ridge = x * problem.ridge[:, None]
    k = np.arange(w.shape[1])
    rows[:, k] += ridge * w + c[:, None] * at.tilt
    jacobian[:, k, k] += ridge + c[:, None] * at.noisy
    jacobian[:, k] += at.tilt[:, :, None] * dc[:, None, :]
    jacobian[:, k, -1] += ridge * w
    return rows, jacobian, c, dc


def equations(problem: Saddle, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Residuals g (problems, K + 3) and their derivatives (problems, K + 3, K + 3).

    K + 1 in place of K + 3 in the population limit.
    """
    if problem.population:
        return _population_equations(problem, state)
    law, ridge, alpha = problem.law, problem.ridge, problem.alpha
    p, variance = law.weights, law.scales**2
    wb, rho, chi = state[:, :-2], np.exp(state[:, -2]), np.exp(state[:, -1])
    at = Point(problem, wb, rho, chi)
    rows, d_rows, c, dc = _readout_rows(problem, at, wb[:, :-1], chi)
    scale = np.repeat((alpha / at.r)[:, None], wb.shape[1], axis=1)
    scale[:, -1] *= np.sqrt(p @ variance)
    rows, d_rows = rows * scale, d_rows * scale[..., None]
    d_rows -= rows[..., None] * (at.dr / at.r[:, None])[:, None, :]

    x, m = chi[:, None], at.moments
    power = x**2 * m.psi_squared  # Ψ²
    total = power @ (p * variance)
    d_total = at.derivative(
        2 * (p * variance)[:, None],
        x**2 * m.psi_delta,
        x**2 * m.psi_delta_noise,
        power - variance * x**3 * m.psi_squared_delta,
    )[:, 0]
    g_rho = 0.5 * np.log(alpha * total / rho**2)
    d_rho = 0.5 * d_total / total[:, None]
    d_rho[:, -2] -= 1.0

    g_chi = np.log(alpha * (chi * ridge + c))
    dc[:, -1] += chi * ridge
    d_chi = dc / (chi * ridge + c)[:, None]
    g = np.column_stack([rows, g_rho, g_chi])
    return g, np.concatenate([d_rows, d_rho[:, None], d_chi[:, None]], axis=1)


def _population_equations(problem: Saddle, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same at α = ∞ for the state (w, b), relative to (λ + κ̂)(‖w‖ + 1/σ̄)."""
    nothing, one = np.zeros(len(state)), np.ones(len(state))
    at = Point(problem, state, nothing, nothing)
    rows, d_rows, c, _ = _readout_rows(problem, at, state[:, :-1], one)
    deviation = np.sqrt(problem.law.weights @ problem.law.scales**2)
    size = np.linalg.norm(state[:, :-1], axis=1) + 1.0 / deviation
    scale = np.repeat((1.0 / ((problem.ridge + c) * size))[:, None], state.shape[1], axis=1)
    scale[:, -1] *= deviation
    return rows * scale, d_rows[..., :-2] * scale[..., None]

r"""The equations of the fit where noise has several covariances, and where to start solving them.

For features f = Σ_k m_k d_k + Σ_j s_j Σ′_j^½ z_j (`model/geometry.py`), a readout w has the
coordinates M = Dᵀw, the variances r_j² = wᵀΣ′_jw and the score Σ m_kM_k + b + √(Σ s_j²r_j²) G. With
V = Σ s_j²χ_j, ψ = ℓ′(prox), κ_j = E[s_j²∂ψ] = E[s_j²ψG]/deviation (Stein; needs no third derivative
of the loss), e_k = −E[ψm_k], F_j = E[s_j²ψ²]/α, K = (λ + Σκ_jΣ_j)⁻¹ and t = e + Σ_j κ_j (M where
d_k is taken off Σ_j, else 0), the fitted one solves

    M = DᵀKDt,   E[ψ] = 0,   χ_j = tr̄[Σ_jK]/α,
    r_j² = tᵀDᵀKΣ_jKDt + Σ_i F_i tr̄[Σ_iKΣ_jK] − Σ_k (M_k² where d_k is taken off Σ_j).

The unknowns are (M, b, log r_j, log χ_j). Residuals are relative, so that nothing depends on how
small λ is: M to ‖d_k‖ times the size of w, the logarithms as they are. In the population limit
α = ∞ (χ_j = 0, F_j = 0) the last J unknowns and equations are gone. One covariance, white, with
orthonormal directions gives the equations of `saddle` back.

Every function takes a batch of problems on one law: leading axis `problems`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from sparsetoken.model.envelopes import Moments
from sparsetoken.model.geometry import Geometry, Kernel
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.losses import balancing_bias
from sparsetoken.support.arrays import FloatArray
from sparsetoken.theory.saddle import LEAST_NOISE, Saddle

_FLOOR = LEAST_NOISE**2  # of r_j², relative to the readout's size


@dataclass(frozen=True, eq=False)
class SeveralSaddle(Saddle):
    """Problems that share a law with a geometry."""

    @property
    def logarithms(self) -> int:
        """How many of the unknowns are logarithms: the last."""
        return (1 if self.population else 2) * self.geometry.covariances

    @property
    def geometry(self) -> Geometry:
        assert self.law.geometry is not None
        return self.law.geometry

    @property
    def mean_squares(self) -> FloatArray:
        """(J,), E s_j²."""
        return np.asarray(self.law.weights @ self.law.scales**2)

    def equations(self, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals (problems, unknowns) and their derivatives (problems, unknowns, unknowns)."""
        return equations(self, state)

    @property
    def size(self) -> float:
        """What a ridge is added to: the features' variance."""
        return float(self.mean_squares @ self.geometry.mean_variances)

    @property
    def surrogate(self) -> Self:
        """With a spectrum in place of matrices that do not commute."""
        geometry = self.geometry.surrogate
        if geometry is self.geometry:
            return self
        return replace(self, law=replace(self.law, geometry=geometry))

    def norm(self, state: FloatArray) -> float:
        """‖w‖ of the solution of one problem, (1, unknowns)."""
        at = Unknowns.of(self, state)
        averages = Averages(self, at)
        pull = averages.pulls + (averages.kappa @ taken_off(self.law)) * at.along
        square = self.geometry.norm_squared(
            float(self.ridge[0]), averages.kappa[0], pull[0], averages.power[0]
        )
        return float(np.sqrt(max(square, 0.0)))

    def start(self) -> FloatArray:
        """A cold start."""
        return starting_point(self)

    def start_at_the_bias(self) -> FloatArray:
        """Another, for large ridges and very unequal classes."""
        return start_at_the_bias(self)


class Unknowns(NamedTuple):
    """A batch of states, taken apart."""

    along: FloatArray  # (problems, K), M
    bias: FloatArray  # (problems,)
    noise: FloatArray  # (problems, J), r_j
    chi: FloatArray  # (problems, J)

    @classmethod
    def of(cls, problem: SeveralSaddle, state: FloatArray) -> Unknowns:
        size, count = problem.geometry.directions, problem.geometry.covariances
        noise = np.exp(state[:, size + 1 : size + 1 + count])
        chi = np.zeros_like(noise) if problem.population else np.exp(state[:, -count:])
        return cls(state[:, :size], state[:, size], noise, chi)


class Averages:
    """e, E ψ, κ and F at a state, (problems, K + 1 + 2J), and their derivatives in it."""

    def __init__(self, problem: SeveralSaddle, at: Unknowns) -> None:
        law = problem.law
        self._problem, self._at = problem, at
        self.square = law.scales**2  # (atoms, J)
        spread = at.noise**2 @ self.square.T
        size = 1.0 + np.abs(at.along) @ problem.geometry.lengths
        least = LEAST_NOISE * size[:, None] * np.sqrt(self.square.sum(axis=1).min())
        self.deviation = np.sqrt(np.maximum(spread, least**2))  # (problems, atoms)
        self.variance = at.chi @ self.square.T
        self.mean = at.along @ law.means.T + at.bias[:, None]
        self.moments: Moments = problem.loss.moments(
            law.labels * self.mean, self.deviation, self.variance
        )
        m, p = self.moments, law.weights
        pulls = -(m.psi @ ((p * law.labels)[:, None] * law.design))  # (problems, K + 1)
        self.pulls, self.imbalance = pulls[:, :-1], -pulls[:, -1]
        mass = p[:, None] * self.square
        self.kappa = (m.psi_noise / self.deviation) @ mass
        alpha = problem.alpha[:, None]
        self.power = (
            np.zeros_like(self.kappa) if problem.population else m.psi_squared @ mass / alpha
        )

    def derivatives(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Of e (problems, K, unknowns), of E ψ, of κ and of F (problems, J, unknowns)."""
        m, p, y, dev = (
            self.moments,
            self._problem.law.weights,
            self._problem.law.labels,
            self.deviation,
        )
        mass = p[:, None] * self.square
        signed = -(p * y)[:, None] * self._problem.law.design
        by_psi = self._chain(signed, m.delta, m.delta_noise, -m.psi_delta)
        ratio = m.psi_noise / dev
        by_kappa = self._chain(
            mass,
            m.delta_noise / dev,
            (m.delta_noise_squared - ratio) / dev,
            -m.psi_delta_noise / dev,
        )
        if self._problem.population:
            by_power = np.zeros_like(by_kappa)
        else:
            by_power = self._chain(
                mass, 2 * m.psi_delta, 2 * m.psi_delta_noise, -2 * m.psi_squared_delta
            )
            by_power /= self._problem.alpha[:, None, None]
        return by_psi[:, :-1], -by_psi[:, -1], by_kappa, by_power

    def _chain(
        self, of: FloatArray, mean: FloatArray, noise: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Derivative of Σ_a of[a, f] E_a[F] in the state; shape (problems, f, unknowns).

        From E[∂F/∂x] (`mean`), E[G ∂F/∂x] (`noise`) and E[∂F/∂V] (`variance`) of each atom: the
        margin is x = y·mean + deviation·G.
        """
        law, at = self._problem.law, self._at
        parts = [((mean * law.labels)[:, None, :] * of.T) @ law.design]
        by_noise = ((noise / self.deviation)[:, None, :] * of.T) @ self.square
        parts.append(by_noise * (at.noise**2)[:, None, :])
        if not self._problem.population:
            parts.append((variance[:, None, :] * of.T) @ self.square * at.chi[:, None, :])
        return np.concatenate(parts, axis=2)


def equations(problem: SeveralSaddle, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Residuals g and their derivatives, as in `SeveralSaddle.equations`."""
    at = Unknowns.of(problem, state)
    averages = Averages(problem, at)
    d_pulls, d_imbalance, d_kappa, d_power = averages.derivatives()
    taken = taken_off(problem.law)
    kernel = problem.geometry.kernel(problem.ridge, averages.kappa)
    size, count = at.along.shape[1], at.noise.shape[1]
    unknowns = state.shape[1]
    k, j = np.arange(size), np.arange(count)

    # t, M̂ = DᵀKDt and what moves them
    held = averages.kappa @ taken  # (problems, K), Σ_j κ_j where d_k is taken off
    pull = averages.pulls + held * at.along
    d_pull = d_pulls + np.einsum("pju,jk->pku", d_kappa, taken) * at.along[:, :, None]
    d_pull[:, k, k] += held
    along = np.einsum("pkl,pl->pk", kernel.gram, pull)
    by_kappa = -np.einsum("pjkl,pl->pjk", kernel.grams, pull)
    d_along = kernel.gram @ d_pull + np.einsum("pjk,pju->pku", by_kappa, d_kappa)

    # the size of the readout, in which residuals are measured
    mean_squares = problem.mean_squares
    weight = mean_squares * at.noise**2
    unit = 1.0 if problem.population else 0.0  # the margin: noise may vanish there
    score = np.sqrt(weight.sum(axis=1) + unit)
    d_log_score = np.zeros_like(state)
    d_log_score[:, size + 1 : size + 1 + count] = weight / score[:, None] ** 2
    lengths = np.where(problem.geometry.lengths > 0, problem.geometry.lengths, 1.0)
    lengths = lengths / np.sqrt(mean_squares @ problem.geometry.mean_variances)

    scale = 1.0 / (score[:, None] * lengths)
    g_along = (at.along - along) * scale
    d_g_along = -d_along
    d_g_along[:, k, k] += 1.0
    d_g_along = d_g_along * scale[..., None] - g_along[..., None] * d_log_score[:, None, :]

    traces = kernel.traces
    d_traces = -np.einsum("pij,piu->pju", kernel.pairs, d_kappa)
    reach = traces @ mean_squares
    g_bias = averages.imbalance * reach / score
    d_g_bias = d_imbalance * (reach / score)[:, None] - g_bias[:, None] * d_log_score
    d_g_bias += (
        np.einsum("pju,j->pu", d_traces, mean_squares) * (averages.imbalance / score)[:, None]
    )

    noise, d_noise = _noise(
        problem, kernel, pull, d_pull, along, d_along, averages, d_kappa, d_power
    )
    g_noise = np.log(at.noise) - 0.5 * np.log(noise)
    d_g_noise = -0.5 * d_noise / noise[..., None]
    d_g_noise[:, j, size + 1 + j] += 1.0

    residuals = [g_along, g_bias[:, None], g_noise]
    jacobian = [d_g_along, d_g_bias[:, None], d_g_noise]
    if not problem.population:
        d_g_chi = -d_traces / traces[..., None]
        d_g_chi[:, j, unknowns - count + j] += 1.0
        residuals.append(np.log(at.chi * problem.alpha[:, None] / traces))
        jacobian.append(d_g_chi)
    return np.concatenate(residuals, axis=1), np.concatenate(jacobian, axis=1)


def _noise(
    problem: SeveralSaddle,
    kernel: Kernel,
    pull: FloatArray,
    d_pull: FloatArray,
    along: FloatArray,
    d_along: FloatArray,
    averages: Averages,
    d_kappa: FloatArray,
    d_power: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """r_j² as the right side has it (problems, J), and its derivatives (problems, J, unknowns)."""
    taken = taken_off(problem.law)
    turned = np.einsum("pjkl,pl->pjk", kernel.grams, pull)
    noise = np.einsum("pjk,pk->pj", turned, pull) - along**2 @ taken.T
    noise += np.einsum("pi,pij->pj", averages.power, kernel.pairs)
    by_kappa = np.einsum("pijkl,pk,pl->pij", kernel.triples, pull, pull)
    by_kappa += np.einsum("pl,plij->pij", averages.power, kernel.cubes)
    d_noise = 2 * turned @ d_pull - 2 * np.einsum("jk,pk,pku->pju", taken, along, d_along)
    d_noise -= np.einsum("pij,piu->pju", by_kappa, d_kappa)
    d_noise += np.einsum("pij,piu->pju", kernel.pairs, d_power)
    size = (along / np.where(problem.geometry.lengths > 0, problem.geometry.lengths, 1.0)) ** 2
    least = _FLOOR * (
        size.sum(axis=1) + 1.0 / (problem.mean_squares @ problem.geometry.mean_variances)
    )
    floor = least[:, None] * problem.geometry.mean_variances
    if problem.population:  # nothing else keeps it above zero
        return np.maximum(noise, 0.0) + floor, d_noise
    return np.maximum(noise, 1e-8 * floor), d_noise


def taken_off(law: FeatureLaw) -> FloatArray:
    """(J, K), 1 where a direction is taken off a covariance."""
    return (~law.noisy).astype(float)


def square_solution(problem: SeveralSaddle) -> FloatArray:
    """The solution for the loss ½(1 − x)²: Newton for the χ_j, the rest linear; states.

    κ_j = E[s_j²/(1+V)] fixes K, and with it M and b; F_j is linear in the r_j².
    """
    law, geometry = problem.law, problem.geometry
    p, square = law.weights, law.scales**2
    taken = taken_off(law)
    log_chi = _square_susceptibilities(problem)
    chi = np.zeros_like(log_chi) if problem.population else np.exp(log_chi)
    shrink = 1.0 / (1.0 + chi @ square.T)  # (problems, atoms)
    weight = shrink * p
    kappa = weight @ square
    kernel = geometry.kernel(problem.ridge, kappa)
    design = law.design
    sums = np.einsum("pa,ak,al->pkl", weight, design, design, optimize=True)
    right = (weight * law.labels) @ design  # (problems, K + 1)
    size = geometry.directions
    k = np.arange(size)
    held = kappa @ taken
    pull = -sums[:, :size].copy()  # t = right + pull (M, b)
    pull[:, k, k] += held
    matrix = sums.copy()
    matrix[:, :size] = -kernel.gram @ pull
    matrix[:, k, k] += 1.0
    column = right[..., None].copy()
    column[:, :size] = kernel.gram @ right[:, :size, None]
    wb = np.linalg.solve(matrix, column)[..., 0]
    along = wb[:, :size]
    t = right[:, :size] + np.einsum("pkl,pl->pk", pull, wb)
    noise = np.einsum("pjkl,pk,pl->pj", kernel.grams, t, t) - along**2 @ taken.T
    noise = np.maximum(noise, 0.0)
    if not problem.population:
        gap = wb @ design.T - law.labels
        twice = weight * shrink / problem.alpha[:, None]
        fixed = (twice * gap**2) @ square
        own = np.einsum("pa,ai,aj->pij", twice, square, square, optimize=True)
        across = np.swapaxes(kernel.pairs, 1, 2)
        total = noise + np.einsum("pji,pi->pj", across, fixed)
        matrix = np.eye(len(taken)) - across @ own
        noise = np.linalg.solve(matrix, total[..., None])[..., 0]
    size_of_one = 1.0 / (problem.mean_squares @ geometry.mean_variances)
    noise = np.maximum(noise, _FLOOR * size_of_one)
    parts = [wb, 0.5 * np.log(noise)]
    return np.concatenate(parts if problem.population else [*parts, log_chi], axis=1)


def _square_susceptibilities(problem: SeveralSaddle) -> FloatArray:
    """log χ_j of the square loss, by Newton from below: what the fit is certified by is another."""
    law, geometry, alpha = problem.law, problem.geometry, problem.alpha[:, None]
    p, square = law.weights, law.scales**2
    mean_squares = np.broadcast_to(problem.mean_squares, (len(problem.ridge), square.shape[1]))
    traces = geometry.kernel(problem.ridge, mean_squares).traces
    if problem.population:
        return np.zeros_like(traces)
    least = np.log(np.maximum(traces, 1e-300) / alpha)
    state = least.copy()
    j = np.arange(square.shape[1])
    for _ in range(60):
        chi = np.exp(state)
        shrink = 1.0 / (1.0 + chi @ square.T)
        kernel = geometry.kernel(problem.ridge, (shrink * p) @ square)
        gap = state - np.log(np.maximum(kernel.traces, 1e-300) / alpha)
        moved = np.einsum("pa,ai,aj->pij", shrink**2 * p, square, square, optimize=True)
        moved = -moved * chi[:, None, :]  # of κ_i with log χ_j
        slope = np.einsum("pij,pil->pjl", kernel.pairs, moved) / kernel.traces[..., None]
        slope[:, j, j] += 1.0
        step = -np.linalg.solve(slope, gap[..., None])[..., 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        state = np.maximum(state + step * np.minimum(1.0, 4.0 / np.maximum(longest, 1e-300)), least)
        if longest.max() < 1e-12:
            break
    return state


def starting_point(problem: SeveralSaddle) -> FloatArray:
    """A cold start: the solution for a parabola that resembles the loss where it matters.

    As for one white covariance (`saddle.starting_point`): (k/2)(x − T)² has the loss's slope and
    curvature at the margin that a training point of score zero is pulled to.
    """
    problem = problem.surrogate
    law, loss = problem.law, problem.loss
    if problem.population:
        return square_solution(problem)
    size, count = problem.geometry.directions, problem.geometry.covariances
    margin = np.zeros(len(problem.alpha))
    for _ in range(3):
        slope, bend = loss.slope(margin), loss.curvature(margin)
        bend = np.where(bend > 0, bend, -slope / np.where(margin < 1, 1 - margin, 1.0))
        target = margin - slope / bend
        state = square_solution(SeveralSaddle(law, loss, problem.ridge / bend, problem.alpha))
        state[:, : size + 1] *= target[:, None]
        state[:, size + 1 : size + 1 + count] += np.log(target)[:, None]
        state[:, -count:] -= np.log(bend)[:, None]
        margin = loss.prox(0.0, np.exp(state[:, -count:]) @ problem.mean_squares)
    return state


def start_at_the_bias(problem: SeveralSaddle) -> FloatArray:
    """Another cold start, for very unequal classes and large ridges: the bias that balances the
    classes when w = 0, and the first-order answer of the rest to it."""
    law, geometry, alpha = problem.law, problem.geometry, problem.alpha[:, None]
    size, count = geometry.directions, geometry.covariances
    mean_squares = np.broadcast_to(problem.mean_squares, (len(problem.ridge), count))
    traces = geometry.kernel(problem.ridge, 0.25 * mean_squares).traces
    chi = np.zeros_like(traces) if problem.population else traces / alpha
    state = np.zeros((len(problem.ridge), size + 1 + problem.logarithms))
    state[:, size] = balancing_bias(
        problem.loss, law.prevalence, 1 - law.prevalence, chi @ problem.mean_squares
    )
    unit = 1.0 / (problem.mean_squares @ geometry.mean_variances)
    state[:, size + 1 : size + 1 + count] = 0.5 * np.log(_FLOOR * unit)
    if not problem.population:
        state[:, -count:] = np.log(np.maximum(chi, 1e-300))
    averages = Averages(problem, Unknowns.of(problem, state))
    kernel = geometry.kernel(problem.ridge, averages.kappa)
    held = averages.kappa @ taken_off(law)
    matrix = -kernel.gram * held[:, None, :]
    matrix[:, np.arange(size), np.arange(size)] += 1.0
    along = np.linalg.solve(matrix, kernel.gram @ averages.pulls[..., None])[..., 0]
    pull = averages.pulls + held * along
    noise = np.einsum("pjkl,pk,pl->pj", kernel.grams, pull, pull) - along**2 @ taken_off(law).T
    noise += np.einsum("pi,pij->pj", averages.power, kernel.pairs)
    state[:, :size] = along
    state[:, size + 1 : size + 1 + count] = 0.5 * np.log(np.maximum(noise, _FLOOR * unit))
    if not problem.population:
        state[:, -count:] = np.log(np.maximum(kernel.traces, 1e-300) / alpha)
    return state

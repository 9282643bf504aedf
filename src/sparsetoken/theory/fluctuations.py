r"""How far one training set's readout is from the limit: fluctuations of order 1/√n.

The limit of `asymptotics` is the saddle point of

    S(w, b, ρ, χ) = E M(ω; σ²χ) − ρ²/(2αχ) + (λ/2)(Σw_k² + ρ²).

Adding sources J·O, O = (w_k, b, ρ²/2), to what is minimised makes every O a derivative of the
minimum Φ(J). So the covariance of the O over training sets is ∂²/∂J∂J′ of Cov(Φ(J), Φ(J′)), where
the sources act through the solution alone: dx/dJ = −H⁻¹ ∂O/∂x, H the Hessian of S. Two things are
random.

*The coordinates* (y, m, σ) of the samples: to first order Φ is an average of M̄ = E_G M over them,
so they contribute (1/n) Cov(∂M̄, ∂M̄).

*The Gaussian noise* z: Cov(F, F′) = ∫₀¹ E⟨∇F(z), ∇F′(z_t)⟩ dt, z_t of correlation t with z, and
∂Φ/∂z_i = (1/n) σ_iψ_i w. So it contributes (1/n) ∂∂′ ∫₀¹ C(t)R(t) dt, with the overlaps of two
readouts fitted to noise of correlation t and to the same coordinates,

    R = Q + Σ_noisy w_k w_k′,   C = E[σ²ψψ′] at noise of correlation κ = tR/(rr′),   Q = tαχχ′C,

one scalar equation for Q at each t. In Hermite polynomials C = Σ_j κ^j E[σ²ψ_jψ_j′].

Checked against simulation (tests/theory/test_fluctuations.py): standard deviations of w, b, ρ and
of the test error within a few percent at d = 200, n from d/2 up, down to a handful of positives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sparsetoken.model.law import FeatureLaw
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError
from sparsetoken.theory.fit import Fit
from sparsetoken.theory.saddle import LEAST_NOISE

# Quadrature: equidistant nodes of the noise (the more the fewer atoms there are to blur a kink),
# Hermite polynomials, nodes in t. Twice as many change standard deviations by 2 % at most, with
# losses that have kinks (tests/theory/test_fluctuations.py); they are wanted to some percent.
NODES, MANY_NODES, FEW_ATOMS = 80, 320, 64
_ORDERS, _TIMES, _REACH = 20, 8, 10.0
_LEGENDRE, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(_TIMES)
TIME = 0.5 * (_LEGENDRE + 1), 0.5 * _LEGENDRE_WEIGHTS  # nodes and weights in t from 0 to 1
_LEAST_RESOLVED = 10 * LEAST_NOISE


def readout_covariance(fit: Fit, within_classes: bool = False) -> FloatArray:
    """n times the covariance of (w_1, …, w_K, b, log ρ) over training sets; (K + 2, K + 2).

    `within_classes`: over training sets with the same number of positives.

    >>> from sparsetoken import Pooled, Square, Task, solve
    >>> fit = solve(Pooled().law(Task(10, 1, 5.0)), Square(), ridge=0.1, samples_per_dim=4.0)
    >>> np.sqrt(np.diag(readout_covariance(fit)) / 800).round(3).tolist()
    [0.03, 0.031, 0.047]
    """
    law = fit.law.compressed
    directions = len(law.noisy)
    if math.isinf(fit.samples_per_dim):  # as many samples as one likes: nothing fluctuates
        return np.zeros((directions + 2, directions + 2))
    fit, shrunk = resolved(fit, float(fit.noise))
    response = _response(fit, law)
    averages = _averages(fit, law, response, within_classes)
    covariance = averages.coordinates + _noise_part(fit, law, response, averages)
    scale = np.ones(directions + 2)
    scale[:directions] = shrunk
    scale[-1] = fit.rest**2  # ρ²/2 moves by ρ² times what log ρ moves
    return covariance / np.outer(scale, scale)


def resolved(fit: Fit, noise: float) -> tuple[Fit, float]:
    """The fit, or one with less ridge whose noise the equations resolve; the ratio of the two.

    Where a vast ridge leaves scores of size r ≪ 1 around the bias, losses are straight: w, ρ and χ
    go like 1/λ, the bias stays, and so do log ρ and the bias's fluctuations.
    """
    ratio = _LEAST_RESOLVED / max(noise, 1e-300)
    if ratio <= 1:
        return fit, 1.0
    larger = replace(
        fit,
        ridge=fit.ridge / ratio,
        weights=fit.weights * ratio,
        rest=fit.rest * ratio,
        susceptibility=fit.susceptibility * ratio,
    )
    return larger, ratio


@dataclass(frozen=True, eq=False)
class _Response:
    """How the solution moves with each source: dx/dJ, one column a source; A = K + 2 sources."""

    weights: FloatArray  # (K, A)
    bias: FloatArray  # (A,)
    rest: FloatArray  # (A,), of ρ
    susceptibility: FloatArray  # (A,), of χ
    noise: FloatArray  # (A,), of r


def _response(fit: Fit, law: FeatureLaw) -> _Response:
    """From the Jacobian of the scale-free equations, whose rows are gradients of S, rescaled."""
    _, jacobians = fit.problem(law).equations(fit.state[None])
    size = len(law.noisy)
    rho, chi, alpha = fit.rest, fit.susceptibility, fit.samples_per_dim
    r = fit.noise
    deviation = math.sqrt(float(law.weights @ law.scales**2))
    # g_k = (αχ/r) ∂S/∂w_k,  g_b = (αχσ̄/r) ∂S/∂b,  g_ρ = −(αχ²/ρ²) ∂S/∂χ,  g_χ = (αχ/ρ) ∂S/∂ρ
    rows = np.full(size + 3, r / (alpha * chi))
    rows[size] /= deviation
    rows[-2:] = -(rho**2) / (alpha * chi**2), rho / (alpha * chi)
    hessian = jacobians[0] * rows[:, None]
    hessian[:, -2:] /= rho, chi  # the solver's unknowns are log ρ and log χ
    hessian[[-2, -1]] = hessian[[-1, -2]]
    sources = np.zeros((size + 3, size + 2))
    sources[: size + 1, : size + 1] = np.eye(size + 1)
    sources[size + 1, size + 1] = rho
    moved = -np.linalg.solve(hessian, sources)
    weights, rest = moved[:size], moved[size + 1]
    noise = ((law.noisy * fit.weights) @ weights + rho * rest) / r
    return _Response(weights, moved[size], rest, moved[size + 2], noise)


class _Averages(NamedTuple):
    """Averages over the law that both parts of the covariance are made of."""

    coordinates: FloatArray  # (A, A), Cov(∂M̄, ∂M̄)
    overlap: FloatArray  # (orders,), E[σ²ψ_j²]
    moved: FloatArray  # (A, orders), E[σ²ψ_j ∂ψ_j]
    both_moved: FloatArray  # (A, A, orders), E[σ²∂ψ_j ∂ψ_j]


def _averages(fit: Fit, law: FeatureLaw, response: _Response, within_classes: bool) -> _Averages:
    nodes, weights, hermite = gauss(NODES if len(law.labels) > FEW_ATOMS else MANY_NODES)
    scales, square = law.scales[:, None], law.scales**2
    margin = law.labels * (law.means @ fit.weights + fit.bias)
    variance = np.broadcast_to((square * fit.susceptibility)[:, None], (len(margin), len(nodes)))
    u = fit.loss.prox(margin[:, None] + scales * fit.noise * nodes, variance)
    psi, bend = fit.loss.slope(u), fit.loss.curvature(u)
    delta = bend / (1 + variance * bend)
    # how margins, their noise and V move: ∂ψ = δ(∂margin + σG∂r − σ²ψ∂χ)
    by_margin = law.labels[:, None] * (law.means @ response.weights + response.bias)  # (atoms, A)
    by_noise = scales * response.noise
    by_variance = square[:, None] * response.susceptibility
    mean = psi @ weights
    envelope = (
        mean[:, None] * by_margin
        + (psi @ (weights * nodes))[:, None] * by_noise
        - 0.5 * (psi**2 @ weights)[:, None] * by_variance
    )  # ∂M̄, (atoms, A)
    for side in (law.labels > 0, law.labels < 0) if within_classes else (slice(None),):
        share = law.weights[side] / law.weights[side].sum()
        envelope[side] -= share @ envelope[side]
    basis = hermite.T * weights[:, None]  # (nodes, orders)
    coefficients = psi @ basis
    moves = (
        by_margin[..., None] * (delta @ basis)[:, None]
        + by_noise[..., None] * ((delta * nodes) @ basis)[:, None]
        - by_variance[..., None] * ((delta * psi) @ basis)[:, None]
    )  # ∂ψ_j, (atoms, A, orders)
    mass = law.weights * square
    return _Averages(
        coordinates=(envelope.T * law.weights) @ envelope,
        overlap=mass @ coefficients**2,
        moved=np.einsum("nj,naj->aj", mass[:, None] * coefficients, moves),
        both_moved=np.einsum("naj,nbj->abj", mass[:, None, None] * moves, moves, optimize=True),
    )


def _noise_part(fit: Fit, law: FeatureLaw, response: _Response, averages: _Averages) -> FloatArray:
    """∂∂′ ∫₀¹ C R dt, by differentiating the equation for Q once in each argument."""
    r, chi, alpha = fit.noise, fit.susceptibility, fit.samples_per_dim
    noisy = law.noisy.astype(float)
    turn = response.noise / r
    # products of one factor a side: value, derivative on one side, mixed derivative
    gain = alpha * chi**2
    gain_1 = alpha * chi * response.susceptibility
    gain_12 = alpha * np.outer(response.susceptibility, response.susceptibility)
    explicit = float(noisy @ fit.weights**2)
    explicit_1 = (noisy * fit.weights) @ response.weights
    explicit_12 = (response.weights.T * noisy) @ response.weights
    t, weights = TIME  # the last axis of what follows, (T,)
    rest = _rest_overlap(averages.overlap, t * gain, t / r**2, explicit)
    kappa = t * (rest + explicit) / r**2
    powers = powers_of(kappa)
    c, c_k, c_kk = averages.overlap @ powers
    c_1, c_1k = averages.moved @ powers[0], averages.moved @ powers[1]  # (A, T)
    c_12 = averages.both_moved @ powers[0]  # (A, A, T)
    slack = 1 - t * gain * c_k * t / r**2
    # once: κ₁ = tR₁/r² − κ r₁/r and Q₁ = t(gain₁C + gain(C₁ + C_κκ₁))
    still = t * explicit_1[:, None] / r**2 - kappa * turn[:, None]
    rest_1 = t * (gain_1[:, None] * c + gain * (c_1 + c_k * still)) / slack
    kappa_1 = t * rest_1 / r**2 + still
    c_1_total, both_1 = c_1 + c_k * kappa_1, rest_1 + explicit_1[:, None]
    # once on each side
    still = t * explicit_12[..., None] / r**2 + kappa * np.outer(turn, turn)[..., None]
    still -= both(t * both_1 / r**2, turn[:, None])
    bent = c_12 + both(c_1k, kappa_1) + 0.5 * c_kk * both(kappa_1, kappa_1)
    rest_12 = (
        gain_12[..., None] * c + both(gain_1[:, None], c_1_total) + gain * (bent + c_k * still)
    )
    rest_12 *= t / slack
    c_12_total = bent + c_k * (t * rest_12 / r**2 + still)
    total = c_12_total * (rest + explicit) + both(c_1_total, both_1)
    return np.asarray((total + c * (rest_12 + explicit_12[..., None])) @ weights)


def both(left: FloatArray, right: FloatArray) -> FloatArray:
    """A product rule's two mixed terms, (A, A, T)."""
    product = left[:, None] * right
    return product + product.swapaxes(0, 1)


def _rest_overlap(
    overlap: FloatArray, gain: FloatArray, per: FloatArray, explicit: float
) -> FloatArray:
    """Q = gain·C(per·(Q + explicit)): C is convex and increasing in κ (its coefficients are
    positive), so Newton from 0 rises monotonely to the smaller root; 60 steps are far more than
    a quadratic method needs."""
    rest = np.zeros_like(gain)
    for _ in range(60):
        c, c_k, _ = overlap @ powers_of(per * (rest + explicit))
        step = (gain * c - rest) / (1 - gain * per * c_k)
        rest = rest + step
        if np.all(np.abs(step) <= 1e-12 * np.abs(rest)):
            return rest
    raise ConvergenceError(
        f"fluctuations: the overlap is {rest.max():g} after 60 steps, the last {step.max():.1e}"
    )


def powers_of(kappa: FloatArray) -> FloatArray:
    """κ^j and its first two derivatives, (3, orders, T)."""
    j = np.arange(_ORDERS)[:, None]
    return np.array([
        kappa**j,
        j * kappa ** np.maximum(j - 1, 0),
        j * (j - 1) * kappa ** np.maximum(j - 2, 0),
    ])  # fmt: skip


@lru_cache(maxsize=4)
def gauss(count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Nodes and weights of N(0, 1), and Hermite polynomials there, orthonormal, (orders, nodes)."""
    nodes = np.linspace(-_REACH, _REACH, count)
    weights = np.exp(-0.5 * nodes**2)
    hermite = [np.ones(count), nodes]
    for j in range(1, _ORDERS - 1):
        hermite.append((nodes * hermite[j] - math.sqrt(j) * hermite[j - 1]) / math.sqrt(j + 1))
    return nodes, weights / weights.sum(), np.array(hermite)

r"""`fluctuations` where noise has several covariances.

The limit of `several` is the saddle point, in (M, b, r_j, χ_j, t, κ_j, F_j), of

    S = E M(ω; V) + ⟨t, M⟩ − ½ Σ_j κ_j (r_j² + Σ_k M_k² where d_k is taken off Σ_j)
        + (α/2) Σ_j F_jχ_j − ½ tᵀDᵀKDt − ½ Σ_j F_j tr̄[Σ_jK],    K = (λ + Σ κ_jΣ_j)⁻¹,

the last two terms being what is left of (λ/2)‖w‖² when w is minimised over the rest. Sources of
O = (M_k, b, r_j²/2) change t_k to t_k − J_k, E ψ = 0 to E ψ + J_b = 0, κ_j to κ_j + J_j and nothing
else of its equations. As there, the covariance of the O over training sets is that of ∂M̄, from the
coordinates (y, m, s) of the samples, and from their noise

    (1/n) ∂∂′ ∫₀¹ Σ_j C_j(t)R_j(t) dt

with the overlaps of two readouts fitted to noise of correlation t and to the same coordinates,

    R_j = wᵀΣ′_jw′ = tᵀDᵀKΣ_jK′Dt′ + (t/α) Σ_i C_i tr̄[Σ_iKΣ_jK′] − Σ_k M_kM_k′ where taken off,
    C_j = E[s_j²ψψ′] where scores of an atom have the correlation κ = t Σ s_j²R_j/(σσ′), with
    σ² = Σ s_j²r_j².

One covariance, white, gives `fluctuations` back (tests/theory/test_several_fluctuations.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparsetoken.model.law import FeatureLaw
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError
from sparsetoken.theory.fit import Fit
from sparsetoken.theory.fluctuations import (
    FEW_ATOMS,
    MANY_NODES,
    NODES,
    TIME,
    both,
    gauss,
    powers_of,
    resolved,
)
from sparsetoken.theory.several import Averages, SeveralSaddle, Unknowns, taken_off


def readout_covariance(fit: Fit, within_classes: bool = False) -> FloatArray:
    """n times the covariance of (M_1, …, M_K, b, log r_1, …, log r_J) over training sets.

    `within_classes`: over training sets with the same number of positives.
    """
    law = fit.law.compressed
    count, directions = law.noisy.shape
    size = directions + 1 + count
    if np.isinf(fit.samples_per_dim):
        return np.zeros((size, size))
    noise = np.asarray(fit.noise)
    fit, shrunk = resolved(fit, float(np.sqrt(law.weights @ law.scales**2 @ noise**2)))
    response = _response(fit, law)
    averages = _averages(fit, law, response, within_classes)
    covariance = averages.coordinates + _noise_part(fit, law, response, averages)
    scale = np.ones(size)
    scale[:directions] = shrunk
    scale[directions + 1 :] = np.asarray(fit.noise) ** 2  # r²/2 moves by r² times what log r moves
    return covariance / np.outer(scale, scale)


@dataclass(frozen=True, eq=False)
class _Response:
    """The solution, and how it moves with each source, one column each; A = K + 1 + J sources."""

    along: FloatArray  # (K, A), of M
    bias: FloatArray  # (A,)
    noise: FloatArray  # (J, A), of r_j
    chi: FloatArray  # (J, A)
    pull: FloatArray  # (K,), t
    pull_moved: FloatArray  # (K, A)
    kappa: FloatArray  # (J,), with the sources in it
    kappa_moved: FloatArray  # (J, A)


def _response(fit: Fit, law: FeatureLaw) -> _Response:
    """By the derivatives of the equations of `several`, with the sources in them."""
    problem = fit.problem(law)
    assert isinstance(problem, SeveralSaddle)
    geometry = problem.geometry
    at = Unknowns.of(problem, fit.state[None])
    averages = Averages(problem, at)
    d_pulls, d_imbalance, d_kappa, d_power = (part[0] for part in averages.derivatives())
    kernel, taken = geometry.kernel(problem.ridge, averages.kappa), taken_off(law)
    gram, grams, triples, traces, pairs, cubes = (part[0] for part in kernel)
    (m,), (r,), (chi,) = at.along, at.noise, at.chi
    kappa, power = averages.kappa[0], averages.power[0]
    size, count = len(m), len(r)
    unknowns, sources = size + 1 + 2 * count, size + 1 + count
    k, j = np.arange(size), np.arange(count)
    logs, last = slice(size + 1, sources), slice(sources, unknowns)
    # pull t and κ by the unknowns (M, b, log r, log χ), then by the sources
    kappa_moved = np.hstack([d_kappa, np.zeros((count, sources))])
    kappa_moved[j, unknowns + size + 1 + j] = 1.0
    pull = averages.pulls[0] + (kappa @ taken) * m
    pull_moved = np.hstack([d_pulls, np.zeros((size, sources))])
    pull_moved += (taken.T @ kappa_moved) * m[:, None]
    pull_moved[k, k] += kappa @ taken
    pull_moved[k, unknowns + k] -= 1.0
    power_moved = np.hstack([d_power, np.zeros((count, sources))])
    # residuals: M − DᵀKDt, E ψ + J_b, r_j² − …, log χ_j − log tr̄[Σ_jK]/α
    rows = np.zeros((unknowns, unknowns + sources))
    rows[:size] = np.einsum("jkl,l,ju->ku", grams, pull, kappa_moved) - gram @ pull_moved
    rows[k, k] += 1.0
    rows[size, :unknowns], rows[size, unknowns + size] = d_imbalance, 1.0
    turned = grams @ pull  # (J, K)
    by_kappa = np.einsum("jikl,k,l->ji", triples, pull, pull)
    by_kappa += np.einsum("l,lij->ji", power, cubes)
    rows[logs] = by_kappa @ kappa_moved - 2 * turned @ pull_moved - pairs.T @ power_moved
    rows[logs, :size] += 2 * taken * m
    rows[size + 1 + j, size + 1 + j] += 2 * r**2
    rows[last] = (pairs @ kappa_moved) / traces[:, None]
    rows[sources + j, sources + j] += 1.0
    moved = -np.linalg.solve(rows[:, :unknowns], rows[:, unknowns:])  # (unknowns, A)
    kappa_total = kappa_moved[:, :unknowns] @ moved + kappa_moved[:, unknowns:]
    pull_total = pull_moved[:, :unknowns] @ moved + pull_moved[:, unknowns:]
    return _Response(
        np.asarray(moved[:size]), np.asarray(moved[size]), r[:, None] * moved[logs],
        chi[:, None] * moved[last], pull, pull_total, kappa, kappa_total,
    )  # fmt: skip


class _Averages(NamedTuple):
    """What both parts of the covariance are made of."""

    coordinates: FloatArray  # (A, A), Cov(∂M̄, ∂M̄)
    mass: FloatArray  # (J, atoms), probability times s_j²
    spread: FloatArray  # (atoms,), σ
    turn: FloatArray  # (A, atoms), ∂σ/σ
    overlap: FloatArray  # (atoms, orders), ψ_n²
    moved: FloatArray  # (A, atoms, orders), ψ_n ∂ψ_n
    moves: FloatArray  # (A, atoms, orders), ∂ψ_n


def _averages(fit: Fit, law: FeatureLaw, response: _Response, within_classes: bool) -> _Averages:
    nodes, weights, hermite = gauss(NODES if len(law.labels) > FEW_ATOMS else MANY_NODES)
    square, noise = law.scales**2, np.asarray(fit.noise)
    spread = law.deviations(noise)
    reach = law.variances(np.asarray(fit.susceptibility))
    margin = law.labels * (law.means @ fit.weights + fit.bias)
    variance = np.broadcast_to(reach[:, None], (len(margin), len(nodes)))
    u = fit.loss.prox(margin[:, None] + spread[:, None] * nodes, variance)
    psi, bend = fit.loss.slope(u), fit.loss.curvature(u)
    delta = bend / (1 + variance * bend)
    # how margins, their noise and V move: ∂ψ = δ(∂margin + G∂σ − ψ∂V)
    by_margin = law.labels * (law.means @ response.along + response.bias).T  # (A, atoms)
    by_noise = ((noise[:, None] * response.noise).T @ square.T) / spread
    by_variance = response.chi.T @ square.T
    envelope = (
        by_margin * (psi @ weights)
        + by_noise * (psi @ (weights * nodes))
        - 0.5 * by_variance * (psi**2 @ weights)
    )
    for side in (law.labels > 0, law.labels < 0) if within_classes else (slice(None),):
        share = law.weights[side] / law.weights[side].sum()
        envelope[:, side] -= (envelope[:, side] @ share)[:, None]
    basis = hermite.T * weights[:, None]  # (nodes, orders)
    coefficients = psi @ basis
    moves = (
        by_margin[..., None] * (delta @ basis)
        + by_noise[..., None] * ((delta * nodes) @ basis)
        - by_variance[..., None] * ((delta * psi) @ basis)
    )
    return _Averages(
        coordinates=(envelope * law.weights) @ envelope.T,
        mass=(law.weights[:, None] * square).T,
        spread=spread,
        turn=by_noise / spread,
        overlap=coefficients**2,
        moved=coefficients * moves,
        moves=moves,
    )


class _Fixed(NamedTuple):
    """What of the R_j does not depend on them, and what the C_i bring, with derivatives."""

    explicit: FloatArray  # (J,), tᵀDᵀKΣ_jK′Dt′ less what is taken off
    explicit_1: FloatArray  # (J, A)
    explicit_12: FloatArray  # (J, A, A)
    gain: FloatArray  # (J, J), tr̄[Σ_iKΣ_jK′]/α
    gain_1: FloatArray  # (J, J, A)
    gain_12: FloatArray  # (J, J, A, A)


def _fixed(fit: Fit, law: FeatureLaw, response: _Response) -> _Fixed:
    assert law.geometry is not None
    taken, t, dt, dk = taken_off(law), response.pull, response.pull_moved, response.kappa_moved
    two = law.geometry.two_kernels(fit.ridge, response.kappa)
    turned = two.grams @ t  # (J, K)
    explicit = turned @ t - taken @ fit.weights**2
    once = np.einsum("ajkl,k->ajl", two.grams_once, t)  # tᵀDᵀKΣ_aKΣ_jKD
    explicit_1 = turned @ dt - np.einsum("aj,as->js", once @ t, dk)
    explicit_1 -= (taken * fit.weights) @ response.along
    crossed = np.einsum("ajl,as,lu->jsu", once, dk, dt, optimize=True)
    explicit_12 = np.einsum("jkl,ks,lu->jsu", two.grams, dt, dt, optimize=True)
    explicit_12 -= crossed + crossed.swapaxes(1, 2)
    by_both = np.einsum("abjkl,k,l->abj", two.grams_twice, t, t, optimize=True)
    explicit_12 += np.einsum("abj,as,bu->jsu", by_both, dk, dk, optimize=True)
    explicit_12 -= np.einsum("jk,ks,ku->jsu", taken, response.along, response.along)
    alpha = fit.samples_per_dim
    gain_1 = -np.einsum("aij,as->ijs", two.pairs_once, dk) / alpha
    gain_12 = np.einsum("abij,as,bu->ijsu", two.pairs_twice, dk, dk, optimize=True) / alpha
    return _Fixed(explicit, explicit_1, explicit_12, two.pairs / alpha, gain_1, gain_12)


def _noise_part(fit: Fit, law: FeatureLaw, response: _Response, averages: _Averages) -> FloatArray:
    """∂∂′ ∫₀¹ Σ C_jR_j dt, by differentiating the equations for R once in each argument."""
    fixed = _fixed(fit, law, response)
    total = np.zeros_like(averages.coordinates)
    rest = np.zeros(len(fixed.explicit))
    for t, weight in zip(*TIME, strict=True):
        rest, derivative = _overlap_at(t, rest, law.scales**2, fixed, averages)
        total += weight * derivative
    return total


def _overlap_at(
    t: float, start: FloatArray, square: FloatArray, fixed: _Fixed, averages: _Averages
) -> tuple[FloatArray, FloatArray]:
    """R (J,) at t, found from below, and ∂∂′ Σ C_jR_j (A, A)."""
    mass, turn = averages.mass, averages.turn
    lean = t * square / averages.spread[:, None] ** 2  # ∂κ/∂R_j, (atoms, J)
    rest = _solved(t, np.maximum(start, fixed.explicit), lean, fixed, averages)
    kappa = lean @ rest
    power = powers_of(kappa)  # (3, orders, atoms)
    value, first, second = (np.einsum("an,na->a", averages.overlap, part) for part in power)
    moved, moved_1 = (np.einsum("san,na->sa", averages.moved, part) for part in power[:2])
    c = mass @ value
    slack = np.eye(len(rest)) - t * fixed.gain.T @ ((mass * first) @ lean)
    # once: κ₁ = lean·R₁ − κ·turn
    still = -kappa * turn  # (A, atoms)
    c_still = mass @ (moved + first * still).T  # (J, A)
    rest_1 = fixed.explicit_1 + t * np.einsum("ija,i->ja", fixed.gain_1, c)
    rest_1 = np.linalg.solve(slack, rest_1 + t * fixed.gain.T @ c_still)  # (J, A)
    kappa_1 = (lean @ rest_1).T + still
    c_1 = mass @ (moved + first * kappa_1).T
    # once on each side
    pull = (lean @ rest_1).T
    still = -both(pull, turn) + kappa * turn[:, None] * turn  # (A, A, atoms)
    weighted = power[0].T  # (atoms, orders)
    c_12 = np.einsum("ja,san,uan,an->jsu", mass, averages.moves, averages.moves, weighted,
                     optimize=True)  # fmt: skip
    bent = both(moved_1, kappa_1) + second * kappa_1[:, None] * kappa_1 + first * still
    c_12 = c_12 + np.einsum("ja,sua->jsu", mass, bent)
    mixed = np.einsum("ijs,iu->jsu", fixed.gain_1, c_1)
    rest_12 = fixed.explicit_12 + t * (
        np.einsum("ijsu,i->jsu", fixed.gain_12, c)
        + mixed
        + mixed.swapaxes(1, 2)
        + np.einsum("ij,isu->jsu", fixed.gain, c_12)
    )
    rest_12 = np.linalg.solve(slack, rest_12.reshape(len(rest), -1)).reshape(rest_12.shape)
    c_12 = c_12 + np.einsum("ja,a,ai,isu->jsu", mass, first, lean, rest_12, optimize=True)
    crossed = np.einsum("js,ju->su", c_1, rest_1)
    derivative = np.einsum("jsu,j->su", c_12, rest) + np.einsum("j,jsu->su", c, rest_12)
    return rest, derivative + crossed + crossed.T


def _solved(
    t: float, rest: FloatArray, lean: FloatArray, fixed: _Fixed, averages: _Averages
) -> FloatArray:
    """R_j = explicit + t Σ_i gain_ij C_i(R): every C_i is convex and increasing in every R, so
    Newton from below rises to the least root; 60 steps are far more than it needs."""
    for _ in range(60):
        power = powers_of(lean @ rest)
        value, first = (np.einsum("an,na->a", averages.overlap, part) for part in power[:2])
        gap = fixed.explicit + t * fixed.gain.T @ (averages.mass @ value) - rest
        slope = np.eye(len(rest)) - t * fixed.gain.T @ ((averages.mass * first) @ lean)
        step = np.linalg.solve(slope, gap)
        rest = rest + step
        if np.all(np.abs(step) <= 1e-12 * np.abs(rest)):
            return rest
    raise ConvergenceError(
        f"fluctuations: the overlap is {rest.max():g} after 60 steps, "
        f"the last {np.abs(step).max():.1e}"
    )

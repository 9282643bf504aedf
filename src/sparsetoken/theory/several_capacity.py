r"""Where data stop being linearly separable, for laws whose noise has covariances of its own.

Separability does not change under linear maps of the features. With one covariance Σ the map
Σ^−½ makes noise white and directions those with the inner products DᵀΣ⁻¹D: a law of white noise.

With several the threshold is where a readout without a ridge ceases to exist. There the equations
of `several` hold for the loss ½(−margin)₊² with λ = 0 and V → ∞, and have no scale: readouts
times a number, and the χ_j times a number, solve them as well. In exchange α is an unknown. Both
scales are fixed here, and what is left is solved by Gauss and Newton: there is one equation more
than unknowns, and all of them hold at the solution.
"""

from __future__ import annotations

import math

import numpy as np

from sparsetoken.model.envelopes import Piece, PiecewiseQuadratic
from sparsetoken.model.geometry import SpectralGeometry
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.losses import SquaredHinge
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory import newton
from sparsetoken.theory.several import SeveralSaddle

_VAST = 1e10  # V: the loss beside it is a part in so many
_TOLERANCE = 1e-9  # of the scale-free residual
_FEWEST_RIDGE = 1e-7
_TRIES = (1.0, 1.5, 0.7, 2.5, 0.4, 5.0, 0.2, 12.0, 0.08)  # times the first guess of α
_PARTS = 16  # of a sampled cloud, for standard errors; as in `law.py`


class _Mistake(PiecewiseQuadratic):
    """½(−margin)₊²: what is left of the squared hinge for readouts without bound."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (
            Piece(-np.inf, 1.0, c=0.0, a=0.0, k=0.0),
            Piece(1.0, np.inf, c=1.0, a=-1.0, k=0.5),
        )


def whitened_law(law: FeatureLaw) -> FeatureLaw:
    """The law of the features after Σ^−½, for one covariance Σ."""
    assert law.geometry is not None and law.geometry.covariances == 1
    gram, noisy = law.geometry.whitened_gram(), law.noisy[0]
    order = np.argsort(noisy, kind="stable")  # those taken off first: they have length 1
    factor = np.zeros_like(gram)  # rows: orthonormal directions; columns: d_k
    for place, k in enumerate(order):
        rest = gram[k] - factor[:place].T @ factor[:place, k]
        if rest[k] > 1e-12 * max(gram[k, k], 1e-300):
            factor[place] = rest / math.sqrt(rest[k])
    means = law.means @ factor.T
    return FeatureLaw(
        law.labels,
        means,
        law.scales[:, 0],
        law.weights,
        noisy[order],
        law.features_per_dim,
        law.sampled,
    )


def several_threshold(law: FeatureLaw, guess: float) -> Estimate:
    """α* of a law with several covariances, from a guess of it."""
    for factor in _TRIES:
        state = _start(law, guess * factor)
        if state is None:
            continue
        for stage in (law.refined, law):
            state, residual = _solved(stage, state)
        if residual <= _TOLERANCE:
            return Estimate(float(np.exp(state[-1])), _error(law, state))
    raise ConvergenceError(
        f"capacity: the equations of the threshold are left with a residual of {residual:.1e}, "
        f"{_TOLERANCE:g} is required"
    )


def proportional_law(law: FeatureLaw) -> FeatureLaw:
    """One covariance in place of several, their mean: what a first guess is made of."""
    assert law.geometry is not None
    geometry = law.geometry.surrogate
    share = law.weights @ law.scales**2
    share = share / share.sum()
    size = np.maximum(geometry.mean_variances, 1e-300)
    scales = np.sqrt(law.scales**2 @ size / (share @ size))
    one = SpectralGeometry(share[None] @ geometry.values, geometry.density, geometry.gram)
    noisy = np.ones((1, geometry.directions), dtype=bool)
    return FeatureLaw(
        law.labels,
        law.means,
        np.maximum(scales, 1e-9)[:, None],
        law.weights,
        noisy,
        law.features_per_dim,
        law.sampled,
        one,
    )


def _problem(law: FeatureLaw, alpha: float) -> SeveralSaddle:
    return SeveralSaddle(law, _Mistake(), np.zeros(1), np.array([alpha]))


def _start(law: FeatureLaw, alpha: float) -> FloatArray | None:
    """A readout with next to no ridge, near the threshold: there it is large."""
    small = law.compressed
    unit = np.ones(1)
    problem = SeveralSaddle(small, SquaredHinge(), unit, alpha * unit)
    problem = SeveralSaddle(
        small, SquaredHinge(), _FEWEST_RIDGE * problem.size * unit, alpha * unit
    )
    state, residual, _ = newton.newton(problem, problem.start(), newton.CERTIFIED)
    if not residual[0] <= newton.CERTIFIED:
        state, residual, _ = newton.continuation(problem, newton.CERTIFIED)
    return np.append(state[0], math.log(alpha)) if np.all(np.isfinite(state)) else None


def _equations(law: FeatureLaw, state: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Residuals and derivatives in (M, b, log r, log χ, log α), the two scales fixed."""
    problem = _problem(law, float(np.exp(state[-1])))
    g, jacobian = problem.equations(state[None, :-1])
    count, size = problem.geometry.covariances, problem.geometry.directions
    by_alpha = _by_alpha(problem, state)
    noise = slice(size + 1, size + 1 + count)
    chi = slice(size + 1 + count, size + 1 + 2 * count)
    rows = np.zeros((2, len(state)))
    parts = [
        np.exp(2 * state[noise]) * problem.mean_squares,
        np.exp(state[chi]) * problem.mean_squares,
    ]
    rows[0, noise], rows[1, chi] = 2 * parts[0] / parts[0].sum(), parts[1] / parts[1].sum()
    scales = [math.log(parts[0].sum()), math.log(parts[1].sum() / _VAST)]
    full = np.column_stack([jacobian[0], by_alpha])
    return np.concatenate([g[0], scales]), np.vstack([full, rows])


def _by_alpha(problem: SeveralSaddle, state: FloatArray) -> FloatArray:
    """Derivative of the residuals in log α, by differences: it enters through two averages."""
    step = 1e-5
    sides = [
        _problem(problem.law, float(np.exp(state[-1] + sign * step))).equations(state[None, :-1])[
            0
        ][0]
        for sign in (1, -1)
    ]
    return (sides[0] - sides[1]) / (2 * step)


def _solved(law: FeatureLaw, state: FloatArray) -> tuple[FloatArray, float]:
    """Gauss and Newton with steps of at most 1 in the logarithms; the state and its residual."""
    state = _normalised(law, state)
    with np.errstate(all="ignore"):  # a wild trial is refused
        g, jacobian = _equations(law, state)
        for _ in range(newton.MOST_STEPS):
            if not np.all(np.isfinite(jacobian)) or np.abs(g).max() <= 0.01 * _TOLERANCE:
                break
            step = -np.linalg.lstsq(jacobian, g, rcond=1e-13)[0]
            size = len(law.geometry.lengths) + 1 if law.geometry is not None else 0
            step *= min(1.0, 1.0 / max(float(np.abs(step[size:]).max()), 1e-300))
            length, better = 1.0, False
            while length > 1e-6 and not better:
                trial = state + length * step
                new, new_jacobian = _equations(law, trial)
                better = bool(np.linalg.norm(new) < (1 - 1e-4 * length) * np.linalg.norm(g))
                length *= 0.5
            if not better:
                break
            state, g, jacobian = trial, new, new_jacobian
    return state, float(np.abs(g).max())


def _normalised(law: FeatureLaw, state: FloatArray) -> FloatArray:
    """With both scales where they are fixed."""
    problem = _problem(law, 1.0)
    count, size = problem.geometry.covariances, problem.geometry.directions
    state = state.copy()
    noise, chi = state[size + 1 : size + 1 + count], state[size + 1 + count : -1]
    scale = 0.5 * math.log(float(np.exp(2 * noise) @ problem.mean_squares))
    state[: size + 1] *= math.exp(-scale)
    noise -= scale
    chi -= math.log(float(np.exp(chi) @ problem.mean_squares) / _VAST)
    return state


def _error(law: FeatureLaw, state: FloatArray) -> float:
    """Of α* of a sampled law: how far each sixteenth of the cloud alone would move it."""
    if not law.sampled:
        return 0.0
    _, jacobian = _equations(law, state)
    shifts = []
    sides = [np.flatnonzero(law.labels == label) for label in (1.0, -1.0)]
    for parts in zip(*(np.array_split(side, _PARTS) for side in sides), strict=True):
        weights = np.concatenate(
            [
                law.weights[part] * (law.weights[side].sum() / law.weights[part].sum())
                for part, side in zip(parts, sides, strict=True)
            ]
        )
        part = law.selected(np.concatenate(parts), weights)
        g = _equations(part, state)[0]
        shifts.append(-np.linalg.lstsq(jacobian, g, rcond=1e-13)[0][-1])
    return float(np.exp(state[-1]) * np.std(shifts, ddof=1) / math.sqrt(_PARTS))

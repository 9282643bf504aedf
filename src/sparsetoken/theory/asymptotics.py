r"""The fitted readout in the limit n, p → ∞ at n/p = α (Theorems 4 and 5).

The objective is (1/n) Σ ℓ(y_i(⟨w, f_i⟩ + b)) + (λ/2)‖w‖², bias not penalised. For features with a
`FeatureLaw` its minimiser has coordinates w_k on the explicit directions, bias b and norm ρ on
all other directions, given by the saddle point

    min_{w,b,ρ≥0} max_{t≥0}  E M(ω; V) − ρt/(2√α) + (λ/2)(Σw_k² + ρ²),
    ω = Σ m_k w_k + b + σrG,   r² = ρ² + Σ_noisy w_k²,   V = σ²ρ/(√α t),

M the Moreau envelope of the loss, G ~ N(0,1). `saddle` has its equations, `newton` solves them, and
the solution is a `Fit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.losses import Loss, Square, check_loss
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.checks import real
from sparsetoken.support.errors import ConvergenceError, InvalidInput, NoMinimiserError
from sparsetoken.theory import newton
from sparsetoken.theory.capacity import separability_threshold
from sparsetoken.theory.fit import Fit, problem_of, unpacked
from sparsetoken.theory.saddle import Saddle, equations, square_solution

_AIM = 1e-11  # where Newton stops: one more step would only stir the rounding
_SHORTEST_WARM = 0.2  # step from a fit nearby; if none so long helps, it was not near
_BATCH = 32  # problems solved at once: bounds the memory of long learning curves


def solve(law: FeatureLaw, loss: Loss, ridge: float, samples_per_dim: float) -> Fit:
    """The readout fitted to samples of a law, in the limit of many dimensions.

    Parameters
    ----------
    law : FeatureLaw
        Of the features.
    loss : Loss
        Of the margin.
    ridge : float
        λ ≥ 0 in (1/n) Σ ℓ + (λ/2)‖w‖². At 0 the minimiser must exist: n > p for a loss that
        penalises confidence (`Square`), beyond the separability threshold for the others.
    samples_per_dim : float
        n/p, samples per *feature* dimension; inf is the population limit.

    Returns
    -------
    Fit
        The readout's coordinates and norm, `.test_error`, `.train_error`, `.train_loss`, `.auc`.

    Raises
    ------
    InvalidInput
        For values that are not allowed.
    NoMinimiserError
        Without a ridge, where the data are separable or the readout is not unique.
    ConvergenceError
        If the residual stays above 1e-9.

    Examples
    --------
    >>> from sparsetoken import Pooled, Task, Logistic
    >>> law = Pooled().law(Task(length=1, sparsity=1, strength=2.0))
    >>> fit = solve(law, Logistic(), ridge=0.05, samples_per_dim=2.0)
    >>> round(fit.test_error, 8), fit.residual < 1e-9
    (0.23220607, True)
    """
    ridge = real("solve", "ridge", ridge, least=0)
    samples_per_dim = real("solve", "samples_per_dim", samples_per_dim, above=0, infinite=True)
    return solve_many(law, loss, [ridge], [samples_per_dim])[0]


def solve_many(
    law: FeatureLaw,
    loss: Loss,
    ridge: ArrayLike,
    samples_per_dim: ArrayLike,
    near: Fit | Sequence[Fit] | None = None,
) -> list[Fit]:
    """`solve` for every pair of the broadcast `ridge` and `samples_per_dim`, all at once.

    Parameters
    ----------
    law, loss
        As in `solve`.
    ridge, samples_per_dim : array_like
        As in `solve`; broadcast against one another.
    near : Fit or sequence of Fit, optional
        The fit of a similar problem to begin at, or one for each problem. Results do not depend on
        it.

    Returns
    -------
    list of Fit
        One for each problem, in order.

    Raises
    ------
    InvalidInput, NoMinimiserError, ConvergenceError
        As in `solve`.

    Examples
    --------
    >>> from sparsetoken import Pooled, Task, Square
    >>> law = Pooled().law(Task(length=1, sparsity=1, strength=2.0))
    >>> [round(fit.test_error, 4) for fit in solve_many(law, Square(), 0.1, [1.0, 10.0, np.inf])]
    [0.3144, 0.1804, 0.1587]
    """
    check_loss("solve", loss)
    broadcast = np.broadcast_arrays(ridge, samples_per_dim)
    given, per_dim = (values.ravel().tolist() for values in broadcast)
    ridges = np.array([real("solve", "ridge", value, least=0) for value in given])
    samples = np.array(
        [real("solve", "samples_per_dim", value, above=0, infinite=True) for value in per_dim]
    )
    _refuse_without_minimiser(law, loss, ridges, samples)
    starts = [near] * len(ridges) if isinstance(near, Fit) else near
    if starts is not None and len(starts) != len(ridges):
        raise InvalidInput(
            f"solve: near must be one fit, or {len(ridges)} (one a problem), got {len(starts)}"
        )
    fits: dict[int, Fit] = {}
    for chosen in (np.flatnonzero(np.isfinite(samples)), np.flatnonzero(np.isinf(samples))):
        for start in range(0, len(chosen), _BATCH):
            part = chosen[start : start + _BATCH]
            problem = problem_of(law.compressed, loss, ridges[part], samples[part])
            begin = [starts[index] for index in part.tolist()] if starts else []
            fits.update(zip(part.tolist(), _solve_batch(law, problem, begin), strict=True))
    return [fits[index] for index in range(len(ridges))]


def _solve_batch(law: FeatureLaw, problem: Saddle, near: Sequence[Fit]) -> Iterator[Fit]:
    """On the compressed law, cold or from fits nearby; certified on the refined one."""
    warm = bool(near) and all(problem.population == np.isinf(fit.samples_per_dim) for fit in near)
    start = np.array([fit.state for fit in near]) if warm else problem.start()
    surrogate = problem.surrogate
    if surrogate is not problem:
        problem = replace(problem, law=law.refined)  # few evaluations are left, each is dear
        start = start if warm else newton.newton(surrogate, start, _AIM)[0]
    shortest = _SHORTEST_WARM if warm else newton.SHORTEST
    states, residuals, counts = newton.newton(problem, start, _AIM, shortest)
    lost = np.flatnonzero(warm & ~(residuals <= newton.CERTIFIED))
    if len(lost):  # begun too far away
        some = problem.subset(lost)
        states[lost], residuals[lost], more = newton.newton(some, some.start(), _AIM)
        counts[lost] += more
    if problem.law is not law.refined:
        problem = replace(problem, law=law.refined)
        states, residuals, more = newton.newton(problem, states, _AIM)
        counts = counts + more
    for index in np.flatnonzero(~(residuals <= newton.CERTIFIED)):
        for route in newton.other_routes(problem):
            state, residual, count = route(problem.subset(np.array([index])), _AIM)
            counts[index] += count[0]
            if residual[0] <= newton.CERTIFIED:
                states[index], residuals[index] = state[0], residual[0]
                break
    return _certified(law, problem, states, residuals, counts)


def solve_square(law: FeatureLaw, ridge: float, samples_per_dim: float) -> Fit:
    """The square loss in closed form (one scalar equation, then linear algebra); n/p finite.

    `solve` gives the same by the general path. χ solves αχ(λ + E[σ²/(1+σ²χ)]) = 1, and the rest
    follows (`theory/saddle.py`).

    Parameters
    ----------
    law : FeatureLaw
        Of the features.
    ridge : float
        λ ≥ 0.
    samples_per_dim : float
        n/p, finite.

    Returns
    -------
    Fit
        As of `solve`.

    Raises
    ------
    InvalidInput, NoMinimiserError, ConvergenceError
        Where `solve` raises them.

    Examples
    --------
    >>> from sparsetoken import Pooled, Task
    >>> law = Pooled().law(Task(length=1, sparsity=1, strength=2.0))
    >>> round(solve_square(law, ridge=0.05, samples_per_dim=2.0).test_error, 8)
    0.26687604
    """
    ridges = np.array([real("solve_square", "ridge", ridge, least=0)])
    samples = np.array([real("solve_square", "samples_per_dim", samples_per_dim, above=0)])
    loss = Square()
    if law.geometry is not None:
        raise InvalidInput("solve_square: law must have white noise (geometry None); use solve")
    _refuse_without_minimiser(law, loss, ridges, samples)
    problem = Saddle(law.refined, loss, ridges, samples)
    state = square_solution(problem)
    residual = np.abs(equations(problem, state)[0]).max(axis=1)
    return next(_certified(law, problem, state, residual, np.ones(1, dtype=np.intp)))


def _certified(
    law: FeatureLaw,
    problem: Saddle,
    states: FloatArray,
    residuals: FloatArray,
    counts: IntArray,
) -> Iterator[Fit]:
    """The fits; a residual above the tolerance raises."""
    for index, state in enumerate(states):
        ridge, samples = float(problem.ridge[index]), float(problem.alpha[index])
        residual, count = float(residuals[index]), int(counts[index])
        if not residual <= newton.CERTIFIED:
            raise ConvergenceError(
                f"solve: residual {residual:.1e} after {count} evaluations, "
                f"{newton.CERTIFIED:g} is required ({problem.loss!r}, ridge={ridge:g}, "
                f"samples_per_dim={samples:g})"
            )
        solution = unpacked(law, state)
        yield Fit(law, problem.loss, ridge, samples, *solution, residual, count)


def _refuse_without_minimiser(
    law: FeatureLaw, loss: Loss, ridges: FloatArray, samples: FloatArray
) -> None:
    """Without a ridge a minimiser may not exist, or not be unique: say so instead of searching."""
    bare = samples[ridges == 0]
    if not len(bare):
        return
    fewest = float(bare.min())
    if loss.penalises_confidence:
        if fewest <= 1:
            raise NoMinimiserError(
                f"solve: with ridge=0 and samples_per_dim={fewest:g} (at most 1) infinitely many "
                f"readouts interpolate the data under {loss!r}; use a positive ridge"
            )
        return
    threshold = separability_threshold(law)
    if fewest <= threshold:
        raise NoMinimiserError(
            f"solve: with ridge=0 and samples_per_dim={fewest:g}, at most the separability "
            f"threshold {threshold:.6g}, the data are separable and {loss!r} has no unique finite "
            "minimiser; use a positive ridge"
        )

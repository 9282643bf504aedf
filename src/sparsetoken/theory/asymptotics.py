r"""The fitted readout in the limit n, p → ∞ at n/p = α (Theorems 4 and 5).

The objective is (1/n) Σ ℓ(y_i(⟨w, f_i⟩ + b)) + (λ/2)‖w‖², bias not penalised. For features with a
`FeatureLaw` its minimiser has coordinates w_k on the explicit directions, bias b and norm ρ on
all other directions, given by the saddle point

    min_{w,b,ρ≥0} max_{t≥0}  E M(ω; V) − ρt/(2√α) + (λ/2)(Σw_k² + ρ²),
    ω = Σ m_k w_k + b + σrG,   r² = ρ² + Σ_noisy w_k²,   V = σ²ρ/(√α t),

M the Moreau envelope of the loss, G ~ N(0,1). `saddle` has its equations, `newton` solves them;
here the solution becomes a `Fit`:

    test error   E Φ(−yμ/(σr)),  μ = Σ m_k w_k + b         train loss   E ℓ(prox(ω; V))
    train error  E Φ((Vℓ′(0) − yμ)/(σr)):  prox(ω; V) has the wrong sign iff yω < Vℓ′(0).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from sparsetoken.model.law import FeatureLaw, Readout
from sparsetoken.model.losses import Loss, Square
from sparsetoken.model.scores import Scores
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real
from sparsetoken.support.errors import ConvergenceError, InvalidInput, NoMinimiserError
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory import newton, saddle
from sparsetoken.theory.capacity import separability_threshold

_AIM = 1e-11  # where Newton stops: one more step would only stir the rounding
_SHORTEST_WARM = 0.2  # step from a fit nearby; if none so long helps, it was not near
_SOME_POINTS = 512  # of a sampled law, on which the standard error of a training loss is found
_BATCH = 32  # problems solved at once: bounds the memory of long learning curves


class Gap(NamedTuple):
    """What it costs to solve on fewer atoms than the law has; zero where all were used."""

    residual: float  # of the solution, on the law itself
    test_error: float  # how far it is from that of the law's own solution
    train_loss: float


@dataclass(frozen=True, eq=False)
class Fit:
    """The fitted readout and what it achieves, in the limit.

    `residual` is the largest scale-free residual of the equations that define the fit, on the atoms
    of `law.refined`: of the law itself if that has at most 4096 atoms, else of one or two thousand
    atoms with the same moments, and `gap` says what that costs. `iterations` counts evaluations.
    Numbers of a sampled law carry a standard error. `weights` are the coordinates w_k,
    `rest` is ρ, `noise` is r, `susceptibility` is χ (0 in the population limit).

    >>> from sparsetoken import Pooled, Square, Task
    >>> fit = solve(Pooled().law(Task(length=4, sparsity=1, strength=6.0)), Square(), 0.1, 5.0)
    >>> fit.residual < 1e-9, fit.noise > fit.rest, fit.test_error > fit.train_error
    (True, True, True)
    """

    law: FeatureLaw
    loss: Loss
    ridge: float
    samples_per_dim: float
    weights: FloatArray
    bias: float
    rest: float
    susceptibility: float
    residual: float
    iterations: int

    converged = True  # a fit that did not converge is raised, never returned

    @property
    def objective(self) -> str:
        """What was minimised, in words."""
        return f"mean of {self.loss!r} + ({self.ridge:g}/2)·|w|², bias not penalised"

    @property
    def noise(self) -> float:
        """r: norm of the readout on everything the features' noise reaches."""
        return float(np.sqrt(self.rest**2 + self.weights**2 @ self.law.noisy))

    @property
    def norm(self) -> float:
        """‖w‖, the norm of the whole readout."""
        return float(np.sqrt(self.rest**2 + self.weights @ self.weights))

    @property
    def state(self) -> FloatArray:
        """The solution as the solver has it: (w, b, log ρ, log χ), or (w, b) in the limit."""
        wb = np.append(self.weights, self.bias)
        if np.isinf(self.samples_per_dim):
            return wb
        return np.append(wb, np.log([self.rest, self.susceptibility]))

    @property
    def readout(self) -> Readout:
        return Readout(self.weights, self.bias, self.noise)

    @cached_property
    def scores(self) -> Scores:
        """The test scores of both classes, with every metric: ROC, AUC, average precision, …"""
        return self.law.scores(self.readout)

    @property
    def test_error(self) -> Estimate:
        """Probability that a fresh sample is misclassified."""
        return self.scores.test_error

    @property
    def auc(self) -> Estimate:
        """Probability that a fresh positive sample scores above a fresh negative one."""
        return self.scores.auc

    def roc(self, points: int = 201) -> tuple[FloatArray, FloatArray]:
        """False and true positive rates, both rising from 0 to 1."""
        return self.scores.roc(points)

    @cached_property
    def train_loss(self) -> Estimate:
        """Mean loss on the training samples, without the ridge term."""
        law = self.law.refined
        mean = float(law.weights @ self._training_losses(law))
        if not self.law.sampled:
            return Estimate(mean)
        return Estimate(mean, self._train_loss_error)

    def _training_losses(self, law: FeatureLaw) -> FloatArray:
        """E ℓ(prox(ω; V)) of every atom."""
        margin = law.labels * (law.means @ self.weights + self.bias)
        deviation = law.scales * max(self.noise, saddle.LEAST_NOISE)
        return self.loss.mean_value(margin, deviation, law.scales**2 * self.susceptibility)

    def _train_loss_error(self) -> float:
        """From the first points of the cloud; an error falls at least like 1/√points."""
        some = self.law.head(_SOME_POINTS)
        points = len(self.law.labels) / len(some.labels)
        return some.average(self._training_losses(some)).standard_error / math.sqrt(points)

    @cached_property
    def train_error(self) -> Estimate:
        """Fraction of training samples on the wrong side."""
        if self.susceptibility == 0.0:
            return self.test_error
        law = self.law
        margin = law.labels * (law.means @ self.weights + self.bias)
        reach = law.scales**2 * self.susceptibility * float(self.loss.slope(0.0))
        return law.average(ndtr((reach - margin) / (law.scales * self.noise)))

    @cached_property
    def gap(self) -> Gap:
        """How far the law that was solved on, `law.refined`, is from `law` itself.

        One Newton step on the law itself leads from this solution to its own, up to the square of
        the residual there. Takes a moment: the cloud of attention has 65,536 atoms.
        """
        if self.law.refined is self.law:
            return Gap(self.residual, 0.0, 0.0)
        limit = math.isinf(self.samples_per_dim)
        problem = saddle.Saddle(
            self.law, self.loss, np.array([self.ridge]), np.array([self.samples_per_dim])
        )
        evaluate = saddle.population_equations if limit else saddle.equations
        g, jacobian = evaluate(problem, self.state[None])
        step = np.linalg.solve(jacobian[0], -g[0])
        size = len(self.weights)
        moved = replace(
            self,
            weights=self.weights + step[:size],
            bias=self.bias + float(step[size]),
            rest=self.rest if limit else self.rest * math.exp(step[-2]),
            susceptibility=self.susceptibility
            if limit
            else self.susceptibility * math.exp(step[-1]),
        )
        return Gap(
            float(np.abs(g).max()),
            abs(float(moved.test_error) - float(self.test_error)),
            abs(float(self.law.weights @ moved._training_losses(self.law)) - self.train_loss),
        )


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

    Raises `ConvergenceError` if the residual stays above 1e-9, `NoMinimiserError` (a ValueError)
    where there is nothing to find.

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

    The fit of a similar problem, `near`, is a place to begin, or one fit for each of the problems;
    the results do not depend on it.

    >>> from sparsetoken import Pooled, Task, Square
    >>> law = Pooled().law(Task(length=1, sparsity=1, strength=2.0))
    >>> [round(fit.test_error, 4) for fit in solve_many(law, Square(), 0.1, [1.0, 10.0, np.inf])]
    [0.3144, 0.1804, 0.1587]
    """
    if isinstance(loss, type) or not callable(getattr(loss, "moments", None)):
        raise InvalidInput(
            f"solve: loss must be a loss such as Logistic() or Square(), got {loss!r}"
        )
    ridges, samples = np.broadcast_arrays(*map(np.atleast_1d, (ridge, samples_per_dim)))
    for value in ridges.ravel().tolist():
        real("solve", "ridge", value, least=0)
    for value in samples.ravel().tolist():
        real("solve", "samples_per_dim", value, above=0, infinite=True)
    ridges, samples = ridges.ravel().astype(float), samples.ravel().astype(float)
    _refuse_without_minimiser(law, loss, ridges, samples)

    starts = [near] * len(ridges) if isinstance(near, Fit) else near
    if starts is not None and len(starts) != len(ridges):
        raise InvalidInput(
            f"solve: near must be one fit, or {len(ridges)} (one a problem), got {len(starts)}"
        )
    fits: list[Fit] = []
    for start in range(0, len(ridges), _BATCH):
        part = slice(start, start + _BATCH)
        fits += _solve_batch(law, loss, ridges[part], samples[part], starts and starts[part])
    return fits


def _solve_batch(
    law: FeatureLaw,
    loss: Loss,
    ridges: FloatArray,
    samples: FloatArray,
    near: Sequence[Fit] | None,
) -> list[Fit]:
    """On the compressed law, cold or from a fit nearby; certified on the refined one."""
    found: dict[int, Fit] = {}
    finite = np.isfinite(samples)
    for chosen in (np.flatnonzero(finite), np.flatnonzero(~finite)):
        if not len(chosen):
            continue
        limit = not finite[chosen[0]]
        coarse = saddle.Saddle(law.compressed, loss, ridges[chosen], samples[chosen])
        begin = [near[index] for index in chosen.tolist()] if near else []
        warm = bool(begin) and all(limit == np.isinf(fit.samples_per_dim) for fit in begin)
        start = np.array([fit.state for fit in begin]) if warm else _cold_start(coarse)
        shortest = _SHORTEST_WARM if warm else newton.SHORTEST
        states, residuals, counts = newton.newton(coarse, start, _AIM, shortest)
        lost = np.flatnonzero(warm & ~(residuals <= newton.CERTIFIED))
        if len(lost):  # begun too far away
            some = coarse.subset(lost)
            states[lost], residuals[lost], more = newton.newton(some, _cold_start(some), _AIM)
            counts[lost] += more
        problem = coarse
        if law.refined is not law.compressed:
            problem = replace(coarse, law=law.refined)
            states, residuals, more = newton.newton(problem, states, _AIM)
            counts = counts + more
        _retry(problem, states, residuals, counts)
        fits = _fits(law, problem, states, residuals, counts)
        found.update(zip(chosen.tolist(), fits, strict=True))
    return [found[index] for index in range(len(ridges))]


def _cold_start(problem: saddle.Saddle) -> FloatArray:
    limit = np.isinf(problem.alpha[0])
    return saddle.population_start(problem) if limit else saddle.starting_point(problem)


def solve_square(law: FeatureLaw, ridge: float, samples_per_dim: float) -> Fit:
    """The square loss in closed form (one scalar equation, then linear algebra); n/p finite.

    `solve` gives the same by the general path.

    >>> from sparsetoken import Pooled, Task
    >>> law = Pooled().law(Task(length=1, sparsity=1, strength=2.0))
    >>> round(solve_square(law, ridge=0.05, samples_per_dim=2.0).test_error, 8)
    0.26687604
    """
    ridges = np.array([real("solve_square", "ridge", ridge, least=0)])
    samples = np.array([real("solve_square", "samples_per_dim", samples_per_dim, above=0)])
    loss = Square()
    _refuse_without_minimiser(law, loss, ridges, samples)
    problem = saddle.Saddle(law.refined, loss, ridges, samples)
    state = saddle.square_solution(problem)
    residual = np.abs(saddle.equations(problem, state)[0]).max(axis=1)
    return next(iter(_fits(law, problem, state, residual, np.ones(1, dtype=np.intp))))


def _retry(
    problem: saddle.Saddle, states: FloatArray, residuals: FloatArray, counts: NDArray[np.intp]
) -> None:
    """Solve again, by other routes, what Newton left above the tolerance; in place."""
    for index in np.flatnonzero(~(residuals <= newton.CERTIFIED)):
        limit = np.isinf(problem.alpha[index])
        routes = (newton.population_minimum,) if limit else newton.OTHER_ROUTES
        for route in routes:
            state, residual, count = route(problem.subset(np.array([index])), _AIM)
            counts[index] += count[0]
            if residual[0] <= newton.CERTIFIED:
                states[index], residuals[index] = state[0], residual[0]
                break


def _fits(
    law: FeatureLaw,
    problem: saddle.Saddle,
    states: FloatArray,
    residuals: FloatArray,
    counts: NDArray[np.intp],
) -> Iterable[Fit]:
    """Certified results; a residual above the tolerance raises."""
    directions = len(law.noisy)
    for index, state in enumerate(states):
        ridge, samples = float(problem.ridge[index]), float(problem.alpha[index])
        residual = float(residuals[index])
        if not residual <= newton.CERTIFIED:
            raise ConvergenceError(
                f"solve: residual {residual:.1e} after {counts[index]} evaluations, "
                f"{newton.CERTIFIED:g} is required ({problem.loss!r}, ridge={ridge:g}, "
                f"samples_per_dim={samples:g})"
            )
        rest, chi = (0.0, 0.0) if np.isinf(samples) else np.exp(state[-2:])
        yield Fit(
            law=law,
            loss=problem.loss,
            ridge=ridge,
            samples_per_dim=samples,
            weights=state[:directions].copy(),
            bias=float(state[directions]),
            rest=float(rest),
            susceptibility=float(chi),
            residual=residual,
            iterations=int(counts[index]),
        )


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

r"""Oracles where noise has a covariance Σ, and signal tokens perhaps another, C.

**C = Σ.** Whoever knows Σ and ξ may whiten: Σ^{-½}x is white, with a signal of strength
θ√(ξᵀΣ⁻¹ξ) = θ√μ[1/x] in a token. The likelihood ratio is that of the white task, and so is the best
of every classifier, since q and w range over all vectors before and after. Exact at any size.

**C ≠ Σ** in a positive share of the directions: one signal token is told from noise by its squares,
the better the more dimensions, and the Bayes error falls to 0 as d grows. At a given d a token has
the log likelihood ratio, coordinates being those in which Σ is I and C diagonal,

    ℓ(x) = ½ Σ_j { x_j² − (x_j − θξ_j)²/c_j − log c_j },

a bag log e_R(e^ℓ)/C(L, R); whole bags are drawn, and the error is E min(η, 1 − η). The best linear
readout of the mean token, with the covariances S₋ of negative and S₊ of positive bags, is

    w = (S₋ + t(S₊ − S₋))⁻¹ξ,      t where that is positive definite (Anderson and Bahadur),

and its cut that of two Gaussians of different widths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, ndtr

from sparsetoken.model.covariances import Covariances, White
from sparsetoken.model.places import log_choose
from sparsetoken.model.task import Task
from sparsetoken.oracles.extremes import REPLICATES, mean_of_replicates
from sparsetoken.oracles.symmetric import log_elementary
from sparsetoken.oracles.thresholds import trivial_error
from sparsetoken.support.arrays import BoolArray, FloatArray
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

_DRAWS = 1 << 14  # bags of each class
_BLOCK = 1 << 20  # numbers worked on at once
_STEPS = 400  # of a first look at t


def whitened_length(task: Task) -> float:
    """√(ξᵀΣ⁻¹ξ): the length of a signal of strength 1 in units of the noise around it."""
    joint = task.joint_spectrum
    if joint is None:  # matrices that do not commute
        assert isinstance(task.noise, Covariances)
        noise, _, mean = task.noise.arrays
        return math.sqrt(float(mean @ np.linalg.solve(noise, mean)))
    return math.sqrt(float(joint.share @ (1 / joint.noise)))


def whitened(owner: str, task: Task) -> Task:
    """The white task that is the same for whoever knows Σ.

    >>> from sparsetoken.model.covariances import Spectrum
    >>> task = Task(10, 1, 3.0, noise=Spectrum((0.25, 4.0), (0.5, 0.5)))
    >>> round(whitened("", task).fixed_strength, 3)
    4.373
    """
    if task.is_white:
        return task
    if task.has_spread:
        raise spread_refusal(owner, task)
    same = replace(task, noise=White(), signal_spread=None)
    return same.weakened(whitened_length(task))


def spread_refusal(owner: str, task: Task) -> InvalidInput:
    """For what has no answer where signal tokens have a covariance of their own."""
    return InvalidInput(
        f"{owner}: signal_spread must be that of the noise (None): with another the best of this "
        "kind is known only to lie between bayes_error(task, dim=) and "
        f"oracle_error(task, Pooled()), got {task.signal_spread!r}"
    )


def check_one_signal(owner: str, task: Task) -> None:
    """Refuse what has no answer where the signal has a spread."""
    if task.varies or not task.uniform_places:
        raise InvalidInput(
            f"{owner}: task must have one strength, one sparsity and uniform places where the "
            f"signal has a spread, got {task!r}"
        )


class Coordinates(NamedTuple):
    """Groups of coordinates in which Σ is I and C a number, and the signal's length in each."""

    counts: FloatArray  # (groups,)
    ratio: FloatArray  # (groups,), c
    signal: FloatArray  # (groups,), along one axis of the group, at strength 1


def coordinates(task: Task, dim: int) -> Coordinates:
    """Those of a task in d dimensions."""
    counts = task.noise.counts(dim)
    joint = task.joint_spectrum
    if joint is None:
        assert isinstance(task.noise, Covariances) and task.noise.signal is not None
        noise, signal, mean = task.noise.arrays
        root = np.linalg.inv(np.linalg.cholesky(noise))
        ratio, turn = np.linalg.eigh(root @ signal @ root.T)
        return Coordinates(np.ones(dim), np.maximum(ratio, 0.0), turn.T @ (root @ mean))
    there = counts > 0
    ratio, along = joint.signal / joint.noise, np.sqrt(joint.share / joint.noise)
    return Coordinates(counts[there].astype(float), ratio[there], along[there])


@dataclass(frozen=True)
class SpreadBayes:
    """The likelihood-ratio test of bags whose signal tokens have a covariance of their own."""

    task: Task
    dim: int
    seed: int

    def error(self) -> Estimate:
        """E min(η, 1−η) over bags of both classes."""
        task, where = self.task, coordinates(self.task, self.dim)
        if np.any(where.ratio <= 1e-12):  # signal tokens lie in a hyperplane, noise never does
            return Estimate(0.0)
        odds = math.log((1 - task.prevalence) / task.prevalence)
        count = _DRAWS // REPLICATES
        losses = np.zeros(_DRAWS)
        for replicate in range(REPLICATES):
            rng = np.random.default_rng([self.seed, replicate])
            for positive, share in ((1, task.prevalence), (0, 1 - task.prevalence)):
                log_odds = self._log_ratios(where, positive, count, rng) - odds
                losses[replicate * count : (replicate + 1) * count] += share * expit(
                    -np.abs(log_odds)
                )
        error = mean_of_replicates(losses)
        trivial = trivial_error(task.prevalence)
        return error if error < trivial else Estimate(trivial)

    def _log_ratios(
        self, where: Coordinates, positive: int, count: int, rng: np.random.Generator
    ) -> FloatArray:
        """Of bags of one class, the signal in the first tokens of positive ones."""
        task, parts = self.task, []
        size = task.fixed_sparsity
        rows = max(1, _BLOCK // (task.length * len(where.counts)))
        for start in range(0, count, rows):
            shape = (min(rows, count - start), task.length)
            carries = (np.arange(task.length) < size * positive) & np.ones(shape, dtype=bool)
            ratios = self._of_tokens(where, carries, rng)
            parts.append(log_elementary(ratios, size)[1] - float(log_choose(task.length, size)))
        return np.concatenate(parts)

    def _of_tokens(
        self, where: Coordinates, carries: BoolArray, rng: np.random.Generator
    ) -> FloatArray:
        """ℓ of tokens (n, L) with and without the signal."""
        mean = self.task.fixed_strength * where.signal
        shape = (*carries.shape, len(where.counts))
        scale = np.where(carries[..., None], np.sqrt(where.ratio), 1.0)
        along = scale * rng.standard_normal(shape) + np.where(carries[..., None], mean, 0.0)
        rest = where.counts - 1
        squares = np.zeros(shape)
        some = rest > 0
        squares[..., some] = rng.chisquare(np.broadcast_to(rest[some], (*shape[:2], some.sum())))
        squares *= scale**2
        of_each = along**2 - (along - mean) ** 2 / where.ratio + squares * (1 - 1 / where.ratio)
        return np.asarray(of_each.sum(axis=2) - where.counts @ np.log(where.ratio)) / 2


@dataclass(frozen=True)
class SpreadPooled:
    """The best linear readout of the mean token."""

    task: Task

    def error(self) -> Estimate:
        """Over all (w, c); at least as good as always naming the likelier class."""
        task, where = self.task, self._groups()
        signal, negative, positive = where
        trivial = trivial_error(task.prevalence)
        if not float(signal @ signal):
            return Estimate(trivial)
        gap = positive / negative - 1  # eigenvalues of S₋⁻¹S₊ − 1
        low = -1 / gap.max() if gap.max() > 0 else -math.inf
        high = -1 / gap.min() if gap.min() < 0 else math.inf

        def at(place: float) -> float:
            t = _between(low, high, place)
            weights = signal / (negative + t * (positive - negative))
            mean = float(weights @ signal)
            sizes = [math.sqrt(float(weights**2 @ part)) for part in (negative, positive)]
            return two_gaussians(mean, sizes[0], sizes[1], task.prevalence)

        places = (np.arange(_STEPS) + 0.5) / _STEPS
        first = int(np.argmin([at(place) for place in places]))
        bounds = (max(places[first] - 1 / _STEPS, 1e-9), min(places[first] + 1 / _STEPS, 1 - 1e-9))
        best = minimize_scalar(at, bounds=bounds, method="bounded", options={"xatol": 1e-10})
        return Estimate(min(float(best.fun), at(places[first]), trivial))

    def _groups(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The signal of the mean token and its variances, negative and positive, by coordinates."""
        task, length, size = self.task, self.task.length, self.task.fixed_sparsity
        joint = task.joint_spectrum
        if joint is None:
            assert isinstance(task.noise, Covariances) and task.noise.dim is not None
            where = coordinates(task, task.noise.dim)
            along, noise, signal = where.signal, np.ones(len(where.ratio)), where.ratio
        else:
            along, noise, signal = np.sqrt(joint.share), joint.noise, joint.signal
        carried = along > 0
        along, noise, signal = along[carried], noise[carried], signal[carried]
        positive = ((length - size) * noise + size * signal) / length**2
        return task.fixed_strength * size / length * along, noise / length, positive


def _between(low: float, high: float, place: float) -> float:
    """A map of (0, 1) onto (low, high) with low < 0 < 1 < high, either perhaps infinite."""
    odds = place / (1 - place)
    if math.isinf(high):
        return (max(low, -1e6) + 1e-12) + odds if math.isinf(low) else low + odds * -low
    if math.isinf(low):
        return high - high / odds
    return low + (high - low) * place


def two_gaussians(mean: float, negative: float, positive: float, prevalence: float) -> float:
    """The least error of one cut between N(0, negative²) and N(mean, positive²).

    >>> round(two_gaussians(2.0, 1.0, 1.0, 0.5), 6)
    0.158655
    """
    # stationary: log of both densities, weighted, are equal: a quadratic in c
    square = 1 / negative**2 - 1 / positive**2
    linear = 2 * mean / positive**2
    constant = (
        2 * math.log(prevalence * negative / ((1 - prevalence) * positive)) - mean**2 / positive**2
    )
    roots = np.roots([square, linear, constant]) if abs(square) > 1e-14 else [-constant / linear]
    cuts = [float(np.real(root)) for root in roots if abs(np.imag(root)) < 1e-12]
    errors = [
        prevalence * float(ndtr((cut - mean) / positive))
        + (1 - prevalence) * float(ndtr(-cut / negative))
        for cut in cuts
    ]
    return min([*errors, trivial_error(prevalence)])


def spread_error(owner: str, task: Task, dim: int | None, seed: int) -> Estimate:
    """The Bayes error of a task with a spread: at that d, or in the limit."""
    check_one_signal(owner, task)
    size = task.noise.dim if dim is None else whole(owner, "dim", dim, least=1)
    if size is not None:
        return SpreadBayes(task, size, seed).error()
    joint = task.joint_spectrum
    assert joint is not None  # matrices have a dimension
    if float(joint.density @ (joint.signal != joint.noise)) > 0:
        return Estimate(0.0)
    raise InvalidInput(
        f"{owner}: dim must be given where signal tokens differ from noise in a few directions "
        "only (atoms of density 0), got None"
    )

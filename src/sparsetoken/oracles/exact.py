r"""Oracles that need no sampling: two Gaussians, the maximum, and the best linear readout.

* Two unit Gaussians κ apart: πΦ(c−κ) + (1−π)Φ(−c) at c = κ/2 + log((1−π)/π)/κ. `Pooled` is
  κ = θR/√L.
* The maximum, attention at τ = ∞: πΦ(c)^{L−R}Φ(c−θ)^R + (1−π)(1−Φ(c)^L) at its best c.
* `Vectorized`: min over unit a ∈ R^L and c of πE_vΦ(c − θ⟨a,v⟩) + (1−π)Φ(−c). Even with uniform
  places a = 1/√L is not always best: a rare class is better met by watching a few positions. For
  R = 1, H(t) = Φ(c−θ√t), t = a_l², is convex, concave, convex; so a minimiser has k coordinates at
  one value, L−k−1 at another and one anywhere. That family is searched, for R > 1 too (where it may
  miss something better).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr

from sparsetoken.model.classifiers import Vectorized
from sparsetoken.model.cuts import smooth_cut
from sparsetoken.model.places import log_choose
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError, InvalidInput
from sparsetoken.support.estimate import Estimate

_STRONGEST = 2.0**60  # a strength that no threshold is beyond
_STATIONARY = 1e-4  # gradient of a log error at which rounding may stop a search: costs 1e-8 of it


def trivial_error(prevalence: float) -> float:
    """The error of always saying the likelier class."""
    return min(prevalence, 1 - prevalence)


def not_plain(owner: str, task: Task, when: str = "") -> InvalidInput:
    """What is said where only the paper's tasks have an answer."""
    return InvalidInput(
        f"{owner}: task must have one strength, one sparsity and token_correlation 0"
        f"{when and ' ' + when}, got {task!r}"
    )


def gaussian_error(separation: float, prevalence: float) -> float:
    """πΦ(c−κ) + (1−π)Φ(−c) at its best c, for N(κ,1) against N(0,1)."""
    odds = math.log((1 - prevalence) / prevalence)
    if separation == 0:
        return trivial_error(prevalence)
    cut = separation / 2 + odds / separation
    return float(prevalence * ndtr(cut - separation) + (1 - prevalence) * ndtr(-cut))


@dataclass(frozen=True)
class Gaussian:
    """Two unit Gaussians κ = gain·θ apart."""

    gain: float
    prevalence: float
    sharpness: float | None = None

    def error(self, strength: float) -> Estimate:
        value = gaussian_error(self.gain * strength, self.prevalence)
        return Estimate(value, sharpness=self.sharpness)

    def threshold(self, error: float) -> Estimate:
        root = crossing(lambda k: gaussian_error(k, self.prevalence), error, 1e-13)
        return Estimate(root / self.gain, sharpness=self.sharpness)


def crossing(
    error_at: Callable[[float], float], error: float, tolerance: float, guess: float = 1.0
) -> float:
    """θ > 0 with error_at(θ) = error, for a function that is above it near 0 and falls to 0.

    Regula falsi (Illinois) on the logarithms. Not brentq: it leaves a reference cycle that keeps
    its argument, here a hundred megabytes of draws, alive.
    """

    def excess(strength: float) -> float:
        return math.log(max(error_at(strength), 1e-300) / error)

    low = high = guess
    above = below = excess(guess)
    while below > 0 and high < _STRONGEST:
        low, above, high = high, below, 2 * high
        below = excess(high)
    while above <= 0 and low > 1 / _STRONGEST:
        high, below, low = low, above, low / 2
        above = excess(low)
    if not above > 0 >= below:
        raise ConvergenceError(
            f"signal_threshold: the error does not cross {error:g} between strengths "
            f"{low:g} and {high:g}"
        )
    for _ in range(200):
        middle = high - below * (high - low) / (below - above)
        value = excess(middle)
        if abs(value) <= tolerance or high - low <= tolerance * high:
            return middle
        if value > 0:
            low, above, below = middle, value, below / 2
        else:
            high, below, above = middle, value, above / 2
    raise ConvergenceError(
        f"signal_threshold: between strengths {low:g} and {high:g} after 200 steps, a tolerance of "
        f"{tolerance:g} is required"
    )


@dataclass(frozen=True)
class Maximum:
    """max_l g_l against c: πΦ(c)^{L−R}Φ(c−θ)^R + (1−π)(1 − Φ(c)^L)."""

    task: Task

    def error(self, strength: float) -> Estimate:
        length, sparsity, prevalence = self.task.length, self.task.sparsity, self.task.prevalence

        def loss(cut: Any) -> Any:
            noise, signal = log_ndtr(cut), log_ndtr(cut - strength)
            miss = np.exp((length - sparsity) * noise + sparsity * signal)
            return prevalence * miss - (1 - prevalence) * np.expm1(length * noise)

        cuts = np.linspace(-9.0, strength + 9.0, 400 + 10 * int(min(strength, 1e4)))
        least = smooth_cut(loss, cuts, loss(cuts), 1e-9).cost
        return Estimate(min(least, trivial_error(prevalence)), sharpness=math.inf)

    def threshold(self, error: float) -> Estimate:
        return Estimate(crossing(self.error, error, 1e-12), sharpness=math.inf)


def mean_and_maximum(task: Task) -> tuple[Gaussian, Maximum]:
    """Attention at τ = 0, the mean, and at τ = ∞, the maximum."""
    gain = task.sparsity / math.sqrt(task.length)
    return Gaussian(gain, task.prevalence, sharpness=0.0), Maximum(task)


class _Direction(NamedTuple):
    """A readout direction a and cut c, with the law of ⟨a, v⟩ as atoms."""

    error: float
    cut: float
    scores: FloatArray  # (atoms,)
    weights: FloatArray  # (atoms,)


@dataclass(frozen=True)
class LinearOracle:
    """The best a and c of `Vectorized`."""

    task: Task

    def error(self, strength: float) -> Estimate:
        return Estimate(self._best(strength).error)

    def threshold(self, error: float) -> Estimate:
        """Solve for θ at fixed (a, c), then for the best (a, c) at θ: falls, and quadratically."""
        from scipy.optimize import brentq

        prevalence = self.task.prevalence
        gain = self.task.sparsity / math.sqrt(self.task.length)
        strength = float(Gaussian(gain, prevalence).threshold(error))
        for _ in range(50):
            best = self._best(strength)
            if best.error >= error * (1 - 1e-10):
                break

            def excess(at: float, best: _Direction = best) -> float:
                miss = best.weights @ ndtr(best.cut - at * best.scores)
                return float(prevalence * miss + (1 - prevalence) * ndtr(-best.cut) - error)

            strength = float(brentq(excess, 0.0, strength, xtol=1e-12))
        else:
            raise ConvergenceError(
                f"signal_threshold: error {best.error:g} at strength {strength:g} after 50 rounds, "
                f"{error:g} is required"
            )
        return Estimate(strength)

    def _best(self, strength: float) -> _Direction:
        """The best direction found; uniform a is always among those tried."""
        length, sparsity, prevalence = self.task.length, self.task.sparsity, self.task.prevalence
        gain = sparsity / math.sqrt(length)
        odds = math.log((1 - prevalence) / prevalence)
        cut = gain * strength / 2 + odds / max(gain * strength, 1e-300)
        uniform = gaussian_error(gain * strength, prevalence)
        best = _Direction(uniform, cut, np.array([gain]), np.ones(1))  # a = 1/√L
        if length == 1 or strength == 0:
            return best
        if not self.task.uniform_places:
            places, weights = self._places
            starts = _starting_directions(places, weights)
            found = _best_direction(places, weights, strength, prevalence, starts)
            return _better(found, best)

        def grouped(k: int) -> _Direction:
            shares, weights = _grouped_places(length, sparsity, k)
            flat = np.sqrt(np.array([k, 1, length - k - 1]) / length)
            starts = [np.array([1.0, 0.1, 0.0]), np.array([1.0, 1.0, 0.0]) + flat]
            return _best_direction(shares, weights, strength, prevalence, starts)

        sizes = np.geomspace(1, length - 1, 20).round().astype(int).tolist()
        found_at = {k: grouped(k) for k in sorted(set(sizes))}
        while True:  # halve the gaps next to the best k until there are none
            tried = sorted(found_at)
            place = min(range(len(tried)), key=lambda i: found_at[tried[i]].error)
            gaps = pairwise(tried[max(place - 1, 0) : place + 2])
            middles = [(left + right) // 2 for left, right in gaps if right > left + 1]
            if not middles:
                return _better(found_at[tried[place]], best)
            found_at |= {k: grouped(k) for k in middles}

    @cached_property
    def _places(self) -> tuple[FloatArray, FloatArray]:
        """Every set of places (subsets, L) and its probability."""
        law = Vectorized().law_by_position(replace(self.task, strength=1.0))
        weights = law.weights[law.labels > 0]
        return law.means[law.labels > 0], weights / weights.sum()


def _better(found: _Direction, uniform: _Direction) -> _Direction:
    """The found direction, unless it is the uniform one up to rounding."""
    return found if found.error < uniform.error * (1 - 1e-12) else uniform


def _grouped_places(length: int, sparsity: int, k: int) -> tuple[FloatArray, FloatArray]:
    """Counts of signal tokens among k, 1 and L−k−1 positions, with their probabilities.

    Multivariate hypergeometric; counts of probability below 1e-16 are left out. Counts are divided
    by the roots of the group sizes, so that unit vectors stay unit. Shapes (atoms, 3) and (atoms,).
    """
    rest = length - k - 1
    spread = math.sqrt(sparsity * k / length) * 12 + 40
    first = max(0, sparsity - 1 - rest, int(sparsity * k / length - spread))
    last = min(k, sparsity, int(sparsity * k / length + spread))
    many, one = (part.ravel() for part in np.meshgrid(np.arange(first, last + 1), [0, 1]))
    others = sparsity - many - one
    possible = (others >= 0) & (others <= rest)
    counts = np.column_stack([many, one, others])[possible]

    log_weights = log_choose(k, counts[:, 0]) + log_choose(rest, counts[:, 2])
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    kept = weights > 1e-16
    return counts[kept] / np.sqrt(np.maximum([k, 1, rest], 1)), weights[kept] / weights[kept].sum()


def _starting_directions(places: FloatArray, weights: FloatArray) -> list[FloatArray]:
    """Uniform, by probability of carrying the signal, its root, and the few likeliest positions."""
    likely = weights @ places  # (L,)
    order = np.argsort(-likely)
    starts = [np.ones(len(likely)), likely, np.sqrt(likely)]
    k = 1
    while k < len(likely):
        top = 0.05 * likely
        top[order[:k]] = 1.0
        starts.append(top)
        k *= 2
    return starts


def _best_direction(
    places: FloatArray,
    weights: FloatArray,
    strength: float,
    prevalence: float,
    starts: list[FloatArray],
) -> _Direction:
    """min over a ∈ R^D, c of log(π Σ_i w_i Φ(c − θ⟨places_i, a⟩/‖a‖) + (1−π)Φ(−c)).

    By conjugate gradients. L-BFGS takes as many steps, but its tiny LAPACK calls are threaded and
    become twenty times slower on a busy machine.
    """
    from scipy.optimize import minimize

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        norm = np.linalg.norm(point[:-1])
        unit, cut = point[:-1] / norm, point[-1]
        scores = places @ unit
        value = prevalence * weights @ ndtr(cut - strength * scores) + (1 - prevalence) * ndtr(-cut)
        density = weights * np.exp(-0.5 * (cut - strength * scores) ** 2)
        turn = -strength * (density @ places - (density @ scores) * unit) / norm
        slope = prevalence * density.sum() - (1 - prevalence) * math.exp(-0.5 * cut**2)
        gradient = np.append(prevalence * turn, slope) / math.sqrt(2 * math.pi)
        return math.log(value + 1e-300), gradient / (value + 1e-300)

    found = []
    for start in starts:
        unit = start / np.linalg.norm(start)
        scores = places @ unit
        cuts = np.linspace(-8.0, strength * scores.max() + 8.0, 60)
        misses = ndtr(cuts[:, None] - strength * scores) @ weights
        cut = cuts[np.argmin(prevalence * misses + (1 - prevalence) * ndtr(-cuts))]
        point = np.append(unit, cut)
        result = minimize(objective, point, jac=True, method="CG", options={"gtol": 1e-7})
        # of a log error of −10⁴ the last digits are rounding
        steepest = float(np.abs(result.jac).max()) / max(1.0, abs(result.fun))
        if not result.success and steepest > _STATIONARY:
            raise ConvergenceError(
                f"oracle_error: the best direction has a gradient of {steepest:.1e} in log error "
                f"after {result.nit} steps, {_STATIONARY:g} is required"
            )
        unit = result.x[:-1] / np.linalg.norm(result.x[:-1])
        found.append(_Direction(math.exp(result.fun), result.x[-1], places @ unit, weights))
    return min(found, key=lambda direction: direction.error)

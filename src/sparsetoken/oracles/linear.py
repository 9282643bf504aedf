r"""The best linear readout of a law, and of all tokens side by side (`Vectorized`).

A readout a with cut c of f = Σ_k m_k e_k + σz, fitted to infinitely many samples, has no weight
outside the explicit directions. Its error is, with r the norm of a on the noisy directions,

    Σ_i p_i Φ(y_i (c − ⟨a, m_i⟩) / (σ_i r)).

Where r may vanish the error is a count of atoms. Directions are then sought with a little noise
added along those that have none, a kernel that makes the count smooth.

`Vectorized`: min over unit a ∈ R^L and c of πE_vΦ(c − θ⟨a,v⟩) + (1−π)Φ(−c). Even with uniform
places a = 1/√L is not always best: a rare class is better met by watching a few positions. For
R = 1, H(t) = Φ(c−θ√t), t = a_l², is convex, concave, convex; so a minimiser has k coordinates at
one value, L−k−1 at another and one anywhere. That family is searched, for R > 1 too (where it may
miss something better).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.places import log_choose
from sparsetoken.model.task import Task
from sparsetoken.model.vectorized import Vectorized
from sparsetoken.oracles.exact import Gaussian, gaussian_cut, gaussian_error
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError
from sparsetoken.support.estimate import Estimate

_STATIONARY = 1e-4  # gradient of a log error at which rounding may stop a search: costs 1e-8 of it
_KERNEL = 0.1  # standard deviations of a coordinate: moves the best direction by its square


class Direction(NamedTuple):
    """A readout direction a and cut c, and their error (with the kernel's noise, if any)."""

    error: float
    cut: float
    weights: FloatArray  # (K,)
    law: FeatureLaw


def best_direction(law: FeatureLaw, starts: list[FloatArray]) -> Direction:
    """The best a ∈ R^K and c by conjugate gradients on the logarithm of the error.

    L-BFGS takes as many steps, but its tiny LAPACK calls are threaded and become twenty times
    slower on a busy machine.
    """
    from scipy.optimize import minimize

    kernel = _KERNEL * law.means.std(axis=0) / law.scales.mean()
    units = np.where(law.noisy, 1.0, kernel)  # in which every direction is as noisy
    labels, scales, weights, means = law.labels, law.scales, law.weights, law.means / units

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        norm = np.linalg.norm(point[:-1])
        unit, cut = point[:-1] / norm, point[-1]
        scores = means @ unit
        gaps = labels * (cut - scores) / scales
        value = weights @ ndtr(gaps)
        density = labels * weights * np.exp(-0.5 * gaps**2) / scales
        turn = -(density @ means - (density @ scores) * unit) / norm
        gradient = np.append(turn, density.sum()) / math.sqrt(2 * math.pi)
        return math.log(value + 1e-300), gradient / (value + 1e-300)

    best = []
    for start in starts:
        unit = start * units / np.linalg.norm(start * units)
        scores, reach = means @ unit, 8 * scales.max()
        cuts = np.linspace(scores.min() - reach, scores.max() + reach, 60)
        errors = [weights @ ndtr(labels * (cut - scores) / scales) for cut in cuts]
        point = np.append(unit, cuts[np.argmin(errors)])
        result = minimize(objective, point, jac=True, method="CG", options={"gtol": 1e-7})
        # of a log error of −10⁴ the last digits are rounding
        steepest = float(np.abs(result.jac).max()) / max(1.0, abs(result.fun))
        if not result.success and steepest > _STATIONARY:
            raise ConvergenceError(
                f"oracle_error: the best direction has a gradient of {steepest:.1e} in log error "
                f"after {result.nit} steps, {_STATIONARY:g} is required"
            )
        unit = result.x[:-1] / np.linalg.norm(result.x[:-1])
        best.append(Direction(math.exp(result.fun), float(result.x[-1]), unit / units, law))
    return min(best, key=lambda direction: direction.error)


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
        gain = self.task.fixed_sparsity / math.sqrt(self.task.length)
        strength = float(Gaussian(gain, prevalence).threshold(error))
        for _ in range(50):
            best = self._best(strength)
            if best.error >= error * (1 - 1e-10):
                break

            scores = best.law.means @ best.weights  # in proportion to θ

            def excess(ratio: float, best: Direction = best, scores: FloatArray = scores) -> float:
                gaps = best.law.labels * (best.cut - ratio * scores)
                return float(best.law.weights @ ndtr(gaps) - error)

            strength *= float(brentq(excess, 0.0, 1.0, xtol=1e-14))
        else:
            raise ConvergenceError(
                f"signal_threshold: error {best.error:g} at strength {strength:g} after 50 rounds, "
                f"{error:g} is required"
            )
        return Estimate(strength)

    def _best(self, strength: float) -> Direction:
        """The best readout of those tried; uniform a is always among them."""
        length, prevalence = self.task.length, self.task.prevalence
        sparsity = self.task.fixed_sparsity
        kappa = sparsity / math.sqrt(length) * strength
        cut = gaussian_cut(max(kappa, 1e-300), prevalence)
        law = Vectorized().law(replace(self.task, strength=strength, places=None))
        uniform = Direction(gaussian_error(kappa, prevalence), cut, np.ones(1), law)
        if length == 1 or strength == 0:
            return uniform
        if not self.task.uniform_places:
            best = best_direction(self._law(*self._places, strength), _starts(*self._places))
            return _better(best, uniform)

        def grouped(k: int) -> Direction:
            flat = np.sqrt(np.array([k, 1, length - k - 1]) / length)
            starts = [np.array([1.0, 0.1, 0.0]), np.array([1.0, 1.0, 0.0]) + flat]
            law = self._law(*_grouped_places(length, sparsity, k), strength)
            return best_direction(law, starts)

        sizes = np.geomspace(1, length - 1, 20).round().astype(int).tolist()
        tried = {k: grouped(k) for k in sorted(set(sizes))}
        while True:  # halve the gaps next to the best k until there are none
            order = sorted(tried)
            place = min(range(len(order)), key=lambda i: tried[order[i]].error)
            gaps = pairwise(order[max(place - 1, 0) : place + 2])
            middles = [(left + right) // 2 for left, right in gaps if right > left + 1]
            if not middles:
                return _better(tried[order[place]], uniform)
            tried |= {k: grouped(k) for k in middles}

    def _law(self, places: FloatArray, weights: FloatArray, strength: float) -> FeatureLaw:
        """Of sets of places (sets, K) with these probabilities."""
        width = places.shape[1]
        positive = (strength * places, np.ones(len(places)), weights)
        negative = (np.zeros((1, width)), [1.0], [1.0])
        noisy = np.ones(width, dtype=bool)
        return FeatureLaw.of_classes(self.task.prevalence, positive, negative, noisy)

    @cached_property
    def _places(self) -> tuple[FloatArray, FloatArray]:
        """Every set of places (subsets, L) and its probability."""
        law = Vectorized().law_by_position(replace(self.task, strength=1.0))
        weights = law.weights[law.labels > 0]
        return law.means[law.labels > 0], weights / weights.sum()


def _better(best: Direction, uniform: Direction) -> Direction:
    """The first, unless it is the uniform one up to rounding."""
    return best if best.error < uniform.error * (1 - 1e-12) else uniform


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


def _starts(places: FloatArray, weights: FloatArray) -> list[FloatArray]:
    """Uniform, by probability of carrying the signal, its root, and the few likeliest positions."""
    likely = weights @ places  # (L,)
    order = np.argsort(-likely)
    starts = [np.ones(len(likely)), likely, np.sqrt(likely)]
    for doublings in range((len(likely) - 1).bit_length()):
        top = 0.05 * likely
        top[order[: 1 << doublings]] = 1.0
        starts.append(top)
    return starts

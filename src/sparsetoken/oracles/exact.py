r"""Oracles that need no sampling: two Gaussians, and the maximum.

* Two unit Gaussians κ apart: πΦ(c−κ) + (1−π)Φ(−c) at c = κ/2 + log((1−π)/π)/κ. `Pooled` is
  κ = θR/√L.
* The maximum, attention at τ = ∞: πΦ(c)^{L−R}Φ(c−θ)^R + (1−π)(1−Φ(c)^L) at its best c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit, log_expit, log_ndtr, logsumexp, ndtr

from sparsetoken.model.cuts import smooth_cut
from sparsetoken.model.task import Task, require_white
from sparsetoken.oracles.thresholds import crossing, trivial_error
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

_LEAST_LOG = 700.0  # e^−700 is the least number but for a few
_KNOT = 0.25  # between centres, in units of the scale: the spline is then good to 1e-7


def check_plain(owner: str, task: Task, when: str = "") -> None:
    """Where only the paper's tasks have an answer."""
    require_white(owner, task)
    if not task.is_plain:
        allowed = "task must have one strength, one sparsity and token_correlation 0"
        raise InvalidInput(f"{owner}: {allowed}{when and ' ' + when}, got {task!r}")


def mean_expit(centres: FloatArray, scale: float) -> FloatArray:
    """E expit(a + sz) over a standard normal z, for centres a (n,); the same as E Φ((a − Λ)/s) over
    a logistic Λ.

    Its logit is computed at a few centres, by the trapezoidal rule for the smoother of the two
    (poles are π off the axis or more: right to 16 digits), and lies on a spline between them; far
    away it is a − s²/2 or a + s²/2.

    >>> round(float(mean_expit(np.array([0.0]), 3.0)[0]), 12)
    0.5
    """
    if scale == 0:
        return np.asarray(expit(centres))
    logits, reach = _smoothed_logit(scale)
    inside = np.clip(centres, -reach, reach)
    return np.asarray(expit(logits(inside) + (centres - inside)))


@lru_cache(maxsize=16)  # blocks of draws ask for one scale after another
def _smoothed_logit(scale: float) -> tuple[CubicSpline, float]:
    """logit E expit(a + sz) as a spline in a, and how far it reaches."""
    reach = 40 + 9 * scale + min(scale**2 / 2, _LEAST_LOG)
    knots = np.linspace(-reach, 0, math.ceil(reach / (_KNOT * max(scale, 1))) + 1)
    if scale < 1:
        nodes = np.arange(-10, 10.5, 0.5)
        logs = log_expit(knots[:, None] + scale * nodes) - (nodes**2 + math.log(8 * np.pi)) / 2
    else:  # Λ adds most where it is above a − 40 and, as a ≤ 0, below 40
        nodes = np.arange(-min(reach + 40, _LEAST_LOG), 40, 0.5)
        logs = log_ndtr((knots[:, None] - nodes) / scale) + log_expit(nodes) + log_expit(-nodes)
        logs -= math.log(2)
    sums = logsumexp(logs, axis=1)
    logits = sums - np.log1p(-np.exp(sums))
    knots, logits = np.append(knots, -knots[-2::-1]), np.append(logits, -logits[-2::-1])
    return CubicSpline(knots, logits), reach  # E expit(−a − sz) is 1 − E expit(a + sz)


def gaussian_cut(separation: float, prevalence: float) -> float:
    """κ/2 + log((1−π)/π)/κ."""
    return separation / 2 + math.log((1 - prevalence) / prevalence) / separation


def gaussian_error(separation: float, prevalence: float) -> float:
    """πΦ(c−κ) + (1−π)Φ(−c) at its best c, for N(κ,1) against N(0,1)."""
    if separation == 0:
        return trivial_error(prevalence)
    cut = gaussian_cut(separation, prevalence)
    return float(prevalence * ndtr(cut - separation) + (1 - prevalence) * ndtr(-cut))


@dataclass(frozen=True)
class Gaussian:
    """Two unit Gaussians κ = gain·θ apart."""

    gain: float
    prevalence: float
    sharpness: float | None = None

    def error(self, strength: float, few: bool = False) -> Estimate:
        value = gaussian_error(self.gain * strength, self.prevalence)
        return Estimate(value, sharpness=self.sharpness)

    def threshold(self, error: float) -> Estimate:
        root = crossing(lambda k: gaussian_error(k, self.prevalence), error, 1e-13)
        return Estimate(root / self.gain, sharpness=self.sharpness)

    def overlaps(self, strength: float, chance: float) -> FloatArray:
        """gain²·E[η] of positive samples, η = P(+ | sample) where a share `chance` is positive."""
        if chance == 1:
            return np.array([self.gain**2])
        separation = self.gain * strength
        odds = math.log(chance / (1 - chance)) + separation**2 / 2
        return self.gain**2 * chance * mean_expit(np.array([odds]), separation)


@dataclass(frozen=True)
class Maximum:
    """max_l g_l against c: πΦ(c)^{L−R}Φ(c−θ)^R + (1−π)(1 − Φ(c)^L)."""

    task: Task

    def error(self, strength: float) -> Estimate:
        length, prevalence = self.task.length, self.task.prevalence
        sparsity = self.task.fixed_sparsity

        def loss(cut: Any) -> Any:
            noise, signal = log_ndtr(cut), log_ndtr(cut - strength)
            miss = np.exp((length - sparsity) * noise + sparsity * signal)
            return prevalence * miss - (1 - prevalence) * np.expm1(length * noise)

        cuts = np.linspace(-9.0, strength + 9.0, 400 + 10 * int(min(strength, 1e4)))
        least = smooth_cut(loss, cuts, loss(cuts), 1e-9).cost
        return Estimate(min(least, trivial_error(prevalence)), sharpness=math.inf)

    def threshold(self, error: float) -> Estimate:
        return Estimate(crossing(self.error, error, 1e-12), sharpness=math.inf)


@dataclass(frozen=True)
class MeanOrMaximum:
    """The better of the two, attention at τ = 0 and at τ = ∞: all that a hard maximum can be."""

    task: Task

    @property
    def mean(self) -> Gaussian:
        gain = self.task.fixed_sparsity / math.sqrt(self.task.length)
        return Gaussian(gain, self.task.prevalence, sharpness=0.0)

    @property
    def maximum(self) -> Maximum:
        return Maximum(self.task)

    def error(self, strength: float) -> Estimate:
        return min(self.mean.error(strength), self.maximum.error(strength))

    def threshold(self, error: float) -> Estimate:
        return min(self.mean.threshold(error), self.maximum.threshold(error))

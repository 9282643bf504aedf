r"""What is known of the signal before any sample: coordinates of N(0, p/d) (`learning_equation`).

White noise: p = 1. With coloured noise of known Σ and a signal of known shares μ in it, whitened
coordinates have the variance p(x) = (dμ/dν)/x, here in units of μ[1/x], so that ν[p] = 1. What is
told of a coordinate with precision Γ is Γp²/(1+Γp): in place of m = Γ/(1 + Γ)

    m = ν[Γp²/(1+Γp)],    ½ν[log(1+Γp)] in the mutual information,

and the cosine with the signal as it is given, not whitened, is √(μ[1/x] ν[xΓp²/(1+Γp)]).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sparsetoken.model.covariances import Covariances
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

_NEWTON = 200  # steps at most; each at least halves what is left of log Γ far away


class Prior(Protocol):
    """What an equation of learning asks of it."""

    def excess(self, root: float, gamma: float) -> float:
        """Of the sign of root² over what Γ tells."""
        ...

    def precision(self, overlap: FloatArray) -> FloatArray:
        """Γ at which it tells m."""
        ...

    def overlap(self, gamma: FloatArray) -> FloatArray:
        """m at Γ."""
        ...

    def slope(self, gamma: float) -> float:
        """dm/dΓ."""
        ...

    def entropy(self, gamma: FloatArray) -> FloatArray:
        """Information of ξ with ξ seen at precision Γ."""
        ...

    def cosine(self, gamma: FloatArray) -> FloatArray:
        """Of the posterior mean with the signal as it is given."""
        ...


@dataclass(frozen=True)
class WhitePrior:
    """p = 1."""

    def excess(self, root: float, gamma: float) -> float:
        return root**2 - (1 - root**2) * gamma

    def precision(self, overlap: FloatArray) -> FloatArray:
        return np.asarray(overlap / (1 - overlap))

    def overlap(self, gamma: FloatArray) -> FloatArray:
        return np.asarray(gamma / (1 + gamma))

    def slope(self, gamma: float) -> float:
        return (1 + gamma) ** -2

    def entropy(self, gamma: FloatArray) -> FloatArray:
        return np.asarray(np.log1p(gamma) / 2)

    def cosine(self, gamma: FloatArray) -> FloatArray:
        return np.sqrt(self.overlap(gamma))


@dataclass(frozen=True)
class SpectralPrior:
    """Variances p on a spectrum ν.

    >>> prior = SpectralPrior((1.0, 2.0), (0.5, 0.5), (0.5, 0.5))
    >>> float(prior.overlap(prior.precision(np.array(0.3))).round(12))
    0.3
    """

    eigenvalues: tuple[float, ...]  # x
    density: tuple[float, ...]  # ν, all above 0
    share: tuple[float, ...]  # μ, all above 0

    @property
    def length(self) -> float:
        """μ[1/x]: the squared length of the signal in units of the noise."""
        return float(np.array(self.share) @ (1 / np.array(self.eigenvalues)))

    @property
    def variances(self) -> FloatArray:
        """p (atoms,)."""
        scale = np.array(self.eigenvalues) * np.array(self.density) * self.length
        return np.asarray(np.array(self.share) / scale)

    def excess(self, root: float, gamma: float) -> float:
        p = self.variances
        open_ = float(np.array(self.density) @ (p / (1 + gamma * p)))  # 1 − m, with all its digits
        return open_ * (1 + gamma) - (1 - root**2) * (1 + gamma)

    def precision(self, overlap: FloatArray) -> FloatArray:
        left = 1 - np.asarray(overlap, dtype=float)
        low = np.full(left.shape, -60.0)  # log Γ
        high = np.full(left.shape, 60.0)
        nu, p = np.array(self.density), self.variances
        with np.errstate(over="ignore"):
            for _ in range(_NEWTON):
                middle = (low + high) / 2
                open_ = (p / (1 + np.exp(middle)[..., None] * p)) @ nu
                low, high = (
                    np.where(open_ > left, middle, low),
                    np.where(open_ > left, high, middle),
                )
        gamma = np.exp((low + high) / 2)
        return np.asarray(np.where(left >= 1, 0.0, np.where(left <= 0, np.inf, gamma)))

    def overlap(self, gamma: FloatArray) -> FloatArray:
        return self._average(gamma, self.variances)

    def slope(self, gamma: float) -> float:
        p = self.variances
        return float(np.array(self.density) @ (p / (1 + gamma * p)) ** 2)

    def entropy(self, gamma: FloatArray) -> FloatArray:
        logarithms = np.log1p(np.asarray(gamma)[..., None] * self.variances)
        return np.asarray(logarithms @ np.array(self.density) / 2)

    def cosine(self, gamma: FloatArray) -> FloatArray:
        weights = np.array(self.eigenvalues) * self.length * self.variances
        return np.sqrt(self._average(gamma, weights))

    def _average(self, gamma: FloatArray, weights: FloatArray) -> FloatArray:
        """ν[w Γp/(1+Γp)]."""
        moved = np.asarray(gamma, dtype=float)[..., None] * self.variances
        return np.asarray((weights * moved / (1 + moved)) @ np.array(self.density))


def prior_of(owner: str, task: Task) -> Prior:
    """What is known of the signal of a task without a spread."""
    if task.is_white:
        return WhitePrior()
    joint = task.joint_spectrum
    if isinstance(task.noise, Covariances) or joint is None:
        raise InvalidInput(
            f"{owner}: noise must be White() or a Spectrum (whose shares of the signal a learner "
            f"may know without knowing the signal), got {task.noise!r}"
        )
    carried = joint.share > 0
    if np.any(joint.density[carried] == 0):
        raise InvalidInput(
            f"{owner}: noise must have a density above 0 wherever it has a share of the signal "
            f"(else that part is known at once), got {task.noise!r}"
        )
    parts = (joint.noise, joint.density, joint.share)
    return SpectralPrior(*(tuple(part[carried].tolist()) for part in parts))

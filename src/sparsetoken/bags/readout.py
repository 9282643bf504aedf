r"""The weighted convex fit of a readout, and the sigmoid of its scores.

    (w, b) = argmin Σ weight·ℓ(y(⟨w, f⟩ + b))/Σ weight + (λ/2)‖w‖²,   bias not penalised,

by Newton's method, each step by conjugate gradients: cross-validation asks for hundreds of small
fits, one ridge after another, each started from the one before.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError

_MOST_STEPS = 200
_MOST_PRODUCTS = 1000  # in a step
_STUCK = 256  # roundings accepted where steps no longer help
_LEAST_CURVATURE = 1e-12  # keeps the bias solvable where no sample has curvature


class ReadoutFit:
    """Features (n, p), labels (n,) and weights (n,) of samples, ready for any loss and ridge."""

    def __init__(self, features: FloatArray, labels: FloatArray, weights: FloatArray) -> None:
        kept = weights > 0
        whole = bool(kept.all())
        self.features = features if whole else features[kept]
        self.labels = labels if whole else labels[kept]
        self.share = (weights if whole else weights[kept]) / weights.sum()
        self.centre = self.share @ self.features
        self.features = self.features - self.centre
        self.size = math.sqrt(self.share @ np.einsum("np,np->n", self.features, self.features))

    def __call__(
        self, loss: Loss, ridge: float, start: FloatArray | None = None, tolerance: float = 1e-8
    ) -> FloatArray:
        """(w, b), shape (p + 1,); the pulls of all samples cancel up to `tolerance` of their sum.

        >>> rng = np.random.default_rng(0)
        >>> labels = np.sign(rng.standard_normal(500))
        >>> features = rng.standard_normal((500, 3)) + labels[:, None]
        >>> from sparsetoken import Logistic
        >>> fitted = ReadoutFit(features, labels, np.ones(500))(Logistic(), ridge=0.1)
        >>> fitted[:3].round(2).tolist()
        [0.68, 0.74, 0.8]
        """
        features, labels, share = self.features, self.labels, self.share
        found = np.zeros(features.shape[1] + 1) if start is None else start.copy()
        found[-1] += self.centre @ found[:-1]  # the bias of centred features, till the end
        scores = features @ found[:-1] + found[-1]
        floor, before = 0.0, math.inf
        for _ in range(_MOST_STEPS):
            slope = loss.slope(labels * scores)
            pull = share * labels * slope
            along, level = pull @ features + ridge * found[:-1], float(pull.sum())
            pulls = float(share @ np.abs(slope)) or 1.0
            left = math.hypot(float(np.linalg.norm(along)) / (self.size or 1.0), level) / pulls
            if left <= tolerance:
                return self._uncentred(found)
            curvature = share * np.maximum(
                loss.curvature(labels * scores), max(floor, _LEAST_CURVATURE)
            )
            accuracy = max(min(0.1, left), 0.1 * tolerance / left)
            step = self._newton_step(along, level, curvature, ridge, accuracy)
            change = features @ step[:-1] + step[-1]
            length = self._length(loss, ridge, found, scores, step, change)
            if length == 0.0 and floor == 0.0 and left > 0.5 * before:
                break
            found, scores = found + length * step, scores + length * change
            floor = min(1.0, max(10 * floor, 1e-3)) if length < 0.2 else floor / 10
            floor = floor if floor > 1e-6 else 0.0
            before = left
        if left <= _STUCK * self._rounding(loss, scores, pulls):
            return self._uncentred(found)
        raise ConvergenceError(
            f"ReadoutFit: relative gradient {left:.1e}, {tolerance:.0e} is required "
            f"({len(features)} samples, {features.shape[1]} features, {loss!r}, ridge={ridge:g})"
        )

    def _rounding(self, loss: Loss, scores: FloatArray, pulls: float) -> float:
        """What rounding makes of the relative gradient: a score is known to ε times its size, its
        slope to ℓ″ times that, and such errors add up like √n."""
        errors = self.share * loss.curvature(self.labels * scores) * (1 + np.abs(scores))
        return float(np.finfo(float).eps * np.linalg.norm(errors)) / pulls

    def _uncentred(self, found: FloatArray) -> FloatArray:
        found = found.copy()
        found[-1] -= self.centre @ found[:-1]
        return found

    def _newton_step(
        self, along: FloatArray, level: float, curvature: FloatArray, ridge: float, accuracy: float
    ) -> FloatArray:
        """(FᵀDF − hhᵀ/ΣD + λ) δ = −(∇ − h ∇_b/ΣD), h = FᵀD1, by conjugate gradients."""
        features, total = self.features, float(curvature.sum())
        lift = curvature @ features
        residual = lift * (level / total) - along
        solution = np.zeros_like(residual)
        toward, energy = residual, float(residual @ residual)
        small = accuracy**2 * energy
        # an unfinished solution is a direction of descent all the same: the outer loop certifies
        for _ in range(_MOST_PRODUCTS):
            if energy <= small:
                break
            image = curvature * (features @ toward - float(lift @ toward) / total)
            pushed = image @ features + ridge * toward
            length = energy / float(toward @ pushed)
            solution = solution + length * toward
            residual = residual - length * pushed
            energy, last = float(residual @ residual), energy
            toward = residual + (energy / last) * toward
        return np.append(solution, -(level + float(lift @ solution)) / total)

    def _length(
        self,
        loss: Loss,
        ridge: float,
        found: FloatArray,
        scores: FloatArray,
        step: FloatArray,
        change: FloatArray,
    ) -> float:
        """A length at which the objective falls and its slope along the step has shrunk."""
        margin, turn = self.labels * scores, self.labels * change
        inner, square = ridge * float(found[:-1] @ step[:-1]), ridge * float(step[:-1] @ step[:-1])

        def slope(t: float) -> float:
            return float((self.share * turn) @ loss.slope(margin + t * turn)) + inner + t * square

        start = slope(0.0)
        low, high, length = 0.0, math.inf, 1.0
        # the objective is convex along the step: 40 halvings leave 1e-12 of it, or no descent
        for _ in range(40):
            here = slope(length)
            if abs(here) <= 0.9 * abs(start):
                return length
            if here > 0:
                high = length
            else:
                low = length
            length = 0.5 * (low + high) if math.isfinite(high) else 4 * length
        return low


def sigmoid_fit(scores: FloatArray, labels: FloatArray, weights: FloatArray) -> FloatArray:
    """(slope, offset) of P(positive | score) = 1/(1 + e^{−slope·score − offset}), slope ≥ 0.

    Platt's targets, a little inside 0 and 1, keep it finite where scores separate the classes.
    """
    up, down = float(weights[labels > 0].sum()), float(weights[labels < 0].sum())
    target = np.where(labels > 0, (up + 1) / (up + 2), 1 / (down + 2))
    share = weights / weights.sum()
    scale = max(float(np.sqrt(share @ scores**2)), 1e-12)
    level = scores / scale
    chance = float(share @ target)
    flat = np.array([0.0, math.log(chance / (1 - chance))])
    found, value = flat.copy(), _misfit(flat, level, share, target)
    for _ in range(100):
        now = expit(found[0] * level + found[1])
        pull, curvature = share * (now - target), share * now * (1 - now)
        gradient = np.array([pull @ level, pull.sum()])
        if np.abs(gradient).max() < 1e-10:
            break
        cross = curvature @ level
        hessian = np.array([[curvature @ level**2, cross], [cross, curvature.sum()]])
        step = np.linalg.solve(hessian + 1e-12 * np.eye(2), gradient)
        length, here = 1.0, _misfit(found - step, level, share, target)
        while not here < value and length > 1e-12:  # far from the minimum a full step overshoots
            length *= 0.5
            here = _misfit(found - length * step, level, share, target)
        if not here < value:
            break  # rounding
        found, value = found - length * step, here
    if np.abs(gradient).max() > 1e-7:  # where the value rounds, its gradient is at √ε
        raise ConvergenceError(
            f"sigmoid_fit: gradient {np.abs(gradient).max():.1e} after 100 steps, 1e-7 is required"
        )
    if found[0] <= 0:  # scores say nothing, or the opposite: only the prevalence is left
        return flat
    return np.array([found[0] / scale, found[1]])


def _misfit(at: FloatArray, level: FloatArray, share: FloatArray, target: FloatArray) -> float:
    """The mean of log(1 + e^z) − target·z, z = slope·level + offset."""
    z = at[0] * level + at[1]
    return float(share @ (np.logaddexp(0.0, z) - target * z))

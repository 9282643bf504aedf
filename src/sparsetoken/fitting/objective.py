r"""The objective of stage 4 on arrays, and the certificate of a minimiser.

(1/n) Σ ℓ(x_i) + (λ/2)‖w‖²,   x = y(Fw + b),   bias not penalised

certificate = ‖(∇_w/φ, ∇_b)‖ / (1/n)Σ|ℓ′(x_i)|,   φ² = mean‖f_i‖²
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import Array, floats
from sparsetoken.support.checks import real
from sparsetoken.support.errors import InvalidInput

_ROUNDINGS = 8  # of size ε in a score
_STUCK = 16  # times that much is accepted where steps no longer help
_TOLERANCE = {8: 1e-8, 4: 1e-6}  # of the certificate, by bytes of a float


def sample_rows(n: int) -> slice:
    """About a thousand of n rows, evenly spread: enough for the scales of features."""
    return slice(None, None, max(1, n // 1024))


class Fitted(NamedTuple):
    """A fitted readout, with the certificate of its optimality."""

    weights: Array  # (p,)
    bias: float
    scores: Array  # (n,), Fw + b on the training samples
    certificate: float  # relative gradient, see the module
    gradient_norm: float  # ‖∇‖ over (w, b)
    steps: int  # Newton steps, or solutions with a Cholesky factor
    products: int  # pairs of products with F and Fᵀ inside the steps


class Gradient(NamedTuple):
    """The gradient at a point, and what it is measured with."""

    weights: Array  # (p,)
    bias: float
    norm: float
    certificate: float
    rounding: float  # of the certificate


@dataclass(frozen=True, eq=False)
class Objective:
    """Features, labels, loss and ridge: what is minimised."""

    xp: Any  # the namespace of the arrays
    features: Array  # (n, p)
    labels: Array  # (n,)
    loss: Loss
    ridge: float
    tolerance: float
    size: float  # φ = √(mean‖f‖²), from some of the samples
    gradient_norm: float = 0.0  # ‖∇‖ that is small enough, whatever the certificate

    @property
    def n(self) -> int:
        return int(self.features.shape[0])

    @classmethod
    def of(
        cls,
        features: Array,
        labels: Array,
        loss: Loss,
        ridge: float,
        tolerance: float | None,
        gradient_norm: float = 0.0,
    ) -> Objective:
        """Checked: shapes, finite numbers, both classes."""
        xp, features = floats(features)
        if features.ndim != 2 or min(features.shape) < 1:
            raise InvalidInput(
                f"fit: features must be a matrix (n, p), got shape {tuple(features.shape)}"
            )
        n = int(features.shape[0])
        labels = xp.asarray(labels, dtype=features.dtype, device=features.device)
        if tuple(labels.shape) != (n,) or not bool(xp.all(xp.abs(labels) == 1)):
            raise InvalidInput(
                f"fit: labels must be {n} numbers +1 or -1 (one a row of features), "
                f"got shape {tuple(labels.shape)}"
            )
        if abs(float(xp.sum(labels))) == n:
            raise InvalidInput(
                f"fit: labels must hold both +1 and -1, got only {int(labels[0]):+d}"
            )
        ridge = real("fit", "ridge", ridge, least=0)
        width = float(features.dtype.itemsize)
        tolerance = real("fit", "tolerance", tolerance or _TOLERANCE[int(width)], above=0, below=1)
        some = features[sample_rows(n)]
        size = float(xp.linalg.vector_norm(some)) / math.sqrt(some.shape[0]) or 1.0
        gradient_norm = real("fit", "gradient_norm", gradient_norm, least=0)
        return cls(xp, features, labels, loss, ridge, tolerance, size, gradient_norm)

    def value(self, weights: Array, scores: Array) -> float:
        """At w and the scores u = Fw + b."""
        losses = self.loss.value(self.labels * scores)
        return float(self.xp.mean(losses)) + 0.5 * self.ridge * float(weights @ weights)

    def gradient(self, weights: Array, scores: Array) -> Gradient:
        """∇ at w and the scores u = Fw + b."""
        xp, n = self.xp, self.n
        slope = self.loss.slope(self.labels * scores)
        pull = self.labels * slope / n
        along = self.features.T @ pull + self.ridge * weights
        bias = float(xp.sum(pull))
        length = float(xp.linalg.vector_norm(along))
        norm = math.hypot(length, bias)
        pulls = float(xp.sum(xp.abs(slope))) / n
        if not pulls > 0:
            return Gradient(along, bias, norm, math.inf, 0.0)
        relative = math.hypot(length / self.size, bias) / pulls
        return Gradient(along, bias, norm, relative, self._rounding(scores, pulls))

    def _rounding(self, scores: Array, pulls: float) -> float:
        """What rounding makes of the certificate: a score is known to about ε times its size, its
        slope to ℓ″ times that, and n such errors add up like √n."""
        xp = self.xp
        errors = self.loss.curvature(self.labels * scores) * (1 + xp.abs(scores))
        epsilon = float(xp.finfo(self.features.dtype).eps)
        return _ROUNDINGS * epsilon * float(xp.linalg.vector_norm(errors)) / (self.n * pulls)

    def met(self, gradient: Gradient, stuck: bool = False) -> bool:
        """Whether the certificate meets the tolerance, or its own rounding where that is larger."""
        rounding = gradient.rounding * (_STUCK if stuck else 1)
        return (
            gradient.certificate <= max(self.tolerance, rounding)
            or gradient.norm <= self.gradient_norm > 0
        )

    def judge(
        self, weights: Array, bias: float, steps: int, products: int, stuck: bool = False
    ) -> tuple[Fitted, bool]:
        """(w, b) with its scores and its certificate from scratch, and whether that is met."""
        scores = self.features @ weights + bias
        gradient = self.gradient(weights, scores)
        fitted = Fitted(weights, bias, scores, gradient.certificate, gradient.norm, steps, products)
        return fitted, self.met(gradient, stuck)

    def shortfall(self, certificate: float) -> str:
        """Why no fit is returned."""
        n, p = self.features.shape
        return (
            f"fit: relative gradient {certificate:.1e}, {self.tolerance:.1e} is required "
            f"({n} samples, {p} features, {self.loss!r}, ridge={self.ridge:g})"
        )

r"""The objective of a convex fit on arrays, and the certificate of a minimiser.

Σ s_i ℓ(x_i) + (λ/2)‖w‖²,   x = y(Fw + b + o),   bias not penalised

certificate = ‖(∇_w/φ, ∇_b)‖ / Σ s_i|ℓ′(x_i)|,   φ² = mean‖f_i‖²

The shares s_i of the samples are 1/n, or in proportion to their weights; the offsets o are 0 unless
given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from sparsetoken.model.losses import Loss, Square
from sparsetoken.support.arrays import Array, floats
from sparsetoken.support.checks import real
from sparsetoken.support.errors import ConvergenceError, InvalidInput, NoMinimiserError

_ROUNDINGS = 8  # of size ε in a score
_STUCK = 16  # times that much is accepted where steps no longer help
_TOLERANCE = {8: 1e-8, 4: 1e-6}  # of the certificate, by bytes of a float
Derivatives = tuple[Array, Array]  # slopes and curvatures of the loss (n,)


def sample_rows(n: int) -> slice:
    """About a thousand of n rows, evenly spread: enough for the scales of features."""
    return slice(None, None, max(1, n // 1024))


class Fitted(NamedTuple):
    """A fitted readout, with the certificate of its optimality."""

    weights: Array  # (p,)
    bias: float
    scores: Array  # (n,), Fw + b + o on the training samples
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
    curvatures: Array  # (n,), ℓ″


@dataclass(frozen=True, eq=False)
class Objective:
    """Features, labels, loss, ridge, shares and offsets: what is minimised."""

    xp: Any  # the namespace of the arrays
    features: Array  # (n, p)
    labels: Array  # (n,)
    loss: Loss
    ridge: float
    tolerance: float
    size: float  # φ = √(mean‖f‖²), from some of the samples
    epsilon: float  # of the features' kind of floats
    gradient_norm: float = 0.0  # ‖∇‖ that is small enough, whatever the certificate
    shares: Array | None = None  # (n,), of sum 1; None: all 1/n
    offsets: Array | None = None  # (n,); None: all 0

    @cached_property
    def n(self) -> int:
        return int(self.features.shape[0])

    @cached_property
    def p(self) -> int:
        return int(self.features.shape[1])

    @property
    def kinked(self) -> bool:
        """Whether the slope of the loss is a clipped line: it has a `dual_box`."""
        return getattr(self.loss, "dual_box", None) is not None

    @property
    def one_factor(self) -> bool:
        """Whether one matrix is the Hessian everywhere, and all samples weigh the same."""
        return isinstance(self.loss, Square) and self.shares is None

    @classmethod
    def of(
        cls,
        features: Array,
        labels: Array,
        loss: Loss,
        ridge: float,
        tolerance: float | None,
        gradient_norm: float = 0.0,
        weights: Array | None = None,
        offsets: Array | None = None,
    ) -> Objective:
        """Checked: shapes, finite numbers, both classes."""
        xp, features = floats(features)
        if features.ndim != 2 or min(features.shape) < 1:
            raise InvalidInput(
                f"fit: features must be a matrix (n, p), got shape {tuple(features.shape)}"
            )
        n, like = int(features.shape[0]), {"dtype": features.dtype, "device": features.device}
        labels = xp.asarray(labels, **like)
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
        usual = _TOLERANCE[features.dtype.itemsize]
        tolerance = real("fit", "tolerance", tolerance or usual, above=0, below=1)
        some = features[sample_rows(n)]
        size = float(xp.linalg.vector_norm(some)) / math.sqrt(some.shape[0]) or 1.0
        gradient_norm = real("fit", "gradient_norm", gradient_norm, least=0)
        if weights is not None:
            weights = _of_samples(xp, "weights", weights, n, like)
            sides = [float(xp.sum(weights[labels == side])) for side in (1, -1)]
            if not bool(xp.all(weights >= 0)) or min(sides) <= 0:
                raise InvalidInput(
                    "fit: weights must be at least 0, and above 0 for some sample of each class, "
                    f"got a smallest of {float(xp.min(weights)):g} and sums of {sides[0]:g} and "
                    f"{sides[1]:g}"
                )
            weights = weights / sum(sides)
        if offsets is not None:
            offsets = _of_samples(xp, "offsets", offsets, n, like)
        epsilon = float(xp.finfo(features.dtype).eps)
        return cls(
            xp, features, labels, loss, ridge, tolerance, size, epsilon, gradient_norm, weights,
            offsets,
        )  # fmt: skip

    def at(self, ridge: float) -> Objective:
        """With another ridge."""
        return replace(self, ridge=real("fit", "ridge", ridge, least=0))

    def scores(self, weights: Array, bias: float) -> Array:
        """u = Fw + b + o, (n,)."""
        scores = self.features @ weights + bias
        return scores if self.offsets is None else scores + self.offsets

    def mean(self, values: Array) -> float:
        """Over the samples, by their shares."""
        if self.shares is None:
            return float(values.sum()) / self.n
        return float(self.shares @ values)

    def shared(self, values: Array) -> Array:
        """What each sample (n,) adds to the mean."""
        return values / self.n if self.shares is None else self.shares * values

    def value(self, weights: Array, scores: Array) -> float:
        """At w and the scores u = Fw + b + o."""
        losses = self.loss.value(self.labels * scores)
        return self.mean(losses) + 0.5 * self.ridge * float(weights @ weights)

    def gradient(
        self, weights: Array, scores: Array, derivatives: Derivatives | None = None
    ) -> Gradient:
        """∇ at w and the scores u = Fw + b + o; `derivatives` of the loss there, if known."""
        slope, curvatures = derivatives or self.loss.derivatives(self.labels * scores)
        pull = self.shared(self.labels * slope)
        along = self.features.T @ pull + self.ridge * weights
        bias = float(pull.sum())
        length = math.sqrt(float(along @ along))
        norm = math.hypot(length, bias)
        pulls = self.mean(self.xp.abs(slope))
        if not pulls > 0:
            return Gradient(along, bias, norm, math.inf, 0.0, curvatures)
        relative = math.hypot(length / self.size, bias) / pulls
        rounding = self._rounding(scores, curvatures) / pulls
        return Gradient(along, bias, norm, relative, rounding, curvatures)

    def _rounding(self, scores: Array, curvatures: Array) -> float:
        """What rounding makes of the pulls: a score is known to about ε times its size, its slope
        to ℓ″ times that, and n such errors add up like √n."""
        errors = self.shared(curvatures * (1 + self.xp.abs(scores)))
        return _ROUNDINGS * self.epsilon * math.sqrt(float(errors @ errors))

    def met(self, gradient: Gradient, stuck: bool = False) -> bool:
        """Whether the certificate meets the tolerance, or its own rounding where that is larger."""
        rounding = gradient.rounding * (_STUCK if stuck else 1)
        return (
            gradient.certificate <= max(self.tolerance, rounding)
            or gradient.norm <= self.gradient_norm > 0
        )

    def judge(
        self, weights: Array, bias: float, steps: int, products: int
    ) -> tuple[Fitted, Gradient]:
        """(w, b) with its scores, its gradient and its certificate from scratch."""
        scores = self.scores(weights, bias)
        gradient = self.gradient(weights, scores)
        certificate, norm = gradient.certificate, gradient.norm
        return Fitted(weights, bias, scores, certificate, norm, steps, products), gradient

    def settle(self, weights: Array, bias: float, steps: int, products: int) -> Fitted:
        """(w, b) where steps no longer help: as good as rounding allows, or refused."""
        fitted, gradient = self.judge(weights, bias, steps, products)
        if not self.met(gradient, stuck=True):
            raise self.shortfall(fitted.certificate)
        return fitted

    def shortfall(self, certificate: float) -> ConvergenceError:
        """Why no fit is returned."""
        return ConvergenceError(
            f"fit: relative gradient {certificate:.1e}, {self.tolerance:.1e} is required "
            f"({self.n} samples, {self.p} features, {self.loss!r}, ridge={self.ridge:g})"
        )

    def refuse_separable(self, scores: Array) -> None:
        """Without a ridge, separable data pull a loss that rewards confidence to infinity."""
        if self.ridge > 0 or self.loss.penalises_confidence:
            return
        right = self.labels * scores > 0
        if self.shares is not None:
            right = right | (self.shares == 0)
        if bool(self.xp.all(right)):
            raise NoMinimiserError(
                f"fit: with ridge=0 the {self.n} samples of {self.p} features are linearly "
                f"separable, so {self.loss!r} has no unique minimiser; use a positive ridge"
            )


def _of_samples(xp: Any, field: str, values: Array, n: int, like: dict[str, Any]) -> Array:
    """One finite number for each sample."""
    values = xp.asarray(values, **like)
    if tuple(values.shape) != (n,) or not bool(xp.all(xp.isfinite(values))):
        raise InvalidInput(
            f"fit: {field} must be {n} finite numbers (one a row of features), got shape "
            f"{tuple(values.shape)}"
        )
    return values

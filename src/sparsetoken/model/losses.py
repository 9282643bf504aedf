r"""Losses of the margin x = y·u (label times score).

Conventions. ℓ(y, u) = ℓ(yu): every loss here sees the margin alone, so ℓ′(y, u) = y·`slope(yu)`
and ℓ″(y, u) = `curvature(yu)`. For a variance V ≥ 0

    prox(x; V) = argmin_u { ℓ(u) + (u − x)²/(2V) },      u + V ℓ′(u) = x.

A new loss is one class: a `PiecewiseQuadratic` names its pieces; a `Smooth` one has value,
derivatives and prox. Everything else follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from sparsetoken.model.envelopes import Moments, Piece, PiecewiseQuadratic, Smooth
from sparsetoken.support.arrays import Array, FloatArray, floats
from sparsetoken.support.checks import real, refusal, settle

_INF = np.inf
FARTHEST_BIAS = 60.0  # e^60 is beyond the odds of any task


class Loss(Protocol):
    """What every part of the package may ask of a loss.

    `PiecewiseQuadratic` and `Smooth` (`model/envelopes.py`) answer most of it for a new one.
    """

    @property
    def penalises_confidence(self) -> bool:
        """Whether ℓ(u) → ∞ also as u → +∞: then separable data still have a minimiser."""
        ...

    def value(self, margin: Array) -> Array:
        """ℓ(x), of arrays of any library, in that library; so are the next three."""
        ...

    def slope(self, margin: Array) -> Array:
        """ℓ′(x)."""
        ...

    def curvature(self, margin: Array) -> Array:
        """ℓ″(x)."""
        ...

    def derivatives(self, margin: Array) -> tuple[Array, Array]:
        """Slope and curvature, which may share work."""
        ...

    def prox(self, margin: ArrayLike, variance: ArrayLike) -> FloatArray:
        """prox(x; V)."""
        ...

    def moments(self, mean: ArrayLike, deviation: ArrayLike, variance: ArrayLike) -> Moments:
        """Gaussian averages of the prox and its derivatives over x = mean + deviation·G."""
        ...

    def mean_value(self, mean: ArrayLike, deviation: ArrayLike, variance: ArrayLike) -> FloatArray:
        """E ℓ(prox(x; V)) over x = mean + deviation·G."""
        ...


@dataclass(frozen=True)
class Square(PiecewiseQuadratic):
    """½(u − y)² = ½(1 − x)².

    >>> float(Square().prox(3.0, 1.0))
    2.0
    """

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (Piece(-_INF, _INF, c=1.0, a=0.0, k=0.0),)


@dataclass(frozen=True)
class SquaredHinge(PiecewiseQuadratic):
    """½ max(0, 1 − x)².

    >>> SquaredHinge().value([0.0, 1.0, 2.0]).tolist()
    [0.5, 0.0, 0.0]
    """

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (
            Piece(-_INF, 0.0, c=0.0, a=0.0, k=0.0),
            Piece(0.0, _INF, c=1.0, a=0.0, k=0.0),
        )


@dataclass(frozen=True)
class Huber(PiecewiseQuadratic):
    """Margin Huber: 0 for gap h = 1 − x ≤ 0, ½h² up to `width` δ, then δh − ½δ².

    >>> Huber(width=1.0).slope([-5.0, 0.5, 3.0]).tolist()
    [-1.0, -0.5, 0.0]
    """

    width: float = 1.0

    def __post_init__(self) -> None:
        settle(self, width=real(Huber, "width", self.width, above=0))

    @property
    def pieces(self) -> tuple[Piece, ...]:
        width = self.width
        return (
            Piece(-_INF, 0.0, c=0.0, a=0.0, k=0.0),
            Piece(0.0, width, c=1.0, a=0.0, k=0.0),
            Piece(width, _INF, c=0.0, a=width, k=-0.5 * width * width),
        )


@dataclass(frozen=True)
class Logistic(Smooth):
    """log(1 + e^{−x}).

    >>> float(Logistic().value(0.0))
    0.6931471805599453
    """

    def value(self, margin: Array) -> Array:
        xp, margin = floats(margin)
        return xp.log1p(xp.exp(-xp.abs(margin))) + xp.where(margin < 0, -margin, 0.0)

    def derivatives(self, margin: Array) -> tuple[Array, Array]:
        xp, margin = floats(margin)
        small = xp.exp(-xp.abs(margin))
        shrunk = 1.0 / (1.0 + small)
        return -xp.where(margin > 0, small, 1.0) * shrunk, small * shrunk * shrunk

    def prox(self, margin: ArrayLike, variance: ArrayLike) -> FloatArray:
        """Solve u − x = V/(1 + e^u) by Newton, which is monotone from a lower bound of the root.

        prox(x) = −prox(−x − V) leaves u ≥ 0. There 1/(1+e^u) ≥ e^{−u}/2 gives u ≥ x + W(z), with
        W Lambert's function and z = (V/2)e^{−x}, and W(z) ≥ log z − log log z once log z ≥ 1.
        """
        x, v = np.broadcast_arrays(np.asarray(margin, float), np.asarray(variance, float))
        mirror = x < -0.5 * v
        x = np.where(mirror, -x - v, x)
        log_half = np.log(np.maximum(0.5 * v, np.finfo(float).tiny))
        log_z = np.maximum(log_half - x, 1.0)
        bound = np.where(log_z > 1.0, x + log_z - np.log(log_z), 0.0)
        u = np.maximum(np.maximum(x, 0.0), bound)
        # from a bound within log 2 of the root, quadratic: six steps; numbers that are not finite
        # stay so for the caller to see
        for _ in range(50):
            pull = expit(-u)
            step = (u - x - v * pull) / (1.0 + v * pull * (1.0 - pull))
            u = u - step
            if np.all(np.abs(step) <= 1e-12 * (1.0 + u)):  # quadratic: the next is below rounding
                break
        return np.where(mirror, -u, u)


def balancing_bias(
    loss: Loss,
    positive: float,
    negative: float,
    variance: ArrayLike = 0.0,
    ends: tuple[float, float] = (-FARTHEST_BIAS, FARTHEST_BIAS),
) -> FloatArray:
    """The bias b at which weighted classes pull alike: p₊ℓ′(u₊) = p₋ℓ′(u₋), u = prox(±b; V).

    By bisection, for each V; an end where it lies beyond.

    >>> round(float(balancing_bias(Logistic(), 0.8, 0.2)), 6)  # log 4
    1.386294
    """
    low, high = (np.full(np.shape(variance), end) for end in ends)
    for _ in range(60):  # 120/2⁶⁰: to rounding
        bias = 0.5 * (low + high)
        pulls = [loss.slope(loss.prox(label * bias, variance)) for label in (1.0, -1.0)]
        below = positive * pulls[0] < negative * pulls[1]
        low, high = np.where(below, bias, low), np.where(below, high, bias)
    return 0.5 * (low + high)


def check_loss(owner: type | str, loss: object) -> None:
    """Refuse what is not a loss, a class where an object is meant among it."""
    if isinstance(loss, type) or not callable(getattr(loss, "moments", None)):
        raise refusal(owner, "loss", loss, "a loss such as Logistic() or Square()")

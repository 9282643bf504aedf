r"""Gaussian averages of a loss's Moreau envelope: all that the theory asks of a loss.

For a margin x = mean + deviation·G, G ~ N(0,1), and u = prox(x; V), i.e. u + Vℓ′(u) = x, it needs
the averages of ψ = ℓ′(u) and δ = ∂ψ/∂x = ℓ″(u)/(1 + Vℓ″(u)) listed in `Moments`, and of ℓ(u).

Two families of losses know how to average. `PiecewiseQuadratic` does it in closed form (Φ and φ),
exact at kinks. `Smooth` integrates over the minimiser u instead of the noise: x(u) = u + Vℓ′(u) is
explicit, so no prox is solved inside the integral, and the integrand is analytic for every V.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from sparsetoken.support.arrays import Array, FloatArray, floats

Averages = Any  # arrays of one shape

_SQRT_TAU = np.sqrt(2 * np.pi)
_MOST_NODES = 1 << 11  # a few hundred are the most that a solution needs
_BLOCK = 512  # elements averaged at once by quadrature


class Moments(NamedTuple):
    """E over G ~ N(0,1) at x = mean + deviation·G, u = prox(x; V), ψ = ℓ′(u), δ = ∂ψ/∂x."""

    psi: Averages  # E ψ
    psi_noise: Averages  # E ψG
    psi_squared: Averages  # E ψ²
    delta: Averages  # E δ
    delta_noise: Averages  # E δG
    delta_noise_squared: Averages  # E δG²
    psi_delta: Averages  # E ψδ
    psi_delta_noise: Averages  # E ψδG
    psi_squared_delta: Averages  # E ψ²δ


class Piece(NamedTuple):
    """ℓ = ½ c h² + a h + k for the gap h = 1 − u between `lower` and `upper`."""

    lower: float
    upper: float
    c: float
    a: float
    k: float


class PiecewiseQuadratic(ABC):
    """A convex loss made of quadratic pieces in the gap h = 1 − u, listed by increasing gap."""

    @property
    @abstractmethod
    def pieces(self) -> tuple[Piece, ...]:
        """The quadratic pieces, by increasing gap, from −inf to inf without a hole."""

    @property
    def penalises_confidence(self) -> bool:
        first = self.pieces[0]
        return first.c > 0 or first.a < 0

    @property
    def dual_box(self) -> tuple[float, float, float] | None:
        """(c, a, top) where −ℓ′ = clip(c·gap + a, 0, top), one curved piece between two straight
        ones (the first flat, the last perhaps missing); None for any other shape."""
        first, curved, *last = self.pieces if len(self.pieces) in (2, 3) else (None, None)
        if not first or not curved or first.c or first.a or not curved.c:
            return None
        if not last:
            return curved.c, curved.a, np.inf
        return None if last[0].c else (curved.c, curved.a, last[0].a)

    def _piece_of(self, gap: FloatArray, variance: ArrayLike) -> NDArray[np.intp]:
        """Index of the piece in which the minimiser lies, from the gap 1 − x and V."""
        variance = np.asarray(variance, dtype=float)
        edges = [p.upper * (1 + variance * p.c) + variance * p.a for p in self.pieces[:-1]]
        return np.sum([gap > edge for edge in edges], axis=0, dtype=np.intp) + np.zeros(
            np.shape(gap), dtype=np.intp
        )

    def _by_piece(self, margin: Array, of: Callable[[Piece, Array], Array]) -> Array:
        """A function of (piece, gap), taken on the piece of each margin."""
        xp, margin = floats(margin)
        gap = 1.0 - margin
        result = of(self.pieces[0], gap)
        for piece in self.pieces[1:]:
            result = xp.where(gap > piece.lower, of(piece, gap), result)
        return result

    def value(self, margin: Array) -> Array:
        return self._by_piece(margin, lambda p, gap: (0.5 * p.c * gap + p.a) * gap + p.k)

    def slope(self, margin: Array) -> Array:
        return self._by_piece(margin, lambda p, gap: 0.0 - (p.c * gap + p.a))

    def curvature(self, margin: Array) -> Array:
        return self._by_piece(margin, lambda p, gap: 0.0 * gap + p.c)

    def derivatives(self, margin: Any) -> tuple[Any, Any]:
        return self.slope(margin), self.curvature(margin)

    def prox(self, margin: ArrayLike, variance: ArrayLike) -> FloatArray:
        x, v = np.broadcast_arrays(np.asarray(margin, float), np.asarray(variance, float))
        index = self._piece_of(1.0 - x, v)
        c, a = (np.array([getattr(p, name) for p in self.pieces])[index] for name in "ca")
        return (x + v * (c + a)) / (1.0 + v * c)

    def moments(self, mean: ArrayLike, deviation: ArrayLike, variance: ArrayLike) -> Moments:
        parts = [_PieceAverage(piece, mean, deviation, variance).moments() for piece in self.pieces]
        return Moments(*(np.sum(part, axis=0) for part in zip(*parts, strict=True)))

    def mean_value(self, mean: ArrayLike, deviation: ArrayLike, variance: ArrayLike) -> FloatArray:
        parts = [_PieceAverage(piece, mean, deviation, variance).value() for piece in self.pieces]
        return np.sum(parts, axis=0)


class _PieceAverage:
    """One piece's share of the averages.

    On it ψ = p + δ·deviation·G and the gap h are affine in G, so the moments of a truncated
    Gaussian are all it takes.
    """

    def __init__(self, piece: Piece, mean: Any, deviation: Any, variance: Any) -> None:
        mean, self.deviation, variance = (
            np.asarray(z, dtype=float) for z in (mean, deviation, variance)
        )
        self.piece = piece
        self.shrink = 1.0 + variance * piece.c
        self.gap = 1.0 - mean
        self.pull = variance * piece.a
        # the minimiser's gap lies between lower and upper iff G lies between left and right
        left = (self.gap - self.pull - piece.upper * self.shrink) / self.deviation
        right = (self.gap - self.pull - piece.lower * self.shrink) / self.deviation
        self.i0, self.i1, self.i2 = _gaussian_moments(left, right)

    def moments(self) -> Moments:
        i0, i1, i2 = self.i0, self.i1, self.i2
        p = -(self.piece.c * self.gap + self.piece.a) / self.shrink
        delta = self.piece.c / self.shrink
        q = delta * self.deviation
        psi, psi_noise = p * i0 + q * i1, p * i1 + q * i2
        psi_squared = p * psi + q * psi_noise
        return Moments(
            psi=psi,
            psi_noise=psi_noise,
            psi_squared=psi_squared,
            delta=delta * i0,
            delta_noise=delta * i1,
            delta_noise_squared=delta * i2,
            psi_delta=delta * psi,
            psi_delta_noise=delta * psi_noise,
            psi_squared_delta=delta * psi_squared,
        )

    def value(self) -> Averages:
        h, dh = (self.gap - self.pull) / self.shrink, -self.deviation / self.shrink  # h + dh·G
        first = h * self.i0 + dh * self.i1
        second = h * first + dh * (h * self.i1 + dh * self.i2)
        return 0.5 * self.piece.c * second + self.piece.a * first + self.piece.k * self.i0


def _gaussian_moments(left: Any, right: Any) -> tuple[Any, Any, Any]:
    """∫ g^k φ(g) dg over [left, right] for k = 0, 1, 2, without cancellation in either tail."""
    swap = np.asarray(left) > 0  # work in the left tail, where Φ keeps its relative accuracy
    low, high = np.where(swap, -np.asarray(right), left), np.where(swap, -np.asarray(left), right)
    zeroth = ndtr(high) - ndtr(low)
    density_low, density_high = _density(low), _density(high)
    first = density_low - density_high
    second = zeroth + np.where(np.isinf(low), 0.0, low) * density_low
    second = second - np.where(np.isinf(high), 0.0, high) * density_high
    return zeroth, np.where(swap, -first, first), second


def _density(x: Any) -> Any:
    return np.exp(-0.5 * np.square(np.minimum(np.abs(x), 1e3))) / _SQRT_TAU


class Smooth(ABC):
    """An analytic convex loss; Gaussian averages by quadrature over the minimiser u.

    Substituting x = u + Vℓ′(u) in E f = ∫ f(u) φ((x − mean)/deviation) dx/deviation leaves f
    explicit.
    The nodes are equidistant in t, u = centre + width·sinh t: dense (spacing `step`) at the centre,
    where the loss bends, geometric away from it, where only the wide Gaussian varies. The integrand
    is analytic in |Im t| < ~0.7 and vanishes at both ends, so the trapezoidal rule converges like
    exp(−2π·0.7/step); in the bulk of the Gaussian the spacing is at most 0.6 standard deviations
    (an error of exp(−2π²/0.36)).
    """

    steepest: ClassVar[float] = 1.0  # −ℓ′(−∞): V times it is the farthest a prox moves
    step: ClassVar[float] = 0.11
    reach: ClassVar[float] = 8.5  # standard deviations kept on either side: Φ(−8.5) ~ 1e-17

    @property
    def penalises_confidence(self) -> bool:
        return False

    @abstractmethod
    def value(self, margin: Array) -> Array:
        """ℓ(x)."""

    @abstractmethod
    def derivatives(self, margin: Array) -> tuple[Array, Array]:
        """Slope and curvature together: they share the expensive part."""

    @abstractmethod
    def prox(self, margin: ArrayLike, variance: ArrayLike) -> FloatArray:
        """The u with u + Vℓ′(u) = x."""

    def slope(self, margin: Array) -> Array:
        return self.derivatives(margin)[0]

    def curvature(self, margin: Array) -> Array:
        return self.derivatives(margin)[1]

    def moments(self, mean: ArrayLike, deviation: ArrayLike, variance: ArrayLike) -> Moments:
        return Moments(*_in_blocks(self._moments, mean, deviation, variance))

    def mean_value(self, mean: ArrayLike, deviation: ArrayLike, variance: ArrayLike) -> FloatArray:
        return _in_blocks(self._mean_value, mean, deviation, variance)[0]

    def _moments(
        self, mean: FloatArray, deviation: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, ...]:
        """`Moments` of one block, (elements,) each."""
        psi, noise, full, bent, _ = self._quadrature(mean, deviation, variance)
        full_psi, bent_psi, bent_noise = full * psi, bent * psi, bent * noise
        return Moments(
            psi=full_psi.sum(-1),
            psi_noise=_dot(full_psi, noise),
            psi_squared=_dot(full_psi, psi),
            delta=bent.sum(-1),
            delta_noise=bent_noise.sum(-1),
            delta_noise_squared=_dot(bent_noise, noise),
            psi_delta=bent_psi.sum(-1),
            psi_delta_noise=_dot(bent_psi, noise),
            psi_squared_delta=_dot(bent_psi, psi),
        )

    def _mean_value(
        self, mean: FloatArray, deviation: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, ...]:
        _, _, full, _, u = self._quadrature(mean, deviation, variance)
        return (_dot(full, self.value(u)),)

    def _quadrature(self, mean: Any, deviation: Any, variance: Any) -> tuple[FloatArray, ...]:
        """ψ, G, the weights of dx and of δ dx, and u, at the nodes: (elements, nodes) each."""
        u, measure = self._nodes(mean, deviation, variance)
        mean, deviation, variance = (z[:, None] for z in (mean, deviation, variance))
        psi, bend = self.derivatives(u)
        noise = (u + variance * psi - mean) / deviation
        weight = np.exp(-0.5 * noise * noise) * (measure / _SQRT_TAU)  # of du
        bent = weight * bend  # δ dx = ℓ″ du
        full = weight + variance * bent  # dx = (1 + Vℓ″) du
        return psi, noise, full, bent, u

    def _nodes(self, mean: Any, deviation: Any, variance: Any) -> tuple[FloatArray, FloatArray]:
        """Nodes u and du/deviation for each element; the last axis is new."""
        # e^{-u} tilts the Gaussian to the left by its variance, as far as the loss bends at all
        tilt = np.minimum(deviation**2, np.maximum(mean, 0.0))
        # for V above the noise the loss bends between x = −V and 0; the nodes gather there
        edge = 3.0 * deviation
        bends = self.steepest * variance > 2 * edge
        bend = np.minimum(np.maximum(mean, edge - self.steepest * variance), -edge)
        ends = np.stack(
            [mean - self.reach * deviation - tilt, mean + self.reach * deviation, mean, bend]
        )
        left, right, bulk, centre = self.prox(ends, variance)
        centre = np.where(bends, centre, 0.0)
        at_centre, at_bulk = (
            deviation / (1.0 + variance * self.curvature(u)) for u in (centre, bulk)
        )
        width = np.where(bends, np.minimum(at_centre, 1.0), 1.0)  # of the dense region
        start, stop = np.arcsinh((left - centre) / width), np.arcsinh((right - centre) / width)
        finest = np.minimum(self.step, 0.6 * at_bulk / np.hypot(bulk - centre, width))
        needed = (stop - start) / finest
        wild = (needed > _MOST_NODES) & (variance > 0)  # a solver's trial, far off: refused as nan
        start = np.where(wild, np.nan, start)
        count = max(32, int(np.ceil(np.max(needed, where=~wild, initial=0.0))) + 1)
        spacing = (stop - start) / (count - 1)
        t = start[..., None] + spacing[..., None] * np.arange(count)
        growth = np.exp(t)
        shrunk = 1.0 / growth
        u = centre[..., None] + (0.5 * width)[..., None] * (growth - shrunk)
        return u, (growth + shrunk) * (0.5 * width * spacing / deviation)[..., None]


def _in_blocks(
    average: Callable[[FloatArray, FloatArray, FloatArray], tuple[FloatArray, ...]],
    *values: ArrayLike,
) -> tuple[FloatArray, ...]:
    """Average over a few hundred elements at a time: their nodes stay in cache, memory bounded."""
    arrays = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values))
    flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
    starts = range(0, max(len(flat[0]), 1), _BLOCK)
    parts = [average(*(array[start : start + _BLOCK] for array in flat)) for start in starts]
    return tuple(np.concatenate(part).reshape(arrays[0].shape) for part in zip(*parts, strict=True))


def _dot(left: FloatArray, right: FloatArray) -> FloatArray:
    """Sum of products over the last axis."""
    return np.einsum("...n,...n->...", left, right)

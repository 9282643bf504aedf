r"""How strong, how spread, how many: what tokens along one direction say about the signal.

Along a direction that a bag has not taught, in units of its noise, a token of noise has a density
g and a token with the signal is N(δ, τ²). A positive bag holds the signal in R of its L tokens, all
subsets alike, or in none (a silent bag, with probability z):

    P(bag)/P(noise) = z + (1 − z)·e_R(r_1, …, r_L)/C(L, R),   r_l = N(x_l; δ, τ²)/g(x_l),

e_R the elementary symmetric polynomial. That each bag holds R such tokens, and not some token
somewhere, is what keeps a few strange tokens from being taken for the signal. g is estimated from
tokens of negative bags, so that noise with heavy tails is no signal either.

τ = 1 (a signal of one strength) and z = 0 (no silent bags) are given up only for what raises the
log likelihood by log n each, twice what Bayes's information criterion asks: noise is estimated too,
and bags are seen several times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln

from sparsetoken.model.signals import Discrete
from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray

_STEP = 0.02  # of the grid of the noise's density, in standard deviations
_LOWEST, _HIGHEST = -15.0, 60.0  # its ends; noise beyond is counted there
_FINEST, _WIDEST = 0.15, 2.0  # widths of kernels, where noise is densest and where it is rare
_WIDTHS = 12
_WIDE = 2.0  # width of the noise that was not seen: as much as one token
_NARROWEST = 1.0  # τ: a token with the signal has the noise as well
_MOST_PRODUCTS = 100_000  # of tokens and R, up to which e_R is computed
# Log likelihood by which the ends of a 90 % interval of R are below the maximum: half of χ²₁ for a
# likelihood that knows the noise; twice that for one that estimates it and sees bags several times.
_BELOW = 2.7
_STRONGEST = 1e3  # strength in a task: beyond it nothing is told apart any better
_NO_SHARE = 1e-4  # z below it is none: no pilot has so many bags
_LOG_2PI = float(np.log(2 * np.pi))


class NoiseDensity:
    """Of tokens of negative bags (N,): the normal one, corrected where tokens say otherwise. Tokens
    may have weights (N,).

    Kernels A, the wider the rarer the normal density φ, smooth the tokens and φ itself alike, so
    that for Gaussian noise nothing is smeared: φ·min(1, A[tokens]/A[φ]), and where there are more
    tokens than φ has, by more than twice their standard error, what there is more.
    """

    def __init__(self, tokens: FloatArray, weights: FloatArray | None = None) -> None:
        shares = np.full(len(tokens), 1 / len(tokens))
        if weights is not None:
            shares = weights / weights.sum()
        self.unseen = float(np.sum(shares**2))  # 1 over the number of tokens
        self.at = np.arange(_LOWEST, _HIGHEST + _STEP / 2, _STEP)
        normal = np.exp(-0.5 * self.at**2 - 0.5 * _LOG_2PI)
        place = np.rint((np.clip(tokens, _LOWEST, _HIGHEST) - _LOWEST) / _STEP).astype(int)
        counts = np.bincount(place, shares, len(self.at)) / _STEP
        twice = np.bincount(place, shares**2, len(self.at)) / _STEP  # for the variance
        rungs = np.geomspace(_FINEST, _WIDEST, _WIDTHS)
        widths = _FINEST * np.exp(np.minimum(0.25 * self.at**2, 10.0))  # as the root of 1/φ
        rung = np.minimum(np.searchsorted(rungs, widths * (1 - 1e-12)), _WIDTHS - 1)
        seen, expected, variance = (np.zeros(len(self.at)) for _ in range(3))
        for number, width in enumerate(rungs):
            own = rung == number
            seen += _smooth(np.where(own, counts, 0.0), width)
            expected += _smooth(np.where(own, normal, 0.0), width)
            squares = _smooth(np.where(own, twice, 0.0), width / np.sqrt(2))
            variance += squares / (2 * np.sqrt(np.pi) * width)
        missing = np.minimum(1.0, seen / np.maximum(expected, 1e-300))
        more = np.maximum(seen - expected - 2 * np.sqrt(variance), 0.0)
        density = normal * missing + more
        self.density = (1 - self.unseen) * density / (density.sum() * _STEP)

    @classmethod
    def restored(cls, density: FloatArray, unseen: float) -> NoiseDensity:
        """From its values on the grid, and the share of what was not seen."""
        noise = cls.__new__(cls)
        noise.at = np.arange(_LOWEST, _HIGHEST + _STEP / 2, _STEP)
        noise.density, noise.unseen = density, unseen
        return noise

    def log(self, tokens: FloatArray) -> FloatArray:
        """Logarithm of the density at tokens of any shape."""
        seen = np.interp(tokens, self.at, self.density, left=0.0, right=0.0)
        wide = -0.5 * (tokens / _WIDE) ** 2 - 0.5 * _LOG_2PI + np.log(self.unseen / _WIDE)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log(seen), wide))


def _smooth(counts: FloatArray, width: float) -> FloatArray:
    from scipy.signal import fftconvolve

    reach = int(np.ceil(6 * width / _STEP))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * _STEP / width) ** 2)
    return np.maximum(fftconvolve(counts, kernel / kernel.sum(), mode="same"), 0.0)


@dataclass(frozen=True)
class Signal:
    """What tokens with the signal look like along a direction, and how many a bag has."""

    shift: float  # δ
    width: float  # τ
    count: int  # R
    silent: float  # z, share of positive bags without the signal

    @property
    def extras(self) -> int:
        """Parameters beside δ and R."""
        return (self.width != 1) + (self.silent != 0)

    def strengths(self, cosine: float, nodes: int = 5) -> float | Discrete:
        """The law of strength, of the whole signal, for a direction of this cosine with it.

        What τ² is beyond the noise's 1 is the variance of strength; silent bags have strength 0.
        """
        mean = min(self.shift / cosine, _STRONGEST)
        spread = np.sqrt(max(self.width**2 - 1, 0.0)) / cosine
        if spread == 0 and self.silent == 0:
            return float(mean)
        at, weights = np.polynomial.hermite_e.hermegauss(nodes if spread > 0 else 1)
        atoms = {0.0: self.silent} if self.silent > 0 else {}
        for value, weight in zip(
            np.clip(mean + spread * at, 0.0, _STRONGEST), weights, strict=True
        ):
            share = (1 - self.silent) * float(weight / weights.sum())
            atoms[float(value)] = atoms.get(float(value), 0.0) + share
        return Discrete(tuple(atoms), tuple(atoms.values()))


class Levels:
    """Tokens of bags along directions that they have not taught, in units of the noise.

    `counted` (b,) are weights of the bags: a bag that is seen along k directions counts 1/k each.
    """

    def __init__(
        self, noise: FloatArray, tokens: FloatArray, lengths: IntArray, counted: FloatArray
    ) -> None:
        self.noise = noise  # (N,), log density of the tokens if they were noise
        self.tokens, self.lengths, self.counted = tokens, lengths, counted
        self.starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self.places = np.arange(lengths.max()) < lengths[:, None]  # of tokens, in a full table

    def __getitem__(self, chosen: BoolArray) -> Levels:
        """Some of the bags (b,)."""
        rows = np.repeat(chosen, self.lengths)
        return Levels(
            self.noise[rows], self.tokens[rows], self.lengths[chosen], self.counted[chosen]
        )

    def log_ratios(self, signal: Signal) -> FloatArray:
        """log r of each token (N,)."""
        apart = (self.tokens - signal.shift) / signal.width
        return -0.5 * apart**2 - np.log(signal.width) - 0.5 * _LOG_2PI - self.noise

    def log_likelihoods(self, signal: Signal, exact: bool = False) -> FloatArray:
        """log P(bag)/P(noise) of each bag (b,); `exact` however many products that takes."""
        ratios = self.log_ratios(signal)
        count = np.minimum(signal.count, self.lengths)
        if signal.count == 1:
            highest = np.maximum.reduceat(ratios, self.starts)
            sums = np.add.reduceat(np.exp(ratios - np.repeat(highest, self.lengths)), self.starts)
            heights = highest + np.log(sums) - np.log(self.lengths)
        elif exact or len(ratios) * signal.count <= _MOST_PRODUCTS:
            heights = self._symmetric(ratios, count)
        else:  # each token by itself, with probability R/L
            share = np.repeat(count / self.lengths, self.lengths)
            with np.errstate(divide="ignore"):
                alone = np.logaddexp(np.log1p(-share), np.log(share) + ratios)
            heights = np.add.reduceat(alone, self.starts)
        if signal.silent == 0:
            return np.asarray(heights)
        return np.logaddexp(np.log(signal.silent), np.log1p(-signal.silent) + heights)

    def _symmetric(self, ratios: FloatArray, count: IntArray) -> FloatArray:
        """log e_R/C(L, R) of each bag."""
        table = np.full(self.places.shape, -np.inf)
        table[self.places] = ratios
        sums = np.full((len(table), int(count.max()) + 1), -np.inf)
        sums[:, 0] = 0.0
        for column in table.T:
            sums[:, 1:] = np.logaddexp(sums[:, 1:], sums[:, :-1] + column[:, None])
        log_choose = -np.log(self.lengths + 1.0) - betaln(self.lengths - count + 1, count + 1)
        return np.asarray(sums[np.arange(len(sums)), count] - log_choose)

    def height(self, signal: Signal, exact: bool = False) -> float:
        """The log likelihood of all bags, each counted once."""
        return float(self.counted @ self.log_likelihoods(signal, exact))


class Fit(NamedTuple):
    """The signal worth its parameters, and with all of them free; how likely; how many R are."""

    signal: Signal
    free: Signal  # of the same R
    height: float  # log likelihood of the first
    counts: tuple[int, ...]  # that are nearly as likely
    forms: tuple[Signal, ...]  # of one strength or several, with silent bags or without


def fit_signal(levels: Levels) -> Fit:
    """The likeliest signal; R from 1 up to where the likelihood falls.

    >>> rng = np.random.default_rng(0)
    >>> tokens = rng.standard_normal((400, 10))
    >>> tokens[:, 0] += 4.0
    >>> noise = NoiseDensity(rng.standard_normal(4000))
    >>> levels = Levels(noise.log(tokens.ravel()), tokens.ravel(), np.full(400, 10), np.ones(400))
    >>> fitted = fit_signal(levels).signal
    >>> fitted.count, 3.8 < fitted.shift < 4.2, fitted.width, fitted.silent
    (1, True, 1.0, 0.0)
    """
    profile: dict[int, tuple[float, Signal]] = {}
    fallen = 0
    for count in _counts(int(np.median(levels.lengths))):
        start = profile[max(profile)][1] if profile else None
        signal = _likeliest(levels, _start(levels, count, start), spread=True, silent=True)
        profile[count] = levels.height(signal), signal
        best = max(profile, key=lambda count: profile[count][0])
        fallen = 0 if best == count else fallen + 1
        if fallen == 2:
            break
    full = profile[best]
    near = [count for count, (height, _) in profile.items() if height >= full[0] - _BELOW]
    price = np.log(max(float(levels.counted.sum()), 2.0))  # of a parameter
    simple = (
        _likeliest(levels, replace(full[1], width=1.0, silent=0.0), spread=False, silent=False),
        _likeliest(levels, replace(full[1], width=1.0), spread=False, silent=True),
        _likeliest(levels, replace(full[1], silent=0.0), spread=True, silent=False),
    )
    forms = (*simple, full[1])
    worth = {signal: levels.height(signal) - price * signal.extras for signal in forms}
    chosen = max(worth, key=worth.__getitem__)
    return Fit(chosen, full[1], levels.height(chosen), tuple(near), forms)


def refit(levels: Levels, signal: Signal) -> Signal:
    """The likeliest near a signal, with its R, and its τ = 1 or z = 0 where they are so."""
    return _likeliest(levels, signal, spread=signal.width != 1, silent=signal.silent != 0)


def refit_freely(levels: Levels, signal: Signal) -> Signal:
    """The likeliest near a signal, with its R."""
    return _likeliest(levels, signal, spread=True, silent=True)


def _counts(length: int) -> Iterator[int]:
    """R that are tried: all up to 8, then in steps of a quarter, all tokens at last."""
    count = 1
    while count < length:
        yield count
        count = count + 1 if count < 8 else int(np.ceil(1.25 * count))
    yield length


def _start(levels: Levels, count: int, before: Signal | None) -> Signal:
    """The best of a few shifts, and of what a smaller R gave."""
    highest = max(float(levels.tokens.max()), 1.0)
    shifts = np.geomspace(0.3, highest, 12)
    starts = [Signal(float(shift), 1.2, count, 0.05) for shift in shifts]
    if before is not None:
        starts.append(replace(before, count=count))
    return max(starts, key=levels.height)


def _likeliest(levels: Levels, start: Signal, *, spread: bool, silent: bool) -> Signal:
    """The likeliest signal of the start's R, with τ and z free or as they are."""

    def signal_at(point: FloatArray) -> Signal:
        rest = iter(point[1:])
        width = float(max(np.exp(next(rest)), _NARROWEST)) if spread else start.width
        share = start.silent
        if silent:
            share = float(1 / (1 + np.exp(-np.clip(next(rest), -12, 12))))
            share = share if share > _NO_SHARE else 0.0
        return Signal(float(np.exp(min(point[0], 25.0))), width, start.count, share)

    point = [np.log(max(start.shift, 1e-3))]
    if spread:
        point.append(np.log(start.width))
    if silent:
        share = min(max(start.silent, 0.01), 0.99)
        point.append(np.log(share / (1 - share)))

    def cost(point: FloatArray) -> float:
        return -levels.height(signal_at(point))

    options: Any = {"xatol": 5e-3, "fatol": 5e-3, "initial_simplex": _simplex(point)}
    optimum = minimize(
        cost,
        np.array(point, dtype=float),
        method="Nelder-Mead",
        options=options,
    )
    return signal_at(optimum.x)


def _simplex(point: list[float]) -> FloatArray:
    """The point, and one more along each coordinate."""
    steps = np.array([0.2, 0.2, 0.7])[: len(point)]
    return np.asarray(point) + np.vstack([np.zeros(len(point)), np.diag(steps)])

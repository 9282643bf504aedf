r"""What is possible at all (Proposition 1, Theorems 1 and 2): the best error when ξ is known.

Tokens enter through g_l = ⟨x_l, ξ⟩ ~ N(θv_l, 1). The best error over all parameters of

* `Pooled`: κ = θR/√L, πΦ(c−κ) + (1−π)Φ(−c) at c = κ/2 + log((1−π)/π)/κ; exact.
* `Vectorized`: min over unit a ∈ R^L and c of πE_vΦ(c − θ⟨a,v⟩) + (1−π)Φ(−c). Even with uniform
  places a = 1/√L is not always best: a rare class is better met by watching a few positions. For
  R = 1, H(t) = Φ(c−θ√t), t = a_l², is convex, concave, convex; so a minimiser has k coordinates at
  one value, L−k−1 at another and one anywhere. That family is searched, for R > 1 too (where it may
  miss something better). No sampling.
* `Attention`: q = τξ, w = ξ; the statistic T = ⟨softmax(τg), g⟩ against c, best (τ, c). τ = ∞, the
  maximum, is allowed and often best; it is exact: πΦ(c)^{L−R}Φ(c−θ)^R + (1−π)(1−Φ(c)^L).
* the Bayes test: e_R(pe^{θg})/e_R(p) · e^{−Rθ²/2} against (1−π)/π, p the position weights. It is
  the floor under every classifier.

The last two are sampled with one token integrated out, so that estimates are smooth in θ, τ, c.
With S₀ = Σe^{τg}, S₁ = Σge^{τg} over the other tokens and y = g − c for the one,

    T > c  ⟺  τy e^{τy} > ρ = τ(cS₀ − S₁)e^{−τc}
           ⟺  y > W₀(ρ)/τ,  or  −1/e < ρ < 0 and y < W₋₁(ρ)/τ,  or  ρ ≤ −1/e   (W: Lambert),

and e_R(all) = e_R(rest) + x e_{R−1}(rest) is linear in its x = pe^{θg}. In a positive sample the
one is a token that carries the signal; in a negative one it is the largest, N(0,1) above the second
largest. Standard errors are spreads over 16 independent scrambles of a Sobol sequence. For more
than 512 tokens see `extremes`, whose central limit is the only approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_ndtr, ndtr, ndtri, wrightomega

from sparsetoken.model.checks import real, whole
from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Vectorized
from sparsetoken.model.task import Task
from sparsetoken.theory import extremes
from sparsetoken.theory.extremes import (
    REPLICATES,
    Rest,
    SoftmaxSums,
    Tokens,
    draw_rest,
    log_elementary,
    row_blocks,
    softmax_sums,
)

FloatArray = NDArray[np.float64]

_FEW = 1 << 10  # draws for first looks
_SHARPEST = 30.0  # the largest finite τ tried; its errors are within 1e-5 of the maximum's


class Estimate(float):
    """A number with its standard error; it behaves as the number.

    `standard_error` is 0 for an exact result; `sharpness` is the best τ where attention was asked.

    >>> error = Estimate(0.25, standard_error=0.001)
    >>> error, error + 1, error.standard_error
    (0.2500 ± 0.0010, 1.25, 0.001)
    """

    __slots__ = ("_sharpness", "_standard_error")
    _standard_error: float
    _sharpness: float | None

    def __new__(
        cls, value: float, standard_error: float = 0.0, sharpness: float | None = None
    ) -> Estimate:
        self = super().__new__(cls, value)
        self._standard_error = float(standard_error)
        self._sharpness = None if sharpness is None else float(sharpness)
        return self

    @property
    def standard_error(self) -> float:
        return self._standard_error

    @property
    def sharpness(self) -> float | None:
        return self._sharpness

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, float, float | None]]:
        return Estimate, (float(self), self._standard_error, self._sharpness)

    def __repr__(self) -> str:
        if self._standard_error == 0:
            return f"{float(self)!r} ± 0"
        digits = max(0, 1 - math.floor(math.log10(self._standard_error)))
        return f"{float(self):.{digits}f} ± {self._standard_error:.{digits}f}"


def oracle_error(task: Task, classifier: Classifier, *, seed: int = 0) -> Estimate:
    """The smallest error of a classifier on a task over all its parameters, ξ known.

    `classifier` is Pooled(), Vectorized() or Attention(). The cosine and sharpness of a frozen
    `Attention` are ignored: here the query points along ξ, and the result's `sharpness` is the best
    (inf for the maximum). Only a finite best sharpness is sampled; then `seed` matters.

    >>> task = Task(length=10, sparsity=1, strength=3.0)
    >>> round(oracle_error(task, Pooled()), 6)
    0.317628
    >>> attention = oracle_error(task, Attention())
    >>> abs(attention - 0.1578) < 1e-3, attention.standard_error < 1e-4, attention.sharpness > 0.5
    (True, True, True)
    """
    seed = whole("oracle_error", "seed", seed, least=0)
    return _oracle("oracle_error", task, classifier, seed).error(task.strength)


def bayes_error(task: Task, *, seed: int = 0) -> Estimate:
    """The error of the likelihood-ratio test with every parameter known: the floor.

    >>> task = Task(length=10, sparsity=1, strength=3.0)
    >>> bayes_error(task) < oracle_error(task, Attention()) < oracle_error(task, Pooled())
    True
    """
    seed = whole("bayes_error", "seed", seed, least=0)
    return _bayes_oracle("bayes_error", task, seed).error(task.strength)


def signal_threshold(
    task: Task, classifier: Classifier | None = None, *, error: float, seed: int = 0
) -> Estimate:
    """The smallest strength θ at which the oracle error is `error`; `task.strength` is ignored.

    `classifier` is as in `oracle_error`, or None for the Bayes test. An error that needs no signal
    (at least min(π, 1−π)) has the threshold 0. The standard error is that of the error, divided by
    |d error/dθ|.

    >>> [round(signal_threshold(Task(length, 1, 0.0), Pooled(), error=0.01), 3)
    ...  for length in (100, 10_000)]
    [46.527, 465.27]
    """
    owner = "signal_threshold"
    seed = whole(owner, "seed", seed, least=0)
    error = real(owner, "error", error, above=0, below=0.5)
    if classifier is not None and not isinstance(classifier, Pooled | Vectorized | Attention):
        raise _unknown(owner, classifier)
    if error >= _trivial(task.prevalence):
        return Estimate(0.0)
    if classifier is None:
        return _bayes_oracle(owner, task, seed).threshold(error)
    return _oracle(owner, task, classifier, seed).threshold(error)


def _trivial(prevalence: float) -> float:
    """The error of always saying the likelier class."""
    return min(prevalence, 1 - prevalence)


class _Oracle(Protocol):
    """What `oracle_error` and `signal_threshold` ask: the error at θ, and its inverse."""

    def error(self, strength: float) -> Estimate: ...

    def threshold(self, error: float) -> Estimate: ...


def _oracle(owner: str, task: Task, classifier: Classifier, seed: int) -> _Oracle:
    gain = task.sparsity / math.sqrt(task.length)
    if isinstance(classifier, Pooled):
        return _Gaussian(gain, task.prevalence)
    if isinstance(classifier, Vectorized):
        return _Linear(task)
    if isinstance(classifier, Attention):
        if task.sparsity == task.length:  # the mean is then the likelihood ratio
            return _Gaussian(gain, task.prevalence, sharpness=0.0)
        return _Attention(task, draw_rest(task.length, task.sparsity, seed))
    raise _unknown(owner, classifier)


def _unknown(owner: str, classifier: object) -> ValueError:
    return ValueError(
        f"{owner}: classifier must be Pooled(), Vectorized() or Attention(), got {classifier!r}"
    )


def _bayes_oracle(owner: str, task: Task, seed: int) -> _Oracle:
    """Positions that never carry the signal are dropped: the likelihood ratio ignores them."""
    if task.places is not None:
        weights = tuple(weight for weight in task.places if weight > 0)
        places = None if len(set(weights)) == 1 else weights
        task = replace(task, length=len(weights), places=places)
    length, sparsity = task.length, task.sparsity
    if sparsity == length:  # the places are known
        return _Gaussian(math.sqrt(sparsity), task.prevalence)
    largest = length if task.places else max(extremes.LARGEST, 4 * sparsity)
    drawn = extremes.drawn_tokens(length, sparsity, largest)
    if drawn > extremes.MOST_TOKENS:
        raise ValueError(
            f"{owner}: the Bayes test must need at most {extremes.MOST_TOKENS} tokens of a sample "
            "one by one (about five times sparsity, or length where that is less or places have "
            f"weights), got {drawn} for length {length} and sparsity {sparsity}"
        )
    rest = draw_rest(length, sparsity, seed, largest=largest)
    orders = _sampled_orders(task, len(rest.lower), seed) if task.places else None
    return _Bayes(task, rest, orders)


# ---------------------------------------------------------------- linear classifiers, exact


def _gaussian_error(separation: float, prevalence: float) -> float:
    """πΦ(c−κ) + (1−π)Φ(−c) at its best c, for N(κ,1) against N(0,1)."""
    odds = math.log((1 - prevalence) / prevalence)
    if separation == 0:
        return _trivial(prevalence)
    cut = separation / 2 + odds / separation
    return float(prevalence * ndtr(cut - separation) + (1 - prevalence) * ndtr(-cut))


@dataclass(frozen=True)
class _Gaussian:
    """Two unit Gaussians κ = gain·θ apart."""

    gain: float
    prevalence: float
    sharpness: float | None = None

    def error(self, strength: float) -> Estimate:
        value = _gaussian_error(self.gain * strength, self.prevalence)
        return Estimate(value, sharpness=self.sharpness)

    def threshold(self, error: float) -> Estimate:
        root = _crossing(lambda k: _gaussian_error(k, self.prevalence), error, 1e-13)
        return Estimate(root / self.gain, sharpness=self.sharpness)


def _crossing(
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
    while below > 0:
        low, above, high = high, below, 2 * high
        below = excess(high)
    while above <= 0:
        high, below, low = low, above, low / 2
        above = excess(low)
    for _ in range(200):
        middle = high - below * (high - low) / (below - above)
        value = excess(middle)
        if abs(value) <= tolerance or high - low <= tolerance * high:
            return middle
        if value > 0:
            low, above, below = middle, value, below / 2
        else:
            high, below, above = middle, value, above / 2
    return middle


@dataclass(frozen=True)
class _Maximum:
    """max_l g_l against c: πΦ(c)^{L−R}Φ(c−θ)^R + (1−π)(1 − Φ(c)^L)."""

    task: Task

    def error(self, strength: float) -> Estimate:
        from scipy.optimize import minimize_scalar

        length, sparsity, prevalence = self.task.length, self.task.sparsity, self.task.prevalence

        def loss(cut: Any) -> Any:
            noise, signal = log_ndtr(cut), log_ndtr(cut - strength)
            miss = np.exp((length - sparsity) * noise + sparsity * signal)
            return prevalence * miss - (1 - prevalence) * np.expm1(length * noise)

        cuts = np.linspace(-9.0, strength + 9.0, 400 + 10 * int(min(strength, 1e4)))
        best = int(np.argmin(loss(cuts)))
        ends = cuts[max(best - 1, 0)], cuts[min(best + 1, len(cuts) - 1)]
        found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-9})
        return Estimate(min(found.fun, _trivial(prevalence)), sharpness=math.inf)

    def threshold(self, error: float) -> Estimate:
        return Estimate(_crossing(self.error, error, 1e-12), sharpness=math.inf)


def _extremes(task: Task) -> tuple[_Gaussian, _Maximum]:
    """Attention at τ = 0, the mean, and at τ = ∞, the maximum."""
    gain = task.sparsity / math.sqrt(task.length)
    return _Gaussian(gain, task.prevalence, sharpness=0.0), _Maximum(task)


class _Direction(NamedTuple):
    """A readout direction a and cut c, with the law of ⟨a, v⟩ as atoms."""

    error: float
    cut: float
    scores: FloatArray  # (atoms,)
    weights: FloatArray  # (atoms,)


@dataclass(frozen=True)
class _Linear:
    """The best a and c of `Vectorized`."""

    task: Task

    def error(self, strength: float) -> Estimate:
        return Estimate(self._best(strength).error)

    def threshold(self, error: float) -> Estimate:
        """Solve for θ at fixed (a, c), then for the best (a, c) at θ: falls, and quadratically."""
        from scipy.optimize import brentq

        prevalence = self.task.prevalence
        gain = self.task.sparsity / math.sqrt(self.task.length)
        strength = float(_Gaussian(gain, prevalence).threshold(error))
        for _ in range(50):
            best = self._best(strength)
            if best.error >= error * (1 - 1e-10):
                break

            def excess(at: float, best: _Direction = best) -> float:
                miss = best.weights @ ndtr(best.cut - at * best.scores)
                return float(prevalence * miss + (1 - prevalence) * ndtr(-best.cut) - error)

            strength = float(brentq(excess, 0.0, strength, xtol=1e-12))
        return Estimate(strength)

    def _best(self, strength: float) -> _Direction:
        """The best direction found; uniform a is always among those tried."""
        length, sparsity, prevalence = self.task.length, self.task.sparsity, self.task.prevalence
        gain = sparsity / math.sqrt(length)
        odds = math.log((1 - prevalence) / prevalence)
        cut = gain * strength / 2 + odds / max(gain * strength, 1e-300)
        uniform = _gaussian_error(gain * strength, prevalence)
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

    def log_choose(n: int, j: FloatArray) -> FloatArray:
        return np.asarray(gammaln(n + 1) - gammaln(j + 1) - gammaln(n - j + 1))

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
        unit = result.x[:-1] / np.linalg.norm(result.x[:-1])
        found.append(_Direction(math.exp(result.fun), result.x[-1], places @ unit, weights))
    return min(found, key=lambda direction: direction.error)


# ---------------------------------------------------------------- attention and Bayes, sampled


def _estimate(losses: FloatArray, sharpness: float | None = None) -> Estimate:
    """Mean over all draws; standard error from the spread of the replicates' means.

    An error of less than ten in N draws may rest on draws that did not occur: then the standard
    error is 1/N at least.
    """
    means = losses.reshape(REPLICATES, -1).mean(axis=1)
    value, spread = means.mean(), means.std(ddof=1) / math.sqrt(REPLICATES)
    if value < 10 / len(losses):
        spread = max(spread, 1 / len(losses))
    return Estimate(value, spread, sharpness)


class _ErrorAt(Protocol):
    def __call__(self, strength: float, few: bool = False) -> Estimate: ...


def _sampled_threshold(error_at: _ErrorAt, error: float, guess: float) -> Estimate:
    """Found with few draws, polished by secant steps in log error with all of them."""
    strength = _crossing(lambda at: error_at(at, few=True), error, 0.02, guess)
    step = 0.02 * strength
    ends = [math.log(error_at(at, few=True)) for at in (strength - step, strength + step)]
    slope = (ends[1] - ends[0]) / (2 * step)
    value = error_at(strength)
    gap = math.log(value / error)
    for _ in range(8):
        if abs(gap) < max(1e-8, 0.2 * value.standard_error / value):
            break
        step = -gap / slope
        strength, before = strength + step, gap
        value = error_at(strength)
        gap = math.log(value / error)
        if abs(step) > 1e-3 * strength:  # else the slope would be one of rounding
            slope = (gap - before) / step
    return Estimate(
        strength - gap / slope, value.standard_error / (value * abs(slope)), value.sharpness
    )


class _Sums(NamedTuple):
    """What a positive and a negative sample are to the attention statistic, one token missing."""

    sharpness: float
    strength: float
    positive: SoftmaxSums
    negative: SoftmaxSums
    lower: FloatArray

    def rows(self, chosen: slice) -> _Sums:
        positive, negative = self.positive.rows(chosen), self.negative.rows(chosen)
        return _Sums(self.sharpness, self.strength, positive, negative, self.lower[chosen])


@dataclass(frozen=True)
class _Attention:
    """T = ⟨softmax(τg), g⟩ against c; τ = 0, the mean, and τ = ∞, the maximum, are exact."""

    task: Task
    rest: Rest

    def error(self, strength: float) -> Estimate:
        """The mean's or the maximum's, unless a finite τ is better beyond its standard error.

        A τ near the largest that is tried only repeats the maximum.
        """
        exact = min(extreme.error(strength) for extreme in _extremes(self.task))
        if strength == 0:
            return exact
        sampled = self._sampled(strength)
        better = sampled + sampled.standard_error < exact
        return sampled if better and (sampled.sharpness or 0.0) < _SHARPEST / 2 else exact

    def threshold(self, error: float) -> Estimate:
        exact = min(extreme.threshold(error) for extreme in _extremes(self.task))
        if self.error(float(exact)).standard_error == 0:
            return exact
        return min(exact, _sampled_threshold(self._sampled, error, guess=exact))

    def _sampled(self, strength: float, few: bool = False) -> Estimate:
        """The best finite τ: on a grid with few draws, refined with more, evaluated with all.

        The error may have two valleys in τ, one of them at τ = ∞. Up to two on the grid, if they
        may be the lowest, are refined.
        """
        from scipy.optimize import minimize_scalar

        grid = np.append(0.0, np.geomspace(0.03, _SHARPEST, 13))
        draws = self.rest.rows(slice(_FEW))
        losses = [self._best_cut(_sums(draws, tau, strength))[0] for tau in grid]
        lowest = int(np.argmin(losses))
        if few:
            return Estimate(losses[lowest], sharpness=grid[lowest])
        draws = self.rest.rows(slice(8 * _FEW))
        refined: dict[float, tuple[float, float]] = {}

        def loss(log_sharpness: float) -> float:
            tau = math.exp(log_sharpness) - 0.01  # so that τ = 0 is inside
            refined[tau] = self._best_cut(_sums(draws, tau, strength))
            return refined[tau][0]

        last = len(grid) - 1
        valleys = [i for i in range(last) if losses[i] <= min(losses[max(i - 1, 0) : i + 2])]
        for i in {lowest, *sorted(valleys, key=lambda i: losses[i])[:2]}:
            if losses[i] <= 1.05 * losses[lowest]:
                low, high = np.log(grid[[max(i - 1, 0), min(i + 1, last)]] + 0.01).tolist()
                minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 0.03})
        tau = min(refined, key=lambda tau: refined[tau][0])
        sums = _sums(self.rest, tau, strength)
        half = len(sums.lower) // 2  # c for one half of the draws comes from the other half:
        one, two = sums.rows(slice(half)), sums.rows(slice(half, None))  # it cannot fit their noise
        parts = [
            _losses(here, self.task.prevalence, self._best_cut(there)[1])
            for here, there in ((one, two), (two, one))
        ]
        return _estimate(np.concatenate(parts), tau)

    def _best_cut(self, sums: _Sums) -> tuple[float, float]:
        """The smallest loss over c and that c: on a grid with few draws, then refined with all."""
        from scipy.optimize import minimize_scalar

        def loss(cut: float, some: _Sums = sums) -> float:
            return float(_losses(some, self.task.prevalence, cut).mean())

        few = sums.rows(slice(_FEW // 2))
        statistics = _statistics(few)
        low, high = statistics.min(), statistics.max()
        cuts = np.linspace(low, high + 0.3 * (high - low), 30)
        best = cuts[np.argmin([loss(cut, few) for cut in cuts])]
        width = 2 * (cuts[1] - cuts[0])
        found = minimize_scalar(
            loss,
            bounds=(best - width, best + width),
            method="bounded",
            options={"xatol": 0.01 * width},
        )
        return float(found.fun), float(found.x)


def _sums(rest: Rest, sharpness: float, strength: float) -> _Sums:
    """The mean (τ = 0) is taken as τ = 1e-9, which spares every formula its limit."""
    sharpness = max(sharpness, 1e-9)
    signal, noise = softmax_sums(rest.signal, sharpness), softmax_sums(rest.noise, sharpness)
    positive = noise.joined(signal.shifted(strength, sharpness))
    negative = softmax_sums(rest.negative, sharpness)
    return _Sums(sharpness, strength, positive, negative, rest.lower)


def _statistics(sums: _Sums) -> FloatArray:
    """Values of T in both classes, the missing token drawn."""
    points = np.random.default_rng(0).random((2, len(sums.lower)))
    signal = sums.strength + ndtri(points[0])
    noise = -ndtri(points[1] * ndtr(-sums.lower))
    tau = sums.sharpness
    whole_samples = [
        part.joined(SoftmaxSums(tau * token, token)).mean
        for part, token in ((sums.positive, signal), (sums.negative, noise))
    ]
    return np.concatenate(whole_samples)


def _losses(sums: _Sums, prevalence: float, cut: float) -> FloatArray:
    """π P₊(T < c | rest) + (1−π) P₋(T > c | rest) of every draw."""
    low, high = _interval(sums.positive, sums.sharpness, cut)
    miss = ndtr(high - sums.strength) - ndtr(low - sums.strength)
    low, high = _interval(sums.negative, sums.sharpness, cut)
    above = ndtr(-np.maximum(low, sums.lower)) - ndtr(-np.maximum(high, sums.lower))
    return np.asarray(prevalence * miss + (1 - prevalence) * (1 - above / ndtr(-sums.lower)))


def _interval(sums: SoftmaxSums, sharpness: float, cut: float) -> tuple[FloatArray, FloatArray]:
    """(low, high): T ≤ c where the missing token lies between them (equal where it nowhere is)."""
    gap = cut - sums.mean
    with np.errstate(divide="ignore"):
        log_rho = math.log(sharpness) + np.log(np.abs(gap)) + sums.log_total - sharpness * cut
    up = gap >= 0  # the sign of ρ
    upper, lower = np.empty_like(gap), np.full_like(gap, -np.inf)
    upper[up] = wrightomega(log_rho[up])
    upper[~up], lower[~up] = _negative_branches(-log_rho[~up])
    return cut + lower / sharpness, cut + upper / sharpness


def _negative_branches(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """W₀ and W₋₁ at −e^{−a}: the roots −u of u − log u = a; both −1 for a ≤ 1.

    Newton from the expansions at the branch point, in log u for the smaller root: three steps
    leave an error of 1e-12 for every a.
    """
    none = a <= 1
    a = np.maximum(a, 1 + 1e-12)
    p = np.sqrt(2 * (a - 1))
    small = -np.minimum(p + p**2 / 6, 700.0)  # log u
    large = 1 + p + p**2 / 3
    for _ in range(3):
        u = np.exp(small)
        small -= (u - small - a) / (u - 1)
        large *= (np.log(large) + a - 1) / (large - 1)
    return np.where(none, -1.0, -np.exp(small)), np.where(none, -1.0, -large)


@dataclass(frozen=True)
class _Bayes:
    """The likelihood ratio against (1−π)/π. `orders`, for position weights, place the tokens.

    A row of `orders` holds all positions in the order of: the token left out, `signal`, `noise`
    (first array, positive samples); the token left out, `negative` (second array).
    """

    task: Task
    rest: Rest
    orders: tuple[NDArray[np.uint16], NDArray[np.uint16]] | None = None

    def error(self, strength: float, few: bool = False) -> Estimate:
        """The sampled error, held below those of the mean and the maximum, which are exact."""
        bound = min(extreme.error(strength) for extreme in _extremes(self.task))
        if strength == 0:
            return Estimate(bound)
        sampled = self._sampled(strength, few)
        return Estimate(min(bound, sampled), min(bound, sampled.standard_error))

    def threshold(self, error: float) -> Estimate:
        guess = min(extreme.threshold(error) for extreme in _extremes(self.task))
        return _sampled_threshold(self.error, error, guess)

    def _sampled(self, strength: float, few: bool) -> Estimate:
        draws, prevalence = len(self.rest.lower), self.task.prevalence
        losses = np.empty(max(draws // REPLICATES, 256) if few else draws)
        level = self._level(strength)
        for rows in row_blocks(len(losses), self.rest.noise.seen.shape[1] + self.task.sparsity):
            signal, noise, negative, lower = self.rest.rows(rows)
            values = np.hstack([signal.seen + strength, noise.seen]) * strength
            cut = self._cut(values, strength, level, noise, rows, 0)
            miss = ndtr(cut - strength)
            cut = self._cut(negative.seen * strength, strength, level, negative, rows, 1)
            alarm = ndtr(-np.maximum(cut, lower)) / ndtr(-lower)
            losses[rows] = prevalence * miss + (1 - prevalence) * alarm
        return Estimate(losses.mean()) if few else _estimate(losses)

    def _level(self, strength: float) -> float:
        """log of what e_R(pe^{θg}) must exceed: (1−π)/π · e_R(p) · e^{Rθ²/2}."""
        size, length, prevalence = self.task.sparsity, self.task.length, self.task.prevalence
        if self.task.places is None:
            log_sum = gammaln(length + 1) - gammaln(size + 1) - gammaln(length - size + 1)
        else:
            log_sum = log_elementary(np.log([self.task.places]), size)[1][0]
        return float(math.log((1 - prevalence) / prevalence) + log_sum + size * strength**2 / 2)

    def _cut(
        self,
        values: FloatArray,
        strength: float,
        level: float,
        hidden: Tokens,
        rows: slice,
        side: int,
    ) -> FloatArray:
        """The missing token's g at which e_R(rest) + pe^{θg} e_{R−1}(rest) is at the level."""
        own: FloatArray | float = 0.0
        if self.orders is not None and self.task.places is not None:
            log_weights = np.log(self.task.places)[self.orders[side][rows]]
            values, own = values + log_weights[:, 1:], log_weights[:, 0]
        below, at = log_elementary(values, self.task.sparsity, (hidden, strength))
        with np.errstate(divide="ignore"):
            log_missing = level + np.log(-np.expm1(np.minimum(at - level, 0.0)))
        return np.asarray((log_missing - below - own) / strength)


def _sampled_orders(
    task: Task, draws: int, seed: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Positions in random order; in a positive sample those that carry the signal come first."""
    rng = np.random.default_rng([seed, 1])
    positive, negative = np.empty((2, draws, task.length), dtype=np.uint16)
    for rows in row_blocks(draws, task.length):
        ranks = rng.random(positive[rows].shape)
        negative[rows] = np.argsort(ranks, axis=1)
        positive[rows] = np.argsort(ranks - task.sample_places(len(ranks), rng), axis=1)
    return positive, negative

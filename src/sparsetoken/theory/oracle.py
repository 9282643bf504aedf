r"""What is possible at all (Proposition 1, Theorems 1 and 2): the best error when ξ is known.

Tokens enter through g_l = ⟨x_l, ξ⟩ ~ N(θ v_l, 1). Over all parameters of

* `Pooled`: κ = θR/√L, error πΦ(c−κ) + (1−π)Φ(−c) at c = κ/2 + log((1−π)/π)/κ; exact.
* `Vectorized`: min over unit a ∈ R^L and c of πE_vΦ(c − θ⟨a,v⟩) + (1−π)Φ(−c). With uniform places a = 1/√L
  is often but not always best: a rare class is better met by a few positions. For R = 1, t = a² and
  H(t) = Φ(c−θ√t) convex, concave, convex, a minimiser has k coordinates at one value, L−k−1 at a second and at
  most one elsewhere; that family is searched for every R. No sampling: standard error 0.
* `Attention`: q = τξ, w = ξ; the statistic T = ⟨softmax(τg), g⟩ against c, best (τ, c).
* the Bayes test: e_R(p_l e^{θg_l})/e_R(p) · e^{−Rθ²/2} against (1−π)/π, p_l the position weights. It is the
  floor under every classifier.

The last two are sampled with one token integrated out, so that estimates are smooth in θ, τ, c. With
S₀ = Σe^{τg}, S₁ = Σge^{τg} over the other tokens and y = g − c,

    T > c  ⟺  τy e^{τy} > ρ = τ(cS₀ − S₁)e^{−τc}
           ⟺  y > W₀(ρ)/τ,  or  −1/e < ρ < 0 and y < W₋₁(ρ)/τ,  or  ρ ≤ −1/e   (W: Lambert),

and e_R(all) = e_R(rest) + x e_{R−1}(rest) is linear in the token's x = pe^{θg}. In a positive sample the token
is one that carries the signal; in a negative one any, or, in long samples, the largest: N(0,1) above the
second largest. Standard errors are spreads over 16 independent scrambles of a Sobol sequence.
Samples of more than 512 tokens use `extremes`, whose central limit is the only approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, wrightomega

from sparsetoken.model.checks import real, whole
from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Vectorized
from sparsetoken.model.task import Task
from sparsetoken.theory import extremes
from sparsetoken.theory.extremes import REPLICATES, SoftmaxSums, Tokens, softmax_sums

FloatArray = NDArray[np.float64]

_SHARPEST = 100.0  # the largest τ tried; the maximum itself to a few parts in a thousand


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

    `classifier` is Pooled(), Vectorized() or Attention(); the cosine and sharpness of a frozen
    `Attention` are ignored (here the query points along ξ and the sharpness is the best one). `seed`
    matters for `Attention` only.

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
    return _bayes_oracle(task, seed).error(task.strength)


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
    if classifier is None:
        oracle = _bayes_oracle(task, seed)
    else:
        oracle = _oracle(owner, task, classifier, seed)
    if error >= _trivial(task.prevalence):
        return Estimate(0.0)
    return oracle.threshold(error)


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
        return _Attention(task, _draw(task, seed, extremes.LARGEST))
    raise ValueError(
        f"{owner}: classifier must be Pooled(), Vectorized() or Attention(), got {classifier!r}"
    )


def _bayes_oracle(task: Task, seed: int) -> _Oracle:
    """Positions that never carry the signal are dropped: the likelihood ratio ignores them."""
    if task.places is not None:
        weights = [weight for weight in task.places if weight > 0]
        places = None if len(set(weights)) == 1 else tuple(weights)
        task = replace(task, length=len(weights), places=places)
    if task.sparsity == task.length:  # the places are known
        return _Gaussian(math.sqrt(task.sparsity), task.prevalence)
    largest = max(extremes.LARGEST, 4 * task.sparsity)
    drawn = task.length - 1
    if task.places is None and task.length - task.sparsity > max(extremes.ALL_DRAWN, 2 * largest):
        drawn = task.sparsity - 1 + largest
    if drawn > extremes.MOST_TOKENS:
        raise ValueError(
            f"bayes_error: the task must need at most {extremes.MOST_TOKENS} tokens a sample drawn "
            f"one by one (all of them when sparsity is over a ninth of length or places have "
            f"weights, else 5·sparsity), got length {task.length} and sparsity {task.sparsity}"
        )
    return _Bayes(task, _draw(task, seed, largest))


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
        root = _first_crossing(lambda k: _gaussian_error(k, self.prevalence), error, 1e-13)
        return Estimate(root / self.gain, sharpness=self.sharpness)


def _first_crossing(error_at: Callable[[float], float], error: float, tolerance: float) -> float:
    """θ with error_at(θ) = error, for a decreasing function that starts above it and goes to 0."""
    from scipy.optimize import brentq

    def excess(strength: float) -> float:
        return math.log(max(error_at(strength), 1e-300) / error)

    high = 1.0
    while excess(high) > 0:
        high *= 2
    low = high / 2 if high > 1 else 0.0
    return float(brentq(excess, low, high, xtol=tolerance, rtol=max(tolerance, 1e-15)))


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
        """At fixed (a, c) solve for θ, then find the best (a, c) there: falls, and quadratically."""
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
        task, prevalence = self.task, self.task.prevalence
        separation = strength * task.sparsity / math.sqrt(task.length)
        one = np.ones(1)
        best = _Direction(
            _gaussian_error(separation, prevalence),
            separation / 2 + math.log((1 - prevalence) / prevalence) / max(separation, 1e-300),
            one * task.sparsity / math.sqrt(task.length),
            one,
        )
        if task.length == 1 or strength == 0:
            return best
        if not task.uniform_places:
            law = Vectorized().law_by_position(replace(task, strength=1.0))
            places, weights = law.means[law.labels > 0], law.weights[law.labels > 0]
            starts = _starting_directions(places, weights / weights.sum())
            found = _best_direction(places, weights / weights.sum(), strength, prevalence, starts)
            return min(best, found, key=lambda d: d.error)

        def grouped(k: int) -> _Direction:
            shares, weights = _grouped_places(task.length, task.sparsity, k)
            flat = np.sqrt([k, 1, task.length - k - 1]) / math.sqrt(task.length)
            starts = [np.array([1.0, 0.1, 0.0]), np.array([1.0, 1.0, 0.0]) + flat]
            return _best_direction(shares, weights, strength, prevalence, starts)

        sizes = np.unique(np.geomspace(1, task.length - 1, 20).round().astype(int))
        found_at = {int(k): grouped(int(k)) for k in sizes}
        while True:  # bisect the gaps next to the best k until there are none
            tried = sorted(found_at)
            place = min(range(len(tried)), key=lambda i: found_at[tried[i]].error)
            around = tried[max(place - 1, 0) : place + 2]
            middles = [(a + b) // 2 for a, b in zip(around, around[1:], strict=False) if b > a + 1]
            if not middles:
                break
            found_at |= {k: grouped(k) for k in middles}
        return min([best, *found_at.values()], key=lambda d: d.error)


def _grouped_places(length: int, sparsity: int, k: int) -> tuple[FloatArray, FloatArray]:
    """Signal tokens among k, 1 and L−k−1 positions over the root of those sizes, and probabilities.

    Multivariate hypergeometric; counts of probability below 1e-16 are left out. Shapes (atoms, 3), (atoms,).
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
    """min over a ∈ R^D, c of log(π Σ_i w_i Φ(c − θ⟨places_i, a⟩/‖a‖) + (1−π)Φ(−c)), by L-BFGS."""
    from scipy.optimize import minimize

    def objective(point: FloatArray) -> tuple[float, FloatArray]:
        norm = np.linalg.norm(point[:-1])
        unit, cut = point[:-1] / norm, point[-1]
        scores = places @ unit
        value = prevalence * weights @ ndtr(cut - strength * scores) + (1 - prevalence) * ndtr(-cut)
        density = weights * np.exp(-0.5 * (cut - strength * scores) ** 2)
        turn = -strength * (density @ places - (density @ scores) * unit) / norm
        slope = prevalence * density.sum() - (1 - prevalence) * math.exp(-0.5 * cut**2)
        value += 1e-300
        return math.log(value), np.append(prevalence * turn, slope) / (value * math.sqrt(2 * math.pi))

    found = []
    for start in starts:
        unit = start / np.linalg.norm(start)
        scores = places @ unit
        cuts = np.linspace(-8.0, strength * scores.max() + 8.0, 60)
        misses = ndtr(cuts[:, None] - strength * scores) @ weights
        cut = cuts[np.argmin(prevalence * misses + (1 - prevalence) * ndtr(-cuts))]
        result = minimize(
            objective, np.append(unit, cut), jac=True, method="L-BFGS-B", options={"ftol": 1e-15}
        )
        unit = result.x[:-1] / np.linalg.norm(result.x[:-1])
        found.append(_Direction(math.exp(result.fun), result.x[-1], places @ unit, weights))
    return min(found, key=lambda direction: direction.error)


# ---------------------------------------------------------------- attention and Bayes, sampled


@dataclass(frozen=True)
class _Sampled:
    """An oracle known through draws: `losses` gives π·miss + (1−π)·false alarm of each of them."""

    task: Task
    rest: Rest

    def error(self, strength: float) -> Estimate:
        exact = _gaussian_error(
            strength * self.task.sparsity / math.sqrt(self.task.length), self.task.prevalence
        )
        if strength == 0:
            return Estimate(exact, sharpness=self._sharpness_of_mean)
        estimate = self.estimate(strength)
        return estimate if estimate < exact else Estimate(exact, 0.0, self._sharpness_of_mean)

    _sharpness_of_mean: float | None = None

    def estimate(self, strength: float, near: float | None = None, few: bool = False) -> Estimate:
        """The sampled error, by one replicate if `few`; `near` is a guess of the best sharpness."""
        raise NotImplementedError

    def threshold(self, error: float) -> Estimate:
        """Bracketed on one replicate, polished by secant steps in log error on all of them."""
        near: float | None = None

        def coarse(strength: float) -> float:
            nonlocal near
            value = self.estimate(strength, near, few=True)
            near = value.sharpness
            return value

        strength = _first_crossing(coarse, error, 1e-3)
        value = self.estimate(strength, near)
        step = 0.02 * strength
        slope = math.log(self.estimate(strength + step, value.sharpness) / value) / step
        for _ in range(10):
            gap = math.log(value / error)
            strength -= gap / slope
            if abs(gap) < max(1e-7, 0.1 * value.standard_error / value):
                break
            value = self.estimate(strength, value.sharpness)
        return Estimate(strength, value.standard_error / (value * abs(slope)), value.sharpness)


def _estimate(losses: FloatArray, sharpness: float | None = None) -> Estimate:
    """Mean over all draws; standard error from the spread of the replicates' means."""
    means = losses.reshape(REPLICATES, -1).mean(axis=1)
    return Estimate(means.mean(), means.std(ddof=1) / math.sqrt(REPLICATES), sharpness)

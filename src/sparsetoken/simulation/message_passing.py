r"""Message passing: learns the signal from labelled bags as well as any fast algorithm known.

The positive bags are X = uξᵀ + Z, u = θv in each bag, ξ ~ N(0, I/d) (section 11 of docs/theory.md).
From an estimate ξ̂ of the signal, in every round,

    b = Xξ̂ − û/(1 + Λ),   û ← the means, and V the variances, of u under P(u)e^{⟨u,b⟩ − ‖u‖²‖ξ̂‖²/2},
    Λ = ‖û‖²/d,           ξ̂ ← (Xᵀû − ΣV ξ̂)/(d(1 + Λ)).

What is taken off, û/(1 + Λ) of the round before and ΣV ξ̂, is what an estimate told itself. In the
limit the cosine follows m ← Γ(m)/(1 + Γ(m)) round by round (`oracles.bayes_learning`, which shares
no code with this). With coloured noise of known spectrum the tokens are whitened, and coordinates
of ξ have known variances p/d: p/(1 + Λp) in place of 1/(1 + Λ), its mean where that stands for all
of them. A new bag is tested by the likelihood ratio along ξ̂, at strength θ‖ξ̂‖: nothing is left to
fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from sparsetoken.model.classifiers import Query
from sparsetoken.model.layout import Layout
from sparsetoken.model.places import carrier_chances, log_choose, log_subset_sums
from sparsetoken.model.task import Task
from sparsetoken.simulation.outcome import Outcome
from sparsetoken.simulation.settings import Settings
from sparsetoken.simulation.spiked import Spiked
from sparsetoken.simulation.tokens import TokenStream, draw_signal
from sparsetoken.support.arrays import Array, FloatArray, floats
from sparsetoken.support.checks import real, settle, whole
from sparsetoken.support.devices import to_numpy

_MOST_ROUNDS = 1000
_BLOCK = 1 << 20  # tokens, times sparsity, that are weighed at once


@dataclass(frozen=True)
class MessagePassing:
    """A learner for `simulate`: approximate message passing on the positive bags.

    It learns from the readout_samples·d samples of a protocol, uses nothing else of it, and knows
    the task. `start` is the cosine with the signal of what it begins with: 0 is to know nothing
    (the first round ends with the class mean), 1 the truth, which a hard task is stuck far from.

    >>> from sparsetoken import Protocol, simulate
    >>> learner, half = MessagePassing(rounds=5), Protocol(readout_samples=0.5)
    >>> run = simulate(Task(10, 1, 5.0), learner, half, dim=1000, repeats=2, seed=0)
    >>> run.cosines.shape, round(run.mean("cosine"), 2)
    ((2, 5), 0.93)
    """

    rounds: int = 10
    start: float = 0.0
    learns_query: ClassVar[bool] = False
    learns_jointly: ClassVar[bool] = False
    directions: ClassVar[int] = 1

    def __post_init__(self) -> None:
        rounds = whole(MessagePassing, "rounds", self.rounds, least=1, most=_MOST_ROUNDS)
        settle(
            self, rounds=rounds, start=real(MessagePassing, "start", self.start, least=0, most=1)
        )

    def possible(self, task: Task) -> str | None:
        """Why not, in a sentence: messages take tokens to be independent, signals to be points."""
        if task.token_correlation:
            return (
                "MessagePassing: token_correlation must be 0 (messages take tokens to be "
                f"independent), got {task.token_correlation}"
            )
        if task.has_spread:
            return (
                "MessagePassing: signal_spread must be that of the noise (None), got "
                f"{task.signal_spread!r}"
            )
        if task.noise.dim is not None:
            return (
                "MessagePassing: noise must be White() or a Spectrum (it knows the shares of the "
                f"signal, not the signal), got {task.noise!r}"
            )
        return None

    def numbers(self, settings: Settings) -> float:
        """How many are held at once, at the least."""
        tokens = settings.sizes[1] * settings.task.prevalence * settings.task.length
        vectors = 2 * self.rounds if settings.sampler == "reduced" else 4
        return vectors * (tokens + settings.dim)

    def learn(self, settings: Settings, seed: np.random.SeedSequence) -> Outcome:
        """One run: rounds on the training bags, then a test on fresh ones."""
        bags: Bags = (DrawnProducts if settings.sampler == "reduced" else TokenBags)(settings, seed)
        belief, frame = Belief(settings.task), bags.frame
        start = settings.place.array(self._start(frame.white_signal, seed))
        strength = float(settings.task.signals.weights @ settings.task.signals.strengths)
        queries = []
        for estimate in _estimates(bags, belief, start, self.rounds):
            white = to_numpy(estimate)
            vector = frame.root * white  # as the signal is given
            norm = float(np.linalg.norm(vector))
            sharpness = strength * float(np.linalg.norm(white))
            queries.append(Query(float(vector @ frame.signal), norm, sharpness))
        cosines = tuple(query.cosine for query in queries)
        error = _test_error(bags, belief, estimate)
        return Outcome(query=queries[-1], cosines=cosines, test_error=error)

    def _start(self, signal: FloatArray, seed: np.random.SeedSequence) -> FloatArray:
        """An estimate (d,) as good as a posterior mean of that cosine: as long as it is right."""
        other = np.random.default_rng(seed.spawn(1)[0]).standard_normal(len(signal))
        length = float(np.linalg.norm(signal))
        other -= (other @ signal) / length**2 * signal
        other *= math.sqrt(1 - self.start**2) * length / max(float(np.linalg.norm(other)), 1e-300)
        return self.start * (self.start * signal + other)


@dataclass(frozen=True, eq=False)
class Frame:
    """The signal, coordinates in which noise is white, and what is known of the signal there."""

    signal: FloatArray  # (d,), ξ
    root: FloatArray  # (d,), Σ^½
    prior: FloatArray  # (d,), p: whitened coordinates of ξ have variance p/d

    @property
    def white_signal(self) -> FloatArray:
        """Σ^{-½}ξ (d,)."""
        return self.signal / self.root


def _frame(task: Task, signal: FloatArray, layout: Layout | None) -> Frame:
    if layout is None:
        return Frame(signal, np.ones(len(signal)), np.ones(len(signal)))
    joint, counts = task.joint_spectrum, layout.counts
    assert joint is not None
    energy = joint.share / np.maximum(counts, 1)  # of the signal in each coordinate, on average
    prior = len(signal) * np.repeat(energy, counts) / layout.noise_root**2
    return Frame(signal, layout.noise_root, prior)


class Bags(Protocol):
    """Positive bags to learn from, and fresh ones of both classes, tokens whitened."""

    frame: Frame
    prior: Array  # (d,), that of the frame on the device
    means: Array  # (bags, L), to be written to

    def pooled(self, direction: Array, weigh: Round) -> Array:
        """Xᵀû (d,), û from the scores Xξ̂ (n, L) of some bags at a time."""
        ...

    def tests(self, direction: Array) -> Iterator[tuple[FloatArray, Array]]:
        """Labels (n,) and scores (n, L) of fresh bags, some at a time."""
        ...


class Belief:
    """What the tokens of a positive bag may carry: P(u), from the task."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._log_places: FloatArray | float = 0.0
        if task.places is not None:
            with np.errstate(divide="ignore"):
                self._log_places = np.log(task.places)

    def means(self, scores: Array, size: float) -> tuple[Array, Array]:
        """û and V (n, L) from scores b and ‖ξ̂‖²."""
        xp, scores = floats(scores)
        mean, square = xp.zeros_like(scores), xp.zeros_like(scores)
        heights, carriers = [], []
        for height, strength, count, log_weights in self._hypotheses(scores, size):
            if count:
                log_sum, chances = carrier_chances(log_weights, count)
                heights.append(height + log_sum)
                carriers.append((strength, chances))
            else:
                heights.append(height + xp.zeros_like(scores[:, 0]))
                carriers.append((0.0, xp.zeros_like(scores)))
        total = _log_total(xp, heights)
        for log_chance, (strength, chances) in zip(heights, carriers, strict=True):
            part = xp.exp(log_chance - total)[:, None] * chances
            mean, square = mean + strength * part, square + strength**2 * part
        return mean, square - mean**2

    def log_ratio(self, scores: Array, size: float) -> Array:
        """log P(g | +)/P(g | −) of bags with scores g (n, L)."""
        xp, scores = floats(scores)
        return _log_total(
            xp,
            [
                height + log_subset_sums(log_weights, count)[count][:, -1]
                for height, _, count, log_weights in self._hypotheses(scores, size)
            ],
        )

    def _hypotheses(self, scores: Array, size: float) -> Iterator[tuple[float, float, int, Array]]:
        """Every (θ, R): log of its probability over all sets of places, times e^{−θ²R‖ξ̂‖²/2}; θ;
        R; log weights (n, L) of the tokens."""
        xp, scores = floats(scores)
        places = xp.asarray(self._log_places, dtype=scores.dtype)
        for strength, ones, weight in zip(*map(np.ndarray.tolist, self.task.signals), strict=True):
            count = int(ones)
            height = math.log(weight) - self._log_sets(count) - strength**2 * count * size / 2
            yield height, strength, count, strength * scores + places

    def _log_sets(self, count: int) -> float:
        """log e_R of the weights of places, C(L, R) without."""
        if self.task.places is None:
            return float(log_choose(self.task.length, count))
        return float(log_subset_sums(self._log_places, count)[count][-1])


class Round:
    """One round of messages: û of some bags at a time, with the sums that the next needs."""

    def __init__(self, belief: Belief, size: float, doubt: float, means: Array) -> None:
        self._belief, self._size, self._doubt, self._means = belief, size, doubt, means
        self.energy = self.variance = 0.0  # ‖û‖², ΣV

    def __call__(self, part: slice, scores: Array) -> Array:
        """û (n, L) from their scores; it replaces that of the round before."""
        mean, variance = self._belief.means(scores - self._doubt * self._means[part], self._size)
        self.energy += float((mean**2).sum())
        self.variance += float(variance.sum())
        self._means[part] = mean
        return mean


def _estimates(bags: Bags, belief: Belief, start: Array, rounds: int) -> Iterator[Array]:
    """ξ̂ (d,) after each round."""
    estimate, doubt, dim, prior = start, 0.0, start.shape[0], bags.prior
    for _ in range(rounds):
        weigh = Round(belief, float(estimate @ estimate), doubt, bags.means)
        total = bags.pooled(estimate, weigh)
        gain = prior / (dim + weigh.energy * prior)
        estimate = (total - weigh.variance * estimate) * gain
        doubt = float(gain.sum())
        yield estimate


class TokenBags:
    """Token by token, drawn again in each pass."""

    def __init__(self, settings: Settings, seed: np.random.SeedSequence) -> None:
        seeds, task, place = seed.spawn(3), settings.task, settings.place
        rng = np.random.default_rng(seeds[0])
        signal, layout = draw_signal(task, settings.dim, rng)
        self.frame = _frame(task, signal, layout)
        self.prior, self._inverse = place.array(self.frame.prior), place.array(1 / self.frame.root)
        labels = task.sample_labels(settings.sizes[1], rng)
        train, test = labels[labels > 0], task.sample_labels(settings.test_samples, rng)
        self._train, self._test = (
            TokenStream(task, settings.token_noise, of, signal, seed_of, place, layout=layout)
            for of, seed_of in ((train, seeds[1]), (test, seeds[2]))
        )
        self.means = place.array(np.zeros((len(train), task.length)))

    def pooled(self, direction: Array, weigh: Round) -> Array:
        total, along = 0.0 * direction, self._inverse * direction
        for part, tokens in self._train.samples():
            flat = tokens.reshape(-1, tokens.shape[2])
            total = total + weigh(part, tokens @ along).reshape(-1) @ flat
        return total * self._inverse

    def tests(self, direction: Array) -> Iterator[tuple[FloatArray, Array]]:
        for part, tokens in self._test.samples():
            yield self._test.labels[part], tokens @ (self._inverse * direction)


class DrawnProducts:
    """The products alone, exact in law; a signal in white noise is the first unit vector."""

    def __init__(self, settings: Settings, seed: np.random.SeedSequence) -> None:
        self._settings, self._source = settings, settings.place.source(seed)
        labels = settings.task.sample_labels(settings.sizes[1], self._source.rng)
        signals = self._signals(labels[labels > 0])
        signal, layout = np.eye(1, settings.dim)[0], None
        if not settings.task.is_white:
            signal, layout = draw_signal(settings.task, settings.dim, self._source.rng)
        self.frame = _frame(settings.task, signal, layout)
        self.prior = settings.place.array(self.frame.prior)
        self.means = 0.0 * signals
        self._signal = settings.place.array(self.frame.white_signal)
        self._tokens = Spiked(signals.reshape(-1), self._signal, self._source)

    def pooled(self, direction: Array, weigh: Round) -> Array:
        scores = self._tokens.times(direction).reshape(self.means.shape)
        for part in self._parts(scores.shape[0]):
            weigh(part, scores[part])
        return self._tokens.transposed_times(self.means.reshape(-1))

    def tests(self, direction: Array) -> Iterator[tuple[FloatArray, Array]]:
        overlap, norm = float(direction @ self._signal), math.sqrt(float(direction @ direction))
        for part in self._parts(self._settings.test_samples):
            labels = self._settings.task.sample_labels(part.stop - part.start, self._source.rng)
            signals = self._signals(labels)
            yield labels, overlap * signals + norm * self._source.standard_normal(signals.shape)

    def _signals(self, labels: FloatArray) -> Array:
        """u (n, L) of bags with these labels."""
        task, rng = self._settings.task, self._source.rng
        strength, sparsity = task.sample_signals(len(labels), rng)
        places = task.sample_places(len(labels), rng, sparsity) & (labels > 0)[:, None]
        strengths = np.broadcast_to(strength, len(labels))[:, None]
        return self._settings.place.array(strengths * places)

    def _parts(self, count: int) -> Iterator[slice]:
        most = int(self._settings.task.signals.sparsities.max()) * self._settings.task.length
        step = max(1, _BLOCK // most)
        for start in range(0, count, step):
            yield slice(start, min(start + step, count))


def _test_error(bags: Bags, belief: Belief, estimate: Array) -> float:
    """Of the likelihood ratio along ξ̂ against (1 − π)/π; a tie counts half."""
    size, wrong, count = float(estimate @ estimate), 0.0, 0
    prevalence = belief.task.prevalence
    level = math.log((1 - prevalence) / prevalence)
    for labels, scores in bags.tests(estimate):
        margin = labels * (to_numpy(belief.log_ratio(scores, size)) - level)
        wrong += float(np.sum(margin < 0) + 0.5 * np.sum(margin == 0))
        count += len(labels)
    return wrong / count


def _log_total(xp: Any, logs: list[Array]) -> Array:
    """log Σ e^x of arrays side by side."""
    total = logs[0]
    for more in logs[1:]:
        total = xp.logaddexp(total, more)
    return total

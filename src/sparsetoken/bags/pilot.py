r"""A `Task` estimated from labelled bags: how strong, how sparse, how rare is the signal?

Each half of the bags learns a whitening from its negative tokens and a direction β, and is then
measured along the direction of the *other* half, which has not seen it. There, in units of the
noise, a token of a positive bag is N(δ, 1) with probability ρ and N(0, 1) else: `Mixture` gives
both. A direction of cosine s with the signal sees δ = θs, and noise correlates along two
directions learned apart by s_A·s_B (the errors of A and B have nothing to do with one another), so

    sparsity R = ρL,    strength θ = δ/√correlation of ⟨x, β_A⟩ and ⟨x, β_B⟩ over noise.

β is the difference of the classes' pooled tokens, where tokens are weighted by how likely they
carry the signal (expectation–maximisation from the two-step query, three rounds): linear in bags,
so that a bootstrap over bags costs one product of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags, two_classes
from sparsetoken.bags.diagnosis import Diagnosis, correlation, distance, problems, variances
from sparsetoken.bags.findings import SURE, Interval, MatrixInterval, Pilot
from sparsetoken.bags.mixture import Mixture, histogram
from sparsetoken.bags.poolings import refined, two_step_query
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Moments, Whitening
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.checks import real, whole

_ROUNDS = 3
_FEWEST = 8  # bags of each class
_BLOCK = 1 << 22  # projections held at once


def estimate_task(
    X: Any,
    y: Any,
    *,
    mask: Any = None,
    level: float = 0.9,
    resamples: int = 200,
    seed: int = 0,
) -> Pilot:
    """Strength, sparsity, prevalence, lengths and noise of the task that labelled bags come from.

    Parameters
    ----------
    X : array (n, L, d), list of (L_i, d) arrays, or Bags
        At least eight bags of each class.
    y : array (n,)
        Two kinds of labels; the second one (in order) is that of bags with a signal.
    mask : array (n, L) of truth values, optional
        Tokens that count, for an array X.
    level : float
        Of the intervals.
    resamples : int
        Of the bootstrap over bags.
    seed : int
        Of the bootstrap; nothing else is random.

    Returns
    -------
    Pilot
        Estimates with intervals, the evidence for a signal, the `task` for `plan`, and what does
        not fit the model. The formulas are in the module's docstring.

    Raises
    ------
    InvalidInput
        Bags or labels that cannot be read, fewer than eight bags of a class, or a `level` or
        `resamples` out of bounds.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=10, sparsity=2, strength=3.0).sample(400, dim=20, rng=0)
    >>> pilot = estimate_task(sample.tokens, sample.labels)
    >>> pilot.found, pilot.task.sparsity
    (True, 2)
    >>> pilot.strength.low < 3.0 < pilot.strength.high
    True
    """
    bags = Bags.of(X, mask, n_tokens=None)
    _, labels = two_classes(y, len(bags), "estimate_task", _FEWEST)
    level = real("estimate_task", "level", level, above=0, below=1)
    resamples = whole("estimate_task", "resamples", resamples, least=20, most=100_000)
    rng = np.random.default_rng(seed)
    halves = tuple(_Half.of(bags, labels, part) for part in (0, 1))
    draws = [half.resampled(resamples, rng) for half in halves]
    seen = _measured(halves, draws)
    tokens = float(bags.lengths[labels > 0].mean())
    ends = [(1 - level) / 2, (1 + level) / 2]

    def interval(values: FloatArray) -> Interval:
        return Interval(float(values[0]), *map(float, np.quantile(values[1:], ends)))

    counts = seen.counts.sum(axis=0)
    mixtures = Mixture.fit(counts)
    cosine = np.sqrt(np.maximum(seen.agreement, 1e-6))
    strength, sparsity = interval(mixtures.shift / cosine), interval(mixtures.share * tokens)
    evidence, gain = _held_out(halves, seen)
    picks = rng.integers(len(bags), size=(resamples, len(bags)))
    prevalence = interval(np.append(np.mean(labels > 0), (labels > 0)[picks].mean(axis=1)))
    length = interval(np.append(bags.lengths.mean(), bags.lengths[picks].mean(axis=1)))
    task = None
    if evidence > SURE:
        whole_length = max(1, round(length.value))
        ones = min(max(1, round(sparsity.value * whole_length / tokens)), whole_length)
        shift = Mixture.fit(counts[:1], share=ones / whole_length).shift[0]
        task = Task(whole_length, ones, float(shift / cosine[0]), prevalence.value)
    noise = bags[labels < 0]
    return Pilot(
        strength, sparsity, prevalence, length,
        tuple(np.quantile(bags.lengths, [0, 0.25, 0.5, 0.75, 1]).tolist()),
        _covariance(noise, ends[1]), evidence, task,
        _diagnosed(halves, seen, noise, mixtures, gain, bags.lengths), len(bags), bags.dim, level,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Half:
    """Half of the bags, and the direction they teach: difference of the classes' `features`."""

    bags: Bags
    labels: FloatArray
    whitening: Whitening
    features: FloatArray  # (n, d), acting on tokens as they are

    @classmethod
    def of(cls, bags: Bags, labels: FloatArray, part: int) -> _Half:
        """Every other bag of each class."""
        chosen = [np.flatnonzero(labels == label)[part::2] for label in (1.0, -1.0)]
        index = np.sort(np.concatenate(chosen))
        bags, labels = bags[index], labels[index]
        data = TrainingData.of(bags, labels, np.ones(len(index)))
        whitening = Moments.of(bags, data.weights_of(-1)).whitening()
        query = two_step_query(data, whitening)
        for _ in range(_ROUNDS):  # so many refinements are what this query is
            query, pooled = refined(data, query, whitening)
        return cls(bags, labels, whitening, pooled @ whitening.root @ whitening.root.T)

    @property
    def positive(self) -> NDArray[np.bool_]:
        """Of tokens (N,)."""
        return np.repeat(self.labels > 0, self.bags.lengths)

    def resampled(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Weights (count + 1, n): all ones, then how often each bag is drawn, class by class."""
        weights = np.ones((count + 1, len(self.labels)))
        for label in (1.0, -1.0):
            same = np.flatnonzero(self.labels == label)
            weights[1:, same] = rng.multinomial(len(same), np.full(len(same), 1 / len(same)), count)
        return weights

    def directions(self, weights: FloatArray) -> FloatArray:
        """β for each row of weights, (k, d)."""
        up, down = weights * (self.labels > 0), weights * (self.labels < 0)
        change = up @ self.features / up.sum(axis=1, keepdims=True)
        change -= down @ self.features / down.sum(axis=1, keepdims=True)
        return np.asarray(change / np.maximum(np.linalg.norm(change, axis=1), 1e-300)[:, None])


class _Seen(NamedTuple):
    """What each half looks like along the direction of the other."""

    counts: FloatArray  # (2, k, bins), histograms of positive tokens
    agreement: FloatArray  # (k,), s_A·s_B
    levels: tuple[FloatArray, FloatArray]  # projections of all tokens of each half, in units of σ


def _measured(halves: tuple[_Half, ...], draws: list[FloatArray]) -> _Seen:
    """For all rows of weights; the first one's projections are kept."""
    directions = [half.directions(weights) for half, weights in zip(halves, draws, strict=True)]
    rows = len(draws[0])
    step = max(1, _BLOCK // max(len(half.bags.tokens) for half in halves))
    counts: list[FloatArray] = []
    agreement = np.zeros(rows)
    levels = []
    for own, half in enumerate(halves):
        positive, parts = half.positive, []
        for start in range(0, rows, step):
            block = slice(start, start + step)
            weights = np.repeat(draws[own][block], half.bags.lengths, axis=1)
            share = weights[:, ~positive] / weights[:, ~positive].sum(axis=1, keepdims=True)
            along_own, along_other = (
                half.bags.project(directions[side][block].T).T for side in (own, 1 - own)
            )
            own_noise, _, own_spread = _centred(along_own[:, ~positive], share)
            noise, mean, spread = _centred(along_other[:, ~positive], share)
            together = np.sum(share * own_noise * noise, axis=1)
            agreement[block] += 0.5 * together / own_spread[:, 0] / spread[:, 0]
            level = (along_other - mean) / spread
            parts.append(histogram(level[:, positive], weights[:, positive]))
            if start == 0:
                levels.append(level[0].copy())
        counts.append(np.concatenate(parts))
    return _Seen(np.stack(counts), agreement, (levels[0], levels[1]))


def _centred(values: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values (k, N) less their mean, that mean (k, 1), and their standard deviation (k, 1)."""
    mean = np.sum(share * values, axis=1, keepdims=True)
    centred = values - mean
    spread = np.sqrt(np.sum(share * centred**2, axis=1, keepdims=True))
    return centred, mean, np.maximum(spread, 1e-300)


def _held_out(halves: tuple[_Half, ...], seen: _Seen) -> tuple[float, tuple[float, float]]:
    """Evidence for a signal, and for a sparse one over a dense one, in bags not fitted to.

    Along the other half's direction, by the mixture fitted to the other half.
    """
    from scipy.stats import rankdata

    surplus, variance, gains = 0.0, 0.0, []
    for own, half in enumerate(halves):
        counts, level = seen.counts[1 - own, :1], seen.levels[own][None]
        ratio = Mixture.fit(counts).log_ratio(level)[0]
        sparse = half.bags.total(ratio)
        dense = half.bags.total(Mixture.fit(counts, share=1.0).log_ratio(level)[0])
        positive = half.labels > 0
        gains.append((sparse - dense)[positive])
        noise, length = ratio[~half.positive], half.bags.lengths
        # by what noise of that length would give: else long bags would be told from short ones
        spread = max(float(noise.std()), 1e-300) * np.sqrt(length)
        score = (sparse - length * noise.mean()) / spread
        n, up = len(positive), int(positive.sum())  # sum of ranks, as Wilcoxon has it
        surplus += float(rankdata(score)[positive].sum()) - up * (n + 1) / 2
        variance += up * (n - up) * (n + 1) / 12
    gain = np.concatenate(gains)
    error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
    return surplus / variance**0.5, (float(gain.mean()), error)


def _covariance(noise: Bags, end: float) -> MatrixInterval:
    """Of the tokens of negative bags; bags, not tokens, are what was drawn."""
    from scipy.special import ndtri

    mean, value = noise.covariance()
    squares = np.zeros_like(value)
    for start, stop in zip(noise.offsets[:-1], noise.offsets[1:], strict=True):
        tokens = np.asarray(noise.tokens[start:stop], dtype=float) - mean
        squares += (tokens.T @ tokens - (stop - start) * value) ** 2
    half = ndtri(end) * np.sqrt(squares) / len(noise.tokens)
    return MatrixInterval(value, value - half, value + half)


def _diagnosed(
    halves: tuple[_Half, ...],
    seen: _Seen,
    noise: Bags,
    mixtures: Mixture,
    gain: tuple[float, float],
    lengths: IntArray,
) -> Diagnosis:
    quiet = [half.bags[half.labels < 0] for half in halves]
    ends, edges = np.swapaxes(
        [variances(half.whitening, quiet[own], quiet[1 - own]) for own, half in enumerate(halves)],
        0,
        1,
    )
    levels = [level[~half.positive] for level, half in zip(seen.levels, halves, strict=True)]
    first = Mixture(mixtures.share[:1], mixtures.shift[:1])
    counts = histogram(np.concatenate(levels)[None])
    measured = Diagnosis(
        variances=(float(ends[:, 0].min()), float(ends[:, 1].max())),
        edges=(float(edges[:, 0].min()), float(edges[:, 1].max())),
        correlation=correlation(Moments.of(noise, np.ones(len(noise))).whitening(), noise),
        noise_distance=distance(counts[0], Mixture(np.zeros(1), np.zeros(1))),
        signal_distance=distance(seen.counts[:, 0].sum(axis=0), first),
        sparse_gain=gain,
        problems=(),
    )
    sizes = len(noise.tokens), sum(int(half.positive.sum()) for half in halves)
    return replace(measured, problems=tuple(problems(measured, lengths, *sizes)))

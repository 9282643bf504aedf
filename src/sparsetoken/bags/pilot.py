r"""A `Task` estimated from labelled bags: how strong, how varied, how sparse is the signal?

Bags are measured along directions that they have not taught (`views.py`); there the likelihood of
whole bags (`likelihood.py`) gives the shift δ and the width τ of tokens with the signal, how many R
a positive bag has, and the share of positive bags that have none. With s² the agreement of
directions learned apart,

    strength: mean δ/s, standard deviation √(τ² − 1)/s;    sparsity R.

The noise is whitened, and the form of the signal chosen, as tells positive bags best
(`estimate.py`). There is a signal if bags are told apart by directions or by classifiers that have
not seen them. Intervals are those of the jackknife over blocks of bags, in which everything is
learned anew, and for R of the likelihood.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from sparsetoken.bags.anchors import Anchor
from sparsetoken.bags.bags import Bags
from sparsetoken.bags.diagnosis import diagnosed
from sparsetoken.bags.estimate import Estimate, best_estimate
from sparsetoken.bags.findings import SURE, MatrixInterval, Pilot
from sparsetoken.bags.forecast import anchors_of, error_setting
from sparsetoken.bags.groups import read_groups, standard_error
from sparsetoken.bags.intervals import Interval, reach_of
from sparsetoken.bags.labels import two_classes
from sparsetoken.bags.likelihood import (
    NoiseDensity,
    Signal,
    fit_signal,
    refit,
)
from sparsetoken.bags.measured import largest, measured_curve, rank_evidence, rank_surplus
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.views import Split, View, levels_of
from sparsetoken.bags.whitening import Moments, Shrinking
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.checks import real, whole
from sparsetoken.support.errors import InvalidInput

_FEWEST = 8  # bags of each class


def estimate_task(
    X: Any,
    y: Any,
    *,
    mask: Any = None,
    positive: Any = None,
    groups: Any = None,
    level: float = 0.9,
    blocks: int = 10,
    measure: bool = True,
) -> Pilot:
    """Strength, sparsity, prevalence, lengths and noise of the task that labelled bags come from.

    Parameters
    ----------
    X : array (n, L, d), list of (L_i, d) arrays, or Bags
        At least eight bags of each class.
    y : array (n,)
        Two kinds of labels.
    mask : array (n, L) of truth values, optional
        Tokens that count, for an array X.
    positive : label, optional
        That of bags with a signal; the second one in order if not given.
    groups : array (n,), optional
        Bags of one group (a patient, a recording) are never on both sides of a split, intervals and
        evidence are those of independent groups, and n bags count as `Pilot.effective_bags` in what
        theory predicts: those of one group have part of what they say in common (`groups.py`).
    level : float
        Of the intervals.
    blocks : int
        Of the jackknife that gives them, at least 3.
    measure : bool
        Also measure how attention and mean pooling do on these bags, by cross-validation; then
        `Pilot.plan` sets out from what was measured. Takes twenty fits of many bags, sixty of a
        hundred.

    Returns
    -------
    Pilot
        Estimates with intervals, the evidence for a signal, the `task` for `plan`, what was
        measured, and what does not fit the model. The formulas are in the module's docstring.

    Raises
    ------
    InvalidInput
        Bags, labels or groups that cannot be read, fewer than eight bags of a class, a class in
        fewer than four groups, or a `level` or `blocks` out of bounds.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=10, sparsity=2, strength=3.0).sample(200, dim=20, rng=0)
    >>> pilot = estimate_task(sample.tokens, sample.labels, measure=False)
    >>> pilot.found, pilot.task.sparsity
    (True, 2)
    >>> pilot.strength.low < 3.0 < pilot.strength.high
    True
    """
    bags = Bags.of(X, mask, n_tokens=None)
    _, labels = two_classes(y, len(bags), "estimate_task", _FEWEST, positive)
    level = real("estimate_task", "level", level, above=0, below=1)
    blocks = whole("estimate_task", "blocks", blocks, least=3)
    numbers = None if groups is None else read_groups(groups, len(bags), "estimate_task").numbers
    data = TrainingData.of(bags, labels, np.ones(len(bags)), numbers)
    if data.fewest < _FEWEST // 2:  # in each fold and in each half there must be some
        raise InvalidInput(
            f"estimate_task: groups must be at least {_FEWEST // 2} with bags of each class, got "
            f"{data.fewest}"
        )
    with one_blas_thread():
        seen = best_estimate(data)
        others = [seen.without(data, block) for block in data.folds(blocks)]
        evidence, *gain = np.mean([_held_out(part) for part in seen.splits], axis=0).tolist()
        noise = bags[labels < 0]
        measured = measured_curve(data) if measure else ()
        evidence = max([evidence, *(point.evidence for point in largest(measured))])
        task = _task(seen, bags, labels) if evidence > SURE else None
        dim = _effective_dim(data, seen.shrinking)
        diagnosis = diagnosed(data, seen.splits[0], seen.signal, (gain[0], gain[1]))
        anchors: tuple[Anchor, ...] = ()
        if task is not None:
            anchors = anchors_of(measured, task, error_setting(dim), diagnosis, bags.dim)
        return Pilot(
            strength=_strength(seen, others, level),
            spread=_jackknifed(
                [seen.free_spread, *(other.free_spread for other in others)], level, seen.spread
            ),
            sparsity=Interval(seen.signal.count, min(seen.counts), max(seen.counts)),
            silent=_jackknifed(
                [seen.free.silent, *(other.free.silent for other in others)],
                level,
                seen.signal.silent,
                most=1.0,
            ),
            prevalence=_mean(labels > 0, numbers, level),
            length=_mean(bags.lengths, numbers, level),
            lengths=tuple(np.quantile(bags.lengths, [0, 0.25, 0.5, 0.75, 1]).tolist()),
            covariance=_covariance(noise, level, None if numbers is None else numbers[labels < 0]),
            evidence=evidence,
            recognition=seen.recognition(),
            task=task,
            diagnosis=diagnosis,
            measured=measured,
            anchors=anchors,
            bags=len(bags),
            dim=bags.dim,
            effective_dim=dim,
            level=level,
        )


def _strength(seen: Estimate, others: list[Estimate], level: float) -> Interval:
    """On the logarithmic scale, for all R that are nearly as likely."""
    logs = [float(np.log(estimate.strength)) for estimate in (seen, *others)]
    value, low, high = _jackknifed(logs, level, least=-np.inf)
    levels = seen.bags[seen.positive]
    shifts = [
        refit(levels, replace(seen.signal, count=count)).shift
        for count in seen.counts
        if count != seen.signal.count
    ]
    changes = np.log([seen.signal.shift, *shifts]) - np.log(seen.signal.shift)
    ends = np.exp([value, low + changes.min(), high + changes.max()])
    return Interval(*map(float, ends))


def _jackknifed(
    values: list[float],
    level: float,
    value: float | None = None,
    least: float = 0.0,
    most: float = np.inf,
) -> Interval:
    """The first value, or another that stands for it, with the interval that follows from those
    that leave out one block of bags each."""
    first, others = values[0], np.array(values[1:])
    count = len(others)
    error = float(np.sqrt((count - 1) * np.mean((others - others.mean()) ** 2)))
    half = float(stdtrit(count - 1, (1 + level) / 2)) * error
    value = first if value is None else value
    low, high = max(first - half, least), min(first + half, most)
    return Interval(value, min(value, low), max(value, high))


def _mean(values: Any, groups: IntArray | None, level: float) -> Interval:
    """Of one number a bag."""
    value, error = float(np.mean(values)), standard_error(values, groups)
    half = reach_of(level) * error
    return Interval(value, value - half, value + half)


def _task(seen: Estimate, bags: Bags, labels: FloatArray) -> Task:
    """With the whole numbers that are nearest."""
    length = max(1, round(float(bags.lengths.mean())))
    signal = seen.signal
    return Task(
        length,
        min(signal.count, length),
        signal.strengths(seen.cosine),
        float(np.mean(labels > 0)),
    )


def _held_out(split: Split) -> tuple[float, float, float]:
    """Evidence for a signal, in standard errors; for a sparse one over a dense one, with its
    standard error; in bags not fitted to.

    Along the other half's direction, by the signal fitted to the other half.
    """
    ranks, gains, variance = [], [], 0.0
    for own, view in enumerate(split.views):
        other = split.views[1 - own]
        noise = NoiseDensity(other.noise)
        taught = levels_of([other], noise)[other.positive]
        sparse = fit_signal(taught).signal
        dense = refit(taught, replace(sparse, count=int(other.lengths.max())))
        unseen = levels_of([view], noise)[view.positive]
        gains.append(unseen.log_likelihoods(sparse) - unseen.log_likelihoods(dense))
        surplus, more = rank_surplus(_scores(view, noise, sparse), view.positive)
        ranks.append(surplus)
        variance += more
    gain = np.concatenate(gains)
    count = len(gain)
    error = standard_error(gain, split.groups(positive=True)) * math.sqrt(count / (count - 1))
    evidence = rank_evidence(np.concatenate(ranks), variance, split.groups())
    return evidence, float(gain.mean()), error


def _scores(view: View, noise: NoiseDensity, signal: Signal) -> FloatArray:
    """Of bags (n,): each token by itself, less what noise of that length would give, else long
    bags would be told from short ones."""
    everything = levels_of([view], noise)
    share = min(signal.count / float(view.lengths.mean()), 1.0)
    with np.errstate(divide="ignore"):
        ratio = np.logaddexp(np.log1p(-share), np.log(share) + everything.log_ratios(signal))
    quiet = ratio[~view.of_positive]
    total = np.add.reduceat(ratio, everything.starts)
    spread = max(float(quiet.std()), 1e-300) * np.sqrt(view.lengths)
    return np.asarray((total - view.lengths * quiet.mean()) / spread)


def _effective_dim(data: TrainingData, shrinking: Shrinking) -> float:
    """(Σv)²/Σv² of the variances v of noise in whitened coordinates: all of them where whitening
    makes it white, fewer where shrinkage leaves small variances small."""
    moments = Moments.of(data.bags, data.weights_of(-1), data.weights)
    ((_, whitening),) = moments.whitenings([shrinking])
    root = whitening.root
    _, covariance = data.bags.load()[data.labels < 0].covariance()
    noise = root.T @ covariance @ root
    squares = float(np.sum(noise**2))
    return float(np.trace(noise) ** 2 / squares) if squares > 0 else 1.0


def _covariance(noise: Bags, level: float, groups: IntArray | None = None) -> MatrixInterval:
    """Of the tokens of negative bags; bags or groups of them, not tokens, are what was drawn."""
    mean, value = noise.covariance()
    sizes = np.sqrt(np.diag(value))  # in these units squares of squares do not overflow
    per_size = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    shape = per_size[:, None] * value * per_size
    squares = np.zeros_like(value)
    numbers = np.arange(len(noise)) if groups is None else groups
    for drawn in np.unique(numbers):
        apart = np.zeros_like(value)
        for bag in np.flatnonzero(numbers == drawn):
            rows = slice(noise.offsets[bag], noise.offsets[bag + 1])
            tokens = (np.asarray(noise.tokens[rows], dtype=float) - mean) * per_size
            apart += tokens.T @ tokens - len(tokens) * shape
        squares += apart**2
    half = reach_of(level) * np.sqrt(squares) / len(noise.tokens) * np.outer(sizes, sizes)
    return MatrixInterval(value, value - half, value + half)

r"""The best ridge of a readout: the least badness, a mean over training sets of that size.

A ridge that is best in the limit can be ruinous where the share of positives is the drawn one, so
drafts too count what training sets do: readouts around the limit's, the numbers of a rare class,
training sets of one class alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sparsetoken.model.clouds import normal_cloud
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.losses import Loss
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.planning.metrics import Metric
from sparsetoken.support.arrays import FloatArray
from sparsetoken.theory.asymptotics import solve_many
from sparsetoken.theory.fit import Fit
from sparsetoken.theory.training_sets import Readouts, class_shares, lone_classes

_WIDE = np.geomspace(1e-4, 100.0, 5)  # ridges to begin with
# Ratios of neighbouring ridges, later
_SMALL_STEPS: tuple[float, ...] = (1.5,)
_LARGE_STEPS: tuple[float, ...] = (3.0, 1.5)
_LEAST_RIDGE = 1e-5
_FLAT = 1e-9  # badnesses closer than this are all the same
_READOUTS = 16  # training sets of a draft, for each query,
_SCORED = 1 << 12  # and points a class that their badness is taken on
_FEW = 4  # samples of a class: with fewer, drafts too tell training sets apart by their number
_SHARES = 3  # numbers of them that stand for all


@dataclass(frozen=True)
class Setting:
    """What is the same for every classifier; `seed` is that of the predictions."""

    dim: int
    loss: Loss
    metric: Metric
    weighting: Weighting = SOFTMAX
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Draft:
    """One query's law twice: a small one to solve on, one to score on; and the readout's samples.

    `count` is n₁ (inf is the limit), `most_ridge` the ridge beyond which only the norm of the
    readout changes, `weight` that of the query among those that stand for all.
    """

    setting: Setting
    task: Task
    small: FeatureLaw
    law: FeatureLaw
    count: float
    most_ridge: float = 100.0
    weight: float = 1.0


def best_ridge(draft: Draft, start: float | None) -> tuple[float, float]:
    """The ridge with the least badness, and that.

    From a start downhill in small steps, or from the best of a wide grid in large steps first,
    until both neighbours are worse; then to the bottom of the parabola through the three.
    """
    ridge = rough_ridge(draft)[0] if start is None else start
    badness = math.inf
    for ratio in _LARGE_STEPS if start is None else _SMALL_STEPS:
        known: dict[float, float] = {}
        # ends: badness falls at every move, and there are few ridges between the bounds
        while True:
            near = [_allowed(draft, ridge * ratio**k) for k in (-1, 0, 1)]
            new = np.array([x for x in dict.fromkeys(near) if x not in known])
            if len(new):
                known |= zip(new.tolist(), badnesses(draft, new).tolist(), strict=True)
            if known[ridge] <= min(known[x] for x in near):
                break
            ridge = min(near, key=known.__getitem__)
        badness = float(known[ridge])
        if badness < _FLAT:  # perfect
            return ridge, badness
        baseline = draft.setting.metric.baseline(draft.task).badness
        flat = np.ptp(list(known.values())) < _FLAT
        if start is not None and flat and badness > (1 - _FLAT) * baseline:
            return ridge, badness  # nothing is learned
        if start is not None and (flat or badness > baseline):
            return best_ridge(draft, None)  # nothing to go by, or worse than knowing nothing
        left, middle, right = (known[x] for x in near)
        bend, slope = left - 2 * middle + right, 0.5 * (right - left)
        if len(set(near)) == 3 and bend > 0:
            ridge = _allowed(draft, ridge * ratio ** float(-slope / bend))
            badness -= float(0.5 * slope**2 / bend)
    return ridge, badness


def _allowed(draft: Draft, ridge: float) -> float:
    return min(max(ridge, _LEAST_RIDGE), draft.most_ridge)


def rough_ridge(draft: Draft) -> tuple[float, float]:
    """The best of a wide grid of ridges, and its badness."""
    values = badnesses(draft, _WIDE)
    best = int(np.argmin(values))
    return float(_WIDE[best]), float(values[best])


def badnesses(draft: Draft, ridges: FloatArray) -> FloatArray:
    """The badness with each ridge: the mean over training sets.

    A metric that does not mind the threshold, which is what a finite training set gets wrong, is
    that of the limit, given the query, for the training sets with both classes.
    """
    metric, task = draft.setting.metric, draft.task
    values = np.zeros(len(ridges))
    if math.isinf(draft.count) or not metric.own_threshold:
        fits = _solve(draft, draft.small, ridges)
        values += [metric.badness_of(draft.law.scores(fit.readout)) for fit in fits]
    else:
        for weight, share in class_shares(task, draft.count, _SHARES, _FEW):
            small = draft.small if share is None else draft.small.with_prevalence(share)
            fits = _solve(draft, small, ridges)
            values += [weight * _mean_badness(draft, fit, share is not None) for fit in fits]
    for chance, scores in lone_classes(task, draft.count):
        values += chance * (metric.badness_of(scores) - values)
    return values


def _solve(draft: Draft, law: FeatureLaw, ridges: FloatArray) -> list[Fit]:
    samples = draft.count / (draft.setting.dim * law.features_per_dim - law.means.shape[1])
    return solve_many(law, draft.setting.loss, ridges, samples)


def _mean_badness(draft: Draft, fit: Fit, within_classes: bool) -> float:
    """Over training sets that share a query, with the fit's share of positives or any."""
    law = draft.law.head(_SCORED) if draft.law.sampled else draft.law
    covariances = 1 if law.scales.ndim == 1 else law.scales.shape[1]
    normals = _normals(law.means.shape[1] + 1 + covariances)
    readouts = Readouts.around(None, law, fit, draft.count, normals, within_classes)
    return draft.setting.metric.mean_badness(readouts, law)


@lru_cache(maxsize=64)
def _normals(width: int) -> FloatArray:
    return normal_cloud(width, 0, max(_READOUTS, 1 << (4 * width - 1).bit_length()))

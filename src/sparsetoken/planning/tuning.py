r"""The best a classifier does with n samples in d dimensions: ridge, split, steps, sharpness tuned.

What is tuned is the mean over training sets of that size (`theory/finite_size.py`), not the limit:
a ridge or a step that is best in the limit can be ruinous where the share of positives is the drawn
one. Linear classifiers have one knob, the ridge. Attention has the share of samples that teach the
query, the steps, the sharpness τ and the ridge. Steps act through the query alone: a small readout
step and the right bias step give the highest mean cosine, the query step then gives any τ. What is
left is a search over (share, τ), each with its own best ridge, on draft laws whose noise is the
same everywhere, with a few queries that stand for all: the optimum is found on a smooth surface.
What is reported comes from `predict(…, dim=d)` there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.clouds import normal_cloud
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.losses import Loss, Square
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.planning.metrics import Goal
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory.asymptotics import Fit, solve_many
from sparsetoken.theory.finite_size import FinitePrediction
from sparsetoken.theory.training_sets import Readouts, class_shares, lone_classes

_WIDE = np.geomspace(1e-4, 100.0, 5)  # ridges to begin with
# Ratios of neighbouring ridges, later
_SMALL_STEPS: tuple[float, ...] = (1.5,)
_LARGE_STEPS: tuple[float, ...] = (3.0, 1.5)
_LEAST_RIDGE = 1e-5
_ALIKE = 4.0  # ratio of ridges and of samples of problems that begin with one another
_FLAT = 1e-9  # badnesses closer than this are all the same
_READOUTS = 16  # training sets of a draft, for each query,
_SCORED = 1 << 12  # and points a class that their test errors are taken on
_FEW = 4  # samples of a class: with fewer, drafts too tell training sets apart by their number
_SHARES = 3  # numbers of them that stand for all
FAR, NEAR = 0.5, 0.2  # in log sharpness and the logit of the share


class Knobs(NamedTuple):
    """What is tuned; share and sharpness are attention's."""

    ridge: float
    share: float = 0.0
    sharpness: float = 0.0


@dataclass
class Work:
    """How much was computed: solves of the asymptotic equations, laws built."""

    solves: int = 0
    laws: int = 0


@dataclass(frozen=True)
class Asked:
    """What is the same for every classifier."""

    dim: int
    loss: Loss
    goal: Goal
    work: Work = field(default_factory=Work)
    weighting: Weighting = SOFTMAX
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Draft:
    """One query's law twice: a small one to solve on, one to score on; and the readout's samples.

    `count` is n₁ (inf is the limit), `weight` that of the query among those that stand for all.
    """

    task: Task
    small: FeatureLaw
    law: FeatureLaw
    count: float
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Tuned:
    """A classifier at its best: how to train it, and what to expect."""

    classifier: Classifier
    protocol: Protocol
    query_count: int
    readout_count: int
    knobs: Knobs
    prediction: FinitePrediction
    value: Estimate  # of the goal: its mean over training sets,
    spread: Estimate  # and its standard deviation between them


class Tuner(ABC):
    """One kind of classifier and its knobs."""

    most_ridge = 100.0  # beyond, only the norm of the readout changes

    def __init__(self, name: str, asked: Asked) -> None:
        self.name, self.asked = name, asked
        self._last: Fit | None = None

    @abstractmethod
    def search(
        self,
        task: Task,
        n: float,
        start: Knobs | None = None,
        radius: float = 0.3,
        least: float = NEAR,
    ) -> Knobs:
        """The best knobs for n samples, from a start about so near or from nothing.

        `least` says how fine the search ends, both in the units of `descend`.
        """

    @abstractmethod
    def draft(self, task: Task, n: float, knobs: Knobs) -> tuple[float, Knobs]:
        """The badness of the goal at these knobs but the best ridge near theirs; those knobs."""

    @abstractmethod
    def train(self, task: Task, n: int, knobs: Knobs) -> Tuned:
        """The classifier with whole numbers of samples: what `predict` says of it at this size."""

    @abstractmethod
    def limit(self, task: Task) -> float:
        """The goal's value with infinitely many samples, everything tuned."""

    @abstractmethod
    def glance(self, task: Task, n: float) -> float:
        """The badness of the goal at middling knobs: whether anything is learned."""

    def best(self, task: Task, n: int) -> Tuned:
        """Search, then train."""
        return self.train(task, n, self.search(task, n))

    def best_ridge(self, draft: Draft, start: float | None) -> tuple[float, float]:
        """The ridge with the least badness, and that.

        From a start downhill in small steps, or from the best of a wide grid in large steps first,
        until both neighbours are worse; then to the bottom of the parabola through the three.
        """
        ridge, bad, ratios = start, math.inf, _SMALL_STEPS
        if ridge is None:
            ridge, _ = self.rough_ridge(draft)
            ratios = _LARGE_STEPS
        for ratio in ratios:
            known: dict[float, float] = {}
            # ends: badness falls at every move, and there are few ridges between the bounds
            while True:
                near = [self._allowed(ridge * ratio**k) for k in (-1, 0, 1)]
                new = np.array([each for each in dict.fromkeys(near) if each not in known])
                if len(new):
                    bad_there = self.badnesses(draft, new)
                    known |= zip(new.tolist(), bad_there.tolist(), strict=True)
                if known[ridge] <= min(known[each] for each in near):
                    break
                ridge = min(near, key=lambda each: known[each])
            bad = float(known[ridge])
            if bad < _FLAT:  # perfect
                return ridge, bad
            if start is not None and np.ptp(list(known.values())) < _FLAT:
                if bad > (1 - _FLAT) * self.asked.goal.hopeless(draft.task):
                    return ridge, bad  # nothing is learned
                return self.best_ridge(draft, None)  # nothing to go by
            left, middle, right = (known[each] for each in near)
            bend, slope = left - 2 * middle + right, 0.5 * (right - left)
            if len(set(near)) == 3 and bend > 0:
                ridge = self._allowed(ridge * ratio ** float(-slope / bend))
                bad -= float(0.5 * slope**2 / bend)
        return ridge, bad

    def _allowed(self, ridge: float) -> float:
        return min(max(ridge, _LEAST_RIDGE), self.most_ridge)

    def rough_ridge(self, draft: Draft) -> tuple[float, float]:
        """The best of a wide grid of ridges, and its badness."""
        bad = self.badnesses(draft, _WIDE)
        best = int(np.argmin(bad))
        return float(_WIDE[best]), float(bad[best])

    def badnesses(self, draft: Draft, ridges: FloatArray) -> FloatArray:
        """The badness of the goal with each ridge: the mean over training sets.

        Goals other than the error do not mind the threshold, which is what a finite training set
        gets wrong: for them the limit, given the query, stands for the training sets with both
        classes.
        """
        if self.asked.goal.name != "error" or math.isinf(draft.count):
            fits = self._solve(draft.small, draft, ridges)
            bad = np.array([self.asked.goal.badness(draft.law.scores(fit.readout)) for fit in fits])
        else:
            bad = np.zeros(len(ridges))
            for weight, share in class_shares(draft.task, draft.count, _SHARES, _FEW):
                small = draft.small if share is None else draft.small.with_prevalence(share)
                fits = self._solve(small, draft, ridges)
                drawn = share is not None
                bad += [weight * self._mean_error(draft, fit, drawn) for fit in fits]
        for chance, scores in lone_classes(draft.task, draft.count):
            bad += chance * (self.asked.goal.badness(scores) - bad)
        self._last = fits[int(np.argmin(bad))]
        return bad

    def _mean_error(self, draft: Draft, fit: Fit, within_classes: bool) -> float:
        """The mean test error over training sets that share a query."""
        law = draft.law.head(_SCORED) if draft.law.sampled else draft.law
        normals = _normals(len(law.noisy) + 2)
        return Readouts.around(
            None, law, fit, draft.count, normals, within_classes
        ).mean_test_error(law)

    def _solve(self, law: FeatureLaw, draft: Draft, ridges: FloatArray) -> list[Fit]:
        """From the last fit, if that was of a similar problem."""
        samples = draft.count / (self.asked.dim * law.features_per_dim - len(law.noisy))
        self.asked.work.solves += len(ridges)
        near, loss = self._last, self.asked.loss
        if near is None or isinstance(loss, Square) or near.weights.shape != law.noisy.shape:
            return solve_many(law, loss, ridges, samples)
        ratios = [near.ridge / ridge for ridge in ridges] + [near.samples_per_dim / samples]
        alike = all(1 / _ALIKE < ratio < _ALIKE for ratio in ratios)  # not with nan: inf/inf
        return solve_many(law, loss, ridges, samples, near if alike else None)


@lru_cache(maxsize=64)
def _normals(width: int) -> FloatArray:
    return normal_cloud(width, 0, max(_READOUTS, 1 << (4 * width - 1).bit_length()))

r"""The best a classifier does with n samples: ridge, split, steps and sharpness tuned.

Linear classifiers have one knob, the ridge. Attention has the share of samples that teach the
query, the steps, the sharpness τ and the ridge. Steps act through the query alone: a small readout
step and the right bias step give the highest cosine s, the query step then gives any τ. What is
left is a search over (share, τ), each with its own best s and best ridge, on draft laws whose noise
is the same everywhere: the optimum is found on a smooth surface. What is reported comes from the
full law there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from sparsetoken.model.attention import attention_law
from sparsetoken.model.classifiers import Attention, Classifier, Query
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.losses import Loss, Square
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.scores import Scores
from sparsetoken.model.task import FloatArray, Task
from sparsetoken.practice.descent import descend
from sparsetoken.practice.goals import Goal
from sparsetoken.theory.alignment import Steps, align, best_steps
from sparsetoken.theory.asymptotics import Fit, solve_many

_WIDE = np.geomspace(1e-4, 100.0, 5)  # ridges to begin with
# Ratios of neighbouring ridges, later
_SMALL_STEPS: tuple[float, ...] = (1.5,)
_LARGE_STEPS: tuple[float, ...] = (3.0, 1.5)
_LEAST_RIDGE = 1e-5
_ALIKE = 4.0  # ratio of ridges and of samples of problems that begin with one another
_FLAT = 1e-9  # badnesses closer than this are all the same
_LIMIT_RIDGES = np.array([1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3])  # with n = ∞ it moves the threshold
_LIMIT_SHARPNESSES = (0.1, 0.4, 1.2, 3.5, 10.0, 40.0)
FAR, NEAR = 0.5, 0.2  # in log sharpness and the logit of the share
_SHARES = (0.01, 0.99)
_SHARPNESSES = (1e-3, 50.0)
# Drafts: points of a class to score on (fewer where tokens are many), to compress and solve on
_SCORED, _SOLVED, _FEWEST, _DRAFT_NUMBERS = 1 << 13, 1 << 11, 1 << 8, 1 << 19
_DEGREE, _SLICES = 3, 4


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


@dataclass(frozen=True, eq=False)
class Tuned:
    """A classifier at its best: how to train it, and what to expect."""

    classifier: Classifier
    protocol: Protocol
    query: Query | None
    query_count: int
    readout_count: int
    knobs: Knobs
    value: float  # of the goal
    scores: Scores


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
        """The classifier with whole numbers of samples, on the full law, at the best ridge."""

    @abstractmethod
    def limit(self, task: Task) -> float:
        """The goal's value with infinitely many samples, everything tuned."""

    @abstractmethod
    def glance(self, task: Task, n: float) -> float:
        """The badness of the goal at middling knobs: whether anything is learned."""

    def best(self, task: Task, n: int) -> Tuned:
        """Search, then train."""
        return self.train(task, n, self.search(task, n))

    def best_ridge(
        self, law: FeatureLaw, samples: float, start: float | None, judge: FeatureLaw | None = None
    ) -> tuple[float, float]:
        """The ridge with the least badness, and that; solved on `law`, scored on `judge`.

        From a start downhill in small steps, or from the best of a wide grid in large steps first,
        until both neighbours are worse; then to the bottom of the parabola through the three.
        """
        judge = law if judge is None else judge
        ridge, bad, ratios = start, math.inf, _SMALL_STEPS
        if ridge is None:
            ridge, _ = self.rough_ridge(law, samples, judge)
            ratios = _LARGE_STEPS
        for ratio in ratios:
            known: dict[float, float] = {}
            while True:
                near = [self._allowed(ridge * ratio**k) for k in (-1, 0, 1)]
                new = np.array([each for each in dict.fromkeys(near) if each not in known])
                if len(new):
                    bad_there = self._badnesses(law, samples, new, judge)
                    known |= zip(new.tolist(), bad_there.tolist(), strict=True)
                if known[ridge] <= min(known[each] for each in near):
                    break
                ridge = min(near, key=lambda each: known[each])
            bad = float(known[ridge])
            if bad < _FLAT:  # perfect
                return ridge, bad
            if start is not None and np.ptp(list(known.values())) < _FLAT:
                return self.best_ridge(law, samples, None, judge)  # nothing to go by
            left, middle, right = (known[each] for each in near)
            bend, slope = left - 2 * middle + right, 0.5 * (right - left)
            if len(set(near)) == 3 and bend > 0:
                ridge = self._allowed(ridge * ratio ** float(-slope / bend))
                bad -= float(0.5 * slope**2 / bend)
        return ridge, bad

    def _allowed(self, ridge: float) -> float:
        return min(max(ridge, _LEAST_RIDGE), self.most_ridge)

    def rough_ridge(
        self, law: FeatureLaw, samples: float, judge: FeatureLaw
    ) -> tuple[float, float]:
        """The best of a wide grid of ridges, and its badness."""
        bad = self._badnesses(law, samples, _WIDE, judge)
        best = int(np.argmin(bad))
        return float(_WIDE[best]), float(bad[best])

    def _badnesses(
        self, law: FeatureLaw, samples: float, ridges: FloatArray, judge: FeatureLaw
    ) -> FloatArray:
        fits = self._solve(law, samples, ridges)
        bad = np.array([self.asked.goal.badness(judge.scores(fit.readout)) for fit in fits])
        self._last = fits[int(np.argmin(bad))]
        return bad

    def _solve(self, law: FeatureLaw, samples: float, ridges: FloatArray) -> list[Fit]:
        """From the last fit, if that was of a similar problem."""
        self.asked.work.solves += len(ridges)
        near, loss = self._last, self.asked.loss
        if near is None or isinstance(loss, Square) or near.weights.shape != law.noisy.shape:
            return solve_many(law, loss, ridges, samples)
        ratios = [near.ridge / ridge for ridge in ridges] + [near.samples_per_dim / samples]
        alike = all(1 / _ALIKE < ratio < _ALIKE for ratio in ratios)  # not with nan: inf/inf
        return solve_many(law, loss, ridges, samples, near if alike else None)


class LinearTuner(Tuner):
    """Pooled or Vectorized: all samples teach the readout."""

    most_ridge = 1000.0  # `Vectorized` has L features for each dimension to hold down

    def __init__(self, name: str, asked: Asked, classifier: Classifier) -> None:
        super().__init__(name, asked)
        self.classifier = classifier

    def _law(self, task: Task) -> FeatureLaw:
        self.asked.work.laws += 1
        return self.classifier.law(task)

    def search(
        self,
        task: Task,
        n: float,
        start: Knobs | None = None,
        radius: float = 0.3,
        least: float = NEAR,
    ) -> Knobs:
        law = self._law(task)  # a wide search takes milliseconds: no start is needed
        return Knobs(self.best_ridge(law, self._per_feature(law, n), None)[0])

    def draft(self, task: Task, n: float, knobs: Knobs) -> tuple[float, Knobs]:
        law = self._law(task)
        ridge, bad = self.best_ridge(law, self._per_feature(law, n), knobs.ridge)
        return bad, Knobs(ridge)

    def glance(self, task: Task, n: float) -> float:
        law = self._law(task)
        return self.best_ridge(law, self._per_feature(law, n), None)[1]

    def train(self, task: Task, n: int, knobs: Knobs) -> Tuned:
        law = self._law(task)
        ridge, _ = self.best_ridge(law, self._per_feature(law, n), knobs.ridge)
        (fit,) = self._solve(law, self._per_feature(law, n), np.array([ridge]))
        protocol = Protocol(readout_samples=n / self.asked.dim, loss=self.asked.loss, ridge=ridge)
        value = self.asked.goal.value(fit.scores)
        return Tuned(self.classifier, protocol, None, 0, n, Knobs(ridge), value, fit.scores)

    def limit(self, task: Task) -> float:
        goal = self.asked.goal
        return goal.of_badness(self.best_ridge(self._law(task), math.inf, None)[1])

    def _per_feature(self, law: FeatureLaw, n: float) -> float:
        return n / self.asked.dim / law.features_per_dim


class AttentionTuner(Tuner):
    """Attention: some samples teach the query, the others the readout."""

    def __init__(self, asked: Asked) -> None:
        super().__init__("attention", asked)
        self._steps: dict[tuple[Task, float], Steps] = {}

    def steps(self, task: Task, query_samples: float) -> Steps:
        """The best steps for so many samples; kept."""
        key = (task, query_samples)
        if key not in self._steps:
            self._steps[key] = best_steps(task, self.asked.loss, query_samples)
        return self._steps[key]

    def search(
        self,
        task: Task,
        n: float,
        start: Knobs | None = None,
        radius: float = 0.3,
        least: float = NEAR,
    ) -> Knobs:
        trials: list[tuple[float, float]] = []
        if start is None:
            radius = FAR
            trials = [(share, tau) for share in (0.2, 0.5) for tau in (0.3, 1.0, 3.0, 8.0)]
        elif radius > NEAR:  # valleys are long in sharpness: look along this one
            trials = [(start.share, start.sharpness * ratio) for ratio in (0.25, 0.5, 1.0, 2.0)]
        if trials:
            start = min(self._rough(task, n, *trial) for trial in trials)[1]
        assert start is not None
        best = (math.inf, start)

        def objective(x: FloatArray) -> float:
            nonlocal best
            found = self.draft(task, n, Knobs(best[1].ridge, *_inside(x)))
            best = min(best, found)
            return found[0]

        descend(objective, _outside(start.share, start.sharpness), radius, least)
        return best[1]

    def draft(self, task: Task, n: float, knobs: Knobs) -> tuple[float, Knobs]:
        small, cloud, samples = self._draft_law(task, n, knobs.share, knobs.sharpness)
        ridge, bad = self.best_ridge(small, samples, knobs.ridge, cloud)
        return bad, knobs._replace(ridge=ridge)

    def glance(self, task: Task, n: float) -> float:
        return self._rough(task, n, 0.3, 2.0)[0]

    def _rough(self, task: Task, n: float, share: float, sharpness: float) -> tuple[float, Knobs]:
        small, cloud, samples = self._draft_law(task, n, share, sharpness)
        ridge, bad = self.rough_ridge(small, samples, cloud)
        return bad, Knobs(ridge, share, sharpness)

    def _draft_law(
        self, task: Task, n: float, share: float, sharpness: float
    ) -> tuple[FeatureLaw, FeatureLaw, float]:
        """A law of a hundred atoms to solve on, a cloud to score on, samples per dimension."""
        per_dim = n / self.asked.dim
        cosine = self.steps(task, share * per_dim).cosine
        return *self._draft(task, cosine, sharpness), (1 - share) * per_dim

    def _draft(self, task: Task, cosine: float, sharpness: float) -> tuple[FeatureLaw, FeatureLaw]:
        self.asked.work.laws += 1
        points = 1 << (_DRAFT_NUMBERS // task.length).bit_length() - 1
        points = min(max(points, _FEWEST), _SCORED)
        cloud = attention_law(replace(task, places=None), cosine, sharpness, points=points)
        return cloud.head(min(points, _SOLVED)).smaller(_DEGREE, _SLICES), cloud

    def train(self, task: Task, n: int, knobs: Knobs) -> Tuned:
        dim, loss = self.asked.dim, self.asked.loss
        query_count = min(max(round(knobs.share * n), 1), n - 2)
        per_dim = query_count / dim, (n - query_count) / dim
        steps = self.steps(task, per_dim[0])
        protocol = Protocol(
            *per_dim, loss, 1.0, readout_step=steps.readout, bias_step=steps.bias, query_step=1.0
        )
        scale = align(task, protocol).sharpness
        if scale > 0:  # else there is nothing to attend to
            protocol = replace(protocol, query_step=min(knobs.sharpness / scale, 1e9))
        query = align(task, protocol)
        law = Attention().law(task, query)
        self.asked.work.laws += 1
        ridge, _ = self.best_ridge(law.compressed, per_dim[1], knobs.ridge, law)
        (fit,) = self._solve(law, per_dim[1], np.array([ridge]))
        return Tuned(
            Attention(), replace(protocol, ridge=ridge), query, query_count, n - query_count,
            knobs._replace(ridge=ridge), self.asked.goal.value(fit.scores), fit.scores,
        )  # fmt: skip

    def limit(self, task: Task) -> float:
        """Cosine 1, the best sharpness."""

        def objective(x: float) -> float:
            small, cloud = self._draft(task, 1.0, math.exp(x))
            return float(self._badnesses(small, math.inf, _LIMIT_RIDGES[:1], cloud)[0])

        grid = np.log(_LIMIT_SHARPNESSES)
        values = np.array([objective(x) for x in grid])
        at = min(max(int(np.argmin(values)), 1), len(grid) - 2)
        curve = np.polyfit(grid[at - 1 : at + 2], values[at - 1 : at + 2], 2)
        best = -curve[1] / (2 * curve[0]) if curve[0] > 0 else grid[np.argmin(values)]
        best = float(np.clip(best, grid[0], grid[-1]))
        law = Attention(1.0, math.exp(best)).law(task)
        self.asked.work.laws += 1
        bad = self._badnesses(law.compressed, math.inf, _LIMIT_RIDGES, law)
        return self.asked.goal.of_badness(float(bad.min()))


def _inside(x: FloatArray) -> tuple[float, float]:
    """(share, sharpness) from unbounded numbers."""
    low, high = _SHARES
    share = low + (high - low) / (1 + math.exp(-float(np.clip(x[0], -30, 30))))
    return share, float(np.clip(np.exp(np.clip(x[1], -30, 30)), *_SHARPNESSES))


def _outside(share: float, sharpness: float) -> FloatArray:
    low, high = _SHARES
    inner = min(max((share - low) / (high - low), 1e-6), 1 - 1e-6)
    return np.array([math.log(inner / (1 - inner)), math.log(sharpness)])

"""The kinds of classifiers a planner tunes: linear ones and attention."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from sparsetoken.model.attention import attention_law
from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Vectorized
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import FloatArray, Task
from sparsetoken.model.weightings import SOFTMAX
from sparsetoken.practice.descent import descend
from sparsetoken.practice.tuning import FAR, NEAR, Asked, Knobs, Tuned, Tuner
from sparsetoken.theory.alignment import Steps, align, best_steps

_LIMIT_RIDGES = np.array([1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3])  # with n = ∞ it moves the threshold
_LIMIT_SHARPNESSES = (0.1, 0.4, 1.2, 3.5, 10.0, 40.0)
_SHARES = (0.01, 0.99)
_SHARPNESSES = (1e-3, 50.0)
# Drafts: points of a class to score on (fewer where tokens are many), to compress and solve on
_SCORED, _SOLVED, _FEWEST, _DRAFT_NUMBERS = 1 << 13, 1 << 11, 1 << 8, 1 << 19
_DEGREE, _SLICES = 3, 4


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
        plain = replace(task, places=None)
        cloud = attention_law(
            plain, cosine, sharpness, points=points, weighting=self.asked.weighting
        )
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
        attention = Attention(weighting=self.asked.weighting)
        law = attention.law(task, query)
        self.asked.work.laws += 1
        ridge, _ = self.best_ridge(law.compressed, per_dim[1], knobs.ridge, law)
        (fit,) = self._solve(law, per_dim[1], np.array([ridge]))
        return Tuned(
            attention, replace(protocol, ridge=ridge), query, query_count, n - query_count,
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
        if not task.is_plain or self.asked.weighting != SOFTMAX:  # the valley may be narrow
            ends = grid[at - 1], grid[at + 1]
            found = minimize_scalar(
                objective, bounds=ends, method="bounded", options={"xatol": 0.03}
            )
            best = found.x if found.fun < values.min() else grid[np.argmin(values)]
        best = float(np.clip(best, grid[0], grid[-1]))
        law = Attention(1.0, math.exp(best), self.asked.weighting).law(task)
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


def tuners(asked: Asked, task: Task) -> dict[str, Tuner]:
    """One for each classifier that has a theory for the task, by name."""
    found: dict[str, Tuner] = {"attention": AttentionTuner(asked)}
    if not task.token_correlation:
        found["vectorized"] = LinearTuner("vectorized", asked, Vectorized())
    return found | {"pooled": LinearTuner("pooled", asked, Pooled())}

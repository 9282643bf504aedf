"""The kinds of classifiers a planner tunes: linear ones and attention."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar

from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Query, Vectorized
from sparsetoken.model.clouds import normal_cloud
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX
from sparsetoken.planning.descent import descend
from sparsetoken.planning.tuning import FAR, NEAR, Asked, Draft, Knobs, Tuned, Tuner
from sparsetoken.support.arrays import FloatArray
from sparsetoken.theory.alignment import Steps, best_steps
from sparsetoken.theory.finite_size import finite_predictions
from sparsetoken.theory.query_spread import NORMALS, few_queries, spread_queries

_LIMIT_RIDGES = np.array([1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3])  # with n = ∞ it moves the threshold
_LIMIT_SHARPNESSES = (0.1, 0.4, 1.2, 3.5, 10.0, 40.0)
_SHARES = (0.01, 0.99)
_SHARPNESSES = (1e-3, 50.0)
_LARGEST_STEP = 1e9  # that a protocol takes


def _tuned(
    asked: Asked,
    task: Task,
    classifier: Classifier,
    protocol: Protocol,
    counts: tuple[int, int],
    knobs: Knobs,
) -> Tuned:
    """What `predict` says of a classifier at the size asked for."""
    (prediction,) = finite_predictions(task, classifier, [protocol], asked.dim, asked.seed)
    value, spread = prediction.test_error, prediction.spread
    if asked.goal.name != "error":
        value, spread = prediction.training_sets.average(asked.goal.value)
    return Tuned(classifier, protocol, *counts, knobs, prediction, value, spread)


class LinearTuner(Tuner):
    """Pooled or Vectorized: all samples teach the readout."""

    most_ridge = 1000.0  # `Vectorized` has L features for each dimension to hold down

    def __init__(self, name: str, asked: Asked, classifier: Classifier) -> None:
        super().__init__(name, asked)
        self.classifier = classifier

    def _draft(self, task: Task, n: float) -> Draft:
        self.asked.work.laws += 1
        law = self.classifier.law(task)
        return Draft(task, law.compressed, law, n)

    def search(
        self,
        task: Task,
        n: float,
        start: Knobs | None = None,
        radius: float = 0.3,
        least: float = NEAR,
    ) -> Knobs:
        # a wide search takes milliseconds: no start is needed
        return Knobs(self.best_ridge(self._draft(task, n), None)[0])

    def draft(self, task: Task, n: float, knobs: Knobs) -> tuple[float, Knobs]:
        ridge, bad = self.best_ridge(self._draft(task, n), knobs.ridge)
        return bad, Knobs(ridge)

    def glance(self, task: Task, n: float) -> float:
        return self.best_ridge(self._draft(task, n), None)[1]

    def train(self, task: Task, n: int, knobs: Knobs) -> Tuned:
        ridge, _ = self.best_ridge(self._draft(task, n), knobs.ridge)
        protocol = Protocol(readout_samples=n / self.asked.dim, loss=self.asked.loss, ridge=ridge)
        return _tuned(self.asked, task, self.classifier, protocol, (0, n), Knobs(ridge))

    def limit(self, task: Task) -> float:
        return self.asked.goal.of_badness(self.best_ridge(self._draft(task, math.inf), None)[1])


class AttentionTuner(Tuner):
    """Attention: some samples teach the query, the others the readout."""

    def __init__(self, asked: Asked) -> None:
        super().__init__("attention", asked)
        self.classifier = Attention(weighting=asked.weighting)
        self._steps: dict[tuple[Task, float], Steps] = {}

    def steps(self, task: Task, query_count: float) -> Steps:
        """The best steps for so many samples at this size; kept."""
        key = (task, query_count)
        if key not in self._steps:
            dim = self.asked.dim
            self._steps[key] = best_steps(task, self.asked.loss, query_count / dim, dim)
        return self._steps[key]

    def protocol(self, task: Task, counts: tuple[float, float], sharpness: float) -> Protocol:
        """With the best steps, and the query step that gives this sharpness, in the geometric
        mean over training sets."""
        steps, dim = self.steps(task, counts[0]), self.asked.dim
        protocol = Protocol(
            counts[0] / dim, counts[1] / dim, self.asked.loss,
            readout_step=steps.readout, bias_step=steps.bias, query_step=1.0,
        )  # fmt: skip
        _, natural = spread_queries(task, protocol, dim, counts[0], _normals())
        if natural.min() <= 0:  # there is nothing to attend to
            return protocol
        step = sharpness / math.exp(float(np.log(natural).mean()))
        return replace(protocol, query_step=min(max(step, 1e-300), _LARGEST_STEP))

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
        """The ridge is the best of the middle query; then a few queries stand for all."""
        drafts = self._drafts(task, n, knobs.share, knobs.sharpness)
        ridge, bad = self.best_ridge(drafts[0], knobs.ridge)
        total = drafts[0].weight * bad
        for other in drafts[1:]:
            total += other.weight * float(self.badnesses(other, np.array([ridge]))[0])
        return total, knobs._replace(ridge=ridge)

    def glance(self, task: Task, n: float) -> float:
        return self._rough(task, n, 0.3, 2.0)[0]

    def _rough(self, task: Task, n: float, share: float, sharpness: float) -> tuple[float, Knobs]:
        """At the middle query alone."""
        (draft,) = self._drafts(task, n, share, sharpness, queries=1)
        ridge, bad = self.rough_ridge(draft)
        return bad, Knobs(ridge, share, sharpness)

    def _drafts(
        self, task: Task, n: float, share: float, sharpness: float, queries: int = 3
    ) -> list[Draft]:
        """A draft for each of a few queries, the middle one first; all on the same atoms."""
        query_count = min(max(share * n, 1.0), n - 2)  # as `train` has it, but for rounding
        counts = query_count, n - query_count
        protocol = self.protocol(task, counts, sharpness)
        drawn = spread_queries(task, protocol, self.asked.dim, counts[0], _normals())
        found: list[Draft] = []
        selection = None
        for weight, cosine, tau in few_queries(*drawn, queries):
            self.asked.work.laws += 1
            tau = min(max(tau, _SHARPNESSES[0]), _SHARPNESSES[1])
            law = self.classifier.draft(task, Query(cosine * tau, tau, tau))
            if selection is None:
                selection = law.draft_selection()
            found.append(Draft(task, law.selected(*selection), law, counts[1], weight))
        return found

    def train(self, task: Task, n: int, knobs: Knobs) -> Tuned:
        query_count = min(max(round(knobs.share * n), 1), n - 2)
        counts = query_count, n - query_count
        protocol = replace(self.protocol(task, counts, knobs.sharpness), ridge=knobs.ridge)
        return _tuned(self.asked, task, self.classifier, protocol, counts, knobs)

    def limit(self, task: Task) -> float:
        """Cosine 1, the best sharpness."""

        def draft(sharpness: float) -> Draft:
            self.asked.work.laws += 1
            law = self.classifier.draft(task, Query(sharpness, sharpness, sharpness))
            return Draft(task, law.selected(*law.draft_selection()), law, math.inf)

        def objective(x: float) -> float:
            return float(self.badnesses(draft(math.exp(x)), _LIMIT_RIDGES[:1])[0])

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
        bad = self.badnesses(Draft(task, law.compressed, law, math.inf), _LIMIT_RIDGES)
        return self.asked.goal.of_badness(float(bad.min()))


@lru_cache(maxsize=1)
def _normals() -> FloatArray:
    return normal_cloud(NORMALS, 1, 128)


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

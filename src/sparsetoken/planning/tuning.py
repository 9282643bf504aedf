r"""The best a classifier does with n samples in d dimensions: ridge, split, steps, sharpness tuned.

What is tuned is the mean over training sets of that size (`theory/finite_size.py`), not the limit:
a ridge or a step that is best in the limit can be ruinous where the share of positives is the drawn
one. Linear classifiers have one knob, the ridge. Attention has the share of samples that teach the
query, the steps, the sharpness τ and the ridge. Steps act through the query alone: a small readout
step and the right bias step give the highest mean cosine, the query step then gives any τ. What is
left is a search over (share, τ), each with its own best ridge, on draft laws whose noise is the
same everywhere, with a few queries that stand for all: the optimum is found on a smooth surface.
What is reported comes from `predict(…, dim=d)` there.

Where noise is not white, or the signal is a cloud, drafts have one query, that of the limit, and
steps are those of the white task that is as hard for whoever knows the noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from sparsetoken.model.classifiers import AnyQuery, Classifier, Query
from sparsetoken.model.clouds import normal_cloud
from sparsetoken.model.coloured import ShapedQuery, noise_score
from sparsetoken.model.covariances import White
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.preprocessing import whitened
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.oracles.whitening import whitened_length
from sparsetoken.planning.ridges import Draft, Setting, badnesses, best_ridge, rough_ridge
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory.alignment import Steps, align, best_steps
from sparsetoken.theory.asymptotics import solve_many
from sparsetoken.theory.finite_size import (
    FinitePrediction,
    beside_directions,
    finite_predictions,
)
from sparsetoken.theory.query_spread import NORMALS, few_queries, spread_queries

_LIMIT_RIDGES = np.array([1e-5, 0.3])  # the least and the most, with infinitely many samples
_LIMIT_SHARPNESSES = (0.1, 0.4, 1.2, 3.5, 10.0, 40.0)
_LIMIT_STEPS = 5  # of the search between them: with these a length of 200 takes half a second
_SHARES = (0.01, 0.99)
_SHARPNESSES = (1e-3, 50.0)
_LARGEST_STEP = 1e9  # that a protocol takes
_ENDLESS = 1e6  # samples per dimension that teach a query of the limit
_MOST_RIDGE = 1000.0  # `Vectorized` has L features a dimension to hold down
# Radii of a search, in log sharpness and the logit of the share: from nothing, along the valley of
# a start, near it.
FAR, ALONG, NEAR = 0.5, 0.3, 0.2
# The radius at which a search ends. On twelve random questions 0.05 took 15 trials and ended within
# 1 % of the least badness; 0.1 took 12 and was once far from it (the valley of a badness of 1e-6 is
# narrow), 0.02 took 17 and gained nothing.
_FINE = 0.05


class Reach(NamedTuple):
    """The radii at which a search begins and ends."""

    first: float = ALONG
    last: float = _FINE


_WHOLE = Reach()


class Knobs(NamedTuple):
    """What is tuned; share and sharpness are attention's, shrinkage is that of whitening."""

    ridge: float
    share: float = 0.0
    sharpness: float = 0.0
    shrinkage: float | None = None  # None where noise is white as it is


class Trial(NamedTuple):
    """Knobs, and the badness that a draft has with them."""

    badness: float
    knobs: Knobs


@dataclass(frozen=True, eq=False)
class Tuned:
    """A classifier at its best: how to train it, and what to expect."""

    classifier: Classifier
    protocol: Protocol
    query_count: int
    readout_count: int
    knobs: Knobs
    prediction: FinitePrediction
    value: Estimate  # of the metric: its mean over training sets,
    spread: Estimate  # and its standard deviation between them

    @property
    def count(self) -> int:
        """Samples in all."""
        return self.query_count + self.readout_count

    def met(self, task: Task) -> Task:
        """The task of tokens as the classifier meets them: whitened, where that was tuned."""
        return task if self.knobs.shrinkage is None else whitened(task, self.knobs.shrinkage)


@dataclass(frozen=True)
class Tuner(ABC):
    """A classifier, by the name it is known by, and its knobs."""

    setting: Setting
    name: str
    classifier: Classifier

    @abstractmethod
    def search(
        self, task: Task, n: float, start: Knobs | None = None, reach: Reach = _WHOLE
    ) -> Knobs:
        """The best knobs for n samples, from a start about so near or from nothing."""

    @abstractmethod
    def draft(self, task: Task, n: float, knobs: Knobs) -> Trial:
        """The badness at these knobs but the best ridge near theirs."""

    @abstractmethod
    def rough(self, task: Task, n: float) -> float:
        """The badness at middling knobs: whether anything is learned."""

    @abstractmethod
    def predict(self, task: Task, n: int, knobs: Knobs) -> Tuned:
        """The classifier with whole numbers of samples: what `predict` says of it at this size."""

    @abstractmethod
    def limit(self, task: Task) -> float:
        """The metric's value with infinitely many samples, everything tuned."""

    def best(self, task: Task, n: int) -> Tuned:
        """Search, then predict."""
        return self.predict(task, n, self.search(task, n))

    def _predicted(
        self, task: Task, protocol: Protocol, counts: tuple[int, int], knobs: Knobs
    ) -> Tuned:
        setting = self.setting
        (prediction,) = finite_predictions(
            task, self.classifier, [protocol], setting.dim, setting.seed
        )
        average = setting.metric.average(prediction)
        return Tuned(self.classifier, protocol, *counts, knobs, prediction, *average)


class ReadoutTuner(Tuner):
    """A classifier without a query to learn: all samples teach the readout."""

    def search(
        self, task: Task, n: float, start: Knobs | None = None, reach: Reach = _WHOLE
    ) -> Knobs:
        return self.draft(task, n).knobs  # it takes milliseconds: no start is needed

    def draft(self, task: Task, n: float, knobs: Knobs | None = None) -> Trial:
        law = self.classifier.law(task)
        small = (
            law.compressed if math.isinf(n) else beside_directions(law.compressed, self.setting.dim)
        )
        draft = Draft(self.setting, task, small, law, n, _MOST_RIDGE)
        ridge, badness = best_ridge(draft, None if knobs is None else knobs.ridge)
        return Trial(badness, Knobs(ridge))

    def rough(self, task: Task, n: float) -> float:
        return self.draft(task, n).badness

    def predict(self, task: Task, n: int, knobs: Knobs) -> Tuned:
        knobs = self.draft(task, n, knobs).knobs
        protocol = Protocol(
            readout_samples=n / self.setting.dim, loss=self.setting.loss, ridge=knobs.ridge
        )
        return self._predicted(task, protocol, (0, n), knobs)

    def limit(self, task: Task) -> float:
        return self.setting.metric.badness(self.rough(task, math.inf))


@dataclass(frozen=True)
class QueryTuner(Tuner):
    """A classifier that learns a query: some samples teach it, the others the readout."""

    _steps: dict[tuple[Task, float], Steps] = field(default_factory=dict, repr=False)

    def steps(self, task: Task, query_count: float) -> Steps:
        """The best steps for so many samples at this size; kept, they take as long as a draft."""
        key = (task, query_count)
        if key not in self._steps:
            dim = self.setting.dim
            self._steps[key] = best_steps(_alike(task), self.setting.loss, query_count / dim, dim)
        return self._steps[key]

    def protocol(self, task: Task, counts: tuple[float, float], sharpness: float) -> Protocol:
        """With the best steps, and the query step that gives this sharpness, in the geometric
        mean over training sets; in units of the scores of noise tokens."""
        steps, dim = self.steps(task, counts[0]), self.setting.dim
        protocol = Protocol(
            counts[0] / dim, counts[1] / dim, self.setting.loss,
            readout_step=steps.readout, bias_step=steps.bias, query_step=1.0,
        )  # fmt: skip
        if task.is_white:
            _, natural = spread_queries(task, protocol, dim, counts[0], _normals())
        else:
            natural = np.array([_sharpness(task, align(task, protocol))])
        if natural.min() <= 0:  # there is nothing to attend to
            return protocol
        step = sharpness / math.exp(float(np.log(natural).mean()))
        return replace(protocol, query_step=min(max(step, 1e-300), _LARGEST_STEP))

    def search(
        self, task: Task, n: float, start: Knobs | None = None, reach: Reach = _WHOLE
    ) -> Knobs:
        places: list[tuple[float, float]] = []
        if start is None:
            reach = reach._replace(first=FAR)
            places = [(share, tau) for share in (0.2, 0.5) for tau in (0.3, 1.0, 3.0, 8.0)]
        elif reach.first > NEAR:  # valleys are long in sharpness: look along this one
            places = [(start.share, start.sharpness * ratio) for ratio in (0.25, 0.5, 1.0, 2.0)]
        if places:
            start = min(self._rough(task, n, *place) for place in places).knobs
        assert start is not None
        trials = [Trial(math.inf, start)]

        def badness(x: FloatArray) -> float:
            ridge = min(trials).knobs.ridge  # where the search for this one's begins
            trials.append(self.draft(task, n, Knobs(ridge, *_inside(x))))
            return trials[-1].badness

        minimize(
            badness, _outside(start.share, start.sharpness), method="COBYQA",
            options={"initial_tr_radius": reach.first, "final_tr_radius": reach.last},
        )  # fmt: skip
        return min(trials).knobs

    def draft(self, task: Task, n: float, knobs: Knobs) -> Trial:
        """The ridge is the best of the middle query; then a few queries stand for all."""
        middle, *others = self._drafts(task, n, knobs.share, knobs.sharpness, queries=3)
        ridge, badness = best_ridge(middle, knobs.ridge)
        total = middle.weight * badness
        for other in others:
            total += other.weight * float(badnesses(other, np.array([ridge]))[0])
        return Trial(total, knobs._replace(ridge=ridge))

    def rough(self, task: Task, n: float) -> float:
        return self._rough(task, n, 0.3, 2.0).badness

    def _rough(self, task: Task, n: float, share: float, sharpness: float) -> Trial:
        """At the middle query alone."""
        (draft,) = self._drafts(task, n, share, sharpness, queries=1)
        ridge, badness = rough_ridge(draft)
        return Trial(badness, Knobs(ridge, share, sharpness))

    def _drafts(
        self, task: Task, n: float, share: float, sharpness: float, queries: int
    ) -> list[Draft]:
        """A draft for each of a few queries, the middle one first; all on the same atoms."""
        query_count = self.query_count(n, share)
        counts = query_count, self.readout_count(n, query_count)
        protocol = self.protocol(task, counts, sharpness)
        if not task.is_white:
            law = self.classifier.draft(task, align(task, protocol))
            small = beside_directions(law.selected(*law.draft_selection()), self.setting.dim)
            return [Draft(self.setting, task, small, law, counts[1])]
        drawn = spread_queries(task, protocol, self.setting.dim, counts[0], _normals())
        nodes = [
            (weight, cosine, min(max(tau, _SHARPNESSES[0]), _SHARPNESSES[1]))
            for weight, cosine, tau in few_queries(*drawn, queries)
        ]
        laws = [self.classifier.draft(task, Query(s * tau, tau, tau)) for _, s, tau in nodes]
        selection = laws[0].draft_selection()
        return [
            Draft(self.setting, task, law.selected(*selection), law, counts[1], weight=weight)
            for law, (weight, _, _) in zip(laws, nodes, strict=True)
        ]

    def predict(self, task: Task, n: int, knobs: Knobs) -> Tuned:
        query_count = round(self.query_count(n, knobs.share))
        counts = query_count, round(self.readout_count(n, query_count))
        protocol = replace(self.protocol(task, counts, knobs.sharpness), ridge=knobs.ridge)
        return self._predicted(task, protocol, counts, knobs)

    def query_count(self, n: float, share: float) -> float:
        """Samples that teach the query."""
        return min(max(share * n, 1.0), n - 2)

    def readout_count(self, n: float, query_count: float) -> float:
        """Samples that teach the readout."""
        return n - query_count

    def limit(self, task: Task) -> float:
        """Cosine 1, or what endless samples teach where noise is not white; the best sharpness, the
        best ridge.

        Only the signal's direction tells the classes apart: a ridge moves the threshold and nothing
        else, and every threshold between those of two ridges is that of a third.
        """
        metric, loss = self.setting.metric, self.setting.loss
        endless = Protocol(_ENDLESS, 1.0, loss, readout_step=1e-2)
        taught = None if task.is_white else align(task, endless)

        def query(tau: float) -> AnyQuery:
            if taught is None:
                return Query(tau, tau, tau)
            assert isinstance(taught, ShapedQuery)
            unit = max(_sharpness(task, taught), 1e-300)
            return replace(taught, sharpness=tau * taught.sharpness / unit)

        def badness(law: FeatureLaw, small: FeatureLaw, thresholds: int) -> float:
            least, most = (fit.readout for fit in solve_many(small, loss, _LIMIT_RIDGES, math.inf))
            ratio = math.hypot(*least.weights) / max(math.hypot(*most.weights), 1e-300)
            # close to the least ridge's, where the best mostly is, they are closer to each other
            shares = np.linspace(0, 1, thresholds if metric.own_threshold else 1) ** 2
            biases = least.bias + shares * (ratio * most.bias - least.bias)
            scores = (law.scores(least._replace(bias=float(bias))) for bias in biases)
            return min(map(metric.badness_of, scores))

        def objective(x: float) -> float:
            law = self.classifier.draft(task, query(math.exp(x)))
            small = law.selected(*law.draft_selection())
            return badness(law, small, thresholds=9)

        grid = np.log(_LIMIT_SHARPNESSES)
        values = [objective(x) for x in grid]
        middle = min(max(int(np.argmin(values)), 1), len(grid) - 2)
        lowest = minimize_scalar(
            objective, bounds=(grid[middle - 1], grid[middle + 1]), method="bounded",
            options={"maxiter": _LIMIT_STEPS},
        )  # fmt: skip
        tau = math.exp(lowest.x if lowest.fun < min(values) else grid[np.argmin(values)])
        law = self.classifier.law(task, query(tau))
        return metric.badness(badness(law, law.refined, thresholds=33))


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


def _alike(task: Task) -> Task:
    """The white task that is as hard for whoever knows the noise, but for a spread."""
    if task.is_white:
        return task
    white = task.weakened(whitened_length(task))
    return replace(white, noise=White(), signal_spread=None)


def _sharpness(task: Task, query: AnyQuery) -> float:
    """β times what the score of a noise token varies by."""
    assert isinstance(query, ShapedQuery)
    return query.sharpness * noise_score(task, query)

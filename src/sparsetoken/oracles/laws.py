r"""The oracle of any classifier, from its law: the best linear readout and cut, ξ known.

A learned query then points along ξ, and its sharpness τ is free too. Where the atoms of a law are
draws, (τ, readout, cut) chosen on one half of them are tried on the other: what they find by chance
does not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from sparsetoken.model.classifiers import Classifier, Query
from sparsetoken.model.law import FeatureLaw, Readout
from sparsetoken.model.task import Strength, Task
from sparsetoken.oracles.linear import best_direction
from sparsetoken.oracles.thresholds import crossing, sampled_threshold, trivial_error
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

_SHARPNESS = np.append(0.0, np.geomspace(0.03, 30.0, 25))
_FARTHEST = 1e300  # a cut at infinity, as a number
_STRONG = 1e4  # a strength beside which all noise is nothing: what is left is the floor
_FEW = 10  # errors counted, below which those that did not occur may be what matters


@dataclass(frozen=True)
class LawOracle:
    """The best (τ, readout, cut) under the law of a classifier."""

    classifier: Classifier
    task: Task

    def error(self, strength: Strength, few: bool = False) -> Estimate:
        """With `few`, of the law's draft."""
        queries = self._queries()
        laws = (self._law(strength, query, few) for query in queries)  # one at a time in memory
        trials = [_trials(law, self.task.prevalence) for law in laws]
        errors = [
            min(halves, key=lambda trial: trial.expected).error
            for halves in zip(*trials, strict=True)  # one half of every law
        ]
        expected = [sum(trial.expected for trial in of_law) for of_law in trials]
        query = queries[int(np.argmin(expected))]
        sharpness = None if query is None else query.sharpness
        trivial = trivial_error(self.task.prevalence)
        value = sum(errors) / len(errors)
        if value >= trivial:  # what draws say beyond that is their noise
            return Estimate(trivial, sharpness=sharpness)
        spread = math.hypot(*(error.standard_error for error in errors)) / len(errors)
        draws = self._draws(strength, few)
        if draws and value < _FEW / draws:
            spread = max(spread, 1 / draws)
        return Estimate(value, spread, sharpness)

    def threshold(self, error: float) -> Estimate:
        draws = self._draws(1.0, few=True)
        if self.error(_STRONG, few=draws > 0) >= error:
            return Estimate(math.inf)
        if not draws:
            return Estimate(crossing(self.error, error, 1e-12))
        if error < _FEW / draws:
            raise InvalidInput(
                f"signal_threshold: error must be at least {_FEW / draws:g} for "
                f"{self.classifier!r}, whose errors are counted in {draws} draws, got {error:g}"
            )
        return sampled_threshold(self.error, error, guess=1.0)

    def _queries(self) -> list[Query] | list[None]:
        if not self.classifier.learns_query:
            return [None]
        return [Query(1.0, 1.0, sharpness) for sharpness in _SHARPNESS.tolist()]

    def _law(self, strength: Strength, query: Query | None, few: bool) -> FeatureLaw:
        # the two classes alone: `_parts` mixes them, without making smaller laws as well
        task = replace(self.task, strength=strength, prevalence=0.5)
        return self.classifier.draft(task, query) if few else self.classifier.law(task, query)

    def _draws(self, strength: Strength, few: bool) -> int:
        """Draws of a class in a law; 0 where atoms are exact."""
        law = self._law(strength, self._queries()[0], few)
        return len(law.labels) // 2 if law.sampled else 0


class _Trial(NamedTuple):
    """The best test of some atoms: its error on them, and on others."""

    expected: float
    error: Estimate


def _trials(law: FeatureLaw, prevalence: float) -> list[_Trial]:
    """One for a law of exact atoms; two, each half tried by the other's best, for draws."""
    parts = _parts(law, prevalence)
    tests = [_best_readout(part) for part in parts]
    return [
        _Trial(expected, part.scores(readout).test_error)
        for part, (expected, readout) in zip(parts, reversed(tests), strict=True)
    ]


def _parts(law: FeatureLaw, prevalence: float) -> list[FeatureLaw]:
    """The whole law, or the first and the second half of each class of draws."""

    def atoms(rows: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return law.means[rows], law.scales[rows], law.weights[rows]

    positive, negative = (
        np.array_split(np.flatnonzero(law.labels == label), 1 + law.sampled)
        for label in (1.0, -1.0)
    )
    return [
        FeatureLaw.of_classes(prevalence, atoms(up), atoms(down), law.noisy, sampled=law.sampled)
        for up, down in zip(positive, negative, strict=True)
    ]


def _best_readout(law: FeatureLaw) -> tuple[float, Readout]:
    """The least error and its readout; directions along which all atoms agree are left out."""
    used = np.flatnonzero(np.ptp(law.means, axis=0) > 0)
    best = (
        trivial_error(law.prevalence),
        Readout(np.zeros(len(law.noisy)), math.copysign(1.0, law.prevalence - 0.5), 0.0),
    )
    for along in _directions(law, used):
        weights = np.zeros(len(law.noisy))
        weights[used] = along
        readout = Readout(weights, 0.0, float(np.linalg.norm(weights[law.noisy])))
        cut = law.scores(readout).best_cut(law.prevalence, 1 - law.prevalence)
        if cut.cost < best[0]:
            bias = -min(max(cut.threshold, -_FARTHEST), _FARTHEST)
            best = cut.cost, readout._replace(bias=bias)
    return best


def _directions(law: FeatureLaw, used: IntArray) -> list[FloatArray]:
    """Candidates for the best direction among those used; shapes (K,)."""
    if len(used) < 2:
        return [np.full(len(used), sign) for sign in (1.0, -1.0) if len(used)]
    small = replace(law, means=law.means[:, used], noisy=law.noisy[used])
    share = np.where(law.labels > 0, law.prevalence, law.prevalence - 1)
    apart = (law.weights / share) @ small.means  # the classes' means
    axes = np.diag(np.where(apart < 0, -1.0, 1.0))
    return [best_direction(small, [*axes, apart] if apart.any() else list(axes)).weights]

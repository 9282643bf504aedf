r"""The equation m = Γ(m)/(1 + Γ(m)) of Bayes-optimal learning, and its solutions.

With x = √m it is e(x) = x² − (1 − x²) Γ(x) = 0. The number of labelled samples α at which a given m
solves it is explicit: α(m) = (m/(1−m) − Σ of the other bags)/(Σ of the labelled), so that stable
solutions at α are where α(m) rises through it, and message passing is stuck at the first.

That is white noise. With a spectrum m(Γ) is another function (`prior`), and m the part of the
signal's squared length that is known in whitened units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from sparsetoken.model.task import Task
from sparsetoken.oracles.extremes import REPLICATES
from sparsetoken.oracles.learning_data import Channel, Kind, Revealed, channel_of, revealed
from sparsetoken.oracles.prior import Prior, WhitePrior
from sparsetoken.oracles.thresholds import trivial_error
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate

_FINE = 4  # points between two nodes among which crossings are sought
_SURE = 4.0  # standard errors by which two solutions must differ to be two
_NEAR = 1e-4  # a relative step for slopes
_EQUAL = 1e-8  # a relative distance of numbers of samples that are the same
_SAME = 1e-13  # a distance of nodes that differ by rounding alone
_FAINT = 1e-6  # a cosine at which nothing is learned


class Learner(NamedTuple):
    """A learner in the limit: what its direction and its test are worth."""

    cosine: Estimate  # of its direction with the signal: √m in white noise
    test_error: Estimate
    information: float  # I(m) per dimension, in nats


@dataclass(frozen=True)
class BayesPoint:
    """What can be learned from so many samples per dimension.

    `best` is the Bayes-optimal learner, `reachable` message passing from the class mean; the task
    is `hard` where they differ.

    >>> from sparsetoken import bayes_curve
    >>> point = bayes_curve(Task(length=100, sparsity=1, strength=4.0, prevalence=0.3), [0.4])[0]
    >>> point.hard, round(point.best.cosine, 2), round(point.reachable.cosine, 2)
    (True, 0.68, 0.17)
    """

    samples: float
    best: Learner
    reachable: Learner

    @property
    def hard(self) -> bool:
        """Whether no fast algorithm is known for what the samples tell."""
        return self.best is not self.reachable

    @property
    def cosine(self) -> Estimate:
        return self.best.cosine

    @property
    def test_error(self) -> Estimate:
        return self.best.test_error

    @property
    def information(self) -> float:
        return self.best.information

    @property
    def numbers(self) -> dict[str, float]:
        """All of it by name, for tables; `hard` is 1 or 0."""
        row = {"hard": float(self.hard)}
        for prefix, learner in (("", self.best), ("reachable_", self.reachable)):
            row[f"{prefix}cosine"] = float(learner.cosine)
            row[f"{prefix}test_error"] = float(learner.test_error)
            row[f"{prefix}standard_error"] = learner.test_error.standard_error
            row[f"{prefix}information"] = learner.information
        return row


class SamplesNeeded(NamedTuple):
    """Samples per dimension for an error: by any learner, and by message passing.

    >>> from sparsetoken import samples_needed
    >>> samples_needed(Task(length=1, sparsity=1, strength=3.0), error=0.1).best < 1
    True
    """

    best: Estimate
    reachable: Estimate


class HardPhase(NamedTuple):
    """From `begin` samples per dimension on they suffice; only from `end` on is it easy.

    Between the two message passing stays where it would be with hardly any samples.

    >>> from sparsetoken import hard_phase
    >>> hard_phase(Task(length=10, sparsity=1, strength=5.0)) is None
    True
    """

    begin: Estimate
    end: Estimate


@dataclass(frozen=True)
class Equation:
    """That of a task, with bags of these kinds to learn from."""

    owner: str
    task: Task
    kinds: tuple[Kind, ...]
    seed: int
    prior: Prior = field(default_factory=WhitePrior)

    @cached_property
    def parts(self) -> list[Revealed]:
        """What each kind of bags tells."""
        assert self.channel is not None  # a task that has none is refused by the owner's name
        plain = replace(self.task, prevalence=0.5)
        return [revealed(plain, kind.chance, kind.marked, self.seed) for kind in self.kinds]

    @cached_property
    def channel(self) -> Channel:
        return channel_of(self.owner, self.task, self.seed)

    def precision(self, root: float | FloatArray, samples: float) -> FloatArray:
        """Γ (…, 17)."""
        return self._total(samples, [part.overlap(root) for part in self.parts])

    def information(self, root: float, samples: float) -> FloatArray:
        """I(m) (17,)."""
        energy = self._total(samples, [part.energy for part in self.parts])
        learned = self._total(samples, [part.information(root) for part in self.parts])
        gamma = self.precision(root, samples)
        known = self.prior.entropy(gamma)
        return np.asarray(known + learned + (energy - gamma) * (1 - root**2) / 2)

    def _total(self, samples: float, values: Sequence[Any]) -> Any:
        """Σ_k α_k times values of the kinds."""
        counts = [samples * kind.share + kind.more for kind in self.kinds]
        return sum(count * value for count, value in zip(counts, values, strict=True))

    def samples_at(self, root: float | FloatArray) -> FloatArray:
        """α at which m solves the equation (…, 17): at most 0 where other bags suffice."""
        odds = self.prior.precision(np.asarray(root) ** 2)[..., None]
        overlaps = [part.overlap(root) for part in self.parts]
        more = sum(kind.more * value for kind, value in zip(self.kinds, overlaps, strict=True))
        of_each = sum(kind.share * value for kind, value in zip(self.kinds, overlaps, strict=True))
        return np.asarray((odds - more) / of_each)

    @cached_property
    def grid(self) -> tuple[FloatArray, FloatArray]:
        """Values of √m below 1, dense where something happens, and α at each."""
        nodes = np.sort(np.concatenate([part.log_overlap.x for part in self.parts]))
        nodes = nodes[np.diff(nodes, append=math.inf) > _SAME]
        steps = np.arange(len(nodes) - 1 + 1 / _FINE, step=1 / _FINE)[:-1]
        roots = np.interp(steps, np.arange(len(nodes)), nodes)
        return roots, self.samples_at(roots)[:, 0]

    def solutions(self, samples: float) -> list[float]:
        """Stable √m in increasing order: what iterations end at."""
        if not self.kinds:
            return [0.0]
        roots, alphas = self.grid
        above = np.append(alphas >= samples, True)
        places = np.flatnonzero(above[1:] & ~above[:-1])
        if not len(places):  # no samples at all
            return [0.0]

        def excess(root: float) -> float:
            return self.prior.excess(root, float(self.precision(root, samples)[0]))

        ends = np.append(roots, 1.0)
        crossings = [brentq(excess, ends[i], ends[i + 1], xtol=1e-15) for i in places.tolist()]
        return [float(crossing) for crossing in crossings]

    def point(self, samples: float) -> BayesPoint:
        """Both learners at so many samples per dimension."""
        if math.isinf(samples) and self.kinds:
            known = Learner(Estimate(1.0), self._error(Estimate(1.0)), math.inf)
            return BayesPoint(samples, known, known)
        roots = self.solutions(samples)
        reachable, best = self._learner(roots[0], samples), None
        if len(roots) > 1:
            best = self._learner(self._likeliest(roots, samples), samples)
            doubt = best.cosine.standard_error + reachable.cosine.standard_error
            if best.cosine - reachable.cosine <= _SURE * doubt:
                best = None
        return BayesPoint(samples, best or reachable, reachable)

    def rounds(self, samples: float, count: int, start: float) -> Iterator[Learner]:
        """What each round of m ← Γ(m)/(1 + Γ(m)) ends with, from √m = `start` on."""
        roots = np.full(1 + REPLICATES, start)  # by all draws, then by replicates
        for _ in range(count):
            gamma = np.diagonal(self.precision(roots, samples))
            roots = np.sqrt(self.prior.overlap(gamma))
            root = Estimate(roots[0], _standard_error(roots))
            information = float(self.information(roots[0], samples)[0])
            cosines = self.prior.cosine(gamma)
            cosine = Estimate(cosines[0], _standard_error(cosines))
            yield Learner(cosine, self._error(root), information)

    def _likeliest(self, roots: list[float], samples: float) -> float:
        """The solution with the least mutual information."""
        return min(roots, key=lambda root: float(self.information(root, samples)[0]))

    def _learner(self, root: float, samples: float) -> Learner:
        if root == 0:
            return Learner(Estimate(0.0), Estimate(trivial_error(self.task.prevalence)), 0.0)
        gamma = self.precision(root, samples)
        slopes = [part.overlap(root)[0] * part.log_overlap(root, 1)[0] for part in self.parts]
        prior, slope = self.prior, self.prior.slope(float(gamma[0]))
        known = Estimate(
            math.sqrt(prior.overlap(gamma[0])),  # with all digits of its distance from 1
            slope * _standard_error(gamma) / (2 * root - slope * self._total(samples, slopes)),
        )
        cosine = Estimate(
            float(prior.cosine(gamma[0])),
            float(abs(prior.cosine(gamma[0] * (1 + _NEAR)) - prior.cosine(gamma[0])))
            / (gamma[0] * _NEAR * slope / (2 * root))
            * known.standard_error,
        )
        return Learner(cosine, self._error(known), float(self.information(root, samples)[0]))

    def _error(self, root: Estimate) -> Estimate:
        """Of the likelihood ratio along a direction that is worth √m = `root` of the signal."""
        error = self.channel.error(float(root))
        if not root.standard_error:
            return error
        ends = (root, root - root.standard_error)
        here, moved = (self.channel.error(float(end), few=True) for end in ends)
        return Estimate(error, math.hypot(error.standard_error, moved - here))

    def needed(self, error: float) -> SamplesNeeded:
        """Samples for a test error."""
        if error >= (1 - _EQUAL) * trivial_error(self.task.prevalence):
            return SamplesNeeded(Estimate(0.0), Estimate(0.0))
        floor = self.channel.error(1.0)
        if error <= floor:
            raise InvalidInput(
                f"{self.owner}: error must be above {floor:.4g}, that of the likelihood ratio with "
                f"the signal known, got {error:g}"
            )

        def excess(root: float) -> float:
            return math.log(max(self.channel.error(root), 1e-300) / error)

        root = float(brentq(excess, _FAINT, 1.0, xtol=1e-10))
        slope = (excess(root * (1 + _NEAR)) - excess(root * (1 - _NEAR))) / (2 * _NEAR)
        doubt = self.channel.error(root).standard_error / (error * abs(slope))  # of log root
        roots, alphas = self.grid
        before = alphas[roots < root]
        on_the_way = np.append(before, self.samples_at(root)[0])
        last = int(np.argmax(on_the_way))
        if on_the_way[last] <= 0:  # the other bags suffice
            return SamplesNeeded(Estimate(0.0), Estimate(0.0))
        reachable = self._samples_where(root, doubt)
        if last < len(before):
            reachable = self._end(last)
        least = min(on_the_way[-1], alphas[roots >= root].min(initial=math.inf))
        if least > (1 - _EQUAL) * reachable:
            return SamplesNeeded(reachable, reachable)
        best = self._first(
            max(least, _EQUAL * reachable),
            reachable,
            lambda alpha: self._likeliest(self.solutions(alpha), alpha) >= root,
        )
        if abs(best / on_the_way[-1] - 1) < _EQUAL:
            return SamplesNeeded(self._samples_where(root, doubt), reachable)
        return SamplesNeeded(self._jump(best), reachable)

    def hard_phase(self) -> HardPhase | None:
        """Where the likeliest solution is not the first."""
        if not self.kinds:
            return None
        roots, alphas = self.grid
        highest = np.maximum.accumulate(alphas)
        low = int(np.argmax(highest - alphas))  # in units of the samples: the widest
        peak = int(np.argmax(alphas[: low + 1]))
        if alphas[low] >= alphas[peak]:
            return None
        fall = np.log(self.samples_at(roots[peak]) / self.samples_at(roots[low]))
        if fall[0] <= max(_EQUAL, _SURE * _standard_error(fall)):
            return None
        begin = self._first(alphas[low], alphas[peak], self._is_hard)
        return HardPhase(self._jump(begin), self._end(peak))

    def _end(self, peak: int) -> Estimate:
        """Samples with which message passing gets over a peak of the grid, just."""
        roots, _ = self.grid
        around = roots[max(peak - 1, 0)], roots[min(peak + 1, len(roots) - 1)]
        top = minimize_scalar(lambda root: -self.samples_at(root)[0], bounds=around).x
        samples = self._samples_where(float(top))
        return Estimate((1 + _EQUAL) * samples, samples.standard_error)

    def _is_hard(self, samples: float) -> bool:
        roots = self.solutions(samples)
        return self._likeliest(roots, samples) > roots[0]

    def _first(self, low: float, high: float, reached: Callable[[float], bool]) -> float:
        """Where samples begin to suffice, between some that do not and some that do."""
        while high > low * (1 + _EQUAL):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if reached(middle) else (middle, high)
        return high

    def _samples_where(self, root: float, doubt: float = 0.0) -> Estimate:
        """α at which √m solves the equation, √m known up to a relative doubt."""
        alphas = self.samples_at(root)
        rise = self.samples_at(root * (1 - _NEAR))[0] - alphas[0]
        return Estimate(alphas[0], math.hypot(_standard_error(alphas), doubt * rise / _NEAR))

    def _jump(self, samples: float) -> Estimate:
        """Samples at which two solutions are as likely, with what draws leave open."""

        def gain(alpha: float) -> FloatArray:
            ends = self.solutions(alpha)
            return self.information(ends[-1], alpha) - self.information(ends[0], alpha)

        slope = (gain(samples * (1 + _NEAR))[0] - gain(samples)[0]) / (_NEAR * samples)
        return Estimate(samples, _standard_error(gain(samples)) / abs(slope))


def _standard_error(values: FloatArray) -> float:
    """Of the first of them, from the replicates that follow."""
    return float(np.std(values[1:], ddof=1)) / math.sqrt(len(values) - 1)

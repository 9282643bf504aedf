r"""Readouts of a sample of training sets, and averages of what they do.

Given the query, (w, b, ρ) are normal around the limit, with the covariance of `fluctuations`. Test
metrics do not mind the readout's scale: they see w/ρ and b/ρ. With a class of only a few samples
the readout is not normal in their number: then training sets are told apart by it, and fluctuations
are those within the classes.

Some of the training sets that are drawn are evaluated. What they give is a smooth function of
(cosine, log sharpness, log share of positives), and the mean over all of them is that of its
polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from sparsetoken.model.classifiers import AnyQuery, Classifier
from sparsetoken.model.law import FeatureLaw, Readout
from sparsetoken.model.places import log_choose
from sparsetoken.model.scores import Scores
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory.fit import Fit
from sparsetoken.theory.fluctuations import readout_covariance
from sparsetoken.theory.query_spread import gauss_nodes
from sparsetoken.theory.several_fluctuations import readout_covariance as several_covariance

Metric = Callable[[Scores], float]

FEW_OF_A_CLASS = 20  # samples; with fewer, training sets are told apart by their number
_VANISHING = 1e-6  # a standard deviation beside another, of which rounding leaves little
_RARE = 1e-12  # a chance not worth a thought
_SCORED = 1 << 12  # points a class of a draft on which metrics other than the error are taken


class Average(NamedTuple):
    """A number over training sets: its mean, and its standard deviation between them."""

    mean: Estimate
    spread: Estimate


def class_shares(
    task: Task, n: float, count: int, few: int = FEW_OF_A_CLASS
) -> list[tuple[float, float | None]]:
    """A few shares of positives among n samples that stand for all, as (weight, share).

    With a class of few samples the readout is not normal in its share: `count` of them, given that
    there are both classes. Else one, None: the fluctuations of the readout have the share's.

    >>> class_shares(Task(10, 1, 5.0), 1000, 3)
    [(1.0, None)]
    >>> [round(1000 * share, 1) for _, share in class_shares(Task(10, 1, 5.0, 0.002), 1000, 3)]
    [1.2, 3.2, 6.2]
    """
    if n * min(task.prevalence, 1 - task.prevalence) >= few:
        return [(1.0, None)]
    counts, chances = class_counts(task, n)
    return [(weight, node / n) for weight, node in gauss_nodes(counts, chances, count)]


def class_counts(task: Task, n: float) -> tuple[FloatArray, FloatArray]:
    """Numbers of positives among n samples, at least one of each class, and their chances."""
    rarer = min(task.prevalence, 1 - task.prevalence)
    most = min(int(n * rarer + 12 * math.sqrt(n * rarer) + 40), math.ceil(n) - 1)
    rare = np.arange(1, max(most, 1) + 1, dtype=float)
    log_chance = log_choose(n, rare)
    log_chance += rare * math.log(rarer) + (n - rare) * math.log1p(-rarer)
    chances = np.exp(log_chance - log_chance.max())
    counts = rare if task.prevalence <= 0.5 else n - rare
    return counts, chances / chances.sum()


def lone_classes(task: Task, n: float) -> list[tuple[float, Scores]]:
    """Chance that all n samples are positive, or negative, and the scores of always saying so."""
    chances = ((1.0, task.prevalence**n), (-1.0, (1 - task.prevalence) ** n))
    return [
        (chance, Scores.always(sign, task.prevalence)) for sign, chance in chances if chance > _RARE
    ]


@dataclass(frozen=True, eq=False)
class Readouts:
    """Readouts of training sets that share a query, up to their scale: w/ρ, b/ρ and r/ρ; with a
    geometry M, b and the r_j."""

    query: AnyQuery | None
    law: FeatureLaw  # of test samples, given the query
    fit: Fit  # the limit, given the query
    weights: FloatArray  # (sets, K)
    biases: FloatArray  # (sets,)
    noises: FloatArray  # (sets,), r; or (sets, J)

    @classmethod
    def around(
        cls,
        query: AnyQuery | None,
        law: FeatureLaw,
        fit: Fit,
        n: float,
        normals: FloatArray,
        within_classes: bool = False,
    ) -> Readouts:
        """Of n samples each, from normals (sets, K + 2), or (sets, K + 1 + J); with the fit's share
        of positives, if `within_classes`."""
        several = fit.law.geometry is not None
        covariance = several_covariance if several else readout_covariance
        centre = np.append(fit.weights, fit.bias)
        moved = normals @ _root(covariance(fit, within_classes) / n)
        # (w, b, ρ) = eˢ(w₀ + ŵ, b₀ + b̂, ρ₀e^δ): the common scale s, which runs wild near the
        # separability threshold, changes no score's sign; E ρ² = ρ₀² (E r_j²) fixes the mean of δ
        scale = moved @ _scale_of_scores(fit)
        shape = centre + moved[:, : len(centre)] - scale[:, None] * centre
        rest = moved[:, len(centre) :] - scale[:, None]
        # a vast ridge makes ρ vanish beside the bias: beyond e¹⁰⁰ nothing changes any more
        drift = np.clip(rest - rest.var(axis=0), -100.0, 100.0)
        if several:
            noises = np.asarray(fit.noise) * np.exp(drift)
            return cls(query, law, fit, shape[:, :-1], shape[:, -1], noises)
        ratios = shape * np.exp(-drift) / fit.rest
        weights = ratios[:, :-1]  # r/ρ is at least 1: nothing to divide by is 0
        return cls(query, law, fit, weights, ratios[:, -1], np.sqrt(1 + weights**2 @ law.noisy))

    def scores(self, law: FeatureLaw) -> Iterator[Scores]:
        """On fresh samples of a law, one training set after the other."""
        for weights, bias, noise in zip(self.weights, self.biases, self.noises, strict=True):
            yield law.scores(Readout(weights, float(bias), noise if noise.ndim else float(noise)))

    def test_errors(self, law: FeatureLaw) -> FloatArray:
        """`test_error` of each of the scores, all at once."""
        return np.asarray(ndtr(self._arguments(law)) @ law.weights)

    def mean_test_error(self, law: FeatureLaw) -> float:
        """Their mean, as of normal readouts: E Φ(a + σZ) = Φ(a/√(1 + σ²))."""
        arguments = self._arguments(law)
        centre, spread = arguments.mean(axis=0), arguments.var(axis=0)
        return float(law.weights @ ndtr(centre / np.sqrt(1 + spread)))

    def _arguments(self, law: FeatureLaw) -> FloatArray:
        """(sets, points): Φ of it is the chance that a readout errs at a point."""
        readouts = np.column_stack([self.weights, self.biases])
        if self.noises.ndim == 1:
            design = law.design * (-law.labels / law.scales)[:, None]
            return np.asarray(readouts / self.noises[:, None] @ design.T)
        deviations = np.sqrt(self.noises**2 @ (law.scales**2).T)
        return np.asarray(readouts @ (law.design * -law.labels[:, None]).T / deviations)


def _root(covariance: FloatArray) -> FloatArray:
    """A matrix whose transpose times itself is the covariance.

    Its symmetric root: unlike eigenvectors, the same on every machine. Where a vast ridge has made
    weights vanish beside the bias, rounding of the bias would drown them: then the symmetric root
    of the correlations, scaled.
    """
    sizes = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    if sizes.min() >= _VANISHING * sizes.max():
        sizes = np.ones(len(sizes))
    sizes[sizes == 0] = 1.0
    values, vectors = np.linalg.eigh(covariance / np.outer(sizes, sizes))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T * sizes)


def _scale_of_scores(fit: Fit) -> FloatArray:
    """How the log of the scores' size, ½ log(Var μ + E[σ²]r²), moves with (w, b, log ρ); with a
    geometry with (M, b, log r_j)."""
    law = fit.law.compressed
    means = law.means - law.weights @ law.means  # (atoms, K)
    score = means @ fit.weights
    if law.geometry is not None:
        parts = (law.weights @ law.scales**2) * np.asarray(fit.noise) ** 2
        gradient = np.concatenate([(law.weights * score) @ means, [0.0], parts])
        return np.asarray(gradient / (law.weights @ score**2 + parts.sum()))
    variance = float(law.weights @ law.scales**2)
    by_weights = (law.weights * score) @ means + variance * law.noisy * fit.weights
    gradient = np.concatenate([by_weights, [0.0, variance * fit.rest**2]])
    return np.asarray(gradient / (law.weights @ score**2 + variance * fit.noise**2))


@dataclass(frozen=True, eq=False)
class TrainingSets:
    """A sample of training sets of one size.

    `readouts` are those of every query that was evaluated, on draft laws; `draws` (queries, 3) the
    cosine, the log sharpness (both as scores see them: Σ measures lengths) and, with a class of few
    samples, the log of its share of all that were drawn, those evaluated first. `anchor` is the fit
    on the full law of the middle one: what it says beyond its draft is added to every mean. `lone`
    is what happens if all samples have one class: the probability of each, and the scores of naming
    it always.
    """

    task: Task
    classifier: Classifier
    readouts: tuple[Readouts, ...]
    draws: FloatArray
    lone: tuple[tuple[float, Scores], ...]
    anchor: Fit | None = None

    @property
    def middle(self) -> Readouts:
        """Of the query in the middle of those evaluated."""
        return self.readouts[len(self.readouts) // 2]

    def average(self, metric: Metric | None = None, task: Task | None = None) -> Average:
        """A metric of the test scores (the test error, if none is given) on this task or another.

        >>> from sparsetoken import Pooled, Protocol, predict
        >>> p = predict(Task(10, 1, 5.0), Pooled(), Protocol(), dim=100)
        >>> p.training_sets.average(lambda scores: scores.sensitivity(0.9)).mean < 0.6
        True
        """
        means, variances = [], []
        for place, of in enumerate(self.readouts):
            law = of.law if task is None else self.classifier.draft(task, of.query)
            if metric is None:
                values = of.test_errors(law)
            else:
                values = np.array([metric(scores) for scores in self._some(place, law)])
            means.append(float(values.mean()))
            variances.append(float(values.var(ddof=0 if metric is None else 1)))
        lone = [
            (chance, scores.test_error if metric is None else metric(scores))
            for chance, scores in self.lone
        ]
        average = self.over_queries(means, variances, lone)
        return average._replace(mean=self._anchored(average.mean, metric, task))

    def _some(self, place: int, law: FeatureLaw) -> Iterator[Scores]:
        """Two readouts of a query, others of each one: metrics take milliseconds."""
        of, few = self.readouts[place], 2 if len(self.readouts) > 1 else 64
        start = place * few % len(of.biases)
        return islice(of.scores(law.head(_SCORED) if law.sampled else law), start, start + few)

    def true_positive_rates(self, false: FloatArray) -> FloatArray:
        """Mean true positive rate at each of these false positive rates."""
        rates = []
        for place, of in enumerate(self.readouts):
            curves = [np.interp(false, *scores.roc()) for scores in self._some(place, of.law)]
            rates.append(np.mean(curves, axis=0))
        true = np.array([self.surface(column)[0].mean() for column in np.array(rates).T])
        for chance, _ in self.lone:
            true += chance * (false - true)
        return true

    def _anchored(self, mean: Estimate, metric: Metric | None, task: Task | None) -> Estimate:
        """A mean over drafts, moved by what the full law of the middle query says beyond its own;
        with what the full law's cloud leaves open in its standard error."""

        def value(law: FeatureLaw, fit: Fit) -> float:
            scores = law.scores(fit.readout)
            return scores.test_error if metric is None else metric(scores)

        middle, anchor = self.middle, self.anchor
        if anchor is None:
            law = middle.law if task is None else self.classifier.draft(task, middle.query)
            return Estimate(mean, math.hypot(mean.standard_error, _error(value(law, middle.fit))))
        law, draft = anchor.law, middle.law
        if task is not None:
            law = self.classifier.law(task, middle.query)
            draft = self.classifier.draft(task, middle.query)
        full = value(law, anchor)
        beyond = float(full) - float(value(draft, middle.fit))
        return Estimate(mean + beyond, math.hypot(mean.standard_error, _error(full)))

    def over_queries(
        self,
        values: ArrayLike,
        variances: ArrayLike = 0.0,
        lone: Sequence[tuple[float, float]] = (),
    ) -> Average:
        """From a number of each evaluated query and its variance between training sets."""
        values = np.asarray(values, dtype=float)
        every, missed = self.surface(values)
        count, sets = len(values), len(self.readouts[0].biases)
        within = float(self.surface(np.broadcast_to(np.asarray(variances), count))[0].mean())
        unexplained = float(missed @ missed) / max(count - 1, 1)
        mean, variance = float(every.mean()), float(every.var()) + unexplained + within
        error = (unexplained + within / sets) / count + float(every.var()) / len(every)
        for chance, value in lone:
            variance = (1 - chance) * (variance + chance * (value - mean) ** 2)
            mean += chance * (value - mean)
        spread = math.sqrt(variance)
        freedoms = len(every) if variance > 2 * within else count * sets
        return Average(
            Estimate(mean, math.sqrt(error)), Estimate(spread, spread / math.sqrt(2 * freedoms))
        )

    def surface(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The polynomial through a number of each evaluated query: at all draws; what it misses.

        Of the degree that leaves three numbers for each coefficient.
        """
        count = len(values)
        if count == 1:
            return values, np.zeros(1)
        spread = self.draws.std(axis=0)
        moving = spread > 1e-12
        x = (self.draws[:, moving] - self.draws[:, moving].mean(axis=0)) / spread[moving]
        degree = {0: 0, 1: 5, 2: 3, 3: 2}[x.shape[1]] if count >= 20 else 1
        powers = product(range(degree + 1), repeat=x.shape[1])
        terms = [np.prod(x**power, axis=1) for power in powers if sum(power) <= degree]
        design = np.column_stack(terms)
        coefficients, *_ = np.linalg.lstsq(design[:count], values, rcond=1e-9)
        fitted = design @ coefficients
        # a polynomial runs away beyond the points it was fitted to; the numbers do not
        return np.clip(fitted, values.min(), values.max()), values - fitted[:count]


def _error(value: float) -> float:
    """The standard error of a value, if it has one."""
    return value.standard_error if isinstance(value, Estimate) else 0.0

r"""Predictions at your size: averages over training sets of n₀ and n₁ samples in d dimensions.

The limit of many dimensions forgets two things that a training set of finite size does not:

* its query. Overlap and norm fluctuate by O(1/√d), with a constant that explodes where the two
  terms of the overlap nearly cancel, or where a step size was chosen to make the limit best.
  Queries are drawn exactly (`model/queries.py`).
* its readout. Given the query, (w, b, ρ) are normal around the limit, with the covariance of
  `fluctuations`. That has in it the share of positives as it was drawn, which a large ridge does
  not forgive.

A prediction at size d is the mean over both, its spread the standard deviation between training
sets. Test metrics do not mind the readout's scale: they see w/ρ and b/ρ. The K explicit directions
are taken out of the p that the limit counts: α = n₁/(p − K). A training set with one class only
names that class for every sample.

A query costs a law and a solve. Some of those drawn are evaluated; what they give is a smooth
function of (cosine, log sharpness), and the mean over all of them is that of its polynomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from sparsetoken.model.attention import normal_cloud
from sparsetoken.model.classifiers import Classifier, Pooled, Query
from sparsetoken.model.errors import InvalidInput
from sparsetoken.model.estimate import Estimate
from sparsetoken.model.law import FeatureLaw, Readout
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.queries import draw_query
from sparsetoken.model.scores import Scores
from sparsetoken.model.task import Task
from sparsetoken.theory.asymptotics import Fit, solve_many
from sparsetoken.theory.fluctuations import readout_covariance
from sparsetoken.theory.query_spread import NORMALS, spread_queries

FloatArray = NDArray[np.float64]
Metric = Callable[[Scores], float]

_QUERIES, _EVALUATED = 512, 32  # drawn, and of these with a law and a solve
_EXACT = 1 << 14  # samples up to which queries are drawn exactly; beyond, their sums are normal
_NUMBERS = 1 << 20  # samples drawn for queries, at most
_READOUTS, _MANY_READOUTS = 8, 256  # of each query evaluated; of the only one
_SCORED = 1 << 12  # points a class of a draft on which metrics other than the error are taken
_RARE = 1e-12  # a chance not worth a thought


class Average(NamedTuple):
    """A number over training sets: its mean, and its standard deviation between them."""

    mean: Estimate
    spread: Estimate


@dataclass(frozen=True, eq=False)
class Readouts:
    """Readouts of training sets that share a query, up to their scale: w/ρ and b/ρ."""

    query: Query | None
    law: FeatureLaw  # of test samples, given the query
    fit: Fit  # the limit, given the query
    weights: FloatArray  # (sets, K)
    biases: FloatArray  # (sets,)

    @classmethod
    def around(
        cls, query: Query | None, law: FeatureLaw, fit: Fit, n: float, normals: FloatArray
    ) -> Readouts:
        """Of n samples each, from normals (sets, K + 2)."""
        centre = np.append(fit.weights, fit.bias)
        values, vectors = np.linalg.eigh(readout_covariance(fit) / n)
        moved = normals @ (vectors * np.sqrt(np.maximum(values, 0.0))).T  # (sets, K + 2)
        # (w, b, ρ) = eˢ(w₀ + ŵ, b₀ + b̂, ρ₀e^δ): the common scale s, which runs wild near the
        # separability threshold, changes no score's sign; E ρ² = ρ₀² fixes the mean of δ
        scale = moved @ _scale_of_scores(fit)
        shape = centre + moved[:, :-1] - scale[:, None] * centre
        rest = moved[:, -1] - scale
        ratios = shape * np.exp(np.var(rest) - rest)[:, None] / fit.rest
        return cls(query, law, fit, ratios[:, :-1], ratios[:, -1])

    def scores(self, law: FeatureLaw) -> Iterator[Scores]:
        """On fresh samples of a law, one training set after the other."""
        noises = np.sqrt(1 + self.weights**2 @ law.noisy)
        for weights, bias, noise in zip(self.weights, self.biases, noises, strict=True):
            yield law.scores(Readout(weights, float(bias), float(noise)))

    def test_errors(self, law: FeatureLaw) -> FloatArray:
        """`test_error` of each of the scores, all at once."""
        noises = np.sqrt(1 + self.weights**2 @ law.noisy)  # at least 1: nothing to divide by is 0
        scaled = -law.labels / law.scales
        design = np.column_stack([law.means, np.ones(len(scaled))]) * scaled[:, None]
        readouts = np.column_stack([self.weights, self.biases]) / noises[:, None]
        return np.asarray(ndtr(readouts @ design.T) @ law.weights)


def _scale_of_scores(fit: Fit) -> FloatArray:
    """How the log of the scores' size, ½ log(Var μ + E[σ²]r²), moves with (w, b, log ρ)."""
    law = fit.law.compressed
    means = law.means - law.weights @ law.means  # (atoms, K)
    score = means @ fit.weights
    variance = float(law.weights @ law.scales**2)
    by_weights = (law.weights * score) @ means + variance * law.noisy * fit.weights
    gradient = np.concatenate([by_weights, [0.0, variance * fit.rest**2]])
    return np.asarray(gradient / (law.weights @ score**2 + variance * fit.noise**2))


@dataclass(frozen=True, eq=False)
class TrainingSets:
    """A sample of training sets of one size.

    `readouts` are those of every query that was evaluated, on draft laws; `draws` (queries, 2) the
    cosine and the log sharpness of all that were drawn, those evaluated first. `anchor` is the fit
    on the full law of the middle one: what it says beyond its draft is added to every mean. `lone`
    is what happens if all samples have one class: the probability of each, and the scores of
    naming it always.
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

        >>> from sparsetoken import predict
        >>> p = predict(Task(10, 1, 5.0), Pooled(), Protocol(), dim=100)
        >>> p.training_sets.average(lambda scores: scores.sensitivity(0.9)).mean < 0.6
        True
        """
        means, variances = [], []
        few = 2 if len(self.readouts) > 1 else 64
        for place, each in enumerate(self.readouts):
            law = each.law if task is None else self.classifier.draft(task, each.query)
            if metric is None:
                values = each.test_errors(law)
            else:  # by two readouts a query, others each time: metrics take milliseconds
                start = place * few % len(each.biases)
                law = law.head(_SCORED) if law.sampled else law
                some = islice(each.scores(law), start, start + few)
                values = np.array([metric(scores) for scores in some])
            means.append(float(values.mean()))
            variances.append(float(values.var(ddof=0 if metric is None else 1)))
        lone = [
            (chance, scores.test_error if metric is None else metric(scores))
            for chance, scores in self.lone
        ]
        found = self.over_queries(means, variances, lone)
        return found._replace(mean=self._anchored(found.mean, metric, task))

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

        Of third degree in (cosine, log sharpness), of first where few were evaluated.
        """
        count = len(values)
        if count == 1:
            return values, np.zeros(1)
        spread = self.draws.std(axis=0)
        x, y = ((self.draws - self.draws.mean(axis=0)) / np.where(spread > 0, spread, 1.0)).T
        degree = 3 if count >= 20 else 1
        powers = [(i, j) for i in range(degree + 1) for j in range(degree + 1 - i)]
        design = np.column_stack([x**i * y**j for i, j in powers])
        coefficients, *_ = np.linalg.lstsq(design[:count], values, rcond=1e-9)
        fitted = design @ coefficients
        # a polynomial runs away beyond the points it was fitted to; the numbers do not
        return np.clip(fitted, values.min(), values.max()), values - fitted[:count]


@dataclass(frozen=True, eq=False)
class FinitePrediction:
    """What a classifier trained by the protocol in `dim` dimensions does: means over training sets.

    Every number is an `Estimate`, with its standard error. `spread` is the standard deviation of
    the test error between training sets. `useless` is the chance of a query that does not help:
    with it the test error is no better than with mean pooling of the same readout samples; None
    for a classifier that learns no query.

    >>> from sparsetoken import Attention, predict
    >>> p = predict(Task(10, 1, 5.0), Attention(), Protocol(), dim=100)
    >>> round(p.test_error, 2), 0.005 < p.spread < 0.01, p.useless < 0.01
    (0.04, True, True)
    """

    task: Task
    classifier: Classifier
    protocol: Protocol
    dim: int
    training_sets: TrainingSets
    test_error: Estimate
    spread: Estimate
    useless: Estimate | None
    train_error: Estimate
    train_loss: Estimate
    bias: Estimate
    cosine: Estimate | None
    sharpness: Estimate | None

    converged = True  # a fit that did not converge is raised, never returned

    @cached_property
    def auc(self) -> Estimate:
        """Probability that a fresh positive sample scores above a fresh negative one."""
        return self.training_sets.average(lambda scores: scores.auc).mean

    @property
    def residual(self) -> float:
        """Largest scale-free residual of the equations solved, over all queries."""
        return max(each.fit.residual for each in self.training_sets.readouts)

    @property
    def iterations(self) -> int:
        """Evaluations of the equations it took, in all."""
        return sum(each.fit.iterations for each in self.training_sets.readouts)

    def roc(self, points: int = 201) -> tuple[FloatArray, FloatArray]:
        """False positive rates, and the mean true positive rate over training sets at each."""
        false = np.linspace(0.0, 1.0, points)
        true = [
            np.interp(false, *scores.roc(max(points, 201)))
            for each in self.training_sets.readouts
            for scores in each.scores(each.law)
        ]
        return false, np.mean(true, axis=0)

    def on(self, other_task: Task) -> Average:
        """Test error of the same trained classifiers on another task: mean and spread."""
        return self.training_sets.average(task=other_task)


def finite_predictions(
    task: Task,
    classifier: Classifier,
    protocols: Sequence[Protocol],
    dim: int,
    seed: int = 0,
    exact: bool = True,
) -> list[FinitePrediction]:
    """One prediction for each protocol; they differ in their readout samples alone.

    `exact=False` draws queries by the central limit: the same numbers for every n, no jumps.
    """
    first = protocols[0]
    sizes = [each.counts("predict", dim, classifier.learns_query) for each in protocols]
    counts = np.array([readout for _, readout in sizes])
    n = sizes[0][0]
    queries, draws = _queries(task, classifier, first, dim, n, seed, exact and n <= _EXACT)
    readouts: list[list[Readouts]] = [[] for _ in protocols]
    sets = _READOUTS if len(queries) > 1 else _MANY_READOUTS
    middle = queries[len(queries) // 2]
    full = classifier.law(task, middle)
    size = len(classifier.draft(task, middle).noisy)
    free = dim * full.features_per_dim - size
    if free < 1:
        raise InvalidInput(f"predict: dim must be above {size} for {classifier!r}, got {dim}")
    normals = normal_cloud(size + 2, seed + 1, sets * len(queries))

    def solved(law: FeatureLaw) -> list[Fit]:
        return solve_many(law, first.loss, first.ridge, counts / free)

    anchors: list[Fit | None] = [None] * len(counts)
    selection = None
    if classifier.learns_query:
        anchors = [replace(fit, law=full) for fit in solved(full.compressed)]
        selection = classifier.draft(task, middle).draft_selection()
    for index, query in enumerate(queries):
        law = full if full.sampled and selection is None else classifier.draft(task, query)
        fits = solved(law.compressed if selection is None else law.selected(*selection))
        for place, fit in enumerate(fits):
            own = normals[index * sets : (index + 1) * sets]
            readouts[place].append(Readouts.around(query, law, fit, int(counts[place]), own))
    found = []
    for protocol, n, group, anchor in zip(protocols, counts, readouts, anchors, strict=True):
        lone = _lone(task, int(n))
        drawn = TrainingSets(task, classifier, tuple(group), draws, lone, anchor)
        found.append(_prediction(drawn, protocol, dim, seed))
    return found


def _queries(
    task: Task, classifier: Classifier, protocol: Protocol, dim: int, n: int, seed: int, exact: bool
) -> tuple[list[Query | None], FloatArray]:
    """Queries to evaluate, and (cosine, log sharpness) of all that were drawn, these first."""
    if not classifier.learns_query:
        return [None], np.zeros((1, 2))
    if exact:
        count = max(_EVALUATED, min(_QUERIES, _NUMBERS // n))
        rng = np.random.default_rng(seed)
        drawn = [draw_query(task, protocol, dim, n, rng) for _ in range(count)]
        cosine = np.array([query.cosine for query in drawn])
        sharpness = np.array([query.sharpness for query in drawn])
    else:
        normals = np.random.default_rng(seed).standard_normal((_QUERIES, NORMALS))
        cosine, sharpness = spread_queries(task, protocol, dim, n, normals)
    # evaluated are some from the lowest cosine to the highest, denser at both ends, where a
    # polynomial needs them
    ranks = np.argsort(cosine)
    places = 0.5 * (1 - np.cos(np.linspace(0, np.pi, _EVALUATED))) * (len(ranks) - 1)
    chosen = ranks[np.unique(places.round().astype(int))]
    order = np.concatenate([chosen, np.setdiff1d(ranks, chosen)])
    cosine, sharpness = cosine[order], sharpness[order]
    draws = np.column_stack([cosine, np.log(np.maximum(sharpness, 1e-300))])
    beta = protocol.inverse_temperature
    evaluated: list[Query | None] = [
        Query(float(s * tau / beta), float(tau / beta), float(tau))
        for s, tau in zip(cosine[: len(chosen)], sharpness[: len(chosen)], strict=True)
    ]
    return evaluated, draws


def _lone(task: Task, n: int) -> tuple[tuple[float, Scores], ...]:
    """Chance that all n samples are positive, or negative, and the scores of always saying so."""
    found = []
    for sign, chance in ((1.0, task.prevalence**n), (-1.0, (1 - task.prevalence) ** n)):
        if chance > _RARE:
            found.append((chance, Scores.always(sign, task.prevalence)))
    return tuple(found)


def _prediction(sets: TrainingSets, protocol: Protocol, dim: int, seed: int) -> FinitePrediction:
    """The numbers of a sample of training sets."""
    error = sets.average()
    fits = [each.fit for each in sets.readouts]
    useless = cosine = sharpness = None
    if sets.classifier.learns_query:
        cosine, sharpness = _mean(sets.draws[:, 0]), _mean(np.exp(sets.draws[:, 1]))
        useless = _useless(sets, protocol, dim, seed)
    return FinitePrediction(
        task=sets.task,
        classifier=sets.classifier,
        protocol=protocol,
        dim=dim,
        training_sets=sets,
        test_error=error.mean,
        spread=error.spread,
        useless=useless,
        train_error=sets.over_queries([_train_error(each) for each in sets.readouts]).mean,
        train_loss=sets.over_queries([fit.train_loss for fit in fits]).mean,
        bias=sets.over_queries([fit.bias for fit in fits]).mean,
        cosine=cosine,
        sharpness=sharpness,
    )


def _error(value: float) -> float:
    """The standard error of a value, if it has one."""
    return value.standard_error if isinstance(value, Estimate) else 0.0


def _mean(values: FloatArray) -> Estimate:
    return Estimate(values.mean(), values.std(ddof=1) / math.sqrt(len(values)))


def _train_error(of: Readouts) -> float:
    """The fit's, on the atoms that test errors are computed on."""
    return replace(of.fit, law=of.law).train_error


def _useless(sets: TrainingSets, protocol: Protocol, dim: int, seed: int) -> Estimate:
    """The share of queries with which the test error is no better than with mean pooling."""
    (pooled,) = finite_predictions(sets.task, Pooled(), [protocol], dim, seed)
    errors = [each.test_errors(each.law).mean() for each in sets.readouts]
    every, _ = sets.surface(np.array(errors))
    share, count = float(np.mean(every >= pooled.test_error)), len(every)
    return Estimate(share, math.sqrt(max(share * (1 - share), 1 / count) / count))

r"""Predictions at your size: averages over training sets of n₀ and n₁ samples in d dimensions.

The limit of many dimensions forgets two things that a training set of finite size does not:

* its query. Overlap and norm fluctuate by O(1/√d), with a constant that explodes where the two
  terms of the overlap nearly cancel, or where a step size was chosen to make the limit best.
  Queries are drawn exactly (`model/queries.py`); where noise is not white as vectors
  (`model/coloured_queries.py`), and frozen ones too.
* its readout. Given the query, (w, b, ρ) are normal around the limit, with the covariance of
  `fluctuations`, or `several_fluctuations`. That has in it the share of positives as it was drawn,
  which a large ridge does not forgive.

A prediction at size d is the mean over both, its spread the standard deviation between training
sets (`training_sets.py`). The K explicit directions are taken out of the p that the limit counts,
α = n₁/(p − K), and out of its spectrum. A training set with one class only names that class for
every sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.model.classifiers import AnyQuery, Classifier, Pooled, Query
from sparsetoken.model.clouds import normal_cloud
from sparsetoken.model.coloured_queries import at_size, draw_query_vector, shaped_query
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.layout import draw_layout, times
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.queries import draw_query
from sparsetoken.model.task import Task
from sparsetoken.model.words import classifier_words, protocol_words, task_words
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate
from sparsetoken.support.showing import Shown
from sparsetoken.theory.asymptotics import solve_many
from sparsetoken.theory.fit import Fit
from sparsetoken.theory.query_spread import NORMALS, spread_queries
from sparsetoken.theory.training_sets import (
    FEW_OF_A_CLASS,
    Readouts,
    TrainingSets,
    class_counts,
    lone_classes,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_QUERIES, _EVALUATED = 512, 32  # drawn, and of these with a law and a solve
_MATRICES = 20  # the same where a solve factorises matrices
_EXACT = 1 << 14  # samples up to which queries are drawn exactly; beyond, their sums are normal
_NUMBERS = 1 << 20  # samples drawn for queries, at most
_TOKENS = 1 << 24  # tokens drawn for queries where noise is not white, at most
_READOUTS, _MANY_READOUTS = 8, 256  # of each query evaluated; of the only one
_SHARES = 24  # numbers of them evaluated where there is no query


class ErrorOnTask(NamedTuple):
    """What training sets of one task give on another: mean test error, and its spread."""

    test_error: Estimate
    spread: Estimate


@dataclass(frozen=True, eq=False)
class FinitePrediction(Shown):
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
        return max(readouts.fit.residual for readouts in self.training_sets.readouts)

    @property
    def iterations(self) -> int:
        """Evaluations of the equations it took, in all."""
        return sum(readouts.fit.iterations for readouts in self.training_sets.readouts)

    def roc(self, points: int = 201) -> tuple[FloatArray, FloatArray]:
        """False positive rates, dense at both ends, and the mean true positive rate over training
        sets at each."""
        points = whole("roc", "points", points, least=3)
        false = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, points))
        return false, self.training_sets.true_positive_rates(false)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The mean ROC curve over training sets.

        Needs matplotlib; `ax` is where to draw, a new figure if None.
        """
        from sparsetoken.figures import roc

        label = f"{classifier_words(self.classifier)}, d = {self.dim}, AUC {self.auc:.3g}"
        return roc(ax, *self.roc(), name=CLASSIFIERS.kind(self.classifier), label=label)

    def paragraphs(self) -> Iterator[str | pd.DataFrame]:
        """What was asked, and means over training sets."""
        import pandas as pd

        learns = self.classifier.learns_query
        yield (
            f"{classifier_words(self.classifier)} on {task_words(self.task)}, trained with "
            f"{protocol_words(self.protocol, None, learns)}, d = {self.dim}: means over training "
            "sets"
        )
        names = ("test_error", "spread", "useless", "train_error", "train_loss", "auc", "cosine")
        row = {name: getattr(self, name) for name in names}
        yield pd.DataFrame([{name: value for name, value in row.items() if value is not None}])

    def on(self, other_task: Task) -> ErrorOnTask:
        """Test error of the same trained classifiers on another task: mean and spread."""
        why = self.classifier.possible(other_task, trained_on=self.task)
        if why is not None:
            raise InvalidInput(f"FinitePrediction: on(other_task): {why}")
        return ErrorOnTask(*self.training_sets.average(task=at_size(other_task, self.dim)))


def finite_predictions(
    task: Task,
    classifier: Classifier,
    protocols: Sequence[Protocol],
    dim: int,
    seed: int = 0,
) -> list[FinitePrediction]:
    """One prediction for each protocol; they differ in their readout samples alone."""
    given, task = task, at_size(task, dim)
    learns = classifier.learns_query
    sizes = [protocol.counts("predict", dim, learns) for protocol in protocols]
    laws = _Laws.of(task, classifier, protocols[0], dim, sizes[0][0], seed)
    if dim * laws.full.features_per_dim <= laws.directions:
        raise InvalidInput(
            f"predict: dim must be above {laws.directions} for {classifier!r}, got {dim}"
        )
    predictions: list[FinitePrediction] = []
    near: list[Fit] = []
    for protocol, (_, count) in zip(protocols, sizes, strict=True):
        sets = _training_sets(laws, protocol, dim, count, near, seed)
        near = [readouts.fit for readouts in sets.readouts]
        predictions.append(_prediction(given, laws, sets, protocol, dim, seed))
    return predictions


class _Queries(NamedTuple):
    """Every query drawn, those to be evaluated first."""

    evaluated: tuple[AnyQuery | None, ...]
    cosine: FloatArray
    sharpness: FloatArray
    draws: FloatArray  # (queries, 2), cosine and log sharpness as Σ measures lengths

    @classmethod
    def none(cls) -> _Queries:
        """Of a classifier without one."""
        return cls((None,), np.zeros(1), np.zeros(1), np.zeros((1, 2)))

    @classmethod
    def white(cls, task: Task, protocol: Protocol, dim: int, n: int, seed: int) -> _Queries:
        cosine, sharpness = _white_queries(task, protocol, dim, n, seed)
        draws = np.column_stack([cosine, np.log(np.maximum(sharpness, 1e-300))])
        beta = protocol.inverse_temperature
        some = zip(cosine[:_EVALUATED], sharpness[:_EVALUATED], strict=True)
        evaluated = tuple(Query(float(s * t / beta), float(t / beta), float(t)) for s, t in some)
        return cls(evaluated, cosine, sharpness, draws)

    @classmethod
    def shaped(
        cls, task: Task, classifier: Classifier, protocol: Protocol, dim: int, n: int, seed: int
    ) -> _Queries:
        """In noise that is not white; frozen ones too have a random direction beside ξ."""
        rng = np.random.default_rng(seed)
        layout = draw_layout(
            task.noise, task.signal_spread, dim, rng
        )  # another one is a rotation of it
        numbers = dim + n * task.length if classifier.learns_query else dim
        count = max(_EVALUATED, min(_QUERIES, _TOKENS // numbers))
        vectors = []
        for _ in range(count):
            vector = classifier.query_vector(layout.signal, rng)
            if vector is None:
                learned = draw_query_vector(task, protocol, layout, n, rng)
                vector = protocol.inverse_temperature * learned
            vectors.append(vector)
        drawn = np.array(vectors)
        overlaps, sizes = drawn @ layout.signal, np.linalg.norm(drawn, axis=1)
        scores = np.linalg.norm(times(layout.noise_root, drawn), axis=1)
        norms, scores = np.maximum(sizes, 1e-300), np.maximum(scores, 1e-300)
        draws = np.column_stack([overlaps / scores, np.log(scores)])
        few = _MATRICES if task.joint_spectrum is None else _EVALUATED
        first = _evenly_ranked(draws[:, 0], few)
        order = np.concatenate([first, np.setdiff1d(np.arange(count), first)])
        evaluated = tuple(shaped_query(task, layout, vectors[index]) for index in first)
        return cls(evaluated, (overlaps / norms)[order], sizes[order], draws[order])


def _white_queries(
    task: Task, protocol: Protocol, dim: int, n: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Cosine and sharpness of every query drawn; those to be evaluated first."""
    rng = np.random.default_rng(seed)
    if n <= _EXACT:
        count = max(_EVALUATED, min(_QUERIES, _NUMBERS // n))
        drawn = [draw_query(task, protocol, dim, n, rng) for _ in range(count)]
        cosine = np.array([query.cosine for query in drawn])
        sharpness = np.array([query.sharpness for query in drawn])
    else:
        normals = rng.standard_normal((_QUERIES, NORMALS))
        cosine, sharpness = spread_queries(task, protocol, dim, n, normals)
    first = _evenly_ranked(cosine, _EVALUATED)
    order = np.concatenate([first, np.setdiff1d(np.arange(len(cosine)), first)])
    return cosine[order], sharpness[order]


def _evenly_ranked(values: FloatArray, count: int) -> NDArray[np.intp]:
    """Places of some values from the lowest to the highest, denser at both ends, where a
    polynomial through them needs it."""
    ranks = 0.5 * (1 - np.cos(np.linspace(0, np.pi, count))) * (len(values) - 1)
    return np.argsort(values, kind="stable")[np.unique(ranks.round().astype(int))]


@dataclass(frozen=True, eq=False)
class _Laws:
    """Laws of the queries that are evaluated; `draws` (queries, 2) are of all."""

    task: Task
    classifier: Classifier
    queries: _Queries
    tested: tuple[FeatureLaw, ...]  # to score on
    solved: tuple[FeatureLaw, ...]  # to solve on
    full: FeatureLaw  # of the middle query

    @classmethod
    def of(
        cls, task: Task, classifier: Classifier, protocol: Protocol, dim: int, n: int, seed: int
    ) -> _Laws:
        """Drafts that share the middle one's choice of atoms; one law where there is no query."""
        if not task.is_white and classifier.directions > 1:
            queries = _Queries.shaped(task, classifier, protocol, dim, n, seed)
        elif not classifier.learns_query:
            full = classifier.law(task)
            law = full if full.sampled else classifier.draft(task)
            solved = beside_directions(law.compressed, dim)
            return cls(task, classifier, _Queries.none(), (law,), (solved,), full)
        else:
            queries = _Queries.white(task, protocol, dim, n, seed)
        middle = queries.evaluated[len(queries.evaluated) // 2]
        selection = classifier.draft(task, middle).draft_selection()
        tested = tuple(classifier.draft(task, query) for query in queries.evaluated)
        drafts = tuple(beside_directions(law.selected(*selection), dim) for law in tested)
        return cls(task, classifier, queries, tested, drafts, classifier.law(task, middle))

    @property
    def directions(self) -> int:
        return self.tested[0].means.shape[1]

    @property
    def covariances(self) -> int:
        return 1 if self.tested[0].scales.ndim == 1 else self.tested[0].scales.shape[1]


def beside_directions(law: FeatureLaw, dim: int) -> FeatureLaw:
    """A law to be solved at this size, its noise what the directions leave of it."""
    if law.geometry is None:
        return law  # α = n/(p − K) says it
    geometry = law.geometry.without_directions(dim * law.features_per_dim)
    return replace(law, geometry=geometry)


def _training_sets(
    laws: _Laws, protocol: Protocol, dim: int, count: int, near: list[Fit], seed: int
) -> TrainingSets:
    """Training sets of `count` readout samples: a solve for each query, begun at a fit `near`."""
    task, queries = laws.task, laws.queries
    several = len(queries.draws) > 1
    samples = count / (dim * laws.full.features_per_dim - laws.directions)
    rare = count * min(task.prevalence, 1 - task.prevalence) < FEW_OF_A_CLASS
    indices, shares = np.arange(len(queries.evaluated)), np.ones(len(queries.draws))
    if rare:
        shares = _drawn_shares(task, count, len(queries.draws) if several else _QUERIES, seed)
    if rare and not several:  # training sets differ in their classes alone
        first = _evenly_ranked(shares, _SHARES)
        shares = np.concatenate([shares[first], np.delete(shares, first)])
        indices = np.zeros(len(first), dtype=int)

    def solved(law: FeatureLaw, place: int, begin: Fit | None = None) -> Fit:
        law = law.with_prevalence(float(shares[place])) if rare else law
        return solve_many(law, protocol.loss, protocol.ridge, samples, begin)[0]

    sets = _READOUTS if len(indices) > 1 else _MANY_READOUTS
    numbers = laws.directions + 1 + laws.covariances
    normals = normal_cloud(numbers, seed + 1, sets * len(indices))
    readouts: list[Readouts] = []
    for place, index in enumerate(indices):
        begin = near[place] if len(near) == len(indices) else None
        if rare:
            begin = readouts[-1].fit if readouts else None
        fit = solved(laws.solved[index], place, begin)
        own = normals[place * sets : (place + 1) * sets]
        of = queries.evaluated[index], laws.tested[index], fit, count, own
        readouts.append(Readouts.around(*of, within_classes=rare))
    anchor = None
    if several:
        full = beside_directions(laws.full.compressed, dim)
        anchor = replace(solved(full, len(readouts) // 2), law=laws.full)
    every = np.column_stack([np.broadcast_to(queries.draws, (len(shares), 2)), np.log(shares)])
    one_class = tuple(lone_classes(task, count))
    return TrainingSets(task, laws.classifier, tuple(readouts), every, one_class, anchor)


def _drawn_shares(task: Task, n: int, count: int, seed: int) -> FloatArray:
    """The share of positives in each of many training sets, in no order.

    Quantiles of the number of positives, given that there are both classes.
    """
    counts, chances = class_counts(task, n)
    levels = (np.arange(count) + 0.5) / count
    order = np.argsort(counts)
    places = np.searchsorted(np.cumsum(chances[order]), levels).clip(0, len(counts) - 1)
    return np.asarray(np.random.default_rng([seed, 2]).permutation(counts[order][places]) / n)


def _prediction(
    task: Task, laws: _Laws, sets: TrainingSets, protocol: Protocol, dim: int, seed: int
) -> FinitePrediction:
    """The numbers of a sample of training sets."""
    error = sets.average()
    fits = [readouts.fit for readouts in sets.readouts]
    # on the atoms that test errors are computed on
    train_errors = [replace(of.fit, law=of.law).train_error for of in sets.readouts]
    useless = cosine = sharpness = None
    if sets.classifier.learns_query:
        cosine, sharpness = _mean(laws.queries.cosine), _mean(laws.queries.sharpness)
        useless = _useless(sets, protocol, dim, seed)
    return FinitePrediction(
        task=task,
        classifier=sets.classifier,
        protocol=protocol,
        dim=dim,
        training_sets=sets,
        test_error=error.mean,
        spread=error.spread,
        useless=useless,
        train_error=sets.over_queries(train_errors).mean,
        train_loss=sets.over_queries([fit.train_loss for fit in fits]).mean,
        bias=sets.over_queries([fit.bias for fit in fits]).mean,
        cosine=cosine,
        sharpness=sharpness,
    )


def _mean(values: FloatArray) -> Estimate:
    return Estimate(values.mean(), values.std(ddof=1) / math.sqrt(len(values)))


def _useless(sets: TrainingSets, protocol: Protocol, dim: int, seed: int) -> Estimate:
    """The share of queries with which the test error is no better than with mean pooling."""
    (pooled,) = finite_predictions(sets.task, Pooled(), [protocol], dim, seed)
    errors = [readouts.test_errors(readouts.law).mean() for readouts in sets.readouts]
    every, _ = sets.surface(np.array(errors))
    share, count = float(np.mean(every >= pooled.test_error)), len(every)
    return Estimate(share, math.sqrt(max(share * (1 - share), 1 / count) / count))

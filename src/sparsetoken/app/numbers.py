"""The numbers that the page shows: exact, or as a draft while a slider moves.

Exact numbers are those of the library's public functions with the same arguments; a draft replaces
the law of attention by a few dozen atoms and is good to about 0.005. Where a number was integrated
over a sampled law, its standard error comes with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.app.state import State
from sparsetoken.model import coloured
from sparsetoken.model.attention import token_scores
from sparsetoken.model.classifiers import AnyQuery, Attention, Classifier, Pooled, Query
from sparsetoken.model.coloured import ShapedQuery, generic_query
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.oracles.bayes_learning import bayes_curve, hard_phase
from sparsetoken.oracles.oracle import bayes_error, oracle_error
from sparsetoken.planning.advice import Plan
from sparsetoken.planning.plan import plan
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory.alignment import align
from sparsetoken.theory.asymptotics import solve_many
from sparsetoken.theory.fit import Fit
from sparsetoken.theory.prediction import capacity, learning_curve, predict

SAMPLES = tuple(np.geomspace(0.1, 100.0, 17).tolist())  # of curves, per dimension
_DRAFT_DEGREE = 3  # of the moments that the atoms of a draft keep
_DRAWS = 4096  # of samples whose attention is averaged
_REGRESSION = ("square", "huber")  # losses that want the labels themselves: with little ridge the
# error has a peak where readouts begin to be unable to, at as many samples as features
_PEAK = (0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25)  # times that many: points of curves there
_KEPT = 64  # tables of each kind that are not computed again


METRICS = ("test_error", "auc", "train_loss")


def samples(state: State, every: int = 1) -> tuple[float, ...]:
    """Of the curves, per dimension; with the peak of a regression's error, if it has one.

    >>> set(samples(State(length=5, loss="square"))) >= {1.0, 5.0}
    True
    """
    grid = set(SAMPLES[::every])
    if state.loss in _REGRESSION:
        for features in (1, state.length):  # of attention and the mean, of all tokens
            grid |= {
                features * near for near in _PEAK if SAMPLES[0] < features * near < SAMPLES[-1]
            }
    return tuple(sorted(grid))


class Row(NamedTuple):
    """One number of a curve."""

    series: str
    x: float
    y: float


class Curve(NamedTuple):
    """The numbers of a curve and the largest of their standard errors."""

    x: tuple[float, ...]
    y: list[float]
    error: float


def classifiers(state: State) -> dict[str, Classifier]:
    """Those that have a theory of the task, in the order of their names."""
    task = state.task
    made = {name: CLASSIFIERS.make(name, **state.options) for name in CLASSIFIERS}
    return {name: kind for name, kind in made.items() if kind.possible(task) is None}


def query_of(state: State) -> AnyQuery:
    """The query that stages 1–3 learn, or the frozen one."""
    if state.query == "learned":
        return align(state.task, state.protocol)
    if not state.task.is_white:
        return generic_query(state.task, state.cosine, state.sharpness)
    return Query(overlap=state.cosine, norm=1.0, sharpness=state.sharpness)


def curves_draft(state: State) -> list[Row]:
    """Learning curves, quickly: every other point, and each draft begins where the last ended."""
    rows: list[Row] = []
    with one_blas_thread():
        query = query_of(state)
        for name, classifier in classifiers(state).items():
            rows += _draft(state, name, classifier.sketch(state.task, query))
    return rows


@lru_cache(maxsize=_KEPT)
def curves(state: State) -> dict[str, Curve]:
    """Learning curves of the metric that is shown, by classifier: the standard errors of an AUC
    take as long as all the rest."""
    made, grid = {}, samples(state)
    for name, classifier in classifiers(state).items():
        curve = learning_curve(state.task, classifier, state.protocol, grid)
        values = [getattr(prediction, state.metric) for prediction in curve.predictions]
        made[name] = Curve(grid, list(map(float, values)), max(map(standard_error, values)))
    return made


def standard_error(value: float) -> float:
    """Of an `Estimate`; a plain number has none."""
    return float(getattr(value, "standard_error", 0.0))


_last: dict[str, tuple[State, list[Fit]]] = {}  # the last draft of each classifier


def _draft(state: State, name: str, full: FeatureLaw) -> list[Row]:
    protocol = state.protocol
    law = _smaller(full)
    grid = samples(state, every=2)
    before, near = _last.get(name, (None, None))
    if before is None or not _close(before, state):
        near = None
    fits = solve_many(
        law, protocol.loss, protocol.ridge, np.array(grid) / law.features_per_dim, near
    )
    _last[name] = state, fits
    sources = fits if state.metric == "train_loss" else [full.scores(fit.readout) for fit in fits]
    return _rows(name, grid, (getattr(source, state.metric) for source in sources))


def _close(one: State, other: State) -> bool:
    """Whether no control, or a single one and that by less than a fifth, has moved between them."""
    old, new = vars(one), vars(other)
    moved = [(old[name], new[name]) for name in old if old[name] != new[name]]
    if len(moved) != 1:
        return not moved
    before, after = moved[0]
    return isinstance(before, float) and abs(before - after) < 0.2 * max(abs(before), abs(after))


class Floor(NamedTuple):
    """An error that no number of samples gets below, with its standard error."""

    name: str
    error: float
    standard_error: float


@lru_cache(maxsize=_KEPT)
def floors(state: State) -> list[Floor]:
    """Of any test, of the best attention, of the best mean pooling, with the signal known."""
    task = state.task
    if task.has_spread:  # of the others no more is known than that they are between 0 and this
        best = {"pooled": oracle_error(task, Pooled())}
    else:
        best = {"Bayes": bayes_error(task)}
        for kind in (Attention(weighting=state.attention.weighting), Pooled()):
            best[CLASSIFIERS.kind(kind)] = oracle_error(task, kind)
    return [Floor(name, float(error), standard_error(error)) for name, error in best.items()]


@lru_cache(maxsize=_KEPT)
def capacities(state: State) -> dict[str, float]:
    """Samples per dimension up to which the training data are separable; inf where always."""
    kinds = classifiers(state).items()
    return {name: float(capacity(state.task, kind, state.protocol)) for name, kind in kinds}


@lru_cache(maxsize=_KEPT)
def learners(state: State) -> list[Row]:
    """The error of the best learner of all samples, those of the query among them ("any"); of
    message passing as far as it is stuck, and where that is. None for a frozen query: it is told
    what these have to learn; none for signals with a spread, which take ever fewer samples the more
    dimensions there are.
    """
    if state.query != "learned" or state.task.has_spread:
        return []
    own = state.query_samples
    curve = bayes_curve(state.task, [own + samples for samples in SAMPLES])
    rows = _rows("any", SAMPLES, curve.test_error)
    phase = hard_phase(state.task)
    if phase is None or phase.end - own <= SAMPLES[0] or phase.begin - own >= SAMPLES[-1]:
        return rows
    begin, end = (float(np.clip(at - own, SAMPLES[0], SAMPLES[-1])) for at in phase[:2])
    hard = np.geomspace(begin, end, 9)[1:-1]
    stuck = bayes_curve(state.task, (own + hard).tolist()).reachable
    return rows + _rows("message passing", hard, stuck.test_error)


class Chosen(NamedTuple):
    """A classifier at the chosen samples: what the snippets print, and the standard errors."""

    values: dict[str, float]
    errors: dict[str, float]


@lru_cache(maxsize=_KEPT)
def chosen(state: State) -> dict[str, Chosen]:
    """The numbers at the chosen samples, by classifier."""
    table = {}
    for name, classifier in classifiers(state).items():
        prediction = predict(state.task, classifier, state.protocol)
        names = ("test_error", "auc", "train_loss", "train_error")
        numbers = {number: getattr(prediction, number) for number in names}
        errors = {number: standard_error(value) for number, value in numbers.items()}
        table[name] = Chosen({number: float(value) for number, value in numbers.items()}, errors)
    return table


@lru_cache(maxsize=_KEPT)
def roc(state: State) -> list[Row]:
    """True over false positive rate of the classifiers."""
    rows: list[Row] = []
    for name, classifier in classifiers(state).items():
        rows += _rows(name, *predict(state.task, classifier, state.protocol).roc(101))
    return rows


def roc_draft(state: State) -> list[Row]:
    """The same of a sketch of the laws."""
    rows: list[Row] = []
    with one_blas_thread():
        query = query_of(state)
        for name, classifier in classifiers(state).items():
            full = classifier.sketch(state.task, query)
            law = _smaller(full)
            chosen_samples = np.array([state.readout_samples]) / law.features_per_dim
            (fit,) = solve_many(law, state.protocol.loss, state.ridge, chosen_samples)
            rows += _rows(name, *full.scores(fit.readout).roc(51))
    return rows


def alignment(state: State) -> list[Row]:
    """Cosine of the query with the signal over query samples."""
    return [
        Row("cosine", x, align(state.task, replace(state.protocol, query_samples=x)).cosine)
        for x in SAMPLES
    ]


def weight_on_signal(state: State, query: AnyQuery) -> Estimate:
    """Mean of the weights that attention puts on the signal tokens of a positive sample."""
    task = state.task
    noise = np.random.default_rng(0).standard_normal((_DRAWS, task.normals))
    ones = np.ones(_DRAWS)
    if isinstance(query, ShapedQuery):
        scores = coloured.token_scores(noise, ones, task, coloured.frame(task, query)).total
    else:
        scores, _, _ = token_scores(noise, ones, task, query.cosine)
    weights = state.attention.weighting.weights(query.sharpness * scores)
    caught = weights[:, : task.sparsity].sum(axis=1)
    return Estimate(float(caught.mean()), float(caught.std(ddof=1)) / math.sqrt(_DRAWS))


@lru_cache(maxsize=16)
def planned(state: State) -> Plan:
    """The planner's answer for the target error."""
    training: dict[str, Any] = {"loss": state.loss_function, "weighting": state.attention.weighting}
    return plan(state.task, state.dim, target_error=state.target, **training)


def _rows(series: str, xs: Iterable[float], ys: Iterable[float]) -> list[Row]:
    return [Row(series, float(x), float(y)) for x, y in zip(xs, ys, strict=True)]


def _smaller(law: FeatureLaw) -> FeatureLaw:
    return law.smaller(_DRAFT_DEGREE, slices=1) if law.sampled else law

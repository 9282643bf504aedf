"""What the page draws, as tables: one function a view, exact, or as a draft while a slider moves.

Exact numbers are those of the library's public functions with the same arguments; a draft replaces
the law of attention by a few dozen atoms and is good to about 0.005.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.app.state import CONTROLS, State
from sparsetoken.model.attention import token_scores
from sparsetoken.model.classifiers import AnyQuery, Attention, Classifier, Pooled, Query
from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.oracles.bayes_learning import bayes_curve, hard_phase
from sparsetoken.oracles.oracle import bayes_error, oracle_error
from sparsetoken.planning.plan import plan
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.errors import InvalidInput
from sparsetoken.theory.alignment import align
from sparsetoken.theory.asymptotics import solve_many
from sparsetoken.theory.fit import Fit
from sparsetoken.theory.prediction import capacity, learning_curve, predict

SAMPLES = tuple(np.geomspace(0.1, 100.0, 17).tolist())  # of curves, per dimension
_DRAFT_SAMPLES = SAMPLES[::2]
_DRAFT_DEGREE = 3  # of the moments that the atoms of a draft keep
_DRAWS = 4096  # of samples whose attention is shown
_COARSE = 8  # cells between those of the map that are computed first; a power of two
_KEPT = 64  # tables of each kind that are not computed again


class Row(NamedTuple):
    """One plotted number."""

    series: str
    x: float
    y: float


def _rows(series: str, xs: Iterable[float], ys: Iterable[float]) -> list[Row]:
    return [Row(series, float(x), float(y)) for x, y in zip(xs, ys, strict=True)]


def classifiers(state: State) -> dict[str, Classifier]:
    """Those that have a theory of the task, in the order of their names."""
    task = state.task
    made = {name: CLASSIFIERS.make(name, **state.options) for name in CLASSIFIERS}
    return {name: kind for name, kind in made.items() if kind.possible(task) is None}


def curves_draft(state: State) -> list[Row]:
    """Learning curves, quickly: every other point, and each draft begins where the last ended."""
    rows: list[Row] = []
    with one_blas_thread():  # those that are exact have a process of one thread
        query = _query(state)
        for name, classifier in classifiers(state).items():
            rows += _draft(state, name, classifier.sketch(state.task, query))
    return rows


@lru_cache(maxsize=_KEPT)
def curves(state: State) -> list[Row]:
    """Learning curves, exact."""
    rows: list[Row] = []
    for name, classifier in classifiers(state).items():
        curve = learning_curve(state.task, classifier, state.protocol, SAMPLES)
        rows += _rows(name, SAMPLES, getattr(curve, state.metric))
    return rows


_last: dict[str, tuple[State, list[Fit]]] = {}  # the last draft of each classifier


def _draft(state: State, name: str, full: FeatureLaw) -> list[Row]:
    protocol = state.protocol
    law = full.smaller(_DRAFT_DEGREE, slices=1) if full.sampled else full
    samples = np.array(_DRAFT_SAMPLES) / law.features_per_dim
    before, near = _last.get(name, (None, None))
    if before is None or not _close(before, state):
        near = None
    fits = solve_many(law, protocol.loss, protocol.ridge, samples, near)
    _last[name] = state, fits
    sources = fits if state.metric == "train_loss" else [full.scores(fit.readout) for fit in fits]
    return _rows(name, _DRAFT_SAMPLES, (getattr(source, state.metric) for source in sources))


def _close(one: State, other: State) -> bool:
    """Whether no control, or a single one and that by less than a fifth, has moved between them."""
    old, new = vars(one), vars(other)
    moved = [(old[name], new[name]) for name in old if old[name] != new[name]]
    if len(moved) != 1:
        return not moved
    before, after = moved[0]
    return isinstance(before, float) and abs(before - after) < 0.2 * max(abs(before), abs(after))


def _query(state: State) -> AnyQuery:
    """The query that stages 1–3 learn, or the frozen one."""
    if state.query == "learned":
        return align(state.task, state.protocol)
    return Query(overlap=state.cosine, norm=1.0, sharpness=state.sharpness)


@lru_cache(maxsize=_KEPT)
def marks(state: State) -> list[Row]:
    """Floors (errors that no number of samples gets below), capacities, what can be learned.

    A floor has x = nan and its error as y, a capacity the samples as x and y = nan; of what can be
    learned by anyone, and by message passing where that is less, there is a row a point.
    """
    rows = []
    task = state.task
    if state.metric == "test_error":
        rows.append(Row("floor: Bayes", math.nan, float(bayes_error(task))))
        for kind in (Attention(weighting=state.attention.weighting), Pooled()):
            name = CLASSIFIERS.kind(kind)
            rows.append(Row(f"floor: {name}", math.nan, float(oracle_error(task, kind))))
        if state.query == "learned":  # a frozen one is told what others have to learn
            rows += _learned(state)
    for name, classifier in classifiers(state).items():
        limit = float(capacity(task, classifier, state.protocol))
        rows.append(Row(f"capacity: {name}", limit, math.nan))
    return rows


def _learned(state: State) -> list[Row]:
    """The error of the best learner of all samples, those of the query among them; of message
    passing as far as it is stuck, and where that is."""
    own = state.query_samples
    curve = bayes_curve(state.task, [own + samples for samples in SAMPLES])
    rows = _rows("learner: any", SAMPLES, curve.test_error)
    phase = hard_phase(state.task)
    if phase is None or phase.end - own <= SAMPLES[0] or phase.begin - own >= SAMPLES[-1]:
        return rows
    begin, end = (float(np.clip(at - own, SAMPLES[0], SAMPLES[-1])) for at in phase[:2])
    hard = np.geomspace(begin, end, 9)[1:-1]
    stuck = bayes_curve(state.task, (own + hard).tolist()).reachable
    return rows + _rows("learner: message passing", hard, stuck.test_error)


@lru_cache(maxsize=_KEPT)
def chosen(state: State) -> dict[str, dict[str, float]]:
    """The numbers at the chosen samples, by classifier: what the snippets print."""
    table = {}
    for name, classifier in classifiers(state).items():
        prediction = predict(state.task, classifier, state.protocol)
        numbers = ("test_error", "auc", "train_loss", "train_error")
        table[name] = {number: float(getattr(prediction, number)) for number in numbers}
    return table


@lru_cache(maxsize=_KEPT)
def roc(state: State) -> list[Row]:
    """True over false positive rate of the classifiers."""
    rows: list[Row] = []
    for name, classifier in classifiers(state).items():
        rows += _rows(name, *predict(state.task, classifier, state.protocol).roc(101))
    return rows


def alignment(state: State) -> list[Row]:
    """Cosine of the query with the signal over query samples; the chosen ones are marked."""
    rows = [
        Row("cosine", x, align(state.task, replace(state.protocol, query_samples=x)).cosine)
        for x in SAMPLES
    ]
    return [*rows, Row("chosen", state.query_samples, align(state.task, state.protocol).cosine)]


def attention(state: State) -> list[Row]:
    """How tokens score, and how much weight lands on signal tokens of positive samples.

    Densities of ⟨q̂, x⟩ over its value ("noise tokens", "signal tokens"), and the share of positive
    samples ("weight on signal") whose signal tokens get at least so much weight.
    """
    task, query = state.task, _query(state)
    shift = task.fixed_strength * query.cosine
    grid = np.linspace(min(-4.0, shift - 4), max(4.0, shift + 4), 81)
    rows = []
    for name, mean in (("noise tokens", 0.0), ("signal tokens", shift)):
        rows += _rows(name, grid, np.exp(-0.5 * (grid - mean) ** 2) / math.sqrt(2 * math.pi))
    noise = np.random.default_rng(0).standard_normal((_DRAWS, task.normals))
    scores, _, _ = token_scores(noise, np.ones(_DRAWS), task, query.cosine)
    weights = state.attention.weighting.weights(query.sharpness * scores)
    caught = np.sort(weights[:, : task.sparsity].sum(axis=1))
    levels = np.linspace(0.0, 1.0, 51)
    above = 1 - np.searchsorted(caught, levels, "left") / _DRAWS
    rows += _rows("weight on signal", levels, above)
    return [*rows, Row("mean weight on signal", float(caught.mean()), 0.5)]


class Cell(NamedTuple):
    """One cell of the map: the values of its axes, the winner and by how much it wins."""

    x: float
    y: float
    winner: str
    edge: float


def map_axes(state: State, columns: int = 12, lines: int = 9) -> tuple[list[float], list[float]]:
    """Values of the two parameters of the map, each over its range."""
    return _axis(state, state.across, columns), _axis(state, state.up, lines)


def _axis(state: State, name: str, count: int) -> list[float]:
    control = CONTROLS[name]
    most = state.length if name == "sparsity" else control.most
    spaced = np.geomspace if control.log else np.linspace
    values = spaced(control.least, most, count)
    return [float(value) for value in (np.unique(np.round(values)) if control.whole else values)]


def map_order(columns: int, lines: int) -> Sequence[tuple[int, int]]:
    """Places of the cells, coarse first, so that the map fills in everywhere at once."""
    places = ((column, line) for line, column in product(range(lines), range(columns)))
    return sorted(places, key=lambda place: -math.gcd(*place, _COARSE))


@lru_cache(maxsize=4096)
def map_cell(state: State, x: float, y: float) -> Cell | None:
    """Which classifier is best there, and by how much; None where there is no such task."""
    moved: dict[str, Any] = {state.across: x, state.up: y}
    try:
        there = replace(state, **moved)
    except InvalidInput:
        return None
    values = {name: numbers[state.metric] for name, numbers in chosen(there).items()}
    *_, second, best = sorted(values, key=values.__getitem__, reverse=state.metric != "auc")
    return Cell(x, y, best, abs(values[best] - values[second]))


@lru_cache(maxsize=16)
def planned(state: State) -> tuple[str, list[dict[str, Any]], str]:
    """The planner's headline, table and warnings for the target error."""
    training: dict[str, Any] = {"loss": state.loss_function, "weighting": state.attention.weighting}
    advice = plan(state.task, state.dim, target_error=state.target, **training)
    rows = [option.row(advice.unknown) for option in advice.options]
    return advice.headline, rows, " ".join(f"Warning: {words}." for words in advice.warnings)

"""What the page draws, as tables: one function a view, exact, or as a draft while a slider moves.

Exact numbers are those of the library's public functions with the same arguments; a draft replaces
the law of attention by a few dozen atoms and is good to about 0.005.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.app.state import AXES, CONTROLS, State
from sparsetoken.model.attention import attention_law, token_scores
from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Query
from sparsetoken.model.names import CLASSIFIERS
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
_DRAFT_POINTS, _DRAFT_DEGREE = 1024, 3
_DRAWS = 4096
_KEPT = 64  # tables of each kind that are not computed again


class Row(NamedTuple):
    """One plotted number."""

    series: str
    x: float
    y: float


def classifiers(state: State) -> dict[str, Classifier]:
    """Those that have a theory of the task, in the order of their names."""
    task = state.task
    made = {name: CLASSIFIERS.make(name, **state.options) for name in CLASSIFIERS}
    return {name: each for name, each in made.items() if each.possible(task) is None}


def curves_draft(state: State) -> list[Row]:
    """Learning curves, quickly: every other point, and each draft begins where the last ended."""
    rows: list[Row] = []
    with one_blas_thread():
        for name, classifier in classifiers(state).items():
            rows += _draft(state, name, classifier)
    return rows


@lru_cache(maxsize=_KEPT)
def curves(state: State) -> tuple[Row, ...]:
    """Learning curves, exact."""
    rows: list[Row] = []
    with one_blas_thread():
        for name, classifier in classifiers(state).items():
            rows += _curve(state, name, classifier)
    return tuple(rows)


def _curve(state: State, name: str, classifier: Classifier) -> list[Row]:
    found = learning_curve(state.task, classifier, state.protocol, SAMPLES)
    values = getattr(found, state.metric)
    return [Row(name, x, float(y)) for x, y in zip(SAMPLES, values, strict=True)]


_last: dict[str, tuple[State, list[Fit]]] = {}  # the last draft of each classifier


def _draft(state: State, name: str, classifier: Classifier) -> list[Row]:
    protocol = state.protocol
    weighting = getattr(classifier, "weighting", None)
    if weighting is None:
        law = full = classifier.law(state.task)
    else:  # its law has many points
        query = _query(state)
        full = attention_law(
            state.task, query.cosine, query.sharpness, points=_DRAFT_POINTS, weighting=weighting
        )
        law = full.smaller(_DRAFT_DEGREE, 1)
    samples = np.array(_DRAFT_SAMPLES) / law.features_per_dim
    before, near = _last.get(name, (None, None))
    if before is None or not _close(before, state):
        near = None
    fits = solve_many(law, protocol.loss, protocol.ridge, samples, near)
    _last[name] = state, fits
    rows = []
    for x, fit in zip(_DRAFT_SAMPLES, fits, strict=True):
        source = fit if state.metric == "train_loss" else full.scores(fit.readout)
        rows.append(Row(name, x, float(getattr(source, state.metric))))
    return rows


def _close(one: State, other: State) -> bool:
    """Whether no control, or a single one and that by less than a fifth, has moved between them."""
    old, new = vars(one), vars(other)
    moved = [(old[name], new[name]) for name in old if old[name] != new[name]]
    if len(moved) != 1:
        return not moved
    before, after = moved[0]
    whole = not (isinstance(before, float) and isinstance(after, float))
    return not whole and abs(before - after) < 0.2 * max(abs(before), abs(after))


def _query(state: State) -> Query:
    """The query that stages 1–3 learn, or the frozen one."""
    if state.query == "learned":
        return align(state.task, state.protocol)
    return Query(overlap=state.cosine, norm=1.0, sharpness=state.sharpness)


@lru_cache(maxsize=_KEPT)
def marks(state: State) -> tuple[Row, ...]:
    """Floors (errors that no number of samples gets below) and capacities, as series of their own.

    A floor has x = nan and its error as y, a capacity the samples as x and y = nan.
    """
    rows = []
    task = state.task
    with one_blas_thread():
        if state.metric == "test_error":
            rows.append(Row("floor: Bayes", math.nan, float(bayes_error(task))))
            for kind in (Attention(weighting=state.attention.weighting), Pooled()):
                name = CLASSIFIERS.kind(kind)
                rows.append(Row(f"floor: {name}", math.nan, float(oracle_error(task, kind))))
        for name, classifier in classifiers(state).items():
            limit = float(capacity(task, classifier, state.protocol))
            rows.append(Row(f"capacity: {name}", limit, math.nan))
    return tuple(rows)


@lru_cache(maxsize=_KEPT)
def chosen(state: State) -> dict[str, dict[str, float]]:
    """The numbers at the chosen samples, by classifier: what the snippets print."""
    found = {}
    with one_blas_thread():
        for name, classifier in classifiers(state).items():
            p = predict(state.task, classifier, state.protocol)
            found[name] = {
                number: float(getattr(p, number))
                for number in ("test_error", "auc", "train_loss", "train_error")
            }
    return found


class AtSize(NamedTuple):
    """Attention's test error over training sets of the state's dimension."""

    mean: float
    standard_error: float
    spread: float
    useless: float | None


@lru_cache(maxsize=_KEPT)
def at_size(state: State) -> AtSize:
    """What `predict` says with `dim`, at the chosen samples."""
    with one_blas_thread():
        found = predict(state.task, state.attention, state.protocol, state.dim)
    error = found.test_error
    useless = None if found.useless is None else float(found.useless)
    return AtSize(float(error), error.standard_error, float(found.spread), useless)


@lru_cache(maxsize=_KEPT)
def roc(state: State) -> tuple[Row, ...]:
    """True over false positive rate of the three classifiers."""
    rows: list[Row] = []
    with one_blas_thread():
        for name, classifier in classifiers(state).items():
            false, true = predict(state.task, classifier, state.protocol).roc(101)
            rows += [Row(name, float(x), float(y)) for x, y in zip(false, true, strict=True)]
    return tuple(rows)


def alignment(state: State) -> list[Row]:
    """Cosine of the query with the signal over query samples; the chosen ones are marked."""
    rows = [
        Row("cosine", x, align(state.task, replace(state.protocol, query_samples=x)).cosine)
        for x in SAMPLES
    ]
    here = align(state.task, state.protocol).cosine
    return [*rows, Row("chosen", state.query_samples, here)]


def attention(state: State) -> list[Row]:
    """How tokens score, and how much weight lands on signal tokens of positive samples.

    Densities of ⟨q̂, x⟩ over its value ("noise tokens", "signal tokens"), and the share of positive
    samples ("weight on signal") whose signal tokens get at least so much weight.
    """
    task, query = state.task, _query(state)
    sharpness = query.sharpness
    shift = task.fixed_strength * query.cosine
    grid = np.linspace(min(-4.0, shift - 4), max(4.0, shift + 4), 81)
    rows = []
    for name, mean in (("noise tokens", 0.0), ("signal tokens", shift)):
        density = np.exp(-0.5 * (grid - mean) ** 2) / math.sqrt(2 * math.pi)
        rows += [Row(name, float(x), float(y)) for x, y in zip(grid, density, strict=True)]
    noise = np.random.default_rng(0).standard_normal((_DRAWS, task.normals))
    scores, _, _ = token_scores(noise, np.ones(_DRAWS), task, query.cosine)
    weights = state.attention.weighting.weights(sharpness * scores)
    caught = np.sort(weights[:, : task.sparsity].sum(axis=1))
    for level in np.linspace(0.0, 1.0, 51):
        above = 1 - np.searchsorted(caught, level, "left") / _DRAWS
        rows.append(Row("weight on signal", float(level), float(above)))
    rows.append(Row("mean weight on signal", float(caught.mean()), 0.5))
    return rows


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
    assert name in AXES
    control = CONTROLS[name]
    least, most = control.least, control.most
    if name == "sparsity":
        most = state.length
    values = np.geomspace(least, most, count) if control.log else np.linspace(least, most, count)
    if control.whole:
        values = np.unique(np.round(values))
    return [float(value) for value in values]


def map_order(columns: int, lines: int) -> Iterator[tuple[int, int]]:
    """Places of the cells, coarse first, so that the map fills in everywhere at once."""
    seen = set()
    step = 8
    while step:
        for line in range(0, lines, step):
            for column in range(0, columns, step):
                if (column, line) not in seen:
                    seen.add((column, line))
                    yield column, line
        step //= 2


@lru_cache(maxsize=4096)
def map_cell(state: State, x: float, y: float) -> Cell | None:
    """Which classifier is best there, and by how much; None where there is no such task."""
    try:
        moved: dict[str, Any] = {state.across: x, state.up: y}
        there = replace(state, **moved)
    except InvalidInput:
        return None
    values = {name: found[state.metric] for name, found in chosen(there).items()}
    best_last = sorted(values, key=values.__getitem__, reverse=state.metric != "auc")
    edge = abs(values[best_last[-1]] - values[best_last[-2]])
    return Cell(x, y, best_last[-1], edge)


@lru_cache(maxsize=16)
def planned(state: State) -> tuple[str, list[dict[str, Any]], str]:
    """The planner's headline, table and warnings for the target error."""
    advice = plan(
        state.task, state.dim, target_error=state.target, loss=state.loss_function,
        weighting=state.attention.weighting,
    )  # fmt: skip
    rows = [option.row(advice.unknown) for option in advice.options]
    return advice.headline, rows, " ".join(f"Warning: {words}." for words in advice.warnings)

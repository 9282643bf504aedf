"""The map: attention against the best linear classifier over two parameters, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.app.numbers import chosen, classifiers, query_of
from sparsetoken.app.state import CONTROLS, State
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.errors import InvalidInput
from sparsetoken.theory.asymptotics import solve_many

COLUMNS, LINES = 13, 10
_COARSE = 8  # cells between those that are computed first; a power of two
_DEGREE = 3  # of the moments that the atoms of a draft keep
LEAST = 1e-12  # nothing is known better: what is below counts as that
TIE = 0.01  # a difference by less than this part is none


class Axes(NamedTuple):
    """Values of the two parameters, each over its range."""

    x: list[float]
    y: list[float]


def axes(state: State) -> Axes:
    """Of the map of a state."""
    return Axes(_axis(state, state.across, COLUMNS), _axis(state, state.up, LINES))


def _axis(state: State, name: str, count: int) -> list[float]:
    control = CONTROLS[name]
    most = state.length if name == "sparsity" and "length" not in moved(state) else control.most
    spaced = np.geomspace if control.log else np.linspace
    values = spaced(control.least, most, count)
    return [float(value) for value in (np.unique(np.round(values)) if control.whole else values)]


def moved(state: State) -> tuple[str, str]:
    """The parameters of the map."""
    return state.across, state.up


def order(columns: int, lines: int) -> Sequence[tuple[int, int]]:
    """Places of the cells, coarse first, so that the map fills in everywhere at once."""
    places = ((column, line) for line, column in product(range(lines), range(columns)))
    return sorted(places, key=lambda place: -math.gcd(*place, _COARSE))


def there(state: State, x: float, y: float) -> State | None:
    """The state of a cell; None where there is no such task."""
    changed: dict[str, Any] = {state.across: x, state.up: y}
    try:
        return replace(state, **changed)
    except InvalidInput:
        return None


class Cell(NamedTuple):
    """log₁₀ of attention's badness over that of the best linear classifier; below 0 it wins.

    Badness is the test error, one minus the AUC, or the training loss; the standard error is that
    of the logarithm.
    """

    log_ratio: float
    standard_error: float = 0.0


def cell(state: State) -> Cell:
    """Of the exact numbers of a state."""
    at_samples = chosen(state)
    values = {name: at.values[state.metric] for name, at in at_samples.items()}
    bad, ratio = _log_ratio(state, values)
    relative = at_samples["attention"].errors[state.metric] / bad
    return Cell(ratio, 0.0 if bad <= LEAST else relative / math.log(10))


def cell_draft(state: State) -> Cell:
    """Of sketches of the laws, in milliseconds."""
    values = {}
    with one_blas_thread():
        query = query_of(state)
        for name, classifier in classifiers(state).items():
            full = classifier.sketch(state.task, query)
            law = full.smaller(_DEGREE, slices=1) if full.sampled else full
            samples = np.array([state.readout_samples]) / law.features_per_dim
            (fit,) = solve_many(law, state.protocol.loss, state.ridge, samples)
            source = fit if state.metric == "train_loss" else full.scores(fit.readout)
            values[name] = float(getattr(source, state.metric))
    return Cell(_log_ratio(state, values)[1])


def _log_ratio(state: State, values: dict[str, float]) -> tuple[float, float]:
    """Attention's badness, and the ratio; 0 where the two are the same for all that is known."""
    bad = {name: 1 - x if state.metric == "auc" else x for name, x in values.items()}
    bad = {name: max(x, LEAST) for name, x in bad.items()}
    linear = min(x for name, x in bad.items() if name != "attention")
    ratio = math.log10(bad["attention"] / linear)
    return bad["attention"], 0.0 if abs(ratio) < math.log10(1 + TIE) else ratio

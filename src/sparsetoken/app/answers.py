"""What a page may ask: each kind of answer with the fields it depends on and the work it takes.

An answer is computed for those fields alone (`Kind.state`), so that pages that differ in what does
not matter share it; it is data for JSON. `KINDS` is in the order in which a page needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparsetoken.app import maps, numbers, reasons
from sparsetoken.app.snippets import as_command, as_python
from sparsetoken.app.state import CONTROLS, FROZEN, STEPS, TASK, State
from sparsetoken.model.preprocessing import whitened
from sparsetoken.model.task import Task
from sparsetoken.planning.advice import Option, range_warnings, scatter_warnings
from sparsetoken.planning.report import whitening_words
from sparsetoken.support.text import json_ready, number_text
from sparsetoken.theory.prediction import predict

Answer = dict[str, Any]
_TAUGHT = (*TASK, "query_samples", "loss", "query", "weighting", *FROZEN, *STEPS)
_CURVE = (*_TAUGHT, "ridge")
_POINT = (*_CURVE, "readout_samples")


def curves(state: State) -> Answer:
    """Of the metric that is shown."""
    made = numbers.curves(state)
    return {
        "series": {name: {"x": curve.x, "y": curve.y} for name, curve in made.items()},
        "error": max((curve.error for curve in made.values()), default=0.0),
    }


def curves_draft(state: State) -> Answer:
    """The same, quickly."""
    query = numbers.query_of(state)
    return _lines(numbers.curves_draft(state)) | {"cosine": query.cosine}


def roc_draft(state: State) -> Answer:
    return _lines(numbers.roc_draft(state))


def roc(state: State) -> Answer:
    errors = [at.errors["auc"] for at in numbers.chosen(state).values()]
    return _lines(numbers.roc(state)) | {"error": max(errors, default=0.0)}


def alignment(state: State) -> Answer:
    """Quick, and exact."""
    query = numbers.query_of(state)
    return _lines(numbers.alignment(state)) | {
        "at": {"x": state.query_samples, "y": query.cosine}, "error": 0.0,
    }  # fmt: skip


def table(state: State) -> Answer:
    """The numbers at the chosen samples, and the reason for them."""
    at_samples = numbers.chosen(state)
    return {
        "rows": [{"classifier": name, **at.values} for name, at in at_samples.items()],
        "error": max((max(at.errors.values()) for at in at_samples.values()), default=0.0),
        "reasons": reasons.sentences(state),
    }


def floors(state: State) -> Answer:
    levels = numbers.floors(state)
    return {
        "floors": [floor._asdict() for floor in levels],
        "error": max(floor.standard_error for floor in levels),
    }


def capacities(state: State) -> Answer:
    return {"capacities": numbers.capacities(state)}


def learners(state: State) -> Answer:
    return _lines(numbers.learners(state))


def doubts(state: State) -> Answer:
    """What is different in d dimensions from the limit that is drawn, for attention; often none."""
    return {"words": _doubts(state)}


def _doubts(state: State) -> str:
    query_samples = state.query_samples if state.query == "learned" else 0.0
    counts = [round(share * state.dim) for share in (query_samples, state.readout_samples)]
    if counts[1] < 2 or (state.query == "learned" and counts[0] < 1):
        return f"At d = {state.dim}: so few samples per dimension are none."
    here = predict(state.task_of_dim, state.attention, state.protocol, state.dim)
    mean, limit = here.test_error, numbers.chosen(state)["attention"].values["test_error"]
    words = list(scatter_warnings("attention's test error", mean, here.spread, here.useless))
    words += range_warnings(state.task, state.dim, *counts)
    if abs(mean - limit) > max(0.1 * limit, 4 * mean.standard_error):
        words.insert(0, f"attention's mean test error is {mean:.3g}, not {limit:.3g}")
    return f"At d = {state.dim}: {'; '.join(words)}." if words else ""


def plan(state: State) -> Answer:
    """The planner's answer, and for each classifier the words that set the page to it."""
    advice = numbers.planned(state)
    errors = [numbers.standard_error(o.value) for o in advice.options if o.value is not None]
    headline = advice.headline
    if advice.best is not None and advice.best.shrinkage is not None:
        headline = f"{headline} {whitening_words(advice.best.shrinkage)}"
    apply = {o.classifier: _words(o, advice.task) for o in advice.options if o.tuned is not None}
    return {
        "headline": headline,
        "rows": [
            {name: _written(value) for name, value in option.row(advice.unknown).items()}
            for option in advice.options
        ],
        "apply": {name: words for name, words in apply.items() if words is not None},
        "warning": " ".join(f"Warning: {words}." for words in advice.warnings),
        "error": max(errors, default=0.0),
        "drawn": True,  # means over training sets that were drawn
    }


def _written(value: Any) -> Any:
    """A cell of the table, with its standard error."""
    error = numbers.standard_error(value) if isinstance(value, float) else 0.0
    return f"{value!r}" if error else number_text(value)


def _words(option: Option, task: Task) -> Answer | None:
    """What a plan recommends, as the page's own fields; numbers within what the page allows. None
    for tokens whitened in part, which the page has no field for."""
    protocol = option.protocol
    names: tuple[str, ...] = ("readout_samples", "ridge")
    if option.tuned is not None and option.tuned.prediction.cosine is not None:
        names += ("query_samples", *STEPS)
    words = {name: CONTROLS[name].checked(name, getattr(protocol, name)) for name in names}
    if option.shrinkage == 0:  # the page goes over to white noise
        strength = whitened(task).fixed_strength
        words |= {"power_law": 0.0, "strength": CONTROLS["strength"].checked("strength", strength)}
    elif option.shrinkage not in (None, 1.0):  # 1 leaves tokens as they are: their mean variance is
        return None
    return words | {"query": "learned"}


def code(state: State) -> Answer:
    """What prints the same digits."""
    return {"python": as_python(state), "command": as_command(state)}


def sample(state: State) -> Answer:
    """In a worker: what the browser draws samples from."""
    from sparsetoken.app.sample import sample_data

    made: Answer = json_ready(sample_data(state.task, state.protocol, numbers.classifiers(state)))
    return made


def story() -> Answer:
    """In a worker: the six steps."""
    from sparsetoken.app.story import story_data

    made: Answer = json_ready(story_data())
    return made


def _lines(rows: list[numbers.Row]) -> Answer:
    series: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        line = series.setdefault(row.series, {"x": [], "y": []})
        line["x"].append(row.x)
        line["y"].append(row.y)
    return {"series": series}


@dataclass(frozen=True)
class Kind:
    """A kind of answer: its work, the fields of the state it depends on, the views that show it.

    A quick one is asked for while a slider moves and has a process of its own; a long one (tens of
    seconds) leaves a process to the others.
    """

    work: Callable[[State], Answer]
    fields: tuple[str, ...]
    views: tuple[str, ...]
    quick: bool = False
    long: bool = False

    def state(self, state: State) -> State:
        """The state as far as it matters here."""
        return State(**state.values(self.fields))


_LIMIT = ("curves", "roc", "alignment")
KINDS: dict[str, Kind] = {
    "curves_draft": Kind(curves_draft, (*_CURVE, "metric"), ("curves",), quick=True),
    "roc_draft": Kind(roc_draft, _POINT, ("roc",), quick=True),
    "alignment": Kind(alignment, _TAUGHT, ("alignment",), quick=True),
    "code": Kind(code, tuple(CONTROLS), (*_LIMIT, "sample", "plan"), quick=True),
    "curves": Kind(curves, (*_CURVE, "metric"), ("curves",)),
    "roc": Kind(roc, _POINT, ("roc",)),
    "table": Kind(table, _POINT, (*_LIMIT, "sample")),
    "floors": Kind(floors, (*TASK, "weighting"), ("curves",)),
    "capacities": Kind(capacities, _CURVE, ("curves",)),
    "learners": Kind(learners, (*TASK, "query", "query_samples"), ("curves",)),
    "doubts": Kind(doubts, (*_POINT, "dim"), _LIMIT),
    "plan": Kind(plan, (*TASK, "loss", "weighting", "dim", "target"), ("plan",), long=True),
}
MAP_FIELDS = (*_POINT, "metric", "across", "up")
SIMULATED_FIELDS = (*_CURVE, "dim")
SAMPLE_FIELDS = _POINT


def answer(kind: str, state: State) -> Answer:
    """In a worker: the answer of a state that has only the fields of its kind."""
    made: Answer = json_ready(KINDS[kind].work(state))
    return made


def map_cells(states: tuple[State, ...], draft: bool) -> list[maps.Cell]:
    """In a worker: some cells of the map."""
    return [maps.cell_draft(state) if draft else maps.cell(state) for state in states]

"""The server of the explorer: every value is checked, all work is bounded, nothing is kept.

What the page sends becomes a `State` or a sentence. Numbers are computed for that state alone; the
only thing the server remembers of a page is its running simulation.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import flask
from dash import ClientsideFunction, Dash, Input, Output, ctx, no_update
from dash import State as Known
from werkzeug.exceptions import HTTPException

from sparsetoken.app import numbers, page, pictures
from sparsetoken.app.simulations import Simulations
from sparsetoken.app.snippets import as_command, as_python
from sparsetoken.app.state import CONTROLS, DEFAULTS, PRESETS, State
from sparsetoken.app.workers import NAMED, Calculator
from sparsetoken.planning.advice import range_warnings, scatter_warnings
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import json_ready
from sparsetoken.theory.prediction import predict

_PACKAGE = Path(__file__).parent.parent
_MOST_BYTES = 1 << 18  # of a request
_PATIENCE = 0.4  # seconds of one answer of the map
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; connect-src 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_View = Callable[[State], Sequence[numbers.Row]]
_QUICK: dict[str, _View] = {
    "curves": numbers.curves_draft,
    "alignment": numbers.alignment,
    "attention": numbers.attention,
}
_EXACT: dict[str, _View] = _QUICK | {"curves": numbers.curves, "roc": numbers.roc}
# what does not change a simulated run of `POINTS`
_LOOKS = {"view", "metric", "across", "up", "target", "readout_samples", "repeats"}


def make_app() -> Dash:
    """The Dash application; `app.server` is its Flask server."""
    app = Dash(
        "sparsetoken.app",
        assets_folder=str(Path(__file__).parent / "assets"),
        title="sparsetoken explorer",
        update_title="",
        serve_locally=True,
        compress=False,
    )
    app.layout = page.layout
    app.simulations, app.worker = Simulations(), Calculator()
    _guard(app.server)
    _clientside(app)
    _callbacks(app, app.simulations, app.worker)

    @app.server.post("/draft")
    def draft() -> Any:
        """Not a callback of Dash: those wait for one another, and a slider does not."""
        return flask.jsonify(_draft(flask.request.get_json()))

    return app


def _guard(server: Any) -> None:
    """No large bodies, no stack traces, nothing from elsewhere."""
    server.config["MAX_CONTENT_LENGTH"] = _MOST_BYTES

    def refuse(error: Exception) -> Any:
        code, words = 400, "this request makes no sense to the explorer"
        if isinstance(error, HTTPException):
            code = error.code or 400
        elif isinstance(error, InvalidInput):
            words = str(error)
        elif _is_ours(error):
            code, words = 500, "the explorer has a bug: its log has the traceback"
            server.logger.error("a bug", exc_info=error)
        else:  # Dash stumbles over bodies that no page of its own sends
            server.logger.warning("refused: %s: %s", type(error).__name__, error)
        return flask.Response(words, status=code, mimetype="text/plain")

    server.register_error_handler(Exception, refuse)

    def with_headers(response: Any) -> Any:
        response.headers.update(_HEADERS)
        return response

    server.after_request(with_headers)


def _is_ours(error: BaseException) -> bool:
    """Whether code of this package was running when it was raised."""
    files = (frame.filename for frame in traceback.extract_tb(error.__traceback__))
    return any(Path(name).is_relative_to(_PACKAGE) for name in files)


def _clientside(app: Dash) -> None:
    """What needs no server: sliders and typed entries in step, the address, drawing, exports."""
    places = [f"{way}-{name}" for name in page.NUMBERS for way in ("slide", "type")]
    places += page.CHOICES
    presets = [Input(f"preset-{k}", "n_clicks") for k in range(len(PRESETS))]
    controls = [Input(place, "value") for place in places]
    app.clientside_callback(
        ClientsideFunction("explorer", "follow"),
        [Output("words", "data"), *(Output(place, "value") for place in places)],
        # a slider tells Dash where it rests, by "moved"
        [Input("address", "search"), *presets, *controls, Input("moved", "data")],
        [Known("words", "data")],
    )
    app.clientside_callback(
        ClientsideFunction("explorer", "settle"), Output("settled", "data"), Input("words", "data")
    )
    for name in ("exact", "marks", "map", "simulated"):  # each alone: none waits for another
        app.clientside_callback(
            ClientsideFunction("explorer", f"arrive_{name}"), Input(name, "data")
        )
    for name in ("csv", "png", "svg", "copy-python", "copy-command", "copy-link"):
        app.clientside_callback(
            ClientsideFunction("explorer", name.replace("-", "_")),
            Output(name, "title"),
            Input(name, "n_clicks"),
            prevent_initial_call=True,
        )
    settings = {
        "defaults": DEFAULTS, "presets": list(PRESETS.values()),
        "numbers": page.NUMBERS, "choices": page.CHOICES, "steps": page.POSITIONS,
        "controls": {name: [c.least, c.most, c.log, c.whole] for name, c in CONTROLS.items()},
    }  # fmt: skip
    app.index_string = app.index_string.replace(
        "<footer>",
        f'<script type="application/json" id="settings">{json.dumps(settings)}</script><footer>',
    )


def _callbacks(app: Dash, simulations: Simulations, worker: Calculator) -> None:
    def answer(work: Callable[[State], dict[str, Any]], words: Any, visit: Any) -> Any:
        try:
            state = _state(words)
        except InvalidInput as error:
            return {"words": words, "message": str(error)}
        page_name = visit if isinstance(visit, str) and len(visit) <= 64 else ""
        return json_ready({"words": words} | worker.run(page_name, work, state))

    settled, clock = Input("settled", "data"), Input("clock", "n_intervals")
    visit_known = Known("visit", "data")
    # when nothing has moved for a moment; two answers, as marks may take some seconds
    for name, work in {"exact": exact_answer, "marks": marks_answer}.items():
        app.callback(Output(name, "data"), settled, visit_known)(partial(answer, work))

    @app.callback(Output("map", "data"), settled, clock, visit_known)
    def fill_map(words: Any, _: Any, visit: Any) -> Any:
        """Some more cells of the map."""
        if not isinstance(words, dict) or words.get("view") != "map":
            return no_update
        return answer(map_answer, words, visit)

    buttons = Input("simulate", "n_clicks"), Input("cancel", "n_clicks")
    known = Known("settled", "data"), visit_known

    @app.callback(Output("simulated", "data"), *buttons, clock, *known, prevent_initial_call=True)
    def simulated(_run: Any, _stop: Any, _tick: Any, words: Any, visit: Any) -> Any:
        """Begin, cancel, or say how far it is."""
        if not isinstance(visit, str) or not 8 <= len(visit) <= 64:
            return {"message": "this page has no name"}
        if ctx.triggered_id == "cancel":
            simulations.cancel(visit)
            return {"running": False, "traces": [], "words": "cancelled"}
        try:
            state = _state(words)
            if ctx.triggered_id == "simulate":
                simulations.start(visit, state)
        except InvalidInput as error:
            return {"message": str(error)}
        job = simulations.look(visit)
        if job is None:
            return no_update
        fits = replace(job.state, **state.values(_LOOKS)) == state  # the curves that are drawn
        rows = job.rows.get(state.metric, []) if fits else []
        answer = {
            "running": job.running,
            "message": job.message,
            "words": f"{job.done} of {job.total} runs",
            "traces": pictures.dots(rows, state.metric),
        }
        return json_ready(answer)


def _draft(words: Any) -> Any:
    """At once, while a slider moves."""
    answer: dict[str, Any] = {"words": words}
    try:
        state = _state(words)
        if state.view in _QUICK:
            answer["figure"] = pictures.figure(state, _QUICK[state.view](state))
    except NAMED as error:
        answer["message"] = str(error)
    return json_ready(answer)


def _state(words: Any) -> State:
    """The state that a page's words mean."""
    if not isinstance(words, dict):
        raise InvalidInput("a state must be names with values")
    return State.of(words)


def exact_answer(state: State) -> dict[str, Any]:
    """Figure, numbers and code of a state."""
    answer: dict[str, Any] = {"python": as_python(state), "command": as_command(state)}
    if state.view == "plan":
        answer["headline"], answer["table"], answer["warning"] = numbers.planned(state)
        return answer
    if state.view in _EXACT:
        answer["figure"] = pictures.figure(state, _EXACT[state.view](state))
    answer["table"] = [
        {"classifier": name, **{number: f"{value:.6g}" for number, value in values.items()}}
        for name, values in numbers.chosen(state).items()
    ]
    return answer


@lru_cache(maxsize=64)
def doubts(state: State) -> str:
    """What is different in d dimensions from the limit that is drawn, for attention; often none."""
    query_samples = state.query_samples if state.query == "learned" else 0.0
    counts = [round(share * state.dim) for share in (query_samples, state.readout_samples)]
    if counts[1] < 2 or (state.query == "learned" and counts[0] < 1):
        return f"At d = {state.dim}: so few samples per dimension are none."
    here = predict(state.task, state.attention, state.protocol, state.dim)
    mean, limit = here.test_error, numbers.chosen(state)["attention"]["test_error"]
    words = list(scatter_warnings("attention's test error", mean, here.spread, here.useless))
    words += range_warnings(state.task, state.dim, *counts)
    if abs(mean - limit) > max(0.1 * limit, 4 * mean.standard_error):
        words.insert(0, f"attention's mean test error is {mean:.3g}, not {limit:.3g}")
    return f"At d = {state.dim}: {'; '.join(words)}." if words else ""


def marks_answer(state: State) -> dict[str, Any]:
    """Floors and capacities of the curves; what speaks against trusting the numbers."""
    drawn = pictures.marks(numbers.marks(state)) if state.view == "curves" else []
    return {"traces": drawn, "warning": "" if state.view in ("plan", "map") else doubts(state)}


def map_answer(state: State) -> dict[str, Any]:
    """As many cells as a moment gives; what is there is not computed again."""
    xs, ys = numbers.map_axes(state)
    until, cells, missing = time.monotonic() + _PATIENCE, [], 0
    for column, line in numbers.map_order(len(xs), len(ys)):
        if time.monotonic() > until:
            missing += 1
            continue
        cell = numbers.map_cell(state, xs[column], ys[line])
        cells += [] if cell is None else [cell]
    return {"figure": pictures.map_figure(state, xs, ys, cells), "missing": missing}

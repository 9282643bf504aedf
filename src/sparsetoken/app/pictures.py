"""Tables → figures, as plain dictionaries that the browser draws. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from sparsetoken.app.numbers import SAMPLES, Cell, Row
from sparsetoken.app.state import CONTROLS, METRICS, State
from sparsetoken.figures import LOOK
from sparsetoken.model.names import CLASSIFIERS

_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_GREY, _CLEAR = "#888888", "rgba(0,0,0,0)"
_PLAIN = {"color": "#555555", "linestyle": "-", "width": 2.0}  # of a class of the user's own
_COLOURS = {
    "cosine": "#D55E00", "chosen": "#D55E00", "noise tokens": "#0072B2",
    "signal tokens": "#D55E00", "weight on signal": "#009E73", "mean weight on signal": "#009E73",
}  # fmt: skip
_LEARNERS = {
    "learner: any": "any learner, of all samples",
    "learner: message passing": "hard: fast learners stay here",
}
_METRICS = METRICS | {"auc": "area under the ROC curve"}

Picture = dict[str, Any]
_AXIS: Picture = {"gridcolor": "rgba(128,128,128,0.25)", "zeroline": False, "automargin": True}


def figure(state: State, rows: Sequence[Row]) -> Picture:
    """Curves, ROC, alignment or the attention itself, by the view of the state."""
    traces = [_curve(name, part) for name, part in _series(rows).items()]
    x, y, log = {
        "curves": ("readout samples per dimension α₁", _METRICS[state.metric], True),
        "roc": ("false positive rate", "true positive rate", False),
        "alignment": ("query samples per dimension α₀", "cosine of query and signal", True),
        "attention": ("score of a token along the query", "density", False),
    }[state.view]
    layout = _layout(_axis(x, log), _axis(y)) | {"shapes": []}
    if state.view == "curves":
        x0 = state.readout_samples
        place = {"x0": x0, "x1": x0, "y0": 0, "y1": 1, "yref": "paper"}
        layout["shapes"].append({"type": "line", **place, "line": _line(_GREY, 1)})
    if state.view == "roc":
        diagonal = [Row("guessing", 0, 0), Row("guessing", 1, 1)]
        traces.append(_trace("guessing", diagonal, "lines", line=_line(_GREY, 1, "dot")))
    if state.view == "attention":
        _put_weights_beside(traces, layout)
    return {"data": traces, "layout": layout}


def marks(rows: Sequence[Row]) -> list[Picture]:
    """Floors as dotted lines, capacities as triangles on the axis, learners as thin curves."""
    learners = {name: part for name, part in _series(rows).items() if name.startswith("learner: ")}
    curves = [
        _trace(_LEARNERS[name], part, "lines", line=_line(_GREY, 1.5 if dash else 3, dash))
        for (name, part), dash in zip(learners.items(), ("longdash", None), strict=False)
    ]
    return curves + [_mark(row) for row in rows if row.series not in learners]


def map_figure(state: State, xs: list[float], ys: list[float], cells: Sequence[Cell]) -> Picture:
    """The map: colour is the winner, its strength by how much it wins."""
    most = max((cell.edge for cell in cells), default=1.0) or 1.0
    traces = []
    for name in CLASSIFIERS:
        won = [cell for cell in cells if cell.winner == name]
        opacity = [0.25 + 0.75 * min(1.0, cell.edge / most) for cell in won]
        square = {"symbol": "square", "size": 24, "color": _colour(name), "opacity": opacity}
        trace = _trace(f"{name} wins", won, "markers", marker=square, hoverinfo="text+x+y")
        trace["customdata"] = [cell.edge for cell in won]
        trace["text"] = [f"{name} by {cell.edge:.3g}" for cell in won]
        traces.append(trace)
    layout = _layout(_map_axis(state.across, xs), _map_axis(state.up, ys))
    return {"data": traces, "layout": layout}


def dots(rows: Sequence[Row], metric: str) -> list[Picture]:
    """Simulated runs, one dot each."""
    traces = []
    for name, part in _series(rows).items():
        dot = {"color": _colour(name), "size": 6, "opacity": 0.6}
        traces.append(_trace(f"{name}, simulated", part, "markers", marker=dot, meta=metric))
    return traces


def _series(rows: Iterable[Row]) -> dict[str, list[Row]]:
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row.series, []).append(row)
    return parts


def _trace(name: str, points: Sequence[Row | Cell], mode: str, **style: Any) -> Picture:
    xs, ys = [point.x for point in points], [point.y for point in points]
    return {"name": name, "x": xs, "y": ys, "mode": mode, **style}


def _line(colour: str, width: float, dash: str | None = None) -> Picture:
    line = {"color": colour, "width": width}
    return line if dash is None else line | {"dash": dash}


def _colour(name: str) -> str:
    return str(LOOK.get(name, _PLAIN)["color"])


def _curve(name: str, rows: list[Row]) -> Picture:
    """A line; a single row is a dot."""
    look = LOOK.get(name, _PLAIN | {"color": _COLOURS.get(name, _PLAIN["color"])})
    line = _line(look["color"], look["width"], _DASHES[look["linestyle"]])
    mode = "markers" if len(rows) == 1 else "lines"
    return _trace(name, rows, mode, line=line, marker={"color": look["color"], "size": 10})


def _mark(row: Row) -> Picture:
    kind, name = row.series.split(": ")
    words = f"{kind}, {name}"
    colour = _GREY if name == "Bayes" else _colour(name)
    if kind == "floor":
        ends = [row._replace(x=x) for x in (SAMPLES[0], SAMPLES[-1])]
        return _trace(words, ends, "lines", line=_line(colour, 1, "dot"))
    triangle = {"symbol": "triangle-up", "size": 11, "color": colour}
    trace = _trace(words, [row._replace(y=0.0)], "markers", marker=triangle)
    return trace if math.isfinite(row.x) else trace | {"x": [None]}


def _put_weights_beside(traces: list[Picture], layout: Picture) -> None:
    """The weight on signal tokens beside the scores of tokens."""
    for trace in traces:
        if "weight" in trace["name"]:
            trace["xaxis"], trace["yaxis"] = "x2", "y2"
    layout["xaxis"]["domain"], layout["yaxis"]["anchor"] = [0.0, 0.45], "x"
    layout["xaxis2"] = _axis("weight on signal tokens") | {"domain": [0.57, 1.0], "anchor": "y2"}
    layout["yaxis2"] = _axis("share of positive samples above") | {"anchor": "x2"}


def _map_axis(name: str, values: list[float]) -> Picture:
    control = CONTROLS[name]
    low, high = (math.log10(v) if control.log else v for v in (values[0], values[-1]))
    edge = 0.06 * (high - low or 1.0)
    axis = _axis(f"{control.words} {control.symbol}".strip(), control.log)
    return axis | {"range": [low - edge, high + edge]}


def _axis(words: str, log: bool = False) -> Picture:
    axis = _AXIS | {"title": {"text": words}}
    return axis | {"type": "log", "dtick": 1} if log else axis


def _layout(x: Picture, y: Picture) -> Picture:
    return {
        "xaxis": x,
        "yaxis": y if "type" in y else y | {"rangemode": "tozero"},
        "margin": {"l": 60, "r": 12, "t": 12, "b": 48},
        "legend": {"orientation": "h", "y": -0.22},
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "hovermode": "closest",
        "uirevision": "same",
    }

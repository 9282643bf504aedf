"""Tables → figures, as plain dictionaries that the browser draws. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from sparsetoken.app.numbers import Cell, Row
from sparsetoken.app.state import CONTROLS, State
from sparsetoken.figures import LOOK
from sparsetoken.model.names import CLASSIFIERS

_DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_WORDS = {
    "test_error": "test error", "auc": "area under the ROC curve", "train_loss": "training loss",
    "cosine": "cosine of query and signal",
}  # fmt: skip
_COLOURS = {
    "cosine": "#D55E00", "chosen": "#D55E00", "noise tokens": "#0072B2",
    "signal tokens": "#D55E00", "weight on signal": "#009E73", "mean weight on signal": "#009E73",
}  # fmt: skip


def figure(state: State, rows: Sequence[Row]) -> dict[str, Any]:
    """Curves, ROC, alignment or the attention itself, by the view of the state."""
    traces = [_trace(name, part) for name, part in _series(rows).items()]
    layout = _layout(*_axes(state))
    layout["shapes"] = []
    if state.view == "curves":
        layout["shapes"].append(_line_at(state.readout_samples))
    if state.view == "roc":
        traces.append(
            {"name": "guessing", "x": [0, 1], "y": [0, 1], "mode": "lines",
             "line": {"color": "#888888", "width": 1, "dash": "dot"}}
        )  # fmt: skip
    if state.view == "attention":
        _beside(traces, layout)
    return {"data": traces, "layout": layout}


def marks(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Floors as dotted lines, capacities as triangles on the axis."""
    return [
        _mark(kind, name, row) for row in rows for kind, _, name in [row.series.partition(": ")]
    ]


def map_figure(state: State, xs: list[float], ys: list[float], cells: Sequence[Cell]) -> Any:
    """The map: colour is the winner, its strength by how much it wins."""
    layout = _layout(
        _words(state.across), _words(state.up), CONTROLS[state.across].log, CONTROLS[state.up].log
    )
    most = max((cell.edge for cell in cells), default=1.0) or 1.0
    traces = []
    for name in CLASSIFIERS:
        mine = [cell for cell in cells if cell.winner == name]
        traces.append({
            "name": f"{name} wins",
            "x": [cell.x for cell in mine],
            "y": [cell.y for cell in mine],
            "customdata": [cell.edge for cell in mine],
            "text": [f"{name} by {cell.edge:.3g}" for cell in mine],
            "hoverinfo": "text+x+y",
            "mode": "markers",
            "marker": {
                "symbol": "square", "size": 24, "color": _look(name)["color"],
                "opacity": [0.25 + 0.75 * min(1.0, cell.edge / most) for cell in mine],
            },
        })  # fmt: skip
    layout["xaxis"]["range"] = _range(xs, CONTROLS[state.across].log)
    layout["yaxis"]["range"] = _range(ys, CONTROLS[state.up].log)
    return {"data": traces, "layout": layout}


def dots(rows: Sequence[Row], metric: str) -> list[dict[str, Any]]:
    """Simulated runs, one dot each."""
    traces = []
    for name, part in _series(rows).items():
        traces.append({
            "name": f"{name}, simulated",
            "x": [row.x for row in part], "y": [row.y for row in part],
            "mode": "markers", "marker": {"color": _look(name)["color"], "size": 6, "opacity": 0.6},
            "meta": metric,
        })  # fmt: skip
    return traces


def _series(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.series, []).append(row)
    return found


def _look(name: str) -> dict[str, Any]:
    return LOOK.get(name, {"color": _COLOURS.get(name, "#555555"), "linestyle": "-", "width": 2.0})


def _trace(name: str, rows: list[Row]) -> dict[str, Any]:
    look = _look(name)
    single = len(rows) == 1
    return {
        "name": name,
        "x": [row.x for row in rows],
        "y": [row.y for row in rows],
        "mode": "markers" if single else "lines",
        "line": {
            "color": look["color"], "width": look["width"], "dash": _DASHES[look["linestyle"]],
        },
        "marker": {"color": look["color"], "size": 10},
    }  # fmt: skip


def _mark(kind: str, name: str, row: Row) -> dict[str, Any]:
    colour = LOOK.get(name.lower(), LOOK["bayes"])["color"]
    if kind == "floor":
        return {
            "name": f"floor, {name}", "x": [0.1, 100.0], "y": [row.y, row.y], "mode": "lines",
            "line": {"color": "#888888" if name == "Bayes" else colour, "width": 1, "dash": "dot"},
        }  # fmt: skip
    finite = math.isfinite(row.x)
    return {
        "name": f"capacity, {name}", "x": [row.x if finite else None], "y": [0.0],
        "mode": "markers", "marker": {"symbol": "triangle-up", "size": 11, "color": colour},
    }  # fmt: skip


def _line_at(x: float) -> dict[str, Any]:
    return {
        "type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
        "line": {"color": "#888888", "width": 1},
    }  # fmt: skip


def _axes(state: State) -> tuple[str, str, bool, bool]:
    """Words of the axes, and whether they are logarithmic."""
    return {
        "curves": ("readout samples per dimension α₁", _WORDS[state.metric], True, False),
        "roc": ("false positive rate", "true positive rate", False, False),
        "alignment": ("query samples per dimension α₀", _WORDS["cosine"], True, False),
        "attention": ("score of a token along the query", "density", False, False),
    }[state.view]


def _beside(traces: list[dict[str, Any]], layout: dict[str, Any]) -> None:
    """The weight on signal tokens beside the scores of tokens."""
    for trace in traces:
        if "weight" in trace["name"]:
            trace["xaxis"], trace["yaxis"] = "x2", "y2"
    layout["xaxis"]["domain"], layout["yaxis"]["anchor"] = [0.0, 0.45], "x"
    layout["xaxis2"] = _axis("weight on signal tokens") | {"domain": [0.57, 1.0], "anchor": "y2"}
    layout["yaxis2"] = _axis("share of positive samples above") | {"anchor": "x2"}


def _words(name: str) -> str:
    control = CONTROLS[name]
    return f"{control.words} {control.symbol}".strip()


def _axis(words: str, log: bool = False) -> dict[str, Any]:
    axis: dict[str, Any] = {"title": {"text": words}, "gridcolor": "rgba(128,128,128,0.25)",
                            "zeroline": False, "automargin": True}  # fmt: skip
    if log:
        axis |= {"type": "log", "dtick": 1}
    return axis


def _layout(x: str, y: str, log_x: bool, log_y: bool) -> dict[str, Any]:
    return {
        "xaxis": _axis(x, log_x),
        "yaxis": _axis(y, log_y) | ({} if log_y else {"rangemode": "tozero"}),
        "margin": {"l": 60, "r": 12, "t": 12, "b": 48},
        "legend": {"orientation": "h", "y": -0.22},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "uirevision": "same",
    }


def _range(values: list[float], log: bool) -> list[float]:
    low, high = (math.log10(v) if log else v for v in (values[0], values[-1]))
    edge = 0.06 * (high - low or 1.0)
    return [low - edge, high + edge]

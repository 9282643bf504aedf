"""The page: controls in words, views, buttons. What moves on it is in `server.py` and `assets/`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dash import dcc, html

from sparsetoken.app.state import CONTROLS, PRESETS, VIEWS, Control, State

STEPS = 1000  # of a slider
NUMBERS = tuple(name for name, control in CONTROLS.items() if not control.choices)
CHOICES = tuple(name for name, control in CONTROLS.items() if control.choices)
STORES = "words moved settled exact marks map simulated visit".split()
GROUPS = {
    "Task": ("length", "sparsity", "strength", "prevalence", "token_correlation"),
    "Training": ("query_samples", "readout_samples", "ridge", "loss"),
    "Query": (
        "query",
        "weighting",
        "cosine",
        "sharpness",
        "readout_step",
        "bias_step",
        "query_step",
    ),
    "Simulation, plan, map": ("dim", "repeats", "target", "across", "up"),
}
_TITLES = {
    "curves": "Learning curves", "attention": "Attention", "roc": "ROC",
    "alignment": "Alignment", "map": "Who wins where", "plan": "Plan",
}  # fmt: skip
_METRICS = {"test_error": "test error", "auc": "AUC", "train_loss": "training loss"}


def defaults() -> dict[str, Any]:
    """The state a page begins with."""
    return {each.name: each.default for each in fields(State)}


def layout() -> Any:
    """All of the page; built anew for every visit."""
    return html.Div(
        className="page",
        children=[
            dcc.Location(id="address", refresh=False),
            *(dcc.Store(id=name) for name in STORES),
            dcc.Interval(id="clock", interval=700, disabled=True),
            html.Header([
                html.H1("sparsetoken"),
                html.P("When does attention pooling find what linear pooling misses?"),
                html.Div([html.Button(name, id=f"preset-{k}", n_clicks=0)
                          for k, name in enumerate(PRESETS)], className="presets"),
            ]),
            html.Main([
                html.Section([_group(name, members) for name, members in GROUPS.items()],
                             className="controls", **{"aria-label": "controls"}),
                html.Section([
                    dcc.RadioItems(
                        id="view", value="curves", inline=True, className="tabs",
                        options=[{"label": _TITLES[view], "value": view} for view in VIEWS],
                    ),
                    html.P(id="message", role="alert", className="message"),
                    html.Div(dcc.RadioItems(
                        id="metric", value="test_error", inline=True,
                        options=[{"label": words, "value": name}
                                 for name, words in _METRICS.items()],
                    ), className="metric"),
                    dcc.Graph(id="graph", className="graph",
                              config={"displayModeBar": False, "responsive": True}),
                    html.P(id="status", className="status", **{"aria-live": "polite"}),
                    html.P(id="warning", className="status", **{"aria-live": "polite"}),
                    html.Div([
                        html.Button("Simulate", id="simulate", n_clicks=0),
                        html.Button("Cancel", id="cancel", n_clicks=0),
                        html.Button("CSV", id="csv", n_clicks=0),
                        html.Button("PNG", id="png", n_clicks=0),
                        html.Button("SVG", id="svg", n_clicks=0),
                    ], className="buttons"),
                    html.Div(id="numbers", className="numbers"),
                    html.Details([
                        html.Summary("The same numbers in code"),
                        html.Button("Copy as Python", id="copy-python", n_clicks=0),
                        html.Pre(id="python"),
                        html.Button("Copy as command", id="copy-command", n_clicks=0),
                        html.Pre(id="command"),
                        html.Button("Copy link", id="copy-link", n_clicks=0),
                    ], open=True),
                ], className="views"),
            ]),
        ],
    )  # fmt: skip


def _group(name: str, members: tuple[str, ...]) -> Any:
    return html.Fieldset([html.Legend(name), *(_control(each, CONTROLS[each]) for each in members)])


def _control(name: str, control: Control) -> Any:
    """Words, symbol and help; a slider with typed entry beside it, or a choice."""
    label = html.Label(
        [control.words, " ", html.I(control.symbol), html.Small(control.help)],
        htmlFor=f"type-{name}" if name in NUMBERS else name,
    )
    if name in NUMBERS:
        inputs = [
            dcc.Input(id=f"slide-{name}", type="range", min=0, max=STEPS, step=1, value=0),
            dcc.Input(id=f"type-{name}", type="text", value="", debounce=True),
        ]
        return html.Div([label, html.Div(inputs, className="entry")], className="control")
    choice = dcc.RadioItems(
        id=name, value=getattr(State(), name), inline=True,
        options=[{"label": each.replace("_", " "), "value": each} for each in control.choices],
    )  # fmt: skip
    return html.Div([label, choice], className="control")

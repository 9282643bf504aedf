"""The page: controls in words, views, buttons. What moves on it is in `server.py` and `assets/`."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from sparsetoken.app.state import (
    CONTROLS,
    DEFAULTS,
    FROZEN,
    METRICS,
    PRESETS,
    STEPS,
    TASK,
    TRAINING,
    VIEWS,
)

POSITIONS = 1000  # of a slider
NUMBERS = tuple(name for name, control in CONTROLS.items() if not control.choices)
CHOICES = tuple(name for name, control in CONTROLS.items() if control.choices)
STORES = "words moved settled exact marks map simulated visit".split()
GROUPS = {
    "Task": TASK,
    "Training": (*TRAINING, "loss"),
    "Query": ("query", "weighting", *FROZEN, *STEPS),
    "Simulation, plan, map": ("dim", "repeats", "target", "across", "up"),
}


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
                html.Div([_button(name, f"preset-{k}") for k, name in enumerate(PRESETS)],
                         className="presets"),
            ]),
            html.Main([
                html.Section([
                    html.Fieldset([html.Legend(title), *map(_control, names)])
                    for title, names in GROUPS.items()
                ], className="controls", **{"aria-label": "controls"}),
                html.Section([
                    _choice("view", VIEWS, className="tabs"),
                    html.P(id="message", role="alert", className="message"),
                    html.Div(_choice("metric", METRICS), className="metric"),
                    dcc.Graph(id="graph", className="graph",
                              config={"displayModeBar": False, "responsive": True}),
                    html.P(id="status", className="status", **{"aria-live": "polite"}),
                    html.P(id="warning", className="status", **{"aria-live": "polite"}),
                    html.Div([
                        _button("Simulate"), _button("Cancel"),
                        _button("CSV"), _button("PNG"), _button("SVG"),
                    ], className="buttons"),
                    html.Div(id="numbers", className="numbers"),
                    html.Details([
                        html.Summary("The same numbers in code"),
                        _button("Copy as Python", "copy-python"), html.Pre(id="python"),
                        _button("Copy as command", "copy-command"), html.Pre(id="command"),
                        _button("Copy link", "copy-link"),
                    ], open=True),
                ], className="views"),
            ]),
        ],
    )  # fmt: skip


def _button(words: str, name: str = "") -> Any:
    return html.Button(words, id=name or words.lower(), n_clicks=0)


def _choice(name: str, words: dict[str, str], **style: str) -> Any:
    options = [{"label": label, "value": value} for value, label in words.items()]
    return dcc.RadioItems(id=name, value=DEFAULTS[name], inline=True, options=options, **style)


def _control(name: str) -> Any:
    """Words, symbol and help; a slider with typed entry beside it, or a choice."""
    control = CONTROLS[name]
    label = html.Label(
        [control.words, " ", html.I(control.symbol), html.Small(control.help)],
        htmlFor=f"type-{name}" if name in NUMBERS else name,
    )
    if name in CHOICES:
        choice = _choice(name, {word: word.replace("_", " ") for word in control.choices})
        return html.Div([label, choice], className="control")
    inputs = [
        dcc.Input(id=f"slide-{name}", type="range", min=0, max=POSITIONS, step=1, value=0),
        dcc.Input(id=f"type-{name}", type="text", value="", debounce=True),
    ]
    return html.Div([label, html.Div(inputs, className="entry")], className="control")

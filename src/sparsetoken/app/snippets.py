"""The numbers on the page as code that prints them again: Python, and commands."""

from __future__ import annotations

import textwrap
from typing import Any

from sparsetoken.app.numbers import classifiers
from sparsetoken.app.state import DEFAULTS, FROZEN, STEPS, TASK, TRAINING, State
from sparsetoken.model.names import LOSSES, WEIGHTINGS, Names

_WIDTH = 96  # of a line of code
_OBJECTS: dict[str, Names[Any]] = {"loss": LOSSES, "weighting": WEIGHTINGS}  # no numbers in Python


def as_python(state: State) -> str:
    """A script that prints what the page shows."""
    task, training, attention = _arguments(state)
    lines = ["import sparsetoken as st", "", f"task = {_call('Task', task)}"]
    if state.view == "plan":
        lines.append(f"advice = {_call('plan', training | attention, 'task')}")
        lines.append("print(advice.headline)")
        return "\n".join(lines) + "\n"
    lines.append(f"protocol = {_call('Protocol', training)}")
    if state.view == "alignment":
        lines.append("query = st.align(task, protocol)")
        lines.append('print(f"cosine {query.cosine:.6g}, sharpness {query.sharpness:.6g}")')
        return "\n".join(lines) + "\n"
    others = [f"st.{kind!r}" for name, kind in classifiers(state).items() if name != "attention"]
    lines += [
        f"for classifier in ({', '.join([_call('Attention', attention), *others])}):",
        "    p = st.predict(task, classifier, protocol)",
        "    numbers = (p.test_error, p.auc, p.train_loss, p.train_error)",
        '    print(type(classifier).__name__.lower(), *(f"{x:.6g}" for x in numbers))',
    ]
    return "\n".join(lines) + "\n"


def as_command(state: State) -> str:
    """The same on the command line."""
    task, training, attention = _arguments(state)
    options = " ".join(
        f"--{name.replace('_', '-')} {value}"
        for name, value in (task | training | attention).items()
    )
    if state.view == "plan":
        return f"sparsetoken plan {options}"
    return f"sparsetoken predict {options} --json"


def _arguments(state: State) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Of the task, of training or plan, and of attention, but for those that change nothing."""
    task = state.values(TASK)
    for name in ("token_correlation", "power_law", "signal_spread"):
        if task[name] == DEFAULTS[name]:
            del task[name]
    attention = state.values(["weighting"] if state.weighting != DEFAULTS["weighting"] else [])
    if state.view == "plan":
        wanted = {"dim": state.dim, "target_error": state.target, "loss": state.loss}
        return task, wanted, attention
    if state.query == "frozen":
        attention = state.values(FROZEN) | attention
    return task, state.values((*TRAINING, "loss", *STEPS)), attention


def _call(function: str, arguments: dict[str, Any], *first: str) -> str:
    words = list(first)
    for name, value in arguments.items():
        if name == "power_law":
            words.append(f"noise=st.Spectrum.power_law({value!r})")
            continue
        made = f"st.{_OBJECTS[name].make(value)!r}" if name in _OBJECTS else repr(value)
        words.append(f"{name}={made}")
    line = ", ".join(words)
    if len(line) > _WIDTH:
        line = "\n" + textwrap.indent(textwrap.fill(line, _WIDTH), "    ") + ",\n"
    return f"st.{function}({line})"

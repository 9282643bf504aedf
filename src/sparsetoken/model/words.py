"""Tasks, protocols and classifiers in symbols: what a number was computed for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.names import CLASSIFIERS, LOSSES, WEIGHTINGS
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.signals import Varying, shown
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX

_SYMBOLS = {
    "length": "L",
    "sparsity": "R",
    "strength": "θ",
    "prevalence": "π",
    "token_correlation": "ρ",
    "query_samples": "n₀/d",
    "readout_samples": "n₁/d",
    "ridge": "λ",
    "inverse_temperature": "β",
    "readout_step": "η_w",
    "bias_step": "η_b",
    "query_step": "η_q",
}
_ALWAYS = {"length", "sparsity", "strength", "prevalence", "ridge"}  # even at their defaults
_LONGEST = 60  # letters of a value: a spectrum has many numbers
_SAMPLES = ("query_samples", "readout_samples")


def task_words(task: Task, given: Mapping[str, str] | None = None) -> str:
    """A task in symbols; what was varied is given in words, by the name of the field.

    >>> task_words(Task(length=10, sparsity=1, strength=5.0))
    'L = 10, R = 1, θ = 5, π = 0.5'
    >>> task_words(Task(10, 1, 5.0, token_correlation=0.3), {"length": "3 to 80"})
    'L = 3 to 80, R = 1, θ = 5, π = 0.5, ρ = 0.3'
    >>> task_words(Task(10, 1, 5.0, signal_spread=0.3))
    'L = 10, R = 1, θ = 5, π = 0.5, signal_spread = 0.3'
    """
    return _words(task, given or {})


def protocol_words(
    protocol: Protocol, given: Mapping[str, str] | None = None, learns_query: bool = True
) -> str:
    """A protocol in symbols; its steps where they are not the usual ones.

    >>> protocol_words(Protocol(query_samples=2.0, readout_samples=4.0))
    'n₀/d = 2, n₁/d = 4, logistic loss, λ = 1e-05'
    >>> protocol_words(Protocol(query_step=3.0), {"readout_samples": "0.4 to 40"}, False)
    'n₁/d = 0.4 to 40, logistic loss, λ = 1e-05'
    """
    given = dict(given or {})
    shown_samples = _SAMPLES if learns_query else _SAMPLES[1:]
    samples = [
        f"{_SYMBOLS[name]} = {given.pop(name, None) or _value(getattr(protocol, name))}"
        for name in shown_samples
    ]
    given.pop("query_samples", None)
    loss = given.pop("loss", None) or LOSSES.name(protocol.loss) or repr(protocol.loss)
    left_out = {"loss", *_SAMPLES}
    if not learns_query:  # nothing steps, nothing is soft
        left_out |= {"inverse_temperature", "readout_step", "bias_step", "query_step"}
    others = _words(protocol, given, left_out)
    return ", ".join([*samples, f"{loss} loss", others])


def classifier_words(classifier: Classifier) -> str:
    """A classifier by its name, with the query and the weighting that it was given.

    >>> from sparsetoken import Attention, TopK
    >>> classifier_words(Attention(cosine=0.9, sharpness=2.0, weighting=TopK(3)))
    'attention (cosine 0.9, sharpness 2, top-3)'
    """
    kind = CLASSIFIERS.kind(classifier)
    if kind not in CLASSIFIERS:  # one of the caller's, or a learner of its own
        return repr(classifier)
    own = [
        f"{name} {value:g}"
        for name in ("cosine", "sharpness")
        if (value := getattr(classifier, name, None)) is not None
    ]
    weighting = getattr(classifier, "weighting", SOFTMAX)
    if weighting != SOFTMAX:
        own.append(WEIGHTINGS.name(weighting) or repr(weighting))
    return f"{kind} ({', '.join(own)})" if own else kind


def _words(thing: Any, given: Mapping[str, str], left_out: set[str] | None = None) -> str:
    """Each field that is always said, was varied, or is not at its default."""
    words = []
    for field in fields(thing):
        value, name = getattr(thing, field.name), field.name
        usual = _same(value, _default(field))
        if name in (left_out or ()) or (usual and name not in _ALWAYS and name not in given):
            continue
        words.append(f"{_SYMBOLS.get(name, name)} = {given.get(name) or _value(value)}")
    return ", ".join(words)


def _default(field: Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is MISSING else made()


def _same(value: Any, other: Any) -> bool:
    """Equal, and of one kind: an object with arrays may not want to be compared with others."""
    return type(value) is type(other) and bool(value == other)


def _value(value: Any) -> str:
    if isinstance(value, int | float | Varying):
        return shown(value)
    words = repr(value)
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"

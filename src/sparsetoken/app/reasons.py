"""The reason for the numbers, in words: where the query points, where the weight goes, who wins."""

from __future__ import annotations

from sparsetoken.app.numbers import Chosen, chosen, query_of, weight_on_signal
from sparsetoken.app.state import State
from sparsetoken.app.story import percent
from sparsetoken.support.estimate import Estimate

_EVEN = 1.1  # times an even share of the weights is about even
_TIE = 0.01  # a difference by less than this part is none


def sentences(state: State) -> list[str]:
    """Two or three sentences beside the table."""
    table = chosen(state)
    words = []
    if "attention" in table:
        words.append(_query(state))
        words.append(_weights(state))
    return [*words, *_verdict(table)]


def _query(state: State) -> str:
    query = query_of(state)
    taught = "The frozen query" if state.query == "frozen" else "After two gradient steps the query"
    words = f"has cosine {query.cosine:.3f} with the signal and sharpness {query.sharpness:.3g}"
    if query.cosine < -0.05:
        return f"{taught} {words}: it points to the wrong side."
    if query.cosine < 0.3:
        return f"{taught} {words}: it has not found the signal."
    if query.cosine < 0.8:
        return f"{taught} {words}: it has found some of the signal."
    return f"{taught} {words}: it has found the signal."


def _weights(state: State) -> str:
    weight = weight_on_signal(state, query_of(state))
    even = state.sparsity / state.length
    signal = "the signal token" if state.sparsity == 1 else f"the {state.sparsity} signal tokens"
    words = (
        f"Attention puts {percent(weight)} of its weight on {signal}{_error(weight)}; "
        f"the mean puts {percent(even)} there"
    )
    if state.sparsity == state.length:
        return f"{words}: every token carries the signal, there is nothing to find."
    if weight < even / _EVEN:
        return f"{words}: it looks away from the signal."
    if weight < even * _EVEN:
        return f"{words}: that is hardly more than the mean does."
    return f"{words}."


def _error(weight: Estimate) -> str:
    """Two standard errors, where they would show."""
    digits = 2 if weight < 0.01 else 1  # as `percent` writes it
    error = f"{200 * weight.standard_error:.{digits}f}"
    return f" (± {error}\u00a0%)" if float(error) else ""


def _verdict(table: dict[str, Chosen]) -> list[str]:
    linear = {name: at.values["test_error"] for name, at in table.items() if name != "attention"}
    if "attention" not in table or not linear:
        return []
    best = min(linear, key=linear.__getitem__)
    error, other = table["attention"].values["test_error"], linear[best]
    words = f"Its test error is {error:.3g}, that of {best} {other:.3g}"
    if abs(error - other) <= _TIE * max(error, other):
        return [f"{words}: no difference worth a word."]
    return [f"{words}: attention {'wins' if error < other else 'loses'}."]

"""When the theory stops being true: checks and panels of what `departures.py` simulates."""

from __future__ import annotations

from collections.abc import Iterator

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention
from sparsetoken.reproduction import claim
from sparsetoken.reproduction.claims import departures
from sparsetoken.reproduction.claims.departures import (
    ALONG,
    BREAKS,
    COSINE,
    GAP,
    HEAVY,
    LONG,
    OBEYS,
    POOLED,
    RAW,
    RULE,
    SHORT,
    SPARSEST,
    UNEVEN,
    WHITENED,
)  # fmt: skip

# the rule of thumb for the task and protocol of all panels but its own, times d
_ROOM = departures.allowance(claim.PAPER, departures.PROTOCOL, 1, Attention())
_ENOUGH = 8  # noise tokens a dimension, from which whitening is expected to be as good as exact
_DIM, _ERROR = "dimension  $d$", "test error of attention"


class Universality(claim.Claim):
    source = "Beside the paper's assumptions"
    sentence = (
        "The theory of white Gaussian tokens in many dimensions holds for other independent noise "
        "without heavy tails, for more tokens than dimensions and, after whitening, for coloured "
        "noise; finite size costs at most about one over the number of samples of the rarer class."
    )
    panels = (
        Panel(GAP, _DIM, "simulation − theory", log="xy"),
        Panel(RULE, "allowed:  $1/m + \\lambda L/d$", "|simulation − theory|", "xy", join=False),
        Panel(OBEYS, _DIM, _ERROR, log="x"),
        Panel(BREAKS, _DIM, _ERROR, log="x"),
        Panel(ALONG, _DIM, _ERROR, log="x"),
        Panel(LONG, "length  $L$", "test error", log="x", low=0.0),
        Panel(RAW, "correlation of neighbouring coordinates", "test error", low=0.0),
        Panel(WHITENED, "noise tokens per dimension  $N/d$", "test error", log="x", low=0.0),
    )

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        return {
            "": claim.setting(claim.PAPER, departures.PROTOCOL),
            RULE: "twelve tasks and protocols with L = 2 to 40, R = 1 to 10, θ = 0.7 to 5, "
            "d = 5 to 80 (`_TASKS` of `departures.py`)",
            LONG: claim.setting(
                claim.PAPER, departures.PROTOCOL, length="10 k²", sparsity="k", ridge="0.01/k²"
            )
            + f"; d = {SHORT}",
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Simulations beside the theory of Gaussian tokens, one thing changed at a time."""
        return departures.measure(scale, ask)

    def check(self, table: claim.Table) -> Iterator[claim.Check | str]:
        """What agrees is within the rule of thumb, what does not is beyond it."""
        gaps, along, raw, white, aligned, long = (
            _dots(table, panel) for panel in (GAP, ALONG, RAW, WHITENED, COSINE + WHITENED, LONG)
        )
        attention = claim.part(gaps, GAP, "attention, test error")
        yield claim.slope(
            attention.x,
            attention.simulation,
            -1.0,
            "test error of attention − theory",
            error=attention.simulation_error,
            within=0.25,
        )
        yield _within(gaps.assign(theory=0.0), "Gaussian tokens: errors and cosine at every d")
        yield _rule(_dots(table, RULE))
        yield _within(_dots(table, OBEYS), f"{OBEYS}: error of attention")
        yield _within(_dots(table, COSINE + OBEYS), f"{OBEYS}: cosine")
        yield _within(_dots(table, POOLED + OBEYS), f"{OBEYS}: error of pooled")
        yield _beyond(_dots(table, BREAKS), UNEVEN, "dim", BREAKS)
        yield _within(along[along.series == "gaussian"], f"{ALONG}: gaussian")
        for name in along.series.unique()[1:]:
            yield _beyond(along, name, "dim", ALONG)
        yield _beyond(raw, "pooled", "x", f"correlation {raw.x.max():g}")
        fewest = white[white.x == white.x.min()]
        yield _beyond(fewest, "attention", "x", f"whitened with {white.x.min():g} a dimension")
        enough = f"whitened with {_ENOUGH} noise tokens a dimension or more"
        yield _within(white[white.x >= _ENOUGH], f"{enough}: errors")
        yield _within(aligned[aligned.x >= _ENOUGH], f"{enough}: cosine")
        yield _within(long, f"up to {long.x.max():.0f} tokens in {SHORT} dimensions: errors")
        yield from _remarks(table)


def _dots(table: claim.Table, panel: str) -> claim.Table:
    """The simulations of a panel, each with its theory."""
    dots = claim.part(table, panel).dropna(subset=["simulation"])
    line = claim.part(table, panel, departures.THEORY)
    return dots.assign(theory=line.theory.iloc[0]) if len(line) else dots


def _within(dots: claim.Table, what: str) -> claim.Check:
    gap, allowed = dots.simulation - dots.theory, _ROOM / dots.dim + 4 * dots.simulation_error
    return claim.Check(
        what,
        "simulation equals theory",
        f"{len(dots)} dots, (simulation − theory)·d from {(gap * dots.dim).min():.2f} to "
        f"{(gap * dots.dim).max():.2f}; the farthest at {(gap.abs() / allowed).max():.2f} of the "
        "allowance",
        f"every |simulation − theory| ≤ {_ROOM:.3g}/d + 4 standard errors",
        claim.graded(gap.abs() - allowed),
    )


def _rule(dots: claim.Table) -> claim.Check:
    share = dots.simulation / dots.x
    return claim.Check(
        "rule of thumb, any task",
        "simulation equals theory up to 1/m + λL/d",
        f"{len(dots)} dots, |simulation − theory| is {share.min():.2f} to {share.max():.2f} of it",
        "every |simulation − theory| ≤ 1/m + λL/d + 4 standard errors, m the samples of the rarer "
        "class in the smaller stage",
        claim.graded(dots.simulation - dots.x - 4 * dots.simulation_error),
    )


def _beyond(dots: claim.Table, series: str, along: str, what: str) -> claim.Check:
    """That the last simulation of a series is not where the theory has it; NaN if there is none."""
    last = dots[dots.series == series].sort_values(along).tail(1).mean(numeric_only=True)
    gap, error, room = last.simulation - last.theory, last.simulation_error, _ROOM / last.dim
    return claim.Check(
        f"{what}: {series}",
        "the theory does not apply",
        f"simulation − theory {gap:+.4f} ± {error:.4f}, allowed were {room:.4f}",
        f"|simulation − theory| beyond {_ROOM:.3g}/d by 4 standard errors (inconclusive if nearer)",
        claim.beyond(abs(gap) - room, error),
    )


def _remarks(table: claim.Table) -> Iterator[str]:
    broken, aligned = _dots(table, BREAKS), _dots(table, COSINE + BREAKS)
    yield (
        f"{HEAVY} (no fourth moment): simulation − theory of the test error is "
        f"{_list(broken[broken.series == HEAVY])}, of the cosine "
        f"{_list(aligned[aligned.series == HEAVY])}: single tokens lead the query astray, and this "
        "falls slowly with d."
    )
    yield (
        f"{SPARSEST} (fourth moment 50): simulation − theory is "
        f"{_list(broken[broken.series == SPARSEST])}; it falls with d, from far higher than for "
        "lighter tails: about a thirtieth of the fourth moment over d."
    )
    yield (
        f"The cosine of the query in {SHORT} dimensions: simulation − theory is "
        f"{_list(_dots(table, COSINE + LONG), 'x', 'L')}."
    )


def _list(dots: claim.Table, along: str = "dim", symbol: str = "d") -> str:
    return ", ".join(
        f"{row.simulation - row.theory:+.4f} ± {row.simulation_error:.4f} ({symbol} = "
        f"{getattr(row, along):.0f})"
        for row in dots.sort_values(along).itertuples()
    )

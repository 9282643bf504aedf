"""When the theory stops being true: checks and panels of what `departures.py` simulates."""

from __future__ import annotations

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention
from sparsetoken.reproduction import claim
from sparsetoken.reproduction.claims.departures import (
    ALONG,
    BREAKS,
    COSINE,
    GAP,
    HEAVY,
    LONG,
    OBEYS,
    POOLED,
    PROTOCOL,
    RAW,
    RULE,
    SHORT,
    SPARSEST,
    THEORY,
    UNEVEN,
    WHITENED,
    allowance,
    compute,
)

# the rule of thumb for the task and protocol of all panels but its own, times d
_ROOM = allowance(claim.PAPER, PROTOCOL, 1, Attention())
_ENOUGH = 8  # noise tokens a dimension, from which whitening is expected to be as good as exact


def judge(table: claim.Table) -> claim.Judgement:
    """What agrees is within the rule of thumb, what does not is beyond it."""
    gaps, along, white = _dots(table, GAP), _dots(table, ALONG), _dots(table, WHITENED)
    raw, long = _dots(table, RAW), _dots(table, LONG)
    attention = gaps[gaps.series == "attention, test error"]
    fewest = white[(white.series == "attention") & (white.x == white.x.min())]
    aligned = _dots(table, COSINE + WHITENED)
    enough = f"whitened with {_ENOUGH} noise tokens a dimension or more"
    return claim.Judgement(
        [
            claim.slope(
                attention.x, attention.simulation, -1.0, "test error of attention − theory",
                error=attention.simulation_error, within=0.25,
            ),
            _within(gaps.assign(theory=0.0), "Gaussian tokens: errors and cosine at every d"),
            _rule(_dots(table, RULE)),
            _within(_dots(table, OBEYS), f"{OBEYS}: error of attention"),
            _within(_dots(table, COSINE + OBEYS), f"{OBEYS}: cosine"),
            _within(_dots(table, POOLED + OBEYS), f"{OBEYS}: error of pooled"),
            _beyond(_dots(table, BREAKS), UNEVEN, "dim", BREAKS),
            _within(along[along.series == "gaussian"], f"{ALONG}: gaussian"),
            *(_beyond(along, name, "dim", ALONG) for name in along.series.unique()[1:]),
            _beyond(raw, "pooled", "x", f"correlation {raw.x.max():g}"),
            _beyond(fewest, "attention", "x", f"whitened with {white.x.min():g} a dimension"),
            _within(white[white.x >= _ENOUGH], f"{enough}: errors"),
            _within(aligned[aligned.x >= _ENOUGH], f"{enough}: cosine"),
            _within(long, f"up to {long.x.max():.0f} tokens in {SHORT} dimensions: errors"),
        ],
        _remarks(table),
    )  # fmt: skip


def _dots(table: claim.Table, panel: str) -> claim.Table:
    """The simulations of a panel, each with its theory."""
    mine = table[table.panel == panel]
    dots, line = mine.dropna(subset=["simulation"]), mine[mine.series == THEORY]
    return dots.assign(theory=line.theory.iloc[0]) if len(line) else dots


def _judged(gap: claim.Table, error: claim.Table, room: claim.Table) -> claim.Verdict:
    """Whether all |gaps| are within the room, up to 4 standard errors."""
    if not len(gap) or bool((gap.isna() | error.isna()).any()):
        return "inconclusive"
    return "holds" if bool((gap.abs() <= room + 4 * error).all()) else "fails"


def _within(dots: claim.Table, what: str) -> claim.Check:
    gap, room = dots.simulation - dots.theory, _ROOM / dots.dim
    share = gap.abs() / (room + 4 * dots.simulation_error)
    return claim.Check(
        what,
        "simulation equals theory",
        f"{len(dots)} dots, (simulation − theory)·d from {(gap * dots.dim).min():.2f} to "
        f"{(gap * dots.dim).max():.2f}; the farthest at {share.max():.2f} of the allowance",
        f"every |simulation − theory| ≤ {_ROOM:.3g}/d + 4 standard errors",
        _judged(gap, dots.simulation_error, room),
    )


def _rule(dots: claim.Table) -> claim.Check:
    share = dots.simulation / dots.x
    return claim.Check(
        "rule of thumb, any task",
        "simulation equals theory up to 1/m + λL/d",
        f"{len(dots)} dots, |simulation − theory| is {share.min():.2f} to {share.max():.2f} of it",
        "every |simulation − theory| ≤ 1/m + λL/d + 4 standard errors, m the samples of the rarer "
        "class in the smaller stage",
        _judged(dots.simulation, dots.simulation_error, dots.x),
    )


def _beyond(dots: claim.Table, series: str, along: str, what: str) -> claim.Check:
    """That the last simulation of a series is not where the theory has it."""
    mine = dots[dots.series == series].sort_values(along)
    gap = error = room = np.nan
    verdict: claim.Verdict = "inconclusive"
    if len(mine):
        last = mine.iloc[-1]
        gap, error, room = last.simulation - last.theory, last.simulation_error, _ROOM / last.dim
        if abs(gap) > room + 4 * error:
            verdict = "holds"
        elif abs(gap) + 4 * error < room:
            verdict = "fails"
    return claim.Check(
        f"{what}: {series}",
        "the theory does not apply",
        f"simulation − theory {gap:+.4f} ± {error:.4f}, allowed were {room:.4f}",
        f"|simulation − theory| beyond {_ROOM:.3g}/d by 4 standard errors (inconclusive if nearer)",
        verdict,
    )


def _remarks(table: claim.Table) -> list[str]:
    broken, aligned = _dots(table, BREAKS), _dots(table, COSINE + BREAKS)
    heavy, sparse = broken[broken.series == HEAVY], broken[broken.series == SPARSEST]
    long = _dots(table, COSINE + LONG)
    return [
        f"{HEAVY} (no fourth moment): simulation − theory of the test error is {_list(heavy)}, of "
        f"the cosine {_list(aligned[aligned.series == HEAVY])}: single tokens lead the query "
        "astray, and this falls slowly with d.",
        f"{SPARSEST} (fourth moment 50): simulation − theory is {_list(sparse)}; it falls with d, "
        "from far higher than for lighter tails: about a thirtieth of the fourth moment over d.",
        f"The cosine of the query in {SHORT} dimensions: simulation − theory is "
        f"{_list(long, 'x', 'L')}.",
    ]


def _list(dots: claim.Table, along: str = "dim", symbol: str = "d") -> str:
    return ", ".join(
        f"{row.simulation - row.theory:+.4f} ± {row.simulation_error:.4f} ({symbol} = "
        f"{getattr(row, along):.0f})"
        for row in dots.sort_values(along).itertuples()
    )


_DIM, _ERROR = "dimension  $d$", "test error of attention"
CLAIM = claim.Claim(
    "universality",
    "Beside the paper's assumptions",
    "The theory of white Gaussian tokens in many dimensions holds for other independent noise "
    "without heavy tails, for more tokens than dimensions and, after whitening, for coloured "
    "noise; finite size costs at most about one over the number of samples of the rarer class.",
    compute,
    judge,
    [
        Panel(GAP, _DIM, "simulation − theory", log="xy"),
        Panel(RULE, "allowed:  $1/m + \\lambda L/d$", "|simulation − theory|", "xy", join=False),
        Panel(OBEYS, _DIM, _ERROR, log="x"),
        Panel(BREAKS, _DIM, _ERROR, log="x"),
        Panel(ALONG, _DIM, _ERROR, log="x"),
        Panel(LONG, "length  $L$", "test error", log="x", low=0.0),
        Panel(RAW, "correlation of neighbouring coordinates", "test error", low=0.0),
        Panel(WHITENED, "noise tokens per dimension  $N/d$", "test error", log="x", low=0.0),
    ],
)

r"""What `universality` simulates: other dimensions, other tokens, other lengths.

The rule of thumb that is tested: with m the expected number of samples of the rarer class in the
smaller stage, the mean test error of training runs in dimension d is within

    1/m + λL/d

of the prediction. With fewer samples of a class than that their chance decides; a ridge λ beyond
the variance 1/L of a pooled feature leaves a readout so small that the bias, which follows the
classes as they were drawn, decides. Where that is all that is wrong, the gap falls like 1/d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.model.classifiers import Attention, Classifier, Pooled
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.reproduction import claim
from sparsetoken.simulation.universality import Departure
from sparsetoken.studies.cells import Cell
from sparsetoken.studies.departures import DepartureCell
from sparsetoken.studies.questions import Question

PROTOCOL = Protocol(query_samples=2.0, readout_samples=4.0, ridge=1e-2)
_TWO: dict[str, Classifier] = {"attention": Attention(), "pooled": Pooled()}
GAP, RULE = "Gaussian tokens: simulation − theory", "rule of thumb, any task and dimension"
OBEYS, BREAKS = "other noise, random signal direction", "noise beyond the rule of thumb"
ALONG = "signal along one coordinate"
RAW, WHITENED = "coloured noise, used as it is", "coloured noise, whitened"
LONG = "more tokens than dimensions (d = 30)"
COSINE, POOLED = "query cosine, ", "pooled, "  # before the name of a panel: not drawn
THEORY = "reference: theory (Gaussian tokens)"
ALIGNED = "cosine of the query, theory − simulation"
UNEVEN, HEAVY, SPARSEST = "a scale for each token", "Student t, 3 degrees", "2 % non-zero"
_NOISES = {
    OBEYS: {
        "gaussian": Departure(),
        "±1": Departure("rademacher"),
        "Student t, 5 degrees": Departure("student", 5.0),
        "10 % non-zero": Departure("sparse", 0.1),
    },
    BREAKS: {
        UNEVEN: Departure("elliptical", 5.0),
        HEAVY: Departure("student", 3.0),
        SPARSEST: Departure("sparse", 0.02),
    },
}
_NOISES[ALONG] = {
    name: replace(noise, direction="coordinate") for name, noise in _NOISES[OBEYS].items()
}
_CORRELATION = 0.6  # of neighbouring coordinates, in what is whitened
SHORT = 30  # dimensions, for lengths beyond them


@dataclass(frozen=True)
class _Sizes:
    """What a scale means here; repeats grow with d where a gap of order 1/d is resolved."""

    dims: tuple[int, ...]
    per_dim: float
    token_dims: tuple[int, ...]
    repeats: int
    colour_dim: int
    colours: tuple[float, ...]
    whitening: tuple[float, ...]
    lengths: tuple[int, ...]  # k: L = 10k², R = k
    task_repeats: int
    tasks: int
    test_samples: int


_SIZES = {
    "tiny": _Sizes((20, 40, 80), 1.5, (20, 40), 4, 20, (0.9,), (1.5, 12.0), (1, 2), 12, 3, 1000),
    "quick": _Sizes(
        (20, 40, 80, 120), 1.6, (40, 100), 13, 50, (0.0, 0.6, 0.9), (1.5, 4.0, 8.0, 16.0),
        (1, 2, 4), 12, 99, 800,
    ),
    "full": _Sizes(
        (20, 40, 80, 160, 320), 6.0, (20, 40, 80, 160, 320), 24, 120, (0.0, 0.3, 0.6, 0.8, 0.9),
        (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0), (1, 2, 3, 4, 5, 6), 100, 99, 4000,
    ),
}  # fmt: skip


def _task(
    dim: int, task: dict[str, Any] | None = None, **protocol: Any
) -> tuple[Task, Protocol, int]:
    return replace(claim.PAPER, **(task or {})), replace(PROTOCOL, **protocol), dim


_TASKS = [  # that have little in common, with protocols and dimensions; the extremes first
    _task(40, query_samples=0.5, readout_samples=0.5),
    _task(40, ridge=0.3),
    _task(20, {"prevalence": 0.2}, bias_step=5.0),
    _task(5, query_samples=8.0, readout_samples=16.0),
    _task(80, query_samples=8.0, readout_samples=16.0),
    _task(40, {"strength": 3.0}),
    _task(40, {"length": 8, "strength": 4.0}, readout_samples=3.0),
    _task(80, readout_samples=1.0),
    _task(40, ridge=1e-5),
    _task(20, {"length": 2, "strength": 3.0}),
    _task(40, {"length": 40, "sparsity": 2}),
    _task(40, {"sparsity": 10, "strength": 0.7}),
]


def allowance(task: Task, protocol: Protocol, dim: int, classifier: Classifier) -> float:
    """The rule of thumb: 1/m + λL/d."""
    fewest = protocol.readout_samples
    if classifier.learns_query:
        fewest = min(fewest, protocol.query_samples)
    rarer = fewest * dim * min(task.prevalence, 1 - task.prevalence)
    return 1 / rarer + protocol.ridge * task.length / dim


class _Part(NamedTuple):
    """Questions, and what their answers are made into."""

    questions: Sequence[Question]
    rows: Callable[[claim.Table], Iterable[claim.Table]]


def measure(scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
    """Simulations beside the theory of Gaussian tokens, one thing changed at a time."""
    sizes = _SIZES[scale.name]
    parts = [*_on_laws(sizes, scale.seed), *_on_tokens(sizes, scale.seed)]
    answers = ask([question for part in parts for question in part.questions])
    dims = np.array(sizes.dims, float)
    yield claim.rows(GAP, "reference: 1/d", dims, theory=1 / dims)
    for part in parts:
        yield from part.rows(claim.of(answers, part.questions))
    rooms = [allowance(*place, kind) for place in _TASKS[: sizes.tasks] for kind in _TWO.values()]
    line = [min(rooms), max(rooms)]
    yield claim.rows(RULE, "reference: allowed", line, theory=line)


def _on_laws(sizes: _Sizes, seed: int) -> Iterator[_Part]:
    """Theory and exact-in-law simulations of Gaussian tokens."""

    def pair(
        kind: Classifier, task: Task, protocol: Protocol, dim: int, repeats: int
    ) -> list[Question]:
        theory = Cell(task, kind, protocol)
        return [theory, replace(theory, kind="simulation", dim=dim, repeats=repeats, seed=seed)]

    for name, kind in _TWO.items():
        gaps: list[Question] = []
        long: list[Question] = []
        for dim in sizes.dims:
            gaps += pair(kind, claim.PAPER, PROTOCOL, dim, round(sizes.per_dim * dim))
        for k in sizes.lengths:  # equally hard for mean pooling, whatever k
            task = replace(claim.PAPER, length=10 * k * k, sparsity=k)
            protocol = replace(PROTOCOL, ridge=PROTOCOL.ridge / k**2)
            long += pair(kind, task, protocol, SHORT, sizes.task_repeats)
        yield _Part(gaps, partial(_gaps, name))
        yield _Part(long, partial(_curves, LONG, name, "length"))
        for place in _TASKS[: sizes.tasks]:
            questions = pair(kind, *place, sizes.task_repeats)
            yield _Part(questions, partial(_rule, name, place[2], allowance(*place, kind)))


def _on_tokens(sizes: _Sizes, seed: int) -> Iterator[_Part]:
    """Token-level simulations of other tokens."""

    def cells(name: str, departure: Departure, dims: Sequence[int], times: int) -> list[Question]:
        cell = Cell(
            claim.PAPER,
            _TWO[name],
            PROTOCOL,
            "simulation",
            dims[0],
            times * sizes.repeats,
            seed,
            "tokens",
            test_samples=sizes.test_samples,
        )
        return [DepartureCell(replace(cell, dim=dim), departure) for dim in dims]

    dims = sizes.token_dims
    theory: dict[str, Question] = {
        name: Cell(claim.PAPER, kind, PROTOCOL) for name, kind in _TWO.items()
    }
    for panel, noises in _NOISES.items():
        yield _Part([theory["attention"]], partial(_levels, panel, dims))
        for series, noise in noises.items():
            if panel == ALONG:  # fewer dimensions, more runs
                questions = cells("attention", noise, (dims[0], dims[-1]), 2)
            else:
                questions = cells("attention", noise, dims, 1)
            yield _Part(questions, partial(_curves, panel, series, "dim"))
            if panel == OBEYS:
                questions = cells("pooled", noise, dims[-1:], 1)
                yield _Part(questions, partial(_curves, POOLED + panel, series, "dim"))
    yield _Part([theory["pooled"]], partial(_levels, POOLED + OBEYS, dims))
    raw = [Departure(correlation=c) for c in sizes.colours]
    whitened = [Departure(correlation=_CORRELATION, whitening=n) for n in sizes.whitening]
    for name in _TWO:
        for panel, x, departures in (
            (RAW, "correlation", raw), (WHITENED, "whitening", whitened),
        ):  # fmt: skip
            runs = [
                cell
                for departure in departures
                for cell in cells(name, departure, (sizes.colour_dim,), 1)
            ]
            yield _Part([theory[name], *runs], partial(_curves, panel, name, x))


def _split(answers: claim.Table) -> tuple[claim.Table, claim.Table]:
    """Theory and simulations."""
    exact = answers.kind == "theory"
    return answers[exact], answers[~exact]


def _gaps(name: str, answers: claim.Table) -> Iterator[claim.Table]:
    """Simulation − theory against the dimension; the reverse for the cosine, which is too small."""
    theory, runs = _split(answers)
    quantities = {f"{name}, test error": ("test_error", 1)}
    if name == "attention":
        quantities[ALIGNED] = ("cosine", -1)
    for series, (quantity, sign) in quantities.items():
        dots = claim.compare(GAP, series, runs, "dim", quantity)
        gap = sign * (dots.simulation - float(theory[quantity].iloc[0]))
        yield dots.assign(simulation=gap, features=np.nan)


def _rule(series: str, dim: int, allowed: float, answers: claim.Table) -> Iterator[claim.Table]:
    """A gap beside what the rule of thumb allows."""
    theory, runs = (table.test_error for table in _split(answers))
    gap = float(runs.mean() - theory.iloc[0])
    numbers = {"simulation": abs(gap), "simulation_error": runs.sem(), "repeats": len(runs)}
    yield claim.rows(RULE, series, allowed, y=gap, dim=dim, **numbers)


def _quantities(panel: str, answers: claim.Table) -> dict[str, str]:
    """What of the answers is kept, with the panel it goes to."""
    attends = panel != ALONG and bool((answers.classifier == "attention").all())
    return {panel: "test_error"} | ({COSINE + panel: "cosine"} if attends else {})


def _levels(panel: str, dims: Sequence[int], answers: claim.Table) -> Iterator[claim.Table]:
    """The theory, which knows no dimension."""
    for name, quantity in _quantities(panel, answers).items():
        level = float(answers[quantity].iloc[0])
        yield claim.rows(name, THEORY, np.array(dims, float), theory=level)


def _curves(panel: str, series: str, x: str, answers: claim.Table) -> Iterator[claim.Table]:
    """Simulations along x, beside the theory if it was asked."""
    theory, runs = _split(answers)
    for name, quantity in _quantities(panel, answers).items():
        if x == "length":
            yield claim.compare(name, series, answers, x, quantity)
        else:
            dots = claim.compare(name, series, runs, x, quantity)
            yield dots.assign(theory=float(theory[quantity].iloc[0])) if len(theory) else dots

r"""What `universality` simulates: other dimensions, other tokens, other lengths.

The rule of thumb that is tested: with m the expected number of samples of the rarer class in the
smaller stage, the mean test error of training runs in dimension d is within

    1/m + λL/d

of the prediction. With fewer samples of a class than that their chance decides; a ridge λ beyond
the variance 1/L of a pooled feature leaves a readout so small that the bias, which follows the
classes as they were drawn, decides. Where that is all that is wrong, the gap falls like 1/d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsetoken.model.classifiers import Attention, Classifier, Pooled
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.reproduction import claim
from sparsetoken.simulation.universality import Departure
from sparsetoken.studies.cells import Cell
from sparsetoken.studies.departures import DepartureCell
from sparsetoken.studies.questions import Question
from sparsetoken.support.arrays import FloatArray

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


def allowance(task: Task, protocol: Protocol, dim: int, classifier: Classifier) -> float:
    """The rule of thumb: 1/m + λL/d."""
    fewest = protocol.readout_samples
    if classifier.learns_query:
        fewest = min(fewest, protocol.query_samples)
    rarer = fewest * dim * min(task.prevalence, 1 - task.prevalence)
    return 1 / rarer + protocol.ridge * task.length / dim


def _tasks() -> list[tuple[Task, Protocol, int]]:
    """Tasks, protocols and dimensions that have little in common; the first are the extremes."""
    given: list[tuple[dict[str, Any], dict[str, Any], int]] = [
        ({}, {"query_samples": 0.5, "readout_samples": 0.5}, 40),
        ({}, {"ridge": 0.3}, 40),
        ({"prevalence": 0.2}, {"bias_step": 5.0}, 20),
        ({}, {"query_samples": 8.0, "readout_samples": 16.0}, 5),
        ({}, {"query_samples": 8.0, "readout_samples": 16.0}, 80),
        ({"strength": 3.0}, {}, 40),
        ({"length": 8, "strength": 4.0}, {"readout_samples": 3.0}, 40),
        ({}, {"readout_samples": 1.0}, 80),
        ({}, {"ridge": 1e-5}, 40),
        ({"length": 2, "strength": 3.0}, {}, 20),
        ({"length": 40, "sparsity": 2}, {}, 40),
        ({"sparsity": 10, "strength": 0.7}, {}, 40),
    ]
    return [
        (replace(claim.PAPER, **task), replace(PROTOCOL, **protocol), dim)
        for task, protocol, dim in given
    ]


Asked = dict[tuple[str, str], list[Question]]


def compute(scale: claim.Scale, ask: claim.Ask) -> claim.Table:
    """Simulations beside the theory of Gaussian tokens, one thing changed at a time."""
    sizes = _SIZES[scale.name]
    asked = _on_laws(sizes, scale.seed) | _on_tokens(sizes, scale.seed)
    table = ask([question for questions in asked.values() for question in questions])
    dims, token_dims = np.array(sizes.dims, float), np.array(sizes.token_dims, float)
    parts = [claim.rows(GAP, "reference: 1/d", dims, theory=1 / dims)]
    for (panel, series), questions in asked.items():
        keys = {unit.key for question in questions for unit in question.units()}
        parts += _rows(panel, series, table[table.key.isin(keys)], token_dims)
    dots = [part for part in parts if part.panel.iloc[0] == RULE]
    line = np.array([f(part.x.iloc[0] for part in dots) for f in (min, max)])
    return claim.collect([*parts, claim.rows(RULE, "reference: allowed", line, theory=line)])


def _on_laws(sizes: _Sizes, seed: int) -> Asked:
    """Theory and exact-in-law simulations of Gaussian tokens."""
    asked: Asked = {}

    def pair(name: str, task: Task, protocol: Protocol, dim: int, repeats: int) -> list[Question]:
        theory = Cell(task, _TWO[name], protocol)
        return [theory, replace(theory, kind="simulation", dim=dim, repeats=repeats, seed=seed)]

    for name in _TWO:
        asked[GAP, name], asked[LONG, name] = [], []
        for dim in sizes.dims:
            asked[GAP, name] += pair(name, claim.PAPER, PROTOCOL, dim, round(sizes.per_dim * dim))
        for number, (task, protocol, dim) in enumerate(_tasks()[: sizes.tasks]):
            asked[f"{RULE} {number}", name] = pair(name, task, protocol, dim, sizes.task_repeats)
        for k in sizes.lengths:  # equally hard for mean pooling, whatever k
            task = replace(claim.PAPER, length=10 * k * k, sparsity=k)
            protocol = replace(PROTOCOL, ridge=PROTOCOL.ridge / k**2)
            asked[LONG, name] += pair(name, task, protocol, SHORT, sizes.task_repeats)
    return asked


def _on_tokens(sizes: _Sizes, seed: int) -> Asked:
    """Token-level simulations of other tokens."""
    asked: Asked = {}

    def cells(name: str, departure: Departure, dims: Sequence[int], times: int) -> list[Question]:
        cell = Cell(claim.PAPER, _TWO[name], PROTOCOL, "simulation", dims[0])
        cell = replace(cell, repeats=times * sizes.repeats, seed=seed, sampler="tokens")
        cell = replace(cell, test_samples=sizes.test_samples)
        return [DepartureCell(replace(cell, dim=dim), departure) for dim in dims]

    dims = sizes.token_dims
    for panel, noises in _NOISES.items():
        asked[panel, THEORY] = [Cell(claim.PAPER, _TWO["attention"], PROTOCOL)]
        for series, noise in noises.items():
            if panel == ALONG:  # fewer dimensions, more runs
                asked[panel, series] = cells("attention", noise, (dims[0], dims[-1]), 2)
            else:
                asked[panel, series] = cells("attention", noise, dims, 1)
            if panel == OBEYS:
                asked[POOLED + panel, series] = cells("pooled", noise, dims[-1:], 1)
    asked[POOLED + OBEYS, THEORY] = [Cell(claim.PAPER, _TWO["pooled"], PROTOCOL)]
    for name in _TWO:
        raw = [Departure(correlation=c) for c in sizes.colours]
        whitened = [Departure(correlation=_CORRELATION, whitening=n) for n in sizes.whitening]
        for panel, departures in ((RAW, raw), (WHITENED, whitened)):
            asked[panel, name] = [Cell(claim.PAPER, _TWO[name], PROTOCOL)]
            for each in departures:
                asked[panel, name] += cells(name, each, (sizes.colour_dim,), 1)
    return asked


def _rows(panel: str, series: str, answers: claim.Table, dims: FloatArray) -> list[claim.Table]:
    """The rows of what was asked for a panel and a series; `dims` are those of tokens."""
    theory, found = answers[answers.kind == "theory"], answers[answers.kind != "theory"]
    attends = bool((answers.classifier == "attention").all())
    if panel == GAP:
        parts = [_gap(f"{series}, test error", theory.test_error, found, "test_error", 1)]
        return parts + ([_gap(ALIGNED, theory.cosine, found, "cosine", -1)] if attends else [])
    if panel.startswith(RULE):
        task, protocol, dim = _tasks()[int(panel.removeprefix(RULE))]
        gap = float(found.test_error.mean() - theory.test_error.iloc[0])
        allowed = allowance(task, protocol, dim, _TWO[series])
        error, count = found.test_error.sem(), float(len(found))
        numbers = {"simulation": abs(gap), "simulation_error": error, "repeats": count, "y": gap}
        return [claim.rows(RULE, series, allowed, dim=float(dim), **numbers)]
    x = {LONG: "length", RAW: "correlation", WHITENED: "whitening"}.get(panel, "dim")
    parts = []
    for before, quantity in (("", "test_error"), (COSINE, "cosine")):
        if quantity == "test_error" or (attends and panel != ALONG):
            if series == THEORY:
                level = float(theory[quantity].iloc[0])
                parts.append(claim.rows(before + panel, series, dims, theory=level))
                continue
            part = claim.compare(
                before + panel, series, answers if x == "length" else found, x, quantity
            )
            if panel in (RAW, WHITENED):
                part = part.assign(theory=float(theory[quantity].iloc[0]))
            parts.append(part)
    return parts


def _gap(
    series: str, theory: claim.Table, found: claim.Table, quantity: str, sign: int
) -> claim.Table:
    """Simulation − theory (or the reverse) against the dimension."""
    values = found.groupby("dim")[quantity].agg(["mean", "sem", "count"])
    x = values.index.to_numpy(float)
    gap = sign * (values["mean"].to_numpy() - float(theory.iloc[0]))
    error, count = values["sem"].to_numpy(), values["count"].to_numpy(float)
    return claim.rows(GAP, series, x, simulation=gap, simulation_error=error, repeats=count, dim=x)

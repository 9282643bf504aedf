"""Theorem 3 and Corollary 1: where the query points after two gradient steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention
from sparsetoken.model.protocol import Protocol
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import grid
from sparsetoken.theory.alignment import align, alignment_rate

_DOTS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_LINE = np.unique(np.concatenate([np.geomspace(0.3, 1e4, 61), _DOTS]))
_STEPS = np.geomspace(0.1, 100, 31)
_COSINE, _NORM = "cosine of query and signal", "norm of the query"
_MISS, _MAP = "1 − cosine", "cosine over the step sizes (lines: sharpness)"


def compute(scale: claim.Scale, ask: claim.Ask) -> claim.Table:
    """Cosine and norm against query samples, and a map over the two step sizes."""
    protocol = Protocol(ridge=claim.RIDGE)
    lines = [align(claim.PAPER, replace(protocol, query_samples=float(x))) for x in _LINE]
    cells = grid(
        task=claim.PAPER, classifier=Attention(), protocol=protocol,
        query_samples=list(_DOTS), readout_samples=0.5, **claim.finite(scale, 2 * scale.dim),
    )  # fmt: skip
    answers = ask(cells)
    answers = answers.assign(miss=1 - answers.cosine)
    parts = []
    for panel, quantity, theory in (
        (_COSINE, "cosine", [query.cosine for query in lines]),
        (_NORM, "norm", [query.norm for query in lines]),
        (_MISS, "miss", [1 - query.cosine for query in lines]),
    ):
        exact = pd.DataFrame({"kind": "theory", "query_samples": _LINE, quantity: theory})
        both = pd.concat([exact, answers], ignore_index=True)
        parts.append(claim.compare(panel, "attention", both, "query_samples", quantity))
    far = _LINE[_LINE >= 1]
    parts.append(
        claim.rows(
            _MISS, "reference: C/α₀", far, theory=alignment_rate(claim.PAPER, protocol) / far
        )
    )
    for step in _STEPS:
        queries = [
            align(claim.PAPER, replace(protocol, readout_step=float(x), query_step=float(step)))
            for x in _STEPS
        ]
        for series in ("cosine", "sharpness"):
            values = [getattr(query, series) for query in queries]
            parts.append(claim.rows(_MAP, series, _STEPS, y=step, theory=values))
    return claim.collect(parts)


def judge(table: claim.Table) -> claim.Judgement:
    """Dots on the line, and 1 − cosine falling like C/α₀."""
    learned = table[table.series == "attention"]
    cosine, norm, miss = (learned[learned.panel == panel] for panel in (_COSINE, _NORM, _MISS))
    line = table[(table.panel == _MISS) & table.series.str.startswith("reference")]
    last = miss.x.max()
    ratio = float(miss[miss.x == last].theory.iloc[0] / line[line.x == last].theory.iloc[0])
    far = miss[miss.x >= 100]
    dots = miss.dropna(subset="simulation")
    dots = dots[dots.x >= 8]
    return claim.Judgement(
        [
            *claim.agreement(cosine, "cosine of the query"),
            *claim.agreement(norm, "norm of the query"),
            *claim.agreement(miss, "1 − cosine"),
            claim.slope(far.x, far.theory, -1.0, "decay of 1 − cosine, theory, α₀ ≥ 100"),
            claim.slope(
                dots.x,
                dots.simulation,
                -1.0,
                "decay of 1 − cosine, simulation, α₀ ≥ 8",
                dots.simulation_error,
            ),
            claim.Check(
                "constant of the decay",
                "1 − cosine = C/α₀",
                f"{ratio:.4f} of C/α₀ at α₀ = {last:g}",
                "within 1 %",
                claim.decide(abs(ratio - 1) <= 0.01),
            ),
        ]
    )


_SAMPLES = "query samples per dimension  $\\alpha_0 = n_0/d$"
CLAIM = claim.Claim(
    "alignment",
    "Theorem 3, Corollary 1",
    "After two gradient steps the query has a deterministic cosine with the signal, and "
    "1 − cosine falls like C/α₀.",
    compute,
    judge,
    [
        Panel(_COSINE, _SAMPLES, "cosine  $s$", log="x"),
        Panel(_NORM, _SAMPLES, "norm  $\\|q\\|$", log="x"),
        Panel(_MISS, _SAMPLES, "1 − cosine", log="xy"),
        Panel(
            _MAP, "readout step  $\\eta_w$", "query step  $\\eta_q$", log="xy", colour="cosine",
            contours="sharpness",
        ),
    ],
)  # fmt: skip

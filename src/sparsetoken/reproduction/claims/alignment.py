"""Theorem 3 and Corollary 1: where the query points after two gradient steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention
from sparsetoken.model.protocol import Protocol
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import grid
from sparsetoken.theory.alignment import align, alignment_rate

_PROTOCOL = Protocol(ridge=claim.RIDGE)
_DOTS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_LINE = np.unique(np.concatenate([np.geomspace(0.3, 1e4, 61), _DOTS]))
_STEPS = np.geomspace(0.1, 100, 31).tolist()
_COSINE, _NORM = "cosine of query and signal", "norm of the query"
_MISS, _MAP = "1 − cosine", "cosine over the step sizes (lines: sharpness)"
_QUANTITIES = {_COSINE: "cosine", _NORM: "norm", _MISS: "miss"}
_DECAY = "reference: C/α₀"
_SAMPLES = "query samples per dimension  $\\alpha_0 = n_0/d$"


class Alignment(claim.Claim):
    source = "Theorem 3, Corollary 1"
    sentence = (
        "After two gradient steps the query has a deterministic cosine with the signal, and "
        "1 − cosine falls like C/α₀."
    )
    panels = (
        Panel(_COSINE, _SAMPLES, "cosine  $s$", log="x"),
        Panel(_NORM, _SAMPLES, "norm  $\\|q\\|$", log="x"),
        Panel(_MISS, _SAMPLES, "1 − cosine", log="xy"),
        Panel(
            _MAP, "readout step  $\\eta_w$", "query step  $\\eta_q$", log="xy", colour="cosine",
            contours="sharpness",
        ),
    )  # fmt: skip

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        trained = claim.setting(
            claim.PAPER, _PROTOCOL, query_samples=claim.span(_LINE), readout_samples="0.5"
        )
        return {
            _COSINE: trained,
            _NORM: trained,
            _MISS: trained,
            _MAP: claim.setting(
                claim.PAPER,
                _PROTOCOL,
                readout_samples="any",
                readout_step=claim.span(_STEPS),
                query_step=claim.span(_STEPS),
            ),
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Cosine and norm against query samples, and a map over the two step sizes."""
        queries = [align(claim.PAPER, replace(_PROTOCOL, query_samples=float(x))) for x in _LINE]
        exact = pd.DataFrame({"kind": "theory", "query_samples": _LINE})
        exact = exact.assign(cosine=[q.cosine for q in queries], norm=[q.norm for q in queries])
        cells = grid(
            task=claim.PAPER,
            classifier=Attention(),
            protocol=_PROTOCOL,
            query_samples=list(_DOTS),
            readout_samples=0.5,
            **claim.finite(scale, 2 * scale.dim),
        )
        answers = pd.concat([exact, ask(cells)], ignore_index=True)
        answers = answers.assign(miss=1 - answers.cosine)
        for panel, quantity in _QUANTITIES.items():
            yield claim.compare(panel, "attention", answers, "query_samples", quantity)
        far = _LINE[_LINE >= 1]
        rate = alignment_rate(claim.PAPER, _PROTOCOL)
        yield claim.rows(_MISS, _DECAY, far, theory=rate / far)
        for step in _STEPS:
            protocols = [replace(_PROTOCOL, readout_step=x, query_step=step) for x in _STEPS]
            queries = [align(claim.PAPER, protocol) for protocol in protocols]
            for series in ("cosine", "sharpness"):
                values = [getattr(query, series) for query in queries]
                yield claim.rows(_MAP, series, _STEPS, y=step, theory=values)

    def check(self, table: claim.Table) -> Iterator[claim.Check]:
        """Dots on the line, and 1 − cosine falling like C/α₀."""
        yield from claim.agreement(claim.part(table, _COSINE, "attention"), "cosine of the query")
        yield from claim.agreement(claim.part(table, _NORM, "attention"), _NORM)
        miss = claim.part(table, _MISS, "attention")
        yield from claim.agreement(miss, _MISS)
        far = miss[miss.x >= 100]
        yield claim.slope(far.x, far.theory, -1.0, "decay of 1 − cosine, theory, α₀ ≥ 100")
        dots = miss[miss.simulation.notna() & (miss.x >= 8)]
        what = "decay of 1 − cosine, simulation, α₀ ≥ 8"
        yield claim.slope(dots.x, dots.simulation, -1.0, what, dots.simulation_error)
        last = miss.x.max()
        line = claim.part(table, _MISS, _DECAY)
        ratio = float(miss[miss.x == last].theory.iloc[0] / line[line.x == last].theory.iloc[0])
        yield claim.Check(
            "constant of the decay",
            "1 − cosine = C/α₀",
            f"{ratio:.4f} of C/α₀ at α₀ = {last:g}",
            "within 1 %",
            claim.decide(abs(ratio - 1) <= 0.01),
        )

"""Corollary 2: with the square loss the excess error falls like one over the samples."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.losses import Square
from sparsetoken.model.protocol import Protocol
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import Cell, grid
from sparsetoken.theory.alignment import align

_LINE = np.geomspace(4, 4000, 25)  # samples per feature
_DOTS = (8.0, 16.0, 32.0)
_EXCESS = "excess test error, square loss"
_X = "readout samples per feature  $n_1/p$"


class Rates(claim.Claim):
    source = "Corollary 2"
    sentence = (
        "With the square loss the test error approaches its limit like one over the number of "
        "samples, for each classifier."
    )
    panels = (Panel(_EXCESS, _X, "test error − limit", log="xy"),)

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        return {
            "": claim.setting(
                claim.PAPER,
                Protocol(loss=Square(), ridge=claim.RIDGE),
                readout_samples=f"{claim.span(_LINE)} times p/d",
            )
            + "; attention's query frozen where these n₀ samples lead it in the limit"
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Test error less its limit, against samples per feature.

        Attention has the query of the limit, so that its own fluctuations do not mix in.
        """
        query = align(claim.PAPER, Protocol(loss=Square(), ridge=claim.RIDGE))
        same = {"task": claim.PAPER, "loss": Square(), "ridge": claim.RIDGE}
        cells: list[Cell] = []
        for classifier in claim.THREE.values():
            same["classifier"] = classifier.frozen(query)
            per_dim = classifier.features_per_dim(claim.PAPER)
            samples = np.unique(np.concatenate([_LINE, _DOTS])) * per_dim
            cells += grid(readout_samples=[*samples.tolist(), math.inf], **same)
            cells += grid(
                readout_samples=[per_dim * x for x in _DOTS],
                **same,
                **claim.finite(scale, max(10, scale.dim // (2 * per_dim))),
            )
        answers = ask(cells)
        for name, classifier in claim.THREE.items():
            own = answers[answers.classifier == name]
            both = claim.compare(_EXCESS, name, own, "readout_samples", "test_error")
            limit = float(both[np.isinf(both.x)].theory.iloc[0])
            excess = both[np.isfinite(both.x)].sort_values("x")
            excess[["theory", "simulation"]] -= limit
            excess["x"] /= classifier.features_per_dim(claim.PAPER)
            yield excess
            if name == "attention":
                last = excess.iloc[-1]
                line = last.theory * last.x / _LINE
                yield claim.rows(_EXCESS, "reference: 1/n", _LINE, theory=line)

    def check(self, table: claim.Table) -> Iterator[claim.Check]:
        """Slope −1 in the theory, dots on the lines."""
        for name in claim.THREE:
            own = claim.part(table, _EXCESS, name)
            far = own[(own.x >= 100) & own.theory.notna()]
            what = f"excess error of {name}, theory, at least 100 samples per feature"
            yield claim.slope(far.x, far.theory, -1.0, what)
        dots = table[table.series.isin(list(claim.THREE))]
        yield from claim.agreement(dots, "finite experiments")

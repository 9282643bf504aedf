"""Corollary 2: with the square loss the excess error falls like one over the samples."""

from __future__ import annotations

import math

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.losses import Square
from sparsetoken.model.protocol import Protocol
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import Cell, grid
from sparsetoken.theory.alignment import align

_LINE = np.geomspace(4, 4000, 25)  # samples per feature
_DOTS = (8.0, 16.0, 32.0)
_EXCESS = "excess test error, square loss"


def compute(scale: claim.Scale, ask: claim.Ask) -> claim.Table:
    """Test error less its limit, against samples per feature."""
    cells: list[Cell] = []
    per_dim = {name: each.features_per_dim(claim.PAPER) for name, each in claim.THREE.items()}
    for name, classifier in _classifiers().items():
        same = {
            "task": claim.PAPER,
            "loss": Square(),
            "ridge": claim.RIDGE,
            "classifier": classifier,
        }
        samples = np.unique(np.concatenate([_LINE, _DOTS])) * per_dim[name]
        cells += grid(readout_samples=[*samples.tolist(), math.inf], **same)
        cells += grid(
            readout_samples=[per_dim[name] * each for each in _DOTS], **same,
            **claim.finite(scale, max(10, scale.dim // (2 * per_dim[name]))),
        )  # fmt: skip
    answers = ask(cells)
    parts = []
    for name in claim.THREE:
        mine = answers[answers.classifier == name]
        found = claim.compare(_EXCESS, name, mine, "readout_samples", "test_error")
        limit = float(found[np.isinf(found.x)].theory.iloc[0])
        found = found[np.isfinite(found.x)]
        excess = found.assign(
            x=found.x / per_dim[name],
            theory=found.theory - limit,
            simulation=found.simulation - limit,
        )
        parts.append(excess)
        if name == "attention":
            last = excess.sort_values("x").iloc[-1]
            line = last.theory * last.x / _LINE
            parts.append(claim.rows(_EXCESS, "reference: 1/n", _LINE, theory=line))
    return claim.collect(parts)


def _classifiers() -> dict[str, Classifier]:
    """Attention with the query of the limit, so that its own fluctuations do not mix in."""
    query = align(claim.PAPER, Protocol(loss=Square(), ridge=claim.RIDGE))
    return {name: each.frozen(query) for name, each in claim.THREE.items()}


def judge(table: claim.Table) -> claim.Judgement:
    """Slope −1 in the theory, dots on the lines."""
    checks = []
    for name in claim.THREE:
        mine = table[table.series == name]
        far = mine[(mine.x >= 100) & mine.theory.notna()]
        what = f"excess error of {name}, theory, at least 100 samples per feature"
        checks.append(claim.slope(far.x, far.theory, -1.0, what))
    dots = table[table.series.isin(list(claim.THREE))]
    checks += claim.agreement(dots, "finite experiments")
    return claim.Judgement(checks)


CLAIM = claim.Claim(
    "rates",
    "Corollary 2",
    "With the square loss the test error approaches its limit like one over the number of samples, "
    "for each classifier.",
    compute,
    judge,
    [Panel(_EXCESS, "readout samples per feature  $n_1/p$", "test error − limit", log="xy")],
)

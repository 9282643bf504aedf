"""Theorems 4 and 5: test error and training loss of the trained classifiers."""

from __future__ import annotations

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.losses import Logistic, Loss, Square
from sparsetoken.reproduction.claims import (
    CLASSIFIERS,
    PAPER,
    RIDGE,
    Ask,
    Check,
    Claim,
    Judgement,
    Scale,
    Table,
    agreement,
    collect,
    compare,
    decide,
)
from sparsetoken.studies.cells import grid

_LOSSES: dict[str, Loss] = {"square": Square(), "logistic": Logistic()}
_QUANTITIES = {"test error": "test_error", "training loss": "train_loss"}
_DOTS = (0.5, 0.75, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
_MORE = (16.0, 32.0)  # not for Vectorized, which has length × dim features
_LINE = np.unique(np.concatenate([np.geomspace(0.4, 40, 46), _DOTS, _MORE]))


def compute(scale: Scale, ask: Ask) -> Table:
    """Lines of theory, dots of simulation, for three classifiers and two losses."""
    same = {"task": PAPER, "loss": list(_LOSSES.values()), "ridge": RIDGE, "query_samples": 2.0}
    every = list(CLASSIFIERS.values())
    small = [CLASSIFIERS["attention"], CLASSIFIERS["pooled"]]
    finite = {"kind": "simulation", "dim": scale.dim, "repeats": scale.repeats, "seed": scale.seed}
    answers = ask(
        grid(classifier=every, readout_samples=_LINE.tolist(), **same)
        + grid(classifier=every, readout_samples=list(_DOTS), **same, **finite)
        + grid(classifier=small, readout_samples=list(_MORE), **same, **finite)
    )
    parts = []
    for loss in _LOSSES:
        for label, quantity in _QUANTITIES.items():
            for series in CLASSIFIERS:
                mine = answers[(answers.loss == loss) & (answers.classifier == series)]
                panel = f"{label}, {loss} loss"
                parts.append(compare(panel, series, mine, "readout_samples", quantity))
    return collect(parts)


def judge(table: Table) -> Judgement:
    """Every dot on its line; attention below the others."""
    checks = [agreement(rows, str(panel)) for panel, rows in table.groupby("panel", sort=False)]
    for loss in _LOSSES:
        errors = table[table.panel == f"test error, {loss} loss"]
        for kind, where in (("theory", errors), ("simulation", errors.dropna(subset="simulation"))):
            by = where.pivot(index="x", columns="series", values=kind)
            others = by.drop(columns="attention").min(axis=1)
            worst = float((by.attention / others).max())
            checks.append(
                Check(
                    f"attention lowest, {loss} loss, {kind}",
                    "attention has the lowest test error",
                    f"at most {worst:.2f} of the better linear classifier's",
                    "below 1 at every number of samples",
                    decide(worst < 1),
                )
            )
    return Judgement(checks)


CLAIM = Claim(
    "learning-curves",
    "Theorems 4 and 5",
    "Test error and training loss of the trained classifiers tend to the solution of a few scalar "
    "equations, and attention has the lowest test error.",
    compute,
    judge,
    [
        Panel(
            f"{label}, {loss} loss",
            "readout samples per dimension  $n_1/d$",
            label,
            log="x" if quantity == "train_loss" else "xy",
        )
        for loss in _LOSSES
        for label, quantity in _QUANTITIES.items()
    ],
)

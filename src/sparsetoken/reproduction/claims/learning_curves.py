"""Theorems 4 and 5: test error and training loss of the trained classifiers."""

from __future__ import annotations

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Pooled, Vectorized
from sparsetoken.model.losses import Logistic, Loss, Square
from sparsetoken.model.names import LOSSES
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import grid

_LOSSES: dict[str, Loss] = {LOSSES.kind(each): each for each in (Square(), Logistic())}
_QUANTITIES = {"test error": "test_error", "training loss": "train_loss"}
_DOTS = (0.5, 0.75, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
_MORE = (16.0, 32.0)  # not for Vectorized, which has length × dim features
_LINE = np.geomspace(0.4, 40, 47).tolist()


def compute(scale: claim.Scale, ask: claim.Ask) -> claim.Table:
    """Lines of theory, dots of simulation, for three classifiers and two losses."""
    same = {
        "task": claim.PAPER,
        "loss": list(_LOSSES.values()),
        "ridge": claim.RIDGE,
        "query_samples": 2.0,
    }
    every = list(claim.THREE.values())
    small = [Attention(), Pooled()]
    most = [each for each in _DOTS if each < 6 or scale.name == "full"]  # it has 10 d features
    line = sorted({*scale.thinned(_LINE), *_DOTS, *_MORE})
    answers = ask(
        grid(classifier=every, readout_samples=line, **same)
        + grid(classifier=Vectorized(), readout_samples=most, **same, **claim.finite(scale))
        + grid(classifier=small, readout_samples=[*_DOTS, *_MORE], **same, **claim.finite(scale))
    )
    parts = []
    for loss in _LOSSES:
        for label, quantity in _QUANTITIES.items():
            for series in claim.THREE:
                mine = answers[(answers.loss == loss) & (answers.classifier == series)]
                panel = f"{label}, {loss} loss"
                parts.append(claim.compare(panel, series, mine, "readout_samples", quantity))
    return claim.collect(parts)


def judge(table: claim.Table) -> claim.Judgement:
    """Every dot on its line; attention below the others."""
    checks: list[claim.Check] = []
    for panel, mine in table.groupby("panel", sort=False):
        checks += claim.agreement(mine, str(panel))
    for loss in _LOSSES:
        errors = table[table.panel == f"test error, {loss} loss"]
        checks.append(_lowest(errors, f"attention lowest, {loss} loss"))
    return claim.Judgement(checks)


def _lowest(errors: claim.Table, what: str) -> claim.Check:
    """Attention below both in theory everywhere, and in every simulation that has all three."""
    theory = errors.pivot(index="x", columns="series", values="theory")
    ratio = theory.attention / theory.drop(columns="attention").min(axis=1, skipna=False)
    dots = errors.pivot(index="x", columns="series", values=["simulation", "simulation_error"])
    dots = dots.dropna()
    mean, error = dots["simulation"], dots["simulation_error"]
    behind = max(
        float((mean.attention - mean[name] - 4 * np.hypot(error.attention, error[name])).max())
        for name in ("vectorized", "pooled")
    )
    known = bool(ratio.notna().all()) and len(dots) > 0
    return claim.Check(
        what,
        "attention has the lowest test error",
        f"in theory at most {ratio.max():.2f} of the better linear classifier's, at {len(ratio)} "
        f"numbers of samples; above it in no simulation ({len(dots)})"
        if behind <= 0
        else f"in theory at most {ratio.max():.2f}; above it in a simulation",
        "lower in theory everywhere, and above by more than 4 standard errors in no simulation",
        claim.decide(known and bool((ratio < 1).all()) and behind <= 0),
    )


CLAIM = claim.Claim(
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

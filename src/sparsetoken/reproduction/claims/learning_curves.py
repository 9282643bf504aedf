"""Theorems 4 and 5: test error and training loss of the trained classifiers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.model.losses import Logistic, Loss, Square
from sparsetoken.model.names import LOSSES
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.vectorized import Vectorized
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import grid

_LOSSES: dict[str, Loss] = {LOSSES.kind(loss): loss for loss in (Square(), Logistic())}
_QUANTITIES = {"test error": "test_error", "training loss": "train_loss"}
_DOTS = (0.5, 0.75, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
_MORE = (16.0, 32.0)  # not for Vectorized, which has length × dim features
_LINE = np.geomspace(0.4, 40, 47).tolist()


class LearningCurves(claim.Claim):
    source = "Theorems 4 and 5"
    sentence = (
        "Test error and training loss of the trained classifiers tend to the solution of a few "
        "scalar equations, and attention has the lowest test error."
    )
    panels = tuple(
        Panel(
            f"{label}, {loss} loss",
            "readout samples per dimension  $n_1/d$",
            label,
            log="xy" if label == "test error" else "x",
        )
        for loss in _LOSSES
        for label in _QUANTITIES
    )

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        return {
            "": claim.setting(
                claim.PAPER,
                Protocol(ridge=claim.RIDGE),
                readout_samples=claim.span(_LINE),
                loss="square or logistic",
            )
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """Lines of theory, dots of simulation, for three classifiers and two losses."""
        same = {"task": claim.PAPER, "ridge": claim.RIDGE, "query_samples": 2.0}
        same |= {"loss": list(_LOSSES.values())}
        dots = {**same, **claim.finite(scale)}
        most = [x for x in _DOTS if x < 6 or scale.name == "full"]  # it has 10 d features
        line = sorted({*scale.thinned(_LINE), *_DOTS, *_MORE})
        answers = ask(
            grid(classifier=list(claim.THREE.values()), readout_samples=line, **same)
            + grid(classifier=Vectorized(), readout_samples=most, **dots)
            + grid(classifier=[Attention(), Pooled()], readout_samples=[*_DOTS, *_MORE], **dots)
        )
        for loss in _LOSSES:
            for label, quantity in _QUANTITIES.items():
                for series in claim.THREE:
                    own = answers[(answers.loss == loss) & (answers.classifier == series)]
                    panel = f"{label}, {loss} loss"
                    yield claim.compare(panel, series, own, "readout_samples", quantity)

    def check(self, table: claim.Table) -> Iterator[claim.Check]:
        """Every dot on its line; attention below the others."""
        for panel, own in table.groupby("panel", sort=False):
            yield from claim.agreement(own, str(panel))
        for loss in _LOSSES:
            errors = claim.part(table, f"test error, {loss} loss")
            yield _lowest(errors, f"attention lowest, {loss} loss")


def _lowest(errors: claim.Table, what: str) -> claim.Check:
    """Attention below both in theory everywhere, and in every simulation that has all three."""
    theory, mean, error = (
        claim.wide(errors, column, list(claim.THREE))
        for column in ("theory", "simulation", "simulation_error")
    )
    ratio = theory.attention / theory[["vectorized", "pooled"]].min(axis=1, skipna=False)
    both = (mean.notna() & error.notna()).all(axis=1)
    mean, error = mean[both], error[both]
    behind = max(
        float((mean.attention - mean[name] - 4 * np.hypot(error.attention, error[name])).max())
        for name in ("vectorized", "pooled")
    )
    known = bool(ratio.notna().all()) and both.any()
    return claim.Check(
        what,
        "attention has the lowest test error",
        f"in theory at most {ratio.max():.2f} of the better linear classifier's, at {len(ratio)} "
        f"numbers of samples; above it in no simulation ({len(mean)})"
        if behind <= 0
        else f"in theory at most {ratio.max():.2f}; above it in a simulation",
        "lower in theory everywhere, and above by more than 4 standard errors in no simulation",
        claim.decide(known and (ratio < 1).all() and behind <= 0),
    )

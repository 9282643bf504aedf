"""Length generalisation: trained at one length, tested at others, exactly."""

from __future__ import annotations

from dataclasses import replace

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.reproduction.claim import (
    PAPER,
    RIDGE,
    THREE,
    Ask,
    Claim,
    Judgement,
    Scale,
    Table,
    agreement,
    collect,
    compare,
    finite,
)
from sparsetoken.studies.cells import grid

_LENGTHS = (3, 5, 7, 10, 14, 20, 30, 50, 80)
_STRENGTHS = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
_BY_LENGTH, _BY_STRENGTH = "tested at other lengths", "tested at other strengths"


def compute(scale: Scale, ask: Ask) -> Table:
    """Test error of the classifiers of `learning-curves` on tasks they were not trained for."""
    by_length = [replace(PAPER, length=each) for each in scale.thinned(_LENGTHS)]
    by_strength = [replace(PAPER, strength=each) for each in scale.thinned(_STRENGTHS)]
    any_length = [Attention(), Pooled()]  # vectorized knows one length
    parts = []
    for panel, x, tasks, classifiers in (
        (_BY_LENGTH, "test_length", by_length, any_length),
        (_BY_STRENGTH, "test_strength", by_strength, list(THREE.values())),
    ):
        same = {"task": PAPER, "ridge": RIDGE, "readout_samples": 4.0}
        same |= {"classifier": classifiers, "test_task": tasks}
        answers = ask(grid(**same) + grid(**same, **finite(scale)))
        for name, mine in answers.groupby("classifier", sort=False):
            parts.append(compare(panel, str(name), mine, x, "test_error"))
    return collect(parts)


def judge(table: Table) -> Judgement:
    """Every dot on its line."""
    checks = [agreement(rows, str(panel)) for panel, rows in table.groupby("panel", sort=False)]
    return Judgement([check for pair in checks for check in pair])


CLAIM = Claim(
    "lengths",
    "Consequence of Theorems 4 and 5",
    "The error of a trained classifier on samples of other lengths and strengths is predicted by "
    "the same scalars.",
    compute,
    judge,
    [
        Panel(_BY_LENGTH, "length at test time (trained at 10)", "test error", log="xy"),
        Panel(_BY_STRENGTH, "strength at test time (trained at 5)", "test error", log="y"),
    ],
)

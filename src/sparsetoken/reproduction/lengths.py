"""Length generalisation: trained at one length, tested at others, exactly."""

from __future__ import annotations

from dataclasses import replace

from sparsetoken.figures import Panel
from sparsetoken.reproduction.claims import (
    CLASSIFIERS,
    PAPER,
    RIDGE,
    Ask,
    Claim,
    Judgement,
    Scale,
    Table,
    agreement,
    collect,
    compare,
)
from sparsetoken.studies.cells import Cell, grid

_LENGTHS = (3, 5, 7, 10, 14, 20, 30, 50, 80)
_STRENGTHS = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
_BY_LENGTH, _BY_STRENGTH = "tested at other lengths", "tested at other strengths"


def compute(scale: Scale, ask: Ask) -> Table:
    """Test error of the classifiers of `learning-curves` on tasks they were not trained for."""
    shifts = {
        (_BY_LENGTH, "test_length"): [replace(PAPER, length=each) for each in _LENGTHS],
        (_BY_STRENGTH, "test_strength"): [replace(PAPER, strength=each) for each in _STRENGTHS],
    }
    finite = {"kind": "simulation", "dim": scale.dim, "repeats": scale.repeats, "seed": scale.seed}
    cells: list[Cell] = []
    for name, classifier in CLASSIFIERS.items():
        same = {"task": PAPER, "ridge": RIDGE, "classifier": classifier, "readout_samples": 4.0}
        for (panel, _), tasks in shifts.items():
            if name == "vectorized" and panel == _BY_LENGTH:
                continue  # one weight per position: it knows one length
            cells += grid(test_task=tasks, **same) + grid(test_task=tasks, **same, **finite)
    answers = ask(cells)
    parts = []
    for (panel, x), tasks in shifts.items():
        column = "length" if x == "test_length" else "strength"
        others = answers["test_strength" if x == "test_length" else "test_length"]
        kept = others == getattr(PAPER, "strength" if x == "test_length" else "length")
        for name in CLASSIFIERS:
            mine = answers[kept & (answers.classifier == name)]
            mine = mine[mine[x].isin([getattr(task, column) for task in tasks])]
            if name != "vectorized" or panel != _BY_LENGTH:
                parts.append(compare(panel, name, mine, x, "test_error"))
    return collect(parts)


def judge(table: Table) -> Judgement:
    """Every dot on its line."""
    return Judgement(
        [agreement(rows, str(panel)) for panel, rows in table.groupby("panel", sort=False)]
    )


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

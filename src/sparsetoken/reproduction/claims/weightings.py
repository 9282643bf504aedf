"""Which weighting of tokens wins where: softmax, hard max, top-3, sparsemax, each at its best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.model.names import WEIGHTINGS
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import (
    HardMax,
    Softmax,
    Sparsemax,
    TopK,
    Weighting,
)
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import Cell, grid

_TASK = Task(length=12, sparsity=1, strength=4.0)
_COSINE, _SAMPLES, _RIDGE = 0.9, 4.0, 1e-2
_RULES: dict[str, tuple[Weighting, tuple[float, ...]]] = {  # with the sharpnesses that are tried
    str(WEIGHTINGS.name(rule)): (rule, sharpnesses)
    for rule, sharpnesses in (
        (Softmax(), (0.4, 0.8, 1.6, 3.2)),
        (HardMax(), (1.0,)),
        (TopK(3), (0.2, 0.4, 0.8, 1.6)),
        (Sparsemax(), (0.1, 0.2, 0.4, 0.8)),
    )
}
_BY_LENGTH, _BY_STRENGTH, _BY_COSINE, _BY_SPARSITY = (
    "length", "strength", "alignment", "several signal tokens",
)  # fmt: skip
_VALUES: dict[str, tuple[float, ...]] = {  # the ends first: a smaller scale takes the first few
    _BY_LENGTH: (4, 24, 48, 12),
    _BY_STRENGTH: (2.0, 5.0, 4.0, 3.0),
    _BY_COSINE: (0.4, 1.0, 0.7, 0.9),
    _BY_SPARSITY: (2, 3, 1, 6),
}
_VARIED = ["length", "sparsity", "strength", "frozen_cosine", "frozen_sharpness", "weighting"]
_ALIGNED = 0.7
_EDGE = 0.02  # by which a weighting must be better, to be called so: clouds leave half a percent


def compute(scale: claim.Scale, ask: claim.Ask) -> claim.Table:
    """The least error over the sharpnesses, by theory, and simulations at the best of them."""
    parts = []
    count = min(len(_values(_BY_LENGTH)), max(2, scale.strengths // 2))
    places = {panel: sorted(_values(panel)[:count]) for panel in _VALUES}
    cells: dict[tuple[str, str, float], list[Cell]] = {}
    for panel, values in places.items():
        for x in values:
            task, cosine = _place(panel, x)
            for name, (rule, sharpnesses) in _RULES.items():
                cells[panel, name, x] = grid(
                    task=task, readout_samples=_SAMPLES, ridge=_RIDGE,
                    classifier=[Attention(cosine, tau, rule) for tau in sharpnesses],
                )  # fmt: skip
    answers = ask([cell for several in cells.values() for cell in several])
    known = answers.groupby(_VARIED).test_error.first()
    best = {
        place: min(several, key=lambda cell: known[_varied(cell)])
        for place, several in cells.items()
    }
    runs = ask([replace(cell, **claim.finite(scale)) for cell in best.values()])
    measured = runs.groupby(_VARIED).test_error
    means, errors = measured.mean(), measured.sem()
    for (panel, name, x), cell in best.items():
        code = _varied(cell)
        parts.append(
            claim.rows(
                panel,
                name,
                x,
                theory=known[code],
                simulation=means[code],
                simulation_error=errors[code],
                repeats=scale.repeats,
                dim=scale.dim,
                features=scale.dim,
            )
        )
    for panel, values in places.items():
        if panel == _BY_COSINE:
            continue
        linear = ask(
            grid(task=[_place(panel, x)[0] for x in values], readout_samples=_SAMPLES,
                 ridge=_RIDGE, classifier=Pooled())
        )  # fmt: skip
        parts.append(claim.rows(panel, "pooled", values, theory=linear.test_error.to_numpy()))
    return claim.collect(parts)


def _varied(cell: Cell) -> tuple[Any, ...]:
    parameters = cell.parameters()
    return tuple(parameters[name] for name in _VARIED)


def _values(panel: str) -> tuple[float, ...]:
    return _VALUES[panel]


def _place(panel: str, x: float) -> tuple[Task, float]:
    """Task and cosine at a place of a panel."""
    if panel == _BY_COSINE:
        return _TASK, x
    field = {_BY_LENGTH: "length", _BY_STRENGTH: "strength", _BY_SPARSITY: "sparsity"}[panel]
    changed: dict[str, Any] = {field: x}
    return replace(_TASK, **changed), _COSINE


def judge(table: claim.Table) -> claim.Judgement:
    """Dots on lines; softmax first with one signal token; another with a few strong ones."""
    checks = [
        check
        for panel, mine in table.groupby("panel", sort=False)
        for check in claim.agreement(mine[mine.series != "pooled"], str(panel))[:1]
    ]
    lines = table[table.series != "pooled"]
    wide = lines.pivot_table(index=["panel", "x"], columns="series", values="theory")
    others = [name for name in _RULES if name != "softmax"]
    panel, x = (wide.index.get_level_values(name) for name in ("panel", "x"))
    one, astray = wide[panel != _BY_SPARSITY], (panel == _BY_COSINE) & (x < _ALIGNED)
    gaps = one[others].min(axis=1) / one.softmax - 1
    gap = gaps[~astray[panel != _BY_SPARSITY]]
    checks.append(
        claim.Check(
            f"one signal token, cosine {_ALIGNED:g} or more",
            "softmax at its best sharpness has the least error",
            f"the next best is {100 * gap.min():+.1f} to {100 * gap.max():+.1f} % away "
            f"at {len(gap)} places",
            "at every length, strength and such a cosine no weighting has less error than softmax",
            claim.decide(bool((gap > 0).all())),
        )
    )
    several = wide.loc[_BY_SPARSITY]
    few = several.loc[[x for x in several.index if 1 < x <= 3]]
    lead = 1 - few[["top-3", "sparsemax"]].min(axis=1) / few.softmax
    words = ", ".join(f"{100 * value:.0f} % with {x:g}" for x, value in lead.items())
    checks.append(
        claim.Check(
            "two or three strong ones",
            "weights that end: top-3 or sparsemax has less error than softmax",
            f"less by {words}",
            f"by more than {100 * _EDGE:g} %",
            claim.decide(bool((lead > _EDGE).all()) and len(lead) > 0),
        )
    )
    hard = wide["hard-max"] / wide[[name for name in _RULES if name != "hard-max"]].min(axis=1) - 1
    checks.append(
        claim.Check(
            "hard-max",
            "is nowhere the best",
            f"its error is {100 * hard.min():.0f} to {100 * hard.max():.0f} % above the best",
            f"by more than {100 * _EDGE:g} % everywhere",
            claim.decide(bool((hard > _EDGE).all())),
        )
    )
    words = ", ".join(
        f"{100 * value:+.1f} % at cosine {x:g}"
        for (_, x), value in gaps[astray[panel != _BY_SPARSITY]].items()
    )
    remark = f"A query that is badly aligned: the best other weighting against softmax {words}."
    return claim.Judgement(checks, [remark] if words else [])


CLAIM = claim.Claim(
    "weightings",
    "Beyond the paper: other weightings",
    "With one signal token and a query of cosine 0.7 or more, softmax at its best sharpness beats "
    "hard max, top-3 and sparsemax at every length and strength; with two or three strong tokens, "
    "weights that end do.",
    compute,
    judge,
    [
        Panel(_BY_LENGTH, "length  $L$", "test error", log="xy"),
        Panel(_BY_STRENGTH, r"strength  $\theta$", "test error", log="y"),
        Panel(_BY_COSINE, "cosine of query and signal  $s$", "test error", log="y"),
        Panel(_BY_SPARSITY, "signal tokens  $R$", "test error", log="y"),
    ],
)

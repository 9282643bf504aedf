"""Which weighting of tokens wins where: softmax, hard max, top-3, sparsemax, each at its best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Pooled
from sparsetoken.model.names import WEIGHTINGS
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.reproduction import claim
from sparsetoken.studies.cells import Cell, grid

_TASK = Task(length=12, sparsity=1, strength=4.0)
_COSINE = 0.9
_RULES = {  # with the sharpnesses that are tried
    "softmax": (0.4, 0.8, 1.6, 3.2),
    "hard-max": (1.0,),
    "top-3": (0.2, 0.4, 0.8, 1.6),
    "sparsemax": (0.1, 0.2, 0.4, 0.8),
}
_BY_COSINE, _BY_SPARSITY = "alignment", "several signal tokens"
_AXES: dict[str, tuple[str, tuple[float, ...]]] = {  # panel: what is varied, and its values
    "length": ("length", (4, 24, 48, 12)),  # the ends first: a smaller scale takes the first few
    "strength": ("strength", (2.0, 5.0, 4.0, 3.0)),
    _BY_COSINE: ("cosine", (0.4, 1.0, 0.7, 0.9)),
    _BY_SPARSITY: ("sparsity", (2, 3, 1, 6)),
}
_SAME = {"readout_samples": 4.0, "ridge": 1e-2}
_VARIED = ["length", "sparsity", "strength", "frozen_cosine", "frozen_sharpness", "weighting"]
_ALIGNED = 0.7
_EDGE = 0.02  # by which a weighting must be better, to be called so: clouds leave half a percent


class Weightings(claim.Claim):
    source = "Beyond the paper: other weightings"
    sentence = (
        "With one signal token and a query of cosine 0.7 or more, softmax at its best sharpness "
        "beats hard max, top-3 and sparsemax at every length and strength; with two or three "
        "strong tokens, weights that end do."
    )
    panels = (
        Panel("length", "length  $L$", "test error", log="xy"),
        Panel("strength", r"strength  $\theta$", "test error", log="y"),
        Panel(_BY_COSINE, "cosine of query and signal  $s$", "test error", log="y"),
        Panel(_BY_SPARSITY, "signal tokens  $R$", "test error", log="y"),
    )

    def settings(self) -> dict[str, str]:
        """The task, its protocol, what is varied."""
        protocol = Protocol(readout_samples=_SAME["readout_samples"], ridge=_SAME["ridge"])
        return {
            panel: claim.setting(
                _TASK, protocol, False, **{"cosine": f"{_COSINE:g}", name: claim.span(values)}
            )
            + "; each weighting at the best of its sharpnesses"
            for panel, (name, values) in _AXES.items()
        }

    def measure(self, scale: claim.Scale, ask: claim.Ask) -> Iterator[claim.Table]:
        """The least error over the sharpnesses, by theory, and simulations at the best of them."""
        count = max(2, scale.strengths // 2)
        places = {panel: sorted(values[:count]) for panel, (_, values) in _AXES.items()}
        cells: dict[tuple[str, float, str], list[Cell]] = {}
        for panel, values in places.items():
            for x in values:
                task, cosine = claim.varied(_TASK, _COSINE, _AXES[panel][0], x)
                for name, sharpnesses in _RULES.items():
                    rule = WEIGHTINGS.make(name)
                    kinds = [Attention(cosine, tau, rule) for tau in sharpnesses]
                    cells[panel, x, name] = grid(task=task, classifier=kinds, **_SAME)
        answers = ask([cell for several in cells.values() for cell in several])
        theory = answers.groupby(_VARIED).test_error.first()
        best = {
            place: min(several, key=lambda cell: theory[_values(cell)])
            for place, several in cells.items()
        }
        runs = ask([replace(cell, **claim.finite(scale)) for cell in best.values()])
        dots = runs.groupby(_VARIED).test_error.agg(["mean", "sem"])
        same = {"repeats": scale.repeats, "dim": scale.dim, "features": scale.dim}
        for (panel, x, name), cell in best.items():
            exact, (mean, error) = theory[_values(cell)], dots.loc[_values(cell)]
            numbers = {"theory": exact, "simulation": mean, "simulation_error": error}
            yield claim.rows(panel, name, x, **numbers, **same)
        for panel, values in places.items():
            if panel != _BY_COSINE:
                tasks = [claim.varied(_TASK, _COSINE, _AXES[panel][0], x)[0] for x in values]
                linear = ask(grid(task=tasks, classifier=Pooled(), **_SAME))
                yield claim.rows(panel, "pooled", values, theory=linear.test_error)

    def check(self, table: claim.Table) -> Iterator[claim.Check | str]:
        """Dots on lines; softmax first with one signal token; another with a few strong ones."""
        table = table[table.series != "pooled"]
        for name, own in table.groupby("panel", sort=False):
            yield claim.agreement(own, str(name))[0]
        errors = claim.wide(table, "theory", list(_RULES), ["panel", "x"])
        one = errors[errors.index.get_level_values("panel") != _BY_SPARSITY]
        gaps = one.drop(columns="softmax").min(axis=1) / one.softmax - 1
        panel, x = (gaps.index.get_level_values(level) for level in ("panel", "x"))
        astray = (panel == _BY_COSINE) & (x < _ALIGNED)
        gap = gaps[~astray]
        yield claim.Check(
            f"one signal token, cosine {_ALIGNED:g} or more",
            "softmax at its best sharpness has the least error",
            f"the next best is {100 * gap.min():+.1f} to {100 * gap.max():+.1f} % away "
            f"at {len(gap)} places",
            "at every length, strength and such a cosine no weighting has less error than softmax",
            claim.decide((gap > 0).all()),
        )
        several = errors.loc[_BY_SPARSITY]
        few = several[(several.index > 1) & (several.index <= 3)]
        lead = 1 - few[["top-3", "sparsemax"]].min(axis=1) / few.softmax
        words = ", ".join(f"{100 * value:.0f} % with {x:g}" for x, value in lead.items())
        yield claim.Check(
            "two or three strong ones",
            "weights that end: top-3 or sparsemax has less error than softmax",
            f"less by {words}",
            f"by more than {100 * _EDGE:g} %",
            claim.decide(len(lead) and (lead > _EDGE).all()),
        )
        hard = errors["hard-max"] / errors.drop(columns="hard-max").min(axis=1) - 1
        yield claim.Check(
            "hard-max",
            "is nowhere the best",
            f"its error is {100 * hard.min():.0f} to {100 * hard.max():.0f} % above the best",
            f"by more than {100 * _EDGE:g} % everywhere",
            claim.decide((hard > _EDGE).all()),
        )
        if astray.any():
            words = ", ".join(
                f"{100 * value:+.1f} % at cosine {x:g}" for (_, x), value in gaps[astray].items()
            )
            what = "A query that is badly aligned: the best other weighting against softmax"
            yield f"{what} {words}."


def _values(cell: Cell) -> tuple[Any, ...]:
    """What a cell has in the columns that are varied."""
    parameters = cell.parameters()
    return tuple(parameters[name] for name in _VARIED)

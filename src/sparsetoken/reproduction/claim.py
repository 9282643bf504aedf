r"""What a claim is: how its table is computed, by which rules it is judged, how it is drawn.

A table has one row per plotted number or pair of numbers, with the same columns for every claim:
panel and series say where it stands, x (and y, in a map) what was varied, then theory and
simulation with their standard errors. Judging and drawing see the table alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Vectorized
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.model.task import Task
from sparsetoken.studies.questions import Question

Verdict = Literal["holds", "fails", "inconclusive"]
Table = Any  # a pandas DataFrame; the types of its columns are not known to a checker
Ask = Callable[[Sequence[Question]], Table]

COLUMNS = (
    "panel", "series", "x", "y", "theory", "theory_error", "simulation", "simulation_error",
    "repeats", "dim", "features",
)  # fmt: skip
THREE: dict[str, Classifier] = {  # of the paper
    CLASSIFIERS.kind(each): each for each in (Attention(), Vectorized(), Pooled())
}
PAPER = Task(length=10, sparsity=1, strength=5.0, prevalence=0.5)
RIDGE = 1e-5  # of the paper's figures


@dataclass(frozen=True)
class Scale:
    """How large the finite experiments are, and how many points the oracles get."""

    name: str
    dim: int  # embedding dimension of exact-in-law simulations
    repeats: int
    token_dim: int  # where tokens are drawn one by one
    trials: int  # data sets per point whose separability is tested
    longest: int  # longest sample of the oracle errors
    strengths: int  # at which they are computed
    seed: int = 0

    def thinned(self, values: Sequence[float]) -> list[Any]:
        """Every other value at quick scale, both ends of an odd number of them; else all: the few
        runs of tiny decide nothing without them.

        >>> SCALES["quick"].thinned([3, 5, 7, 10, 14])
        [3, 7, 14]
        """
        return list(values[::2] if self.name == "quick" else values)


SCALES = {
    "tiny": Scale("tiny", dim=60, repeats=4, token_dim=20, trials=12, longest=1000, strengths=3),
    "quick": Scale(
        "quick", dim=250, repeats=8, token_dim=40, trials=40, longest=10**4, strengths=4
    ),
    "full": Scale(
        "full", dim=1000, repeats=8, token_dim=200, trials=100, longest=10**6, strengths=15
    ),
}


@dataclass(frozen=True)
class Check:
    """A prediction, what was measured, and the rule that decides."""

    what: str
    predicted: str
    measured: str
    rule: str
    verdict: Verdict


@dataclass(frozen=True)
class Judgement:
    """The checks of a claim; remarks are worth knowing and decide nothing."""

    checks: Sequence[Check]
    remarks: Sequence[str] = field(default_factory=tuple)

    @property
    def verdict(self) -> Verdict:
        """A claim fails with any of its checks, and holds if all of them do."""
        found = {check.verdict for check in self.checks}
        if "fails" in found or not found:
            return "fails"
        return "inconclusive" if "inconclusive" in found else "holds"


@dataclass(frozen=True)
class Claim:
    """One reproduction: `sparsetoken reproduce NAME`."""

    name: str
    source: str  # where the paper states it
    sentence: str
    compute: Callable[[Scale, Ask], Table]
    judge: Callable[[Table], Judgement]
    panels: Sequence[Panel]
    needs: str = ""  # a library that is optional


def rows(panel: str, series: str, x: Any, **columns: Any) -> Table:
    """Rows of a table; what is not given is missing."""
    table = pd.DataFrame({"panel": panel, "series": series, "x": np.atleast_1d(x), **columns})
    return table.reindex(columns=list(COLUMNS))


def collect(parts: Sequence[Table]) -> Table:
    """One table of many."""
    filled = [part.dropna(axis="columns", how="all") for part in parts]
    return pd.concat(filled, ignore_index=True).reindex(columns=list(COLUMNS))


def finite(scale: Scale, dim: int | None = None) -> dict[str, Any]:
    """What makes cells simulations of this scale."""
    return {
        "kind": "simulation", "dim": dim or scale.dim, "repeats": scale.repeats,
        "seed": scale.seed,
    }  # fmt: skip


def compare(panel: str, series: str, answers: Table, x: str, quantity: str) -> Table:
    """Rows from a sweep: theory where it was asked, mean and standard error of simulations."""
    theory = answers[answers.kind == "theory"].set_index(x)[quantity]
    simulated = answers[answers.kind != "theory"]
    wide = [
        CLASSIFIERS.make(name).features_per_dim(replace(PAPER, length=int(length)))
        for name, length in zip(simulated.classifier, simulated.length, strict=True)
    ]
    dim = simulated.dim.astype(float)
    simulated = simulated.assign(dim=dim, features=dim * wide).groupby(x)
    values = simulated[quantity].agg(["mean", "sem", "count"])
    places = sorted({*theory.index, *values.index})
    return rows(
        panel,
        series,
        places,
        theory=theory.reindex(places).to_numpy(),
        simulation=values["mean"].reindex(places).to_numpy(),
        simulation_error=values["sem"].reindex(places).to_numpy(),
        repeats=values["count"].reindex(places).to_numpy(),
        dim=simulated["dim"].first().reindex(places).to_numpy(),
        features=simulated["features"].first().reindex(places).to_numpy(),
    )


def agreement(table: Table, what: str) -> list[Check]:
    """Simulated means at the theory: each of them, and together for each series.

    Each dot may be 4 standard errors + 3/dim away. Together, Σ simulation / Σ theory is 1 up to 4
    standard errors + 3/features: a theory that is wrong by a factor does not hide in small numbers.
    """
    dots = table.dropna(subset=["simulation"])
    gap = (dots.simulation - dots.theory).abs()
    allowed = 4 * dots.simulation_error + 3 / dots.dim
    outside = int((gap > allowed).sum())
    unknown = int((gap.isna() | allowed.isna()).sum()) + (len(dots) == 0)
    each = Check(
        f"{what}, every dot",
        "simulation equals theory",
        f"{len(dots) - outside - unknown} of {len(dots)} dots within; the farthest at "
        f"{(gap / allowed).max():.2f} of the allowance",
        "every |simulation − theory| ≤ 4 standard errors + 3/dim",
        "fails" if outside else "inconclusive" if unknown else "holds",
    )
    measured, verdicts = [], []
    for name, mine in dots.groupby("series", sort=False):
        total = float(mine.theory.sum(skipna=False))
        off = float(mine.simulation.sum()) / total - 1
        error = float(np.sqrt((mine.simulation_error**2).sum(skipna=False))) / abs(total)
        allowance = 4 * error + 3 / float(mine.features.min())
        verdict: Verdict = "inconclusive" if not allowance < 0.25 else "holds"
        verdicts.append("fails" if abs(off) > allowance else verdict)
        measured.append(f"{name} {100 * off:+.1f} % (± {100 * error:.1f} %)")
    together = Check(
        f"{what}, together",
        "simulation equals theory",
        ", ".join(measured) or "no dots",
        "|Σ simulation / Σ theory − 1| ≤ 4 standard errors + 3/features for each series "
        "(inconclusive if that is above 25 %)",
        Judgement([replace(each, verdict=verdict) for verdict in verdicts]).verdict
        if verdicts
        else "inconclusive",
    )
    return [each, together]


def slope(
    x: Any, y: Any, expected: float, what: str, error: Any = None, within: float = 0.05
) -> Check:
    """The slope of log y against log x, by least squares; `error` is the standard error of y."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    noise = np.zeros(len(x)) if error is None else np.asarray(error, float)
    rule = f"least-squares slope on logarithmic axes is {expected:g} ± {within:g}"
    if error is not None:
        rule += " (inconclusive if outside by less than 4 standard errors)"
    predicted = f"slope {expected:g}"
    bad = int((~(np.isfinite(y) & np.isfinite(noise) & (y > 0))).sum())
    if bad or len(x) < 3:
        measured = f"{bad} of {len(x)} values are not positive numbers" if bad else "too few values"
        return Check(what, predicted, measured, rule, "inconclusive" if not bad else "fails")
    logs, relative = np.log(x), noise / y
    lever = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    found = float(lever @ np.log(y))
    doubt = float(np.sqrt(lever**2 @ relative**2))
    excess = abs(found - expected) - within
    verdict: Verdict = "holds" if excess <= 0 else "fails" if excess > 4 * doubt else "inconclusive"
    measured = f"slope {found:.3f}" + (f" ± {doubt:.3f}" if error is not None else "")
    return Check(what, predicted, measured, rule, verdict)


def decide(truth: bool) -> Verdict:
    """A rule without a grey zone."""
    return "holds" if truth else "fails"

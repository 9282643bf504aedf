r"""What a claim is: how its table is computed, by which rules it is judged, how it is drawn.

A table has one row per plotted number or pair of numbers, with the same columns for every claim:
panel and series say where it stands, x (and y, in a map) what was varied, then theory and
simulation with their standard errors. Judging and drawing see the table alone.

Verbs that claims share: `rows` and `compare` make parts of a table, `part` and `wide` read them,
`agreement` and `slope` check them, `decide`, `graded` and `beyond` give a verdict.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from sparsetoken.figures import Panel
from sparsetoken.model.classifiers import Attention, Classifier, Pooled
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.model.vectorized import Vectorized
from sparsetoken.model.words import protocol_words, task_words
from sparsetoken.studies.questions import Question

Verdict = Literal["holds", "fails", "inconclusive"]
Table = Any  # a pandas DataFrame; the types of its columns are not known to a checker
Ask = Callable[[Sequence[Question]], Table]

COLUMNS = (
    "panel", "series", "x", "y", "theory", "theory_error", "simulation", "simulation_error",
    "repeats", "dim", "features",
)  # fmt: skip
THREE: dict[str, Classifier] = {  # of the paper
    CLASSIFIERS.kind(kind): kind for kind in (Attention(), Vectorized(), Pooled())
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
    remarks: Sequence[str] = ()

    @property
    def verdict(self) -> Verdict:
        """That of the checks together."""
        return overall(check.verdict for check in self.checks)


class Claim(ABC):
    """One reproduction, known by its name in `CLAIMS`: `sparsetoken reproduce NAME`.

    >>> from sparsetoken.reproduction.claim import Panel, decide, rows
    >>> class Halves(Claim):
    ...     source, sentence = "Arithmetic", "Half of a number is less than it."
    ...     panels = (Panel("halves", "a number", "its half"),)
    ...     def measure(self, scale, ask):
    ...         yield rows("halves", "exact", [1.0, 2.0], theory=[0.5, 1.0])
    ...     def check(self, table):
    ...         less = (table.theory < table.x).all()
    ...         yield Check("halves", "less", "0.5 and 1", "theory < x", decide(less))
    >>> Halves().judge(Halves().compute(SCALES["tiny"], ask=list)).verdict
    'holds'
    """

    source: ClassVar[str]  # where the paper states it
    sentence: ClassVar[str]
    panels: ClassVar[Sequence[Panel]]
    needs: ClassVar[str] = ""  # a library that is optional

    def settings(self) -> dict[str, str]:
        """What each panel was computed for, by its name, in symbols; "" stands for all."""
        return {}

    @abstractmethod
    def measure(self, scale: Scale, ask: Ask) -> Iterable[Table]:
        """Parts of the table (see `rows` and `compare`); what takes long goes through `ask`."""

    @abstractmethod
    def check(self, table: Table) -> Iterable[Check | str]:
        """Checks, and remarks as text, from the table alone."""

    def compute(self, scale: Scale, ask: Ask) -> Table:
        """The table, with the columns `COLUMNS`."""
        return collect(list(self.measure(scale, ask)))

    def judge(self, table: Table) -> Judgement:
        """All checks and remarks."""
        entries = list(self.check(table))
        checks = [entry for entry in entries if isinstance(entry, Check)]
        return Judgement(checks, [entry for entry in entries if isinstance(entry, str)])


def rows(panel: str, series: str, x: Any, **columns: Any) -> Table:
    """Rows of a table, from numbers or sequences; what is not given is missing."""
    values = {name: np.asarray(column)[()] for name, column in columns.items()}
    table = pd.DataFrame({"panel": panel, "series": series, "x": np.atleast_1d(x), **values})
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


def setting(
    task: Task, protocol: Protocol | None = None, learns_query: bool = True, /, **given: str
) -> str:
    """What numbers were computed for, in symbols; what was varied is given in words.

    With a `cosine` the query was frozen there.

    >>> setting(PAPER, Protocol(ridge=RIDGE), readout_samples="0.4 to 40")
    'L = 10, R = 1, θ = 5, π = 0.5; n₀/d = 2, n₁/d = 0.4 to 40, logistic loss, λ = 1e-05'
    """
    words = [task_words(task, given)]
    if protocol is not None:
        words.append(protocol_words(protocol, given, learns_query))
    if "cosine" in given:
        words.append(f"query frozen at cosine {given['cosine']}")
    return "; ".join(words)


def span(values: Any) -> str:
    """From the least to the greatest.

    >>> span([3, 80, 10])
    '3 to 80'
    """
    return f"{min(values):g} to {max(values):g}"


def varied(task: Task, cosine: float, name: str, value: float) -> tuple[Task, float]:
    """A task and the cosine of a query, with another cosine or another field of the task."""
    if name == "cosine":
        return task, float(value)
    changed: dict[str, Any] = {name: value}
    return replace(task, **changed), cosine


def compare(panel: str, series: str, answers: Table, x: str, quantity: str) -> Table:
    """Rows from a sweep: theory where it was asked, mean and standard error of simulations."""
    theory = answers[answers.kind == "theory"].set_index(x)[quantity].rename("theory")
    simulated = answers[answers.kind != "theory"]
    per_dim = [
        CLASSIFIERS.make(name).features_per_dim(replace(PAPER, length=int(length)))
        for name, length in zip(simulated.classifier, simulated.length, strict=True)
    ]
    dim = simulated.dim.astype(float)
    dots = (
        simulated.assign(dim=dim, features=dim * per_dim)
        .groupby(x)
        .agg(
            simulation=(quantity, "mean"),
            simulation_error=(quantity, "sem"),
            repeats=(quantity, "count"),
            dim=("dim", "first"),
            features=("features", "first"),
        )
    )
    table = dots.join(theory, how="outer")
    return rows(panel, series, table.index, **table)


def part(table: Table, panel: str, series: str | None = None) -> Table:
    """The rows of a panel, or of one series in it."""
    chosen = table[table.panel == panel]
    return chosen if series is None else chosen[chosen.series == series]


def wide(table: Table, column: str, series: Sequence[str], index: str | list[str] = "x") -> Table:
    """Numbers with a row for each x and a column for each of the series, there or not."""
    return table.pivot(index=index, columns="series", values=column).reindex(columns=list(series))


def of(answers: Table, cells: Iterable[Question]) -> Table:
    """The answers to some of the questions."""
    return answers[answers.key.isin({unit.key for cell in cells for unit in cell.units()})]


def above_bayes(table: Table, series: Sequence[str]) -> tuple[Table, Table]:
    """Errors less that of Bayes, at every panel and x, and 4 standard errors of the difference."""
    error, doubt = (
        wide(table, column, series, ["panel", "x"]) for column in ("theory", "theory_error")
    )
    above = error.drop(columns="bayes").sub(error.bayes, axis=0)
    return above, 4 * np.hypot(doubt.drop(columns="bayes"), doubt[["bayes"]].to_numpy())


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Several verdicts in one: one that fails is enough, and so is none at all."""
    kinds = set(verdicts)
    if "fails" in kinds or not kinds:
        return "fails"
    return "inconclusive" if "inconclusive" in kinds else "holds"


def decide(truth: object) -> Verdict:
    """A rule without a grey zone."""
    return "holds" if truth else "fails"


def graded(excess: Any, grey: Any = 0.0) -> Verdict:
    """Numbers that must not be positive, and up to where that may be chance.

    >>> graded([-1.0, 0.5], 1.0), graded([-1.0, 1.5], 1.0), graded([-1.0, -0.5]), graded([np.nan])
    ('inconclusive', 'fails', 'holds', 'inconclusive')
    """
    excess, grey = np.atleast_1d(excess), np.atleast_1d(grey)
    if (excess > grey).any():
        return "fails"
    return "holds" if len(excess) and ((excess <= 0) & (grey >= 0)).all() else "inconclusive"


def beyond(gap: Any, error: Any) -> Verdict:
    """Gaps that must be positive by 4 standard errors; negative by as many, they fail."""
    return graded(4 * np.asarray(error) - gap, 8 * np.asarray(error))


def agreement(table: Table, what: str) -> list[Check]:
    """Simulated means at the theory: each of them, and together for each series.

    Each dot may be 4 standard errors + 3/dim away. Together, Σ simulation / Σ theory is 1 up to 4
    standard errors + 3/features: a theory that is wrong by a factor does not hide in small numbers.
    """
    dots = table.dropna(subset=["simulation"])
    gap = (dots.simulation - dots.theory).abs()
    allowed = 4 * dots.simulation_error + 3 / dots.dim
    measured: list[str] = []
    verdicts: list[Verdict] = []
    for name, own in dots.groupby("series", sort=False):
        total = float(own.theory.sum(skipna=False))
        off = float(own.simulation.sum()) / total - 1
        error = float(np.sqrt((own.simulation_error**2).sum(skipna=False))) / abs(total)
        allowance = 4 * error + 3 / float(own.features.min())
        vague = not allowance < 0.25
        verdicts.append("fails" if abs(off) > allowance else "inconclusive" if vague else "holds")
        measured.append(f"{name} {100 * off:+.1f} % (± {100 * error:.1f} %)")
    return [
        Check(
            f"{what}, every dot",
            "simulation equals theory",
            f"{(gap <= allowed).sum()} of {len(dots)} dots within; the farthest at "
            f"{(gap / allowed).max():.2f} of the allowance",
            "every |simulation − theory| ≤ 4 standard errors + 3/dim",
            graded(gap - allowed),
        ),
        Check(
            f"{what}, together",
            "simulation equals theory",
            ", ".join(measured) or "no dots",
            "|Σ simulation / Σ theory − 1| ≤ 4 standard errors + 3/features for each series "
            "(inconclusive if that is above 25 %)",
            overall(verdicts or ["inconclusive"]),
        ),
    ]


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
    if bad:
        measured = f"{bad} of {len(x)} values are not positive numbers"
        return Check(what, predicted, measured, rule, "fails")
    if len(x) < 3:
        return Check(what, predicted, "too few values", rule, "inconclusive")
    logs = np.log(x) - np.log(x).mean()
    lever = logs / (logs**2).sum()
    steepness = float(lever @ np.log(y))
    doubt = float(np.sqrt(lever**2 @ (noise / y) ** 2))
    measured = f"slope {steepness:.3f}" + (f" ± {doubt:.3f}" if error is not None else "")
    verdict = graded(abs(steepness - expected) - within, 4 * doubt)
    return Check(what, predicted, measured, rule, verdict)

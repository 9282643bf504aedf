"""The table of accuracies: means, standard errors, who is best, and how far behind we are.

Differences are taken test by test, on the same bags. Tests on pools of instances are independent
given the pools: their standard error is s/√J. Folds of a repeated cross-validation are not, since
they share training bags: √(1/J + 1/(folds − 1))·s (Nadeau and Bengio, 2003).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from methods import CHOICE, METHODS, OURS, SIMPLE
from sources import SOURCES, Instances

FOLDS = 5  # of the cross-validations of ready bags


@dataclass(frozen=True, eq=False)
class Group:
    """The rows of one source and size."""

    source: str
    size: int
    rows: pd.DataFrame

    @property
    def label(self) -> str:
        return f"{self.source} {self.size}"

    def cells(self, column: str) -> pd.DataFrame:
        """(tests, methods)."""
        return self.rows.pivot(index=["seed", "fold"], columns="method", values=column)

    def standard_error(self, values: np.ndarray) -> float:
        """Of the mean of one value a test; nan for a single test."""
        if len(values) < 2:
            return float("nan")
        independent = SOURCES[self.source].form is Instances
        shared = 0.0 if independent else 1 / (FOLDS - 1)
        return float(np.std(values, ddof=1) * np.sqrt(1 / len(values) + shared))

    def accuracy(self, method: str) -> str:
        """Mean ± standard error, and what is not as it is elsewhere in the row."""
        cells = self.cells("accuracy")
        if method not in cells:
            return ""
        values = cells[method].dropna().to_numpy()
        text = f"{values.mean():.3f}" if len(values) else "–"
        error = self.standard_error(values)
        text += f" ± {error:.3f}" if np.isfinite(error) else ""
        failures = int(self.rows[self.rows.method == method].failure.notna().sum())
        absent = len(cells) - len(values) - failures
        text += f" (fails {failures})" if failures else ""
        return text + (f" ({len(values)} of {len(cells)})" if absent else "")

    def difference(self, one: str, other: str) -> tuple[float, float]:
        """Mean and standard error of `one` − `other`, over the tests that both have."""
        cells = self.cells("accuracy")
        both = (cells[one] - cells[other]).dropna().to_numpy()
        return float(both.mean()), self.standard_error(both)

    def best(self, methods: tuple[str, ...]) -> str | None:
        """The most accurate of some methods, in hindsight, of those with most tests."""
        cells = self.cells("accuracy")
        cells = cells.reindex(columns=list(methods)).dropna(axis=1, how="all")
        if cells.empty:
            return None
        counts = cells.count()
        return str(cells.mean()[counts == counts.max()].idxmax())


def summary(rows: pd.DataFrame) -> str:
    """Markdown: accuracies, verdicts, areas under the curve, seconds."""
    methods = tuple(name for name in METHODS if name in set(rows.method))
    groups = list(_groups(rows))
    parts = ["# Accuracy on real bags", "", *_accuracies(groups, methods), ""]
    parts += ["## Ours against the best simple baseline", "", *_verdicts(groups)]
    for column, digits, title in (
        ("auc", 3, "Area under the ROC curve"),
        ("seconds", 2, "Seconds of a fit"),
    ):
        parts += ["", f"## {title}", "", *_means(groups, methods, column, digits)]
    return "\n".join(parts) + "\n"


def _groups(rows: pd.DataFrame) -> Iterator[Group]:
    for source in SOURCES:
        some = rows[rows.source == source]
        for size in sorted(some["size"].unique()):
            yield Group(source, int(size), some[some["size"] == size])


def _line(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def _head(*titles: str) -> list[str]:
    return [_line(*titles), _line(*("---" for _ in titles))]


def _accuracies(groups: list[Group], methods: tuple[str, ...]) -> list[str]:
    lines = _head("source", "tests", *methods)
    for group in groups:
        best = group.best(methods)
        texts = [group.accuracy(name) for name in methods]
        bold = [f"**{t}**" if name == best else t for name, t in zip(methods, texts, strict=True)]
        lines.append(_line(group.label, len(group.cells("accuracy")), *bold))
    return lines


def _verdicts(groups: list[Group]) -> list[str]:
    """Both best ones are picked in hindsight; `choice` is not."""
    verdict = "within two errors"
    lines = _head(
        "source",
        "best simple",
        "best of ours",
        "difference",
        verdict,
        "difference of the choice",
        verdict,
    )
    own = tuple(name for name in OURS if name != CHOICE)
    for group in groups:
        rival, best, choice = (group.best(names) for names in (SIMPLE, own, (CHOICE,)))
        if rival is None or (best is None and choice is None):
            continue
        texts = [
            text
            for name in (best, choice)
            for text in (_verdict(*group.difference(name, rival)) if name else ["", ""])
        ]
        lines.append(_line(group.label, rival, best or "", *texts))
    return lines


def _verdict(mean: float, error: float) -> list[str]:
    if not np.isfinite(error):
        return [f"{mean:+.3f}", "yes" if mean >= 0 else "one test"]
    return [f"{mean:+.3f} ± {error:.3f}", "yes" if mean >= -2 * error else "**no**"]


def _means(groups: list[Group], methods: tuple[str, ...], column: str, digits: int) -> list[str]:
    lines = _head("source", *methods)
    for group in groups:
        means = group.cells(column).reindex(columns=list(methods)).mean()
        texts = ("" if np.isnan(mean) else f"{mean:.{digits}f}" for mean in means)
        lines.append(_line(group.label, *texts))
    return lines

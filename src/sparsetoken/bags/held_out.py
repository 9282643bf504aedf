"""`Comparison`: what poolings say of held-out bags, and how good that is, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.groups import standard_error
from sparsetoken.bags.intervals import Area, Interval, area, mean_area, share_interval
from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput

if TYPE_CHECKING:
    import pandas as pd

_PLACED = "vectorized"  # takes places of tokens to mean something

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a pooling says of bags, each by a fit that has not learned from it.

    Scores (n,) are above 0 for the second of two classes, (n, k) for more; probabilities (n, k) are
    calibrated inside the bags that were learned from, so that those of several fits can be set side
    by side. `seconds` are those of each fit.
    """

    scores: FloatArray
    probabilities: FloatArray
    predictions: NDArray[Any]
    seconds: tuple[float, ...]

    def scores_of(self, label: int) -> FloatArray:
        """Scores (n,) that are above 0 for this one of the classes."""
        if self.scores.ndim == 2:
            return np.asarray(self.scores[:, label])
        return self.scores if label == 1 else -self.scores

    def area(self, index: IntArray, folds: IntArray, groups: IntArray | None = None) -> Area:
        """Under the ROC curve, within folds; of several classes the mean, each against the rest."""
        labels = [1] if self.scores.ndim == 1 else range(self.scores.shape[1])
        mean = mean_area([area(index == k, self.scores_of(k), folds) for k in labels])
        return mean if groups is None else mean.of_groups(groups)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Poolings side by side; see `cross_validate`.

    `table` is that of `compare_poolings`. `held_out` has what each pooling that arrives says of all
    bags, by name. `classes` are the labels in order, `index` (n,) says which of them each bag has,
    `folds` (n,) which bags were held out together.

    >>> from sparsetoken import Task, cross_validate
    >>> sample = Task(length=8, sparsity=1, strength=5.0).sample(90, dim=4, rng=0)
    >>> alone = cross_validate(sample.tokens, sample.labels, folds=3, poolings=["pooled"])
    >>> alone.best, alone.held_out["pooled"].probabilities.shape, int(alone.folds.max())
    ('pooled', (90, 2), 2)
    """

    table: pd.DataFrame
    held_out: Mapping[str, HeldOut]
    classes: NDArray[Any]
    index: IntArray
    folds: IntArray
    level: float

    @property
    def best(self) -> str | None:
        """The pooling to take; None where no fit arrives."""
        chosen = self.table.pooling[self.table.best]
        return str(chosen.iloc[0]) if len(chosen) else None

    @property
    def rows(self) -> list[Row]:
        """Of the table."""
        names = [str(name) for name in self.table.columns]
        return [dict(zip(names, row, strict=True)) for row in self.table.to_numpy().tolist()]

    def areas(self) -> dict[str, Area]:
        """Under the ROC curve of each pooling."""
        return {name: held.area(self.index, self.folds) for name, held in self.held_out.items()}


def guess_row(index: IntArray, groups: IntArray | None, level: float) -> Row:
    """Of the guess of the most frequent class, which ranks no bag above another."""
    wrong = index != np.bincount(index).argmax()
    return _row("larger class", wrong, groups, Interval(0.5, 0.5, 0.5), 0.0, [0.0], level)


def pooling_row(
    name: str,
    held: HeldOut,
    classes: NDArray[Any],
    index: IntArray,
    folds: IntArray,
    groups: IntArray | None,
    level: float,
) -> Row:
    """Of a pooling whose fits arrive; no AUC where groups leave hardly a bag to compare."""
    wrong = held.predictions != classes[index]
    try:
        under = held.area(index, folds, groups)
        auc, error = under.interval(level), under.standard_error
    except InvalidInput:
        auc, error = Interval(np.nan, np.nan, np.nan), np.nan
    return _row(name, wrong, groups, auc, error, held.seconds, level)


def _row(
    name: str,
    wrong: BoolArray,
    groups: IntArray | None,
    auc: Interval,
    auc_error: float,
    seconds: Iterable[float],
    level: float,
) -> Row:
    alone, error_se = standard_error(wrong, None), standard_error(wrong, groups)
    count = len(wrong) * (alone / error_se) ** 2 if error_se > alone else len(wrong)
    error = share_interval(float(np.mean(wrong)), count, level)
    return {
        "pooling": name,
        "error": error.value,
        "error_se": error_se,
        "error_low": error.low,
        "error_high": error.high,
        "auc": auc.value,
        "auc_se": auc_error,
        "auc_low": auc.low,
        "auc_high": auc.high,
        "seconds": float(np.median(list(seconds))),
        "failure": "",
    }


def best_row(rows: list[Row]) -> Row | None:
    """The row to take, as `compare_poolings` says; None where no fit arrives."""
    arrived = [row for row in rows if not row["failure"]]
    usual = [row for row in arrived if row["pooling"] != _PLACED] or arrived
    best = min(usual, key=lambda row: row["error"], default=None)
    for row in arrived:
        if row["pooling"] == _PLACED and best is not None:
            best = row if row["error"] + row["error_se"] < best["error"] else best
    return best

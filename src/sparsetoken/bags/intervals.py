r"""How sure is a number that was measured on held-out bags?

AUC: DeLong's variance, by midranks. A positive bag's placement P is the share of negative bags that
it is ranked above (ties count half), a negative bag's the share of positive bags above it; the AUC
A is the mean of either. With m positive and n negative bags

    variance = Σ (P₊ − A)²/(m(m − 1)) + Σ (P₋ − A)²/(n(n − 1)),

a sum of one square for each bag: of what it adds to the error of A. Where bags were scored by
several fits, one for each fold, only bags of one fold are compared: A is the mean of the folds',
placements are those within a fold, and a bag adds the less the fewer folds it speaks for. Two AUCs
of the same bags differ by what each bag adds to the one less what it adds to the other. The
interval is made for log(A/(1 − A)), so that it stays between 0 and 1.

Where all bags are ranked right, that variance is 0 and says nothing. Then the interval holds every
A that is not further from the measured one than chance allows, by Hanley and McNeil's variance

    (A(1 − A) + (m − 1)(A/(2 − A) − A²) + (n − 1)(2A²/(1 + A) − A²))/(mn).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray
from sparsetoken.support.checks import real, whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate
from sparsetoken.support.text import number_text

LEVEL = 0.9  # of intervals, if none is asked for: that for which forecasts were judged
_FEWEST = 2  # bags of a class that have a variance
_IN_A_BIN = 20  # bags, if they suffice for two bins: a proportion of 20 is known to ± 0.2
_MOST_BINS = 10  # as is usual


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value, low, high = (number_text(float(number), digits=3) for number in self)
        return f"{value} [{low}, {high}]"


class Difference(NamedTuple):
    """Of two AUCs, the ends of its interval, and the chance of one as large where there is none."""

    value: float
    low: float
    high: float
    p_value: float


class Reliability(NamedTuple):
    """Bags with about one predicted probability: its mean, the share that is positive."""

    predicted: float
    observed: Interval
    bags: int


class Area(NamedTuple):
    """Under a ROC curve; `parts` (n,) are what each bag adds to its error."""

    value: float
    parts: FloatArray
    positives: int
    negatives: int

    @property
    def standard_error(self) -> float:
        """DeLong's."""
        return math.sqrt(float(self.parts @ self.parts))

    def of_groups(self, groups: IntArray) -> Area:
        """With what each group (n,) adds, where that makes the error larger: its bags err alike."""
        together: FloatArray = np.bincount(groups, self.parts).astype(float)
        return max(self, self._replace(parts=together), key=lambda area: area.standard_error)

    def interval(self, level: float) -> Interval:
        """Between 0 and 1; see the module."""
        value, error = self.value, self.standard_error
        if error == 0:
            return score_interval(value, self.positives, self.negatives, level)
        middle, half = float(logit(value)), reach_of(level) * error / (value * (1 - value))
        return Interval(value, float(expit(middle - half)), float(expit(middle + half)))


def delong_interval(y: Any, scores: Any, *, level: float = LEVEL, folds: Any = None) -> Interval:
    """The AUC of scores, with DeLong's interval.

    Parameters
    ----------
    y : array (n,)
        Labels of two kinds, at least two bags of each; the second in order is the positive one.
    scores : array (n,)
        The greater, the likelier positive. Scores are those of bags that were not learned from.
    level : float
        Of the interval.
    folds : array (n,), optional
        Which fit has scored each bag, where there were several: only bags of one fold are compared,
        and the AUC is the mean of the folds'.

    Returns
    -------
    Interval
        `value`, `low` and `high`, between 0 and 1; the formulas are in the module's docstring.

    Raises
    ------
    InvalidInput
        Labels that are not of two kinds, fewer than two bags of one in folds that have both, scores
        that are missing, or a `level` out of bounds.

    Examples
    --------
    >>> y, scores = [0, 0, 0, 0, 1, 1, 1, 1], [0.1, 0.4, 0.2, 0.6, 0.5, 0.9, 0.3, 0.8]
    >>> print(delong_interval(y, scores))
    0.812 [0.411, 0.964]
    >>> print(delong_interval([0, 0, 0, 1, 1, 1], [1, 2, 3, 4, 5, 6]))  # none is ranked wrong
    1 [0.589, 1]
    """
    who = "delong_interval"
    level = real(who, "level", level, above=0, below=1)
    positive = _two_kinds(who, y)
    return area(positive, _numbers(who, "scores", scores, len(positive)), folds).interval(level)


def delong_difference(
    y: Any, first: Any, second: Any, *, level: float = LEVEL, folds: Any = None
) -> Difference:
    """The AUC of the first scores less that of the second, of the same bags; DeLong's test.

    The p value is two-sided; it is NaN where no bag says anything but the AUCs differ.

    >>> y, good = [0, 0, 0, 0, 1, 1, 1, 1], [0.1, 0.4, 0.2, 0.6, 0.5, 0.9, 0.3, 0.8]
    >>> delong_difference(y, good, good).p_value
    1.0
    """
    who = "delong_difference"
    level = real(who, "level", level, above=0, below=1)
    positive = _two_kinds(who, y)
    one, other = (
        area(positive, _numbers(who, name, scores, len(positive)), folds)
        for name, scores in (("first", first), ("second", second))
    )
    return difference(one, other, level)


def difference(first: Area, second: Area, level: float) -> Difference:
    """Of two areas of the same bags."""
    value, parts = first.value - second.value, first.parts - second.parts
    error = math.sqrt(float(parts @ parts))
    if error == 0:
        return Difference(value, value, value, 1.0 if value == 0 else math.nan)
    half = reach_of(level) * error
    chance = 2 * float(ndtr(-abs(value) / error))
    return Difference(value, max(value - half, -1.0), min(value + half, 1.0), chance)


def area(positive: BoolArray, scores: FloatArray, folds: Any = None) -> Area:
    """Under the ROC curve of scores (n,): all bags are compared, or those of one fold."""
    fold = np.zeros(len(positive), dtype=int) if folds is None else np.asarray(folds)
    if fold.shape != positive.shape:
        raise InvalidInput(f"folds must be {len(positive)}, one for each bag, got {fold.shape}")
    blocks = [np.flatnonzero(fold == name) for name in np.unique(fold)]
    blocks = [block for block in blocks if 0 < positive[block].sum() < len(block)]
    used = np.concatenate([np.arange(0), *blocks])
    positives, negatives = (int(np.sum(positive[used] == side)) for side in (True, False))
    if min(positives, negatives) < _FEWEST:
        raise InvalidInput(
            f"an AUC needs at least {_FEWEST} bags of each class that can be compared with bags of "
            f"the other one, got {positives} positive and {negatives} negative"
        )
    placed = [_placements(positive[block], scores[block]) for block in blocks]
    areas = [
        float(places[positive[block]].mean()) for block, places in zip(blocks, placed, strict=True)
    ]
    value, parts = float(np.mean(areas)), np.zeros(len(positive))
    for side, bags in ((True, positives), (False, negatives)):
        for block, places in zip(blocks, placed, strict=True):
            same = positive[block] == side
            share = math.sqrt(bags / (bags - 1)) / (len(blocks) * int(same.sum()))
            # about the mean of all folds: one of a single bag would have no variance of its own
            parts[block[same]] = share * (places[same] - value)
    return Area(value, parts, positives, negatives)


def mean_area(areas: list[Area]) -> Area:
    """Of several labels, each against the rest of the same bags; as sure as the rarest one is."""
    value = float(np.mean([area.value for area in areas]))
    parts = np.mean([area.parts for area in areas], axis=0)
    rarest = min(areas, key=lambda area: area.positives)
    return Area(value, parts, rarest.positives, rarest.negatives)


def score_interval(value: float, positives: int, negatives: int, level: float) -> Interval:
    """Every AUC from which a measured one is not further than chance allows (Newcombe)."""
    from scipy.optimize import brentq

    reach = reach_of(level)

    def surplus(truth: float) -> float:
        deviation = math.sqrt(hanley_mcneil(truth, positives, negatives))
        return abs(value - truth) - reach * deviation

    # 0 and 1 have no variance, the measured one has no distance: ends lie between
    inner = min(max(value, 1e-12), 1 - 1e-12)
    low = brentq(surplus, 0.0, inner) if value > 0 else 0.0
    high = brentq(surplus, inner, 1.0) if value < 1 else 1.0
    return Interval(value, float(low), float(high))


def hanley_mcneil(auc: float, positives: float, negatives: float) -> float:
    """The variance of an AUC, for scores that are distributed exponentially."""
    above, below = auc / (2 - auc) - auc**2, 2 * auc**2 / (1 + auc) - auc**2
    total = auc * (1 - auc) + (positives - 1) * above + (negatives - 1) * below
    return max(total, 0.0) / (positives * negatives)


def wilson_interval(count: int, total: int, *, level: float = LEVEL) -> Interval:
    """A proportion, with Wilson's interval.

    Every share from which the measured one is not further than chance allows, by the variance of
    that share. It never leaves [0, 1], and is not a point where none or all were counted.

    Parameters
    ----------
    count : int
        How many were counted: errors, say.
    total : int
        Among how many, at least 1.
    level : float
        Of the interval.

    Returns
    -------
    Interval
        `value`, `low` and `high`.

    Raises
    ------
    InvalidInput
        Numbers that are not whole, a `count` beyond the `total`, or a `level` out of bounds.

    Examples
    --------
    >>> print(wilson_interval(7, 100))
    0.07 [0.0384, 0.124]
    >>> print(wilson_interval(0, 100))
    0 [0, 0.0263]
    """
    who = "wilson_interval"
    total = whole(who, "total", total, least=1)
    count = whole(who, "count", count, least=0, most=total)
    return share_interval(count / total, total, real(who, "level", level, above=0, below=1))


def share_interval(share: float, total: float, level: float) -> Interval:
    """Wilson's, of a share among as many as so many independent ones."""
    doubt = reach_of(level) ** 2 / total
    middle = (share + doubt / 2) / (1 + doubt)
    half = math.sqrt(doubt * share * (1 - share) + doubt**2 / 4) / (1 + doubt)
    low = 0.0 if share == 0 else max(middle - half, 0.0)
    high = 1.0 if share == 1 else min(middle + half, 1.0)
    return Interval(share, low, high)


def calibration_curve(
    positive: BoolArray, chances: FloatArray, *, bins: int | None = None, level: float = LEVEL
) -> tuple[Reliability, ...]:
    """Predicted probabilities beside shares of positive bags, in bins of about as many bags each.

    Equal probabilities are never told apart. Without `bins` there are ten, or as many as have
    twenty bags each.

    >>> chances = np.array([0.1] * 10 + [0.9] * 10)
    >>> for group in calibration_curve(np.arange(20) % 10 < chances * 10, chances, bins=2):
    ...     print(f"{group.predicted:.1f}, {group.bags} bags: {group.observed}")
    0.1, 10 bags: 0.1 [0.0226, 0.348]
    0.9, 10 bags: 0.9 [0.652, 0.977]
    """
    from scipy.stats import rankdata

    count = len(chances)
    bins = min(_MOST_BINS, max(count // _IN_A_BIN, 1)) if bins is None else bins
    place = np.floor((rankdata(chances) - 0.5) * bins / count).astype(int)
    groups = [place == k for k in range(bins)]
    return tuple(
        Reliability(
            float(chances[same].mean()),
            wilson_interval(int(positive[same].sum()), int(same.sum()), level=level),
            int(same.sum()),
        )
        for same in groups
        if same.any()
    )


def brier_score(positive: BoolArray, chances: FloatArray) -> Estimate:
    """The mean of (probability − label)², labels 0 and 1; with its standard error.

    >>> brier_score(np.array([True, False]), np.array([1.0, 0.5]))
    0.12 ± 0.12
    """
    squares = (chances - positive) ** 2
    spread = float(squares.std(ddof=1)) if len(squares) > 1 else 0.0
    return Estimate(float(squares.mean()), spread / math.sqrt(len(squares)))


def roc_points(positive: BoolArray, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """False and true positive rates at every threshold, from none to all; ties at one step.

    >>> [rates.tolist() for rates in roc_points(np.array([True, False, True]), np.array([3, 2, 1]))]
    [[0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0]]
    """
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
    rates = [
        np.concatenate([[0.0], np.cumsum(side[order])[ends] / int(side.sum())])
        for side in (~positive, positive)
    ]
    return rates[0], rates[1]


def _placements(positive: BoolArray, scores: FloatArray) -> FloatArray:
    """Of each bag among those of the other class: the share that is ranked as it should be."""
    from scipy.stats import rankdata

    places, ranks = np.empty(len(scores)), rankdata(scores)
    m, n = int(positive.sum()), int((~positive).sum())
    places[positive] = (ranks[positive] - rankdata(scores[positive])) / n
    places[~positive] = 1 - (ranks[~positive] - rankdata(scores[~positive])) / m
    return places


def _two_kinds(who: str, y: Any) -> BoolArray:
    """Which labels (n,) are the second in order."""
    labels = np.asarray(y)
    kinds, index = np.unique(labels, return_inverse=True)
    if labels.ndim != 1 or len(kinds) != 2:
        shape = "" if labels.ndim == 1 else f" of shape {labels.shape}"
        raise InvalidInput(f"{who}: y must have labels of two kinds, got {len(kinds)}{shape}")
    return np.asarray(index == 1)


def _numbers(who: str, field: str, values: Any, count: int) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.shape != (count,):
        got = f"{array.dtype} of shape {array.shape}"
        raise InvalidInput(f"{who}: {field} must be {count} numbers, one for each label, got {got}")
    if np.isnan(array).any():
        raise InvalidInput(f"{who}: {field} must not be missing, got NaN")
    return array.astype(float)


def reach_of(level: float) -> float:
    """Standard errors on either side of an interval of that level."""
    return float(ndtri((1 + level) / 2))

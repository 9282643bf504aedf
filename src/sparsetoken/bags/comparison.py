"""The poolings side by side on someone's own bags, by cross-validation; and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from sparsetoken.bags.bags import Walked
from sparsetoken.bags.classifier import BagClassifier
from sparsetoken.bags.estimators import ESTIMATORS
from sparsetoken.bags.groups import read_groups
from sparsetoken.bags.held_out import Comparison, HeldOut, best_row, guess_row, pooling_row
from sparsetoken.bags.intervals import LEVEL
from sparsetoken.bags.labels import read_labels, signal_of
from sparsetoken.bags.source import BagSource, as_bags
from sparsetoken.support.arrays import IntArray
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.checks import real, refusal, whole
from sparsetoken.support.errors import ConvergenceError, InvalidInput
from sparsetoken.support.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

_FEW = 5  # bags of each class that a rehearsal fits: one for each fold of a classifier's own
_BRIEF = 2.0  # seconds


def compare_poolings(
    X: Any,
    y: Any,
    *,
    mask: Any = None,
    folds: int = 5,
    seed: int = 0,
    progress: bool = False,
    poolings: Iterable[str] | None = None,
    positive: Any = None,
    groups: Any = None,
) -> pd.DataFrame:
    """Error, AUC and time of each pooling on held-out bags, one row each.

    Everything a classifier chooses, it chooses inside the bags it learns from. The error has the
    standard error of a proportion and Wilson's interval. The AUC is the mean over folds, so that
    only bags scored by one fit are compared; standard error and interval are DeLong's. With groups
    both are those of independent groups, and never less. Intervals are of 90 %: they hold the
    chance of which bags were held out, not of which were learned from. `seconds` are the median of
    a fit. The first row is the guess of the most frequent class. Of more than two classes the AUC
    is the mean of those of each against the rest. Bags side by side ("vectorized") are tried if all
    have one length, and together at most 16 million numbers; joint training if all bags fit into
    half of the memory. A pooling of which a fit does not arrive has no numbers (NaN), and in
    `failure` the sentence that says so; it is "" for all others.

    `best` is the pooling with the least error, the first of several. "vectorized", which takes
    places to mean something and has the most parameters, must be better than all others by more
    than its standard error: with few bags it would be best by chance.

    Parameters
    ----------
    X, y, mask
        As for `estimate_task`: bags, labels of two kinds or more, tokens of an array that count.
    folds : int
        At least 2; fewer are made where a class has fewer bags, or bags in fewer groups.
    seed : int
        Of the folds.
    progress : bool
        Show a bar for each pooling on standard error.
    poolings : names, optional
        Of `ESTIMATORS`; all that suit the bags if not given.
    positive : label, optional
        Which of two labels is that of bags with a signal; the second in order if not given.
    groups : array (n,), optional
        Bags of one group (a patient, a recording) are never on both sides of a split, neither of
        these folds nor of those in which a classifier makes its choices. A fold without bags of
        some class says nothing of the AUC.

    Returns
    -------
    pandas.DataFrame
        Columns `pooling`, `error`, `error_se`, `error_low`, `error_high`, `auc`, `auc_se`,
        `auc_low`, `auc_high`, `seconds`, `failure`, `best`; a row for the guess and one for each
        pooling.

    Raises
    ------
    InvalidInput
        Bags, labels or groups that cannot be read, fewer than two bags of a class, a class in one
        group alone, a label that is not there, or poolings that are not known or do not suit the
        bags.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=8, sparsity=1, strength=5.0).sample(90, dim=4, rng=0)
    >>> table = compare_poolings(sample.tokens, sample.labels, folds=3).set_index("pooling")
    >>> bool(table.error["attention"] < 0.1 < table.error["pooled"])
    True
    """
    given = (X, y, mask, folds, seed, progress, poolings, positive, groups)
    return _compared("compare_poolings", *given, LEVEL).table


def cross_validate(
    X: Any,
    y: Any,
    *,
    mask: Any = None,
    folds: int = 5,
    seed: int = 0,
    progress: bool = False,
    poolings: Iterable[str] | None = None,
    positive: Any = None,
    groups: Any = None,
    level: float = LEVEL,
) -> Comparison:
    """`compare_poolings`, and what each pooling says of every held-out bag.

    Parameters
    ----------
    X, y, mask, folds, seed, progress, poolings, positive, groups
        As for `compare_poolings`.
    level : float
        Of the intervals.

    Returns
    -------
    Comparison
        The `table`; and in `held_out`, by name, scores, probabilities and predictions of all bags,
        each by a fit that has not learned from the bag.

    Raises
    ------
    InvalidInput
        As for `compare_poolings`, or a `level` out of bounds.

    Examples
    --------
    >>> from sparsetoken import Task, delong_interval
    >>> sample = Task(length=8, sparsity=1, strength=5.0).sample(90, dim=4, rng=0)
    >>> alone = cross_validate(sample.tokens, sample.labels, folds=3, poolings=["attention"])
    >>> scores = alone.held_out["attention"].scores
    >>> auc = delong_interval(sample.labels, scores, folds=alone.folds)
    >>> bool(auc.low > 0.9), bool(abs(auc.low - alone.table.auc_low[1]) < 1e-12)
    (True, True)
    """
    level = real("cross_validate", "level", level, above=0, below=1)
    given = (X, y, mask, folds, seed, progress, poolings, positive, groups)
    return _compared("cross_validate", *given, level)


def _compared(
    who: str,
    X: Any,
    y: Any,
    mask: Any,
    folds: int,
    seed: int,
    progress: bool,
    poolings: Iterable[str] | None,
    positive: Any,
    groups: Any,
    level: float,
) -> Comparison:
    import pandas as pd

    bags, classes, index, numbers, folds = _read(who, X, y, mask, folds, groups)
    signal_of(classes, positive, who)
    if isinstance(bags, BagSource):
        _ = bags.summary  # one pass, handed on to all that folds learn from and are tried on
    labels = classes[index]
    splits = _splits(index, numbers, folds, seed)
    fold = np.empty(len(index), dtype=int)
    for number, (_, held) in enumerate(splits):
        fold[held] = number
    rows, held_out = [guess_row(index, numbers, level)], {}
    failed = dict.fromkeys(rows[0], np.nan)
    with one_blas_thread():
        for name in _suitable(who, bags, poolings):
            classifier = ESTIMATORS.make(name, positive=positive)
            try:
                with progress_bar(len(splits), name, progress) as advance:
                    parts = []
                    for train, held in splits:
                        within = None if numbers is None else numbers[train]
                        seconds = _seconds(classifier, bags[train], labels[train], within)
                        parts.append(_said(classifier, bags[held], seconds))
                        advance()
                held_out[name] = _together(parts, [held for _, held in splits])
                row = pooling_row(name, held_out[name], classes, index, fold, numbers, level)
                rows.append(row)
            except ConvergenceError as error:
                rows.append(failed | {"pooling": name, "failure": str(error)})
    best = best_row(rows[1:])
    table = pd.DataFrame([row | {"best": row is best} for row in rows])
    return Comparison(table, held_out, classes, index, fold, level)


def rehearse_poolings(
    X: Any,
    y: Any,
    *,
    mask: Any = None,
    folds: int = 5,
    poolings: Iterable[str] | None = None,
    groups: Any = None,
) -> dict[str, float]:
    """Seconds that `compare_poolings` will take for each pooling, about.

    Fits of five bags of each class are timed, and of ten where those are brief. What their tokens
    add is taken to be the same for all others: iterations may be more or fewer, so that a factor of
    two is no surprise.

    Parameters
    ----------
    X, y, mask, folds, poolings, groups
        As for `compare_poolings`.

    Returns
    -------
    dict
        Seconds by name, of all folds together.

    Raises
    ------
    InvalidInput
        As for `compare_poolings`.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=8, sparsity=1, strength=5.0).sample(90, dim=4, rng=0)
    >>> list(rehearse_poolings(sample.tokens, sample.labels, poolings=["pooled", "attention"]))
    ['pooled', 'attention']
    """
    bags, _, index, numbers, folds = _read("rehearse_poolings", X, y, mask, folds, groups)
    few, more = (
        # evenly chosen in each class, so that long bags are among them as they are among all
        np.sort(np.concatenate([_even(places, n) for places in _apart(index, numbers)]))
        for n in (_FEW, 2 * _FEW)
    )
    sizes = [int(bags.lengths[part].sum()) for part in (few, more)]
    trained = (1 - 1 / folds) * float(bags.lengths.sum())
    answer = {}
    names = _suitable("rehearse_poolings", bags, poolings)
    with one_blas_thread():

        def timed(name: str, chosen: IntArray) -> float:
            within = None if numbers is None else numbers[chosen]
            return _tried(ESTIMATORS.make(name), bags[chosen], index[chosen], within)

        timed("pooled", few)  # loads libraries
        for name in names:
            spent, tokens = timed(name, few), sizes[0]
            per_token = spent / tokens
            if spent < _BRIEF:  # else what does not grow with the bags is the smaller part
                first, spent = spent, timed(name, more)
                per_token = max(0.0, spent - first) / max(1, sizes[1] - tokens)
                tokens = sizes[1]
            answer[name] = folds * (spent + per_token * max(0.0, trained - tokens))
    return answer


def _read(
    who: str, X: Any, y: Any, mask: Any, folds: Any, groups: Any
) -> tuple[Walked, NDArray[Any], IntArray, IntArray | None, int]:
    """Bags, labels, which of them each bag has, groups by numbers, and folds that leave each class
    some bags to learn."""
    bags = as_bags(X, mask)
    folds = whole(who, "folds", folds, least=2)
    classes, index = read_labels(y, len(bags), who)
    numbers = None if groups is None else read_groups(groups, len(bags), who).numbers
    counts = np.bincount(index)
    if counts.min() < 2:
        rare = classes.tolist()[int(counts.argmin())]
        raise InvalidInput(f"{who}: y must have at least 2 bags of each class, got 1 of {rare!r}")
    if numbers is not None:
        counts = np.array([len(np.unique(numbers[index == k])) for k in range(len(classes))])
        if counts.min() < 2:
            rare = classes.tolist()[int(counts.argmin())]
            raise InvalidInput(
                f"{who}: groups must be at least 2 with bags of each class, got 1 for {rare!r}: "
                "nothing would be left to learn from while it is held out"
            )
    return bags, classes, index, numbers, min(folds, int(counts.min()))


def _splits(
    index: IntArray, groups: IntArray | None, folds: int, seed: int
) -> list[tuple[IntArray, IntArray]]:
    """Bags to learn from and bags held out, classes in proportion, no group on both sides."""
    if groups is None:
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        return [(np.sort(train), held) for train, held in splitter.split(index, index)]
    for count in range(folds, 1, -1):  # fewer where a class would be held out as a whole
        splitter = StratifiedGroupKFold(count, shuffle=True, random_state=seed)
        splits = [(np.sort(train), held) for train, held in splitter.split(index, index, groups)]
        classes = len(np.unique(index))
        if all(len(held) and len(np.unique(index[train])) == classes for train, held in splits):
            return splits
    # each group in turn: the others have every class, as no class is in one group alone
    return [
        (np.flatnonzero(groups != group), np.flatnonzero(groups == group))
        for group in np.unique(groups)
    ]


def _suitable(who: str, bags: Walked, poolings: Iterable[str] | None) -> list[str]:
    """The poolings that are asked for, or all that suit the bags."""
    known = [name for name in ESTIMATORS if ESTIMATORS.make(name)._pooling.suits(bags)]
    if poolings is None:
        return known
    asked = list(poolings)
    if isinstance(poolings, str) or not asked or not set(asked) <= set(known):
        allowed = f"names among {', '.join(known)} for these bags"
        raise refusal(who, "poolings", poolings, allowed)
    return [name for name in known if name in asked]


def _apart(index: IntArray, groups: IntArray | None) -> Iterator[IntArray]:
    """Places of the bags of each class; of one for each group, where there are groups."""
    for label in np.unique(index):
        places = np.flatnonzero(index == label)
        if groups is not None:
            places = places[np.unique(groups[places], return_index=True)[1]]
        yield places


def _even(index: IntArray, count: int) -> IntArray:
    """So many of them, evenly chosen; all if there are fewer."""
    places = np.linspace(0, len(index) - 1, min(count, len(index))).round().astype(int)
    return index[places]


def _seconds(
    classifier: BagClassifier, bags: Walked, labels: NDArray[Any], groups: IntArray | None
) -> float:
    """Of a fit."""
    start = time.perf_counter()
    classifier.fit(bags, labels, groups=groups)
    return time.perf_counter() - start


def _tried(
    classifier: BagClassifier, bags: Walked, labels: NDArray[Any], groups: IntArray | None
) -> float:
    """Seconds of a fit that need not arrive."""
    start = time.perf_counter()
    with suppress(ConvergenceError):
        classifier.fit(bags, labels, groups=groups)
    return time.perf_counter() - start


def _said(classifier: BagClassifier, bags: Walked, seconds: float) -> HeldOut:
    """Of bags that were held out from a fit, which took so long."""
    return HeldOut(*classifier.outputs(bags), (seconds,))


def _together(parts: list[HeldOut], places: list[IntArray]) -> HeldOut:
    """Of all folds, in the order of the bags."""
    order = np.argsort(np.concatenate(places))
    scores, chances, predictions = (
        np.concatenate([getattr(part, name) for part in parts])[order]
        for name in ("scores", "probabilities", "predictions")
    )
    return HeldOut(scores, chances, predictions, tuple(part.seconds[0] for part in parts))

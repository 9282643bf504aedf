"""The poolings side by side on someone's own bags, by cross-validation; and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from sparsetoken.bags.bags import Bags, read_labels, signal_of
from sparsetoken.bags.classifier import BagClassifier
from sparsetoken.bags.estimators import ESTIMATORS
from sparsetoken.bags.groups import read_groups, standard_error
from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.checks import refusal, whole
from sparsetoken.support.errors import ConvergenceError, InvalidInput
from sparsetoken.support.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd

_FEW = 5  # bags of each class that a rehearsal fits: one for each fold of a classifier's own
_BRIEF = 2.0  # seconds
_PLACED = "vectorized"  # takes places of tokens to mean something


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
    standard error of a proportion (with groups that of independent groups, and never less), the AUC
    that of the folds, `seconds` are the median of a fit.
    The first row is the guess of the most frequent class. Of more than two classes the AUC is the
    mean of those of each against the rest. Bags side by side ("vectorized") are tried if all have
    one length, and together at most 16 million numbers. A pooling of which a fit does not arrive
    has no numbers (NaN), and in `failure` the sentence that says so; it is "" for all others.

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
        Columns `pooling`, `error`, `error_se`, `auc`, `auc_se`, `seconds`, `failure`, `best`; a
        row for the guess and one for each pooling.

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
    import pandas as pd

    bags, classes, index, numbers, folds = _read("compare_poolings", X, y, mask, folds, groups)
    signal_of(classes, positive, "compare_poolings")
    labels = classes[index]
    splits = _splits(index, numbers, folds, seed)
    larger = index != np.bincount(index).argmax()
    rows = [_row("larger class", larger, numbers, [0.5], [0.0])]
    failed = dict.fromkeys(rows[0], np.nan)
    with one_blas_thread():
        for name in _suitable("compare_poolings", bags, poolings):
            classifier = ESTIMATORS.make(name, positive=positive)
            wrong, areas, seconds = np.zeros(len(index), dtype=bool), [], []
            try:
                with progress_bar(len(splits), name, progress) as advance:
                    for train, held in splits:
                        within = None if numbers is None else numbers[train]
                        seconds.append(_seconds(classifier, bags[train], labels[train], within))
                        wrong[held] = classifier.predict(bags[held]) != labels[held]
                        areas.append(_area(classifier.decision_function(bags[held]), index[held]))
                        advance()
                rows.append(_row(name, wrong, numbers, areas, seconds))
            except ConvergenceError as error:
                rows.append(failed | {"pooling": name, "failure": str(error)})
    best = _best(rows[1:])
    return pd.DataFrame([row | {"best": row is best} for row in rows])


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
) -> tuple[Bags, NDArray[Any], IntArray, IntArray | None, int]:
    """Bags, labels, which of them each bag has, groups by numbers, and folds that leave each class
    some bags to learn."""
    bags = Bags.of(X, mask, n_tokens=None)
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


def _suitable(who: str, bags: Bags, poolings: Iterable[str] | None) -> list[str]:
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
    classifier: BagClassifier, bags: Bags, labels: NDArray[Any], groups: IntArray | None
) -> float:
    """Of a fit."""
    start = time.perf_counter()
    classifier.fit(bags, labels, groups=groups)
    return time.perf_counter() - start


def _best(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The row to take, as `compare_poolings` says; None where no fit arrives."""
    arrived = [row for row in rows if not row["failure"]]
    usual = [row for row in arrived if row["pooling"] != _PLACED] or arrived
    best = min(usual, key=lambda row: row["error"], default=None)
    for row in arrived:
        if row["pooling"] == _PLACED and best is not None:
            best = row if row["error"] + row["error_se"] < best["error"] else best
    return best


def _tried(
    classifier: BagClassifier, bags: Bags, labels: NDArray[Any], groups: IntArray | None
) -> float:
    """Seconds of a fit that need not arrive."""
    start = time.perf_counter()
    with suppress(ConvergenceError):
        classifier.fit(bags, labels, groups=groups)
    return time.perf_counter() - start


def _area(scores: FloatArray, index: IntArray) -> float:
    """Under the ROC curve; the mean over labels, each against the rest, where there are several;
    NaN where one is missing."""
    several = scores.ndim > 1
    if len(np.unique(index)) < (scores.shape[1] if several else 2):
        return float("nan")
    if not several:
        return float(roc_auc_score(index, scores))
    areas = [roc_auc_score(index == k, scores[:, k]) for k in range(scores.shape[1])]
    return float(np.mean(areas))


def _row(
    name: str, wrong: BoolArray, groups: IntArray | None, areas: list[float], seconds: list[float]
) -> dict[str, Any]:
    known = [area for area in areas if not np.isnan(area)]
    spread = 0.0 if len(areas) == 1 else np.nan  # a guess has none, one fold says nothing of it
    if len(known) > 1:
        spread = float(np.std(known, ddof=1) / np.sqrt(len(known)))
    return {
        "pooling": name,
        "error": float(np.mean(wrong)),
        "error_se": standard_error(wrong, groups),
        "auc": float(np.mean(known)) if known else np.nan,
        "auc_se": spread,
        "seconds": float(np.median(seconds)),
        "failure": "",
    }

"""The poolings side by side on someone's own bags, by cross-validation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from sparsetoken.bags.bags import Bags, two_classes
from sparsetoken.bags.estimators import ESTIMATORS
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.checks import whole
from sparsetoken.support.progress import progress_bar

if TYPE_CHECKING:
    import pandas as pd


def compare_poolings(
    X: Any,
    y: Any,
    *,
    mask: Any = None,
    folds: int = 5,
    seed: int = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """Error, AUC and time of each pooling on held-out bags, one row each.

    Everything a classifier chooses, it chooses inside the bags it learns from. The error has the
    standard error of a proportion, the AUC that of the folds, `seconds` are the median of a fit.
    The first row is the guess of the more frequent class. Bags side by side ("vectorized") are
    tried if all have one length, and together at most 16 million numbers.

    Parameters
    ----------
    X, y, mask
        As for `estimate_task`: bags, two kinds of labels, tokens of an array that count.
    folds : int
        At least 2; no more than the rarer class has bags.
    seed : int
        Of the folds.
    progress : bool
        Show a bar on standard error.

    Returns
    -------
    pandas.DataFrame
        Columns `pooling`, `error`, `error_se`, `auc`, `auc_se`, `seconds`; a row for the guess and
        one for each pooling that suits the bags.

    Raises
    ------
    InvalidInput
        Bags or labels that cannot be read, or fewer than two bags of a class.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=8, sparsity=1, strength=5.0).sample(90, dim=4, rng=0)
    >>> table = compare_poolings(sample.tokens, sample.labels, folds=3).set_index("pooling")
    >>> bool(table.error["attention"] < 0.1 < table.error["pooled"])
    True
    """
    import pandas as pd

    bags = Bags.of(X, mask, n_tokens=None)
    folds = whole("compare_poolings", "folds", folds, least=2)
    _, labels = two_classes(y, len(bags), "compare_poolings", fewest=2)
    fewest = int(min(np.sum(labels > 0), np.sum(labels < 0)))
    splits = list(
        StratifiedKFold(min(folds, fewest), shuffle=True, random_state=seed).split(labels, labels)
    )
    rows = [_row("larger class", fewest / len(labels), len(labels), [0.5], [0.0])]
    made = {name: ESTIMATORS.make(name) for name in ESTIMATORS}
    fitting = {name: kind for name, kind in made.items() if kind._pooling.suits(bags)}
    total = len(fitting) * len(splits)
    with one_blas_thread(), progress_bar(total, "poolings", progress) as advance:
        for name, classifier in fitting.items():
            wrong, areas, seconds = 0, [], []
            for train, held in splits:
                start = time.perf_counter()
                classifier.fit(bags[np.sort(train)], labels[np.sort(train)])
                seconds.append(time.perf_counter() - start)
                scores = classifier.decision_function(bags[held])
                wrong += int(np.sum((scores > 0) != (labels[held] > 0)))
                areas.append(float(roc_auc_score(labels[held], scores)))
                advance()
            rows.append(_row(name, wrong / len(labels), len(labels), areas, seconds))
    return pd.DataFrame(rows)


def _row(
    name: str, error: float, count: int, areas: list[float], seconds: list[float]
) -> dict[str, Any]:
    spread = float(np.std(areas, ddof=1) / np.sqrt(len(areas))) if len(areas) > 1 else 0.0
    return {
        "pooling": name,
        "error": error,
        "error_se": float(np.sqrt(error * (1 - error) / count)),
        "auc": float(np.mean(areas)),
        "auc_se": spread,
        "seconds": float(np.median(seconds)),
    }

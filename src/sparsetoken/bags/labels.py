"""Labels of bags, checked as scikit-learn checks them: which there are, which is the signal's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.checks import refusal
from sparsetoken.support.errors import InvalidInput


@contextmanager
def scikit_learn_checks() -> Iterator[None]:
    """Around its checks of what a caller gave: what they refuse, they refuse in our class."""
    try:
        yield
    except InvalidInput:
        raise
    except ValueError as error:
        raise InvalidInput(str(error)) from error


def is_missing(value: Any) -> bool:
    """Whether this says that there is no value: None, NaN, pandas's NA, a word without letters."""
    if isinstance(value, str | bytes):
        return not value.strip()
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return np.ndim(value) == 0 and bool(value != value)


def check_present(values: Any, field: str, who: str) -> None:
    """Refuses names or labels of bags of which one is missing.

    NumPy would make words of ["a", nan], "nan" among them: so what was given is looked at first.
    """
    given = np.asarray(values, dtype=object)
    for bag, value in enumerate(given.ravel() if given.ndim else ()):
        if is_missing(value):
            raise InvalidInput(
                f"{who}: {field} must have a value for each bag, got {value!r} for bag {bag}; "
                "leave it out, or give it one"
            )


def read_labels(y: Any, count: int, who: str) -> tuple[NDArray[Any], IntArray]:
    """The labels in order, and which of them (0, 1, …) each of so many bags has (n,)."""
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, column_or_1d

    if y is None:
        raise InvalidInput(
            f"requires y to be passed, but the target y is None: {who} learns from labels"
        )
    check_present(y, "y", who)
    with scikit_learn_checks():
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        try:
            check_classification_targets(y)
            classes, index = np.unique(y, return_inverse=True)
        except TypeError as error:
            raise InvalidInput(
                f"labels of one kind are needed, got y of several ({error})"
            ) from error
        if len(index) != count:
            check_consistent_length(np.empty(count), y)
    if len(classes) < 2:
        raise InvalidInput(f"{who} needs two classes, got 1 class")
    return classes, index


def signal_of(classes: NDArray[Any], positive: Any, who: str) -> int:
    """Which of the labels (0, 1, …) is that of bags with a signal: `positive`, else the last."""
    if positive is None:
        return len(classes) - 1
    labels = classes.tolist()
    if np.ndim(positive) or positive not in labels:
        raise refusal(
            who, "positive", positive, f"one of the labels {', '.join(map(repr, labels))}"
        )
    return labels.index(positive)


def two_classes(
    y: Any, count: int, who: str, fewest: int = 1, positive: Any = None
) -> tuple[NDArray[Any], FloatArray]:
    """The labels in order, and for each bag (n,) +1 if it is one with a signal, −1 if not.

    The label of bags with a signal is `positive`, one of two or more; without it, the second of
    two. Refused are labels with fewer than `fewest` bags with a signal, or without.
    """
    classes, index = read_labels(y, count, who)
    if positive is None and len(classes) > 2:
        raise InvalidInput(
            f"{who} needs two classes, got {len(classes)}; positive= sets one against the rest"
        )
    signal = signal_of(classes, positive, who)
    labels = np.where(index == signal, 1.0, -1.0)
    name = repr(classes.tolist()[signal])
    for words, bags in (
        (f"with a signal (label {name})", np.sum(labels > 0)),
        (f"without a signal (labels other than {name})", np.sum(labels < 0)),
    ):
        if bags < fewest:
            raise InvalidInput(
                f"{who}: y must have at least {fewest} bags of each class, got {bags} "
                f"{'bag' if bags == 1 else 'bags'} {words}"
            )
    return classes, labels

"""What a caller gave as labels and numbers, checked as scikit-learn checks it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d

from sparsetoken.support.arrays import FloatArray
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


def two_classes(y: Any, count: int, who: str) -> tuple[Any, FloatArray]:
    """The two labels in order, and +1 for the second one, −1 for the first, of each bag (n,)."""
    if y is None:
        raise InvalidInput(
            f"requires y to be passed, but the target y is None: {who} learns from labels"
        )
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
    if len(classes) != 2:
        kind = type_of_target(y)
        words = "1 class" if len(classes) == 1 else f"{len(classes)} classes"
        raise InvalidInput(
            "Only binary classification is supported. The type of the target is "
            f"{kind}: {who} needs two classes, got {words}"
        )
    return classes, np.where(index == 1, 1.0, -1.0)


def sample_weights(given: Any, labels: FloatArray) -> FloatArray:
    """Weights (n,) of bags, of mean 1 over those that count; all alike if none are given."""
    with scikit_learn_checks():
        weights = _check_sample_weight(given, np.empty((len(labels), 1)), dtype=float)
    if np.any(weights < 0) or not all(weights[labels == side].sum() > 0 for side in (1, -1)):
        raise InvalidInput(
            "sample_weight must be at least 0 and leave both classes some weight, got "
            f"weights between {weights.min():g} and {weights.max():g}"
        )
    return weights * (np.count_nonzero(weights) / weights.sum())  # their scale says nothing

r"""What classifiers learn from: labelled bags with weights, and which of them are held out.

Folds are drawn from the bags in an order of their own, so that the order of a file says nothing:
by class, then by the mean of ‖z‖² over a bag's tokens, z being the token in units of the
deviations of all tokens. It does not depend on the order of bags, tokens and coordinates, nor on
the units or signs of coordinates; bags with equal numbers are as good as equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from sparsetoken.bags.bags import Walked
from sparsetoken.bags.labels import scikit_learn_checks
from sparsetoken.bags.units import Units
from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput

_SEED = 0  # of the shuffle: any will do, and it is always the same


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Bags with labels ±1 and weights; a weight of 0 keeps a bag out."""

    bags: Walked
    labels: FloatArray
    weights: FloatArray
    order: IntArray  # (n,), of bags, whatever the order they came in
    groups: IntArray | None  # (n,), numbers; bags of one are never on both sides of a split

    @classmethod
    def of(
        cls, bags: Walked, labels: FloatArray, weights: FloatArray, groups: Any = None
    ) -> TrainingData:
        """With the order of folds; `groups` are labels (n,) of any kind."""
        order = np.lexsort((Units.of(bags, weights).squared_lengths(bags), labels))
        numbers = None if groups is None else _numbered(groups, order)
        return cls(bags, labels, weights, order, numbers)

    def without(self, held: BoolArray) -> TrainingData:
        """Some bags held out."""
        return replace(self, weights=np.where(held, 0.0, self.weights))

    def seen_as(self, bags: Walked) -> TrainingData:
        """The same bags in other coordinates."""
        return replace(self, bags=bags)

    def weights_of(self, side: int) -> FloatArray:
        """Weights (n,) of the bags of one class, 0 for the other."""
        return np.where(self.labels == side, self.weights, 0.0)

    @property
    def fewest(self) -> int:
        """Bags of the rarer class that count; groups of them, where there are groups."""
        numbers = np.arange(len(self.labels)) if self.groups is None else self.groups
        counted = (numbers[self.weights_of(side) > 0] for side in (1, -1))
        return min(len(np.unique(side)) for side in counted)

    def folds(self, count: int, seed: int = _SEED) -> Iterator[BoolArray]:
        """Which bags (n,) are held out in turn; always the same, no random numbers.

        Another seed shuffles them in another way.

        None where a class has a single bag or group, or would be held out as a whole.
        """
        count = min(count, self.fewest)
        if count < 2:
            return
        index = self.order[self.weights[self.order] > 0]
        labels = self.labels[index]
        if self.groups is None:
            parts = StratifiedKFold(count, shuffle=True, random_state=seed).split(index, labels)
        else:
            folder = StratifiedGroupKFold(count, shuffle=True, random_state=seed)
            parts = folder.split(index, labels, self.groups[index])
        folds = list(parts)
        if all(len(set(labels[rest])) == 2 for rest, _ in folds):
            for _, part in folds:
                held = np.zeros(len(self.labels), dtype=bool)
                held[index[part]] = True
                yield held

    def half(self) -> BoolArray:
        """Half of the bags (n,) that count, in each class."""
        return next(self.folds(2))

    @property
    def signed(self) -> FloatArray:
        """Weights (n,) of sum 1 for the positive class and −1 for the negative one."""
        signed = np.zeros(len(self.labels))
        for side in (1, -1):
            same = self.labels == side
            signed[same] = side * self.weights[same] / self.weights[same].sum()
        return signed


def _numbered(groups: Any, order: IntArray) -> IntArray:
    """Groups by numbers (n,), in the order of their first bags, so that names say nothing."""
    from sklearn.utils.validation import check_consistent_length, column_or_1d

    with scikit_learn_checks():
        groups = column_or_1d(groups)
        check_consistent_length(order, groups)
    try:
        _, first, number = np.unique(groups[order], return_index=True, return_inverse=True)
    except TypeError as error:
        raise InvalidInput(f"groups must be labels of one kind, got several ({error})") from error
    numbers = np.empty(len(order), dtype=np.intp)
    numbers[order] = np.argsort(np.argsort(first))[number]
    return numbers

r"""Classes of bags: what each weighs, and a model for each.

A model tells bags with a signal from the rest, whose tokens are noise. Two labels take one, which
scores the second of them, whichever is that of the signal. More labels take one each, the signal in
turn, calibrated on its own; their probabilities are divided by their sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bag_model import BagModel, Recipe, Trained
from sparsetoken.bags.bags import Bags, ValueKernel, Walked
from sparsetoken.bags.labels import scikit_learn_checks
from sparsetoken.bags.training import train
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.checks import real, refusal
from sparsetoken.support.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class OneAgainstRest:
    """The labels in order, and what was trained: one model for two labels, k for k of them."""

    classes: NDArray[Any]
    trained: tuple[Trained, ...]

    @classmethod
    def train(
        cls,
        bags: Walked,
        classes: NDArray[Any],
        index: IntArray,
        weights: FloatArray,
        signal: int,
        recipe: Recipe,
        groups: Any = None,
    ) -> OneAgainstRest:
        """From bags whose labels are classes[index]; of two, classes[signal] is the signal's."""
        two = len(classes) == 2
        trained = [
            train(TrainingData.of(bags, np.where(index == one, 1.0, -1.0), weights, groups), recipe)
            for one in ([signal] if two else range(len(classes)))
        ]
        if two and signal == 0:
            trained = [replace(trained[0], model=_negated(trained[0].model))]
        return cls(classes, tuple(trained))

    @property
    def models(self) -> tuple[BagModel, ...]:
        return tuple(fit.model for fit in self.trained)

    def scores(self, bags: Walked) -> FloatArray:
        """Of the second of two labels (n,), or of each of several (n, k)."""
        return bags.run(ValueKernel(self._scores, "scores"))["values"]

    def _scores(self, bags: Bags) -> FloatArray:
        columns = [model.scores(bags) for model in self.models]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)

    def predict(self, scores: FloatArray) -> NDArray[Any]:
        """The label of each bag (n,) from its scores."""
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes[index]

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Of all labels (n, k), of sum 1: the sigmoids of the scores."""
        chances = 1 / (1 + np.exp(-np.clip(scores, -700, 700)))
        if scores.ndim == 1:
            return np.column_stack([1 - chances, chances])
        return np.asarray(chances / chances.sum(axis=1, keepdims=True))

    def model(self, who: str, label: Any) -> BagModel:
        """Whose scores are those of a label; of the second one if there are two and none is given.

        Parameters
        ----------
        who : str
            Asks, for the error.
        label : any
            One of the labels.

        Raises
        ------
        InvalidInput
            A label that is not there; none where there are several.
        """
        labels = self.classes.tolist()
        if label is None and len(labels) == 2:
            label = labels[1]
        if np.ndim(label) or label not in labels:
            raise refusal(who, "label", label, f"one of {', '.join(map(repr, labels))}")
        place = labels.index(label)
        if len(labels) > 2:
            return self.models[place]
        return self.models[0] if place == 1 else _negated(self.models[0])


def _negated(model: BagModel) -> BagModel:
    """With scores of the other label."""
    return replace(model, weights=-model.weights, bias=-model.bias)


def bag_weights(
    who: str, sample_weight: Any, class_weight: Any, classes: NDArray[Any], index: IntArray
) -> FloatArray:
    """Weights (n,) of bags, of mean 1 over those that count: theirs times that of their class.

    `class_weight` is None, a weight for each of some labels (the others weigh 1), or "balanced":
    all classes together weigh the same.
    """
    from sklearn.utils.validation import _check_sample_weight

    with scikit_learn_checks():
        weights = _check_sample_weight(sample_weight, np.empty((len(index), 1)), dtype=float)
    totals = np.bincount(index, weights, len(classes)).astype(float)
    if np.any(weights < 0) or not np.all(totals > 0):
        raise InvalidInput(
            "sample_weight must be at least 0 and leave every class some weight, got weights "
            f"between {weights.min():g} and {weights.max():g}"
        )
    weights = weights * _of_classes(who, class_weight, classes, totals)[index]
    return np.asarray(weights * (np.count_nonzero(weights) / weights.sum()))  # no scale of theirs


def _of_classes(who: str, given: Any, classes: NDArray[Any], totals: FloatArray) -> FloatArray:
    """The weight of each class (k,), whose bags weigh so much in all."""
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, str) and given == "balanced":
        return np.asarray(totals.mean() / totals)
    labels = classes.tolist()
    if not isinstance(given, Mapping) or not set(given) <= set(labels):
        known = ", ".join(map(repr, labels))
        allowed = f"None, 'balanced' or a dict with weights for labels among {known}"
        raise refusal(who, "class_weight", given, allowed)
    return np.array(
        [real(who, f"class_weight[{x!r}]", given.get(x, 1.0), above=0, below=1e300) for x in labels]
    )

"""What the classifiers for bags share: parameters, attributes and methods of scikit-learn."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsetoken.bags.bag_model import BagModel, Recipe
from sparsetoken.bags.bags import Bags, ValueKernel, Walked, is_ragged
from sparsetoken.bags.classes import OneAgainstRest, bag_weights
from sparsetoken.bags.groups import read_groups
from sparsetoken.bags.labels import read_labels, scikit_learn_checks, signal_of
from sparsetoken.bags.parameters import TUNED, check_parameters
from sparsetoken.bags.poolings import Pooling
from sparsetoken.bags.source import BagSource, as_bags
from sparsetoken.bags.token_maps import NystroemMap
from sparsetoken.bags.units import TARGETS
from sparsetoken.bags.whitening import UNWHITENED, Shrinking
from sparsetoken.model.losses import Logistic, Loss
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput


class Outputs(NamedTuple):
    """What a classifier says of bags."""

    scores: FloatArray  # as `decision_function` gives them
    probabilities: FloatArray  # (n, k)
    predictions: NDArray[Any]  # (n,)


@dataclass(kw_only=True, eq=False, repr=False)  # for __init__, as scikit-learn wants it
class BagClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A pooling and a linear readout, fitted to bags and used on others."""

    ridge: float | Literal["auto"] = "auto"
    whiten: bool = True
    shrinkage: float | Literal["auto"] = "auto"
    target: Literal["auto", "deviations", "sizes"] = "auto"
    token_map: Any = None
    loss: Loss | None = None
    calibrate: bool = True
    n_tokens: int = 1
    folds: int = 5
    positive: Any = None
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None

    @property
    @abstractmethod
    def _pooling(self) -> Pooling:
        """What is tried: all that the classifiers differ in."""

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, mask: Any = None, groups: Any = None
    ) -> BagClassifier:
        """Learn from bags X (see the class) with labels y of two kinds or more.

        X may be a `BagSource`: then four passes over its files are made for attention, two for mean
        pooling, fifteen at most for "posterior", more where features of all bags do not fit into
        `BagSource.walked(memory=…)`. Joint training, tokens side by side and token maps need all
        bags in memory, and load them.

        Bags of one of the `groups` (n,) are never split between folds.
        """
        bags, who = self._bags(X, mask, reset=True), type(self).__name__
        if self._pooling.in_memory or self.token_map is not None:
            bags = bags.load()
        classes, index = read_labels(y, len(bags), who)
        signal = signal_of(classes, self.positive, who)
        if groups is not None:
            groups = read_groups(groups, len(bags), who).numbers
        weights = bag_weights(who, sample_weight, self.class_weight, classes, index)
        recipe = Recipe(
            pooling=self._pooling,
            loss=Logistic() if self.loss is None else self.loss,
            ridge=None if self.ridge == "auto" else float(self.ridge),
            shrinkings=self._shrinkings,
            token_map=NystroemMap() if self.token_map == "auto" else self.token_map,
            calibrate=self.calibrate,
            folds=self.folds,
        )
        fitted = OneAgainstRest.train(bags, classes, index, weights, signal, recipe, groups)
        if recipe.free and not all(fit.losses for fit in fitted.trained):
            warnings.warn(
                "one class has a single bag, or bags in a single one of the groups, nothing can be "
                "held out: shrinkage, sharpness and ridge are not tuned, probabilities not "
                "calibrated",
                UserWarning,
                stacklevel=2,
            )
        self._set_fitted(fitted)
        return self

    def _tried(self, name: str) -> tuple[float, ...]:
        value = getattr(self, name)
        return TUNED[name].tried if value == "auto" else (float(value),)

    @property
    def _shrinkings(self) -> dict[bool, tuple[Shrinking, ...]]:
        """That are tried, of tokens as they are (False) and mapped (True)."""
        targets = TARGETS if self.target == "auto" else (self.target,)
        own = [Shrinking(unit, part) for unit in targets for part in self._tried("shrinkage")]
        if self.target == self.shrinkage == "auto":
            own.remove(Shrinking("sizes", 0.0))  # hardly shrunk, towards what makes no difference
        if not self.whiten:
            own = [UNWHITENED]
        if self.token_map is None:
            return {False: tuple(own)}
        if self.token_map != "auto":
            return {True: tuple(own)}
        # the map knows no units of the caller's: there the first was always the best, or nearly
        return {False: tuple(own), True: tuple(own[:1])}

    def _set_fitted(self, fitted: OneAgainstRest) -> None:
        """The attributes that say what was fitted: numbers for two classes, arrays for more."""
        self._fitted, self.classes_ = fitted, fitted.classes
        chosen = [fit.choice.flat for fit in fitted.trained]
        self.learned_by_ = by_class(fit.by for fit in fitted.trained)
        self.joint_ = by_class(fit.by == "joint" for fit in fitted.trained)
        self.target_ = by_class(target for _, target, _, _, _ in chosen)
        self.shrinkage_ = by_class(shrinkage for _, _, shrinkage, _, _ in chosen)
        self.sharpness_ = by_class(sharpness for _, _, _, sharpness, _ in chosen)
        maps = [model.token_map for model in fitted.models]
        self.token_map_ = maps if len(maps) > 1 else maps[0]
        self.ridge_ = by_class(model.ridge for model in fitted.models)
        self.intercept_ = np.array([model.bias for model in fitted.models])
        losses = [{key.flat: loss for key, loss in x.losses.items()} for x in fitted.trained]
        self.cv_losses_ = losses if len(losses) > 1 else losses[0]

    @property
    def coef_(self) -> FloatArray:
        """The readouts of whitened features: (1, p) for two classes, (k, p) for more."""
        rows = [model.weights for model in self._fitted.models]
        if len({len(row) for row in rows}) > 1:
            raise AttributeError("coef_: labels have chosen kernels with different features")
        return np.stack(rows)

    @property
    def positive_(self) -> Any:
        """The label taken as that of bags with a signal; None where each is in turn."""
        if len(self.classes_) > 2:
            return None
        return self.classes_.tolist()[signal_of(self.classes_, self.positive, type(self).__name__)]

    def _bags(self, X: Any, mask: Any, reset: bool = False) -> Walked:
        """Checked input; flat rows as scikit-learn checks them."""
        if not reset:
            check_is_fitted(self)
        check_parameters(type(self).__name__, self.get_params(deep=False))
        if not isinstance(X, Bags | BagSource) and not is_ragged(X) and getattr(X, "ndim", 0) != 3:
            with scikit_learn_checks():
                X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32, np.float16])
            return Bags.of(X, mask, self.n_tokens)
        bags = as_bags(X, mask)
        width = bags.dim * self.n_tokens
        if reset:
            self.n_features_in_ = width
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        elif width != self.n_features_in_:
            raise InvalidInput(
                f"X has {bags.dim} features a token, but {type(self).__name__} is expecting "
                f"{self.n_features_in_ // self.n_tokens} features as input."
            )
        return bags

    def _model(self, label: Any) -> BagModel:
        """Whose scores are those of the label."""
        return self._fitted.model(type(self).__name__, label)

    def contributions(self, X: Any, mask: Any = None, label: Any = None) -> list[FloatArray]:
        """What each token adds to the score of a label: arrays (L_i,), of sum score − intercept.

        The label is the second of two if none is given; of several one must be.
        """
        bags = self._bags(X, mask)
        return self._by_bags(bags, self._model(label).contributions, "contributions")

    @staticmethod
    def _by_bags(
        bags: Walked, values: Callable[[Bags], FloatArray], words: str
    ) -> list[FloatArray]:
        """Values of all tokens, by bags: arrays (L_i,)."""
        values_of_all = bags.run(ValueKernel(values, words))["values"]
        return np.split(values_of_all, np.cumsum(bags.lengths)[:-1])

    def token_values(self, X: Any, mask: Any = None, label: Any = None) -> dict[str, Any]:
        """All that is known of each token, by name: lists of arrays (L_i,)."""
        return {"contribution": self.contributions(X, mask, label)}

    def decision_function(self, X: Any, mask: Any = None) -> FloatArray:
        """Scores (n,), above 0 for the second of two classes; (n, k) for more than two."""
        bags = self._bags(X, mask)
        return self._fitted.scores(bags)

    def predict(self, X: Any, mask: Any = None) -> NDArray[Any]:
        """The class of each bag (n,)."""
        scores = self.decision_function(X, mask)
        return self._fitted.predict(scores)

    def predict_proba(self, X: Any, mask: Any = None) -> FloatArray:
        """Probabilities (n, k) of the classes: the sigmoids of the scores, of sum 1."""
        scores = self.decision_function(X, mask)
        return self._fitted.probabilities(scores)

    def outputs(self, X: Any, mask: Any = None) -> Outputs:
        """Scores, probabilities and predictions, all in one pass over the bags."""
        scores = self.decision_function(X, mask)
        fitted = self._fitted
        return Outputs(scores, fitted.probabilities(scores), fitted.predict(scores))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def by_class(values: Iterable[Any]) -> Any:
    """The one of two classes; an array of those of several."""
    values = list(values)
    return values[0] if len(values) == 1 else np.array(values)

"""What the bag classifiers share: input, cross-validation, readout, calibration, prediction."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.readout import ReadoutFit, sigmoid_fit
from sparsetoken.bags.whitening import Moments, Whitening
from sparsetoken.model.losses import Logistic, Loss
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

_SHRINKAGES = (0.0, 0.3, 1.0)  # of "auto", at least; 0 leaves it to Ledoit and Wolf
_ROUGH = 1e-4  # tolerance of fits that are only compared
_RIDGES = (1e2, 10.0, 1.0, 0.1, 0.01)  # of "auto", in units of the features' variance


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training bags and what is computed of them once."""

    bags: Bags
    labels: FloatArray
    weights: FloatArray
    means: FloatArray  # mean tokens (n, d), not whitened


class Candidate(NamedTuple):
    """Features of all bags at one sharpness."""

    sharpness: float
    fitted: FloatArray  # (n, p), to fit on
    scored: FloatArray  # (n, p), as new bags would have them
    weights: FloatArray  # (n,), of the bags the readout learns from


class BagClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the poolings share: input, cross-validation, readout, calibration, prediction."""

    def __init__(
        self,
        *,
        ridge: float | Literal["auto"] = "auto",
        whiten: bool = True,
        shrinkage: float | Literal["auto"] = "auto",
        loss: Loss | None = None,
        calibrate: bool = True,
        n_tokens: int = 1,
        folds: int = 5,
    ) -> None:
        self.ridge, self.whiten, self.shrinkage, self.loss = ridge, whiten, shrinkage, loss
        self.calibrate, self.n_tokens, self.folds = calibrate, n_tokens, folds

    @abstractmethod
    def _candidates(
        self, data: TrainingData, whitening: Whitening, train: FloatArray
    ) -> Iterator[Candidate]:
        """What a readout is fitted to, for each sharpness.

        Whatever is learned, is learned from bags of positive weight in `train`.
        """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, mask: Any = None) -> BagClassifier:
        """Learn from bags X (see the class) with two kinds of labels y."""
        bags = self._bags(X, mask, reset=True)
        self.classes_, labels = two_classes(y, len(bags), type(self).__name__)
        with scikit_learn_checks():
            weights = _check_sample_weight(sample_weight, np.empty((len(bags), 1)), dtype=float)
        if np.any(weights < 0) or not all(weights[labels == side].sum() > 0 for side in (1, -1)):
            raise InvalidInput(
                "sample_weight must be at least 0 and leave both classes some weight, got "
                f"weights between {weights.min():g} and {weights.max():g}"
            )
        weights = weights * (np.count_nonzero(weights) / weights.sum())  # their scale says nothing
        self._check_counts(labels[weights > 0])
        data = TrainingData(bags, labels, weights, bags.mean())
        self._select(data)
        self._fit_all(data)
        return self

    def _whitenings(
        self, data: TrainingData, train: FloatArray, shrinkages: tuple[float, ...]
    ) -> dict[float, Whitening]:
        """From the tokens of the first class alone: there they are noise."""
        if not self.whiten:
            share = train * data.bags.lengths
            return {0.0: Whitening.none(share @ data.means / share.sum())}
        moments = Moments.of(data.bags, np.where(data.labels < 0, train, 0.0))
        return {least: moments.whitening(least) for least in shrinkages}

    def _select(self, data: TrainingData) -> None:
        """Shrinkage, sharpness and ridge with the least out-of-fold loss; the calibration there."""
        held_out: dict[tuple[float, float, float], FloatArray] = {}
        n = len(data.labels)
        free = (self._shrinkages(), self._sharpnesses())
        asks = self.ridge == "auto" or max(map(len, free)) > 1 or self.calibrate
        for fold in self._folds(data) if asks else ():
            train = np.where(fold, 0.0, data.weights)
            for least, whitening in self._whitenings(data, train, self._shrinkages()).items():
                for each in self._candidates(data, whitening, train):
                    fit = ReadoutFit(each.fitted, data.labels, each.weights)
                    start = None
                    for factor, ridge in self._ridges(each):
                        start = fit(self._loss, ridge, start, _ROUGH)
                        key = (least, each.sharpness, factor)
                        into = held_out.setdefault(key, np.zeros(n))
                        into[fold] = each.scored[fold] @ start[:-1] + start[-1]

        if not held_out and asks:
            warnings.warn(
                "one class has a single bag, nothing can be held out: shrinkage, sharpness and "
                "ridge are not tuned, probabilities not calibrated",
                UserWarning,
                stacklevel=3,
            )
        if not held_out:
            self.cv_losses_ = {}
            self._choose((self._shrinkages()[0], self._sharpnesses()[0], 1.0))
            self._calibration = np.array([1.0, 0.0])
            return
        judged = {key: self._calibrated(data, scores) for key, scores in held_out.items()}
        self.cv_losses_ = {key: loss for key, (loss, _) in judged.items()}
        best = min(self.cv_losses_, key=lambda key: self.cv_losses_[key])
        self._choose(best)
        self._calibration = judged[best][1]

    def _choose(self, key: tuple[float, float, float]) -> None:
        self.shrinkage_, self.sharpness_, self._factor = key

    def _calibrated(self, data: TrainingData, scores: FloatArray) -> tuple[float, FloatArray]:
        """Logistic loss of held-out scores, after the sigmoid that fits them; that sigmoid."""
        sigmoid = np.array([1.0, 0.0])
        if self.calibrate:
            sigmoid = sigmoid_fit(scores, data.labels, data.weights)
        margin = data.labels * (sigmoid[0] * scores + sigmoid[1])
        return float(np.average(np.logaddexp(0.0, -margin), weights=data.weights)), sigmoid

    def _fit_all(self, data: TrainingData) -> None:
        self._whitening, self.ridge_, readout = self._trained(data, data.weights)
        self._set_readout(readout)

    def _trained(
        self, data: TrainingData, train: FloatArray
    ) -> tuple[Whitening, float, FloatArray]:
        """Whitening, ridge, and (w, b) as selected, from some bags."""
        (whitening,) = self._whitenings(data, train, (self.shrinkage_,)).values()
        for each in self._candidates(data, whitening, train):
            if each.sharpness == self.sharpness_:
                ridge = dict(self._ridges(each))[self._factor]
                fit = ReadoutFit(each.fitted, data.labels, each.weights)
                return whitening, ridge, fit(self._loss, ridge)
        raise AssertionError("the selected sharpness is one of the candidates")

    def _set_readout(self, readout: FloatArray) -> None:
        """`coef_` and `intercept_` act on whitened features; calibrated on held-out bags."""
        slope, offset = self._calibration
        self.coef_ = slope * readout[:-1].reshape(1, -1)
        self.intercept_ = slope * readout[-1:] + offset

    def _folds(self, data: TrainingData) -> Iterator[Any]:
        """Truth values (n,) of the bags held out; always the same, no random numbers."""
        counted = data.weights > 0
        fewest = min(int(np.sum(counted & (data.labels == side))) for side in (1, -1))
        folds = min(self.folds, fewest)
        if folds < 2:
            return  # one bag of a class: nothing can be held out
        index = np.flatnonzero(counted)
        for _, test in StratifiedKFold(folds).split(index, data.labels[index]):
            held = np.zeros(len(data.labels), dtype=bool)
            held[index[test]] = True
            yield held

    def _ridges(self, each: Candidate) -> list[tuple[float, float]]:
        """(factor, ridge): the factor is in units of the features' variance."""
        if self.ridge != "auto":
            return [(1.0, float(self.ridge))]
        share = each.weights / each.weights.sum()
        centred = each.fitted - share @ each.fitted
        variance = float(share @ np.einsum("np,np->n", centred, centred)) / centred.shape[1]
        return [(factor, factor * (variance or 1.0)) for factor in _RIDGES]

    def _check_counts(self, labels: FloatArray) -> None:
        """Whether there are enough bags of each class."""

    def _sharpnesses(self) -> tuple[float, ...]:
        return (0.0,)

    def _shrinkages(self) -> tuple[float, ...]:
        if not self.whiten:
            return (0.0,)
        return _SHRINKAGES if self.shrinkage == "auto" else (float(self.shrinkage),)

    @property
    def _loss(self) -> Loss:
        return Logistic() if self.loss is None else self.loss

    def _bags(self, X: Any, mask: Any, reset: bool) -> Bags:
        """Checked input; flat rows as scikit-learn checks them."""
        self._check_parameters()
        ragged = isinstance(X, list | tuple) and len(X) and all(np.ndim(bag) == 2 for bag in X)
        if not isinstance(X, Bags) and not ragged and getattr(X, "ndim", 0) != 3:
            with scikit_learn_checks():
                X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
            return Bags.of(X, mask, self.n_tokens)
        bags = Bags.of(X, mask)
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

    def _check_parameters(self) -> None:
        if self.ridge != "auto" and not (
            isinstance(self.ridge, int | float | np.number) and 0 < self.ridge <= 1e300
        ):
            raise InvalidInput(f"ridge must be 'auto' or a number above 0, got {self.ridge!r}")
        if self.shrinkage != "auto" and not (
            isinstance(self.shrinkage, int | float | np.number) and 0 <= self.shrinkage <= 1
        ):
            raise InvalidInput(
                f"shrinkage must be 'auto' or a number from 0 to 1, got {self.shrinkage!r}"
            )
        for name in ("n_tokens", "folds"):
            value, least = getattr(self, name), 1 if name == "n_tokens" else 2
            if not isinstance(value, int | np.integer) or value < least:
                raise InvalidInput(
                    f"{name} must be a whole number of at least {least}, got {value!r}"
                )

    def _attention(self, bags: Bags) -> FloatArray:
        """Weights of all tokens (N,), of sum 1 in each bag."""
        return 1.0 / bags.spread(bags.lengths.astype(float))

    def _features(self, bags: Bags) -> FloatArray:
        """Whitened features (n, p) of new bags."""
        return self._whitening(bags.pool(self._attention(bags)))

    def _parts(self, bags: Bags) -> FloatArray:
        """What each token (N,) adds to the score of its bag."""
        level = self._whitening.root @ self.coef_[0]
        return self._attention(bags) * (bags.project(level) - self._whitening.mean @ level)

    def contributions(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """What each token adds to the score: arrays (L_i,), of sum score − `intercept_`."""
        check_is_fitted(self)
        bags = self._bags(X, mask, reset=False)
        return np.split(self._parts(bags), bags.offsets[1:-1])

    def decision_function(self, X: Any, mask: Any = None) -> FloatArray:
        """Scores (n,); above 0 means the second class."""
        check_is_fitted(self)
        features = self._features(self._bags(X, mask, reset=False))
        return features @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any, mask: Any = None) -> Any:
        """The class of each bag (n,)."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X, mask) > 0).astype(int)]

    def predict_proba(self, X: Any, mask: Any = None) -> FloatArray:
        """Probabilities (n, 2) of the classes: the sigmoid of the scores."""
        check_is_fitted(self)
        logit = np.clip(self.decision_function(X, mask), -700, 700)
        positive = 1 / (1 + np.exp(-logit))
        return np.column_stack([1 - positive, positive])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.three_d_array = True
        return tags


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

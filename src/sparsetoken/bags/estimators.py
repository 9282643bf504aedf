r"""Classifiers for bags of embeddings, with the scikit-learn API.

`PooledClassifier`: the mean token. `VectorizedClassifier`: all tokens side by side.
`AttentionClassifier`: Σ a_l x_l, a = softmax(sharpness·⟨x_l, query⟩). `StatisticsClassifier`: mean,
spread and extremes of each coordinate. What they do is in `training.py`; here are their parameters,
attributes and methods.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsetoken.bags.bags import Bags, is_ragged, read_labels, scikit_learn_checks, signal_of
from sparsetoken.bags.classes import OneAgainstRest, bag_weights
from sparsetoken.bags.parameters import TUNED, check_parameters
from sparsetoken.bags.poolings import Attending, Mean, Pooling, SideBySide
from sparsetoken.bags.statistics import Statistics
from sparsetoken.bags.token_maps import NystroemMap
from sparsetoken.bags.training import BagModel, Recipe
from sparsetoken.bags.whitening import TARGETS, UNWHITENED, Shrinking
from sparsetoken.model.losses import Logistic, Loss
from sparsetoken.model.names import Names
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput


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

        Bags of one of the `groups` (n,) are never split between folds.
        """
        bags, who = self._bags(X, mask, reset=True), type(self).__name__
        classes, index = read_labels(y, len(bags), who)
        signal = signal_of(classes, self.positive, who)
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
        if recipe.free and not all(each.losses for each in fitted.trained):
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
        chosen = [each.choice.flat for each in fitted.trained]
        self.joint_ = _by_class(each.joint for each in fitted.trained)
        self.target_ = _by_class(target for _, target, _, _, _ in chosen)
        self.shrinkage_ = _by_class(shrinkage for _, _, shrinkage, _, _ in chosen)
        self.sharpness_ = _by_class(sharpness for _, _, _, sharpness, _ in chosen)
        maps = [model.token_map for model in fitted.models]
        self.token_map_ = maps if len(maps) > 1 else maps[0]
        self.ridge_ = _by_class(model.ridge for model in fitted.models)
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

    def _bags(self, X: Any, mask: Any, reset: bool = False) -> Bags:
        """Checked input; flat rows as scikit-learn checks them."""
        if not reset:
            check_is_fitted(self)
        check_parameters(type(self).__name__, self.get_params(deep=False))
        if not isinstance(X, Bags) and not is_ragged(X) and getattr(X, "ndim", 0) != 3:
            with scikit_learn_checks():
                X = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32, np.float16])
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

    def _model(self, label: Any) -> BagModel:
        """Whose scores are those of the label."""
        return self._fitted.model(type(self).__name__, label)

    def contributions(self, X: Any, mask: Any = None, label: Any = None) -> list[FloatArray]:
        """What each token adds to the score of a label: arrays (L_i,), of sum score − intercept.

        The label is the second of two if none is given; of several one must be.
        """
        bags = self._bags(X, mask)
        return bags.split(self._model(label).contributions(bags))

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class PooledClassifier(BagClassifier):
    """The mean token of each bag and a linear readout.

    Parameters
    ----------
    ridge : float or "auto"
        λ in the objective; "auto" takes the best of five by cross-validation.
    whiten : bool
        Remove mean and covariance of the tokens of bags without a signal, which are noise.
    shrinkage : float or "auto"
        Least part by which the covariance is shrunk towards the target: as much as Ledoit and
        Wolf find right for estimating it, or more, which pays where small variances are not noise
        to be blown up; "auto" takes the best of 0, 0.3 and 1 by cross-validation.
    target : "auto", "deviations" or "sizes"
        What the covariance is shrunk towards: a diagonal matrix of variances m₂, or one in
        proportion to m₄/m₂ (m₂, m₄: central moments of a coordinate). The latter keeps coordinates
        small that are rarely different from 0, such as the pixels of an image. With both, units
        and signs of coordinates do not matter; "auto" takes the better one by cross-validation.
    token_map : None, "auto" or transformer
        Other coordinates of tokens: any transformer of scikit-learn's, fitted (a copy of it) to
        the tokens of training bags, in each fold anew. "auto" takes the better of none and
        `NystroemMap()` by cross-validation: for tokens that are not alike in one direction. That
        map learns nothing from labels and is one for all folds.
    loss : Loss, optional
        Of the margin; Logistic() if not given.
    calibrate : bool
        Scale and shift scores by the sigmoid that fits those of held-out bags, so that
        `predict_proba` is calibrated. Scale alone where a `NystroemMap` shows tokens that occur in
        many bags: held-out ones do not say where the threshold is of bags with new tokens.
    n_tokens : int
        Tokens in a bag, for flat rows (n, n_tokens·d). Arrays (n, L, d), with a mask (n, L) if some
        tokens are padding, and lists of (L_i, d) arrays need none.
    folds : int
        Of the cross-validation, shuffled; always the same ones. They do not depend on the order of
        bags, tokens or coordinates, and never split one of the `groups` given to `fit`.
    positive : label, optional
        Which of two labels is that of bags with a signal; the second in order if not given. The
        tokens of the other bags are noise to whiten by. Scores above 0 mean the second label, be
        it the signal's or not. Of more than two labels each is the signal's in turn, against the
        rest.
    class_weight : dict, "balanced" or None
        A weight for the bags of each label, beside that of each bag; labels that are not in the
        dict weigh 1. "balanced": all classes weigh the same in all.

    Attributes
    ----------
    classes_ : the labels in order.
    positive_ : the label taken as that of bags with a signal; None where each is in turn.
    coef_, intercept_ : the readout of whitened features, calibrated if `calibrate`; a row for each
        of more than two labels.
    ridge_, sharpness_, shrinkage_, target_ : what was selected; one for each of more than two
        labels.
    token_map_ : the map as fitted, None where tokens are not mapped; a list for more than two
        labels.
    cv_losses_ : by which held-out losses, for (whether mapped, target, shrinkage, sharpness, ridge
        in units of the features' variance). Not of tokens mapped, or as they are, where these have
        lost by two standard errors before all folds were done.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=5, sparsity=5, strength=1.0).sample(200, dim=8, rng=0)
    >>> classifier = PooledClassifier().fit(sample.tokens, sample.labels)
    >>> bool(classifier.score(sample.tokens, sample.labels) > 0.8)
    True
    """

    @property
    def _pooling(self) -> Pooling:
        return Mean()


class VectorizedClassifier(BagClassifier):
    """All tokens of a bag side by side and a linear readout, one weight for each place.

    For bags of one length whose places mean something. Parameters and attributes are those of
    `PooledClassifier`.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=5, sparsity=5, strength=1.0).sample(200, dim=8, rng=0)
    >>> classifier = VectorizedClassifier().fit(sample.tokens, sample.labels)
    >>> classifier.coef_.shape
    (1, 40)
    """

    @property
    def _pooling(self) -> Pooling:
        return SideBySide()


@dataclass(kw_only=True, eq=False, repr=False)
class AttentionClassifier(BagClassifier):
    """Attention pooling with a query learned in two gradient steps, and a linear readout.

    Deterministic: two weighted sums for the query, one convex fit for the readout, no epochs, no
    learning rate, no seed. Parameters and attributes of `PooledClassifier`, and

    Parameters
    ----------
    query : "two-step" or "joint"
        "joint" goes on from the two-step query: one round of expectation–maximisation (which tokens
        carry the signal?), then L-BFGS on all parameters. The latter is kept if it arrives and
        does better on held-out bags (`joint_` says so), else the query after the former.
    reuse : "all", "cross" or "split"
        Which bags fit the readout: those that taught the query, the same but each seen through a
        query that has not seen it, or half of the bags and the other half, as in the theory
        (benchmarks/digits.py compares them).
    sharpness : float or "auto"
        Length of the query in whitened coordinates; "auto" takes the best of six by
        cross-validation, in which whitening and query are learned anew in each fold. 0 is mean
        pooling and always a candidate. Of tokens that a `NystroemMap` shows three are tried; 4
        alone where tokens occur in many bags, which held-out bags then cannot judge.
    weighting : Weighting
        How tokens are weighted by their scores: Softmax() if not given, HardMax(), TopK(k),
        Sparsemax(), or any object with `weights`. query="joint" needs softmax.

    Attributes
    ----------
    query_ : the query (d,), in whitened coordinates; (k, d) for more than two labels.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=10, sparsity=1, strength=6.0).sample(300, dim=8, rng=0)
    >>> classifier = AttentionClassifier().fit(sample.tokens, sample.labels)
    >>> bool(classifier.score(sample.tokens, sample.labels) > 0.9), classifier.sharpness_ > 0
    (True, True)
    """

    query: Literal["two-step", "joint"] = "two-step"
    reuse: Literal["all", "cross", "split"] = "all"
    sharpness: float | Literal["auto"] = "auto"
    weighting: Weighting | None = None

    @property
    def _pooling(self) -> Pooling:
        return Attending(
            sharpnesses=self._tried("sharpness"),
            weighting=SOFTMAX if self.weighting is None else self.weighting,
            reuse=self.reuse,
            joint=self.query == "joint",
            folds=self.folds,
        )

    @property
    def query_(self) -> FloatArray:
        """The query (d,), in whitened coordinates; (k, d) for more than two classes."""
        return np.asarray(_by_class(model.pooling.query for model in self._fitted.models))

    def attention(self, X: Any, mask: Any = None, label: Any = None) -> list[FloatArray]:
        """The weights of each bag's tokens: a list of arrays (L_i,), each of sum 1.

        Of more than two labels, those of the model of `label`.
        """
        bags = self._bags(X, mask)
        model = self._model(label)
        return bags.split(model.attention(bags))

    def score_tokens(self, X: Any, mask: Any = None, label: Any = None) -> list[FloatArray]:
        """⟨query, token⟩ of each bag's tokens, whitened: where the classifier looks.

        Of more than two labels, the query is that of `label`.
        """
        bags = self._bags(X, mask)
        model = self._model(label)
        return bags.split(model.levels(bags))

    def token_values(self, X: Any, mask: Any = None, label: Any = None) -> dict[str, Any]:
        """All that is known of each token, by name: lists of arrays (L_i,)."""
        return {
            "contribution": self.contributions(X, mask, label),
            "attention": self.attention(X, mask, label),
            "query_score": self.score_tokens(X, mask, label),
        }


@dataclass(kw_only=True, eq=False, repr=False)
class StatisticsClassifier(BagClassifier):
    """Mean, standard deviation, least and greatest of each coordinate, and ridge or kernel.

    For bags that differ in more than a few shifted tokens: classical multiple-instance data. Each
    statistic has mean 0 and variance 1 over the bags that are learned from. No contributions of
    tokens are defined. Parameters and attributes of `PooledClassifier`, and

    Parameters
    ----------
    whiten : bool
        Whether statistics are those of whitened tokens; False, coordinates as they are, if not
        given.
    inverse_width : float or "auto"
        Of a Gaussian kernel between statistics, over the number of them; 0 is a linear readout.
        "auto" takes the best of 0, 1/4, 1 and 4 by cross-validation.

    Attributes
    ----------
    inverse_width_ : what was selected; one for each of more than two labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(100) % 2
    >>> tokens = rng.standard_normal((100, 8, 3)) * (1 + labels[:, None, None])  # wider, no shift
    >>> classifier = StatisticsClassifier().fit(tokens[:60], labels[:60])
    >>> bool(classifier.score(tokens[60:], labels[60:]) > 0.9)
    True
    """

    whiten: bool = False
    inverse_width: float | Literal["auto"] = "auto"

    @property
    def _pooling(self) -> Pooling:
        return Statistics(sharpnesses=self._tried("inverse_width"), whiten=self.whiten)

    @property
    def inverse_width_(self) -> Any:
        """Of the kernel, over the number of statistics; 0 for a linear readout."""
        return self.sharpness_


def _by_class(values: Iterable[Any]) -> Any:
    """The one of two classes; an array of those of several."""
    values = list(values)
    return values[0] if len(values) == 1 else np.array(values)


ESTIMATORS: Names[BagClassifier] = Names(
    "pooling",
    {
        "pooled": PooledClassifier,
        "attention": AttentionClassifier,
        "joint": partial(AttentionClassifier, query="joint"),
        "vectorized": VectorizedClassifier,
        "statistics": StatisticsClassifier,
    },
)

r"""Classifiers for bags of embeddings, with the scikit-learn API.

`PooledClassifier`: the mean token. `VectorizedClassifier`: all tokens side by side.
`AttentionClassifier`: Σ a_l x_l, a = softmax(sharpness·⟨x_l, query⟩). What they do is in
`training.py`; here are their parameters, attributes and methods.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsetoken.bags.bags import (
    Bags,
    is_ragged,
    sample_weights,
    scikit_learn_checks,
    two_classes,
)
from sparsetoken.bags.poolings import Attending, Mean, Pooling, SideBySide
from sparsetoken.bags.token_maps import NystroemMap
from sparsetoken.bags.training import Recipe, Trained, train
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import TARGETS, UNWHITENED, Shrinking
from sparsetoken.model.losses import Logistic, Loss
from sparsetoken.model.names import Names
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import one_of
from sparsetoken.support.errors import InvalidInput


class _Tuned(NamedTuple):
    """A number that may be "auto"."""

    least: float
    most: float
    words: str  # for these bounds
    tried: tuple[float, ...] = ()  # what "auto" chooses from; for the ridge, see `training.py`


_HUGE = 1e300  # beyond it squares and sums would be infinite
_TUNED = {
    "ridge": _Tuned(math.ulp(0.0), _HUGE, "above 0"),
    "shrinkage": _Tuned(0.0, 1.0, "from 0 to 1", (0.0, 0.3, 1.0)),  # 0: as Ledoit and Wolf say
    "sharpness": _Tuned(0.0, _HUGE, "of at least 0", (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)),
}
_COUNTS = {"n_tokens": 1, "folds": 2}  # at least
_WORDS = {
    "query": ("two-step", "joint"),
    "reuse": ("all", "cross", "split"),
    "target": ("auto", *TARGETS),
}


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

    @property
    @abstractmethod
    def _pooling(self) -> Pooling:
        """What is tried: all that the classifiers differ in."""

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, mask: Any = None, groups: Any = None
    ) -> BagClassifier:
        """Learn from bags X (see the class) with two kinds of labels y.

        Bags of one of the `groups` (n,) are never split between folds.
        """
        bags = self._bags(X, mask, reset=True)
        classes, labels = two_classes(y, len(bags), type(self).__name__)
        weights = sample_weights(sample_weight, labels)
        recipe = Recipe(
            pooling=self._pooling,
            loss=Logistic() if self.loss is None else self.loss,
            ridge=None if self.ridge == "auto" else float(self.ridge),
            shrinkings=self._shrinkings,
            token_map=NystroemMap() if self.token_map == "auto" else self.token_map,
            calibrate=self.calibrate,
            folds=self.folds,
        )
        trained = train(TrainingData.of(bags, labels, weights, groups), recipe)
        if recipe.free and not trained.losses:
            warnings.warn(
                "one class has a single bag, or bags in a single one of the groups, nothing can be "
                "held out: shrinkage, sharpness and ridge are not tuned, probabilities not "
                "calibrated",
                UserWarning,
                stacklevel=2,
            )
        self.cv_losses_ = {choice.flat: loss for choice, loss in trained.losses.items()}
        self._set_trained(trained, classes)
        return self

    def _tried(self, name: str) -> tuple[float, ...]:
        value = getattr(self, name)
        return _TUNED[name].tried if value == "auto" else (float(value),)

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

    def _set_trained(self, trained: Trained, classes: NDArray[Any]) -> None:
        """The attributes that say what was fitted; `coef_` acts on whitened features."""
        model = trained.model
        self._model, self.classes_, self.joint_ = model, classes, trained.joint
        _, self.target_, self.shrinkage_, self.sharpness_, _ = trained.choice.flat
        self.token_map_ = model.token_map
        self.ridge_, self.intercept_ = model.ridge, np.array([model.bias])
        self.coef_ = model.weights.reshape(1, -1)

    def _bags(self, X: Any, mask: Any, reset: bool = False) -> Bags:
        """Checked input; flat rows as scikit-learn checks them."""
        if not reset:
            check_is_fitted(self)
        self._check_parameters()
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

    def _check_parameters(self) -> None:
        """Each as the tables above have it."""
        for name, value in self.get_params(deep=False).items():
            if name in _TUNED and value != "auto":
                least, most, words, _ = _TUNED[name]
                if not isinstance(value, int | float | np.number) or not least <= value <= most:
                    raise InvalidInput(f"{name} must be 'auto' or a number {words}, got {value!r}")
            elif name in _COUNTS:
                least = _COUNTS[name]
                if not isinstance(value, int | np.integer) or value < least:
                    raise InvalidInput(
                        f"{name} must be a whole number of at least {least}, got {value!r}"
                    )
            elif name in _WORDS:
                one_of(type(self), name, value, _WORDS[name])
        methods = ("fit", "transform", "get_params")
        is_map = all(hasattr(self.token_map, name) for name in methods)
        if isinstance(self.token_map, type) or not (is_map or self.token_map in (None, "auto")):
            raise InvalidInput(
                "token_map must be None, 'auto' or a transformer of scikit-learn's, got "
                f"{self.token_map!r}"
            )

    def contributions(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """What each token adds to the score: arrays (L_i,), of sum score − `intercept_`."""
        bags = self._bags(X, mask)
        return bags.split(self._model.contributions(bags))

    def decision_function(self, X: Any, mask: Any = None) -> FloatArray:
        """Scores (n,); above 0 means the second class."""
        bags = self._bags(X, mask)
        return self._model.scores(bags)

    def predict(self, X: Any, mask: Any = None) -> NDArray[Any]:
        """The class of each bag (n,)."""
        second = self.decision_function(X, mask) > 0
        return self.classes_[second.astype(int)]

    def predict_proba(self, X: Any, mask: Any = None) -> FloatArray:
        """Probabilities (n, 2) of the classes: the sigmoid of the scores."""
        logit = np.clip(self.decision_function(X, mask), -700, 700)
        positive = 1 / (1 + np.exp(-logit))
        return np.column_stack([1 - positive, positive])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.three_d_array = True
        return tags


class PooledClassifier(BagClassifier):
    """The mean token of each bag and a linear readout.

    Parameters
    ----------
    ridge : float or "auto"
        λ in the objective; "auto" takes the best of five by cross-validation.
    whiten : bool
        Remove mean and covariance of the tokens of the first class, whose bags are noise.
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
        `NystroemMap()` by cross-validation: for tokens that are not alike in one direction.
    loss : Loss, optional
        Of the margin; Logistic() if not given.
    calibrate : bool
        Scale and shift scores by the sigmoid that fits those of held-out bags, so that
        `predict_proba` is calibrated.
    n_tokens : int
        Tokens in a bag, for flat rows (n, n_tokens·d). Arrays (n, L, d), with a mask (n, L) if some
        tokens are padding, and lists of (L_i, d) arrays need none.
    folds : int
        Of the cross-validation, shuffled; always the same ones. They do not depend on the order of
        bags, tokens or coordinates, and never split one of the `groups` given to `fit`.

    Attributes
    ----------
    classes_ : the two labels; the second one is that of bags with a signal.
    coef_, intercept_ : the readout of whitened features, calibrated if `calibrate`.
    ridge_, sharpness_, shrinkage_, target_ : what was selected.
    token_map_ : the map as fitted, None where tokens are not mapped.
    cv_losses_ : by which held-out losses, for (whether mapped, target, shrinkage, sharpness, ridge
        in units of the features' variance).

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
        pooling and always a candidate.
    weighting : Weighting
        How tokens are weighted by their scores: Softmax() if not given, HardMax(), TopK(k),
        Sparsemax(), or any object with `weights`. query="joint" needs softmax.

    Attributes
    ----------
    query_ : the query (d,), in whitened coordinates.

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
        """The query (d,), in whitened coordinates."""
        return np.asarray(self._model.pooling.query)

    def attention(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """The weights of each bag's tokens: a list of arrays (L_i,), each of sum 1."""
        bags = self._bags(X, mask)
        return bags.split(self._model.attention(bags))

    def score_tokens(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """⟨query, token⟩ of each bag's tokens, whitened: where the classifier looks."""
        bags = self._bags(X, mask)
        return bags.split(self._model.levels(bags))


ESTIMATORS: Names[BagClassifier] = Names(
    "pooling",
    {
        "pooled": PooledClassifier,
        "attention": AttentionClassifier,
        "joint": partial(AttentionClassifier, query="joint"),
        "vectorized": VectorizedClassifier,
    },
)

r"""Classifiers for bags of embeddings, with the scikit-learn API.

`PooledClassifier`: the mean token. `VectorizedClassifier`: all tokens side by side.
`AttentionClassifier`: Σ a_l x_l, a = softmax(sharpness·⟨x_l, query⟩). What they do is in
`training.py`; here are their parameters, attributes and methods.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.poolings import (
    Attending,
    Mean,
    Pooling,
    SideBySide,
    TrainingData,
    WeighedPool,
)
from sparsetoken.bags.training import BagModel, Recipe, train
from sparsetoken.bags.validation import sample_weights, scikit_learn_checks, two_classes
from sparsetoken.model.losses import Logistic, Loss
from sparsetoken.model.names import Names
from sparsetoken.model.weightings import SOFTMAX, Weighting, check_weighting
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

_SHRINKAGES = (0.0, 0.3, 1.0)  # of "auto", at least; 0 leaves it to Ledoit and Wolf
_SHARPNESSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)  # of "auto", 0 is mean pooling


class BagClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A pooling and a linear readout, fitted to bags and used on others."""

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

    @property
    @abstractmethod
    def _pooling(self) -> Pooling:
        """What is tried: all that the classifiers differ in."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, mask: Any = None) -> BagClassifier:
        """Learn from bags X (see the class) with two kinds of labels y."""
        bags = self._bags(X, mask, reset=True)
        self.classes_, labels = two_classes(y, len(bags), type(self).__name__)
        weights = sample_weights(sample_weight, labels)
        self._check_counts(labels[weights > 0])
        recipe = self._recipe()
        trained = train(TrainingData(bags, labels, weights, bags.mean()), recipe)
        if recipe.free and not trained.losses:
            warnings.warn(
                "one class has a single bag, nothing can be held out: shrinkage, sharpness and "
                "ridge are not tuned, probabilities not calibrated",
                UserWarning,
                stacklevel=2,
            )
        self.cv_losses_ = {tuple(choice): loss for choice, loss in trained.losses.items()}
        self.shrinkage_, self.sharpness_, _ = trained.choice
        self._set_model(trained.model, trained.joint)
        return self

    def _recipe(self) -> Recipe:
        shrinkages = _SHRINKAGES if self.shrinkage == "auto" else (float(self.shrinkage),)
        return Recipe(
            pooling=self._pooling,
            loss=Logistic() if self.loss is None else self.loss,
            ridge=None if self.ridge == "auto" else float(self.ridge),
            shrinkages=shrinkages if self.whiten else (0.0,),
            whiten=self.whiten,
            calibrate=self.calibrate,
            folds=self.folds,
        )

    def _set_model(self, model: BagModel, joint: bool) -> None:
        """The attributes that say what was fitted; `coef_` acts on whitened features."""
        self._whitening, self._pool, self.ridge_ = model.whitening, model.pool, model.ridge
        self.coef_, self.intercept_ = model.weights.reshape(1, -1), np.array([model.bias])

    def _check_counts(self, labels: FloatArray) -> None:
        """Whether there are enough bags of each class."""

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

    def contributions(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """What each token adds to the score: arrays (L_i,), of sum score − `intercept_`."""
        check_is_fitted(self)
        bags = self._bags(X, mask, reset=False)
        parts = self._pool.contributions(bags, self._whitening, self.coef_[0])
        return np.split(parts, bags.offsets[1:-1])

    def decision_function(self, X: Any, mask: Any = None) -> FloatArray:
        """Scores (n,); above 0 means the second class."""
        check_is_fitted(self)
        features = self._pool.features(self._bags(X, mask, reset=False), self._whitening)
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


class PooledClassifier(BagClassifier):
    """The mean token of each bag and a linear readout.

    Parameters
    ----------
    ridge : float or "auto"
        λ in the objective; "auto" takes the best of five by cross-validation.
    whiten : bool
        Remove mean and covariance of the tokens of the first class, whose bags are noise.
    shrinkage : float or "auto"
        Least part by which the covariance is shrunk towards its mean variance: as much as Ledoit
        and Wolf find right for estimating it, or more, which pays where small variances are not
        noise to be blown up; "auto" takes the best of 0, 0.3 and 1 by cross-validation.
    loss : Loss, optional
        Of the margin; Logistic() if not given.
    calibrate : bool
        Scale and shift scores by the sigmoid that fits those of held-out bags, so that
        `predict_proba` is calibrated.
    n_tokens : int
        Tokens in a bag, for flat rows (n, n_tokens·d). Arrays (n, L, d), with a mask (n, L) if some
        tokens are padding, and lists of (L_i, d) arrays need none.
    folds : int
        Of the cross-validation; always the same ones, no random numbers.

    Attributes
    ----------
    classes_ : the two labels; the second one is that of bags with a signal.
    coef_, intercept_ : the readout of whitened features, calibrated if `calibrate`.
    ridge_, sharpness_, shrinkage_, cv_losses_ : what was selected, by which held-out losses.

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
    """

    @property
    def _pooling(self) -> Pooling:
        return SideBySide()


class AttentionClassifier(BagClassifier):
    """Attention pooling with a query learned in two gradient steps, and a linear readout.

    Deterministic: two weighted sums for the query, one convex fit for the readout, no epochs, no
    learning rate, no seed. Parameters and attributes of `PooledClassifier`, and

    Parameters
    ----------
    query : "two-step" or "joint"
        "joint" goes on from the two-step query: one round of expectation–maximisation (which tokens
        carry the signal?), then L-BFGS on all parameters. The latter is kept if it does better on
        held-out bags (`joint_` says so), else the query after the former.
    reuse : "all", "cross" or "split"
        Which bags fit the readout: those that taught the query, the same but each seen through a
        query that has not seen it, or every other bag, as in the theory (benchmarks/digits.py
        compares them).
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

    _pool: WeighedPool

    def __init__(
        self,
        *,
        query: Literal["two-step", "joint"] = "two-step",
        reuse: Literal["all", "cross", "split"] = "all",
        sharpness: float | Literal["auto"] = "auto",
        weighting: Weighting | None = None,
        ridge: float | Literal["auto"] = "auto",
        whiten: bool = True,
        shrinkage: float | Literal["auto"] = "auto",
        loss: Loss | None = None,
        calibrate: bool = True,
        n_tokens: int = 1,
        folds: int = 5,
    ) -> None:
        super().__init__(
            ridge=ridge, whiten=whiten, shrinkage=shrinkage, loss=loss, calibrate=calibrate,
            n_tokens=n_tokens, folds=folds,
        )  # fmt: skip
        self.query, self.reuse, self.sharpness = query, reuse, sharpness
        self.weighting = weighting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name, allowed in (
            ("query", ("two-step", "joint")),
            ("reuse", ("all", "cross", "split")),
        ):
            if getattr(self, name) not in allowed:
                words = ", ".join(map(repr, allowed))
                raise InvalidInput(f"{name} must be one of {words}, got {getattr(self, name)!r}")
        if self.sharpness != "auto" and not (
            isinstance(self.sharpness, int | float | np.number) and 0 <= self.sharpness <= 1e300
        ):
            raise InvalidInput(
                f"sharpness must be 'auto' or a number of at least 0, got {self.sharpness!r}"
            )

        if self.weighting is not None:
            check_weighting(AttentionClassifier, self.weighting)
            if self.query == "joint" and self.weighting != SOFTMAX:
                raise InvalidInput(
                    "query must be 'two-step' for a weighting other than softmax (whose gradient "
                    f"joint training follows), got weighting={self.weighting!r}"
                )

    @property
    def _pooling(self) -> Pooling:
        return Attending(
            _SHARPNESSES if self.sharpness == "auto" else (float(self.sharpness),),
            SOFTMAX if self.weighting is None else self.weighting,
            self.reuse,
            joint=self.query == "joint",
            folds=self.folds,
        )

    def _check_counts(self, labels: FloatArray) -> None:
        fewest = int(min(np.sum(labels > 0), np.sum(labels < 0)))
        if self.reuse == "split" and fewest < 4:
            raise InvalidInput(
                "reuse='split' needs at least 4 bags of each class (query and readout, in each "
                f"fold), got {fewest}; use reuse='all'"
            )

    def _set_model(self, model: BagModel, joint: bool) -> None:
        super()._set_model(model, joint)
        self.joint_, self.query_ = joint, np.asarray(model.pool.query)
        if joint:
            self.sharpness_ = float(np.linalg.norm(self.query_))

    def attention(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """The weights of each bag's tokens: a list of arrays (L_i,), each of sum 1."""
        check_is_fitted(self)
        bags = self._bags(X, mask, reset=False)
        return np.split(self._pool.attention(bags, self._whitening), bags.offsets[1:-1])

    def score_tokens(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """⟨query, token⟩ of each bag's tokens, whitened: where the classifier looks."""
        check_is_fitted(self)
        bags = self._bags(X, mask, reset=False)
        return np.split(self._whitening.project(bags, self.query_), bags.offsets[1:-1])


ESTIMATORS: Names[BagClassifier] = Names(
    "pooling",
    {
        "pooled": PooledClassifier,
        "attention": AttentionClassifier,
        "joint": partial(AttentionClassifier, query="joint"),
        "vectorized": VectorizedClassifier,
    },
)

r"""Classifiers for bags of embeddings, with the scikit-learn API.

`PooledClassifier`: the mean token. `VectorizedClassifier`: all tokens side by side.
`AttentionClassifier`: Σ a_l x_l, a = softmax(sharpness·⟨x_l, query⟩). `StatisticsClassifier`: mean,
spread and extremes of each coordinate. What they share is in `classifier.py`, what they do in
`training.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from sparsetoken.bags.classifier import BagClassifier, by_class
from sparsetoken.bags.poolings import Attending, Mean, Pooling, SideBySide
from sparsetoken.bags.statistics import Statistics
from sparsetoken.model.names import Names
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.support.arrays import FloatArray


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
    query : "two-step", "joint" or "posterior"
        "joint" goes on from the two-step query: one round of expectation–maximisation (which tokens
        carry the signal?), then L-BFGS on all parameters. The latter is kept if it arrives and
        does better on held-out bags, else the query after the former. "posterior" tries what three
        rounds of it learn, each bag seen along what the others say: attention with that query, and
        how much likelier a bag is with the signal than without (a single feature, for bags as few
        as their dimensions). The best on held-out bags is kept, be it two-step; `learned_by_` says
        which. Needs reuse="all". Of a `BagSource` its rounds are passes; "joint" needs all bags in
        memory.
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
    learned_by_ : "two-step", "joint", "posterior" (attention with its query) or "likelihood" (its
        log ratio); one for each of more than two labels.
    joint_ : whether that is "joint".

    Examples
    --------
    >>> from sparsetoken import Task
    >>> sample = Task(length=10, sparsity=1, strength=6.0).sample(300, dim=8, rng=0)
    >>> classifier = AttentionClassifier().fit(sample.tokens, sample.labels)
    >>> bool(classifier.score(sample.tokens, sample.labels) > 0.9), classifier.sharpness_ > 0
    (True, True)
    """

    query: Literal["two-step", "joint", "posterior"] = "two-step"
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
            posterior=self.query == "posterior",
            folds=self.folds,
        )

    @property
    def query_(self) -> FloatArray:
        """The query (d,), in whitened coordinates; (k, d) for more than two classes."""
        return np.asarray(by_class(model.pooling.query for model in self._fitted.models))

    def attention(self, X: Any, mask: Any = None, label: Any = None) -> list[FloatArray]:
        """The weights of each bag's tokens: a list of arrays (L_i,), each of sum 1.

        Of more than two labels, those of the model of `label`.
        """
        bags = self._bags(X, mask)
        model = self._model(label)
        return self._by_bags(bags, model.attention, "attention")

    def score_tokens(self, X: Any, mask: Any = None, label: Any = None) -> list[FloatArray]:
        """⟨query, token⟩ of each bag's tokens, whitened: where the classifier looks.

        Of more than two labels, the query is that of `label`.
        """
        bags = self._bags(X, mask)
        model = self._model(label)
        return self._by_bags(bags, model.levels, "levels")

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


ESTIMATORS: Names[BagClassifier] = Names(
    "pooling",
    {
        "pooled": PooledClassifier,
        "attention": AttentionClassifier,
        "joint": partial(AttentionClassifier, query="joint"),
        "posterior": partial(AttentionClassifier, query="posterior"),
        "vectorized": VectorizedClassifier,
        "statistics": StatisticsClassifier,
    },
)

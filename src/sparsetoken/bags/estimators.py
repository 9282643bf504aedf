r"""Classifiers for bags of embeddings, with the scikit-learn API.

    features f(bag) by a pooling,   score = ⟨w, f⟩ + b,
    (w, b) = argmin (1/n) Σ ℓ(y·score) + (ridge/2)‖w‖²,   bias not penalised.

`PooledClassifier`: the mean token. `VectorizedClassifier`: all tokens side by side.
`AttentionClassifier`: Σ a_l x_l, a = softmax(sharpness·⟨x_l, query⟩). All in whitened coordinates
if `whiten`, where the noise of the tokens is what the theory assumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.classification import BagClassifier, Candidate, TrainingData
from sparsetoken.bags.query import refined, train_all, two_step_query
from sparsetoken.bags.whitening import Whitening
from sparsetoken.model.classifiers import Attention
from sparsetoken.model.losses import Loss
from sparsetoken.model.names import Names
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

_ENERGY = 2.0  # of the query's ridge at the start of joint training, in units of the readout's
_SHARPNESSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)  # of "auto", 0 is mean pooling


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

    def _candidates(
        self, data: TrainingData, whitening: Whitening, train: FloatArray
    ) -> Iterator[Candidate]:
        means = whitening(data.means)
        yield Candidate(0.0, means, means, train)


class VectorizedClassifier(BagClassifier):
    """All tokens of a bag side by side and a linear readout, one weight for each place.

    For bags of one length whose places mean something. Parameters and attributes are those of
    `PooledClassifier`.
    """

    def _candidates(
        self, data: TrainingData, whitening: Whitening, train: FloatArray
    ) -> Iterator[Candidate]:
        self._length, self._whitening = int(data.bags.lengths[0]), whitening
        features = self._features(data.bags)
        yield Candidate(0.0, features, features, train)

    def _features(self, bags: Bags) -> FloatArray:
        lengths = np.unique(bags.lengths)
        if len(lengths) > 1 or lengths[0] != self._length:
            raise InvalidInput(
                f"VectorizedClassifier needs bags of one length ({self._length}), got lengths "
                f"from {lengths[0]} to {lengths[-1]}"
            )
        return self._whitening(np.asarray(bags.tokens, dtype=float)).reshape(len(bags), -1)

    def _parts(self, bags: Bags) -> FloatArray:
        features, dim = self._features(bags), bags.dim
        return (features * self.coef_[0]).reshape(-1, dim).sum(axis=1)


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
            Attention(weighting=self.weighting)  # refuses what is not a weighting
            if self.query == "joint" and self.weighting != SOFTMAX:
                raise InvalidInput(
                    "query must be 'two-step' for a weighting other than softmax (whose gradient "
                    f"joint training follows), got weighting={self.weighting!r}"
                )

    @property
    def _weighting(self) -> Weighting:
        return SOFTMAX if self.weighting is None else self.weighting

    def _check_counts(self, labels: FloatArray) -> None:
        fewest = int(min(np.sum(labels > 0), np.sum(labels < 0)))
        if self.reuse == "split" and fewest < 4:
            raise InvalidInput(
                "reuse='split' needs at least 4 bags of each class (query and readout, in each "
                f"fold), got {fewest}; use reuse='all'"
            )

    def _sharpnesses(self) -> tuple[float, ...]:
        return _SHARPNESSES if self.sharpness == "auto" else (float(self.sharpness),)

    def _query(self, data: TrainingData, whitening: Whitening, train: FloatArray) -> FloatArray:
        """Logits of all tokens (N,) at sharpness 1, by the query of some bags; it is kept."""
        bags, labels = data.bags, data.labels
        query = two_step_query(bags, whitening(data.means), labels, train, whitening)
        if self.query == "joint":
            query = refined(bags, query, labels, train, whitening).query
        self._direction = query
        return data.bags.project(whitening.root @ self._direction)

    def _candidates(
        self, data: TrainingData, whitening: Whitening, train: FloatArray
    ) -> Iterator[Candidate]:
        own: FloatArray | None = None
        teaches_query = train
        if self.reuse == "cross":
            own = self._cross_logits(data, whitening, train)
        elif self.reuse == "split":
            first = _every_other(data.labels, train > 0)
            teaches_query, train = np.where(first, train, 0.0), np.where(first, 0.0, train)
        logits = self._query(data, whitening, teaches_query)
        taus = self._sharpnesses()
        scored = self._pooled(data.bags, whitening, logits, taus)
        fitted = scored if own is None else self._pooled(data.bags, whitening, own, taus)
        for tau, fit_on, score in zip(taus, fitted, scored, strict=True):
            yield Candidate(tau, fit_on, score, train)

    def _cross_logits(
        self, data: TrainingData, whitening: Whitening, train: FloatArray
    ) -> FloatArray:
        """Each bag's logits by a query that has not seen it."""
        logits = self._query(data, whitening, train)
        for held in self._folds(replace(data, weights=train)):
            mine = data.bags.spread(held.astype(float)) > 0
            logits[mine] = self._query(data, whitening, np.where(held, 0.0, train))[mine]
        return logits

    def _pooled(
        self, bags: Bags, whitening: Whitening, logits: FloatArray, taus: tuple[float, ...]
    ) -> list[FloatArray]:
        """Whitened features (n, d) for each sharpness."""
        weights = np.stack([bags.weigh(self._weighting, tau * logits) for tau in taus])
        return [whitening(pooled) for pooled in bags.pool(weights)]

    def _select(self, data: TrainingData) -> None:
        """As for all; then whether joint training does better on held-out bags, from the best
        start of each shrinkage."""
        super()._select(data)
        self.joint_ = False
        if self.query != "joint" or not self.cv_losses_:
            return
        chosen = min(self.cv_losses_, key=self.cv_losses_.__getitem__)
        least = self.cv_losses_[chosen]
        for shrinkage in self._shrinkages():
            starts = {k: v for k, v in self.cv_losses_.items() if k[0] == shrinkage and k[1] > 0}
            if not starts:
                continue
            key = min(starts, key=starts.__getitem__)
            self._choose(key)
            loss, calibration = self._calibrated(data, self._joint_scores(data))
            if loss < least:
                least, chosen = loss, key
                self.joint_, self._calibration = True, calibration
        self._choose(chosen)

    def _joint_scores(self, data: TrainingData) -> FloatArray:
        """Scores of held-out bags (n,)."""
        scores, dim = np.zeros(len(data.labels)), data.bags.dim
        for fold in self._folds(data):
            found, whitening = self._train_jointly(data, np.where(fold, 0.0, data.weights))
            bags = data.bags[fold]
            attention = bags.softmax(bags.project(whitening.root @ found[:dim]))
            scores[fold] = whitening(bags.pool(attention)) @ found[dim:-1] + found[-1]
        return scores

    def _train_jointly(self, data: TrainingData, train: FloatArray) -> tuple[FloatArray, Whitening]:
        """(q, w, b) of some bags, from the two-step start; the ridge of q is in proportion."""
        whitening, ridge, readout = self._trained(data, train)
        weights = readout[:-1]
        energy = ridge * float(weights @ weights)
        query_ridge = max(_ENERGY * energy / self.sharpness_**2, 1e-9)
        start = np.concatenate([self.sharpness_ * self._direction, readout])
        found = train_all(
            data.bags, data.labels, train, whitening, self._loss, ridge, query_ridge, start
        )
        return found, whitening

    def _fit_all(self, data: TrainingData) -> None:
        super()._fit_all(data)
        self.query_ = self.sharpness_ * self._direction
        if self.joint_:
            found, _ = self._train_jointly(data, data.weights)
            self.query_ = found[: data.bags.dim]
            self.sharpness_ = float(np.linalg.norm(self.query_))
            self._set_readout(found[data.bags.dim :])

    def _attention(self, bags: Bags) -> FloatArray:
        return bags.weigh(self._weighting, bags.project(self._whitening.root @ self.query_))

    def attention(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """The weights of each bag's tokens: a list of arrays (L_i,), each of sum 1."""
        check_is_fitted(self)
        bags = self._bags(X, mask, reset=False)
        return np.split(self._attention(bags), bags.offsets[1:-1])

    def score_tokens(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """⟨query, token⟩ of each bag's tokens, whitened: where the classifier looks."""
        check_is_fitted(self)
        bags = self._bags(X, mask, reset=False)
        level = self._whitening.root @ self.query_
        scores = bags.project(level) - self._whitening.mean @ level
        return np.split(scores, bags.offsets[1:-1])


def _every_other(labels: FloatArray, counted: Any) -> Any:
    """Truth values (n,): every other of the bags that count, in each class."""
    first = np.zeros(len(labels), dtype=bool)
    for label in (1.0, -1.0):
        first[np.flatnonzero(counted & (labels == label))[::2]] = True
    return first


ESTIMATORS: Names[BagClassifier] = Names(
    "pooling",
    {
        "pooled": PooledClassifier,
        "attention": AttentionClassifier,
        "joint": partial(AttentionClassifier, query="joint"),
        "vectorized": VectorizedClassifier,
    },
)

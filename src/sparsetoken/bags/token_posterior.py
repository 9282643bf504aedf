"""`TokenPosterior`: the probability that a token carries the signal, and which ones to point at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.carriers import Carriers
from sparsetoken.bags.findings import SURE
from sparsetoken.bags.labels import signal_of, two_classes
from sparsetoken.bags.source import BagSource
from sparsetoken.bags.token_model import Learned, TokenModel, learn_tokens
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.support.arrays import BoolArray, FloatArray
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.checks import real
from sparsetoken.support.errors import InvalidInput

_FEWEST = 8  # bags of each class: with fewer there is no density of noise to speak of


@dataclass(kw_only=True, eq=False, repr=False)  # for __init__, as scikit-learn wants it
class TokenPosterior(BaseEstimator):  # type: ignore[misc]
    """Which tokens carry the signal: calibrated probabilities, learned from labels of bags alone.

    Along one direction, learned by the two-step query, tokens of noise and tokens with the signal
    have densities, and positive bags a number of the latter; all of it is learned from bags that
    have not taught the direction. It is calibrated where the model holds: noise independent from
    token to token, a signal along one direction.

    Parameters
    ----------
    positive : label, optional
        That of bags with a signal, against all others; of two the second in order if not given.
    prevalence : float, optional
        Share of positive bags among those to come; that among the bags of `fit` if not given.

    Attributes
    ----------
    positive_ : the label taken as that of bags with a signal.
    evidence_ : by how many standard errors held-out positive bags rank above others.
    found_ : whether that is enough (4) to speak of a signal; probabilities mean nothing if not.
    shift_, width_ : mean and standard deviation of tokens with the signal along the direction, in
        standard deviations of the noise there.
    carriers_ : how many tokens carry it in a positive bag, `FixedCount` or `VaryingShare`.
    n_features_in_ : dimension of tokens.

    Examples
    --------
    >>> from sparsetoken import Task
    >>> task = Task(length=10, sparsity=1, strength=6.0)
    >>> sample = task.sample(200, dim=8, rng=0)
    >>> tokens = TokenPosterior().fit(sample.tokens, sample.labels)
    >>> new = task.sample(50, dim=8, rng=1, signal=sample.signal)
    >>> chances = np.stack(tokens.posterior(new.tokens))
    >>> carried = new.places & (new.labels > 0)[:, None]
    >>> bool(chances[carried].mean() > 0.9), bool(chances[~carried].mean() < 0.01)
    (True, True)
    """

    positive: Any = None
    prevalence: float | None = None

    def fit(self, X: Any, y: Any, groups: Any = None, mask: Any = None) -> TokenPosterior:
        """Learn from bags: an array (n, L, d) with a mask (n, L), a list of (L_i, d), or Bags.

        Labels y (n,) are of two kinds, or of more with `positive`. Bags of one of the `groups`
        (n,) are never on both sides of a split. At least eight bags are needed with the label and
        eight without.
        """
        who = type(self).__name__
        bags = X.load() if isinstance(X, BagSource) else Bags.of(X, mask, n_tokens=None)
        classes, labels = two_classes(y, len(bags), who, _FEWEST, self.positive)
        self._log_odds(0.5)  # the prevalence is checked before the work
        data = TrainingData.of(bags, labels, np.ones(len(bags)), groups)
        if data.fewest < _FEWEST // 2:
            raise InvalidInput(
                f"{who}: groups must be at least {_FEWEST // 2} with bags of each class, got "
                f"{data.fewest}"
            )
        with one_blas_thread():
            learned = learn_tokens(data)
        positive = classes.tolist()[signal_of(classes, self.positive, who)]
        self._set_fitted(learned, positive, float(np.mean(labels > 0)))
        return self

    def _set_fitted(self, learned: Learned, positive: Any, share: float) -> None:
        self._learned, self._share, self.positive_ = learned, share, positive
        self.evidence_, self.found_ = learned.evidence, learned.evidence > SURE
        self.shift_, self.width_ = learned.model.shift, learned.model.width
        self.carriers_: Carriers = learned.model.carriers
        self.n_features_in_ = len(learned.model.direction)

    def posterior(self, X: Any, mask: Any = None) -> list[FloatArray]:
        """For each token, the probability that it carries the signal: arrays (L_i,).

        A `BagSource` is read one bag at a time.
        """
        check_is_fitted(self)
        model = self._model
        return [chances for bags in self._parts(X, mask) for chances in model.posterior(bags)]

    def discoveries(self, X: Any, rate: float = 0.1, mask: Any = None) -> list[BoolArray]:
        """Tokens to point at in each bag, (L_i,): of them at most a share `rate` is wrong, on
        average, where probabilities are right.

        The largest set of the most probable tokens for which the mean of 1 − p is at most `rate`.
        """
        rate = real(type(self).__name__, "rate", rate, above=0, below=1)
        return [discovered(chances, rate) for chances in self.posterior(X, mask)]

    @property
    def _model(self) -> TokenModel:
        """With the prevalence that was asked for."""
        model = self._learned.model
        slope, offset = model.sigmoid
        offset += self._log_odds(self._share) - float(np.log(self._share / (1 - self._share)))
        return replace(model, sigmoid=model.sigmoid._replace(slope=slope, offset=offset))

    def _log_odds(self, share: float) -> float:
        """Of a bag being positive, where there is such a share among those of `fit`."""
        if self.prevalence is not None:
            share = real(type(self).__name__, "prevalence", self.prevalence, above=0, below=1)
        return float(np.log(share / (1 - share)))

    def _parts(self, X: Any, mask: Any) -> Iterator[Bags]:
        """Bags as they come, of the right dimension."""
        several = isinstance(X, BagSource)
        parts = (X.read(bag) for bag in range(len(X))) if several else [Bags.of(X, mask, None)]
        for bags in parts:
            if bags.dim != self.n_features_in_:
                raise InvalidInput(
                    f"X has {bags.dim} features a token, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input."
                )
            yield bags


def discovered(chances: FloatArray, rate: float) -> BoolArray:
    """The largest set of the most probable tokens with a mean of 1 − p of at most `rate`.

    >>> discovered(np.array([0.99, 0.1, 0.85, 0.6]), 0.1).tolist()
    [True, False, True, False]
    """
    order = np.argsort(-chances, kind="stable")
    wrong = np.cumsum(1 - chances[order]) / np.arange(1, len(chances) + 1)  # only rises
    chosen = np.zeros(len(chances), dtype=bool)
    chosen[order[: int(np.sum(wrong <= rate))]] = True
    return chosen

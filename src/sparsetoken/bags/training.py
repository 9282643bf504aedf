r"""From bags to a fitted model: whiten, pool, fit, choose by cross-validation, calibrate.

    score = ⟨w, f⟩ + b,   (w, b) = argmin Σ s_i ℓ(y_i·score_i) + (ridge/2)‖w‖², b not penalised,

with features f of whitened tokens by a pooling. Shrinkage of the whitening, sharpness of the
pooling and ridge are those with the least logistic loss on held-out bags, for which everything is
learned anew in each fold. The sigmoid that fits the held-out scores calibrates the readout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.poolings import Candidate, Pooling, TrainingData
from sparsetoken.bags.whitening import Moments, Whitening
from sparsetoken.fitting.calibration import Sigmoid, fit_sigmoid
from sparsetoken.fitting.fit import fit_path
from sparsetoken.fitting.joint import train_jointly
from sparsetoken.fitting.objective import Fitted as Readout
from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

RIDGES = (1e2, 10.0, 1.0, 0.1, 0.01)  # that are tried, in units of the features' variance
_ROUGH = 1e-4  # tolerance of fits that are only compared
_JOINT_TOLERANCE, _JOINT_FALL = 1e-2, 1e-9  # of joint training: bags are few, it may stop early
_ENERGY = 2.0  # of the query's ridge at the start of joint training, in units of the readout's


@dataclass(frozen=True)
class Recipe:
    """What is tried, and how."""

    pooling: Pooling
    loss: Loss
    ridge: float | None  # None: the best of `RIDGES`
    shrinkages: tuple[float, ...]
    whiten: bool
    calibrate: bool
    folds: int

    @property
    def factors(self) -> tuple[float, ...]:
        """Ridges that are tried, in units of the features' variance; the largest first, as each
        fit begins where the one before ended."""
        return RIDGES if self.ridge is None else (1.0,)

    @property
    def free(self) -> bool:
        """Whether anything is chosen on held-out bags."""
        choices = len(self.factors) * len(self.shrinkages) * len(self.pooling.sharpnesses)
        return choices > 1 or self.calibrate


class Choice(NamedTuple):
    """What is chosen."""

    shrinkage: float  # of the whitening, at least
    sharpness: float
    factor: float  # the ridge in units of the features' variance; 1 where the ridge is given


class Judged(NamedTuple):
    """Logistic loss of held-out bags, after the sigmoid that fits their scores; that sigmoid."""

    loss: float
    sigmoid: Sigmoid


@dataclass(frozen=True, eq=False)
class BagModel:
    """Everything that turns bags into scores."""

    whitening: Whitening
    pooling: Pooling  # with what it has learned
    weights: FloatArray  # (p,)
    bias: float
    ridge: float

    def scores(self, bags: Bags) -> FloatArray:
        """(n,)."""
        return self.pooling.features(bags, self.whitening) @ self.weights + self.bias

    def contributions(self, bags: Bags) -> FloatArray:
        """What each token (N,) adds to the score of its bag."""
        return self.pooling.contributions(bags, self.whitening, self.weights)

    def calibrated(self, sigmoid: Sigmoid) -> BagModel:
        """With scores that are the logits of probabilities."""
        bias = sigmoid.slope * self.bias + sigmoid.offset
        return replace(self, weights=sigmoid.slope * self.weights, bias=bias)


@dataclass(frozen=True, eq=False)
class Trained:
    """The model, what was chosen, and by which losses; none where nothing could be held out."""

    model: BagModel
    choice: Choice
    losses: Mapping[Choice, float]
    joint: bool = False


def train(data: TrainingData, recipe: Recipe) -> Trained:
    """The best model that the recipe allows."""
    if data.fewest < recipe.pooling.fewest:
        raise InvalidInput(
            f"reuse='split' needs at least {recipe.pooling.fewest} bags of each class (query and "
            f"readout, in each fold), got {data.fewest}; use reuse='all'"
        )
    judged = _cross_validated(data, recipe) if recipe.free else {}
    losses = {choice: verdict.loss for choice, verdict in judged.items()}
    if not judged:
        choice = Choice(recipe.shrinkages[0], recipe.pooling.sharpnesses[0], 1.0)
        return Trained(_fit(data, recipe, choice), choice, losses)
    best = min(judged, key=lambda choice: judged[choice].loss)
    if recipe.pooling.joint:
        starts = _joint_starts(judged)
        jointly = {choice: _jointly_judged(data, recipe, choice) for choice in starts}
        better = min(jointly, key=lambda choice: jointly[choice].loss, default=best)
        if jointly and jointly[better].loss < judged[best].loss:
            model = _fit_jointly(data, recipe, better).calibrated(jointly[better].sigmoid)
            sharpness = float(np.linalg.norm(model.pooling.query))
            return Trained(model, better._replace(sharpness=sharpness), losses, joint=True)
    model = _fit(data, recipe, best).calibrated(judged[best].sigmoid)
    return Trained(model, best, losses)


def _cross_validated(data: TrainingData, recipe: Recipe) -> dict[Choice, Judged]:
    """All choices; none where nothing can be held out."""
    scores: dict[Choice, FloatArray] = {}
    for held in data.folds(recipe.folds):
        rest = data.without(held)
        for shrinkage, whitening in _whitenings(rest, recipe, recipe.shrinkages):
            sharpnesses = recipe.pooling.sharpnesses
            for candidate in recipe.pooling.candidates(rest, whitening, sharpnesses):
                path = _readouts(candidate, rest, recipe, recipe.factors, _ROUGH)
                unseen = candidate.scored[held]
                for factor, (_, readout) in zip(recipe.factors, path, strict=True):
                    choice = Choice(shrinkage, candidate.sharpness, factor)
                    out_of_fold = scores.setdefault(choice, np.zeros(len(data.labels)))
                    out_of_fold[held] = unseen @ readout.weights + readout.bias
    return {choice: _judge(data, recipe, held_out) for choice, held_out in scores.items()}


def _judge(data: TrainingData, recipe: Recipe, scores: FloatArray) -> Judged:
    labels, weights = data.labels, data.weights
    sigmoid = fit_sigmoid(scores, labels, weights) if recipe.calibrate else Sigmoid()
    losses = np.logaddexp(0.0, -labels * sigmoid.logit(scores))
    return Judged(float(np.average(losses, weights=weights)), sigmoid)


def _fit(data: TrainingData, recipe: Recipe, choice: Choice) -> BagModel:
    """As chosen, from the bags with a weight."""
    ((_, whitening),) = _whitenings(data, recipe, (choice.shrinkage,))
    (candidate,) = recipe.pooling.candidates(data, whitening, (choice.sharpness,))
    ((ridge, readout),) = _readouts(candidate, data, recipe, (choice.factor,))
    return BagModel(whitening, candidate.pooling, readout.weights, readout.bias, ridge)


def _whitenings(
    data: TrainingData, recipe: Recipe, shrinkages: tuple[float, ...]
) -> Iterator[tuple[float, Whitening]]:
    """From the tokens of the first class alone: there they are noise."""
    if not recipe.whiten:
        share = data.weights * data.bags.lengths
        yield 0.0, Whitening.none(share @ data.means / share.sum())
        return
    moments = Moments.of(data.bags, data.weights_of(-1))
    for least in shrinkages:
        yield least, moments.whitening(least)


def _readouts(
    candidate: Candidate,
    data: TrainingData,
    recipe: Recipe,
    factors: Sequence[float],
    tolerance: float | None = None,
) -> Iterator[tuple[float, Readout]]:
    """For each factor, the ridge and the readout of the bags it learns from."""
    unit = _variance(candidate)
    ridges = [recipe.ridge or factor * unit for factor in factors]
    counted = candidate.weights > 0
    path = fit_path(
        candidate.fitted[counted],
        data.labels[counted],
        recipe.loss,
        ridges,
        weights=candidate.weights[counted],
        tolerance=tolerance,
    )
    return zip(ridges, path, strict=True)


def _variance(candidate: Candidate) -> float:
    """Of a feature, on average."""
    share = candidate.weights / candidate.weights.sum()
    centred = candidate.fitted - share @ candidate.fitted
    squares = np.einsum("np,np->n", centred, centred)
    return float(share @ squares) / centred.shape[1] or 1.0


def _joint_starts(judged: Mapping[Choice, Judged]) -> list[Choice]:
    """The best start of each shrinkage: a query that is not zero."""
    sharp = [choice for choice in judged if choice.sharpness > 0]  # one shrinkage after the other
    return [
        min(choices, key=lambda choice: judged[choice].loss)
        for _, choices in groupby(sharp, key=lambda choice: choice.shrinkage)
    ]


def _jointly_judged(data: TrainingData, recipe: Recipe, choice: Choice) -> Judged:
    """Joint training on held-out bags."""
    scores = np.zeros(len(data.labels))
    for held in data.folds(recipe.folds):
        scores[held] = _fit_jointly(data.without(held), recipe, choice).scores(data.bags[held])
    return _judge(data, recipe, scores)


def _fit_jointly(data: TrainingData, recipe: Recipe, choice: Choice) -> BagModel:
    """Query and readout together, from what was learned one after the other; the ridge of the
    query is in proportion to that of the readout."""
    start = _fit(data, recipe, choice)
    energy = start.ridge * float(start.weights @ start.weights)
    trained = train_jointly(
        data.bags,
        data.labels,
        recipe.loss,
        start.ridge,
        max(_ENERGY * energy / choice.sharpness**2, 1e-9),
        weights=data.weights,
        root=start.whitening.root,
        centre=start.whitening.mean,
        start=(start.pooling.query, start.weights, start.bias),
        tolerance=_JOINT_TOLERANCE,
        least_fall=_JOINT_FALL,
    )
    pooling = recipe.pooling.learned(0, trained.query)
    return replace(start, pooling=pooling, weights=trained.weights, bias=trained.bias)

r"""From bags to a fitted model: whiten, pool, fit, choose by cross-validation, calibrate.

    score = ⟨w, f⟩ + b,   (w, b) = argmin Σ s_i ℓ(y_i·score_i) + (ridge/2)‖w‖², b not penalised,

with features f of whitened tokens by a pooling. Shrinkage of the whitening, sharpness of the
pooling and ridge are those with the least logistic loss on held-out bags, for which everything is
learned anew in each fold. The sigmoid that fits the held-out scores calibrates the readout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.poolings import Candidate, Pooling
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Moments, Shrinking, Target, Whitening
from sparsetoken.fitting.calibration import Sigmoid, fit_sigmoid
from sparsetoken.fitting.fit import fit_path
from sparsetoken.fitting.joint import train_jointly
from sparsetoken.fitting.objective import Fitted as Readout
from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput

RIDGES = (1e2, 10.0, 1.0, 0.1, 0.01)  # that are tried, in units of the features' variance
_ROUGH = 1e-4  # tolerance of fits that are only compared
# Joint training goes on until rounding stops it, so that the order of bags does not show
_JOINT_FALL, _JOINT_GRADIENT = 1e-15, 1e-9
_ENERGY = 2.0  # of the query's ridge at the start of joint training, in units of the readout's


@dataclass(frozen=True)
class Recipe:
    """What is tried, and how."""

    pooling: Pooling
    loss: Loss
    ridge: float | None  # None: the best of `RIDGES`
    shrinkings: tuple[Shrinking, ...]  # none: tokens are not whitened
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
        choices = len(self.factors) * max(len(self.shrinkings), 1) * len(self.pooling.sharpnesses)
        return choices > 1 or self.calibrate


class Choice(NamedTuple):
    """What is chosen."""

    shrinking: Shrinking | None  # of the whitening; None without one
    sharpness: float
    factor: float  # the ridge in units of the features' variance; 1 where the ridge is given

    @property
    def flat(self) -> tuple[Target | None, float, float, float]:
        """Target, shrinkage, sharpness, factor."""
        target, shrinkage = self.shrinking or (None, 0.0)
        return target, shrinkage, self.sharpness, self.factor


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
    losses = _cross_validated(data, recipe) if recipe.free else {}
    if not losses:
        shrinking = next(iter(recipe.shrinkings), None)
        choice = Choice(shrinking, recipe.pooling.sharpnesses[0], 1.0)
        return Trained(_fit(data, recipe, choice), choice, losses)
    best = min(losses, key=losses.__getitem__)
    judged = _judged(data, recipe, best, _fit)
    if recipe.pooling.joint:
        starts = _joint_starts(losses)
        jointly = {start: _judged(data, recipe, start, _fit_jointly) for start in starts}
        better = min(jointly, key=lambda start: jointly[start].loss, default=best)
        if jointly and jointly[better].loss < judged.loss:
            model = _fit_jointly(data, recipe, better).calibrated(jointly[better].sigmoid)
            sharpness = float(np.linalg.norm(model.pooling.query))
            return Trained(model, better._replace(sharpness=sharpness), losses, joint=True)
    return Trained(_fit(data, recipe, best).calibrated(judged.sigmoid), best, losses)


def _cross_validated(data: TrainingData, recipe: Recipe) -> dict[Choice, float]:
    """Losses of all choices on held-out bags; none where nothing can be held out."""
    scores: dict[Choice, FloatArray] = {}
    for held in data.folds(recipe.folds):
        rest = data.without(held)
        for shrinking, whitening in _whitenings(rest, recipe.shrinkings):
            sharpnesses = recipe.pooling.sharpnesses
            for candidate in recipe.pooling.candidates(rest, whitening, sharpnesses):
                path = _readouts(candidate, rest, recipe, recipe.factors, _ROUGH)
                unseen = candidate.scored[held]
                for factor, (_, readout) in zip(recipe.factors, path, strict=True):
                    choice = Choice(shrinking, candidate.sharpness, factor)
                    out_of_fold = scores.setdefault(choice, np.zeros(len(data.labels)))
                    out_of_fold[held] = unseen @ readout.weights + readout.bias
    return {choice: _judge(data, recipe, held_out).loss for choice, held_out in scores.items()}


def _judged(
    data: TrainingData,
    recipe: Recipe,
    choice: Choice,
    fit: Callable[[TrainingData, Recipe, Choice], BagModel],
) -> Judged:
    """One choice on held-out bags, fitted as the model will be: rounding does not show."""
    scores = np.zeros(len(data.labels))
    for held in data.folds(recipe.folds):
        scores[held] = fit(data.without(held), recipe, choice).scores(data.bags)[held]
    return _judge(data, recipe, scores)


def _judge(data: TrainingData, recipe: Recipe, scores: FloatArray) -> Judged:
    labels, weights = data.labels, data.weights
    sigmoid = fit_sigmoid(scores, labels, weights) if recipe.calibrate else Sigmoid()
    losses = np.logaddexp(0.0, -labels * sigmoid.logit(scores))
    return Judged(float(np.average(losses, weights=weights)), sigmoid)


def _fit(data: TrainingData, recipe: Recipe, choice: Choice) -> BagModel:
    """As chosen, from the bags with a weight."""
    shrinkings = () if choice.shrinking is None else (choice.shrinking,)
    ((_, whitening),) = _whitenings(data, shrinkings)
    (candidate,) = recipe.pooling.candidates(data, whitening, (choice.sharpness,))
    ((ridge, readout),) = _readouts(candidate, data, recipe, (choice.factor,))
    return BagModel(whitening, candidate.pooling, readout.weights, readout.bias, ridge)


def _whitenings(
    data: TrainingData, shrinkings: Sequence[Shrinking]
) -> Iterator[tuple[Shrinking | None, Whitening]]:
    """From the tokens of the first class alone: there they are noise."""
    if not shrinkings:
        share = data.weights * data.bags.lengths
        yield None, Whitening.none(share @ data.means / share.sum())
        return
    moments = Moments.of(data.bags, data.weights_of(-1), others=data.weights)
    yield from moments.whitenings(shrinkings)


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


def _joint_starts(losses: Mapping[Choice, float]) -> list[Choice]:
    """The best start of each target: a query that is not zero."""
    sharp = [choice for choice in losses if choice.sharpness > 0]  # one target after the other
    return [
        min(choices, key=losses.__getitem__)
        for _, choices in groupby(
            sharp, key=lambda choice: choice.shrinking and choice.shrinking[0]
        )
    ]


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
        least_fall=_JOINT_FALL,
        least_gradient=_JOINT_GRADIENT,
    )
    pooling = recipe.pooling.learned(0, trained.query)
    return replace(start, pooling=pooling, weights=trained.weights, bias=trained.bias)

r"""From bags to a fitted model: whiten, pool, fit, choose by cross-validation, calibrate.

    score = ⟨w, f⟩ + b,   (w, b) = argmin Σ s_i ℓ(y_i·score_i) + (ridge/2)‖w‖², b not penalised,

with features f of whitened tokens by a pooling. Shrinkage of the whitening, sharpness of the
pooling and ridge are those with the least logistic loss on held-out bags, for which everything is
learned anew in each fold. The sigmoid that fits the held-out scores calibrates the readout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args

import numpy as np

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.poolings import Attending, Candidate, Pooling
from sparsetoken.bags.posterior import LikelihoodRatio, Taught, learn
from sparsetoken.bags.queries import Job
from sparsetoken.bags.token_maps import mapped, view
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.units import Target
from sparsetoken.bags.whitening import UNWHITENED, Moments, Shrinking, Whitening
from sparsetoken.fitting.calibration import Sigmoid, fit_sigmoid
from sparsetoken.fitting.fit import fit_path
from sparsetoken.fitting.joint import train_jointly
from sparsetoken.fitting.objective import Fitted as Readout
from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import BoolArray, FloatArray
from sparsetoken.support.errors import ConvergenceError, InvalidInput

RIDGES = (1e2, 10.0, 1.0, 0.1, 0.01)  # that are tried, in units of the features' variance
_ROUGH = 1e-4  # tolerance of fits that are only compared
_SURE = 2.0  # standard errors by which one of two has lost before all folds are done: a choice
# Joint training goes on until rounding stops it, so that the order of bags does not show
_JOINT_FALL, _JOINT_GRADIENT = 1e-15, 1e-9
Item = TypeVar("Item")
_ENERGY = 2.0  # of the query's ridge at the start of joint training, in units of the readout's


@dataclass(frozen=True)
class Recipe:
    """What is tried, and how."""

    pooling: Pooling
    loss: Loss
    ridge: float | None  # None: the best of `RIDGES`
    shrinkings: Mapping[bool, tuple[Shrinking, ...]]  # of tokens, as they are and mapped, as tried
    token_map: Any  # a transformer of tokens, not fitted (in training its `view`); None without one
    calibrate: bool
    folds: int

    @property
    def factors(self) -> tuple[float, ...]:
        """Ridges that are tried, in units of the features' variance; the largest first, as each
        fit begins where the one before ended."""
        return RIDGES if self.ridge is None else (1.0,)

    def sharpnesses(self, is_mapped: bool) -> tuple[float, ...]:
        """That are tried of tokens as they are, and mapped."""
        if is_mapped and self.token_map.once:
            return self.pooling.sharpnesses_mapped(self.token_map.repeats)
        return self.pooling.sharpnesses

    @property
    def free(self) -> bool:
        """Whether anything is chosen on held-out bags."""
        tried = (self.factors, self.shrinkings, *self.shrinkings.values(), self.pooling.sharpnesses)
        return any(len(values) > 1 for values in tried) or self.calibrate


class Choice(NamedTuple):
    """What is chosen."""

    mapped: bool  # whether tokens are mapped
    shrinking: Shrinking  # of the whitening
    sharpness: float
    factor: float  # the ridge in units of the features' variance; 1 where the ridge is given

    @property
    def flat(self) -> tuple[bool, Target | None, float, float, float]:
        """Mapped, target, shrinkage, sharpness, factor."""
        return self.mapped, *self.shrinking, self.sharpness, self.factor


class Judged(NamedTuple):
    """Logistic loss of held-out bags, after the sigmoid that fits their scores; that sigmoid."""

    loss: float
    sigmoid: Sigmoid


@dataclass(frozen=True, eq=False)
class BagModel:
    """Everything that turns bags into scores."""

    token_map: Any  # fitted, or None
    whitening: Whitening
    pooling: Pooling  # with what it has learned
    weights: FloatArray  # (p,)
    bias: float
    ridge: float

    def scores(self, bags: Bags) -> FloatArray:
        """(n,)."""
        features = self.pooling.features(mapped(self.token_map, bags), self.whitening)
        return features @ self.weights + self.bias

    def contributions(self, bags: Bags) -> FloatArray:
        """What each token (N,) adds to the score of its bag."""
        bags = mapped(self.token_map, bags)
        return self.pooling.contributions(bags, self.whitening, self.weights)

    def attention(self, bags: Bags) -> FloatArray:
        """Weights of all tokens (N,), of sum 1 in each bag."""
        return self.pooling.attention(mapped(self.token_map, bags), self.whitening)

    def levels(self, bags: Bags) -> FloatArray:
        """⟨query, token⟩ of all tokens (N,), whitened."""
        return self.whitening.project(mapped(self.token_map, bags), self.pooling.query)

    def calibrated(self, sigmoid: Sigmoid) -> BagModel:
        """With scores that are the logits of probabilities."""
        bias = sigmoid.slope * self.bias + sigmoid.offset
        return replace(self, weights=sigmoid.slope * self.weights, bias=bias)


LearnedBy = Literal["two-step", "joint", "posterior", "likelihood"]
LEARNED_BY: tuple[LearnedBy, ...] = get_args(LearnedBy)


@dataclass(frozen=True, eq=False)
class Trained:
    """The model, what was chosen, and by which losses; none where nothing could be held out."""

    model: BagModel
    choice: Choice
    losses: Mapping[Choice, float]
    by: LearnedBy = "two-step"


def train(data: TrainingData, recipe: Recipe) -> Trained:
    """The best model that the recipe allows."""
    if data.fewest < recipe.pooling.fewest:
        raise InvalidInput(
            f"reuse='split' needs at least {recipe.pooling.fewest} bags of each class (query and "
            f"readout, in each fold), got {data.fewest}; use reuse='all'"
        )
    recipe = replace(recipe, token_map=view(recipe.token_map, data))
    folds = list(data.folds(recipe.folds)) if recipe.free else []
    if not folds:
        is_mapped, shrinkings = next(iter(recipe.shrinkings.items()))
        choice = Choice(is_mapped, shrinkings[0], recipe.pooling.sharpnesses[0], 1.0)
        (alone,) = _prepared([data], recipe, choice)
        return Trained(_fit(data, recipe, choice, alone), choice, {})
    losses, kept = _cross_validated(data, recipe, folds)
    best = min(losses, key=losses.__getitem__)
    sets = _sets(data, folds)
    ready = _kept(kept, best, len(sets)) or list(_prepared(sets, recipe, best))
    judged = _judged(data, recipe, best, folds, ready)
    if recipe.pooling.joint:
        jointly = {}
        for start in _joint_starts(losses):
            with suppress(ConvergenceError):  # where training does not arrive, it is not kept
                first = _kept(kept, start, len(sets)) or list(_prepared(sets, recipe, start))
                jointly[start] = _jointly_judged(data, recipe, start, folds, first), first[-1]
        better = min(jointly, key=lambda start: jointly[start][0].loss, default=best)
        if jointly and jointly[better][0].loss < judged.loss:
            with suppress(ConvergenceError):  # it may arrive in all folds and not now
                model = _fit_jointly(data, recipe, better, jointly[better][1])
                sharpness = float(np.linalg.norm(model.pooling.query))
                model = model.calibrated(jointly[better][0].sigmoid)
                return Trained(model, better._replace(sharpness=sharpness), losses, "joint")
    if recipe.pooling.posterior:
        start = min(_joint_starts(losses), key=losses.__getitem__, default=best)
        first = _kept(kept, start, len(sets)) or list(_prepared(sets, recipe, start))
        with suppress(ConvergenceError):  # of the law of tokens
            by, rival, made = _posterior(data, recipe, start, folds, first)
            rated = _judged(data, recipe, rival, folds, made)
            if rated.loss < judged.loss:
                model = _fit(data, recipe, rival, made[-1])
                return Trained(model.calibrated(rated.sigmoid), rival, losses, by)
    model = _fit(data, recipe, best, ready[-1])
    return Trained(model.calibrated(judged.sigmoid), best, losses)


class Ready(NamedTuple):
    """All that a readout of one set of bags is fitted to."""

    token_map: Any  # fitted, or None
    whitening: Whitening
    candidate: Candidate


def _sets(data: TrainingData, folds: Sequence[BoolArray]) -> list[TrainingData]:
    """All bags but those of a fold, for each; and all of them."""
    return [*(data.without(held) for held in folds), data]


_Kept = dict[tuple[int, tuple[bool, Shrinking, float]], Ready]


def _kept(kept: _Kept, choice: Choice, sets: int) -> list[Ready]:
    """What was kept of a choice, for each set of bags; nothing where it was not."""
    places = [(place, choice[:3]) for place in range(sets)]
    return [kept[place] for place in places] if all(place in kept for place in places) else []


def _prepared(sets: Sequence[TrainingData], recipe: Recipe, choice: Choice) -> Iterator[Ready]:
    """For each set of bags, as chosen."""
    for _, _, ready in _tried(sets, recipe, choice.mapped, [choice.shrinking], [choice.sharpness]):
        yield ready


def _tried(
    sets: Sequence[TrainingData],
    recipe: Recipe,
    is_mapped: bool,
    shrinkings: Sequence[Shrinking],
    sharpnesses: Sequence[float],
) -> Iterator[tuple[int, Shrinking, Ready]]:
    """Which set of bags, how whitened, and what its readout is fitted to, for all that is tried.

    As many as there is room for go over the bags together.
    """
    seen = (_seen(data, recipe, is_mapped) for data in sets)
    place = 0
    for _, group in groupby(seen, key=lambda pair: id(pair[1].bags)):
        maps, same = zip(*group, strict=True)
        jobs = (
            (place + number, shrinking, Job(same[number], whitening))
            for number, shrinking, whitening in _whitenings(same, shrinkings)
        )
        most = max(1, same[0].bags.room // _numbers(same[0], len(sharpnesses)))
        for batch in _batched(jobs, most):
            made = recipe.pooling.candidates([job for _, _, job in batch], sharpnesses)
            for (own, shrinking, job), candidates in zip(batch, made, strict=True):
                for candidate in candidates:
                    ready = Ready(maps[own - place], job.whitening, candidate)
                    yield own, shrinking, ready
        place += len(same)


def _numbers(data: TrainingData, sharpnesses: int) -> int:
    """That one job has in memory: features and a root."""
    return data.bags.dim * (sharpnesses * len(data.bags) + data.bags.dim)


def _batched(items: Iterator[Item], most: int) -> Iterator[list[Item]]:
    """So many at a time."""
    while batch := list(islice(items, most)):
        yield batch


def _cross_validated(
    data: TrainingData, recipe: Recipe, folds: Sequence[BoolArray]
) -> tuple[dict[Choice, float], _Kept]:
    """Losses of all choices on held-out bags; and what was made, of all bags as well, if there is
    room for all of it."""
    sets, kinds = _sets(data, folds), dict(recipe.shrinkings)
    jobs = len(sets) * sum(map(len, kinds.values()))
    roomy = jobs * _numbers(data, len(recipe.pooling.sharpnesses)) <= data.bags.room
    places = list(range(len(sets) if roomy else len(folds)))
    # two kinds go side by side, fold by fold, until one has lost
    rounds = [places] if len(kinds) == 1 else [[place] for place in places]
    scores: dict[Choice, FloatArray] = {}
    kept: _Kept = {}
    seen = np.zeros(len(data.labels), dtype=bool)
    for together in rounds:
        for is_mapped, shrinkings in kinds.items():
            tried = _tried(
                [sets[place] for place in together],
                recipe,
                is_mapped,
                shrinkings,
                recipe.sharpnesses(is_mapped),
            )
            for number, shrinking, ready in tried:
                place, candidate = together[number], ready.candidate
                if roomy:
                    kept[place, (is_mapped, shrinking, candidate.sharpness)] = ready
                if place == len(folds):
                    continue
                held = folds[place]
                path = _readouts(candidate, data, recipe, recipe.factors, _ROUGH)
                for factor, (_, readout) in zip(recipe.factors, path, strict=True):
                    choice = Choice(is_mapped, shrinking, candidate.sharpness, factor)
                    out_of_fold = scores.setdefault(choice, np.zeros(len(data.labels)))
                    out_of_fold[held] = candidate.scored[held] @ readout.weights + readout.bias
        for held in folds[together[0] : together[-1] + 1]:
            seen |= held
        if len(kinds) > 1 and (worse := _surely_worse(data, seen, scores)) is not None:
            del kinds[worse]
            scores = {
                choice: held_out for choice, held_out in scores.items() if choice.mapped != worse
            }
    losses = {choice: _judge(data, recipe, held_out).loss for choice, held_out in scores.items()}
    return losses, kept


def _surely_worse(
    data: TrainingData, seen: BoolArray, scores: Mapping[Choice, FloatArray]
) -> bool | None:
    """Whether tokens mapped (True) or as they are (False) have lost already, each at its best, on
    the bags held out so far; None while that is open."""
    labels, share = data.labels[seen], data.weights[seen] / data.weights[seen].sum()
    best: dict[bool, FloatArray] = {}
    for choice, held_out in scores.items():
        losses = np.logaddexp(0.0, -labels * held_out[seen])
        if choice.mapped not in best or share @ losses < share @ best[choice.mapped]:
            best[choice.mapped] = losses
    apart = best[True] - best[False]
    mean = float(share @ apart)
    # few bags are judged wrongly, perhaps none so far: as if the next one were, at a coin's loss
    error = np.sqrt(share**2 @ (apart - mean) ** 2 + (share.max() * np.log(2.0)) ** 2)
    return mean > 0 if abs(mean) > _SURE * error else None


def _judged(
    data: TrainingData,
    recipe: Recipe,
    choice: Choice,
    folds: Sequence[BoolArray],
    ready: Sequence[Ready],
) -> Judged:
    """One choice on held-out bags, fitted as closely as the model will be: rounding must not show
    in its sigmoid."""
    scores = np.zeros(len(data.labels))
    for held, own in zip(folds, ready, strict=False):  # the last one is that of all bags
        model = _fit(data, recipe, choice, own)
        scores[held] = own.candidate.scored[held] @ model.weights + model.bias
    return _judge(data, recipe, scores, not (choice.mapped and recipe.token_map.repeats))


def _jointly_judged(
    data: TrainingData,
    recipe: Recipe,
    choice: Choice,
    folds: Sequence[BoolArray],
    ready: Sequence[Ready],
) -> Judged:
    """Joint training on held-out bags."""
    scores, bags = np.zeros(len(data.labels)), data.bags.load()
    for held, own in zip(folds, ready, strict=False):
        scores[held] = _fit_jointly(data.without(held), recipe, choice, own).scores(bags[held])
    return _judge(data, recipe, scores, not (choice.mapped and recipe.token_map.repeats))


def _judge(data: TrainingData, recipe: Recipe, scores: FloatArray, shifted: bool = True) -> Judged:
    """By the sigmoid that fits best; to be kept is one of offset 0, if not `shifted`."""
    labels, weights = data.labels, data.weights
    sigmoid = fit_sigmoid(scores, labels, weights) if recipe.calibrate else Sigmoid()
    losses = np.logaddexp(0.0, -labels * sigmoid.logit(scores))
    if recipe.calibrate and not shifted:
        sigmoid = fit_sigmoid(scores, labels, weights, shifted=False)
    return Judged(float(np.average(losses, weights=weights)), sigmoid)


def _fit(data: TrainingData, recipe: Recipe, choice: Choice, ready: Ready) -> BagModel:
    """As chosen, from the bags with a weight."""
    token_map, whitening, candidate = ready
    ((ridge, readout),) = _readouts(candidate, data, recipe, (choice.factor,))
    parts = (token_map, whitening, candidate.pooling)
    return BagModel(*parts, readout.weights, readout.bias, ridge)


def _seen(data: TrainingData, recipe: Recipe, is_mapped: bool) -> tuple[Any, TrainingData]:
    """The map, learned from the bags with a weight, and the bags as it shows them."""
    if not is_mapped:
        return None, data
    seen: tuple[Any, TrainingData] = recipe.token_map.seen(data)
    return seen


def _whitenings(
    sets: Sequence[TrainingData], shrinkings: Sequence[Shrinking]
) -> Iterator[tuple[int, Shrinking, Whitening]]:
    """Of each set of the same bags, from the tokens of the first class alone: there they are noise.

    The number of the set, and how its covariance is shrunk.
    """
    bags = sets[0].bags
    if shrinkings[0] == UNWHITENED:
        for number, data in enumerate(sets):
            share = data.weights * bags.lengths
            yield number, UNWHITENED, Whitening.none(share @ bags.summary.mean / share.sum())
        return
    noise, all_weights = [data.weights_of(-1) for data in sets], [data.weights for data in sets]
    for number, moments in enumerate(Moments.of_sets(bags, noise, all_weights)):
        for shrinking, whitening in moments.whitenings(shrinkings):
            yield number, shrinking, whitening


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
    """Of a feature that varies, on average."""
    share = candidate.weights / candidate.weights.sum()
    centred = candidate.fitted - share @ candidate.fitted
    variances = share @ centred**2
    return float(variances.sum()) / max(int(np.count_nonzero(variances)), 1) or 1.0


def _posterior(
    data: TrainingData,
    recipe: Recipe,
    start: Choice,
    folds: Sequence[BoolArray],
    ready: Sequence[Ready],
) -> tuple[LearnedBy, Choice, list[Ready]]:
    """What expectation–maximisation learns, begun with the two-step query: what tells held-out bags
    apart best, attention or likelihood, and all that it is fitted to."""
    seen = (_seen(own, recipe, start.mapped)[1] for own in _sets(data, folds))
    jobs = [Job(own, each.whitening) for own, each in zip(seen, ready, strict=True)]
    taught = [
        each
        for _, group in groupby(jobs, key=lambda job: id(job.data.bags))
        for each in learn(list(group))
    ]
    sharp = [each for each in recipe.sharpnesses(start.mapped) if each > 0]
    scores: dict[tuple[LearnedBy, Choice], FloatArray] = {}
    for held, job, own in zip(folds, jobs, taught, strict=False):  # the last is of all bags
        for by, candidate in _taught(recipe, job, own, sharp):
            path = _readouts(candidate, data, recipe, recipe.factors, _ROUGH)
            for factor, (_, readout) in zip(recipe.factors, path, strict=True):
                choice = start._replace(sharpness=candidate.sharpness, factor=factor)
                out_of_fold = scores.setdefault((by, choice), np.zeros(len(data.labels)))
                out_of_fold[held] = candidate.scored[held] @ readout.weights + readout.bias
    by, choice = min(scores, key=lambda key: _judge(data, recipe, scores[key]).loss)
    made = [
        each._replace(candidate=dict(_taught(recipe, job, own, [choice.sharpness]))[by])
        for each, job, own in zip(ready, jobs, taught, strict=True)
    ]
    return by, choice, made


def _taught(
    recipe: Recipe, job: Job, taught: Taught, sharpnesses: Sequence[float]
) -> Iterator[tuple[LearnedBy, Candidate]]:
    """Both ways to score bags by what they have taught."""
    yield "likelihood", LikelihoodRatio().candidate(job, taught)
    if sharpnesses:
        attending = cast(Attending, recipe.pooling)
        for candidate in next(attending.seen_along([job], [taught.query], sharpnesses)):
            yield "posterior", candidate


def _joint_starts(losses: Mapping[Choice, float]) -> list[Choice]:
    """The best start of each target, mapped or not: a query that is not zero."""
    sharp = [choice for choice in losses if choice.sharpness > 0]  # one target after the other
    return [
        min(choices, key=losses.__getitem__)
        for _, choices in groupby(
            sharp, key=lambda choice: choice.shrinking and choice.shrinking[0]
        )
    ]


def _fit_jointly(data: TrainingData, recipe: Recipe, choice: Choice, ready: Ready) -> BagModel:
    """Query and readout together, from what was learned one after the other; the ridge of the
    query is in proportion to that of the readout."""
    start = _fit(data, recipe, choice, ready)
    energy = start.ridge * float(start.weights @ start.weights)
    bags, whitening = mapped(start.token_map, data.bags.load()), start.whitening
    first = (start.pooling.query, start.weights)
    used = data.weights > 0
    wide = bags.lengths[used].sum() < bags.dim
    if wide:  # nothing learned is outside the span of the tokens
        bags, basis = whitening.in_span(bags[used])
        whitening = Whitening.none(np.zeros(bags.dim))
        first = (first[0] @ basis, first[1] @ basis)
    else:
        used[:] = True
    trained = train_jointly(
        bags,
        data.labels[used],
        recipe.loss,
        start.ridge,
        max(_ENERGY * energy / choice.sharpness**2, 1e-9),
        weights=data.weights[used],
        root=whitening.root,
        centre=whitening.mean,
        start=(*first, start.bias),
        least_fall=_JOINT_FALL,
        least_gradient=_JOINT_GRADIENT,
    )
    query, weights = trained.query, trained.weights
    if wide:
        query, weights = basis @ query, basis @ weights
    pooling = recipe.pooling.learned(0, query)
    return replace(start, pooling=pooling, weights=weights, bias=trained.bias)

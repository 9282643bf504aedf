r"""From bags to a fitted model: whiten, pool, fit, choose by cross-validation, calibrate.

    score = ⟨w, f⟩ + b,   (w, b) = argmin Σ s_i ℓ(y_i·score_i) + (ridge/2)‖w‖², b not penalised,

with features f of whitened tokens by a pooling. Shrinkage of the whitening, sharpness of the
pooling and ridge are those with the least logistic loss on held-out bags, for which everything is
learned anew in each fold. The sigmoid that fits the held-out scores calibrates the readout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from typing import cast

import numpy as np

from sparsetoken.bags.bag_model import BagModel, Choice, Judged, LearnedBy, Recipe, Trained
from sparsetoken.bags.poolings import Attending, Candidate
from sparsetoken.bags.posterior import LikelihoodRatio, Taught, learn
from sparsetoken.bags.preparation import (
    Kept,
    Ready,
    all_sets,
    fit_readout,
    judge,
    kept_of,
    numbers_of,
    prepared,
    readouts,
    seen_tokens,
    tried_of,
)
from sparsetoken.bags.queries import Job
from sparsetoken.bags.token_maps import mapped, view
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Whitening
from sparsetoken.fitting.joint import train_jointly
from sparsetoken.support.arrays import BoolArray, FloatArray
from sparsetoken.support.errors import ConvergenceError, InvalidInput

Folds = Sequence[BoolArray]  # of each, which bags it holds out

_ROUGH = 1e-4  # tolerance of fits that are only compared
_SURE = 2.0  # standard errors by which one of two has lost before all folds are done: a choice
# Joint training goes on until rounding stops it, so that the order of bags does not show
_JOINT_FALL, _JOINT_GRADIENT = 1e-15, 1e-9
_ENERGY = 2.0  # of the query's ridge at the start of joint training, in units of the readout's


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
        (alone,) = prepared([data], recipe, choice)
        return Trained(fit_readout(data, recipe, choice, alone), choice, {})
    losses, kept = _cross_validated(data, recipe, folds)
    best = min(losses, key=losses.__getitem__)
    sets = all_sets(data, folds)

    def made(choice: Choice) -> list[Ready]:
        return kept_of(kept, choice, len(sets)) or list(prepared(sets, recipe, choice))

    ready = made(best)
    scores = _readout_scores(data, recipe, best, folds, ready)
    judged = _judged(data, recipe, best, folds, scores)
    if recipe.pooling.joint:
        jointly = {}
        for start in _joint_starts(losses):
            with suppress(ConvergenceError):  # where training does not arrive, it is not kept
                first = made(start)
                scores = _joint_scores(data, recipe, start, folds, first)
                jointly[start] = _judged(data, recipe, start, folds, scores), first[-1]
        better = min(jointly, key=lambda start: jointly[start][0].loss, default=best)
        if jointly and jointly[better][0].loss < judged.loss:
            with suppress(ConvergenceError):  # it may arrive in all folds and not now
                model = _fit_jointly(data, recipe, better, jointly[better][1])
                sharpness = float(np.linalg.norm(model.pooling.query))
                model = model.calibrated(jointly[better][0].sigmoid)
                return Trained(model, better._replace(sharpness=sharpness), losses, "joint")
    if recipe.pooling.posterior:
        start = min(_joint_starts(losses), key=losses.__getitem__, default=best)
        with suppress(ConvergenceError):  # of the law of tokens
            by, rival, taught = _posterior(data, recipe, start, folds, made(start))
            scores = _readout_scores(data, recipe, rival, folds, taught)
            rated = _judged(data, recipe, rival, folds, scores)
            if rated.loss < judged.loss:
                model = fit_readout(data, recipe, rival, taught[-1])
                return Trained(model.calibrated(rated.sigmoid), rival, losses, by)
    model = fit_readout(data, recipe, best, ready[-1])
    return Trained(model.calibrated(judged.sigmoid), best, losses)


def _cross_validated(
    data: TrainingData, recipe: Recipe, folds: Folds
) -> tuple[dict[Choice, float], Kept]:
    """Losses of all choices on held-out bags; and what was made, of all bags as well, if there is
    room for all of it."""
    sets, kinds = all_sets(data, folds), dict(recipe.shrinkings)
    jobs = len(sets) * sum(map(len, kinds.values()))
    roomy = jobs * numbers_of(data, len(recipe.pooling.sharpnesses)) <= data.bags.room
    places = list(range(len(sets) if roomy else len(folds)))
    # two kinds go side by side, fold by fold, until one has lost
    rounds = [places] if len(kinds) == 1 else [[place] for place in places]
    scores: dict[Choice, FloatArray] = {}
    kept: Kept = {}
    seen = np.zeros(len(data.labels), dtype=bool)
    for together in rounds:
        for is_mapped, shrinkings in kinds.items():
            tried = tried_of(
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
                path = readouts(candidate, data, recipe, recipe.factors, _ROUGH)
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
    losses = {choice: judge(data, recipe, held_out).loss for choice, held_out in scores.items()}
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


def _readout_scores(
    data: TrainingData, recipe: Recipe, choice: Choice, folds: Folds, ready: Sequence[Ready]
) -> Iterator[FloatArray]:
    """Of the bags of each fold, by readouts fitted as closely as the model will be: rounding must
    not show in its sigmoid."""
    for held, own in zip(folds, ready, strict=False):  # the last one is that of all bags
        model = fit_readout(data, recipe, choice, own)
        yield own.candidate.scored[held] @ model.weights + model.bias


def _joint_scores(
    data: TrainingData, recipe: Recipe, choice: Choice, folds: Folds, ready: Sequence[Ready]
) -> Iterator[FloatArray]:
    """Of the bags of each fold, by joint training on the others."""
    bags = data.bags.load()
    for held, own in zip(folds, ready, strict=False):
        yield _fit_jointly(data.without(held), recipe, choice, own).scores(bags[held])


def _judged(
    data: TrainingData,
    recipe: Recipe,
    choice: Choice,
    folds: Folds,
    scores_of_folds: Iterator[FloatArray],
) -> Judged:
    """A choice by the scores of held-out bags."""
    scores = np.zeros(len(data.labels))
    for held, own in zip(folds, scores_of_folds, strict=True):
        scores[held] = own
    return judge(data, recipe, scores, not (choice.mapped and recipe.token_map.repeats))


def _posterior(
    data: TrainingData, recipe: Recipe, start: Choice, folds: Folds, ready: Sequence[Ready]
) -> tuple[LearnedBy, Choice, list[Ready]]:
    """What expectation–maximisation learns, begun with the two-step query: what tells held-out bags
    apart best, attention or likelihood, and all that it is fitted to."""
    seen = (seen_tokens(own, recipe, start.mapped)[1] for own in all_sets(data, folds))
    jobs = [Job(own, prepared.whitening) for own, prepared in zip(seen, ready, strict=True)]
    taught = [
        pair
        for batch in _together(jobs, _numbers_to_learn)
        for pair in zip(batch, learn(batch), strict=True)
    ]
    sharp = [sharpness for sharpness in recipe.sharpnesses(start.mapped) if sharpness > 0]
    scores: dict[tuple[LearnedBy, Choice], FloatArray] = {}
    rivals = _rivals(recipe, taught[: len(folds)], sharp)  # the last is of all bags
    for held, candidates in zip(folds, rivals, strict=True):
        for by, candidate in candidates:
            path = readouts(candidate, data, recipe, recipe.factors, _ROUGH)
            for factor, (_, readout) in zip(recipe.factors, path, strict=True):
                choice = start._replace(sharpness=candidate.sharpness, factor=factor)
                out_of_fold = scores.setdefault((by, choice), np.zeros(len(data.labels)))
                out_of_fold[held] = candidate.scored[held] @ readout.weights + readout.bias
    by, choice = min(scores, key=lambda key: judge(data, recipe, scores[key]).loss)
    rivals = _rivals(recipe, taught, [choice.sharpness] if by == "posterior" else [])
    made = [
        prepared._replace(candidate=dict(candidates)[by])
        for prepared, candidates in zip(ready, rivals, strict=True)
    ]
    return by, choice, made


def _rivals(
    recipe: Recipe, taught: Sequence[tuple[Job, Taught]], sharpnesses: Sequence[float]
) -> Iterator[list[tuple[LearnedBy, Candidate]]]:
    """Both ways to score bags by what they have taught, for each set of them."""
    attending, pairs = cast(Attending, recipe.pooling), iter(taught)
    needed = partial(numbers_of, sharpnesses=len(sharpnesses))
    for batch in _together([job for job, _ in taught], needed):
        own = list(islice(pairs, len(batch)))
        along: Iterable[list[Candidate]] = [[] for _ in batch]
        if sharpnesses:
            along = attending.seen_along(batch, [lesson.query for _, lesson in own], sharpnesses)
        for (job, lesson), candidates in zip(own, along, strict=True):
            likelihood = LikelihoodRatio().candidate(job, lesson)
            yield [("likelihood", likelihood), *(("posterior", other) for other in candidates)]


def _together(jobs: Sequence[Job], needed: Callable[[TrainingData], int]) -> Iterator[list[Job]]:
    """Sets of the same bags, as many as there is room for, each taking so many numbers."""
    for _, group in groupby(jobs, key=lambda job: id(job.data.bags)):
        same = list(group)
        most = max(1, same[0].data.bags.room // needed(same[0].data))
        yield from (same[first : first + most] for first in range(0, len(same), most))


def _numbers_to_learn(data: TrainingData) -> int:
    """That expectation–maximisation has in memory: a few of each token, vectors of each bag."""
    bags = data.bags
    return 8 * int(bags.lengths.sum()) + 4 * len(bags) * bags.dim


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
    start = fit_readout(data, recipe, choice, ready)
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

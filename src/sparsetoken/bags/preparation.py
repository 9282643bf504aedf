"""What a readout is fitted to: tokens mapped, whitened and pooled, for many sets of bags at once.

Sets are all bags but those of a fold, for each fold, and all of them. What goes over the same bags
goes together, as far as there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sparsetoken.bags.bag_model import BagModel, Choice, Judged, Recipe
from sparsetoken.bags.poolings import Candidate
from sparsetoken.bags.queries import Job
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import UNWHITENED, Moments, Shrinking, Whitening
from sparsetoken.fitting.calibration import Sigmoid, fit_sigmoid
from sparsetoken.fitting.fit import fit_path
from sparsetoken.fitting.objective import Fitted as Readout
from sparsetoken.support.arrays import BoolArray, FloatArray

Item = TypeVar("Item")


class Ready(NamedTuple):
    """All that a readout of one set of bags is fitted to."""

    token_map: Any  # fitted, or None
    whitening: Whitening
    candidate: Candidate


def all_sets(data: TrainingData, folds: Sequence[BoolArray]) -> list[TrainingData]:
    """All bags but those of a fold, for each; and all of them."""
    return [*(data.without(held) for held in folds), data]


Kept = dict[tuple[int, tuple[bool, Shrinking, float]], Ready]


def kept_of(kept: Kept, choice: Choice, sets: int) -> list[Ready]:
    """What was kept of a choice, for each set of bags; nothing where it was not."""
    places = [(place, choice[:3]) for place in range(sets)]
    return [kept[place] for place in places] if all(place in kept for place in places) else []


def prepared(sets: Sequence[TrainingData], recipe: Recipe, choice: Choice) -> Iterator[Ready]:
    """For each set of bags, as chosen."""
    for _, _, ready in tried_of(
        sets, recipe, choice.mapped, [choice.shrinking], [choice.sharpness]
    ):
        yield ready


def tried_of(
    sets: Sequence[TrainingData],
    recipe: Recipe,
    is_mapped: bool,
    shrinkings: Sequence[Shrinking],
    sharpnesses: Sequence[float],
) -> Iterator[tuple[int, Shrinking, Ready]]:
    """Which set of bags, how whitened, and what its readout is fitted to, for all that is tried.

    As many as there is room for go over the bags together.
    """
    seen = (seen_tokens(data, recipe, is_mapped) for data in sets)
    place = 0
    for _, group in groupby(seen, key=lambda pair: id(pair[1].bags)):
        maps, same = zip(*group, strict=True)
        jobs = (
            (place + number, shrinking, Job(same[number], whitening))
            for number, shrinking, whitening in _whitenings(same, shrinkings)
        )
        most = max(1, same[0].bags.room // numbers_of(same[0], len(sharpnesses)))
        for batch in _batched(jobs, most):
            made = recipe.pooling.candidates([job for _, _, job in batch], sharpnesses)
            for (own, shrinking, job), candidates in zip(batch, made, strict=True):
                for candidate in candidates:
                    ready = Ready(maps[own - place], job.whitening, candidate)
                    yield own, shrinking, ready
        place += len(same)


def numbers_of(data: TrainingData, sharpnesses: int) -> int:
    """That one job has in memory: features and a root."""
    return data.bags.dim * (sharpnesses * len(data.bags) + data.bags.dim)


def _batched(items: Iterator[Item], most: int) -> Iterator[list[Item]]:
    """So many at a time."""
    while batch := list(islice(items, most)):
        yield batch


def fit_readout(data: TrainingData, recipe: Recipe, choice: Choice, ready: Ready) -> BagModel:
    """As chosen, from the bags with a weight."""
    token_map, whitening, candidate = ready
    ((ridge, readout),) = readouts(candidate, data, recipe, (choice.factor,))
    parts = (token_map, whitening, candidate.pooling)
    return BagModel(*parts, readout.weights, readout.bias, ridge)


def seen_tokens(data: TrainingData, recipe: Recipe, is_mapped: bool) -> tuple[Any, TrainingData]:
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


def readouts(
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


def judge(data: TrainingData, recipe: Recipe, scores: FloatArray, shifted: bool = True) -> Judged:
    """By the sigmoid that fits best; to be kept is one of offset 0, if not `shifted`."""
    labels, weights = data.labels, data.weights
    sigmoid = fit_sigmoid(scores, labels, weights) if recipe.calibrate else Sigmoid()
    losses = np.logaddexp(0.0, -labels * sigmoid.logit(scores))
    if recipe.calibrate and not shifted:
        sigmoid = fit_sigmoid(scores, labels, weights, shifted=False)
    return Judged(float(np.average(losses, weights=weights)), sigmoid)

r"""Bags along directions that they have not taught.

Half of the bags learn a whitening and a direction β; the other half is measured along it, in units
of its noise, and the same the other way round. A direction of cosine s with the signal sees its
strength as θs, and noise correlates along two directions learned apart by s_A·s_B (the errors of A
and B have nothing to do with one another). Several ways to halve the bags say more than one.

β is the two-step query after a round of expectation–maximisation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sparsetoken.bags.likelihood import Levels, NoiseDensity
from sparsetoken.bags.queries import Job, refined, two_step_queries
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Moments, Shrinking
from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray
from sparsetoken.support.errors import InvalidInput

# Ways to halve the bags. Fewer where they hold so many tokens that one way takes seconds.
_SPLITS, _MOST_TOKENS = 4, 1 << 18
_FURTHEST = 1e8  # deviations of noise, beyond which all tokens are alike: noise may not vary at all
_ROUNDS = 1  # of expectation and maximisation; more change nothing


class View(NamedTuple):
    """Half of the bags, along the direction of the other half."""

    tokens: FloatArray  # (N,), levels in units of the noise
    lengths: IntArray  # (n,)
    positive: BoolArray  # (n,), bags
    groups: IntArray | None = None  # (n,)

    @property
    def of_positive(self) -> BoolArray:
        """Which tokens (N,) are of positive bags."""
        return np.repeat(self.positive, self.lengths)

    @property
    def noise(self) -> FloatArray:
        """Tokens of negative bags."""
        return self.tokens[~self.of_positive]


class Split(NamedTuple):
    """Both halves, and s_A·s_B."""

    views: tuple[View, View]
    agreement: float

    def groups(self, positive: bool = False) -> IntArray | None:
        """Of the bags of one view and then the other, of all or of positive ones."""
        numbers = [
            view.groups[view.positive] if positive else view.groups
            for view in self.views
            if view.groups is not None
        ]
        return np.concatenate(numbers) if numbers else None


def halved(data: TrainingData, seed: int = 0) -> BoolArray:
    """Half of the bags (n,), both classes in it and in the rest."""
    held = next(data.folds(2, seed), None)
    if held is None:
        raise InvalidInput(
            "groups must leave bags of both classes in either half, got groups that cannot be "
            "halved so: more groups are needed, or none that is much larger than the others"
        )
    return held


def splits(data: TrainingData, shrinking: Shrinking) -> Iterator[Split]:
    """Halves of the bags that count, seen along one another's direction, several times."""
    count = int(np.clip(_MOST_TOKENS // int(data.bags.lengths.sum()), 1, _SPLITS))
    for seed in range(count):
        held = halved(data, seed)
        yield _split(data, shrinking, (held, ~held & (data.weights > 0)))


def _split(data: TrainingData, shrinking: Shrinking, halves: tuple[BoolArray, BoolArray]) -> Split:
    taught = [next(directions(data.without(~half), [shrinking]))[0] for half in halves]
    along = data.bags.load().project(np.stack(taught, axis=1))  # (N, 2)
    views, agreement = [], 0.0
    for own, half in enumerate(halves):
        rows = np.repeat(half, data.bags.lengths)
        quiet = np.repeat(half & (data.labels < 0), data.bags.lengths)
        noise = along[quiet]
        spread = np.maximum(noise.std(axis=0), 1e-300)
        centred = (noise - noise.mean(axis=0)) / spread
        agreement += 0.5 * float(np.mean(centred[:, 0] * centred[:, 1]))
        level = (along[rows, 1 - own] - noise[:, 1 - own].mean()) / spread[1 - own]
        level = np.clip(level, -_FURTHEST, _FURTHEST)
        groups = None if data.groups is None else data.groups[half]
        views.append(View(level, data.bags.lengths[half], data.labels[half] > 0, groups))
    return Split((views[0], views[1]), agreement)


def directions(
    data: TrainingData, shrinkings: Sequence[Shrinking]
) -> Iterator[tuple[FloatArray, float]]:
    """For each way to whiten, β (d,), acting on tokens as they are, of norm 1 in whitened
    coordinates; and where the mean of the noise is along it."""
    moments = Moments.of(data.bags, data.weights_of(-1), data.weights)
    for _, whitening in moments.whitenings(shrinkings):
        (query,) = two_step_queries([Job(data, whitening)])
        for _ in range(_ROUNDS):  # so many refinements are what this direction is
            query, _ = refined(data, query, whitening)
        direction = whitening.root @ query
        yield direction, float(whitening.mean @ direction)


def levels_of(views: Sequence[View], noise: NoiseDensity, copies: int = 1) -> Levels:
    """Of the bags of views, each of which is seen so many times."""
    tokens = np.concatenate([view.tokens for view in views])
    lengths = np.concatenate([view.lengths for view in views])
    return Levels(noise.log(tokens), tokens, lengths, np.full(len(lengths), 1 / copies))

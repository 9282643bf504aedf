r"""Queries, and tokens weighted by them: passes over bags, for several sets of them at once.

In the limit of a small readout step and with the bias that balances the classes, stages 1 to 3 of
the protocol are two weighted sums. With s_i = y_i/(weight of its class) and P = I − 11ᵀ/L,

    w¹ = Σ s_i · mean token of bag i,       q = Σ s_i · (1/L_i) X_iᵀ P X_i w¹:

the difference of the classes' mean tokens, then the difference of their covariances within a bag
applied to it. No step sizes are left; the length of q is the sharpness, chosen separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from sparsetoken.bags.bags import Arrays, Bags
from sparsetoken.bags.mixture import Mixture, histogram
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.bags.whitening import Whitening
from sparsetoken.model.weightings import Weighting
from sparsetoken.support.arrays import Array, FloatArray, IntArray, floats


class Job(NamedTuple):
    """Bags, those with a weight to learn from, and a whitening of their noise."""

    data: TrainingData
    whitening: Whitening


def two_step_queries(jobs: Sequence[Job]) -> list[FloatArray]:
    """The directions of queries in whitened coordinates, of norm 1 (0 if there is none).

    Of one or several sets of the same bags, in one pass.
    """
    bags = jobs[0].data.bags
    means = bags.summary.mean
    signed = np.stack([job.data.signed for job in jobs])
    along = np.stack(
        [
            whitening.root @ (weights @ (means - whitening.mean) @ whitening.root)
            for weights, (_, whitening) in zip(signed, jobs, strict=True)
        ],
        axis=1,
    )
    total = bags.run(QueryKernel(signed / bags.lengths, along, means))["sums"]
    return [_unit(job.whitening.root.T @ query) for job, query in zip(jobs, total, strict=True)]


@dataclass(frozen=True, eq=False)
class QueryKernel:
    """Σ s_i/L_i · X_iᵀ P X_i w of a part, for several s and w (q, d)."""

    signed: FloatArray  # s/L (q, n)
    along: FloatArray  # w (d, q)
    means: FloatArray  # of bags (n, d)
    words: ClassVar[str] = "queries"

    def of_part(self, bags: slice) -> QueryKernel:
        return replace(self, signed=self.signed[:, bags], means=self.means[bags])

    def __call__(self, part: Bags, device: str | None) -> FloatArray:
        total, count = 0.0, len(self.signed)
        for stack in part.stacks(device):
            weights = stack.on_device(self.signed[:, stack.index].T)[:, None]  # (k, 1, q)
            mean = stack.on_device(self.means[stack.index])[:, None]
            along = stack.on_device(self.along)
            for tokens in stack.pieces():
                apart = tokens - mean
                pull = (apart @ along) * weights
                total = total + pull.reshape(-1, count).T @ apart.reshape(-1, part.dim)
        return stack.numbers(total)

    def combined(self, results: Iterable[tuple[slice, FloatArray]]) -> Arrays:
        return {"sums": np.asarray(sum(sums for _, sums in results))}


@dataclass(frozen=True, eq=False)
class FeatureKernel:
    """Σ a_l x_l of each bag of a part, for several queries and sharpnesses (f, s, n, d)."""

    along: FloatArray  # queries (d, q), acting on tokens as they are
    which: IntArray  # of the queries, for each feature and bag (f, n)
    sharpnesses: tuple[float, ...]
    weighting: Weighting
    words: ClassVar[str] = "features"

    def of_part(self, bags: slice) -> FeatureKernel:
        return replace(self, which=self.which[:, bags])

    def __call__(self, part: Bags, device: str | None) -> FloatArray:
        pooled = self._room()
        for stack in part.stacks(device):
            along, own = stack.on_device(self.along), self.which[:, stack.index].T  # (k, f)
            pieces = [tokens @ along for tokens in stack.pieces()]
            space, _ = floats(pieces[0])
            logits = _chosen(space.concat(pieces, axis=1), own).swapaxes(1, 2)  # (k, f, L)
            weights = space.concat(
                [self.weighting.weights(sharpness * logits) for sharpness in self.sharpnesses],
                axis=1,
            )  # (k, s·f, L)
            sums, start = 0.0, 0
            for tokens in stack.pieces():
                end = start + tokens.shape[1]
                sums, start = sums + weights[:, :, start:end] @ tokens, end
            shape = (len(stack.index), *pooled.shape[1::-1], part.dim)
            pooled[:, :, stack.index] = stack.numbers(sums).reshape(shape).transpose(2, 1, 0, 3)
        return pooled

    def combined(self, results: Iterable[tuple[slice, FloatArray]]) -> Arrays:
        pooled = self._room()
        for part, features in results:
            pooled[:, :, part] = features
        return {"pooled": pooled}

    def _room(self) -> FloatArray:
        """For what is pooled, not written yet."""
        features, count = self.which.shape
        return np.empty((features, len(self.sharpnesses), count, len(self.along)))


def _chosen(logits: Array, own: IntArray) -> Array:
    """Of logits (k, L, q) by all queries, those by the queries (k, f) of each bag."""
    if np.all(own == own[0]):
        return logits[:, :, own[0].tolist()]
    rows = [logits[place][:, queries] for place, queries in enumerate(own.tolist())]
    return floats(logits)[0].stack(rows)


def refined(
    data: TrainingData, query: FloatArray, whitening: Whitening
) -> tuple[FloatArray, FloatArray]:
    """One round of expectation–maximisation: along a query, how likely does each token carry the
    signal? The difference of the classes, tokens weighted by that, is a better query.

    That query (d,), of norm 1; and the tokens of each bag weighted so (n, d), not whitened.
    """
    bags = data.bags.load()
    level = bags.project(whitening.root @ query)
    share = bags.spread(data.weights_of(-1))
    share = share / share.sum()
    level -= share @ level
    level /= max(float(np.sqrt(share @ level**2)), 1e-300)
    counted = bags.spread(data.weights_of(1))
    chance = Mixture.fit(histogram(level[None], counted[None])).chance(level[None])[0]
    pooled = bags.pool(chance) - np.outer(bags.total(chance), whitening.mean)
    return _unit(data.signed @ pooled @ whitening.root), pooled


def _unit(vector: FloatArray) -> FloatArray:
    norm = float(np.linalg.norm(vector))
    return vector / norm if norm > 0 else vector

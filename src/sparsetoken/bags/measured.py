"""What attention and mean pooling do on the bags at hand, by cross-validation at two sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsetoken.bags.estimators import ESTIMATORS
from sparsetoken.bags.groups import correlation, design_effect, standard_error
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.planning.metrics import Metric
from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray

CLASSIFIERS = ("attention", "pooled")  # that are measured, and forecast
_FOLDS = 5
# Which bags are held out together changes the error of a hundred bags nearly as much as which bags
# there are. So it is a mean over several ways to fold few bags, and over one of so many as these.
_ENOUGH, _MOST_WAYS = 600, 5
_BLOCKS = 20  # of the jackknife
_QUARTERS = 4  # of lengths


@dataclass(frozen=True, eq=False)
class Measured:
    """Scores of bags by a classifier that has not seen them and has learned from so many others,
    for each of several ways to fold them."""

    classifier: str
    samples: int
    scores: FloatArray  # (ways, n)
    labels: FloatArray  # (n,), ±1
    strata: IntArray  # (ways, n); bags of one have about one length, and were scored by one fit
    groups: IntArray | None = None  # (n,)

    def value(self, metric: Metric, but: BoolArray | None = None) -> float:
        """Of a metric, of all bags or all but some (n,); the mean over ways to fold them."""
        kept = np.ones(len(self.labels), dtype=bool) if but is None else ~but
        positive, negative = (kept & (self.labels == side) for side in (1, -1))
        prevalence = int(positive.sum()) / int(kept.sum())
        values = [
            metric.value(Scores(_mixture(scores[positive]), _mixture(scores[negative]), prevalence))
            for scores in self.scores
        ]
        return float(np.mean(values))

    def standard_error(self, metric: Metric) -> float:
        """Of the value: a jackknife over blocks of bags, of both classes alike, or of groups."""
        rank, fewest = _ranked(self.labels, self.groups)
        blocks = min(_BLOCKS, fewest)
        values = [self.value(metric, rank % blocks == block) for block in range(blocks)]
        return float(np.sqrt((blocks - 1) * np.var(values)))

    @property
    def correlation(self) -> float:
        """Of the scores of two bags of one group and class, the mean over ways; 0 without groups.

        Scores are compared within a fold: fits of several differ."""
        if self.groups is None:
            return 0.0
        sides = (self.labels > 0).astype(int)
        cells = 2 * (self.strata // _QUARTERS) + sides
        values = [
            correlation(scores, cell, self.groups)
            for scores, cell in zip(self.scores, cells, strict=True)
        ]
        return float(np.mean(values))

    @property
    def design_effect(self) -> float:
        """D: so many bags teach as much as one that is independent of all others."""
        if self.groups is None:
            return 1.0
        return design_effect(self.correlation, self.labels, self.groups)

    @property
    def evidence(self) -> float:
        """That positive bags are told from others: ranks of scores, in standard errors; the mean
        over ways to fold them.

        Ranks are those within a stratum. Where labels mean nothing they are as good as tossed, and
        long bags are not told from short ones. With groups, standard errors are those of groups.
        """
        return float(np.mean([*map(self._evidence, self.scores, self.strata)]))

    def _evidence(self, scores: FloatArray, strata: IntArray) -> float:
        surplus, variance = np.zeros(len(scores)), 0.0
        for stratum in np.unique(strata):
            same = strata == stratum
            surplus[same], more = rank_surplus(scores[same], self.labels[same] > 0)
            variance += more
        return rank_evidence(surplus, variance, self.groups)


def _ranked(labels: FloatArray, groups: IntArray | None) -> tuple[IntArray, int]:
    """A number for each bag (n,), the same for bags of one group; without every k-th of them there
    are bags of both classes, for k from 2 up to the second answer."""
    rank = np.zeros(len(labels), dtype=int)
    if groups is None:
        for side in (1, -1):
            same = np.flatnonzero(labels == side)
            rank[same] = np.arange(len(same))
        return rank, int(min(np.sum(labels > 0), np.sum(labels < 0)))
    sides = [np.bincount(groups[labels == side], minlength=groups.max() + 1) for side in (1, -1)]
    positive, negative = (counts > 0 for counts in sides)
    # those of both classes stand between those of one: either class is in a row of its own
    order = np.lexsort((negative, ~positive))
    rank = np.argsort(order)[groups]
    return rank, int(min(positive.sum(), negative.sum()))


def _mixture(scores: FloatArray) -> Mixture:
    return Mixture(scores, np.zeros(len(scores)), np.full(len(scores), 1 / len(scores)))


def rank_surplus(scores: FloatArray, positive: BoolArray) -> tuple[FloatArray, float]:
    """What each bag (n,) adds to the sum of the ranks of positive scores, beyond what chance gives;
    the variance of that sum by chance (Wilcoxon)."""
    from scipy.stats import rankdata

    n, up = len(positive), int(positive.sum())
    parts = (rankdata(scores) - (n + 1) / 2) * (positive - up / n)
    return parts, up * (n - up) * (n + 1) / 12


def rank_evidence(parts: FloatArray, variance: float, groups: IntArray | None) -> float:
    """The sum of what bags (n,) add, in standard errors: by chance, or as groups make it greater;
    0 where there is nothing to compare."""
    if variance == 0:
        return 0.0
    alone, together = (standard_error(parts, numbers) for numbers in (None, groups))
    inflation = together / alone if alone > 0 else 1.0
    return float(parts.sum() / np.sqrt(variance) / inflation)


def measured_curve(data: TrainingData) -> tuple[Measured, ...]:
    """Each classifier trained on two fifths of the bags, and on four in several ways; none where no
    bags can be held out."""
    ways = int(np.clip(_ENOUGH // len(data.labels), 1, _MOST_WAYS))
    folded = [list(data.folds(_FOLDS, way)) for way in range(ways)]
    if not all(folded):
        return ()
    return tuple(
        _measured(data, name, folds, fewer)
        for name in CLASSIFIERS
        for folds, fewer in ((folded[:1], True), (folded, False))
    )


def _measured(
    data: TrainingData, name: str, folded: Sequence[list[BoolArray]], fewer: bool
) -> Measured:
    """A classifier trained on the bags of all other folds, or on half of these."""
    lengths = data.bags.lengths
    quarter = np.searchsorted(np.quantile(lengths, [0.25, 0.5, 0.75]), lengths)
    scores, strata, samples = [], [], []
    for folds in folded:
        scored = np.zeros(len(data.labels))
        for held in folds:
            used = next(data.without(held).folds(2), ~held) & ~held if fewer else ~held
            groups = None if data.groups is None else data.groups[used]
            classifier = ESTIMATORS.make(name)
            classifier.fit(data.bags.load()[used], data.labels[used], groups=groups)
            scored[held] = classifier.decision_function(data.bags.load()[held])
            samples.append(int(used.sum()))
        scores.append(scored)
        strata.append(_QUARTERS * np.argmax(folds, axis=0) + quarter)
    size = round(float(np.mean(samples)))
    return Measured(name, size, np.array(scores), data.labels, np.array(strata), data.groups)


def largest(measured: Sequence[Measured]) -> list[Measured]:
    """Of each classifier, trained on most bags."""
    by_name = {point.classifier: point for point in sorted(measured, key=lambda p: p.samples)}
    return list(by_name.values())

"""What attention and mean pooling do on the bags at hand, by cross-validation at two sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparsetoken.bags.estimators import ESTIMATORS
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.planning.metrics import Metric
from sparsetoken.support.arrays import BoolArray, FloatArray, IntArray

CLASSIFIERS = ("attention", "pooled")  # that are measured, and forecast
_FOLDS = 5
_BLOCKS = 20  # of the jackknife
_QUARTERS = 4  # of lengths


@dataclass(frozen=True, eq=False)
class Measured:
    """Scores of bags by a classifier that has not seen them and has learned from so many others."""

    classifier: str
    samples: int
    scores: FloatArray  # (n,)
    labels: FloatArray  # (n,), ±1
    strata: IntArray  # (n,), bags of one have about one length, and were scored by one classifier

    def value(self, metric: Metric, but: BoolArray | None = None) -> float:
        """Of a metric, of all bags or all but some (n,)."""
        kept = np.ones(len(self.labels), dtype=bool) if but is None else ~but
        classes = [self.scores[kept & (self.labels == side)] for side in (1, -1)]
        mixtures = [
            Mixture(scores, np.zeros(len(scores)), np.full(len(scores), 1 / len(scores)))
            for scores in classes
        ]
        prevalence = len(classes[0]) / int(kept.sum())
        return float(metric.value(Scores(mixtures[0], mixtures[1], prevalence)))

    def standard_error(self, metric: Metric) -> float:
        """Of the value: a jackknife over blocks of bags, of both classes alike."""
        rank = np.zeros(len(self.labels), dtype=int)
        for side in (1, -1):
            same = np.flatnonzero(self.labels == side)
            rank[same] = np.arange(len(same))
        blocks = min(_BLOCKS, int(min(np.sum(self.labels > 0), np.sum(self.labels < 0))))
        values = [self.value(metric, rank % blocks == block) for block in range(blocks)]
        return float(np.sqrt((blocks - 1) * np.var(values)))

    @property
    def evidence(self) -> float:
        """That positive bags are told from others: ranks of scores, in standard errors.

        Ranks are those within a stratum. Where labels mean nothing they are as good as tossed, and
        long bags are not told from short ones.
        """
        ranks = [
            rank_surplus(self.scores[same], self.labels[same] > 0)
            for same in (self.strata == stratum for stratum in np.unique(self.strata))
        ]
        surplus, variance = np.sum(ranks, axis=0)
        return float(surplus / np.sqrt(variance)) if variance > 0 else 0.0


def rank_surplus(scores: FloatArray, positive: BoolArray) -> tuple[float, float]:
    """Sum of the ranks of positive scores, beyond what chance gives; its variance by chance
    (Wilcoxon)."""
    from scipy.stats import rankdata

    n, up = len(positive), int(positive.sum())
    surplus = float(rankdata(scores)[positive].sum()) - up * (n + 1) / 2
    return surplus, up * (n - up) * (n + 1) / 12


def measured_curve(data: TrainingData) -> tuple[Measured, ...]:
    """Each classifier trained on two and on four fifths of the bags; none where no bags can be
    held out."""
    folds = list(data.folds(_FOLDS))
    if not folds:
        return ()
    lengths = data.bags.lengths
    quarter = np.searchsorted(np.quantile(lengths, [0.25, 0.5, 0.75]), lengths)
    strata, points = _QUARTERS * np.argmax(folds, axis=0) + quarter, []
    for name in CLASSIFIERS:
        scores = np.zeros((2, len(data.labels)))
        samples = np.zeros(2)
        for held in folds:
            rest = data.without(held)
            fewer = next(rest.folds(2), ~held)
            for row, used in enumerate((fewer & ~held, ~held)):
                groups = None if data.groups is None else data.groups[used]
                classifier = ESTIMATORS.make(name)
                classifier.fit(data.bags[used], data.labels[used], groups=groups)
                scores[row, held] = classifier.decision_function(data.bags[held])
                samples[row] += int(used.sum()) / len(folds)
        points += [
            Measured(name, round(size), row, data.labels, strata)
            for size, row in zip(samples, scores, strict=True)
        ]
    return tuple(points)


def largest(measured: Sequence[Measured]) -> list[Measured]:
    """Of each classifier, trained on most bags."""
    by_name = {point.classifier: point for point in sorted(measured, key=lambda p: p.samples)}
    return list(by_name.values())

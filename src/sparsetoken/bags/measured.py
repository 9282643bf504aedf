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
        """That positive bags are told from others: ranks of scores, in standard errors; the mean
        over ways to fold them.

        Ranks are those within a stratum. Where labels mean nothing they are as good as tossed, and
        long bags are not told from short ones.
        """
        return float(np.mean([*map(self._evidence, self.scores, self.strata)]))

    def _evidence(self, scores: FloatArray, strata: IntArray) -> float:
        ranks = [
            rank_surplus(scores[same], self.labels[same] > 0)
            for same in (strata == stratum for stratum in np.unique(strata))
        ]
        surplus, variance = np.sum(ranks, axis=0)
        return float(surplus / np.sqrt(variance)) if variance > 0 else 0.0


def _mixture(scores: FloatArray) -> Mixture:
    return Mixture(scores, np.zeros(len(scores)), np.full(len(scores), 1 / len(scores)))


def rank_surplus(scores: FloatArray, positive: BoolArray) -> tuple[float, float]:
    """Sum of the ranks of positive scores, beyond what chance gives; its variance by chance
    (Wilcoxon)."""
    from scipy.stats import rankdata

    n, up = len(positive), int(positive.sum())
    surplus = float(rankdata(scores)[positive].sum()) - up * (n + 1) / 2
    return surplus, up * (n - up) * (n + 1) / 12


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
    return Measured(name, size, np.array(scores), data.labels, np.array(strata))


def largest(measured: Sequence[Measured]) -> list[Measured]:
    """Of each classifier, trained on most bags."""
    by_name = {point.classifier: point for point in sorted(measured, key=lambda p: p.samples)}
    return list(by_name.values())

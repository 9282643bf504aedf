"""What attention and mean pooling do on the bags at hand, by cross-validation at two sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsetoken.bags.estimators import ESTIMATORS
from sparsetoken.bags.training_data import TrainingData
from sparsetoken.model.scores import Mixture, Scores
from sparsetoken.planning.metrics import Metric
from sparsetoken.support.arrays import BoolArray, FloatArray

CLASSIFIERS = ("attention", "pooled")  # that are measured, and forecast
_FOLDS = 5
_BLOCKS = 20  # of the jackknife


@dataclass(frozen=True, eq=False)
class Measured:
    """Scores of bags by a classifier that has not seen them and has learned from so many others."""

    classifier: str
    samples: int
    scores: FloatArray  # (n,)
    labels: FloatArray  # (n,), ±1

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


def measured_curve(data: TrainingData) -> tuple[Measured, ...]:
    """Each classifier trained on two and on four fifths of the bags."""
    points = []
    for name in CLASSIFIERS:
        scores = np.zeros((2, len(data.labels)))
        samples = np.zeros(2)
        folds = list(data.folds(_FOLDS))
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
            Measured(name, round(size), row, data.labels)
            for size, row in zip(samples, scores, strict=True)
        ]
    return tuple(points)

"""What a report says of bags and of a classifier on them: as records, each made by a verb."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Walked
from sparsetoken.bags.classifier import BagClassifier
from sparsetoken.bags.evaluation_size import test_bags_needed
from sparsetoken.bags.findings import Pilot
from sparsetoken.bags.forecast import PilotPlan
from sparsetoken.bags.held_out import Comparison
from sparsetoken.bags.intervals import (
    Difference,
    Interval,
    Reliability,
    area,
    brier_score,
    calibration_curve,
    difference,
    reach_of,
    roc_points,
)

_HALF_WIDTHS = (0.1, 0.05, 0.03, 0.02)  # of an AUC that is to be shown
_MOST_TOKENS = 12  # that are listed: more are in the table that `score --tokens` writes
_MOST_LABELS = 6  # whose curves can be told apart
_MOST_BARS = 24


class DataSummary(NamedTuple):
    """What the bags are: how many, how long, with which labels."""

    bags: int
    tokens: int
    dim: int
    lengths: tuple[float, ...]  # least, quartiles, greatest
    counts: tuple[int, ...]  # bags between the edges of length
    edges: tuple[float, ...]
    labels: tuple[tuple[str, int], ...]  # and their bags
    groups: int | None  # None if none were given
    problems: tuple[tuple[str, str], ...]  # which bag, and what is wrong with it


class Quality(NamedTuple):
    """How held-out probabilities tell bags with a label from others, and how far to believe them.

    The AUC is the mean over folds; the ROC curve is of all bags together.
    """

    label: str
    prevalence: float
    auc: Interval
    roc: tuple[tuple[float, ...], tuple[float, ...]]  # false and true positive rates
    calibration: tuple[Reliability, ...]
    brier: Interval
    guess: float  # the Brier score of who says the prevalence of every bag


class CurvePoint(NamedTuple):
    """The error of a classifier that learns from so many bags; measured, or else forecast."""

    measured: bool
    classifier: str
    bags: int
    error: Interval


class TestSize(NamedTuple):
    """Test bags that show an AUC to ± half_width: if it is what was measured, or the low end.

    An AUC of 1 has no variance by which to say the former: None.
    """

    half_width: float
    bags: int | None
    cautious: int


class TellingToken(NamedTuple):
    """The token of a bag that adds most to its score."""

    bag: str
    label: str
    token: int
    tokens: int
    contribution: float
    attention: float | None  # where there is any
    chance: float  # held-out probability of the bag


def summarise_bags(
    bags: Walked,
    labels: NDArray[Any],
    groups: Any = None,
    problems: Sequence[tuple[str, str]] = (),
) -> DataSummary:
    """How many, how long, with which labels."""
    lengths = bags.lengths
    least, greatest = int(lengths.min()), int(lengths.max())
    width = -(-(greatest - least + 1) // _MOST_BARS)  # of a bar, in whole tokens
    edges = np.arange(least, greatest + width + 1, width) - 0.5
    counts, _ = np.histogram(lengths, edges)
    classes, index = np.unique(labels, return_inverse=True)
    return DataSummary(
        len(bags),
        int(lengths.sum()),
        bags.dim,
        tuple(np.quantile(lengths, [0, 0.25, 0.5, 0.75, 1]).tolist()),
        tuple(counts.tolist()),
        tuple(edges.tolist()),
        tuple(zip(map(str, classes.tolist()), np.bincount(index).tolist(), strict=True)),
        None if groups is None else len(np.unique(groups)),
        tuple(problems),
    )


def judge(comparison: Comparison, pooling: str, signal: Any) -> tuple[Quality, ...]:
    """How good held-out probabilities are, for the signal's label; for each where there is none."""
    if pooling not in comparison.held_out:  # its fits do not arrive
        return ()
    labels = comparison.classes.tolist()
    shown = range(min(len(labels), _MOST_LABELS)) if signal is None else [labels.index(signal)]
    return tuple(_quality(comparison, pooling, k) for k in shown)


def _quality(comparison: Comparison, pooling: str, label: int) -> Quality:
    held, level = comparison.held_out[pooling], comparison.level
    positive, scores = comparison.index == label, held.scores_of(label)
    chances, prevalence = held.probabilities[:, label], float(positive.mean())
    false, true = roc_points(positive, scores)
    brier = brier_score(positive, chances)
    half = reach_of(level) * brier.standard_error
    return Quality(
        str(comparison.classes[label]),
        prevalence,
        area(positive, scores, comparison.folds).interval(level),
        (tuple(false.tolist()), tuple(true.tolist())),
        calibration_curve(positive, chances, level=level),
        Interval(float(brier), max(float(brier) - half, 0.0), min(float(brier) + half, 1.0)),
        prevalence * (1 - prevalence),
    )


def set_against(comparison: Comparison, pooling: str) -> dict[str, Difference]:
    """What the AUC of a pooling is above that of each other one; none where its fits fail."""
    areas = comparison.areas()
    if pooling not in areas:
        return {}
    return {
        name: difference(areas[pooling], other, comparison.level)
        for name, other in areas.items()
        if name != pooling
    }


def learning_curve_of(pilot: Pilot, plans: Sequence[PilotPlan]) -> tuple[CurvePoint, ...]:
    """Errors that were measured, and those forecast for other numbers of bags."""
    metric, reach = pilot.setting.metric, reach_of(pilot.level)
    points = []
    for measured in pilot.measured:
        value, half = measured.value(metric), reach * measured.standard_error(metric)
        error = Interval(value, max(value - half, 0.0), min(value + half, 1.0))
        points.append(CurvePoint(True, measured.classifier, measured.samples, error))
    for plan in plans:
        samples = plan.question.samples
        assert samples is not None
        for option in plan.options:
            error = Interval(option.value, option.low, option.high)
            points.append(CurvePoint(False, option.classifier, samples, error))
    return tuple(sorted(points, key=lambda point: (point.measured, point.classifier, point.bags)))


def sizes_of_tests(quality: Quality, level: float) -> tuple[TestSize, ...]:
    """Test bags that show an AUC, more or less exactly; none where all are ranked wrong."""
    auc, low, _ = quality.auc

    def needed(value: float, half_width: float) -> int:
        better = max(value, 1 - value)  # of the other label, where it is below one half
        return test_bags_needed(better, quality.prevalence, half_width, level)

    return tuple(
        TestSize(half, needed(auc, half) if auc < 1 else None, needed(low, half))
        for half in _HALF_WIDTHS
        if low > 0
    )


def telling_tokens(
    classifier: BagClassifier,
    bags: Walked,
    comparison: Comparison,
    pooling: str,
    signal: Any,
    names: Sequence[str] | None = None,
) -> tuple[TellingToken, ...]:
    """The bags with the most telling token, by a classifier fitted to all of them.

    Raises
    ------
    InvalidInput
        The classifier says nothing of single tokens.
    """
    values = classifier.token_values(bags, label=signal)
    parts = values["contribution"]
    label = comparison.classes.tolist().index(signal)
    chances = comparison.held_out[pooling].probabilities[:, label]
    tops = np.array([part.max() for part in parts])
    tokens = []
    for bag in np.argsort(-tops, kind="stable")[:_MOST_TOKENS].tolist():
        place = int(np.argmax(parts[bag]))
        weights = values["attention"][bag] if "attention" in values else None
        tokens.append(
            TellingToken(
                str(bag) if names is None else names[bag],
                str(comparison.classes[comparison.index[bag]]),
                place,
                len(parts[bag]),
                float(tops[bag]),
                None if weights is None else float(weights[place]),
                float(chances[bag]),
            )
        )
    return tuple(tokens)

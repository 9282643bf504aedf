r"""The sigmoid of scores: P(positive | score) = 1/(1 + e^{−slope·score − offset}).

A convex fit of one feature, the score. Platt's targets t, a little inside 0 and 1, keep it finite
where scores separate the classes: a sample counts as positive with weight t, as negative with the
rest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsetoken.fitting.fit import fit
from sparsetoken.model.losses import Logistic
from sparsetoken.support.arrays import FloatArray

_LEAST_RIDGE = 1e-12  # of scores of size 1: keeps the slope solvable where all are alike


class Sigmoid(NamedTuple):
    """1/(1 + e^{−slope·score − offset}), slope ≥ 0; the first one leaves scores as they are."""

    slope: float = 1.0
    offset: float = 0.0

    def logit(self, scores: FloatArray) -> FloatArray:
        """The scores, scaled and shifted."""
        return self.slope * scores + self.offset


def fit_sigmoid(
    scores: FloatArray, labels: FloatArray, weights: FloatArray, shifted: bool = True
) -> Sigmoid:
    """The sigmoid that fits scores (n,) of samples with labels ±1 and weights; of offset 0 if not
    `shifted`.

    >>> labels = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    >>> scores = np.array([3.0, 2.0, -1.0, 1.0, -2.0, -2.0])
    >>> slope, offset = fit_sigmoid(scores, labels, np.ones(6))
    >>> slope > 0, fit_sigmoid(-scores, labels, np.ones(6)).slope
    (True, 0.0)
    """
    up, down = float(weights[labels > 0].sum()), float(weights[labels < 0].sum())
    target = np.where(labels > 0, (up + 1) / (up + 2), 1 / (down + 2))
    scale = max(float(np.sqrt(np.average(scores**2, weights=weights))), 1e-12)
    features = np.concatenate([scores, scores]) / scale
    sides = np.repeat([1.0, -1.0], len(scores))
    counts = np.concatenate([weights * target, weights * (1 - target)])
    if not shifted:  # each sample's mirror image beside it: their best offset is 0
        features, sides = np.append(features, -features), np.append(sides, -sides)
        counts = np.append(counts, counts)
    fitted = fit(
        features[:, None],
        sides,
        Logistic(),
        _LEAST_RIDGE,
        weights=counts,
        start=(np.array([scale]), 0.0),  # scores of a logistic readout are nearly calibrated
    )
    slope = float(fitted.weights[0]) / scale
    if slope <= 0:  # scores say nothing, or the opposite: only the prevalence is left
        chance = float(np.average(target, weights=weights))
        return Sigmoid(0.0, math.log(chance / (1 - chance)))
    return Sigmoid(slope, fitted.bias if shifted else 0.0)

"""What one run of the protocol at finite size leaves behind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparsetoken.fitting.joint import Trained
from sparsetoken.fitting.objective import Fitted
from sparsetoken.model.classifiers import Query
from sparsetoken.model.law import Readout
from sparsetoken.model.losses import Loss
from sparsetoken.model.protocol import Protocol
from sparsetoken.simulation.pooling import PositionReadout, TokenReadout
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.devices import to_numpy

Training = Literal["stages", "joint", "joint from stages", "joint with free query"]

AnyReadout = Readout | TokenReadout | PositionReadout  # in a law's coordinates, or of colours

_NAN = math.nan


@dataclass(frozen=True, eq=False)
class Outcome:
    """One repeat. A repeat without a fit has a `status` that says why, and no numbers."""

    query: Query | None = None
    readout: AnyReadout | None = None
    readout_norm: float = _NAN  # ‖w‖
    train_error: float = _NAN
    train_loss: float = _NAN
    test_error: float = _NAN
    certificate: float = _NAN
    status: str = "ok"
    only_class: float = 0.0  # the label of all readout samples, if they had but one
    seconds: float = _NAN
    cosines: tuple[float, ...] = ()  # of what a learner has after each of its rounds


def one_class(labels: FloatArray, query: Query | None = None) -> Outcome | None:
    """What is left where no readout can be fitted to these labels; None if one can."""
    if abs(labels.sum()) < len(labels):
        return None
    sign = "positive" if labels[0] > 0 else "negative"
    words = f"one class only: all {len(labels)} readout samples are {sign}"
    return Outcome(query=query, status=words, only_class=float(labels[0]))


def query_of(vector: FloatArray, axis: FloatArray, protocol: Protocol) -> Query:
    """A query (d,) as the theory sees it."""
    norm = float(np.linalg.norm(vector))
    return Query(float(vector @ axis), norm, protocol.inverse_temperature * norm)


def outcome_of(
    fitted: Fitted | Trained,
    labels: FloatArray,
    loss: Loss,
    readout: AnyReadout | None,
    test_error: float,
    query: Query | None = None,
) -> Outcome:
    """What a fit to samples with these labels leaves: a tie counts half an error, and the loss is
    the mean without the ridge term."""
    margin = labels * to_numpy(fitted.scores)
    return Outcome(
        query=query,
        readout=readout,
        readout_norm=float(np.linalg.norm(to_numpy(fitted.weights))),
        train_error=float(np.mean(margin < 0) + 0.5 * np.mean(margin == 0)),
        train_loss=float(np.mean(loss.value(margin))),
        test_error=test_error,
        certificate=fitted.certificate,
    )

"""The steps that align the query best with the signal."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from sparsetoken.model.losses import Loss
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.theory.alignment import align


class Steps(NamedTuple):
    """Of readout and bias, and the cosine they give."""

    readout: float
    bias: float
    cosine: float


def best_steps(task: Task, loss: Loss, query_samples: float) -> Steps:
    """The readout and bias step with the highest cosine.

    The logits of the query's step are then all but the bias: a larger readout step only adds noise
    to them. With rare positives the bias step matters: too small or too large, it turns the query
    away from the signal.
    """
    readout = 0.01

    def miss(log_bias: float) -> float:
        steps = {"readout_step": readout, "bias_step": math.exp(log_bias)}
        return -align(task, Protocol(query_samples, 1.0, loss, **steps)).cosine

    if task.prevalence == 0.5:  # the classes' slopes cancel, the bias stays 0
        return Steps(readout, 1.0, -miss(0.0))
    grid = np.log(np.geomspace(0.03, 100.0, 15))
    values = [miss(x) for x in grid]
    best = int(np.argmin(values))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(miss, bounds=ends, method="bounded", options={"xatol": 1e-4})
    x, value = (found.x, found.fun) if found.fun < values[best] else (grid[best], values[best])
    return Steps(readout, math.exp(x), -float(value))

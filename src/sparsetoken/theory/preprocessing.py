"""How much to whiten: the shrinkage with which a classifier makes the fewest mistakes."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.preprocessing import whitened
from sparsetoken.model.protocol import Protocol, check_kinds
from sparsetoken.model.task import Task
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory.prediction import predict

_TRIED = (0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0)
_LEAST = 1e-4  # of a shrinkage between those tried
_DIGITS = 1e-2  # of its logarithm: errors hardly move with it


class Shrinkage(NamedTuple):
    """How much to whiten, and what that is worth.

    >>> Shrinkage(0.1, Estimate(0.05), Estimate(0.08), Estimate(0.06)).shrinkage
    0.1
    """

    shrinkage: float
    test_error: Estimate
    unwhitened: Estimate  # test error without it
    white: Estimate  # test error after full whitening


def best_shrinkage(task: Task, classifier: Classifier, protocol: Protocol) -> Shrinkage:
    """The γ of `whitened(task, γ)` with the least predicted test error; Σ is taken to be known.

    The ridge is kept in units of the features: it grows with the mean variance of the tokens.

    Parameters
    ----------
    task : Task
        What a sample is.
    classifier : Classifier
        Whose test error counts.
    protocol : Protocol
        How it is trained.

    Returns
    -------
    Shrinkage
        `.shrinkage`, its `.test_error`, and those without whitening and after all of it.

    Raises
    ------
    InvalidInput, NoMinimiserError, ConvergenceError
        As of `predict`.

    Examples
    --------
    >>> from sparsetoken import Pooled, Spectrum
    >>> task = Task(5, 1, 4.0, noise=Spectrum((0.1, 3.0), (0.7, 0.3)))
    >>> best = best_shrinkage(task, Pooled(), Protocol(readout_samples=2.0, ridge=0.1))
    >>> best.test_error <= min(best.white, best.unwhitened)
    True
    """
    check_kinds("best_shrinkage", task, classifier, protocol)

    def error(shrinkage: float) -> Estimate:
        return _error(whitened(task, shrinkage), classifier, protocol)

    tried = [error(value) for value in _TRIED]
    place = int(np.argmin([float(value) for value in tried]))
    best, least = _TRIED[place], tried[place]
    low, high = _TRIED[max(place - 1, 0)], _TRIED[min(place + 1, len(_TRIED) - 1)]
    search = minimize_scalar(
        lambda log: float(error(float(np.exp(log)))),
        bounds=(np.log(max(low, _LEAST)), np.log(high)),
        method="bounded",
        options={"xatol": _DIGITS},
    )
    if search.fun < float(least):
        best, least = float(np.exp(search.x)), error(float(np.exp(search.x)))
    plain = error(1.0) if task.is_white else _error(task, classifier, protocol)
    return Shrinkage(best, least, plain, tried[0])


def _error(task: Task, classifier: Classifier, protocol: Protocol) -> Estimate:
    """Test error with the ridge in units of the tokens' mean variance."""
    variance = task.noise.mean_variance
    return predict(task, classifier, replace(protocol, ridge=protocol.ridge * variance)).test_error

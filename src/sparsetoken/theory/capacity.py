r"""Where data stop being linearly separable (Conjecture 1), for any feature law.

n samples in p dimensions are separable with high probability iff n/p < α*, with

    1/α* = min_{w,b} E[ (s G − y(Σ m_k w_k + b)/σ)₊² ],    s² = 1 + Σ_noisy w_k²,

a convex problem: E[(sG + μ)₊²] = (μ² + s²)Φ(μ/s) + μ s φ(μ/s).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from sparsetoken.model.law import FeatureLaw
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory.several_capacity import (
    proportional_law,
    several_threshold,
    whitened_law,
)

# What a Newton step would still win, relative to the minimum: the aim, and what is certified where
# rounding stops the descent first (far in a Gaussian tail).
_AIM, _CERTIFIED = 1e-12, 1e-9
_HIGHEST_GUESS = 1e4  # of samples per dimension
_NOTHING = 1e-300  # the floats end here


def separability_threshold(law: FeatureLaw) -> Estimate:
    """α*: n/p below which samples of a law are linearly separable (Conjecture 1, above).

    p counts features; `capacity(task, classifier)` gives samples per embedding dimension.

    Parameters
    ----------
    law : FeatureLaw
        Of the features.

    Returns
    -------
    Estimate
        α*.

    Raises
    ------
    ConvergenceError
        If the minimum is not reached.

    Notes
    -----
    For a sampled law (attention) the standard error comes from 16 parts of its cloud: with atoms
    drawn as they come some percent at a few hundred samples per dimension, and biased upwards,
    since the minimum fits what rare samples there are; with the law of `Attention.tail_law`, which
    `capacity` takes, a part in a thousand. The result is inf, with standard error inf, if the
    sampled atoms are separable themselves: then the threshold is beyond what the cloud resolves.
    For an exact law it is inf only beyond the floats.

    Examples
    --------
    >>> from sparsetoken.model.classifiers import Pooled
    >>> from sparsetoken.model.task import Task
    >>> round(separability_threshold(Pooled().law(Task(length=1, sparsity=1, strength=0.0))), 6)
    2.0
    """
    if law.geometry is not None:
        if law.geometry.covariances == 1:
            return separability_threshold(whitened_law(law))
        guess = float(separability_threshold(whitened_law(proportional_law(law.compressed))))
        return several_threshold(law, min(guess, _HIGHEST_GUESS))
    size = len(law.noisy) + 1
    point = np.zeros(size)
    gain = np.inf
    for _ in range(2000):
        value, gradient, hessian = _objective(law, point)
        if value < _NOTHING:
            return Estimate(np.inf, np.inf if law.sampled else 0.0)
        step = -np.linalg.solve(hessian + 1e-14 * np.trace(hessian) * np.eye(size), gradient)
        gain = -0.5 * float(gradient @ step) / value  # what a full Newton step would still win
        if gain <= _AIM:
            return _estimate(law, point, value)
        better = _search(law, point, step, value)
        if better is None and gain <= _CERTIFIED:
            return _estimate(law, point, value)
        if better is None:
            break
        point = better
    raise ConvergenceError(
        f"capacity: a relative decrease of {gain:.1e} is left, {_CERTIFIED:g} is required"
    )


def _estimate(law: FeatureLaw, point: FloatArray, value: float) -> Estimate:
    """1/value; at the minimum its error is that of the average alone, to first order."""
    average = law.average(_atoms(law, point))
    return Estimate(1.0 / value, average.standard_error / value**2)


def _search(
    law: FeatureLaw, point: FloatArray, step: FloatArray, value: float
) -> FloatArray | None:
    """A point along the step with a smaller objective: halved if need be, doubled while it pays.

    The objective falls like a Gaussian tail, on which plain Newton steps are far too short.
    """

    def value_at(length: float) -> float:
        return float(law.weights @ _atoms(law, point + length * step))

    length, trial = 1.0, value_at(1.0)
    while not trial < value:
        length *= 0.5
        if length < 1e-12:
            return None
        trial = value_at(length)
    while (further := value_at(2 * length)) < trial and length < 1e6:
        length, trial = 2 * length, further
    return point + length * step


def _margins(law: FeatureLaw, point: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """t = μ/s of sG + μ for each atom, the derivative of μ (atoms, K+1), and s."""
    slopes = law.design * (-law.labels / law.scales)[:, None]
    s = float(np.sqrt(1.0 + law.noisy @ point[:-1] ** 2))
    return slopes @ point / s, slopes, s


def _atoms(law: FeatureLaw, point: FloatArray) -> FloatArray:
    """E[(sG + μ)₊²] of every atom."""
    t, _, s = _margins(law, point)
    return s * s * ((t * t + 1) * ndtr(t) + t * _density(t))


def _objective(law: FeatureLaw, point: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Value, gradient and Hessian in (w, b)."""
    t, slopes, s = _margins(law, point)
    tail, density = ndtr(t), _density(t)
    p = law.weights
    value = s * s * (p @ ((t * t + 1) * tail + t * density))
    by_mean = p * 2 * s * (t * tail + density)
    by_scale = 2 * s * (p @ tail)
    ds = np.append(np.where(law.noisy, point[:-1], 0.0), 0.0) / s
    gradient = by_mean @ slopes + by_scale * ds
    mixed = np.outer((p * 2 * density) @ slopes, ds)
    hessian = (slopes.T * (p * 2 * tail)) @ slopes + mixed + mixed.T
    hessian += 2 * (p @ (tail - t * density)) * np.outer(ds, ds)
    hessian += by_scale / s * (np.diag(np.append(law.noisy, 0.0)) - np.outer(ds, ds))
    return float(value), gradient, hessian


def _density(t: FloatArray) -> FloatArray:
    return np.exp(-0.5 * t * t) / np.sqrt(2 * np.pi)

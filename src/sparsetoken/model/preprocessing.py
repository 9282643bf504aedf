r"""Tokens multiplied by a matrix before anything else, as another task.

With T = T(Σ), tokens Tx have the noise covariance TΣT, the signal covariance TCT and the signal
θTξ: eigenvalues times T², the signal's shares times T² (with sum one again), the length that the
signal loses or gains in the strength. Shrunk whitening is T = ((1−γ)Σ + γ tr̄Σ I)^−½: γ = 0 makes
noise white, with eigenvalues that are 1 and not nearly so; γ = 1 only changes the units.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsetoken.model.covariances import Covariances, Spectrum, White
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real
from sparsetoken.support.errors import InvalidInput

_PROPORTIONAL = 1e-13  # ‖C − cΣ‖ relative to ‖C‖


def whitened(task: Task, shrinkage: float = 0.0) -> Task:
    """The task of tokens that are multiplied by ((1−γ)Σ + γ tr̄Σ I)^−½, Σ known.

    Parameters
    ----------
    task : Task
        What a sample is.
    shrinkage : float
        γ, from 0 (noise becomes white) to 1 (nothing but the units changes).

    Returns
    -------
    Task
        The same labels, places and ratios of signal to noise in every direction.

    Raises
    ------
    InvalidInput
        For a shrinkage outside 0 to 1.

    Examples
    --------
    >>> task = Task(10, 1, 3.0, noise=Spectrum((0.25, 4.0), signal_share=(0.8, 0.2)))
    >>> round(whitened(task).strength, 3), whitened(task).noise
    (5.408, White())
    >>> whitened(task, shrinkage=0.5).noise.eigenvalues
    (0.21052631578947367, 1.3061224489795917)
    """
    if not isinstance(task, Task):
        raise InvalidInput(f"whitened: task must be a Task, got {task!r}")
    shrinkage = real("whitened", "shrinkage", shrinkage, least=0, most=1)
    if isinstance(task.noise, Covariances):
        noise, stretch = _of_matrices(task.noise, shrinkage)
        return replace(task.weakened(stretch), noise=noise)
    joint = task.joint_spectrum
    assert joint is not None  # only matrices may not commute
    mean = float(joint.density @ joint.noise)
    square = 1.0 / ((1 - shrinkage) * joint.noise + shrinkage * mean)  # T²
    stretch = float(np.sqrt(joint.share @ square))
    if shrinkage == 0 and (joint.is_proportional or not task.has_spread):
        spread = task.signal_spread
        ratio = joint.ratio if isinstance(spread, tuple) else spread
        return replace(task.weakened(stretch), noise=White(), signal_spread=ratio)
    share = joint.share * square / stretch**2
    noise_values = np.ones_like(square) if shrinkage == 0 else joint.noise * square
    values = (noise_values, joint.density, share / share.sum())
    noise_after = Spectrum(*(tuple(value.tolist()) for value in values))
    spread = tuple((joint.signal * square).tolist()) if task.has_spread else None
    return replace(task.weakened(stretch), noise=noise_after, signal_spread=spread)


def _of_matrices(noise: Covariances, shrinkage: float) -> tuple[Covariances, float]:
    """The matrices of the tokens after it, and by how much the signal is longer."""
    sigma, c, xi = noise.arrays
    values, vectors = np.linalg.eigh(sigma)
    roots = ((1 - shrinkage) * values + shrinkage * values.mean()) ** -0.5
    turn = (vectors * roots) @ vectors.T
    signal = turn @ xi
    made = Covariances(
        np.eye(len(sigma)) if shrinkage == 0 else _around(turn, sigma),
        None if c is None else _after(turn, sigma, c, shrinkage),
        signal,
    )
    return made, float(np.linalg.norm(signal))


def _after(turn: FloatArray, sigma: FloatArray, c: FloatArray, shrinkage: float) -> FloatArray:
    """C of the tokens after it: a number times I where all of it makes C = cΣ white."""
    ratio = float(np.vdot(c, sigma) / np.vdot(sigma, sigma))
    if shrinkage == 0 and np.linalg.norm(c - ratio * sigma) <= _PROPORTIONAL * np.linalg.norm(c):
        return ratio * np.eye(len(sigma))
    return _around(turn, c)


def _around(turn: FloatArray, matrix: FloatArray) -> FloatArray:
    """TΣT, symmetric to the last digit."""
    after = turn @ matrix @ turn
    return np.asarray(0.5 * (after + after.T))

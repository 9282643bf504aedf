r"""`Fit`: the fitted readout and what it achieves (Theorems 4 and 5), as data.

With μ = Σ m_k w_k + b the mean score of an atom, r the noise of scores and V = σ²χ,

    test error   E Φ(−yμ/(σr))                 train loss   E ℓ(prox(ω; V)),  ω = μ + σrG
    train error  E Φ((Vℓ′(0) − yμ)/(σr)):  prox(ω; V) has the wrong sign iff yω < Vℓ′(0).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr

from sparsetoken.model.law import FeatureLaw, Readout
from sparsetoken.model.losses import Loss
from sparsetoken.model.scores import Scores
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.estimate import Estimate
from sparsetoken.support.showing import Shown
from sparsetoken.theory.saddle import LEAST_NOISE, Saddle
from sparsetoken.theory.several import SeveralSaddle

if TYPE_CHECKING:
    import pandas as pd

_SOME_POINTS = 512  # of a sampled law, on which the standard error of a training loss is found


class Gap(NamedTuple):
    """What it costs to solve on fewer atoms than the law has; zero where all were used."""

    residual: float  # of the solution, on the law itself
    test_error: float  # how far it is from that of the law's own solution
    train_loss: float


def problem_of(law: FeatureLaw, loss: Loss, ridge: FloatArray, alpha: FloatArray) -> Saddle:
    """The equations of fits to samples of a law."""
    kind = Saddle if law.geometry is None else SeveralSaddle
    return kind(law, loss, ridge, alpha)


Part = float | FloatArray


def unpacked(law: FeatureLaw, state: FloatArray) -> tuple[FloatArray, float, Part, Part]:
    """w, b, ρ and χ of one state (w, b, log ρ, log χ), or (w, b) in the population limit; with a
    geometry M, b, r_j and χ_j."""
    size = law.means.shape[1]
    weights, bias, logs = state[:size].copy(), float(state[size]), state[size + 1 :]
    if law.geometry is None:
        rest, chi = np.exp(logs) if len(logs) else (0.0, 0.0)
        return weights, bias, float(rest), float(chi)
    noise, chis = np.exp(logs[: len(law.noisy)]), np.exp(logs[len(law.noisy) :])
    return weights, bias, noise, chis if len(chis) else np.zeros_like(noise)


@dataclass(frozen=True, eq=False)
class Fit(Shown):
    """The fitted readout and what it achieves, in the limit.

    `residual` is the largest scale-free residual of the equations that define the fit, on the atoms
    of `law.refined`: of the law itself if that has at most 4096 atoms, else of one or two thousand
    atoms with the same moments, and `gap` says what that costs. `iterations` counts evaluations.
    Numbers of a sampled law carry a standard error. `weights` are the coordinates w_k,
    `rest` is ρ, `noise` is r, `susceptibility` is χ (0 in the population limit). Where noise has
    several covariances (`law.geometry`) `weights` are M = Dᵀw, `rest` and `noise` both the r_j, and
    `susceptibility` the χ_j, shape (J,).

    >>> from sparsetoken import Pooled, Square, Task, solve
    >>> fit = solve(Pooled().law(Task(length=4, sparsity=1, strength=6.0)), Square(), 0.1, 5.0)
    >>> fit.residual < 1e-9, fit.noise > fit.rest, fit.test_error > fit.train_error
    (True, True, True)
    """

    law: FeatureLaw
    loss: Loss
    ridge: float
    samples_per_dim: float
    weights: FloatArray
    bias: float
    rest: float | FloatArray
    susceptibility: float | FloatArray
    residual: float
    iterations: int

    converged = True  # a fit that did not converge is raised, never returned

    @property
    def objective(self) -> str:
        """What was minimised, in words."""
        return f"mean of {self.loss!r} + ({self.ridge:g}/2)·|w|², bias not penalised"

    def paragraphs(self) -> Iterator[str | pd.DataFrame]:
        """What was minimised, and what that achieves."""
        yield f"{self.objective}; {self.samples_per_dim:g} samples per feature"
        yield from self._numbers()

    def _numbers(self, **more: float) -> Iterator[pd.DataFrame]:
        """A table of one row."""
        import pandas as pd

        names = ("test_error", "train_error", "train_loss", "auc", "bias")
        yield pd.DataFrame([{name: getattr(self, name) for name in names} | more])

    @property
    def noise(self) -> float | FloatArray:
        """r: norm of the readout on everything the features' noise reaches; (J,) r_j of several."""
        if self.law.geometry is not None:
            return self.rest
        return float(np.sqrt(self.rest**2 + self.weights**2 @ self.law.noisy))

    @property
    def norm(self) -> float:
        """‖w‖, the norm of the whole readout."""
        return self.problem(self.law.refined).norm(self.state[None])

    @property
    def state(self) -> FloatArray:
        """The solution as the solver has it: (w, b, log ρ, log χ), or (w, b) in the limit."""
        wb, population = np.append(self.weights, self.bias), np.isinf(self.samples_per_dim)
        if self.law.geometry is not None:
            chi = np.empty(0) if population else self.susceptibility
            return np.concatenate([wb, np.log(self.rest), np.log(chi)])
        if population:
            return wb
        return np.append(wb, np.log(np.array([self.rest, self.susceptibility], dtype=float)))

    def problem(self, law: FeatureLaw) -> Saddle:
        """The equations of this fit on a law: its own, or a smaller one."""
        ridge, samples = np.array([self.ridge]), np.array([self.samples_per_dim])
        return problem_of(law, self.loss, ridge, samples)

    @property
    def readout(self) -> Readout:
        return Readout(self.weights, self.bias, self.noise)

    @cached_property
    def scores(self) -> Scores:
        """The test scores of both classes, with every metric: ROC, AUC, average precision, …"""
        return self.law.scores(self.readout)

    @property
    def test_error(self) -> Estimate:
        """Probability that a fresh sample is misclassified."""
        return self.scores.test_error

    @property
    def auc(self) -> Estimate:
        """Probability that a fresh positive sample scores above a fresh negative one."""
        return self.scores.auc

    def roc(self, points: int = 201) -> tuple[FloatArray, FloatArray]:
        """False and true positive rates, both rising from 0 to 1."""
        return self.scores.roc(points)

    @cached_property
    def train_loss(self) -> Estimate:
        """Mean loss on the training samples, without the ridge term."""
        law = self.law.refined
        mean = float(law.weights @ self._training_losses(law))
        if not self.law.sampled:
            return Estimate(mean)
        return Estimate(mean, self._train_loss_error)

    def _margins(self, law: FeatureLaw) -> FloatArray:
        return law.labels * (law.means @ self.weights + self.bias)

    def _training_losses(self, law: FeatureLaw) -> FloatArray:
        """E ℓ(prox(ω; V)) of every atom."""
        deviation = law.deviations(np.maximum(self.noise, LEAST_NOISE))
        variance = law.variances(self.susceptibility)
        return self.loss.mean_value(self._margins(law), deviation, variance)

    def _train_loss_error(self) -> float:
        """From the first points of the cloud; an error falls at least like 1/√points."""
        some = self.law.head(_SOME_POINTS)
        points = len(self.law.labels) / len(some.labels)
        return some.average(self._training_losses(some)).standard_error / math.sqrt(points)

    @cached_property
    def train_error(self) -> Estimate:
        """Fraction of training samples on the wrong side."""
        if np.isinf(self.samples_per_dim):
            return self.test_error
        law = self.law
        reach = law.variances(self.susceptibility) * float(self.loss.slope(0.0))
        return law.average(ndtr((reach - self._margins(law)) / law.deviations(self.noise)))

    @cached_property
    def gap(self) -> Gap:
        """How far the law that was solved on, `law.refined`, is from `law` itself.

        One Newton step on the law itself leads from this solution to its own, up to the square of
        the residual there. Takes a moment: the cloud of attention has 65,536 atoms.
        """
        if self.law.refined is self.law:
            return Gap(self.residual, 0.0, 0.0)
        g, jacobian = self.problem(self.law).equations(self.state[None])
        state = self.state + np.linalg.solve(jacobian[0], -g[0])
        weights, bias, rest, chi = unpacked(self.law, state)
        moved = replace(self, weights=weights, bias=bias, rest=rest, susceptibility=chi)
        return Gap(
            float(np.abs(g).max()),
            abs(float(moved.test_error) - float(self.test_error)),
            abs(float(self.law.weights @ moved._training_losses(self.law)) - self.train_loss),
        )

r"""What is possible at all (Proposition 1, Theorems 1 and 2): the best error when ξ is known.

Tokens enter through g_l = ⟨x_l, ξ⟩ ~ N(θv_l, 1). The best error over all parameters of

* `Pooled`: κ = θR/√L, πΦ(c−κ) + (1−π)Φ(−c) at c = κ/2 + log((1−π)/π)/κ; exact.
* `Vectorized`: min over unit a ∈ R^L and c of πE_vΦ(c − θ⟨a,v⟩) + (1−π)Φ(−c); no sampling.
* `Attention`: q = τξ, w = ξ; the statistic T = ⟨softmax(τg), g⟩ against c, best (τ, c). τ = ∞, the
  maximum, is allowed and often best; it is exact: πΦ(c)^{L−R}Φ(c−θ)^R + (1−π)(1−Φ(c)^L).
* the Bayes test: e_R(pe^{θg})/e_R(p) · e^{−Rθ²/2} against (1−π)/π, p the position weights. It is
  the floor under every classifier.

Any other classifier, task or weighting is met with the best linear readout of its law (`laws`), and
its Bayes error with draws of the posterior (`posterior`).

With coloured noise all of this is as in white noise for a stronger or weaker signal; a signal with
a spread of its own has a Bayes test and a best mean pooling (`whitening`).

Attention and Bayes are sampled with one token integrated out. Standard errors are spreads over 16
independent scrambles of a Sobol sequence. For more than 512 tokens see `extremes`, whose central
limit is the only approximation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch
from typing import Any, Protocol

from sparsetoken.model.classifiers import Attention, Classifier, Pooled
from sparsetoken.model.covariances import White
from sparsetoken.model.protocol import check_classifier, check_task
from sparsetoken.model.task import Task
from sparsetoken.model.vectorized import Vectorized
from sparsetoken.model.weightings import SOFTMAX, HardMax
from sparsetoken.oracles.attention import AttentionOracle
from sparsetoken.oracles.bayes import bayes_oracle
from sparsetoken.oracles.exact import Gaussian, MeanOrMaximum, check_plain
from sparsetoken.oracles.extremes import draw_rest
from sparsetoken.oracles.laws import LawOracle
from sparsetoken.oracles.linear import LinearOracle
from sparsetoken.oracles.posterior import PosteriorOracle
from sparsetoken.oracles.thresholds import trivial_error
from sparsetoken.oracles.whitening import (
    SpreadPooled,
    check_one_signal,
    spread_error,
    spread_refusal,
    whitened,
    whitened_length,
)
from sparsetoken.support.checks import real, whole
from sparsetoken.support.estimate import Estimate


def oracle_error(task: Task, classifier: Classifier, *, seed: int = 0) -> Estimate:
    """The smallest error of a classifier on a task over all its parameters, the signal ξ known.

    What infinitely many samples could reach. For `Pooled` it is πΦ(c−κ) + (1−π)Φ(−c) at
    c = κ/2 + log((1−π)/π)/κ, κ = θR/√L; the module docstring has the others.

    Parameters
    ----------
    task : Task
        What a sample is.
    classifier : Classifier
        The cosine and sharpness of a frozen `Attention` are ignored: here the query points along ξ.
    seed : int
        Of the draws. Only softmax attention draws anew with another one, where its best sharpness
        is finite.

    Returns
    -------
    Estimate
        The error, with a `standard_error` where it is sampled; `sharpness` is the best τ of
        attention (inf for the maximum).

    Raises
    ------
    InvalidInput
        For an argument of the wrong kind, or a task on which the classifier has no oracle.
    ConvergenceError
        If the best readout is not found.

    Examples
    --------
    >>> task = Task(length=10, sparsity=1, strength=3.0)
    >>> round(oracle_error(task, Pooled()), 6)
    0.317628
    >>> attention = oracle_error(task, Attention())
    >>> abs(attention - 0.1578) < 1e-3, attention.standard_error < 1e-4, attention.sharpness > 0.5
    (True, True, True)
    """
    check_task("oracle_error", task)
    seed = whole("oracle_error", "seed", seed, least=0)
    check_classifier("oracle_error", classifier)
    if task.has_spread:
        return _with_spread(classifier, task)
    task = whitened("oracle_error", task)
    return _oracle(classifier, task, seed).error(task.strength)


def bayes_error(task: Task, *, dim: int | None = None, seed: int = 0) -> Estimate:
    """The error of the likelihood-ratio test with every parameter known: the floor.

    The test compares e_R(pe^{θg})/e_R(p) · e^{−Rθ²/2} with (1−π)/π, g the tokens along ξ and p the
    position weights.

    Parameters
    ----------
    task : Task
        What a sample is. With coloured noise the signal's strength counts in units of the noise
        around it, θ√(ξᵀΣ⁻¹ξ). Where signal tokens have a covariance of their own, their squares
        tell them from noise: the more dimensions, the better, so that the limit of the error is 0.
    dim : int, optional
        Embedding dimension d, for a signal with a spread; without a spread the error is the same in
        every dimension. None for the limit, or for the dimension of the task's matrices.
    seed : int
        Of the draws.

    Returns
    -------
    Estimate
        The error, with its standard error.

    Raises
    ------
    InvalidInput
        For a task with position weights whose strength or sparsity varies or whose tokens share
        noise, or one that takes too many terms.

    Examples
    --------
    >>> task = Task(length=10, sparsity=1, strength=3.0)
    >>> bayes_error(task) < oracle_error(task, Attention()) < oracle_error(task, Pooled())
    True
    """
    check_task("bayes_error", task)
    seed = whole("bayes_error", "seed", seed, least=0)
    if task.has_spread:
        return spread_error("bayes_error", task, dim, seed)
    if dim is not None:
        task.noise.counts(whole("bayes_error", "dim", dim, least=1))
    task = whitened("bayes_error", task)
    if task.uniform_places and not task.is_plain:
        return PosteriorOracle(task, seed).error()
    check_plain("bayes_error", task, "with position weights")
    return bayes_oracle("bayes_error", task, seed).error(task.fixed_strength)


def signal_threshold(
    task: Task, classifier: Classifier | None = None, *, error: float, seed: int = 0
) -> Estimate:
    """The smallest strength θ at which the oracle error is `error`; `task.strength` is ignored.

    Parameters
    ----------
    task : Task
        With one strength (which is not used) and one sparsity, tokens independent.
    classifier : Classifier, optional
        As in `oracle_error`; None for the Bayes test.
    error : float
        To be reached, between 0 and 0.5.
    seed : int
        Of the draws.

    Returns
    -------
    Estimate
        θ; 0 for an error that needs no signal (at least min(π, 1−π)), inf for one that no strength
        reaches. Its standard error is that of the error, divided by `|d error/dθ|`.

    Raises
    ------
    InvalidInput
        For values that are not allowed, or an error too small to be counted in draws.
    ConvergenceError
        If the strength is not found.

    Examples
    --------
    >>> [round(signal_threshold(Task(length, 1, 0.0), Pooled(), error=0.01), 3)
    ...  for length in (100, 10_000)]
    [46.527, 465.27]
    """
    owner = "signal_threshold"
    check_task(owner, task)
    seed = whole(owner, "seed", seed, least=0)
    error = real(owner, "error", error, above=0, below=0.5)
    if classifier is not None:
        check_classifier(owner, classifier)
    if not task.is_white:
        if task.has_spread:
            raise spread_refusal(owner, task)
        white = replace(task, noise=White(), strength=1.0)
        strength = signal_threshold(white, classifier, error=error, seed=seed)
        length = whitened_length(task)
        spread = strength.standard_error / length
        return Estimate(strength / length, spread, strength.sharpness)
    check_plain(owner, task)
    if error >= trivial_error(task.prevalence):
        return Estimate(0.0)
    if classifier is None:
        return bayes_oracle(owner, task, seed).threshold(error)
    return _oracle(classifier, task, seed).threshold(error)


@singledispatch
def _with_spread(classifier: Classifier, task: Task) -> Estimate:
    """The oracle error where signal tokens have a covariance of their own."""
    raise spread_refusal("oracle_error", task)


@_with_spread.register
def _(classifier: Pooled, task: Task) -> Estimate:
    check_one_signal("oracle_error", task)
    return SpreadPooled(task).error()


class Oracle(Protocol):
    """The error at a strength, and the strength at which an error is reached."""

    def error(self, strength: Any) -> Estimate: ...

    def threshold(self, error: float) -> Estimate: ...


@singledispatch
def _oracle(classifier: Classifier, task: Task, seed: int) -> Oracle:
    """What a classifier's law allows; below, what is known to be better, or exact."""
    return LawOracle(classifier, task)


@_oracle.register
def _(classifier: Pooled, task: Task, seed: int) -> Oracle:
    if not task.is_plain:
        return LawOracle(classifier, task)
    return Gaussian(task.fixed_sparsity / math.sqrt(task.length), task.prevalence)


@_oracle.register
def _(classifier: Vectorized, task: Task, seed: int) -> Oracle:
    check_plain("oracle_error", task, "for Vectorized")
    return LinearOracle(task)


@_oracle.register
def _(classifier: Attention, task: Task, seed: int) -> Oracle:
    if task.is_plain and task.sparsity == task.length:  # the mean is then the likelihood ratio
        return MeanOrMaximum(task).mean
    if task.is_plain and classifier.weighting == HardMax():
        return MeanOrMaximum(task)
    if task.is_plain and classifier.weighting == SOFTMAX:
        return AttentionOracle(task, draw_rest(task.length, task.sparsity, seed))
    return LawOracle(Attention(weighting=classifier.weighting), task)  # τ = 0 is among those tried

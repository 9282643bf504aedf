r"""What is possible at all (Proposition 1, Theorems 1 and 2): the best error when ξ is known.

Tokens enter through g_l = ⟨x_l, ξ⟩ ~ N(θv_l, 1). The best error over all parameters of

* `Pooled`: κ = θR/√L, πΦ(c−κ) + (1−π)Φ(−c) at c = κ/2 + log((1−π)/π)/κ; exact.
* `Vectorized`: min over unit a ∈ R^L and c of πE_vΦ(c − θ⟨a,v⟩) + (1−π)Φ(−c); no sampling.
* `Attention`: q = τξ, w = ξ; the statistic T = ⟨softmax(τg), g⟩ against c, best (τ, c). τ = ∞, the
  maximum, is allowed and often best; it is exact: πΦ(c)^{L−R}Φ(c−θ)^R + (1−π)(1−Φ(c)^L).
* the Bayes test: e_R(pe^{θg})/e_R(p) · e^{−Rθ²/2} against (1−π)/π, p the position weights. It is
  the floor under every classifier.

Tasks whose strength or sparsity vary or whose tokens share noise, and weightings other than
softmax, are the business of `sampled`.

The last two are sampled with one token integrated out. Standard errors are spreads over 16
independent scrambles of a Sobol sequence. For more than 512 tokens see `extremes`, whose central
limit is the only approximation.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Vectorized
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX
from sparsetoken.oracles import extremes, sampled
from sparsetoken.oracles.attention import AttentionOracle
from sparsetoken.oracles.bayes import BayesOracle, sampled_orders
from sparsetoken.oracles.exact import Gaussian, LinearOracle, not_plain, trivial_error
from sparsetoken.support.checks import real, whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate


def oracle_error(task: Task, classifier: Classifier, *, seed: int = 0) -> Estimate:
    """The smallest error of a classifier on a task over all its parameters, ξ known.

    `classifier` is Pooled(), Vectorized() or Attention(). The cosine and sharpness of a frozen
    `Attention` are ignored: here the query points along ξ, and the result's `sharpness` is the best
    (inf for the maximum). Only a finite best sharpness is sampled; then `seed` matters.

    >>> task = Task(length=10, sparsity=1, strength=3.0)
    >>> round(oracle_error(task, Pooled()), 6)
    0.317628
    >>> attention = oracle_error(task, Attention())
    >>> abs(attention - 0.1578) < 1e-3, attention.standard_error < 1e-4, attention.sharpness > 0.5
    (True, True, True)
    """
    _check_task("oracle_error", task)
    seed = whole("oracle_error", "seed", seed, least=0)
    usual = not isinstance(classifier, Attention) or classifier.weighting == SOFTMAX
    if task.is_plain and usual:
        return _oracle("oracle_error", task, classifier, seed).error(task.fixed_strength)
    if isinstance(classifier, Pooled):
        return sampled.pooled_error(task)
    if isinstance(classifier, Attention):
        return sampled.weighted_error(task, classifier.weighting, seed)
    if isinstance(classifier, Vectorized):
        raise not_plain("oracle_error", task, "for Vectorized")
    raise _unknown("oracle_error", classifier)


def bayes_error(task: Task, *, seed: int = 0) -> Estimate:
    """The error of the likelihood-ratio test with every parameter known: the floor.

    >>> task = Task(length=10, sparsity=1, strength=3.0)
    >>> bayes_error(task) < oracle_error(task, Attention()) < oracle_error(task, Pooled())
    True
    """
    _check_task("bayes_error", task)
    seed = whole("bayes_error", "seed", seed, least=0)
    if not task.is_plain:
        if not task.uniform_places:
            raise not_plain("bayes_error", task, "with position weights")
        return sampled.likelihood_error(task, seed)
    return _bayes_oracle("bayes_error", task, seed).error(task.fixed_strength)


def signal_threshold(
    task: Task, classifier: Classifier | None = None, *, error: float, seed: int = 0
) -> Estimate:
    """The smallest strength θ at which the oracle error is `error`; `task.strength` is ignored.

    `classifier` is as in `oracle_error`, or None for the Bayes test. An error that needs no signal
    (at least min(π, 1−π)) has the threshold 0. The standard error is that of the error, divided by
    |d error/dθ|.

    >>> [round(signal_threshold(Task(length, 1, 0.0), Pooled(), error=0.01), 3)
    ...  for length in (100, 10_000)]
    [46.527, 465.27]
    """
    owner = "signal_threshold"
    _check_task(owner, task)
    seed = whole(owner, "seed", seed, least=0)
    error = real(owner, "error", error, above=0, below=0.5)
    if classifier is not None and not isinstance(classifier, Pooled | Vectorized | Attention):
        raise _unknown(owner, classifier)
    if not task.is_plain:
        raise not_plain(owner, task)
    if isinstance(classifier, Attention) and classifier.weighting != SOFTMAX:
        raise InvalidInput(
            f"{owner}: weighting must be Softmax(), got {classifier.weighting!r}; "
            "oracle_error takes any"
        )
    if error >= trivial_error(task.prevalence):
        return Estimate(0.0)
    if classifier is None:
        return _bayes_oracle(owner, task, seed).threshold(error)
    return _oracle(owner, task, classifier, seed).threshold(error)


def _check_task(owner: str, task: object) -> None:
    if not isinstance(task, Task):
        raise InvalidInput(f"{owner}: task must be a Task, got {task!r}")


class _Oracle(Protocol):
    """What `oracle_error` and `signal_threshold` ask: the error at θ, and its inverse."""

    def error(self, strength: float) -> Estimate: ...

    def threshold(self, error: float) -> Estimate: ...


def _oracle(owner: str, task: Task, classifier: Classifier, seed: int) -> _Oracle:
    gain = task.fixed_sparsity / math.sqrt(task.length)
    if isinstance(classifier, Pooled):
        return Gaussian(gain, task.prevalence)
    if isinstance(classifier, Vectorized):
        return LinearOracle(task)
    if isinstance(classifier, Attention):
        if task.fixed_sparsity == task.length:  # the mean is then the likelihood ratio
            return Gaussian(gain, task.prevalence, sharpness=0.0)
        return AttentionOracle(task, extremes.draw_rest(task.length, task.fixed_sparsity, seed))
    raise _unknown(owner, classifier)


def _unknown(owner: str, classifier: object) -> InvalidInput:
    return InvalidInput(
        f"{owner}: classifier must be Pooled(), Vectorized() or Attention(), got {classifier!r}"
    )


def _bayes_oracle(owner: str, task: Task, seed: int) -> _Oracle:
    """Positions that never carry the signal are dropped: the likelihood ratio ignores them."""
    if task.places is not None:
        weights = tuple(weight for weight in task.places if weight > 0)
        places = None if len(set(weights)) == 1 else weights
        task = replace(task, length=len(weights), places=places)
    length, sparsity = task.length, task.fixed_sparsity
    if sparsity == length:  # the places are known
        return Gaussian(math.sqrt(sparsity), task.prevalence)
    largest = length if task.places else max(extremes.LARGEST, 4 * sparsity)
    drawn = extremes.drawn_tokens(length, sparsity, largest)
    if drawn > extremes.MOST_TOKENS:
        raise InvalidInput(
            f"{owner}: the Bayes test must need at most {extremes.MOST_TOKENS} tokens of a sample "
            "one by one (about five times sparsity, or length where that is less or places have "
            f"weights), got {drawn} for length {length} and sparsity {sparsity}"
        )
    rest = extremes.draw_rest(length, sparsity, seed, largest=largest)
    orders = sampled_orders(task, len(rest.lower), seed) if task.places else None
    return BayesOracle(task, rest, orders)

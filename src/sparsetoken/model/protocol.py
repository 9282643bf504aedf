r"""The four-stage protocol (section 3 of docs/theory.md), as data.

From w = 0, b = 0, q = 0, with n₀ = query_samples·d and n₁ = readout_samples·d labelled samples:

1. one gradient step on the first n₀ samples for w and b (steps η_w, η_b), q still 0;
2. (the same step for q, whose gradient is proportional to w: it stays 0;)
3. one gradient step for q (step η_q);
4. keep q and minimise (1/n₁) Σ ℓ(y(⟨w, f⟩ + b)) + (λ/2)‖w‖² over w, b on the other n₁ samples.

`Pooled` and `Vectorized` have no query: for them only stage 4 runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from sparsetoken.model.losses import Logistic, Loss, check_loss
from sparsetoken.model.task import Task
from sparsetoken.support.checks import real, settle
from sparsetoken.support.errors import InvalidInput


@dataclass(frozen=True)
class Protocol:
    """How the classifier is trained.

    Parameters
    ----------
    query_samples : float
        α₀ = n₀/d, samples per embedding dimension that teach the query; inf is allowed.
    readout_samples : float
        α₁ = n₁/d, samples per embedding dimension that fit the readout; inf is allowed.
    loss : Loss
        ℓ, a function of the margin, used in all stages.
    ridge : float
        λ ≥ 0 in (1/n) Σ ℓ + (λ/2)‖w‖².
    inverse_temperature : float
        β > 0 inside the softmax.
    readout_step : float
        η_w, gradient step of the readout in stage 1.
    bias_step : float
        η_b, gradient step of the bias in stage 1.
    query_step : float
        η_q, gradient step of the query in stage 3.

    Examples
    --------
    >>> Protocol(query_samples=2.0, readout_samples=4.0, ridge=1e-5).loss
    Logistic()
    >>> Protocol(ridge=-1)
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: Protocol: ridge must be a number at least 0 and at most 1e+12, got -1
    """

    query_samples: float = 2.0
    readout_samples: float = 4.0
    loss: Loss = field(default_factory=Logistic)
    ridge: float = 1e-5
    inverse_temperature: float = 1.0
    readout_step: float = 1.0
    bias_step: float = 1.0
    query_step: float = 10.0

    def __post_init__(self) -> None:
        for name in ("query_samples", "readout_samples"):
            value = getattr(self, name)
            settle(self, **{name: real(Protocol, name, value, least=1e-6, infinite=True)})
        for name in ("inverse_temperature", "readout_step", "query_step"):
            settle(self, **{name: real(Protocol, name, getattr(self, name), above=0, most=1e9)})
        settle(
            self,
            ridge=real(Protocol, "ridge", self.ridge, least=0, most=1e12),
            bias_step=real(Protocol, "bias_step", self.bias_step, least=0, most=1e9),
        )
        check_loss(Protocol, self.loss)

    def with_readout_samples(self, readout_samples: float) -> Protocol:
        """The same protocol with another number of samples for the readout."""
        return replace(self, readout_samples=readout_samples)

    def counts(self, owner: str, dim: int, learns_query: bool) -> tuple[int, int]:
        """n₀ and n₁ in dimension d; n₀ is 0 for a classifier that learns no query.

        >>> Protocol(query_samples=2.0, readout_samples=4.0).counts("", 100, learns_query=True)
        (200, 400)
        """
        counts = []
        for name, least in (("query_samples", 1), ("readout_samples", 2)):  # one of each class
            share = getattr(self, name)
            if name == "query_samples" and not learns_query:
                counts.append(0)
                continue
            if math.isinf(share):
                raise InvalidInput(f"{owner}: {name} must be finite where dim is, got inf")
            count = round(share * dim)
            if count < least:
                raise InvalidInput(
                    f"{owner}: {name}·dim must be at least {least}, got "
                    f"{share:g}·{dim} = {count} samples"
                )
            counts.append(count)
        return counts[0], counts[1]


def check_task(owner: str, task: object) -> None:
    if not isinstance(task, Task):
        raise InvalidInput(f"{owner}: task must be a Task, got {task!r}")


def check_classifier(owner: str, classifier: object) -> None:
    if isinstance(classifier, type) or not callable(getattr(classifier, "law", None)):
        raise InvalidInput(
            f"{owner}: classifier must be a classifier such as Attention() or Pooled(), "
            f"got {classifier!r}"
        )


def check_kinds(owner: str, task: object, classifier: object, protocol: object) -> None:
    """Arguments in the wrong order, or a class where an object is meant, get a sentence."""
    check_task(owner, task)
    check_classifier(owner, classifier)
    check_protocol(owner, protocol)


def check_protocol(owner: str, protocol: object) -> None:
    if not isinstance(protocol, Protocol):
        raise InvalidInput(f"{owner}: protocol must be a Protocol, got {protocol!r}")

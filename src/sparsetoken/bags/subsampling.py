r"""At most so many tokens a bag: which are kept, and what that costs.

Of a bag of L > m tokens a random m are kept. Which ones follows from the seed and the bag's name
(or its tokens, where bags have no names), whatever the order of bags; those kept for a smaller m
are among those for a larger one. Of R signal tokens K remain, with the law of hypergeometric draws,

    P(K = k) = C(R, k) C(L−R, m−k) / C(L, m),

so that the task of such bags is one of length m whose sparsity varies. With probability P(K = 0),
about (1 − m/L)^R, nothing in a positive bag tells it from a negative one: no classifier can make
good for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsetoken.bags.bags import Bags
from sparsetoken.bags.source import BagFormat, BagSource
from sparsetoken.model.signals import Discrete, Varying
from sparsetoken.model.task import Task
from sparsetoken.planning.plan import plan
from sparsetoken.support.arrays import FloatArray, IntArray
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput

Source = TypeVar("Source", Bags, BagSource)

_NEVER = 1e-15  # probabilities below are rounding beside 1


def subsampled(
    bags: Source, max_tokens: int, seed: int = 0, names: Sequence[str] | None = None
) -> Source:
    """Bags of which none has more than `max_tokens` tokens, a random choice of those it had.

    Parameters
    ----------
    bags : Bags or BagSource
        Bags on disk stay there, and are read when asked for.
    max_tokens : int
        At least 1. Shorter bags stay as they are.
    seed : int
        Of the choice. The same bag keeps the same tokens whatever the others are, and with fewer
        `max_tokens` it keeps some of those it keeps with more.
    names : sequence of str, optional
        Of bags in memory, by which tokens are chosen; if not given, by the tokens themselves. Those
        on disk have names.

    Returns
    -------
    Bags or BagSource
        What was given, with fewer tokens, in the order in which they were.

    Raises
    ------
    InvalidInput
        For values that are not allowed, or names that are not one a bag.

    Examples
    --------
    >>> bags = Bags.of([np.arange(6.0)[:, None], np.ones((2, 1))])
    >>> fewer = subsampled(bags, max_tokens=3)
    >>> fewer.lengths.tolist(), set(fewer.tokens[:3, 0].tolist()) < set(range(6))
    ([3, 2], True)
    """
    most = whole("subsampled", "max_tokens", max_tokens, least=1)
    seed = whole("subsampled", "seed", seed, least=0)
    if isinstance(bags, BagSource):
        if names is not None:
            raise InvalidInput("subsampled: names must be None for bags on disk: they have names")
        keys = tuple(zip(bags.keys, bags.names, strict=True))
        format = Subsampled(bags.format, most, seed)
        return replace(bags, lengths=np.minimum(bags.lengths, most), keys=keys, format=format)
    if names is not None and len(names) != len(bags):
        raise InvalidInput(f"subsampled: names must be {len(bags)}, one a bag, got {len(names)}")
    parts: list[IntArray] = []
    for bag, (start, stop) in enumerate(zip(bags.offsets[:-1], bags.offsets[1:], strict=True)):
        tokens = bags.tokens[start:stop]
        if len(tokens) > most:
            name = np.ascontiguousarray(tokens).tobytes() if names is None else names[bag].encode()
            parts.append(start + _kept(len(tokens), most, seed, name))
        else:
            parts.append(np.arange(start, stop))
    return Bags.of_flat(
        bags.tokens[np.concatenate(parts)], np.cumsum([0, *(len(part) for part in parts)])
    )


@dataclass(frozen=True)
class Subsampled:
    """Another format's bags with fewer tokens; a key is that of the other and the bag's name."""

    format: BagFormat
    max_tokens: int
    seed: int

    @property
    def centres(self) -> bool:
        """As of the other format."""
        return getattr(self.format, "centres", False)

    def tokens(self, key: tuple[Any, str]) -> NDArray[Any]:
        return self._chosen(np.asarray(self.format.tokens(key[0])), key[1])

    def coordinates(self, key: tuple[Any, str]) -> FloatArray | None:
        places = self.format.coordinates(key[0])
        return None if places is None else self._chosen(places, key[1])

    def in_micrometres(self, key: tuple[Any, str]) -> bool:
        """As of the other format."""
        asked = getattr(self.format, "in_micrometres", None)
        return asked is not None and asked(key[0])

    def _chosen(self, rows: NDArray[Any], name: str) -> NDArray[Any]:
        if rows.ndim == 0 or len(rows) <= self.max_tokens:
            return rows
        return rows[_kept(len(rows), self.max_tokens, self.seed, name.encode())]


def _kept(count: int, most: int, seed: int, name: bytes) -> IntArray:
    """Which of so many tokens are kept, in order: those of the least random ranks."""
    digest = np.frombuffer(blake2b(name, digest_size=16).digest(), np.uint32)
    ranks = np.random.default_rng([seed, *digest.tolist()]).random(count)
    return np.sort(np.argpartition(ranks, most - 1)[:most])


def subsampled_task(task: Task, max_tokens: int) -> Task:
    """The task that a random `max_tokens` of each sample's tokens are.

    Its sparsity K follows P(K = k) = C(R, k) C(L−R, m−k) / C(L, m): see the module's docstring.

    Parameters
    ----------
    task : Task
        With places that are all alike.
    max_tokens : int
        m, at least 1; a task that is not longer stays as it is.

    Returns
    -------
    Task
        Of length m, with a sparsity that varies, 0 among its values, unless there is one alone.

    Raises
    ------
    InvalidInput
        For a task whose places have weights, or a number of tokens that is not allowed.

    Examples
    --------
    >>> half = subsampled_task(Task(length=10, sparsity=2, strength=5.0), max_tokens=5)
    >>> half.length, half.sparsity.values, [round(9 * w, 9) for w in half.sparsity.weights]
    (5, (0.0, 1.0, 2.0), [2.0, 5.0, 2.0])
    """
    most = whole("subsampled_task", "max_tokens", max_tokens, least=1)
    if most >= task.length:
        return task
    if not task.uniform_places:
        raise InvalidInput(
            "subsampled_task: places must be None (with weights, tokens that remain would be at "
            f"other places), got {task.places!r}"
        )
    chances: dict[int, float] = {}
    counts, weights = _sparsities(task)
    for ones, weight in zip(counts, weights, strict=True):
        for count, chance in zip(*_hypergeometric(task.length, int(ones), most), strict=True):
            chances[count] = chances.get(count, 0.0) + weight * chance
    law = {count: chance for count, chance in chances.items() if chance > _NEVER}
    if len(law) == 1:
        (count,) = law
        return replace(task, length=most, sparsity=count, places=None)
    sparsity = Discrete(tuple(law), tuple(law.values()))
    return replace(task, length=most, sparsity=sparsity, places=None)


def _sparsities(task: Task) -> tuple[FloatArray, FloatArray]:
    """Values of R and their probabilities."""
    if isinstance(task.sparsity, Varying):
        return task.sparsity.atoms()
    return np.array([float(task.sparsity)]), np.ones(1)


def _hypergeometric(length: int, ones: int, drawn: int) -> tuple[list[int], list[float]]:
    """How many of the ones are drawn, with probabilities; by the ratios of neighbours

        P(k+1)/P(k) = (R−k)(m−k) / ((k+1)(L−R−m+k+1)),

    which lose no digits where binomial coefficients are huge."""
    share = ones / length
    spread = np.sqrt(drawn * share * (1 - share)) if 0 < share < 1 else 0.0
    reach = 9 * spread + 40  # standard deviations; 40 for counts that are rare
    least, most = max(0, drawn - (length - ones)), min(ones, drawn)
    first = max(least, int(drawn * share - reach))
    last = min(most, int(drawn * share + reach) + 1)
    k = np.arange(first, last, dtype=float)
    steps = np.log((ones - k) * (drawn - k)) - np.log((k + 1) * (length - ones - drawn + k + 1))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    chances = np.exp(logs - logs.max())
    return list(range(first, last + 1)), (chances / chances.sum()).tolist()


@dataclass(frozen=True)
class MaxTokensCost:
    """Predicted errors with all tokens and with at most `max_tokens` of each bag.

    >>> cost = MaxTokensCost(100, 1000, 10.0, 1.0, 0.347, 0.02, 0.21, "attention", "attention", 400)
    >>> print(cost)
    With at most 100 of 1000 tokens a positive bag keeps 1 of its 10 signal tokens on average, and
    none with probability 34.7 %. The predicted error with 400 bags is 21.0 % (attention) instead of
    2.0 % (attention).
    """

    max_tokens: int
    length: int
    sparsity: float  # mean of R
    kept: float  # mean of K
    silent: float  # P(K = 0)
    full: float  # error with all tokens
    reduced: float  # error with at most max_tokens
    full_classifier: str
    reduced_classifier: str
    samples: int

    def __str__(self) -> str:
        return (
            f"With at most {self.max_tokens} of {self.length} tokens a positive bag keeps "
            f"{self.kept:.3g} of its {self.sparsity:.3g} signal tokens on average, and none with "
            f"probability {_percent(self.silent)}. The predicted error with {self.samples} bags is "
            f"{_percent(self.reduced)} ({self.reduced_classifier}) instead of "
            f"{_percent(self.full)} ({self.full_classifier})."
        )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 5e-4 or share == 0 else "less than 0.1 %"


def max_tokens_cost(
    task: Task, max_tokens: int, *, dim: int, samples: int, seed: int = 0
) -> MaxTokensCost:
    """What it costs to keep at most `max_tokens` tokens of each bag, by the theory.

    Both errors are those of the classifier that `plan` recommends, at its best; it takes some
    seconds to tune, some ten where tokens are hundreds.

    Parameters
    ----------
    task : Task
        Of whole bags, such as `Pilot.task`.
    max_tokens : int
        At least 1.
    dim : int
        Embedding dimension.
    samples : int
        Labelled bags.
    seed : int
        Of the predictions.

    Returns
    -------
    MaxTokensCost
        `.full`, `.reduced`, `.silent` (the share of positive bags left without a signal token) and
        more; printed, it is a sentence.

    Raises
    ------
    InvalidInput
        For values that are not allowed, or a task of which there are no predictions.
    ConvergenceError
        If a certified residual is not reached.

    Examples
    --------
    >>> cost = max_tokens_cost(pilot.task, 500, dim=512, samples=400)  # doctest: +SKIP
    >>> print(cost)  # doctest: +SKIP
    With at most 500 of 1000 tokens a positive bag keeps 2 of its 4 signal tokens on average, ...
    """
    fewer = subsampled_task(task, max_tokens)
    counts, weights = _sparsities(task)
    left, chances = _sparsities(fewer)
    full = _best(task, dim, samples, seed)
    reduced = full if fewer == task else _best(fewer, dim, samples, seed)
    return MaxTokensCost(
        max_tokens=fewer.length,
        length=task.length,
        sparsity=float(counts @ weights),
        kept=float(left @ chances),
        silent=float(chances[left == 0].sum()),
        full=full[0],
        reduced=reduced[0],
        full_classifier=full[1],
        reduced_classifier=reduced[1],
        samples=samples,
    )


def _best(task: Task, dim: int, samples: int, seed: int) -> tuple[float, str]:
    """The least error that is predicted, and the classifier that makes it."""
    option = plan(task, dim, samples=samples, check=False, seed=seed).best
    assert option is not None and option.value is not None  # no target is asked for: one is best
    return float(option.value), option.classifier

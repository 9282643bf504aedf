"""What may disappoint about a prediction at a given size, in sentences.

Finite size is in the numbers themselves (`predict(…, dim=d)`): their spread between training sets
and the chance of a useless query are computed, not guessed. What is left to warn of is what was
tested only so far: very few dimensions, where noise that is not Gaussian is not averaged out, a
handful of samples of a class, samples far longer than their dimension. docs/trust.md has the
experiments.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparsetoken.model.task import Task

LEAST_DIM = 20  # the smallest dimension with other noise than Gaussian in that test
FEWEST = 5  # samples of a class; with fewer, training sets have little in common
LONGEST = 12  # tokens per dimension, the most in that test
_WIDE = 0.25  # of a value: a spread worth a sentence
_OFTEN = 0.01  # a chance worth a sentence


def scatter(words: str, value: float, spread: float, useless: float | None) -> Iterator[str]:
    """How much training sets of that size differ, if it is much; a chance of a useless query.

    >>> list(scatter("test error", 0.04, 0.02, 0.06))[0]
    'training sets of this size differ much: test error 0.04 is a mean, with a standard deviation \
of 0.02 between them'
    """
    room = min(value, 1 - value) if value < 1 else value  # a cost may be above 1
    if spread > _WIDE * room:
        yield (
            f"training sets of this size differ much: {words} {value:.3g} is a mean, with a "
            f"standard deviation of {spread:.2g} between them"
        )
    if useless is not None and useless > _OFTEN:
        yield (
            f"{useless:.0%} of training sets give a query that does not help: with it attention is "
            "no better than mean pooling"
        )


def warnings(task: Task, dim: int, query_count: int, readout_count: int) -> Iterator[str]:
    """Sentences on what is outside the range in which predictions were tested; mostly none.

    `query_count` is 0 for a classifier that learns no query.

    >>> list(warnings(Task(10, 1, 5.0), 200, query_count=400, readout_count=800))
    []
    """
    if dim < LEAST_DIM:
        yield (
            f"dim={dim} is small (below {LEAST_DIM}): noise that is not Gaussian is not averaged "
            "out, single training runs scatter widely"
        )
    rarer = min(task.prevalence, 1 - task.prevalence)
    name = "positive" if task.prevalence <= 0.5 else "negative"
    stages = {"query": query_count, "readout": readout_count}
    few = {stage: count for stage, count in stages.items() if 0 < count * rarer < FEWEST}
    if few:
        stage = min(few, key=few.__getitem__)
        yield (
            f"about {few[stage] * rarer:.2g} of the {few[stage]} samples for the {stage} will be "
            f"{name} (below {FEWEST}): training sets have little in common, means say little"
        )
    if task.length > LONGEST * dim:
        yield (
            f"length={task.length} is more than {LONGEST} times dim={dim}, the most that was "
            "tested: the query may align less than predicted"
        )

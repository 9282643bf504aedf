"""When to trust a prediction: the rule of thumb that `sparsetoken reproduce universality` tests.

The theory is a limit. At finite size the mean test error over training runs is within

    1/m + λL/d

of the prediction, m the expected number of samples of the rarer class in the smaller stage; in most
cases it is above it by a tenth to a half of that. docs/trust.md has the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparsetoken.model.task import Task

LEAST_DIM = 20  # the smallest dimension with other noise than Gaussian in that test
FEWEST = 20  # samples of a class, below which 1/m is above 0.05
LONGEST = 12  # tokens per dimension, the most in that test
STRONGEST = 1.0  # ridge times length: the ridge over the variance of a pooled feature
_NOTABLE = 0.01  # a share of λL/d that is worth a sentence


def allowance(
    task: Task, dim: int, query_count: int, readout_count: int, ridge: float = 0.0
) -> float:
    """How far the mean test error over training runs may be from the prediction.

    `query_count` is 0 for a classifier that learns no query.

    >>> allowance(Task(10, 1, 5.0, prevalence=0.2), 200, query_count=400, readout_count=1000)
    0.0125
    """
    rarer = min(task.prevalence, 1 - task.prevalence)
    counts = [count for count in (query_count, readout_count) if count]
    fewest = min(counts, default=0) * rarer
    return (1 / fewest if fewest > 0 else float("inf")) + ridge * task.length / dim


def warnings(
    task: Task, dim: int, query_count: int, readout_count: int, ridge: float = 0.0
) -> list[str]:
    """Sentences on what is outside the range in which the prediction was tested; mostly none.

    >>> warnings(Task(10, 1, 5.0), 200, query_count=400, readout_count=800)
    []
    """
    return list(_warnings(task, dim, query_count, readout_count, ridge))


def _warnings(
    task: Task, dim: int, query_count: int, readout_count: int, ridge: float
) -> Iterator[str]:
    if dim < LEAST_DIM:
        yield (
            f"dim={dim} is small (below {LEAST_DIM}) and the theory is a limit of many dimensions: "
            "single training runs scatter widely, noise that is not Gaussian is not averaged out"
        )
    rarer = min(task.prevalence, 1 - task.prevalence)
    name = "positive" if task.prevalence <= 0.5 else "negative"
    stages = {"query": query_count, "readout": readout_count}
    few = {stage: count for stage, count in stages.items() if 0 < count * rarer < FEWEST}
    if few:
        stage = min(few, key=few.__getitem__)
        expected = few[stage] * rarer
        yield (
            f"about {expected:.2g} of the {few[stage]} samples for the {stage} will be {name} "
            f"(below {FEWEST}): the mean test error may be off by up to about {1 / expected:.2g}"
        )
    if task.length > LONGEST * dim:
        yield (
            f"length={task.length} is more than {LONGEST} times dim={dim}, the most that was "
            "tested: the query may align less than predicted"
        )
    off = ridge * task.length / dim
    if ridge * task.length > STRONGEST and off > _NOTABLE:
        yield (
            f"ridge={ridge:.3g} times length={task.length} is above {STRONGEST:g}, strong beside "
            "the variance of pooled tokens: the bias follows the classes as they were drawn, and "
            f"the mean test error of mean pooling may be off by up to about {off:.2g}"
        )

"""Floors of a plan: errors that no number of samples gets below, and that no learner does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sparsetoken.planning.advice import Plan
from sparsetoken.planning.learners import MoreLabels
from sparsetoken.planning.metrics import oracles_at
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.errors import ConvergenceError, InvalidInput


@dataclass(frozen=True)
class Floors:
    """Errors no number of samples gets below, and what the samples of a plan allow at best.

    `errors` are the oracle of each classifier, and Bayes, the signal known. `learned` is for those
    who must learn it, by their description: the least error with the plan's samples, or the fewest
    samples for its target. Both are of the limit of many dimensions. Only errors have such floors;
    for another metric there is only each option's `limit`. What cannot be computed is in
    `left_out`, with the reason.

    >>> from sparsetoken import Task, plan
    >>> advice = plan(Task(3, 1, 4.0), dim=30, samples=100, check=False)
    >>> list(floors(advice).learned)[:2]
    ['any learner', 'message passing']
    """

    errors: dict[str, float]
    learned: dict[str, float]
    left_out: dict[str, str]


def floors(plan: Plan, *, annotated: float = 1.0, unlabelled: int | None = None) -> Floors:
    """The smallest errors with the signal known, and learned, on the task of the answer.

    Parameters
    ----------
    plan : Plan
        Whose task, metric, weighting and samples they are of.
    annotated : float
        Share of the positive bags whose signal tokens could be marked; 0 leaves this out.
    unlabelled : int or None
        Bags without a label that could be had, 0 leaves this out; if None ten times the labelled
        ones, where those are asked for ten times what the best option needs.

    Returns
    -------
    Floors
        `errors` of each classifier's oracle and of Bayes; `learned` of any learner, of message
        passing, with signal tokens marked, with bags without labels; `left_out` says why one is not
        there.

    Raises
    ------
    InvalidInput
        For a share or a number of bags that is not allowed.
    AttributeError
        What is given is not a plan. An oracle that cannot be computed is left out, not raised.

    Examples
    --------
    >>> from sparsetoken import Task, plan
    >>> advice = plan(Task(3, 1, 4.0), dim=30, samples=100, check=False)
    >>> sorted(floors(advice).errors)
    ['attention', 'bayes', 'pooled', 'vectorized']
    >>> floors(advice).learned["any learner"] < advice.best.value
    True
    """
    more, left_out = MoreLabels(annotated, unlabelled), dict[str, str]()
    with one_blas_thread():
        oracles = oracles_at(plan.metric, plan.answer, plan.dim, plan.setting.weighting)
        errors = _computed(oracles, left_out)
        reachable = plan.target is None or plan.target > errors.get("bayes", 0.0)
        learned = _computed(_learned(plan, more), left_out) if reachable else {}
    return Floors(errors, learned, left_out)


def _learned(plan: Plan, more: MoreLabels) -> dict[str, Callable[[], float]]:
    """Least errors with the plan's samples; or, where these are asked for, the fewest of them."""
    wanted = plan.samples if plan.best is None or plan.samples else plan.best.needed
    learners = plan.metric.learners(plan.answer, plan.dim, wanted or 0.0, more)
    if plan.samples is not None:
        count = plan.samples / plan.dim
        return {name: partial(learner.error, count) for name, learner in learners.items()}
    assert plan.target is not None
    needs = {name: partial(learner.samples, plan.target) for name, learner in learners.items()}
    return {name: partial(_times, plan.dim, need) for name, need in needs.items()}


def _times(dim: int, per_dim: Callable[[], float]) -> float:
    return dim * per_dim()


def _computed(
    numbers: dict[str, Callable[[], float]], left_out: dict[str, str]
) -> dict[str, float]:
    """Those that can be computed; why not, of the others."""
    values = {}
    for name, number in numbers.items():
        try:
            values[name] = float(number())
        except (InvalidInput, ConvergenceError) as error:  # too long to compute, say
            left_out[name] = str(error)
    return values

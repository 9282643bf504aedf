r"""`plan`: which pooling, how many labelled samples, how to split them.

Forward: what each classifier reaches with n samples, everything tuned. Inverse: the smallest n (or
strength, or the largest length) with which it reaches a target, or the floor that is in the way.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparsetoken.model.classifiers import Attention
from sparsetoken.model.losses import Logistic, Loss
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.signals import Varying
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.planning import trust
from sparsetoken.planning.advice import Plan
from sparsetoken.planning.inverse import MOST_SAMPLES, Line, Unknown, solve_for
from sparsetoken.planning.metrics import Goal, Name, goal_of
from sparsetoken.planning.options import Check, Option, recommended, task_of
from sparsetoken.planning.tuners import tuners
from sparsetoken.planning.tuning import Asked, Tuner
from sparsetoken.simulation.experiment import simulate
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.theory.alignment import align

_MOST_DIM = 10**6  # one sample for the query is then the least per dimension a protocol takes
_REPEATS, _FEWEST_RUNS = 16, 4  # of the check
_PATIENCE = 1.0  # seconds that a check nobody asked for may take
_RARE = 0.1


def plan(
    task: Task,
    dim: int,
    *,
    samples: int | None = None,
    target_error: float | None = None,
    target_auc: float | None = None,
    target_average_precision: float | None = None,
    target_sensitivity: float | None = None,
    specificity: float | None = None,
    target_cost: float | None = None,
    cost_false_positive: float | None = None,
    cost_false_negative: float | None = None,
    metric: Name | None = None,
    unknown: Unknown | None = None,
    loss: Loss | None = None,
    weighting: Weighting = SOFTMAX,
    check: bool | None = None,
    seed: int = 0,
) -> Plan:
    """Which pooling, how many labelled samples, how to split them between query and readout?

    Every number is that of your size: a mean over training sets of so many samples in `dim`
    dimensions, with the spread between them. What is recommended is best at that size.

    Give `samples` (what is reached with them?) or a target (how many samples does it take?), or
    both and the `unknown` to solve for.

    Parameters
    ----------
    task : Task
        What a sample is: length, sparsity, strength, prevalence.
    dim : int
        Embedding dimension, at least 3.
    samples : int
        Labelled samples, at least 4; linear classifiers use all for the readout, attention splits
        them between query and readout.
    target_error, target_auc, target_average_precision, target_sensitivity, target_cost : float
        What is to be reached, one of them. Sensitivity is that at `specificity`, cost the expected
        one of a sample; both at the best threshold, which can be moved after training.
    specificity : float
        Goes with sensitivity.
    cost_false_positive, cost_false_negative : float
        Go with cost; 1 if only the other is given.
    metric : str
        Without a target: "error" (the default), "auc", "average precision", "sensitivity", "cost".
    unknown : str
        With samples and a target: "strength" (how weak may the signal be?) or "length" (how long
        may samples be?).
    loss : Loss
        Of all stages; Logistic() if not given.
    weighting : Weighting
        Of tokens by attention: Softmax(), HardMax(), TopK(k), Sparsemax().
    check : bool, optional
        Simulate the recommended classifier at this `dim`, 16 runs, as it stands. If not given,
        as many runs as a second or two allow; none if that is fewer than four.
    seed : int
        Of predictions and check.

    Returns
    -------
    Plan
        Values carry their standard errors, a few percent of the spread between training sets.

    Raises
    ------
    InvalidInput
        For values that are not allowed.
    ConvergenceError
        If a certified residual is not reached.

    Examples
    --------
    >>> advice = plan(Task(length=10, sparsity=1, strength=5.0), dim=200, samples=1600)
    >>> advice.best.classifier, round(advice.best.value, 3), round(advice["pooled"].value, 3)
    ('attention', 0.023, 0.237)
    """
    if not isinstance(task, Task):
        raise InvalidInput(f"plan: task must be a Task, got {task!r}")
    dim = whole("plan", "dim", dim, least=3, most=_MOST_DIM)
    targets: dict[Name, float | None] = {
        "error": target_error,
        "auc": target_auc,
        "average precision": target_average_precision,
        "sensitivity": target_sensitivity,
        "cost": target_cost,
    }
    goal = goal_of(task, targets, metric, specificity, cost_false_positive, cost_false_negative)
    solved = _what_is_asked(samples, goal, unknown)
    if samples is not None:
        most = MOST_SAMPLES * dim
        samples = whole("plan", "samples", samples, least=4, most=most)
    if solved == "strength" and isinstance(task.strength, Varying):
        raise InvalidInput(
            "plan: unknown must not be 'strength' for a strength that varies from sample to "
            f"sample, got task.strength={task.strength!r}"
        )
    if check not in (None, False, True):
        raise InvalidInput(f"plan: check must be True, False or None, got {check!r}")
    seed = whole("plan", "seed", seed, least=0)
    given = Logistic() if loss is None else loss
    asked = Asked(dim, given, goal, weighting=weighting, seed=seed)
    Protocol(loss=asked.loss)  # refuses what is not a loss
    Attention(weighting=weighting)  # or not a weighting
    with one_blas_thread():
        options = tuple(
            _option(tuner, task, samples, solved) for tuner in tuners(asked, task).values()
        )
        there = task_of(options[0], task, samples, solved, dim)
        best = recommended(options, goal, solved)
        answer = task if best is None else task_of(best, task, samples, solved, dim)
        warnings = (
            *_warnings(there, goal, options[0], asked.loss),
            *_doubts(answer, dim, goal, best),
        )
        seen = None
        if best is not None and check is not False:
            seen = _simulated(answer, best, asked, _REPEATS if check else _affordable(best, answer))
    return Plan(task, goal, asked, solved, samples, options, warnings, seen)


def _what_is_asked(samples: int | None, goal: Goal, unknown: Unknown | None) -> Unknown | None:
    if unknown not in (None, "samples", "strength", "length"):
        raise InvalidInput(
            f"plan: unknown must be 'samples', 'strength' or 'length', got {unknown!r}"
        )
    if samples is None and goal.target is None:
        raise InvalidInput(
            "plan: give samples= (what is reached with them?) or a target such as target_error= "
            "(how many samples does it take?), got neither"
        )
    if samples is None:
        if unknown not in (None, "samples"):
            raise InvalidInput(
                f"plan: two unknowns, samples and {unknown}; give samples= to solve for {unknown}"
            )
        return "samples"
    if goal.target is None:
        if unknown is not None:
            raise InvalidInput(
                f"plan: unknown={unknown!r} needs a target such as target_error=, got none"
            )
        return None
    if unknown not in ("strength", "length"):
        raise InvalidInput(
            "plan: samples and a target are both given; say unknown='strength' (how weak may the "
            "signal be?) or unknown='length' (how long may samples be?), or leave one of them out"
        )
    return unknown


def _option(tuner: Tuner, task: Task, samples: int | None, unknown: Unknown | None) -> Option:
    """One classifier's answer."""
    goal, limit = tuner.asked.goal, tuner.limit(task)
    if unknown is None:
        assert samples is not None
        tuned = tuner.best(task, samples)
        return Option(tuner.name, None, tuned.value, limit, tuned)
    assert goal.target is not None
    bad = goal.bad(goal.target)
    if unknown == "samples" and goal.bad(limit) >= bad:
        return Option(tuner.name, None, None, limit, None)
    line = Line.of(unknown, task, samples, tuner.asked.dim)
    answer = solve_for(tuner, line, lambda *_: bad)
    if answer is None:
        return Option(tuner.name, None, None, limit, None)
    needed, tuned = answer
    if unknown != "samples":
        limit = tuner.limit(line.task_at(needed))
    return Option(tuner.name, needed, tuned.value, limit, tuned)


def _affordable(best: Option, task: Task) -> int:
    """Runs of a check that take a second or so: each costs about 50 ns for each pair of a sample
    and a column of its features (`make bench`), losses with kinks up to 25 times that, and 0.3 ms
    for each token of the cloud of samples on which its scores are computed."""
    assert best.tuned is not None
    n = best.tuned.readout_count
    prediction = best.tuned.prediction
    columns = prediction.dim * (task.length if best.classifier == "vectorized" else 1)
    kinks = getattr(prediction.protocol.loss, "dual_box", None) is not None
    seconds = n * min(n, columns) * 50e-9 * (25 if kinks else 1) + 0.3e-3 * task.length
    runs = int(min(_REPEATS, _PATIENCE / max(seconds, 1e-9)))
    return runs if runs >= _FEWEST_RUNS else 0


def _simulated(task: Task, best: Option, asked: Asked, repeats: int) -> Check | None:
    """The recommended classifier, trained again and again."""
    assert best.tuned is not None
    if not repeats:
        return None
    tuned = best.tuned
    run = simulate(
        task, tuned.classifier, tuned.protocol, asked.dim, repeats=repeats, seed=asked.seed
    )
    values = run.test_error
    if asked.goal.name != "error":
        values = np.array([asked.goal.value(run.scores(repeat)) for repeat in range(repeats)])
    return Check(tuned.value, tuple(values.tolist()))


def _doubts(task: Task, dim: int, goal: Goal, best: Option | None) -> Iterator[str]:
    """What may disappoint about the recommended option, on its task."""
    if best is not None and best.tuned is not None:
        tuned = best.tuned
        # what makes a query useless is its test error
        useless = tuned.prediction.useless if goal.name == "error" else None
        yield from trust.scatter(goal.words, tuned.value, tuned.spread, useless)
        yield from trust.warnings(task, dim, tuned.query_count, tuned.readout_count)


def _warnings(task: Task, goal: Goal, attention: Option, loss: Loss) -> Iterator[str]:
    """What a user might run into, on the task of attention's answer."""
    rare = min(task.prevalence, 1 - task.prevalence)
    if goal.name == "error" and rare < _RARE:
        yield (
            f"one class is rare: naming the other one always has error {rare:g} already; ask for "
            "target_auc, target_sensitivity or costs instead"
        )
    tuned = attention.tuned
    if tuned is not None and tuned.prediction.cosine is not None:
        protocol = tuned.protocol
        plain = align(task, Protocol(protocol.query_samples, loss=loss)).cosine
        if plain < 0 < tuned.prediction.cosine:
            yield (
                f"the default steps would turn the query away from the signal (cosine {plain:.2f});"
                f" readout_step={protocol.readout_step:g} and bias_step={protocol.bias_step:.3g} "
                f"give {tuned.prediction.cosine:.2f}"
            )

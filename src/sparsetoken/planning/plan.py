r"""`plan`: which pooling, how many labelled samples, how to split them.

Forward: what each classifier reaches with n samples, everything tuned. Inverse: the smallest n (or
strength, or the largest length) with which it reaches a target, or the floor that is in the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from sparsetoken.model.classifiers import Attention
from sparsetoken.model.losses import Logistic, Loss
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.planning.advice import Check, Option, Plan, range_warnings, scatter_warnings
from sparsetoken.planning.metrics import GOALS, Metric, metric_of, oracles_at, target_argument
from sparsetoken.planning.ridges import Setting
from sparsetoken.planning.tuning import Tuned, Tuner
from sparsetoken.planning.unknowns import MOST_SAMPLES, UNKNOWNS, Unknown, solve_for
from sparsetoken.planning.whitening import tuners
from sparsetoken.simulation.experiment import simulate
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.checks import whole
from sparsetoken.support.errors import ConvergenceError, InvalidInput
from sparsetoken.theory.alignment import align

_MOST_DIM = 10**6  # one sample for the query is then the least per dimension a protocol takes
_REPEATS, _FEWEST_RUNS = 16, 4  # of the check
_ARGUMENTS = ("specificity", "cost_false_positive", "cost_false_negative")  # that go with one
_PATIENCE = 1.0  # seconds that a check nobody asked for may take


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
    metric: str | Metric | None = None,
    target: float | None = None,
    unknown: Literal["samples", "strength", "length"] | None = None,
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
        What a sample is: length, sparsity, strength, prevalence. Where its noise is not white,
        tokens are whitened first, with the shrinkage that is best for each classifier; the noise's
        covariance is taken to be known, and of more eigenvalues than dimensions neighbours are
        averaged (`Task.for_dim`).
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
    metric : str or Metric
        Without a target: "error" (the default), "auc", "average precision", "sensitivity", "cost",
        or another name in `METRICS`; or a metric itself, of your own say.
    target : float
        The value of `metric` to reach: the same as the argument named after it.
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
    if check not in (None, False, True):
        raise InvalidInput(f"plan: check must be True, False or None, got {check!r}")
    asked = question_of(
        task,
        dim,
        samples=samples,
        metric=metric,
        target=target,
        unknown=unknown,
        loss=loss,
        weighting=weighting,
        seed=seed,
        target_error=target_error,
        target_auc=target_auc,
        target_average_precision=target_average_precision,
        target_sensitivity=target_sensitivity,
        specificity=specificity,
        target_cost=target_cost,
        cost_false_positive=cost_false_positive,
        cost_false_negative=cost_false_negative,
    )
    setting, solved, task = asked.setting, asked.unknown, asked.task
    with one_blas_thread():
        options = tuple(
            _option(tuner, task, asked.samples, solved, asked.target)
            for tuner in tuners(setting, task).values()
        )
        advice = Plan(task, setting, asked.target, solved, asked.samples, options, ())
        best = advice.best
        return replace(
            advice,
            warnings=tuple(_warnings(advice)),
            check=None if best is None else _check(advice.answer, best, setting, check),
            bayes=_bayes(task, setting) if best is None else None,
        )


@dataclass(frozen=True)
class Question:
    """What a plan is asked, checked; the noise has no more eigenvalues than dimensions."""

    task: Task
    setting: Setting
    samples: int | None
    target: float | None
    unknown: Unknown | None  # None if what the samples reach is asked


def question_of(
    task: Task,
    dim: int,
    *,
    samples: int | None = None,
    metric: str | Metric | None = None,
    target: float | None = None,
    unknown: str | None = None,
    loss: Loss | None = None,
    weighting: Weighting = SOFTMAX,
    seed: int = 0,
    **goal: float | None,
) -> Question:
    """The question as `plan` takes it; `goal` has its targets and what goes with them."""
    if not isinstance(task, Task):
        raise InvalidInput(f"plan: task must be a Task, got {task!r}")
    dim = whole("plan", "dim", dim, least=3, most=_MOST_DIM)
    if task.noise.dim not in (None, dim):
        task.noise.counts(dim)  # says of what size the matrices are
    task = task.for_dim(dim)
    targets = {name: goal.pop(target_argument(name), None) for name in GOALS}
    strange = [name for name in goal if name not in _ARGUMENTS]
    if strange:
        raise InvalidInput(f"plan: {strange[0]} is no argument of a plan, got {goal[strange[0]]!r}")
    measure, target = metric_of(metric, target, targets, goal)
    measure.check_baseline(task)
    if target is not None:
        target = measure.checked_target(task, target)
    kind = _unknown(samples, target, unknown)
    if samples is not None:
        samples = whole("plan", "samples", samples, least=4, most=MOST_SAMPLES * dim)
    solved = None if kind is None else kind(task, dim, samples or 0)
    seed = whole("plan", "seed", seed, least=0)
    setting = Setting(dim, Logistic() if loss is None else loss, measure, weighting, seed)
    Protocol(loss=setting.loss)  # refuses what is not a loss
    Attention(weighting=weighting)  # or not a weighting
    return Question(task, setting, samples, target, solved)


def _unknown(
    samples: int | None, target: float | None, unknown: str | None
) -> type[Unknown] | None:
    """What is solved for; None if the samples are given and what they reach is asked."""
    if unknown is not None and unknown not in UNKNOWNS:
        raise InvalidInput(
            f"plan: unknown must be 'samples', 'strength' or 'length', got {unknown!r}"
        )
    if samples is None and target is None:
        raise InvalidInput(
            "plan: give samples= (what is reached with them?) or a target such as target_error= "
            "(how many samples does it take?), got neither"
        )
    if samples is None:
        if unknown not in (None, "samples"):
            raise InvalidInput(
                f"plan: two unknowns, samples and {unknown}; give samples= to solve for {unknown}"
            )
        return UNKNOWNS["samples"]
    if target is None:
        if unknown is not None:
            raise InvalidInput(
                f"plan: unknown={unknown!r} needs a target such as target_error=, got none"
            )
        return None
    if unknown in (None, "samples"):
        raise InvalidInput(
            "plan: samples and a target are both given; say unknown='strength' (how weak may the "
            "signal be?) or unknown='length' (how long may samples be?), or leave one of them out"
        )
    return UNKNOWNS[unknown]


def _option(
    tuner: Tuner, task: Task, samples: int | None, unknown: Unknown | None, target: float | None
) -> Option:
    """One classifier's answer."""
    metric, limit, needed = tuner.setting.metric, tuner.limit(task), None
    if unknown is None:
        assert samples is not None
        tuned = tuner.best(task, samples)
    else:
        assert target is not None
        wanted = metric.badness(target)
        if samples is None and metric.badness(limit) >= wanted:
            return Option(tuner.name, None, limit)
        answer = solve_for(tuner, unknown, lambda *_: wanted)
        if answer is None:
            return Option(tuner.name, None, limit)
        needed, tuned = answer
        if samples is not None:
            limit = tuner.limit(unknown.task_at(needed))
    return Option(tuner.name, needed, limit, tuned)


def _bayes(task: Task, setting: Setting) -> float | None:
    """The metric's best value of all, where there is one and it can be computed."""
    oracle = oracles_at(setting.metric, task, setting.dim, setting.weighting).get("bayes")
    try:
        return None if oracle is None else float(oracle())
    except (InvalidInput, ConvergenceError):  # `floors` says why
        return None


def _check(task: Task, best: Option, setting: Setting, wish: bool | None) -> Check | None:
    """The recommended classifier, trained again and again, if that is wished or cheap."""
    assert best.tuned is not None
    tuned = best.tuned
    repeats = {True: _REPEATS, False: 0, None: _affordable(tuned, task)}[wish]
    if not repeats:
        return None
    run = simulate(
        tuned.met(task), tuned.classifier, tuned.protocol, setting.dim, repeats=repeats,
        seed=setting.seed,
    )  # fmt: skip
    return Check(tuned.value, tuple(setting.metric.simulated(run)))


def _affordable(tuned: Tuned, task: Task) -> int:
    """Runs of a check that take a second or so: each costs about 50 ns for each pair of a sample
    and a column of its features (`make bench`), losses with kinks up to 25 times that, and 0.3 ms
    for each token of the cloud of samples on which its scores are computed."""
    n, prediction = tuned.readout_count, tuned.prediction
    columns = prediction.dim * prediction.training_sets.middle.law.features_per_dim
    kinks = getattr(prediction.protocol.loss, "dual_box", None) is not None
    seconds = n * min(n, columns) * 50e-9 * (25 if kinks else 1) + 0.3e-3 * task.length
    runs = int(min(_REPEATS, _PATIENCE / max(seconds, 1e-9)))
    return runs if runs >= _FEWEST_RUNS else 0


def _warnings(advice: Plan) -> Iterator[str]:
    """What a user might run into: on the task of attention's answer, then on the recommended
    option's."""
    metric, best, attention = advice.metric, advice.best, advice["attention"]
    task = attention.task_of(advice.task, advice.unknown)
    yield from metric.remarks(task)
    if attention.tuned is not None:
        yield from _turned_away(task, attention.tuned)
    if best is not None and best.tuned is not None:
        tuned = best.tuned
        useless = metric.useless(tuned.prediction)
        yield from scatter_warnings(metric.words, tuned.value, tuned.spread, useless)
        counts = tuned.query_count, tuned.readout_count
        yield from range_warnings(advice.answer, advice.dim, *counts)


def _turned_away(task: Task, tuned: Tuned) -> Iterator[str]:
    """Whether the default steps would be a mistake."""
    protocol, cosine = tuned.protocol, tuned.prediction.cosine
    plain = align(tuned.met(task), Protocol(protocol.query_samples, loss=protocol.loss)).cosine
    if cosine is not None and plain < 0 < cosine:
        yield (
            f"the default steps would turn the query away from the signal (cosine {plain:.2f});"
            f" readout_step={protocol.readout_step:g} and bias_step={protocol.bias_step:.3g} "
            f"give {cosine:.2f}"
        )

"""Around the answer: the crossover, tasks a little different, other numbers of samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsetoken.model.signals import Varying
from sparsetoken.model.task import Task
from sparsetoken.planning import report
from sparsetoken.planning.advice import EDGE, Option, Plan, recommended
from sparsetoken.planning.floors import Floors, floors
from sparsetoken.planning.tuning import NEAR, Knobs, Reach, Tuner
from sparsetoken.planning.unknowns import MOST_SAMPLES, Place, Samples, approach, learnable
from sparsetoken.planning.whitening import tuners
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.showing import Captioned, Shown
from sparsetoken.theory.prediction import capacity

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_CHANGE = 0.2  # of strength, sparsity and prevalence
_POINTS = 13  # of a curve
_RETRY = math.log(1.5)  # of ease, where a draft was too optimistic; doubled each time


@dataclass(frozen=True, eq=False)
class Outlook(Shown):
    """What is around the answer of a plan; see `outlook`.

    Printed, it says in words what `floors`, `capacities`, `crossover` and `sensitivities` found.

    >>> from sparsetoken import Task, plan
    >>> advice = plan(Task(3, 1, 4.0), dim=30, samples=100, check=False)
    >>> print(outlook(advice))  # doctest: +SKIP
    """

    plan: Plan
    floors: Floors
    capacities: dict[str, float]
    crossover: float
    sensitivities: pd.DataFrame

    def paragraphs(self) -> Iterator[str | Captioned]:
        """Capacity, floors, crossover, sensitivities."""
        return report.outlook_paragraphs(self)

    def __repr__(self) -> str:
        return f"<Outlook for {self.plan.title}>"

    def to_json(self) -> str:
        """The plan and all this, for programs."""
        return report.json_of(self)

    def figure(self, curve: pd.DataFrame) -> Figure:
        """A `tuned_curve`, with target, answer, crossover, capacity and floor."""
        return report.figure(self, curve)


def outlook(plan: Plan, *, annotated: float = 1.0, unlabelled: int | None = None) -> Outlook:
    """Floors, capacities, crossover and sensitivities of a plan; takes some seconds.

    Printed, they are what the command line says after the plan itself.

    Parameters
    ----------
    plan : Plan
        The answer to look around from.
    annotated, unlabelled
        As in `floors`: what else people could be asked for.

    Returns
    -------
    Outlook
        `floors`, `capacities`, `crossover` and `sensitivities`, each what its function gives.

    Raises
    ------
    InvalidInput
        For a share or a number of bags that is not allowed.
    ConvergenceError
        A solve on the way did not reach its residual.

    Examples
    --------
    >>> outlook(advice).crossover  # doctest: +SKIP
    11.0
    """
    learned = floors(plan, annotated=annotated, unlabelled=unlabelled)
    return Outlook(plan, learned, capacities(plan), crossover(plan), sensitivities(plan))


def capacities(plan: Plan) -> dict[str, float]:
    """Readout samples up to which the training data of each option are linearly separable.

    Parameters
    ----------
    plan : Plan
        Its options, each as it was tuned.

    Returns
    -------
    dict
        Classifier → number of samples, n = d · `capacity`.

    Raises
    ------
    ConvergenceError
        A capacity did not reach its residual.

    Examples
    --------
    >>> from sparsetoken import Task, plan
    >>> advice = plan(Task(3, 1, 4.0), dim=30, samples=100, check=False)
    >>> round(capacities(advice)["pooled"])
    135
    """
    tuned = {option: option.tuned for option in plan.options if option.tuned is not None}
    with one_blas_thread():
        return {
            option.classifier: plan.dim * float(capacity(task, best.classifier, best.protocol))
            for option, best in tuned.items()
            for task in [best.met(option.task_of(plan.task, plan.unknown))]
        }


def crossover(plan: Plan) -> float:
    """The number of samples from which attention is recommended over all others; inf if never.

    To a percent or so, from drafts, where predictions do not contradict them; takes some seconds.

    Parameters
    ----------
    plan : Plan
        Whose task and metric it is of; its own number of samples does not matter.

    Returns
    -------
    float
        A number of labelled samples.

    Raises
    ------
    ConvergenceError
        A prediction of attention or of a rival was not reached.

    Examples
    --------
    >>> crossover(advice)  # doctest: +SKIP
    11.0
    """
    task = plan.answer
    by_name = tuners(plan.setting, task)
    # with uniform places it has the same signal as the mean and more noise
    beaten = {"vectorized"} if task.uniform_places else set()
    rivals = [by_name[name] for name in by_name if name not in {"attention", *beaten}]
    with one_blas_thread():
        return _crossover(by_name["attention"], rivals, Samples(task, plan.dim, 0))


def _crossover(attention: Tuner, rivals: list[Tuner], unknown: Samples) -> float:
    """Where attention is better than every rival, and than naming one class always."""
    metric = attention.setting.metric
    baseline = metric.baseline(unknown.task).badness
    known: dict[float, float] = {}

    def rival(task: Task, n: float) -> float:
        if n not in known:
            known[n] = (1 - EDGE) * min(baseline, *(tuner.rough(task, n) for tuner in rivals))
        return known[n]

    first = unknown.ease(max(4, unknown.dim // 8))
    start = learnable(attention, unknown, rival, first)
    ease, knobs = approach(attention, unknown, rival, start, settled=0.15)
    # drafts near the error of naming one class always are uncertain: predictions have the last word
    step = _RETRY
    while ease < unknown.easiest:  # steps double: the end of the line is half a dozen away
        task, n = unknown.task, int(unknown.value(ease))
        value = attention.predict(task, n, knobs).value
        others = (metric.badness(tuner.best(task, n).value) for tuner in rivals)
        wanted = (1 - EDGE) * min(baseline, *others)
        if metric.badness(value) <= wanted + 4 * value.standard_error:
            return unknown.value(ease)
        ease, step = min(ease + step, unknown.easiest), 2 * step
        knobs = attention.search(*unknown.at(ease), knobs, Reach(NEAR))
    return math.inf


def sensitivities(plan: Plan) -> pd.DataFrame:
    """The answer if strength, sparsity or prevalence were 20 % smaller or larger.

    Everything is tuned again. What is needed comes from drafts: good to a percent or two.

    Parameters
    ----------
    plan : Plan
        The question that is asked again of other tasks.

    Returns
    -------
    DataFrame
        A row a change: `change` in words, the answer of each classifier, `recommended`.

    Raises
    ------
    ConvergenceError
        The answer of a changed task was not reached.

    Examples
    --------
    >>> sensitivities(advice).change[0]  # doctest: +SKIP
    'strength 4 → 3.2'
    """
    import pandas as pd

    with one_blas_thread():
        return pd.DataFrame([_changed(plan, *change) for change in changed_tasks(plan.task)])


def changed_tasks(task: Task) -> Iterator[tuple[str, str, Task]]:
    """Tasks that are 20 % different, with the field and words; impossible ones are left out."""
    for name in ("strength", "sparsity", "prevalence"):
        old = getattr(task, name)
        if isinstance(old, Varying):  # there is no one number to change
            continue
        for sign in (-1, 1):
            new: Any = old * (1 + sign * _CHANGE)
            if name == "sparsity":  # whole numbers: at least one more or less
                new = math.ceil(new) if sign > 0 else math.floor(new)
            try:
                changed = replace(task, **{name: new})
            except InvalidInput:  # beyond what a task may have
                continue
            yield name, f"{name} {old:g} → {new:g}", changed


def _changed(plan: Plan, name: str, words: str, task: Task) -> dict[str, Any]:
    """A row of the sensitivities: every classifier's answer on another task."""
    row: dict[str, Any] = {"change": words}
    if plan.unknown is not None and name == plan.unknown.name:
        names = (option.classifier for option in plan.options)
        return row | dict.fromkeys(names) | {"recommended": "(is the unknown)"}
    tuned = zip(plan.options, tuners(plan.setting, task).values(), strict=True)
    answers = {option.classifier: _again(plan, option, tuner, task) for option, tuner in tuned}
    reached = {name: x for name, x in answers.items() if x is not None}
    best = recommended({name: plan.burden(x) for name, x in reached.items()})
    return row | answers | {"recommended": "none reaches it" if best is None else best}


def _again(plan: Plan, option: Option, tuner: Tuner, task: Task) -> float | None:
    """The same question on another task: the value, or what is needed, from drafts."""
    metric, knobs = plan.metric, None if option.tuned is None else option.tuned.knobs
    if plan.unknown is None:
        assert plan.samples is not None
        return tuner.predict(task, plan.samples, tuner.search(task, plan.samples, knobs)).value
    assert plan.target is not None
    wanted = metric.badness(plan.target)
    unknown = replace(plan.unknown, task=task)
    if wanted >= metric.baseline(task).badness:  # one class for all reaches the target
        return unknown.value(unknown.hardest)
    if knobs is None or option.needed is None:
        start = learnable(tuner, unknown, lambda *_: wanted, unknown.start)
    else:
        start = Place(unknown.within(unknown.ease(option.needed)), knobs)
    ease, _ = approach(tuner, unknown, lambda *_: wanted, start)
    return None if ease == unknown.easiest else unknown.value(ease)


def tuned_curve(around: Outlook) -> pd.DataFrame:
    """The metric against the number of samples, each classifier tuned at each number.

    The numbers are around the answer, the crossover and the capacity; takes about ten seconds.

    Parameters
    ----------
    around : Outlook
        Of the plan whose curve it is.

    Returns
    -------
    DataFrame
        `classifier`, `samples`, `value`; `Outlook.figure` draws it.

    Raises
    ------
    ConvergenceError
        A point of the curve was not reached.

    Examples
    --------
    >>> tuned_curve(outlook(advice)).columns.tolist()  # doctest: +SKIP
    ['classifier', 'samples', 'value']
    """
    import pandas as pd

    with one_blas_thread():
        rows = list(_curve(around.plan, _marks(around)))
    return pd.DataFrame(rows).sort_values(["classifier", "samples"], ignore_index=True)


def _marks(around: Outlook) -> list[float]:
    """Numbers of samples that the curve is to show."""
    plan, best = around.plan, around.plan.best
    marks = [around.crossover] if math.isfinite(around.crossover) else []
    counts = {option.tuned.count for option in plan.options if option.tuned is not None}
    counts |= set() if plan.samples is None else {plan.samples}
    marks += sorted(map(float, counts))
    if best is not None and marks:
        capacity = around.capacities[best.classifier]
        marks += [capacity] if capacity < 30 * max(marks) else []  # it may be far away
    return marks


def _curve(plan: Plan, marks: list[float]) -> Iterator[dict[str, Any]]:
    middle = math.exp(float(np.mean(np.log(marks)))) if marks else 8.0 * plan.dim
    low = max(4.0, min([middle / 8, *(0.5 * x for x in marks)]))
    high = min(max([middle * 16, *(2.0 * x for x in marks)]), MOST_SAMPLES * plan.dim)
    counts = np.unique(np.geomspace(low, high, _POINTS).round().astype(int))[::-1].tolist()
    task = plan.answer
    for name, tuner in tuners(plan.setting, task).items():
        knobs: Knobs | None = None
        for n in counts:  # from many samples to few: each start is a good one
            knobs = tuner.search(task, n, knobs)
            value = tuner.predict(task, n, knobs).value
            yield {"classifier": name, "samples": n, "value": value}

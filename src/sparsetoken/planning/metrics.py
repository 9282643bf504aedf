r"""What a planner makes good: one number of a classifier's scores.

The error counts at the classifier's own threshold. Sensitivity at a specificity and expected cost
are those of the best threshold, which a user moves after training; AUC and average precision have
none. With rare positives the error says little: calling everything negative already has error π.

A new metric is one frozen dataclass and its name in `METRICS`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from sparsetoken.model.law import FeatureLaw
from sparsetoken.model.names import CLASSIFIERS, Names
from sparsetoken.model.scores import Scores
from sparsetoken.model.task import Task
from sparsetoken.model.weightings import Weighting
from sparsetoken.oracles.oracle import bayes_error, oracle_error
from sparsetoken.planning.learners import BestLearner, MoreLabels, best_learners
from sparsetoken.simulation.results import Simulation
from sparsetoken.support.checks import Bounds, real, refusal, settle
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.estimate import Estimate
from sparsetoken.theory.finite_size import FinitePrediction
from sparsetoken.theory.training_sets import Average, Readouts

# Metrics whose targets `plan` has arguments for; any other's is its argument `target`.
GOALS = ("error", "auc", "average precision", "sensitivity", "cost")
_RARE = 0.1  # a prevalence with which the error hardly tells a good classifier from none


class Baseline(NamedTuple):
    """The badness of knowing nothing, above 0, and who has it.

    Where higher is better that is one less the value: half for the AUC of a coin, which is half,
    and 0.8 for a coin that reaches 0.2.
    """

    badness: float
    words: str


def _one_class(prevalence: float, miss: float = 1.0, alarm: float = 1.0) -> Baseline:
    """One class for all: the cheaper one."""
    return min(
        Baseline(prevalence * miss, "calling every sample negative"),
        Baseline((1 - prevalence) * alarm, "calling every sample positive"),
    )


class Metric(ABC):
    """One number of a classifier's scores, and all a planner asks about it.

    >>> Auc().name, Auc().higher_is_better, Auc().baseline(Task(4, 1, 3.0)).words
    ('auc', True, 'a coin')
    """

    higher_is_better: ClassVar[bool] = False
    # Whether it counts at the classifier's own threshold, which is what a finite training set gets
    # wrong. Else the limit, given the query, stands for all training sets in drafts.
    own_threshold: ClassVar[bool] = False

    @abstractmethod
    def value(self, scores: Scores) -> float:
        """The number itself."""

    @abstractmethod
    def baseline(self, task: Task) -> Baseline:
        """What takes no data at all."""

    @property
    def name(self) -> str:
        """As it is asked for: its name in `METRICS`."""
        return METRICS.kind(self)

    @property
    def words(self) -> str:
        """As a person says it."""
        return self.name

    def badness(self, value: float) -> float:
        """To be minimised: the value, or what is missing to one; and a badness's value."""
        return 1 - value if self.higher_is_better else value

    def badness_of(self, scores: Scores) -> float:
        """The badness of scores."""
        return self.badness(self.value(scores))

    def mean_badness(self, readouts: Readouts, law: FeatureLaw) -> float:
        """Over training sets that share a query, on fresh samples of a law."""
        return float(np.mean([self.badness_of(scores) for scores in readouts.scores(law)]))

    def average(self, prediction: FinitePrediction) -> Average:
        """Mean over training sets, and the standard deviation between them."""
        return prediction.training_sets.average(self.value)

    def simulated(self, run: Simulation) -> list[float]:
        """Its values in a simulation, one a repeat."""
        return [float(self.value(run.scores(repeat))) for repeat in range(len(run.outcomes))]

    def useless(self, prediction: FinitePrediction) -> Estimate | None:
        """The chance of a query that does not help, where the metric can tell."""
        return None

    def remarks(self, task: Task) -> Iterator[str]:
        """What speaks against the metric on a task, in sentences."""
        return iter(())

    def oracles(self, task: Task, weighting: Weighting) -> dict[str, Callable[[], float]]:
        """Computations of its best values with the signal known: by classifier, and of any test."""
        return {}

    def learners(
        self, task: Task, dim: int, labelled: float, more: MoreLabels
    ) -> dict[str, BestLearner]:
        """Who does best where the signal must be learned, from labelled bags and what is more."""
        return {}

    def check_baseline(self, task: Task) -> None:
        """Refuse a value in place of a badness, where it shows: knowing nothing is not perfect."""
        badness = self.baseline(task).badness
        if not badness > 0:
            allowed = "above 0 (where higher is better, one less the value)"
            raise refusal(type(self), "the badness of its baseline", badness, allowed)

    def checked_target(self, task: Task, target: float) -> float:
        """A target between the perfect and what takes no data at all."""
        field, (worst, guesser) = target_argument(self.name), self.baseline(task)
        up = self.higher_is_better
        target = real("plan", field, target, **(Bounds(below=1) if up else Bounds()))
        if not up and target <= 0:
            raise InvalidInput(
                f"plan: {field} must be above 0 (no number of samples gets there), got {target:g}; "
                "ask for a small one instead"
            )
        if self.badness(target) >= worst:
            side, wish = ("above", "more") if up else ("below", "less, or for target_auc")
            raise InvalidInput(
                f"plan: {field} must be {side} {self.badness(worst):g} ({guesser} reaches that "
                f"without any data), got {target:g}; ask for {wish}"
            )
        return target


@dataclass(frozen=True)
class Error(Metric):
    """Probability of a wrong answer at the classifier's own threshold."""

    own_threshold = True
    words = "test error"

    def value(self, scores: Scores) -> float:
        return scores.test_error

    def baseline(self, task: Task) -> Baseline:
        return _one_class(task.prevalence)

    def mean_badness(self, readouts: Readouts, law: FeatureLaw) -> float:
        return readouts.mean_test_error(law)  # in closed form

    def average(self, prediction: FinitePrediction) -> Average:
        return Average(prediction.test_error, prediction.spread)

    def simulated(self, run: Simulation) -> list[float]:
        return run.test_error.tolist()  # known already: scores take as long as a run

    def useless(self, prediction: FinitePrediction) -> Estimate | None:
        return prediction.useless  # it is the test error that makes a query useless

    def remarks(self, task: Task) -> Iterator[str]:
        rare = min(task.prevalence, 1 - task.prevalence)
        if rare < _RARE:
            yield (
                f"one class is rare: naming the other one always has error {rare:g} already; ask "
                "for target_auc, target_sensitivity or costs instead"
            )

    def oracles(self, task: Task, weighting: Weighting) -> dict[str, Callable[[], float]]:
        kinds = {name: CLASSIFIERS.make(name, weighting=weighting) for name in CLASSIFIERS}
        tests: dict[str, Callable[[], float]] = {
            name: partial(oracle_error, task, kind)
            for name, kind in kinds.items()
            if kind.possible(task) is None
        }
        return {**tests, "bayes": partial(bayes_error, task)}

    def learners(
        self, task: Task, dim: int, labelled: float, more: MoreLabels
    ) -> dict[str, BestLearner]:
        return best_learners(task, dim, labelled, more)


def oracles_at(
    metric: Metric, task: Task, dim: int, weighting: Weighting
) -> dict[str, Callable[[], float]]:
    """`Metric.oracles` at a size: of a signal with a spread any test is the better the larger it
    is, and has an error of 0 in the limit."""
    oracles = metric.oracles(task, weighting)
    if task.has_spread and "bayes" in oracles:
        oracles["bayes"] = partial(bayes_error, task, dim=dim)
    return oracles


@dataclass(frozen=True)
class Auc(Metric):
    """Probability that a positive sample scores above a negative one."""

    higher_is_better = True
    words = "AUC"

    def value(self, scores: Scores) -> float:
        return scores.auc

    def baseline(self, task: Task) -> Baseline:
        return Baseline(0.5, "a coin")


@dataclass(frozen=True)
class AveragePrecision(Metric):
    """Area under the precision–recall curve."""

    higher_is_better = True

    def value(self, scores: Scores) -> float:
        return scores.average_precision

    def baseline(self, task: Task) -> Baseline:
        return Baseline(1 - task.prevalence, "a coin")


@dataclass(frozen=True)
class Sensitivity(Metric):
    """True positive rate at the threshold with this true negative rate.

    >>> Sensitivity(specificity=0.95).words
    'sensitivity at specificity 0.95'
    """

    specificity: float

    higher_is_better = True

    def __post_init__(self) -> None:
        settle(self, specificity=real("plan", "specificity", self.specificity, above=0, below=1))

    @property
    def words(self) -> str:
        return f"sensitivity at specificity {self.specificity:g}"

    def value(self, scores: Scores) -> float:
        return scores.sensitivity(self.specificity)

    def baseline(self, task: Task) -> Baseline:
        return Baseline(self.specificity, "a coin")


@dataclass(frozen=True)
class Cost(Metric):
    """Expected cost of a sample at the best threshold."""

    cost_false_positive: float = 1.0
    cost_false_negative: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            settle(self, **{field.name: real("plan", field.name, value, above=0)})

    @property
    def words(self) -> str:
        return (
            f"cost per sample (false positive {self.cost_false_positive:g}, "
            f"false negative {self.cost_false_negative:g})"
        )

    def baseline(self, task: Task) -> Baseline:
        return _one_class(task.prevalence, self.cost_false_negative, self.cost_false_positive)

    def value(self, scores: Scores) -> float:
        miss = scores.prevalence * self.cost_false_negative
        alarm = (1 - scores.prevalence) * self.cost_false_positive
        return scores.best_cut(miss, alarm).cost


METRICS: Names[Metric] = Names(
    "metric",
    {
        "error": Error,
        "auc": Auc,
        "average precision": AveragePrecision,
        "sensitivity": Sensitivity,
        "cost": Cost,
    },
)


def parameters(name: str) -> dict[str, float | None]:
    """Fields of a metric, and what they are if not given."""
    fields_of = inspect.signature(METRICS[name]).parameters.values()
    return {x.name: None if x.default is x.empty else x.default for x in fields_of}


def target_argument(name: str) -> str:
    """The argument of `plan` with the value of a metric to reach."""
    return f"target_{name.replace(' ', '_')}" if name in GOALS else "target"


def metric_of(
    name: str | Metric | None,
    target: float | None,
    targets: Mapping[str, float | None],
    arguments: Mapping[str, float | None],
) -> tuple[Metric, float | None]:
    """The one thing that was asked for and the value to reach, checked but for the latter.

    `target` is that of `name`, `targets` have their metrics' names, `arguments` are their fields. A
    metric that is given itself needs nothing but a `target`.
    """
    if isinstance(name, Metric):
        others = {**{target_argument(key): value for key, value in targets.items()}, **arguments}
        for key, value in others.items():
            if value is not None:
                raise refusal("plan", key, value, f"None with metric={name!r}")
        return name, target
    goals = {target_argument(key): key for key, value in targets.items() if value is not None}
    if target is not None:
        goals = {"target": name or "error", **goals}
    if len(goals) > 1:
        raise InvalidInput(f"plan: one target must be given, got {' and '.join(goals)}")
    ((argument, chosen),) = goals.items() or [("", name or "error")]
    if name not in (None, chosen):
        raise InvalidInput(f"plan: metric must be {chosen!r} with {argument}, got {name!r}")
    if chosen not in METRICS:
        METRICS.make(chosen, "plan")  # says which there are
    given = {key: value for key, value in arguments.items() if value is not None}
    own = [key for key in arguments if key in parameters(chosen)]
    for key, value in given.items():
        if key not in own:
            owner = next(other for other in METRICS if key in parameters(other))
            raise InvalidInput(
                f"plan: {key} goes with {target_argument(owner)} or metric={owner!r}, got "
                f"{value!r} with {chosen!r}"
            )
    if own and not given:
        raise InvalidInput(f"plan: {chosen} needs {'= or '.join(own)}=, got none")
    metric = METRICS.make(chosen, "plan", **given)
    return metric, targets.get(chosen) if target is None else target

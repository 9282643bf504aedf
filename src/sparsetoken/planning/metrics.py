r"""What a planner makes good, and how good it should be: one number of a classifier's scores.

The error counts at the classifier's own threshold. Sensitivity at a specificity and expected cost
are those of the best threshold, which a user moves after training; AUC and average precision have
none. With rare positives the error says little: calling everything negative already has error π.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sparsetoken.model.scores import Scores
from sparsetoken.model.task import Task
from sparsetoken.support.checks import real
from sparsetoken.support.errors import InvalidInput

Name = Literal["error", "auc", "average precision", "sensitivity", "cost"]


@dataclass(frozen=True)
class Goal:
    """A metric, with what it needs, and the value to reach (None: the best one can get).

    >>> Goal("sensitivity", specificity=0.95, target=0.8).words
    'sensitivity at specificity 0.95'
    """

    name: Name = "error"
    target: float | None = None
    specificity: float | None = None
    cost_false_positive: float = 1.0
    cost_false_negative: float = 1.0

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self.name in ("auc", "average precision", "sensitivity")

    @property
    def words(self) -> str:
        """As a person says it."""
        if self.name == "sensitivity":
            return f"sensitivity at specificity {self.specificity:g}"
        if self.name == "cost":
            return (
                f"cost per sample (false positive {self.cost_false_positive:g}, "
                f"false negative {self.cost_false_negative:g})"
            )
        return {"error": "test error", "auc": "AUC"}.get(self.name, self.name)

    def value(self, scores: Scores) -> float:
        """The number itself."""
        if self.name == "error":
            return scores.test_error
        if self.name == "auc":
            return scores.auc
        if self.name == "average precision":
            return scores.average_precision
        if self.name == "sensitivity":
            assert self.specificity is not None
            return scores.sensitivity(self.specificity)
        return self._cost(scores)

    def badness(self, scores: Scores) -> float:
        """To be minimised: the number, or what is missing to one."""
        value = self.value(scores)
        return 1 - value if self.higher_is_better else value

    def bad(self, value: float) -> float:
        """The badness of a value."""
        return 1 - value if self.higher_is_better else value

    def of_badness(self, bad: float) -> float:
        """The value of a badness."""
        return 1 - bad if self.higher_is_better else bad

    def reached(self, value: float, slack: float = 0.0) -> bool:
        """Whether a value is as good as the target."""
        assert self.target is not None
        return self.bad(value) <= self.bad(self.target) + slack

    def hopeless(self, task: Task) -> float:
        """The badness of knowing nothing: one class for all, or a coin."""
        rare = task.prevalence
        if self.name == "error":
            return min(rare, 1 - rare)
        if self.name == "cost":
            return min(rare * self.cost_false_negative, (1 - rare) * self.cost_false_positive)
        if self.name == "average precision":
            return 1 - rare
        if self.name == "sensitivity":
            assert self.specificity is not None
            return self.specificity
        return 0.5

    def always_negative(self, task: Task) -> bool:
        """Whether, knowing nothing, one calls every sample negative."""
        costs = self.cost_false_negative, self.cost_false_positive
        miss, alarm = costs if self.name == "cost" else (1.0, 1.0)
        return task.prevalence * miss <= (1 - task.prevalence) * alarm

    def _cost(self, scores: Scores) -> float:
        """Expected cost of a sample at the best threshold."""
        miss = scores.prevalence * self.cost_false_negative
        alarm = (1 - scores.prevalence) * self.cost_false_positive
        return scores.best_cut(miss, alarm).cost


def goal_of(
    task: Task,
    targets: dict[Name, float | None],
    metric: Name | None,
    specificity: float | None,
    cost_false_positive: float | None,
    cost_false_negative: float | None,
) -> Goal:
    """The one thing that was asked for, checked."""
    given = [name for name, value in targets.items() if value is not None]
    if len(given) > 1:
        words = " and ".join(_argument(name) for name in given)
        raise InvalidInput(f"plan: one target must be given, got {words}")
    name: Name = given[0] if given else metric or "error"
    if given and metric not in (None, name):
        raise InvalidInput(f"plan: metric must be {name!r} with {_argument(name)}, got {metric!r}")
    if name not in targets:
        allowed = ", ".join(repr(each) for each in targets)
        raise InvalidInput(f"plan: metric must be one of {allowed}, got {name!r}")
    if name == "sensitivity":
        if specificity is None:
            raise InvalidInput("plan: sensitivity needs specificity= (0.95, say), got None")
        specificity = real("plan", "specificity", specificity, above=0, below=1)
    elif specificity is not None:
        raise InvalidInput(
            f"plan: specificity goes with target_sensitivity or metric='sensitivity', got "
            f"{specificity!r} with {name!r}"
        )
    costs = {"cost_false_positive": cost_false_positive, "cost_false_negative": cost_false_negative}
    for field, cost in costs.items():
        if cost is not None:
            costs[field] = real("plan", field, cost, above=0)
            if name != "cost":
                raise InvalidInput(
                    f"plan: {field} goes with target_cost or metric='cost', got {cost!r} with "
                    f"{name!r}"
                )
    if name == "cost" and set(costs.values()) == {None}:
        raise InvalidInput(
            "plan: cost needs cost_false_positive= or cost_false_negative=, got neither"
        )
    each = {field: 1.0 if cost is None else cost for field, cost in costs.items()}
    goal = Goal(name, None, specificity, **each)
    target = targets[name]
    if target is None:
        return goal
    return replace(goal, target=_checked(goal, task, target))


def _argument(name: Name) -> str:
    return f"target_{name.replace(' ', '_')}"


def _checked(goal: Goal, task: Task, target: float) -> float:
    """A target between the perfect and what takes no data at all."""
    field, worst = _argument(goal.name), goal.hopeless(task)
    if goal.higher_is_better:
        target = real("plan", field, target, below=1)
        if target <= 1 - worst:
            raise InvalidInput(
                f"plan: {field} must be above {1 - worst:g} (a coin reaches that without any "
                f"data), got {target:g}; ask for more"
            )
        return target
    if not real("plan", field, target) > 0:
        raise InvalidInput(
            f"plan: {field} must be above 0 (no number of samples gets there), got {target:g}; "
            "ask for a small one instead"
        )
    if target >= worst:
        always = "negative" if goal.always_negative(task) else "positive"
        raise InvalidInput(
            f"plan: {field} must be below {worst:g} (calling every sample {always} reaches that "
            f"without any data), got {target:g}; ask for less, or for target_auc"
        )
    return target

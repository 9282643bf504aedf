"""A plan and its outlook in words, JSON and a figure: all from their numbers, nothing is solved."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from sparsetoken.model.covariances import TokenNoise
from sparsetoken.model.signals import Varying
from sparsetoken.model.words import task_words
from sparsetoken.planning.metrics import METRICS, parameters
from sparsetoken.planning.unknowns import MOST_SAMPLES
from sparsetoken.support.showing import Captioned
from sparsetoken.support.text import json_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from sparsetoken import figures
    from sparsetoken.planning.advice import Check, Option, Plan
    from sparsetoken.planning.outlook import Outlook

_SPOKEN = {"pooled": "mean pooling"}  # names of classifiers in a sentence, where they differ


def title(plan: Plan) -> str:
    """The task, in symbols."""
    return f"{task_words(plan.answer)}, d = {plan.dim}"


def headline(plan: Plan) -> str:
    """The recommendation in one sentence, and why in a second."""
    best = plan.best
    if best is None:
        return _out_of_reach(plan)
    assert best.tuned is not None
    tuned = best.tuned
    split = f" ({tuned.query_count} for the query, {tuned.readout_count} for the readout)"
    split = split if tuned.query_count else ""
    reached = f"{plan.metric.words} {tuned.value:.4g}"
    answer = f"{tuned.count} labelled samples{split} give {reached}"
    if plan.unknown is not None:
        assert best.needed is not None
        answer = plan.unknown.enough(best.needed, reached, split)
    name = _SPOKEN.get(best.classifier, best.classifier)
    others = ", ".join(
        f"{option.classifier} {_short(plan, option)}"
        for option in plan.options
        if option is not best
    )
    return f"Use {name}: {answer}; {others}. Why: {'; '.join(_reasons(plan, best))}."


def _short(plan: Plan, option: Option) -> str:
    if plan.unknown is None:
        return f"gives {option.value:.4g}"
    if option.needed is None:
        return f"cannot (at best {option.limit:.4g})"
    return plan.unknown.short(option.needed)


def _out_of_reach(plan: Plan) -> str:
    assert plan.unknown is not None and plan.target is not None
    metric, target = plan.metric, plan.metric.badness(plan.target)
    limits = ", ".join(f"{option.classifier} {option.limit:.4g}" for option in plan.options)
    beyond_limits = all(metric.badness(option.limit) > target for option in plan.options)
    where = plan.unknown.nowhere(beyond_limits)
    words = f"A {metric.words} of {plan.target:g} is unreachable {where}; "
    words += f"with infinitely many samples: {limits}"
    if plan.bayes is not None:
        words += f"; the best test of all, with the signal known, has {plan.bayes:.4g}"
    return words + "."


def _reasons(plan: Plan, best: Option) -> Iterator[str]:
    """Cosine, distance to the limit."""
    assert best.tuned is not None
    value = best.tuned.value
    if plan.metric.badness(value) > 0.98 * plan.metric.baseline(plan.task).badness:
        yield "so few samples teach next to nothing"
    attention = plan["attention"]
    if attention.tuned is not None and attention.tuned.prediction.cosine is not None:
        cosine = attention.tuned.prediction.cosine
        pays = "attention pays" if best is attention else "attention does not pay"
        yield f"the query's cosine with the signal would be {cosine:.3f}, {pays}"
    yield f"infinitely many samples would give {best.limit:.4g}, {abs(value - best.limit):.2g} away"


def plan_paragraphs(plan: Plan) -> Iterator[str | pd.DataFrame]:
    """Headline, what is done to tokens, table, warnings, check."""
    yield headline(plan)
    if plan.best is not None and plan.best.shrinkage is not None:
        yield whitening_words(plan.best.shrinkage)
    names = {"value": plan.metric.words, "spread": "± between training sets"}
    yield plan.to_frame().rename(columns=names)
    for warning in plan.warnings:
        yield f"Warning: {warning}."
    if plan.check is not None:
        yield check_words(plan.check, plan.metric.words, plan.dim)


def whitening_words(shrinkage: float) -> str:
    """What is done to tokens before all that is recommended.

    >>> whitening_words(0.1).partition(":")[0]
    'Tokens are to be whitened first, with a shrinkage of 0.1'
    """
    how = "with all of the noise's covariance (shrinkage 0)"
    if shrinkage:
        how = f"with a shrinkage of {shrinkage:g}"
    return (
        f"Tokens are to be whitened first, {how}: multiplied by ((1−γ)Σ + γ tr Σ/d)^−½ with "
        f"γ = {shrinkage:g}. Ridge and steps are for such tokens."
    )


def option_rows(plan: Plan) -> Iterator[figures.Option]:
    """What is drawn of each option: its value with twice its spread, or what it needs."""
    from sparsetoken.figures import Option as Row

    for option in plan.options:
        if plan.unknown is not None:
            needed = math.nan if option.needed is None else option.needed
            words = f"out of reach: at best {option.limit:.3g}"
            yield Row(option.classifier, needed, needed, needed, math.nan, words)
        else:
            assert option.value is not None and option.spread is not None
            value, half = float(option.value), 2 * float(option.spread)
            yield Row(option.classifier, value, value - half, value + half, option.limit)


def option_axis(plan: Plan) -> str:
    """What is on the axis of the options."""
    if plan.unknown is None:
        return f"{plan.metric.words} with {plan.samples} labelled samples"
    what = {
        "samples": "labelled samples",
        "strength": "least strength",
        "length": "greatest length",
    }
    return f"{what[plan.unknown.name]} for {plan.metric.words} {plan.target:g}"


def check_words(check: Check, metric: str, dim: int) -> str:
    """Predicted and simulated, in a sentence."""
    error = math.hypot(check.standard_error, check.predicted.standard_error)
    gap = check.mean - check.predicted
    apart = f"{gap / error:+.1f} standard errors" if abs(gap) < 1e3 * error else f"{gap:+.2g}"
    return (
        f"Check by {len(check.values)} simulated runs at dim {dim}: {metric} predicted "
        f"{check.predicted:.4f}, simulated {check.mean:.4f} ± {check.standard_error:.4f} "
        f"({apart}); single runs from {min(check.values):.4f} to {max(check.values):.4f}."
        + (" The two differ: go by the simulated value." if abs(gap) > 4 * error else "")
    )


def outlook_paragraphs(outlook: Outlook) -> Iterator[str | Captioned]:
    """Capacity, floors, crossover, sensitivities."""
    plan, floors = outlook.plan, outlook.floors
    if plan.best is not None and plan.best.tuned is not None:
        readout, capacity = plan.best.tuned.readout_count, outlook.capacities[plan.best.classifier]
        side = "below" if readout < capacity else "above"
        yield (
            f"{readout} readout samples are {side} the capacity of {capacity:.4g} up to which "
            "training data are fitted without error."
        )
    if floors.errors:
        words = ", ".join(f"{name} {value:.4g}" for name, value in floors.errors.items())
        yield f"Smallest possible errors, signal known: {words}."
    if floors.learned:
        yield _learned_words(plan, floors.learned)
    for name, why in floors.left_out.items():
        yield f"The floor of {name} is left out: {why}."
    if math.isfinite(outlook.crossover):
        yield f"Attention wins from about {outlook.crossover:.0f} samples on."
    else:
        yield f"Attention does not win with up to {MOST_SAMPLES * plan.dim} samples."
    what = plan.metric.words if plan.unknown is None else plan.unknown.name
    yield Captioned(f"If the task were 20 % different ({what}):", outlook.sensitivities)


def _learned_words(plan: Plan, learned: Mapping[str, float]) -> str:
    """What labels allow at best, in the limit of many dimensions, in a sentence."""
    if plan.samples is not None:
        words = ", ".join(f"{name} {value:.4g}" for name, value in learned.items())
        return (
            f"Least errors that {plan.samples} labelled samples allow in many dimensions: {words}."
        )
    words = ", ".join(f"{name} {value:.0f}" for name, value in learned.items())
    goal = f"{plan.metric.words} of {plan.target:g}"
    return f"Fewest labelled samples for {goal} in many dimensions: {words}."


def json_of(outlook: Outlook) -> str:
    """A plan and its outlook, for programs."""
    plan, floors = outlook.plan, outlook.floors
    task = {field.name: getattr(plan.task, field.name) for field in fields(plan.task)}
    if plan.task.is_white:
        del task["noise"], task["signal_spread"]
    task |= {name: repr(law) for name, law in task.items() if isinstance(law, Varying | TokenNoise)}
    goal: dict[str, Any] = {"name": plan.metric.name, "target": plan.target}
    for name in METRICS:
        goal |= parameters(name)
    goal |= asdict(plan.metric)  # type: ignore[call-overload]  # every metric is a dataclass
    content: dict[str, Any] = {
        "headline": headline(plan),
        "recommended": None if plan.best is None else plan.best.classifier,
        "task": task,
        "dim": plan.dim,
        "loss": repr(plan.setting.loss),
        "goal": goal,
        "unknown": None if plan.unknown is None else plan.unknown.name,
        "samples": plan.samples,
        "options": [option.row(plan.unknown) for option in plan.options],
        "crossover": outlook.crossover,
        "floors": floors.errors,
        "floors_learned": floors.learned,
        "floors_left_out": floors.left_out,
        "capacities": outlook.capacities,
        "sensitivity": outlook.sensitivities.to_dict("records"),
        "warnings": list(plan.warnings),
        "check": None if plan.check is None else list(plan.check.values),
    }
    return json_text(content)


def figure(outlook: Outlook, curve: pd.DataFrame) -> Figure:
    """A tuned curve, with target, answer, crossover, capacity and floor."""
    import pandas as pd

    import sparsetoken.figures as figures

    plan, best = outlook.plan, outlook.plan.best
    curve = curve.rename(columns={"samples": "x", "value": "theory"})
    curve["series"] = curve["classifier"]
    ends = [curve["x"].min(), curve["x"].max()]
    levels: dict[str, float] = {}
    if plan.target is not None:
        levels["target"] = plan.target
    if "bayes" in outlook.floors.errors:
        levels["Bayes"] = outlook.floors.errors["bayes"]
    elif best is not None:
        levels[f"limit of {best.classifier}"] = best.limit
    flat = [
        {"series": f"reference: {name}", "x": x, "theory": height}
        for name, height in levels.items()
        for x in ends
    ]
    table = pd.concat([curve, pd.DataFrame(flat)], ignore_index=True)
    table[["simulation", "simulation_error"]] = math.nan
    table["panel"] = title(plan)
    axes = ("labelled samples", plan.metric.words)
    panel = figures.Panel(title(plan), *axes, log="x", low=0.0, legend=False)  # words stand inside
    if plan.metric.higher_is_better:
        panel = replace(panel, low=None)
    drawn = figures.panels(table, [panel])
    marks = {"crossover": outlook.crossover}
    if best is not None and best.tuned is not None:
        marks["answer"] = best.tuned.count
        marks["capacity"] = best.tuned.query_count + outlook.capacities[best.classifier]
    figures.mark(drawn, {k: x for k, x in marks.items() if ends[0] <= x <= ends[1]})
    return drawn

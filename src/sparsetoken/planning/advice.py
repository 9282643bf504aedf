"""`Plan`: the answer of the planner, in words, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from sparsetoken.model.classifiers import Attention, Classifier, Pooled, Vectorized
from sparsetoken.model.signals import Varying, shown
from sparsetoken.model.task import Task
from sparsetoken.oracles.oracle import bayes_error, oracle_error
from sparsetoken.planning.inverse import MOST_SAMPLES, Unknown, crossover
from sparsetoken.planning.metrics import Goal
from sparsetoken.planning.options import EDGE, NAMES, Check, Option, recommended, task_of
from sparsetoken.planning.outlook import Outlook
from sparsetoken.planning.tuners import tuners
from sparsetoken.planning.tuning import Asked
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.errors import ConvergenceError, InvalidInput
from sparsetoken.support.text import json_text, table_text
from sparsetoken.theory.prediction import capacity

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The answer to a question about samples; see `plan`.

    `options` has one entry for each classifier, `best` is the recommended one. Crossover, floors,
    sensitivities and the curve are computed when they are first asked for.
    """

    task: Task
    goal: Goal
    asked: Asked = field(repr=False)
    unknown: Unknown | None
    samples: int | None
    options: tuple[Option, ...]
    warnings: tuple[str, ...]
    check: Check | None = None

    def __getitem__(self, classifier: str) -> Option:
        for option in self.options:
            if option.classifier == classifier:
                return option
        raise KeyError(f"Plan: classifier must be one of {', '.join(NAMES)}, got {classifier!r}")

    @property
    def dim(self) -> int:
        """The embedding dimension."""
        return self.asked.dim

    @property
    def best(self) -> Option | None:
        """The recommended option; None if the target is out of reach for all."""
        return recommended(self.options, self.goal, self.unknown)

    def __str__(self) -> str:
        return f"{self.headline}\n\n{self._table()}"

    def __repr__(self) -> str:
        return f"<Plan for {self.title}: {self.headline.partition(';')[0]}>"

    @property
    def floors(self) -> dict[str, float]:
        """Errors no number of samples gets below: the oracle of each classifier, and Bayes.

        Only errors have such floors; for another goal there is only each option's `limit`. A floor
        that cannot be computed is in `floors_left_out`, with the reason.
        """
        return self._floors[0]

    @property
    def floors_left_out(self) -> dict[str, str]:
        """Floors that cannot be computed, and why."""
        return self._floors[1]

    @cached_property
    def _floors(self) -> tuple[dict[str, float], dict[str, str]]:
        if self.goal.name != "error":
            return {}, {}
        kinds: dict[str, Classifier] = {"attention": Attention(weighting=self.asked.weighting)}
        if self.answer.is_plain:
            kinds["vectorized"] = Vectorized()
        kinds["pooled"] = Pooled()
        tests = {name: partial(oracle_error, self.answer, kind) for name, kind in kinds.items()}
        tests["bayes"] = partial(bayes_error, self.answer)
        found, left_out = {}, {}
        with one_blas_thread():
            for name, test in tests.items():
                try:
                    found[name] = float(test())
                except (InvalidInput, ConvergenceError) as error:  # too long to compute, say
                    left_out[name] = str(error)
        return found, left_out

    @cached_property
    def capacities(self) -> dict[str, float]:
        """Up to how many readout samples each option's training data are separable."""
        found = {}
        for option in self.options:
            if option.tuned is not None:
                task = self._task(option)
                limit = capacity(task, option.tuned.classifier, option.tuned.protocol)
                found[option.classifier] = float(limit) * self.dim
        return found

    @cached_property
    def crossover(self) -> float:
        """The number of samples from which attention is recommended over pooling; inf if never."""
        mine = tuners(self.asked, self.answer)
        with one_blas_thread():
            rivals = [mine["pooled"]]
            # with uniform places it has the same signal as the mean and more noise
            if not self.answer.uniform_places and "vectorized" in mine:
                rivals.append(mine["vectorized"])
            return crossover(mine["attention"], rivals, self.answer, EDGE)

    @property
    def answer(self) -> Task:
        """The task of the answer: as given, or with the strength or length that was solved for."""
        return self._task(self.best)

    def _task(self, option: Option | None) -> Task:
        if option is None:
            return self.task
        return task_of(option, self.task, self.samples, self.unknown, self.dim)

    @property
    def _outlook(self) -> Outlook:
        return Outlook(self.task, self.asked, self.unknown, self.samples, self.options)

    @cached_property
    def sensitivity(self) -> pd.DataFrame:
        """The answer if strength, sparsity or prevalence were 20 % smaller or larger.

        Everything is tuned again. What is needed comes from drafts: good to a percent or two.
        """
        import pandas as pd

        with one_blas_thread():
            return pd.DataFrame(list(self._outlook.changes()))

    @cached_property
    def curve(self) -> pd.DataFrame:
        """The goal against the number of samples, each classifier tuned at each number."""
        import pandas as pd

        marks = [self.crossover] if math.isfinite(self.crossover) else []
        marks += [] if self.samples is None else [float(self.samples)]
        if self.unknown == "samples":
            marks += [option.needed for option in self.options if option.needed]
        if self.best is not None and marks:  # the capacity, unless it is far away
            room = self.capacities[self.best.classifier]
            marks += [room] if room < 30 * max(marks) else []
        with one_blas_thread():
            rows = list(self._outlook.curve(self.answer, marks))
        return pd.DataFrame(rows).sort_values(["classifier", "samples"], ignore_index=True)

    def figure(self) -> Figure:
        """The curve, with target, answer, crossover, capacity and floor."""
        import pandas as pd

        import sparsetoken.figures as figures

        curve = self.curve.rename(columns={"samples": "x", "value": "theory"})
        curve["series"] = curve["classifier"]
        ends = [curve["x"].min(), curve["x"].max()]
        levels: dict[str, float] = {}
        if self.goal.target is not None:
            levels["target"] = self.goal.target
        best = self.best
        if "bayes" in self.floors:
            levels["Bayes"] = self.floors["bayes"]
        elif best is not None:
            levels[f"limit of {best.classifier}"] = best.limit
        flat = [
            {"series": f"reference: {name}", "x": x, "theory": height}
            for name, height in levels.items()
            for x in ends
        ]
        table = pd.concat([curve, pd.DataFrame(flat)], ignore_index=True)
        table[["simulation", "simulation_error"]] = math.nan
        table["panel"] = self.title
        panel = figures.Panel(self.title, "labelled samples", self.goal.words, log="x", low=0.0)
        if self.goal.higher_is_better:
            panel = replace(panel, low=None)
        drawn = figures.panels(table, [panel])
        marks = {"crossover": self.crossover}
        if best is not None and best.tuned is not None:
            marks["answer"] = best.tuned.query_count + best.tuned.readout_count
            marks["capacity"] = best.tuned.query_count + self.capacities[best.classifier]
        figures.mark(drawn, {k: x for k, x in marks.items() if ends[0] <= x <= ends[1]})
        return drawn

    @property
    def title(self) -> str:
        """The task, in symbols."""
        task = self.answer
        return (
            f"L = {task.length}, R = {shown(task.sparsity)}, θ = {shown(task.strength)}, "
            f"π = {task.prevalence:g}, d = {self.dim}"
            + (f", ρ = {task.token_correlation:g}" if task.token_correlation else "")
        )

    @property
    def headline(self) -> str:
        """The recommendation in one sentence, and why in a second."""
        best, goal = self.best, self.goal
        if best is None:
            return self._out_of_reach()
        assert best.tuned is not None and best.value is not None
        query, readout = best.tuned.query_count, best.tuned.readout_count
        split = f" ({query} for the query, {readout} for the readout)" if query else ""
        what = f"{goal.words} {best.value:.4g}"
        need = {
            None: f"{query + readout} labelled samples{split} give {what}",
            "samples": f"{query + readout} labelled samples{split} are enough for {what}",
            "strength": f"a strength of {best.needed or 0:.4g} is enough for {what}{split}",
            "length": f"with up to {best.needed or 0:.0f} tokens {what} is reached{split}",
        }[self.unknown]
        name = "mean pooling" if best.classifier == "pooled" else best.classifier
        others = ", ".join(
            f"{each.classifier} {self._short(each)}" for each in self.options if each is not best
        )
        return f"Use {name}: {need}; {others}. {self._why(best)}"

    def _short(self, option: Option) -> str:
        if self.unknown is None:
            return f"gives {option.value:.4g}"
        if option.needed is None:
            return f"cannot (at best {option.limit:.4g})"
        return f"needs {option.needed:.4g}" if self.unknown != "length" else f"{option.needed:.0f}"

    def _out_of_reach(self) -> str:
        goal = self.goal
        assert goal.target is not None
        limits = ", ".join(f"{each.classifier} {each.limit:.4g}" for each in self.options)
        where = {
            "samples": f"with up to {MOST_SAMPLES * self.dim} samples",
            "strength": "at any strength",
            "length": "at any length",
        }[self.unknown or "samples"]
        if self.unknown == "samples" and not any(goal.reached(x.limit) for x in self.options):
            where = "at any number of samples"
        words = f"A {goal.words} of {goal.target:g} is unreachable {where}; "
        words += f"with infinitely many samples: {limits}"
        if "bayes" in self.floors:
            words += (
                f"; the best test of all, with the signal known, has {self.floors['bayes']:.4g}"
            )
        return words + "."

    def _why(self, best: Option) -> str:
        """Cosine, capacity, distance to the limit."""
        assert best.tuned is not None and best.value is not None
        goal, attention = self.goal, self["attention"]
        reasons = []
        if goal.bad(best.value) > 0.98 * goal.hopeless(self.task):
            reasons.append("so few samples teach next to nothing")
        if attention.tuned is not None and attention.tuned.prediction.cosine is not None:
            cosine = attention.tuned.prediction.cosine
            pays = "attention pays" if best is attention else "attention does not pay"
            reasons.append(f"the query's cosine with the signal would be {cosine:.3f}, {pays}")
        ceiling = self.capacities[best.classifier]
        readout = best.tuned.readout_count
        side = "below" if readout < ceiling else "above"
        reasons.append(
            f"{readout} readout samples are {side} the capacity of {ceiling:.4g} up to which "
            "training data are fitted without error"
        )
        gap = abs(best.value - best.limit)
        reasons.append(f"infinitely many would give {best.limit:.4g}, {gap:.2g} away")
        return "Why: " + "; ".join(reasons) + "."

    def to_frame(self) -> pd.DataFrame:
        """One row per classifier."""
        import pandas as pd

        return pd.DataFrame([option.row(self.unknown) for option in self.options])

    def to_json(self) -> str:
        """Everything but the curve, for programs."""
        task = {name: getattr(self.task, name) for name in self.task.__dataclass_fields__}
        laws = {name: repr(law) for name, law in task.items() if isinstance(law, Varying)}
        task |= laws
        goal = {name: getattr(self.goal, name) for name in self.goal.__dataclass_fields__}
        content: dict[str, Any] = {
            "headline": self.headline,
            "recommended": None if self.best is None else self.best.classifier,
            "task": task,
            "dim": self.dim,
            "loss": repr(self.asked.loss),
            "goal": goal,
            "unknown": self.unknown,
            "samples": self.samples,
            "options": [option.row(self.unknown) for option in self.options],
            "crossover": self.crossover,
            "floors": self.floors,
            "floors_left_out": self.floors_left_out,
            "capacities": self.capacities,
            "sensitivity": self.sensitivity.to_dict("records"),
            "warnings": list(self.warnings),
            "check": None if self.check is None else list(self.check.values),
        }
        return json_text(content)

    def _table(self) -> str:
        names = {"value": self.goal.words, "spread": "± between training sets"}
        return table_text(self.to_frame().rename(columns=names))

    def summary(self) -> str:
        """Headline, table, floors, sensitivities, warnings: what the command line prints."""
        return "\n\n".join(self.paragraphs())

    def paragraphs(self) -> Iterator[str]:
        """The summary, paragraph by paragraph; the later ones take some seconds."""
        yield self.headline
        yield self._table()
        for warning in self.warnings:
            yield f"Warning: {warning}."
        if self.check is not None:
            yield self.check.words(self.goal, self.dim)
        if self.floors:
            floors = ", ".join(f"{name} {value:.4g}" for name, value in self.floors.items())
            yield f"Smallest possible errors, signal known: {floors}."
        for name, why in self.floors_left_out.items():
            yield f"The floor of {name} is left out: {why}."
        if math.isfinite(self.crossover):
            yield f"Attention wins from about {self.crossover:.0f} samples on."
        else:
            yield f"Attention does not win with up to {MOST_SAMPLES * self.dim} samples."
        what = self.unknown or self.goal.words
        yield f"If the task were 20 % different ({what}):\n{table_text(self.sensitivity)}"

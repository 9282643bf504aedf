"""`FitReport`: all that `fit` says about labelled bags, as data; page and JSON show just this."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetoken.bags import report
from sparsetoken.bags.classifier import BagClassifier
from sparsetoken.bags.findings import Pilot
from sparsetoken.bags.forecast import PilotPlan
from sparsetoken.bags.held_out import Comparison
from sparsetoken.bags.intervals import Difference
from sparsetoken.bags.judgement import (
    CurvePoint,
    DataSummary,
    Quality,
    TellingToken,
    TestSize,
    judge,
    learning_curve_of,
    set_against,
    sizes_of_tests,
    summarise_bags,
    telling_tokens,
)
from sparsetoken.bags.source import as_bags
from sparsetoken.support.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class FitReport:
    """All that `fit` says: which pooling, how sure, what is in the bags, what more would give.

    `signal` is the label of bags with a signal, None where each of several is in turn. `chosen` is
    the pooling that `qualities` and `tokens` are about, `differences` are what its AUC is above
    those of the others. There is a `pilot`, or `unplanned` says why not; tokens, or `untold`.

    >>> from sparsetoken import Task, cross_validate
    >>> sample = Task(length=8, sparsity=1, strength=5.0).sample(60, dim=4, rng=0)
    >>> given = sample.tokens, sample.labels
    >>> both = cross_validate(*given, folds=2, poolings=["pooled", "attention"])
    >>> words = {"source": "drawn bags", "commands": ["python own.py"], "version": "0"}
    >>> made = FitReport.of(*given, both, signal=1, chosen="attention", **words)
    >>> made.differences["pooled"].low > 0, made.to_html()[:15]
    (True, '<!doctype html>')
    """

    source: str
    signal: Any
    data: DataSummary
    comparison: Comparison
    chosen: str
    qualities: tuple[Quality, ...]
    differences: Mapping[str, Difference]
    pilot: Pilot | None
    unplanned: str
    plans: tuple[PilotPlan, ...]
    target: PilotPlan | None
    curve: tuple[CurvePoint, ...]
    test_sizes: tuple[TestSize, ...]
    tokens: tuple[TellingToken, ...]
    untold: str
    warnings: tuple[str, ...]
    saved: str | None
    saved_tokens: bool  # whether probabilities of tokens are in that file
    commands: tuple[str, ...]
    version: str

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        comparison: Comparison,
        *,
        source: str,
        signal: Any,
        chosen: str,
        commands: Sequence[str],
        version: str,
        pilot: Pilot | None = None,
        unplanned: str = "",
        plans: Sequence[PilotPlan] = (),
        fewer: PilotPlan | None = None,
        target: PilotPlan | None = None,
        classifier: BagClassifier | None = None,
        warnings: Sequence[str] = (),
        saved: str | None = None,
        saved_tokens: bool = False,
        names: Sequence[str] | None = None,
        groups: Any = None,
        problems: Sequence[tuple[str, str]] = (),
    ) -> FitReport:
        """All that is known about labelled bags, put together; little is computed here.

        `fewer` is a plan for fewer bags, which the curve shows too; `classifier` is the chosen one,
        fitted to all bags, if tokens are to be looked at.
        """
        bags, labels = as_bags(X), np.asarray(y)
        qualities = judge(comparison, chosen, signal)
        tokens: tuple[TellingToken, ...] = ()
        untold = "Tokens were not looked at."
        if signal is None:
            untold = "Tokens are looked at for one label; --positive LABEL chooses it."
        elif classifier is not None and qualities:
            try:
                tokens = telling_tokens(classifier, bags, comparison, chosen, signal, names)
            except InvalidInput as error:  # what it says is for a caller to read
                untold = f"{str(error)[:1].upper()}{str(error)[1:]}."
        drawn = [*([] if fewer is None else [fewer]), *plans]
        return cls(
            source=source,
            signal=signal,
            data=summarise_bags(bags, labels, groups, problems),
            comparison=comparison,
            chosen=chosen,
            qualities=qualities,
            differences=set_against(comparison, chosen),
            pilot=pilot,
            unplanned=unplanned,
            plans=tuple(plans),
            target=target,
            curve=learning_curve_of(pilot, drawn) if pilot is not None and plans else (),
            test_sizes=sizes_of_tests(qualities[0], comparison.level)
            if signal is not None and qualities
            else (),
            tokens=tokens,
            untold=untold,
            warnings=tuple(warnings),
            saved=saved,
            saved_tokens=saved_tokens,
            commands=tuple(commands),
            version=version,
        )

    @property
    def level(self) -> float:
        """Of all intervals."""
        return self.comparison.level

    @property
    def more(self) -> list[dict[str, Any]]:
        """What more labelled bags would give, a row for each number of them."""
        return [plan.row() for plan in self.plans]

    @property
    def plan_warnings(self) -> list[str]:
        """Of all plans, each with what it is about."""
        named = [(f"{plan.question.samples} bags", plan) for plan in self.plans]
        if self.target is not None:
            named.append(("the target", self.target))
        return [f"{words}: {warning}" for words, plan in named for warning in plan.warnings]

    def to_html(self) -> str:
        """A page that needs no other file; the same report gives the same bytes."""
        return report.render(self)

    def content(self) -> dict[str, Any]:
        """For programs: all that JSON can hold."""
        answer: dict[str, Any] = {
            "bags": self.data.bags,
            "dim": self.data.dim,
            "positive": self.signal,
            "data": _plain(self.data),
            "comparison": self.comparison.rows,
            "chosen": self.chosen,
            "differences": {name: _plain(gap) for name, gap in self.differences.items()},
            "quality": _plain(self.qualities),
            "test_bags": _plain(self.test_sizes),
            "warnings": list(self.warnings),
        }
        if self.data.groups is not None:
            answer["groups"] = self.data.groups
        if self.saved is not None:
            answer["saved"] = {
                "classifier": self.chosen, "file": self.saved, "tokens": self.saved_tokens,
            }  # fmt: skip
        if self.pilot is not None:
            answer["pilot"] = json.loads(self.pilot.to_json())
        elif self.unplanned and self.signal is not None:
            answer["pilot"] = {"error": self.unplanned}
        if self.plans:
            answer["plan"] = {"more": self.more, "warnings": self.plan_warnings}
            if self.target is not None:
                answer["plan"]["target"] = self.target.headline
            answer["curve"] = _plain(self.curve)
        if self.tokens:
            answer["tokens"] = _plain(self.tokens)
        return answer


def _plain(value: Any) -> Any:
    """Records as dicts, wherever they are."""
    if hasattr(value, "_asdict"):
        return {key: _plain(entry) for key, entry in value._asdict().items()}
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value

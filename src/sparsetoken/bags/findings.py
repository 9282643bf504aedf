"""`Pilot`: what labelled bags say about their task, with intervals, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparsetoken.bags.anchors import LEAST_POWER, Anchor, anchor_words, disagreements
from sparsetoken.bags.diagnosis import Diagnosis
from sparsetoken.bags.forecast import LEAST_DIM, PilotPlan, anchors_of, error_setting, forecasts
from sparsetoken.bags.intervals import Interval, reach_of
from sparsetoken.bags.measured import Measured, largest
from sparsetoken.model.signals import Varying
from sparsetoken.model.task import Task
from sparsetoken.planning.plan import question_of
from sparsetoken.planning.ridges import Setting
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.showing import Shown
from sparsetoken.support.text import json_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Standard errors from which a signal is there. Two halves that look at each other are lucky
# together: four of these are about as rare as three of independent bags.
SURE = 4.0
# Log likelihood of labels, beyond that of their shares alone, from which tokens with the signal are
# made out: fifty to one.
_RESOLVED = 4.0
_VERDICTS = {
    True: "a sparse signal fits better",
    False: "a dense signal fits better",
    None: "sparse or dense cannot be told",
}


class MatrixInterval(NamedTuple):
    """A matrix (d, d), and the ends of the interval of each of its numbers."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Pilot(Shown):
    """What labelled bags say about their task; see `estimate_task`.

    `strength` is the mean of the law of strength, `spread` its standard deviation, `silent` the
    share of positive bags without any token with the signal. `evidence` for a signal is that of the
    ranks of held-out scores, in standard errors; below 4 there is no `task`. `recognition` is the
    log likelihood of the labels by the fitted signal, beyond that of their shares alone: below 4
    strength and sparsity are not `resolved`, whatever classifiers may find. `lengths` are the
    quartiles, with least and greatest. `effective_dim` is what is left of the dimension where
    whitening does not blow up small variances. `anchors` set theory beside what was measured.
    `effective_bags` are, for each classifier that was measured, the bags without groups that teach
    as much as these: all of them without `groups=`, fewer where bags of a group are alike.

    >>> from sparsetoken import estimate_task
    >>> sample = Task(length=10, sparsity=2, strength=3.0).sample(200, dim=8, rng=0)
    >>> pilot = estimate_task(sample.tokens, sample.labels, measure=False)
    >>> pilot.found, pilot.evidence > 4, pilot.bags, pilot.dim
    (True, True, 200, 8)
    """

    strength: Interval
    spread: Interval
    sparsity: Interval
    silent: Interval
    prevalence: Interval
    length: Interval
    lengths: tuple[float, ...]
    covariance: MatrixInterval
    evidence: float
    recognition: float
    task: Task | None
    diagnosis: Diagnosis
    measured: tuple[Measured, ...]
    anchors: tuple[Anchor, ...]
    bags: int
    dim: int
    effective_dim: float
    level: float

    @property
    def found(self) -> bool:
        """Whether there is a signal at all."""
        return self.task is not None

    @property
    def resolved(self) -> bool:
        """Whether tokens with the signal were made out, along one direction."""
        return self.found and self.recognition > _RESOLVED

    @property
    def fits(self) -> bool:
        """Whether the model fits, and a check that could have seen a misfit says so."""
        agree = bool(self.anchors) and all(anchor.fits for anchor in self.anchors)
        return self.resolved and agree and not self.diagnosis.problems

    @property
    def setting(self) -> Setting:
        """What plans of the test error are made with."""
        return error_setting(self.effective_dim)

    def plan(self, **question: Any) -> PilotPlan:
        """What more labelled bags would give, or how many a target takes, with intervals.

        The theory's answer for the estimated task, anchored to what was measured on the pilot's own
        bags. The question is that of `sparsetoken.plan`: `samples=`, or a target. Of a pilot with
        groups, `samples` are bags grouped as in the pilot, and theory is asked for as many fewer as
        `effective_bags` are fewer than `bags`.
        """
        if self.task is None:
            raise InvalidInput(
                f"Pilot: no signal was found in {self.bags} bags ({self.evidence:.1f} standard "
                f"errors, {SURE:g} are needed), there is nothing to plan for"
            )
        if not self.measured:
            raise InvalidInput(
                "Pilot: plan needs what was measured on the bags, got a pilot estimated with "
                "measure=False; sparsetoken.plan(pilot.task, ...) gives the theory's answer alone"
            )
        asked = question_of(self.task, max(LEAST_DIM, round(self.effective_dim)), **question)
        anchors = self.anchors
        if asked.setting != self.setting:
            anchors = anchors_of(self.measured, self.task, asked.setting, self.diagnosis, self.dim)
        options = forecasts(asked, self.task, anchors, self.level)
        answer = PilotPlan(asked, options, anchors, self.level, ())
        best = answer.best
        warnings = () if best is None else best.warnings
        warnings += tuple(disagreements(anchors, asked.setting.metric))
        return replace(answer, warnings=warnings)

    @property
    def effective_bags(self) -> dict[str, float]:
        """Bags without groups that teach a classifier as much as these, by its name."""
        return {
            point.classifier: self.bags / point.design_effect for point in largest(self.measured)
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """What was measured on these bags: each classifier's test error, beside theory's.

        Bars are intervals at `level`, ticks what theory has for the estimated task and as many
        bags. Needs matplotlib; `ax` is where to draw, a new figure if None.
        """
        from sparsetoken.figures import Option, options

        if not self.anchors:
            raise InvalidInput(
                "Pilot: plot needs what was measured on the bags, got a pilot without (no signal "
                "was found, or measure=False)"
            )
        metric, reach = self.setting.metric, reach_of(self.level)
        rows = []
        for anchor in self.anchors:
            value, half = anchor.measured, reach * anchor.standard_error
            low = max(value - half, 0.0)
            rows.append(Option(anchor.classifier, value, low, value + half, anchor.theory))
        best = min(self.anchors, key=lambda anchor: anchor.measured).classifier
        return options(
            rows,
            ax,
            x=f"{metric.words}, trained on {self.anchors[0].samples} of {self.bags} bags",
            bars=f"measured, {self.level:.0%} intervals",
            ticks="theory of the estimated task",
            best=best,
        )

    def paragraphs(self) -> Iterator[str]:
        """The summary."""
        yield self.summary()

    def summary(self) -> str:
        """All estimates, and what does not fit the model."""
        noise = np.sqrt(np.diag(self.covariance.value))
        five = " ".join(f"{length:.4g}" for length in self.lengths)
        lines = [
            f"{self.bags} bags, {self.dim} dimensions; estimates with {self.level:.0%} intervals"
        ]
        if self.resolved:
            lines += [
                f"strength    {self.strength}  (length of the signal in a token, in units of "
                "noise)",
                f"spread      {self.spread}  (standard deviation of the strength)",
                f"sparsity    {self.sparsity}  (tokens with the signal in a positive bag)",
                f"silent      {self.silent}  (positive bags without such a token)",
            ]
        lines += [
            f"prevalence  {self.prevalence}",
            f"length      {self.length}  (least, quartiles, greatest: {five})",
            f"noise       standard deviations of coordinates from {noise.min():.3g} to "
            f"{noise.max():.3g}; {self.effective_dim:.3g} dimensions after whitening",
        ]
        if words := self.group_sentence():
            lines.append(f"groups      {words}")
        return "\n".join([*lines, *self.sentences()])

    def sentences(self) -> list[str]:
        """Is there a signal, what kind is it, does the model fit, is theory what was measured?"""
        if self.task is None:
            return [
                f"No signal was found: evidence {self.evidence:.1f} standard errors, {SURE:g} are "
                "needed."
            ]
        return [
            f"A signal is there: evidence {self.evidence:.1f} standard errors; {self._kind}.",
            *(f"The model does not fit: {problem}." for problem in self.diagnosis.problems),
            *(anchor_words(anchor, self.setting.metric) for anchor in self.anchors),
            *self._verdict(),
        ]

    def group_sentence(self) -> str:
        """What groups take away; nothing is said without groups."""
        points = largest(self.measured)
        groups = points[0].groups if points else None
        if groups is None:
            return ""
        count = len(np.unique(groups))
        alike = " and ".join(f"{point.correlation:.2g} ({point.classifier})" for point in points)
        worth = " and ".join(f"{bags:.0f} ({name})" for name, bags in self.effective_bags.items())
        return (
            f"{count}; scores of two bags of a group correlate by {alike}: {self.bags} bags teach "
            f"as much as {worth} without groups"
        )

    @property
    def _kind(self) -> str:
        """What signal it is."""
        if not self.resolved:
            return (
                "but it is not one of a few tokens along one direction that could be made out "
                f"(log likelihood of labels {self.recognition:+.2g}, {_RESOLVED:g} are needed): "
                "strength and sparsity are not resolved, forecasts rest on what was measured alone"
            )
        gain, error = self.diagnosis.sparse_gain
        verdict = _VERDICTS[self.diagnosis.sparse]
        return f"{verdict} (log likelihood of a positive bag {gain:+.3g} ± {error:.2g})"

    def _verdict(self) -> list[str]:
        """What was checked, and whether a misfit would have been seen."""
        if not self.anchors:
            return ["Whether predictions are right was not measured."]
        power = min(anchor.power for anchor in self.anchors)
        seen = f"predictions wrong by a factor of two would have been seen with {power:.0%} chance"
        if self.fits:
            return [f"The model fits, and predicts what was measured; {seen}."]
        wrong = list(disagreements(self.anchors, self.setting.metric))
        if wrong:
            return [f"The model does not fit: {sentence}." for sentence in wrong]
        if power < LEAST_POWER:
            return [f"Whether predictions are right cannot be told from so few bags: {seen}."]
        return [f"Theory and measurement agree within their errors, but not closely; {seen}."]

    def to_json(self) -> str:
        """All but the covariance and the scores, for programs."""
        intervals = ("strength", "spread", "sparsity", "silent", "prevalence", "length")
        content: dict[str, Any] = {name: getattr(self, name)._asdict() for name in intervals}
        numbers = (
            "lengths",
            "evidence",
            "recognition",
            "resolved",
            "level",
            "bags",
            "dim",
            "effective_dim",
            "effective_bags",
            "fits",
        )
        content |= {name: getattr(self, name) for name in numbers}
        content["diagnosis"] = asdict(self.diagnosis)
        content["anchors"] = [anchor._asdict() for anchor in self.anchors]
        content["task"] = self.task and _described(self.task)
        return json_text(content)


def _described(task: Task) -> dict[str, Any]:
    """The task's numbers; a law by its values and weights."""
    names = ("length", "sparsity", "strength", "prevalence")
    content = {name: getattr(task, name) for name in names}
    if isinstance(task.strength, Varying):
        values, weights = task.strength.atoms()
        content["strength"] = {"values": values.tolist(), "weights": weights.tolist()}
    return content

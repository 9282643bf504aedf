"""`Pilot`: what labelled bags say about their task, with intervals, in words and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.bags.diagnosis import Diagnosis
from sparsetoken.model.task import Task
from sparsetoken.planning.advice import Plan
from sparsetoken.planning.plan import plan
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.text import json_text

# Standard errors from which a signal is there. Two halves that look at each other are lucky
# together: four of these are about as rare as three of independent bags.
SURE = 4.0
_VERDICTS = {
    True: "a sparse signal fits better",
    False: "a dense signal fits better",
    None: "sparse or dense cannot be told",
}


class Interval(NamedTuple):
    """An estimate and the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


class MatrixInterval(NamedTuple):
    """A matrix (d, d), and the ends of the interval of each of its numbers."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Pilot:
    """What labelled bags say about their task; see `estimate_task`.

    `evidence` for a signal is that of the ranks of held-out scores, in standard errors; below 4
    there is no `task`. `lengths` are the quartiles, with least and greatest.
    `task` has whole numbers of tokens, and the strength that is likeliest with them.

    >>> from sparsetoken import estimate_task
    >>> sample = Task(length=10, sparsity=2, strength=3.0).sample(200, dim=8, rng=0)
    >>> pilot = estimate_task(sample.tokens, sample.labels, resamples=20)
    >>> pilot.found, pilot.evidence > 4, pilot.bags, pilot.dim
    (True, True, 200, 8)
    """

    strength: Interval
    sparsity: Interval
    prevalence: Interval
    length: Interval
    lengths: tuple[float, float, float, float, float]
    covariance: MatrixInterval
    evidence: float
    task: Task | None
    diagnosis: Diagnosis
    bags: int
    dim: int
    level: float

    @property
    def found(self) -> bool:
        """Whether there is a signal at all."""
        return self.task is not None

    def plan(self, **question: Any) -> Plan:
        """`sparsetoken.plan` for the estimated task; give samples= or a target."""
        if self.task is None:
            raise InvalidInput(
                f"Pilot: no signal was found in {self.bags} bags ({self.evidence:.1f} standard "
                f"errors, {SURE:g} are needed), there is nothing to plan for"
            )
        return plan(self.task, self.dim, **question)

    def summary(self) -> str:
        """All estimates, and what does not fit the model."""
        noise = np.sqrt(np.diag(self.covariance.value))
        five = " ".join(f"{length:.4g}" for length in self.lengths)
        lines = [
            f"{self.bags} bags, {self.dim} dimensions; estimates with {self.level:.0%} intervals",
            f"strength    {self.strength}  (length of the signal in a token, in units of noise)",
            f"sparsity    {self.sparsity}  (tokens with the signal in a positive bag)",
            f"prevalence  {self.prevalence}",
            f"length      {self.length}  (least, quartiles, greatest: {five})",
            f"noise       standard deviations of coordinates from {noise.min():.3g} to "
            f"{noise.max():.3g}",
        ]
        if self.task is None:
            lines.append(
                f"No signal was found: evidence {self.evidence:.1f} standard errors, {SURE:g} are "
                "needed; strength and sparsity above mean nothing."
            )
            return "\n".join(lines)
        gain, error = self.diagnosis.sparse_gain
        verdict = _VERDICTS[self.diagnosis.sparse]
        lines.append(
            f"A signal is there: evidence {self.evidence:.1f} standard errors; {verdict} (log "
            f"likelihood of a positive bag {gain:+.3g} ± {error:.2g})."
        )
        lines += [f"The model does not fit: {problem}." for problem in self.diagnosis.problems]
        if not self.diagnosis.problems:
            lines.append("The model fits: noise is white and Gaussian, tokens are independent.")
        return "\n".join(lines)

    def to_json(self) -> str:
        """All but the covariance, for programs."""
        intervals = ("strength", "sparsity", "prevalence", "length")
        content: dict[str, Any] = {name: getattr(self, name)._asdict() for name in intervals}
        numbers = ("lengths", "evidence", "level", "bags", "dim")
        content |= {name: getattr(self, name) for name in numbers}
        content["diagnosis"] = asdict(self.diagnosis)
        names = ("length", "sparsity", "strength", "prevalence")
        content["task"] = self.task and {name: getattr(self.task, name) for name in names}
        return json_text(content)

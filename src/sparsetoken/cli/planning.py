"""Which pooling, how many samples: plan."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import sparsetoken as st
from sparsetoken.cli.output import arguments, note, target
from sparsetoken.model.losses import Loss
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.support.checks import real, whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.whole_files import whole_file

_FORMATS = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class Plan:
    """Is attention worth it, how many labelled samples does it take, how many teach the query?

    Give --samples (what is reached with them?) or a target (how many does it take?), or both and
    --unknown. docs/planning.md tells three stories.
    """

    task: st.Task
    dim: int
    """Embedding dimension."""
    samples: int | None = None
    """Labelled samples, at least 4."""
    target_error: float | None = None
    """Test error to reach."""
    target_auc: float | None = None
    """Area under the ROC curve to reach."""
    target_average_precision: float | None = None
    """Area under the precision–recall curve to reach."""
    target_sensitivity: float | None = None
    """Sensitivity (true positive rate) to reach at --specificity."""
    specificity: float | None = None
    """True negative rate at which sensitivity is meant."""
    target_cost: float | None = None
    """Expected cost of a sample to reach."""
    cost_false_positive: float | None = None
    """Cost of a false alarm; goes with cost."""
    cost_false_negative: float | None = None
    """Cost of a miss; goes with cost."""
    metric: str | None = None
    """What to make best when there is no target: error (if not given), auc, average precision,
    sensitivity, cost."""
    target: float | None = None
    """Value of --metric to reach: the same as the target named after it."""
    unknown: Literal["samples", "strength", "length"] | None = None
    """With --samples and a target: solve for the least strength or the greatest length."""
    weighting: Weighting = SOFTMAX
    """How attention weights tokens by their scores; top-3 for the three largest."""
    loss: Loss = field(default_factory=st.Logistic)
    """Loss of the training."""
    check: bool = False
    """Simulate what is recommended at this dimension, 16 runs, however long they take; without it
    as many as a second or so allows."""
    no_check: bool = False
    """Simulate nothing."""
    annotated: float = 1.0
    """Share of positive bags whose signal tokens could be marked: what would that buy?"""
    unlabelled: int | None = None
    """Bags without a label that could be had: what would they buy? Ten times the labelled ones if
    not given."""
    seed: int = 0
    """Of predictions and check."""
    json: bool = False
    """Print JSON for programs."""
    figure: str | None = None
    """Also draw the whole curve: a file name that ends in .png, .pdf or .svg."""

    def run(self) -> None:
        if self.check and self.no_check:
            raise InvalidInput("plan: give one of --check and --no-check")
        if self.figure is not None and Path(self.figure).suffix not in _FORMATS:
            raise InvalidInput(f"plan: figure must end in .png, .pdf or .svg, got {self.figure!r}")
        figure = target("plan: figure", self.figure)  # refused before the work, not after it
        real("plan", "annotated", self.annotated, least=0, most=1)  # now, not after the plan
        if self.unlabelled is not None:
            whole("plan", "unlabelled", self.unlabelled, least=0)
        check = True if self.check else False if self.no_check else None
        advice = st.plan(**arguments(self, st.plan) | {"check": check})
        if not self.json:
            print(f"{advice}\n", flush=True)
        outlook = st.outlook(advice, annotated=self.annotated, unlabelled=self.unlabelled)
        print(outlook.to_json() if self.json else outlook)
        if figure is not None:
            if sys.stderr.isatty():
                note("drawing the curve takes about ten seconds")
            with whole_file(figure) as draft:
                outlook.figure(st.tuned_curve(outlook)).savefig(draft, dpi=200)
            note(f"the curve is in {self.figure}")

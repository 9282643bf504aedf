r"""Attention whose query and readout learn from the same samples, as classifiers of bags do.

The paper's protocol splits n samples, and its theory needs that: a readout must not meet samples
that have taught the query. Classifiers of bags reuse them all. About the same error is that of n
samples for the query and n others for the readout: within 15 % of what `AttentionClassifier` does
on bags of the model, and nearer than the best split (tests/planning/test_reuse.py). There is no
share to tune, so that the search is one over the sharpness alone.
"""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.model.task import Task
from sparsetoken.planning.ridges import Setting
from sparsetoken.planning.tuning import Knobs, QueryTuner, Reach, Trial, Tuner
from sparsetoken.planning.whitening import tuners

_SHARPNESSES = (0.3, 1.0, 3.0, 8.0)  # where a search looks first
_STEPS = 7  # of the search near the best of them: it ends within 1 % of the least badness


class ReusingTuner(QueryTuner):
    """A classifier whose query and readout learn from all samples."""

    def query_count(self, n: float, share: float) -> float:
        return n

    def readout_count(self, n: float, query_count: float) -> float:
        return n

    def search(
        self, task: Task, n: float, start: Knobs | None = None, reach: Reach | None = None
    ) -> Knobs:
        best = start or min(self._rough(task, n, 1.0, tau) for tau in _SHARPNESSES).knobs
        trials = [Trial(math.inf, best)]

        def badness(log_sharpness: float) -> float:
            ridge = min(trials).knobs.ridge  # where the search for this one's begins
            trials.append(self.draft(task, n, Knobs(ridge, 1.0, math.exp(log_sharpness))))
            return trials[-1].badness

        middle = math.log(best.sharpness)
        reached = math.log(3.0)  # the factor between sharpnesses that are looked at first
        minimize_scalar(
            badness, bounds=(middle - reached, middle + reached), method="bounded",
            options={"maxiter": _STEPS},
        )  # fmt: skip
        return min(trials).knobs


def reusing_tuners(setting: Setting, task: Task) -> dict[str, Tuner]:
    """As `tuners` gives them, but classifiers with a query reuse all samples."""
    return {
        name: ReusingTuner(setting, name, CLASSIFIERS.make(name, weighting=setting.weighting))
        if tuner.classifier.learns_query
        else tuner
        for name, tuner in tuners(setting, task).items()
    }

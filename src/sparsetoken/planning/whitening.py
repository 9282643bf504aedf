r"""Where noise is not white tokens may be whitened first, and how much is one more knob.

Whoever knows Σ may multiply tokens by ((1−γ)Σ + γ tr̄Σ I)^−½ (`whitened`). All of it, γ = 0, makes
noise white: what is tuned then is a white task, with all that is known of those, unless signal
tokens have another covariance. Less of it is better where the signal lies in loud directions, or is
wide where noise is narrow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparsetoken.model.covariances import White
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.model.preprocessing import whitened
from sparsetoken.model.task import Task
from sparsetoken.planning.ridges import Setting
from sparsetoken.planning.tuning import (
    ALONG,
    FAR,
    Knobs,
    QueryTuner,
    Reach,
    ReadoutTuner,
    Trial,
    Tuned,
    Tuner,
)

_LESS = (0.01, 0.03, 0.1, 0.3, 0.6, 1.0)  # shrinkages tried beside 0; badness moves by little
_ENDLESS = (0.0, 0.1, 1.0)  # the same with infinitely many samples
_FAR = Reach(FAR)
_WORTH = 0.99  # of the badness of full whitening: less of it must be better than that


@dataclass(frozen=True)
class WhiteningTuner(Tuner):
    """A tuner, on tokens that are whitened with the best shrinkage.

    The shrinkage is looked for where a search begins from nothing: among a few by drafts, then the
    best of them against full whitening by predictions, as drafts of white noise know more. A start
    has one, and keeps it.
    """

    tuner: Tuner

    def search(
        self, task: Task, n: float, start: Knobs | None = None, reach: Reach = _FAR
    ) -> Knobs:
        if start is not None:
            best = self.tuner.search(_at(task, start), n, start, reach)
            return best._replace(shrinkage=start.shrinkage)
        full = self.tuner.search(whitened(task), n)._replace(shrinkage=0.0)
        others = _less(task)
        if not others:
            return full
        best = min(self.draft(task, n, full._replace(shrinkage=x)) for x in others).knobs
        best = self.search(task, n, best, Reach(ALONG))
        values = (self.predict(task, max(round(n), 4), knobs).value for knobs in (full, best))
        whole, less = map(self.setting.metric.badness, values)
        return best if less < _WORTH * whole else full

    def draft(self, task: Task, n: float, knobs: Knobs) -> Trial:
        badness, best = self.tuner.draft(_at(task, knobs), n, knobs)
        return Trial(badness, best._replace(shrinkage=knobs.shrinkage))

    def rough(self, task: Task, n: float) -> float:
        return min(self.tuner.rough(whitened(task, x), n) for x in (0.0, *_less(task)[-1:]))

    def predict(self, task: Task, n: int, knobs: Knobs) -> Tuned:
        tuned = self.tuner.predict(_at(task, knobs), n, knobs)
        return replace(tuned, knobs=tuned.knobs._replace(shrinkage=knobs.shrinkage))

    def limit(self, task: Task) -> float:
        metric, few = self.setting.metric, _ENDLESS if task.has_spread and _less(task) else (0.0,)
        return metric.badness(min(metric.badness(self.tuner.limit(whitened(task, x))) for x in few))


def _at(task: Task, knobs: Knobs) -> Task:
    assert knobs.shrinkage is not None
    return whitened(task, knobs.shrinkage)


def _less(task: Task) -> tuple[float, ...]:
    """Shrinkages beside full whitening; none for matrices that do not commute, which it alone makes
    commute: with the others each draft takes seconds."""
    return () if task.joint_spectrum is None else _LESS


def tuners(setting: Setting, task: Task) -> dict[str, Tuner]:
    """One for each classifier that has a theory for the task, by name."""
    kinds = {name: CLASSIFIERS.make(name, weighting=setting.weighting) for name in CLASSIFIERS}
    made: dict[str, Tuner] = {
        name: (QueryTuner if kind.learns_query else ReadoutTuner)(setting, name, kind)
        for name, kind in kinds.items()
        # the law of one with a query refuses a task that it is impossible for
        if kind.learns_query or kind.possible(task) is None
    }
    if isinstance(task.noise, White) or task.is_white:
        return made
    return {
        name: WhiteningTuner(setting, name, tuner.classifier, tuner) for name, tuner in made.items()
    }

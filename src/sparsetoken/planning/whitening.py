r"""A plan where noise is not white: tokens are whitened first.

Whoever knows Σ may multiply tokens by Σ^{-½}. Noise is then white and a signal token has the
strength θ√(ξᵀΣ⁻¹ξ), so that all of planning is about that white task, at any size and exactly. What
a shrinkage would add is known in the limit of many dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.covariances import White
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.oracles.whitening import whitened_length
from sparsetoken.support.errors import ConvergenceError, InvalidInput, NoMinimiserError
from sparsetoken.theory.preprocessing import Shrinkage, best_shrinkage


@dataclass(frozen=True)
class Whitening:
    """What a plan for whitened tokens was asked for, and whether all of it is right.

    `stretch` is the strength in whitened units over that of the task; `shrinkage` is of the
    recommended classifier, in the limit (None where nothing is recommended, or it has none).

    >>> from sparsetoken.model.covariances import Spectrum
    >>> asked = Task(10, 1, 3.0, noise=Spectrum((0.25, 4.0), (0.5, 0.5)))
    >>> whitening = whitening_of(asked, 100)
    >>> round(whitening.stretch, 4), round(whitening.white.strength, 3), whitening.white.noise
    (1.4577, 4.373, White())
    """

    task: Task
    stretch: float
    shrinkage: Shrinkage | None = None

    @property
    def white(self) -> Task:
        """The task of whitened tokens."""
        return replace(self.task.weakened(self.stretch), noise=White(), signal_spread=None)

    def compared(self, answer: Task, classifier: Classifier, protocol: Protocol) -> Whitening:
        """With the best shrinkage for the white task of an answer, and how it is trained."""
        task = replace(answer.weakened(1 / self.stretch), noise=self.task.noise)
        try:
            return replace(self, shrinkage=best_shrinkage(task, classifier, protocol))
        except (ConvergenceError, NoMinimiserError):  # the limit has no such fit
            return self


def whitening_of(task: Task, dim: int) -> Whitening | None:
    """How the tokens of a task are made white; None where they are."""
    if task.is_white:
        return None
    if task.has_spread:
        raise InvalidInput(
            "plan: signal tokens must have the covariance of the noise (signal_spread=None): with "
            "another use predict, which is exact in the limit, best_shrinkage for how much to "
            f"whiten and simulate at your size, got {_spread(task)}"
        )
    if task.noise.dim not in (None, dim):
        task.noise.counts(dim)  # says of what size the matrices are
    return Whitening(task, whitened_length(task))


def _spread(task: Task) -> str:
    words = repr(task.noise if task.noise.dim else task.signal_spread)
    return words if len(words) <= 60 else words[:57] + "..."

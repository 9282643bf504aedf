r"""The best that any learner can do with n samples (section 11 of docs/theory.md).

`bayes_error` knows the signal ξ; here it must be learned. The posterior mean of ξ has with ξ a
squared cosine m that solves

    m = Γ/(1 + Γ),   Γ(m) = Σ_k α_k F_k(m)            (`learning_data`; for labelled bags of the
                                                      paper's task Γ = απθ² E⟨v, v̂⟩),

and the test of a new sample is that of section 8 with √m θ in place of θ. There may be several
solutions. Iterated from m = 0, as message passing does from the class mean, the equation ends at
the lowest; the posterior is the one with the least mutual information of data and ξ,

    I(m) = ½ log(1 + Γ) + Σ_k α_k I_k(m) + ½ (S − Γ)(1 − m),   S = Σ_k α_k E⟨u, Σ⁻¹u⟩,

which is stationary at each. Where the two differ the task is *hard*: the samples suffice, and no
fast algorithm is known to find what is in them.

With independent samples all of this is exact in the limit of many dimensions, also where strength
or sparsity vary, places have weights, or tokens of a bag share noise (whose part is then known).
With coloured noise of known spectrum, and known shares of the signal in it, the equation is that of
`prior`, and the test that of the whitened task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsetoken.model.protocol import check_task
from sparsetoken.model.task import Task
from sparsetoken.oracles.learning_data import Labels
from sparsetoken.oracles.learning_equation import (
    BayesPoint,
    Equation,
    HardPhase,
    Learner,
    SamplesNeeded,
)
from sparsetoken.oracles.prior import prior_of
from sparsetoken.oracles.whitening import whitened
from sparsetoken.support.arrays import BoolArray, Column, Curve
from sparsetoken.support.checks import one_of, real, refusal, whole
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.showing import Shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class BayesCurve(Shown, Curve):
    """The best that can be learned from each number of samples, with its numbers as arrays.

    >>> curve = bayes_curve(Task(length=10, sparsity=1, strength=5.0), [0.5, 2.0])
    >>> len(curve), curve[1].samples, curve.reachable.cosine.round(3).tolist()
    (2, 2.0, [0.928, 0.981])
    """

    points: tuple[BayesPoint, ...]

    samples = Column("points", "Labelled samples per dimension, shape (points,).")
    cosine = Column("points", "Cosine of the posterior mean with the signal, shape (points,).")
    test_error = Column("points", "Least test error of any learner, shape (points,).")
    information = Column("points", "Mutual information of data and signal per dimension.")

    @property
    def hard(self) -> BoolArray:
        """Where no fast algorithm is known for what the samples tell, shape (points,)."""
        return np.array([point.hard for point in self.points], dtype=bool)

    @property
    def reachable(self) -> BayesCurve:
        """What message passing from the class mean learns."""
        return BayesCurve(tuple(replace(point, best=point.reachable) for point in self.points))

    def plot(self, ax: Axes | None = None, quantity: str = "test_error") -> Axes:
        """The best that can be learned, and what message passing reaches; grey where it is hard.

        `quantity` is test_error or cosine. Needs matplotlib; `ax` is where to draw, a new figure if
        None.

        >>> ax = bayes_curve(Task(length=10, sparsity=1, strength=5.0), [0.5, 2.0]).plot()
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['any learner', 'message passing']
        """
        from sparsetoken.figures import learning_curve

        quantity = one_of("BayesCurve", "quantity", quantity, ("test_error", "cosine"))
        if not self.points:
            raise InvalidInput("BayesCurve: plot needs a curve of at least one point, got none")
        words = "labelled samples per dimension  $n/d$"
        shown: dict[str, Any] = {"x": words, "y": quantity.replace("_", " ")}
        shown["log"] = quantity == "test_error"
        best, reachable = (getattr(curve, quantity) for curve in (self, self.reachable))
        ax = learning_curve(ax, self.samples, best, name="bayes", label="any learner", **shown)
        name = "message passing"
        hard = self.hard if self.hard.any() else None
        return learning_curve(
            ax, self.samples, reachable, name=name, label=name, hard=hard, **shown
        )

    def paragraphs(self) -> Iterator[str | pd.DataFrame]:
        """A row for each number of samples."""
        import pandas as pd

        yield "the best that any learner can do, and what message passing reaches"
        yield pd.DataFrame(
            {
                "samples": self.samples,
                "cosine": self.cosine,
                "test error": self.test_error,
                "reachable cosine": self.reachable.cosine,
                "reachable test error": self.reachable.test_error,
                "hard": np.where(self.hard, "hard", ""),
            }
        )

    def to_frame(self) -> pd.DataFrame:
        """A table with one row per number of samples."""
        import pandas as pd

        rows = [{"samples": point.samples, **point.numbers} for point in self.points]
        return pd.DataFrame(rows)


def bayes_curve(
    task: Task,
    samples: Sequence[float],
    *,
    annotated: float = 0.0,
    unlabelled: float = 0.0,
    label_noise: float = 0.0,
    seed: int = 0,
) -> BayesCurve:
    """The least test error of any learner from so many samples, and what fast ones reach.

    With m = Γ/(1+Γ), Γ = απθ²E⟨v, v̂(m)⟩, it is `bayes_error` at strength √m θ; see the module.

    The first point of a task also takes what its bags tell at every m: a tenth of a second at
    L = 10, one or two at L = 10⁴. It is kept for the others, a few milliseconds each at L = 10.

    Parameters
    ----------
    task : Task
        What a sample is.
    samples : sequence of float
        α = n/d, labelled samples per embedding dimension; inf is allowed.
    annotated : float
        Share of the positive bags whose signal tokens are marked.
    unlabelled : float
        Samples per dimension without a label, beside the labelled ones.
    label_noise : float
        Chance that a label is wrong, below ½. The test error is that on true labels.
    seed : int
        Of the draws.

    Returns
    -------
    BayesCurve
        A sequence of points; `.cosine`, `.test_error`, `.information`, `.hard` are arrays, and so
        are those of `.reachable`, message passing from the class mean.

    Raises
    ------
    InvalidInput
        For values that are not allowed, or a task whose Bayes test takes too many terms.
    ConvergenceError
        If what bags reveal is not resolved.

    Examples
    --------
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> curve = bayes_curve(task, samples=[0.5, 1.0, 2.0])
    >>> curve.cosine.round(3).tolist(), curve.test_error.round(3).tolist(), curve.hard.tolist()
    ([0.928, 0.962, 0.981], [0.029, 0.023, 0.02], [False, False, False])
    """
    owner = "bayes_curve"
    equation = _equation(owner, task, annotated, unlabelled, label_noise, seed)
    try:
        numbers = list(samples)
    except TypeError:
        raise refusal(owner, "samples", samples, "a sequence of numbers") from None
    if not numbers:
        raise refusal(owner, "samples", samples, "at least one number")
    alphas = [real(owner, "samples", alpha, least=0, infinite=True) for alpha in numbers]
    return BayesCurve(tuple(equation.point(alpha) for alpha in alphas))


def message_passing_rounds(
    task: Task, samples: float, rounds: int = 10, *, start: float = 0.0, seed: int = 0
) -> tuple[Learner, ...]:
    """What message passing has learned after each of its rounds, in the limit.

    m ← Γ(m)/(1 + Γ(m)), the iteration that `simulate(task, MessagePassing(rounds), …)` follows.

    Parameters
    ----------
    task : Task
        What a sample is.
    samples : float
        α = n/d, labelled samples per embedding dimension, above 0.
    rounds : int
        How many.
    start : float
        Cosine of the first estimate with the signal: 0 knows nothing, so that the first round ends
        with the class mean; 1 is the truth.
    seed : int
        Of the draws.

    Returns
    -------
    tuple of Learner
        `.cosine`, `.test_error`, `.information` after each round.

    Raises
    ------
    InvalidInput
        For values that are not allowed.
    ConvergenceError
        If what bags reveal is not resolved.

    Examples
    --------
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> [round(learner.cosine, 3) for learner in message_passing_rounds(task, 1.0, rounds=3)]
    [0.745, 0.961, 0.962]
    """
    owner = "message_passing_rounds"
    equation = _equation(owner, task, 0.0, 0.0, 0.0, seed)
    samples = real(owner, "samples", samples, above=0)
    rounds = whole(owner, "rounds", rounds, least=1, most=1000)
    start = real(owner, "start", start, least=0, most=1)
    if not equation.kinds:  # a signal of strength 0
        return (equation.point(0.0).best,) * rounds
    return tuple(equation.rounds(samples, rounds, start))


def samples_needed(
    task: Task,
    error: float,
    *,
    annotated: float = 0.0,
    unlabelled: float = 0.0,
    label_noise: float = 0.0,
    seed: int = 0,
) -> SamplesNeeded:
    """The fewest labelled samples per dimension for a test error, by any learner and by fast ones.

    Parameters
    ----------
    task : Task
        What a sample is.
    error : float
        To be reached, above `bayes_error(task)`.
    annotated, unlabelled, label_noise, seed
        As in `bayes_curve`.

    Returns
    -------
    SamplesNeeded
        `.best` by any learner, `.reachable` by message passing; 0 for an error that needs none.

    Raises
    ------
    InvalidInput
        For values that are not allowed, or an error at or below that of who knows the signal.
    ConvergenceError
        If what bags reveal is not resolved.

    Examples
    --------
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> needed = samples_needed(task, error=0.03)
    >>> round(needed.best, 2) == round(needed.reachable, 2) == 0.45
    True
    """
    owner = "samples_needed"
    equation = _equation(owner, task, annotated, unlabelled, label_noise, seed)
    error = real(owner, "error", error, above=0, below=1)
    return equation.needed(error)


def hard_phase(
    task: Task,
    *,
    annotated: float = 0.0,
    unlabelled: float = 0.0,
    label_noise: float = 0.0,
    seed: int = 0,
) -> HardPhase | None:
    """The samples per dimension between which the task is hard; None if it never is.

    Parameters
    ----------
    task : Task
        What a sample is.
    annotated, unlabelled, label_noise, seed
        As in `bayes_curve`.

    Returns
    -------
    HardPhase or None
        `.begin`, where the samples begin to suffice, and `.end`, where message passing begins to
        find what is in them.

    Raises
    ------
    InvalidInput, ConvergenceError
        As `bayes_curve`.

    Examples
    --------
    >>> phase = hard_phase(Task(length=100, sparsity=1, strength=4.0, prevalence=0.3))
    >>> round(phase.begin, 2), round(phase.end, 2)
    (0.39, 0.54)
    """
    return _equation("hard_phase", task, annotated, unlabelled, label_noise, seed).hard_phase()


def _equation(
    owner: str, task: Task, annotated: float, unlabelled: float, label_noise: float, seed: int
) -> Equation:
    check_task(owner, task)
    seed = whole(owner, "seed", seed, least=0)
    labels = Labels(annotated, unlabelled, label_noise, owner)
    white, prior = _white(owner, task), prior_of(owner, task)
    return Equation(owner, white, tuple(labels.kinds(white)), seed, prior)


def _white(owner: str, task: Task) -> Task:
    """The task in whitened units."""
    if task.has_spread:
        raise InvalidInput(
            f"{owner}: signal_spread must be that of the noise (None): with another, squares alone "
            "tell signal tokens from noise in the limit of many dimensions, and whoever knows both "
            f"covariances has an error of 0 with no samples at all, got {task.signal_spread!r}"
        )
    return whitened(owner, task)

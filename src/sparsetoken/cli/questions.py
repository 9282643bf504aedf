"""One question, answered at once: predict, simulate, capacity, oracle."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import sparsetoken as st
from sparsetoken.cli.output import Row, arguments, note, show
from sparsetoken.model.classifiers import Classifier
from sparsetoken.model.names import CLASSIFIERS, white_noise
from sparsetoken.model.weightings import SOFTMAX, Weighting
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.progress import progress_bar


def _every() -> tuple[Classifier, ...]:
    return tuple(CLASSIFIERS.make(name) for name in CLASSIFIERS)


@dataclass(frozen=True)
class FrozenQuery:
    """A frozen query instead of a learned one: give both or none."""

    cosine: float | None = None
    """Cosine between the query and the signal, −1 to 1."""
    sharpness: float | None = None
    """β times the norm of the query, at least 0: how peaked the attention is."""
    weighting: Weighting = SOFTMAX
    """How attention weights tokens by their scores; top-3 for the three largest."""


@dataclass(frozen=True)
class Trained:
    """Which classifiers, and how they are trained."""

    protocol: st.Protocol = field(default_factory=st.Protocol)
    query: FrozenQuery = field(default_factory=FrozenQuery)
    classifiers: tuple[Classifier, ...] = field(default_factory=_every)
    """Which classifiers to compare."""

    def chosen(self, task: st.Task) -> dict[str, Classifier]:
        """The classifiers by name; where none was chosen, those that the task has a theory for."""
        if not self.classifiers:
            raise InvalidInput(f"classifiers must be some of {', '.join(CLASSIFIERS)}, got none")
        names = [str(CLASSIFIERS.name(classifier)) for classifier in self.classifiers]
        made = {name: CLASSIFIERS.make(name, **vars(self.query)) for name in names}
        if self.classifiers != _every():  # chosen: a law that cannot be made says why
            return made
        for name in names:
            why = made[name].possible(task)
            if why is not None:
                note(f"{name} is left out: {why}")
                del made[name]
        return made


def _for_dim(task: st.Task, dim: int | None) -> st.Task:
    """The task with no more eigenvalues than dimensions, and a note of that."""
    fewer = task if dim is None else task.for_dim(dim)
    if fewer is not task:
        note(f"dim {dim} has room for {dim} eigenvalues of the noise: neighbours are averaged")
    return fewer


@dataclass(frozen=True)
class Question(ABC):
    """About a task; the answer is a table."""

    task: st.Task
    json: bool = False
    """Print JSON for programs instead of a table."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """What the table shows."""

    def run(self) -> None:
        rows: list[Row] = []
        try:
            for row in self.rows():
                rows.append(row)
        except KeyboardInterrupt:  # what is there is worth showing
            if rows:
                show(rows, self.json)
            raise
        show(rows, self.json)


@dataclass(frozen=True)
class Predict(Question):
    """What will a classifier trained on this task do? In the limit of many dimensions, or in yours.

    With --dim every number is a mean over training sets of that size, spread the standard deviation
    of the test error between them, and useless the share of them whose query does not help.
    """

    trained: Trained = field(default_factory=Trained)
    dim: int | None = None
    """Embedding dimension; the limit of many dimensions if not given."""
    curve: tuple[float, ...] = ()
    """Several numbers of readout samples per dimension, instead of --readout-samples."""
    seed: int = 0
    """Of the training sets drawn with --dim."""

    def rows(self) -> Iterator[Row]:
        protocol = self.trained.protocol
        samples = self.curve or (protocol.readout_samples,)
        limit = self.dim is None
        spreads = () if limit else ("spread", "useless")
        certificate = ("residual", "iterations") if limit or self.json else ()  # fits the screen
        task = _for_dim(self.task, self.dim)
        for name, classifier in self.trained.chosen(task).items():
            for prediction in st.learning_curve(
                task, classifier, protocol, samples, self.dim, seed=self.seed
            ):
                row = {
                    "classifier": name,
                    "readout_samples": prediction.protocol.readout_samples,
                    "test_error": prediction.test_error,
                    "standard_error": prediction.test_error.standard_error,
                }
                for number in (*spreads, "auc", "train_error", "train_loss", "bias"):
                    row[number] = getattr(prediction, number)
                learned = prediction.query if limit else prediction
                for number in ("cosine", "sharpness"):
                    value = getattr(learned, number, None)
                    row[number] = getattr(classifier, number, None) if value is None else value
                yield row | {number: getattr(prediction, number) for number in certificate}


@dataclass(frozen=True)
class Simulate(Question):
    """Does a finite experiment agree with the theory? Both, with the difference in standard errors.

    Theory is that of this dimension for errors, training loss, bias and cosine, and the limit of
    many dimensions for norms: expect differences of order 1/dim beyond the noise.
    """

    trained: Trained = field(default_factory=Trained)
    dim: int = 1000
    """Embedding dimension; the sample numbers per dimension are multiplied by it."""
    repeats: int = 8
    """Independent runs."""
    seed: int = 0
    """Of all random numbers."""
    sampler: Literal["reduced", "tokens"] = "reduced"
    """Exact in law without tokens, or the plain experiment on tokens (its witness, far slower)."""
    device: str | None = None
    """A torch device such as cuda; NumPy if not given."""
    dtype: Literal["float64", "float32"] = "float64"
    """Floating type of the fit."""
    test_samples: int = 10_000
    """Fresh samples for the test error at token level."""
    reuse_data: bool = False
    """Query and readout learn from the same samples (token level; theory assumes they do not)."""
    noise: str | None = None
    """Of tokens (--sampler tokens), instead of the theory's: gaussian, rademacher, student, sparse,
    elliptical, or one of your own."""
    noise_shape: float | None = None
    """Degrees of freedom of student and elliptical noise, share of non-zeros of sparse noise."""
    workers: int = 1
    """Processes; the numbers do not depend on it."""
    threads: int = 1
    """BLAS threads of each repeat."""
    no_progress: bool = False
    """No progress bar on standard error."""

    def rows(self) -> Iterator[Row]:
        yield from replace(self, task=_for_dim(self.task, self.dim))._rows()

    def _rows(self) -> Iterator[Row]:
        noise = None
        if self.noise is not None:
            noise = white_noise("simulate", self.noise, self.noise_shape)
        elif self.noise_shape is not None:
            raise InvalidInput(f"simulate: noise_shape needs a noise, got {self.noise_shape!r}")
        for name, classifier in self.trained.chosen(self.task).items():
            settings = arguments(self, st.simulate) | {
                "classifier": classifier,
                "protocol": self.trained.protocol,
                "reuse_data": self.reuse_data and classifier.learns_query,
                "noise": noise,
            }
            run = st.simulate(**settings, progress=not self.no_progress and sys.stderr.isatty())
            for status in sorted(set(run.status) - {"ok"}):
                note(f"{name}: {run.status.count(status)} of {len(run)} repeats: {status}")
            yield from self._beside_theory(name, classifier, run)
            if run.interrupted:
                raise KeyboardInterrupt(f"{len(run)} of {self.repeats} repeats of {name} finished")

    def _beside_theory(
        self, name: str, classifier: Classifier, run: st.Simulation
    ) -> Iterator[Row]:
        """One row per quantity that both have."""
        limit = st.predict(self.task, classifier, self.trained.protocol)
        here = st.predict(self.task, classifier, self.trained.protocol, max(self.dim, 3))
        numbers = ("test_error", "train_error", "train_loss", "bias")
        theory: dict[str, float] = {number: getattr(here, number) for number in numbers}
        theory["readout_norm"] = limit.fit.norm
        if limit.query is not None:
            theory |= {"cosine": here.cosine or 0.0, "norm": limit.query.norm}
        for quantity, expected in theory.items():
            mean, error = run.mean(quantity), run.sem(quantity)
            count = sum(map(math.isfinite, getattr(run, quantity)))
            both = math.hypot(error, getattr(expected, "standard_error", 0.0))
            gap = (mean - expected) / both if error > 0 else None
            yield {
                "classifier": name,
                "quantity": quantity,
                "theory": expected,
                "simulation": mean,
                "standard_error": error,
                "difference_in_standard_errors": gap,
                "repeats": count,
            }


@dataclass(frozen=True)
class Capacity(Question):
    """Up to how many samples per embedding dimension are the training data linearly separable?"""

    trained: Trained = field(default_factory=Trained)

    def rows(self) -> Iterator[Row]:
        for name, classifier in self.trained.chosen(self.task).items():
            threshold = st.capacity(self.task, classifier, self.trained.protocol)
            yield {
                "classifier": name,
                "capacity": float(threshold),
                "standard_error": threshold.standard_error,
            }


@dataclass(frozen=True)
class Oracle(Question):
    """What is possible at all: the best error of each classifier when the signal is known.

    With --samples the signal is not known: the best that any learner can do with so many samples
    per embedding dimension, and what message passing reaches where that is hard.
    """

    error: float | None = None
    """Also find the smallest strength that reaches this error; with --samples, how many samples."""
    samples: tuple[float, ...] | None = None
    """Labelled samples per embedding dimension from which the signal must be learned."""
    annotated: float = 0.0
    """Share of positive bags whose signal tokens are marked (with --samples)."""
    unlabelled: float = 0.0
    """Bags without a label per dimension, beside the labelled ones (with --samples)."""
    label_noise: float = 0.0
    """Chance that a label is wrong (with --samples)."""
    seed: int = 0
    """Of the random numbers behind the sampled results (attention, Bayes)."""
    dim: int | None = None
    """Embedding dimension, for the Bayes error of a signal with a spread; the limit, where it is 0,
    if not given."""
    weighting: Weighting = SOFTMAX
    """How attention weights tokens by their scores."""

    def rows(self) -> Iterator[Row]:
        if self.samples is not None:
            yield from self._learned(self.samples)
            return
        for name in ("annotated", "unlabelled", "label_noise"):
            if getattr(self, name):
                raise InvalidInput(
                    f"oracle: {name} must be 0 without --samples (the signal is known then), got "
                    f"{getattr(self, name)!r}"
                )
        tests: dict[str, Classifier | None] = {
            name: CLASSIFIERS.make(name, weighting=self.weighting) for name in CLASSIFIERS
        }
        tests["bayes"] = None
        errors = {}
        with progress_bar(len(tests), "oracles", sys.stderr.isatty()) as advance:
            for name, classifier in tests.items():
                try:
                    yield self._row(name, classifier)
                except InvalidInput as error:  # the others are worth showing
                    errors[name] = error
                advance()
        if len(errors) == len(tests):
            raise next(iter(errors.values()))
        for name, why in errors.items():
            note(f"{name} is left out: {why}")

    def _learned(self, samples: tuple[float, ...]) -> Iterator[Row]:
        """What any learner, and message passing, make of the samples; and of those that suffice."""
        wanted = dict.fromkeys(samples, "")
        if self.error is not None:
            needed, goal = (
                st.samples_needed(**arguments(self, st.samples_needed)),
                f"{self.error:g}",
            )
            wanted |= {float(needed.reachable): f"{goal} by message passing"}
            wanted |= {float(needed.best): f"the fewest for {goal}"}
        curve = st.bayes_curve(**arguments(self, st.bayes_curve) | {"samples": sorted(wanted)})
        for point in curve:
            numbers = {name: x for name, x in point.numbers.items() if "information" not in name}
            row: Row = {"samples": point.samples, **numbers, "hard": point.hard}
            yield row | {"remark": wanted[point.samples]} if self.error is not None else row
        phase = st.hard_phase(**arguments(self, st.hard_phase))
        if phase is not None:
            note(
                f"hard between {phase.begin:.3g} and {phase.end:.3g} samples per dimension: enough "
                "to learn more, and no fast algorithm is known that does"
            )

    def _row(self, name: str, classifier: Classifier | None) -> Row:
        if classifier is None:
            task = _for_dim(self.task, self.dim)
            best = st.bayes_error(task, dim=self.dim, seed=self.seed)
        else:
            best = st.oracle_error(self.task, classifier, seed=self.seed)
        row = {"classifier": name, "error": float(best), "standard_error": best.standard_error}
        if self.error is not None:
            strength = st.signal_threshold(self.task, classifier, error=self.error, seed=self.seed)
            row["strength_needed"] = float(strength)
            row["strength_standard_error"] = strength.standard_error
        return row

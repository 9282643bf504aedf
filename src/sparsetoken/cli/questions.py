"""One question, answered at once: predict, simulate, capacity, oracle."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

import sparsetoken as st
from sparsetoken.cli.output import note, show
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
class _Command(ABC):
    task: st.Task
    protocol: st.Protocol = field(default_factory=st.Protocol)
    query: FrozenQuery = field(default_factory=FrozenQuery)
    classifiers: tuple[Classifier, ...] = field(default_factory=_every)
    """Which classifiers to compare."""
    json: bool = False
    """Print JSON for programs instead of a table."""

    def chosen(self) -> dict[str, Classifier]:
        """The classifiers by name."""
        if not self.classifiers:
            raise InvalidInput(f"classifiers must be some of {', '.join(CLASSIFIERS)}, got none")
        names = [str(CLASSIFIERS.name(each)) for each in self.classifiers]
        made = {name: CLASSIFIERS.make(name, **vars(self.query)) for name in names}
        if self.classifiers != _every():  # chosen: a law that cannot be made says why
            return made
        reasons = {name: each.possible(self.task) for name, each in made.items()}
        for name, why in reasons.items():
            if why is not None:
                note(f"{name} is left out: {why}")
        return {name: each for name, each in made.items() if reasons[name] is None}

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """What the table shows, one dict a row."""

    def run(self) -> None:
        self.show(self.rows())

    def show(self, rows: list[dict[str, Any]]) -> None:
        show(rows, self.json)


@dataclass(frozen=True)
class Predict(_Command):
    """What will a classifier trained on this task do? In the limit of many dimensions, or in yours.

    With --dim every number is a mean over training sets of that size, spread the standard deviation
    of the test error between them, and useless the share of them whose query does not help.
    """

    dim: int | None = None
    """Embedding dimension; the limit of many dimensions if not given."""
    curve: tuple[float, ...] = ()
    """Several numbers of readout samples per dimension, instead of --readout-samples."""
    seed: int = 0
    """Of the training sets drawn with --dim."""

    def rows(self) -> list[dict[str, Any]]:
        samples = self.curve or (self.protocol.readout_samples,)
        rows = []
        for name, classifier in self.chosen().items():
            curve = st.learning_curve(
                self.task, classifier, self.protocol, samples, self.dim, seed=self.seed
            )
            for each in curve:
                row = {
                    "classifier": name,
                    "readout_samples": each.protocol.readout_samples,
                    "test_error": each.test_error,
                    "standard_error": each.test_error.standard_error,
                }
                if self.dim is not None:
                    row |= {"spread": each.spread, "useless": each.useless}
                row |= {
                    "auc": each.auc,
                    "train_error": each.train_error,
                    "train_loss": each.train_loss,
                    "bias": each.bias,
                }
                of = each if self.dim is not None else each.query  # who knows the query
                for number in ("cosine", "sharpness"):
                    found = getattr(of, number, None)
                    row[number] = getattr(classifier, number, None) if found is None else found
                row |= {"residual": each.residual, "iterations": each.iterations}
                if self.dim is not None and not self.json:  # a table that fits the screen
                    del row["residual"], row["iterations"]
                rows.append(row)
        return rows


@dataclass(frozen=True)
class Simulate(_Command):
    """Does a finite experiment agree with the theory? Both, with the difference in standard errors.

    Theory is that of this dimension for errors, training loss, bias and cosine, and the limit of
    many dimensions for norms: expect differences of order 1/dim beyond the noise.
    """

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

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        noise = None
        if self.noise is not None:
            noise = white_noise("simulate", self.noise, self.noise_shape)
        elif self.noise_shape is not None:
            raise InvalidInput(f"simulate: noise_shape needs a noise, got {self.noise_shape!r}")
        for name, classifier in self.chosen().items():
            run = st.simulate(
                self.task, classifier, self.protocol, self.dim, self.repeats, self.seed,
                self.sampler, self.device, dtype=self.dtype, test_samples=self.test_samples,
                reuse_data=self.reuse_data and classifier.learns_query, workers=self.workers,
                threads=self.threads, noise=noise,
                progress=not self.no_progress and sys.stderr.isatty(),
            )  # fmt: skip
            for status in sorted(set(run.status) - {"ok"}):
                note(f"{name}: {run.status.count(status)} of {len(run)} repeats: {status}")
            rows += self._beside_theory(name, classifier, run)
            if run.interrupted:
                self.show(rows)
                raise KeyboardInterrupt(f"{len(run)} of {self.repeats} repeats of {name} finished")
        return rows

    def _beside_theory(
        self, name: str, classifier: Classifier, run: st.Simulation
    ) -> list[dict[str, Any]]:
        """One row per quantity that both have."""
        limit = st.predict(self.task, classifier, self.protocol)
        here = st.predict(self.task, classifier, self.protocol, max(self.dim, 3))
        names = ("test_error", "train_error", "train_loss", "bias")
        theory: dict[str, float] = {each: getattr(here, each) for each in names}
        theory["readout_norm"] = limit.fit.norm
        if limit.query is not None:
            theory |= {"cosine": here.cosine or 0.0, "norm": limit.query.norm}
        rows = []
        for quantity, expected in theory.items():
            mean, error = run.mean(quantity), run.sem(quantity)
            count = sum(map(math.isfinite, getattr(run, quantity)))
            both = math.hypot(error, getattr(expected, "standard_error", 0.0))
            gap = (mean - expected) / both if error > 0 else None
            rows.append(
                {
                    "classifier": name,
                    "quantity": quantity,
                    "theory": expected,
                    "simulation": mean,
                    "standard_error": error,
                    "difference_in_standard_errors": gap,
                    "repeats": count,
                }
            )
        return rows


@dataclass(frozen=True)
class Capacity(_Command):
    """Up to how many samples per embedding dimension are the training data linearly separable?"""

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for name, classifier in self.chosen().items():
            threshold = st.capacity(self.task, classifier, self.protocol)
            error = threshold.standard_error
            rows.append({"classifier": name, "capacity": float(threshold), "standard_error": error})
        return rows


@dataclass(frozen=True)
class Oracle:
    """What is possible at all: the best error of each classifier when the signal is known."""

    task: st.Task
    error: float | None = None
    """Also find the smallest strength that reaches this error."""
    seed: int = 0
    """Of the random numbers behind the sampled results (attention, Bayes)."""
    weighting: Weighting = SOFTMAX
    """How attention weights tokens by their scores."""
    json: bool = False
    """Print JSON for programs instead of a table."""

    def rows(self) -> list[dict[str, Any]]:
        tests: dict[str, Classifier | None] = {
            name: CLASSIFIERS.make(name, weighting=self.weighting) for name in CLASSIFIERS
        }
        tests["bayes"] = None
        rows, errors = [], {}
        with progress_bar(len(tests), "oracles", sys.stderr.isatty()) as advance:
            for name, classifier in tests.items():
                try:
                    rows.append(self._row(name, classifier))
                except InvalidInput as error:  # the others are worth showing
                    errors[name] = error
                advance()
        if not rows:
            raise next(iter(errors.values()))
        for name, why in errors.items():
            note(f"{name} is left out: {why}")
        return rows

    def _row(self, name: str, classifier: Classifier | None) -> dict[str, Any]:
        if classifier is None:
            best = st.bayes_error(self.task, seed=self.seed)
        else:
            best = st.oracle_error(self.task, classifier, seed=self.seed)
        row = {"classifier": name, "error": float(best), "standard_error": best.standard_error}
        if self.error is not None:
            strength = st.signal_threshold(self.task, classifier, error=self.error, seed=self.seed)
            row["strength_needed"] = float(strength)
            row["strength_standard_error"] = strength.standard_error
        return row

    run, show = _Command.run, _Command.show

"""What fixes the numbers of a simulation, checked when it is written down."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from sparsetoken.model.classifiers import Classifier, refuse
from sparsetoken.model.noise import Noise, Shared
from sparsetoken.model.protocol import Protocol, check_kinds, check_protocol, check_task
from sparsetoken.model.task import Task
from sparsetoken.simulation.devices import Device
from sparsetoken.simulation.outcome import Outcome, Training
from sparsetoken.support.checks import one_of, settle, whole
from sparsetoken.support.errors import InvalidInput

Sampler = Literal["reduced", "tokens"]


class Learner(typing.Protocol):
    """What `simulate` may run beside classifiers: it learns from labelled samples its own way."""

    learns_query: ClassVar[bool]
    learns_jointly: ClassVar[bool]
    directions: ClassVar[int]

    def possible(self, task: Task) -> str | None:
        """Why it cannot learn this task, in a sentence; None if it can."""
        ...

    def numbers(self, settings: Settings) -> float:
        """How many a repeat holds at once, at the least."""
        ...

    def learn(self, settings: Settings, seed: np.random.SeedSequence) -> Outcome:
        """One run, tested on fresh samples."""
        ...


_NUMBERS_A_SAMPLE = 12  # held at once for each sample of the query (`model/queries.py`)


@dataclass(frozen=True)
class Settings:
    """Everything that fixes the numbers of a repeat, but its index."""

    task: Task
    classifier: Classifier  # or a learner of its own: see `learner`
    protocol: Protocol
    dim: int
    seed: int = 0
    sampler: Sampler = "reduced"
    device: str | None = None
    dtype: str = "float64"
    test_samples: int = 10_000
    reuse_data: bool = False
    threads: int = 1
    training: Training = "stages"
    noise: Noise | None = None  # None: the task's own

    def __post_init__(self) -> None:
        if self.learner is None:
            check_kinds("simulate", self.task, self.classifier, self.protocol)
        else:
            check_task("simulate", self.task)
            check_protocol("simulate", self.protocol)
            refuse(self.learner.possible(self.task))
        least, why = self.classifier.directions, "the explicit directions of the features"
        settle(
            self,
            dim=whole("simulate", "dim", self.dim, least=least, why=why),
            seed=whole("simulate", "seed", self.seed, least=0),
            test_samples=whole("simulate", "test_samples", self.test_samples, least=1),
            threads=whole("simulate", "threads", self.threads, least=1),
        )
        if not self.task.is_white:
            self.task.noise.counts(self.dim)  # refuses dimensions that the covariances do not have
        one_of("simulate", "sampler", self.sampler, get_args(Sampler))
        one_of("simulate", "training", self.training, get_args(Training))
        if self.noise is not None and self.sampler != "tokens":
            raise InvalidInput(
                "simulate: noise must be None with sampler='reduced' (whose law is that of "
                f"Gaussian noise), got {self.noise!r}; use sampler='tokens'"
            )
        drawn = self.noise is None or callable(getattr(self.noise, "draw", None))
        if isinstance(self.noise, type) or not drawn:
            raise InvalidInput(
                "simulate: noise must be None or a noise such as NOISES.make('rademacher'), got "
                f"{self.noise!r}"
            )
        if self.reuse_data and self.sampler != "tokens":
            raise InvalidInput(
                "simulate: reuse_data must be False with sampler='reduced' (a query that has seen "
                "the readout's samples leaves no simple law), got True; use sampler='tokens'"
            )
        if self.reuse_data and not self.classifier.learns_query:
            raise InvalidInput(
                "simulate: reuse_data must be False for a classifier without a learned query, "
                "got True"
            )
        if self.training != "stages" and not (self.reuse_data and self.device is None):
            raise InvalidInput(
                "simulate: training must be 'stages' unless reuse_data=True (all parameters learn "
                f"from the same samples) and device=None, got {self.training!r}"
            )
        if self.training != "stages" and not self.classifier.learns_jointly:
            raise InvalidInput(
                "simulate: training must be 'stages' for a weighting other than softmax (whose "
                f"gradient joint training follows), got {self.training!r}"
            )
        self.sizes  # noqa: B018 (enough samples in each stage)
        Device(dtype=self.dtype)  # checked; the device itself need only be where the work is done

    @property
    def learner(self) -> Learner | None:
        """What learns in its own way; None for a classifier, which the protocol trains."""
        own: Any = self.classifier
        kind = isinstance(own, type)  # a class where an object is meant
        return None if kind or not callable(getattr(own, "learn", None)) else own

    @property
    def sizes(self) -> tuple[int, int]:
        """n₀ and n₁."""
        return self.protocol.counts("simulate", self.dim, self.classifier.learns_query)

    @property
    def memory(self) -> float:
        """Bytes that a repeat takes, at the least: its features and a copy; samples of the query.

        >>> from sparsetoken import Pooled
        >>> Settings(Task(10, 1, 5.0), Pooled(), Protocol(), 1000).memory / 2**20 > 50
        True
        """
        if self.learner is not None:
            return (4 if self.dtype == "float32" else 8) * self.learner.numbers(self)
        count = self.sizes[1]
        columns = self.dim * self.classifier.features_per_dim(self.task)
        item = 4 if self.dtype == "float32" else 8
        return 2.0 * item * count * min(count, columns) + _NUMBERS_A_SAMPLE * 8.0 * self.sizes[0]

    @property
    def token_noise(self) -> Noise:
        """What tokens without a signal are."""
        shared = self.task.token_correlation
        if self.noise is None:
            return self.task.white_noise
        return Shared(shared, self.noise) if shared else self.noise

    @property
    def place(self) -> Device:
        """Where the arrays live."""
        return Device(self.device, self.dtype)

r"""The plain experiment on tokens that are not what the theory assumes.

The theory has tokens with independent N(0, 1) coordinates. A `Departure` has others, all with mean
0 and variance 1 in every coordinate:

| noise        | a coordinate is                                                   | `shape` |
|--------------|-------------------------------------------------------------------|---------|
| "gaussian"   | N(0, 1)                                                           |         |
| "rademacher" | ±1                                                                |         |
| "student"    | t_ν √((ν−2)/ν), each coordinate for itself                        | ν > 2   |
| "sparse"     | ±1/√ε with probability ε, else 0                                  | ε       |
| "elliptical" | N(0, 1)·S, one S for the whole token, S² = (ν−2)/χ²_ν: mean 1     | ν > 2   |

Coloured noise is z → Cz with CCᵀ = Σ, Σ_jk = c^|j−k| (its average variance is 1, whatever c). The
signal θξ has a random direction ξ or that of the first coordinate. With `whitening` the tokens are
multiplied by Σ̂^{-½}, Σ̂ from noise tokens of negative training samples, and the signal is θξ/‖C⁻¹ξ‖:
of strength θ in whitened units.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sparsetoken.fitting.fit import fit
from sparsetoken.model.classifiers import Query
from sparsetoken.simulation.outcome import Outcome, one_class, training_numbers
from sparsetoken.simulation.settings import Settings
from sparsetoken.simulation.tokens import TokenStream, learn_query
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real
from sparsetoken.support.errors import InvalidInput

Noise = Literal["gaussian", "rademacher", "student", "sparse", "elliptical"]
Direction = Literal["random", "coordinate"]
_SHAPES: dict[str, dict[str, float]] = {  # what the shape of a noise may be
    "student": {"above": 2.0, "most": 1e6},
    "sparse": {"above": 0.0, "most": 1.0},
    "elliptical": {"above": 2.0, "most": 1e6},
}
_BLOCK = 1 << 20  # numbers in a block of tokens


@dataclass(frozen=True)
class Departure:
    """How tokens differ from those of the theory; as it stands, not at all.

    Parameters
    ----------
    noise : str
        "gaussian", "rademacher", "student", "sparse" or "elliptical".
    shape : float, optional
        Degrees of freedom of "student" and "elliptical", share of non-zeros of "sparse".
    correlation : float
        c, of neighbouring coordinates, 0 ≤ c < 1.
    direction : str
        Of the signal: "random", or that of the first "coordinate".
    whitening : float, optional
        Noise tokens per dimension from which the covariance is estimated (as many as there are, if
        there are fewer); inf for the true covariance; None leaves tokens as they are.

    >>> Departure("student", 5.0).draw((2, 3), np.random.default_rng(0)).shape
    (2, 3)
    >>> Departure("cauchy")
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: Departure: noise must be one of 'gaussian', 'rademacher', 'student',
    'sparse', 'elliptical', got 'cauchy'
    """

    noise: Noise = "gaussian"
    shape: float | None = None
    correlation: float = 0.0
    direction: Direction = "random"
    whitening: float | None = None

    def __post_init__(self) -> None:
        for name, kinds in (("noise", Noise), ("direction", Direction)):
            if getattr(self, name) not in get_args(kinds):
                allowed = ", ".join(map(repr, get_args(kinds)))
                raise InvalidInput(
                    f"Departure: {name} must be one of {allowed}, got {getattr(self, name)!r}"
                )
        if self.noise in _SHAPES:
            shape = real(Departure, "shape", self.shape, **_SHAPES[self.noise])  # type: ignore
            object.__setattr__(self, "shape", shape)
        elif self.shape is not None:
            raise InvalidInput(
                f"Departure: shape must be None for {self.noise!r} noise, got {self.shape!r}"
            )
        correlation = real(Departure, "correlation", self.correlation, least=0, below=1)
        object.__setattr__(self, "correlation", correlation)
        if self.whitening is not None:
            whitening = real(Departure, "whitening", self.whitening, least=1, infinite=True)
            object.__setattr__(self, "whitening", whitening)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """White noise of this kind, coordinates last."""
        if self.noise == "rademacher":
            return np.where(rng.integers(0, 2, shape) > 0, 1.0, -1.0)
        if self.noise == "gaussian":
            return rng.standard_normal(shape)
        assert self.shape is not None
        if self.noise == "student":
            return rng.standard_t(self.shape, shape) * math.sqrt(1 - 2 / self.shape)
        if self.noise == "sparse":
            uniform = rng.random(shape) - 0.5  # in the middle 1 − ε: 0; above: +; below: −
            size = self.shape**-0.5
            drawn: FloatArray = np.where(
                2 * np.abs(uniform) < 1 - self.shape, 0.0, size * np.sign(uniform)
            )
            return drawn
        scale = np.sqrt((self.shape - 2) / rng.chisquare(self.shape, (*shape[:-1], 1)))
        return scale * rng.standard_normal(shape)

    def root(self, dim: int) -> FloatArray | None:
        """The lower triangle C with CCᵀ = Σ; None for white noise."""
        if self.correlation == 0:
            return None
        steps = np.arange(dim)
        factor: FloatArray = np.linalg.cholesky(
            self.correlation ** np.abs(steps[:, None] - steps).astype(float)
        )
        return factor

    def signal(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """ξ, or with whitening ξ/‖C⁻¹ξ‖."""
        xi = np.zeros(dim)
        xi[0] = 1.0
        if self.direction == "random":
            xi = rng.standard_normal(dim)
        xi /= np.linalg.norm(xi)
        root = self.root(dim)
        if self.whitening is None or root is None:
            return xi
        return xi / float(np.linalg.norm(np.linalg.solve(root, xi)))


@dataclass(frozen=True, eq=False)
class DepartedStream(TokenStream):
    """Samples with other noise, each token x → Wᵀ(Cz + θvξ), drawn again in each pass."""

    departure: Departure
    colour: FloatArray | None  # C
    whitener: FloatArray | None = None  # W

    def samples(self, count: int | None = None) -> Iterator[tuple[slice, FloatArray]]:
        """Tokens (rows, L, d) of the first `count` samples, a block of samples at a time."""
        rng = np.random.default_rng(self.seed)
        dim, length = len(self.signal), self.task.length
        end = len(self.labels) if count is None else count
        rows = max(1, _BLOCK // (length * dim))
        for start in range(0, end, rows):
            part = slice(start, min(start + rows, end))
            positive = self.labels[part] > 0
            places = self.task.sample_places(len(positive), rng) & positive[:, None]
            tokens = self.departure.draw((len(places), length, dim), rng)
            if self.colour is not None:
                tokens = tokens @ self.colour.T
            tokens[places] += self.task.fixed_strength * self.signal
            yield part, tokens if self.whitener is None else tokens @ self.whitener


def run_departed(settings: Settings, departure: Departure, index: int) -> Outcome:
    """One repeat of the four-stage protocol on such tokens, tested on fresh ones.

    Of the settings, the sampler must be "tokens" and the training that of the protocol.
    """
    if settings.sampler != "tokens" or settings.reuse_data or settings.device is not None:
        raise InvalidInput(
            "run_departed: settings must have sampler='tokens', reuse_data=False and device=None, "
            f"got {settings.sampler!r}, {settings.reuse_data!r} and {settings.device!r}"
        )
    if not settings.task.is_plain:
        raise InvalidInput(
            "run_departed: task must have one strength, one sparsity and independent tokens, got "
            f"{settings.task!r}"
        )
    start = time.perf_counter()
    seeds = np.random.SeedSequence(settings.seed, spawn_key=(index,)).spawn(4)
    rng = np.random.default_rng(seeds[0])
    task, classifier, protocol = settings.task, settings.classifier, settings.protocol
    signal, colour = departure.signal(settings.dim, rng), departure.root(settings.dim)

    def stream(n: int, seed: np.random.SeedSequence, whitener: FloatArray | None) -> DepartedStream:
        labels = task.sample_labels(n, np.random.default_rng([*seed.generate_state(4)]))
        return DepartedStream(
            task, labels, signal, seed, settings.place, departure, colour, whitener
        )

    sizes = (settings.sizes[0], settings.sizes[1], settings.test_samples)
    whitener = None
    if departure.whitening is not None:
        raw = [stream(n, seed, None) for n, seed in zip(sizes[:2], seeds[1:3], strict=True)]
        whitener = whitening(raw, departure, settings.dim)
    queries, readouts, tests = (
        stream(n, seed, whitener) for n, seed in zip(sizes, seeds[1:], strict=True)
    )
    seen = signal if whitener is None else signal @ whitener
    query, direction = None, None
    if classifier.learns_query:
        gradient = learn_query(queries, sizes[0], protocol)
        norm = float(np.linalg.norm(gradient))
        overlap = float(gradient @ seen / np.linalg.norm(seen))
        query = Query(overlap, norm, protocol.inverse_temperature * norm)
        direction = protocol.inverse_temperature * gradient
    alone = one_class(readouts.labels, query)
    if alone is not None:
        return alone
    blocks = [classifier.features(tokens, direction) for _, tokens in readouts.samples()]
    fitted = fit(np.concatenate(blocks), readouts.labels, protocol.loss, protocol.ridge)
    wrong = 0.0
    for part, tokens in tests.samples():
        margin = tests.labels[part] * (
            classifier.features(tokens, direction) @ fitted.weights + fitted.bias
        )
        wrong += float(np.sum(margin < 0) + 0.5 * np.sum(margin == 0))
    train_error, train_loss = training_numbers(fitted.scores, readouts.labels, protocol.loss)
    return Outcome(
        query=query,
        readout_norm=float(np.linalg.norm(fitted.weights)),
        train_error=train_error,
        train_loss=train_loss,
        test_error=wrong / settings.test_samples,
        certificate=fitted.certificate,
        seconds=time.perf_counter() - start,
    )


def whitening(streams: list[DepartedStream], departure: Departure, dim: int) -> FloatArray:
    """Σ^{-½}, symmetric: of the true covariance, or of noise tokens of negative samples."""
    assert departure.whitening is not None
    if departure.whitening == math.inf:
        root = departure.root(dim)
        covariance = np.eye(dim) if root is None else root @ root.T
    else:
        wanted, count = math.ceil(departure.whitening * dim), 0
        covariance = np.zeros((dim, dim))
        for stream in streams:
            for part, tokens in stream.samples():
                noise = tokens[stream.labels[part] < 0].reshape(-1, dim)[: wanted - count]
                covariance += noise.T @ noise
                count += len(noise)
                if count == wanted:
                    break
        covariance /= max(count, 1)
    values, vectors = np.linalg.eigh(covariance)
    if values[0] <= dim * np.finfo(float).eps * values[-1]:
        raise InvalidInput(
            f"Departure: whitening needs at least {dim} noise tokens (the dimension), "
            f"got {departure.whitening:g} per dimension of negative training samples that have less"
        )
    inverse: FloatArray = (vectors / np.sqrt(values)) @ vectors.T
    return inverse

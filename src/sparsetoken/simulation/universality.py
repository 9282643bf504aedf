r"""The plain experiment on tokens that are not what the theory assumes.

The theory has Gaussian tokens. A `Departure` has other noise (`model/noise.py`), white or coloured,
and a signal θξ of random direction ξ or that of the first coordinate. With `whitening` the tokens
are multiplied by Σ̂^{-½}, Σ̂ from noise tokens of negative training samples, and the signal is
θξ/√(ξᵀΣ⁻¹ξ): of strength θ in whitened units.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from sparsetoken.model.names import white_noise
from sparsetoken.model.noise import Coloured, Noise
from sparsetoken.simulation.outcome import Outcome
from sparsetoken.simulation.settings import Settings
from sparsetoken.simulation.tokens import Streams, TokenStream, run
from sparsetoken.support.arrays import Array, FloatArray
from sparsetoken.support.checks import one_of, real, settle
from sparsetoken.support.errors import InvalidInput

Direction = Literal["random", "coordinate"]
_BLOCK = 1 << 20  # numbers in a block of tokens: that of the rows in stores


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

    >>> Departure("cauchy")
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: Departure: noise must be one of gaussian, rademacher, student, sparse,
    elliptical, got 'cauchy'
    """

    noise: str = "gaussian"
    shape: float | None = None
    correlation: float = 0.0
    direction: Direction = "random"
    whitening: float | None = None

    def __post_init__(self) -> None:
        shape = getattr(white_noise("Departure", self.noise, self.shape), "shape", None)
        one_of(Departure, "direction", self.direction, get_args(Direction))
        correlation = real(Departure, "correlation", self.correlation, least=0, below=1)
        settle(self, shape=shape, correlation=correlation)
        if self.whitening is not None:
            whitening = real(Departure, "whitening", self.whitening, least=1, infinite=True)
            settle(self, whitening=whitening)

    @property
    def token_noise(self) -> Noise:
        """What tokens without a signal are."""
        white = white_noise("Departure", self.noise, self.shape)
        return Coloured(self.correlation, white) if self.correlation else white

    def covariance(self, dim: int) -> FloatArray:
        """Σ of a token (d, d)."""
        return Coloured(self.correlation).covariance(dim)

    def signal(self, dim: int, rng: np.random.Generator) -> FloatArray:
        """ξ, or with whitening ξ/√(ξᵀΣ⁻¹ξ)."""
        xi = np.zeros(dim)
        xi[0] = 1.0
        if self.direction == "random":
            xi = rng.standard_normal(dim)
        xi /= np.linalg.norm(xi)
        if self.whitening is None:
            return xi
        return xi / math.sqrt(xi @ np.linalg.solve(self.covariance(dim), xi))


@dataclass(frozen=True, eq=False)
class WhitenedStream(TokenStream):
    """The same tokens, each x → Wx."""

    whitener: FloatArray = field(kw_only=True)  # W, symmetric
    by_coordinates = False

    @property
    def axis(self) -> FloatArray:
        """Wξ, of length 1."""
        whitened = self.whitener @ self.signal
        return whitened / float(np.linalg.norm(whitened))

    def samples(self, count: int | None = None) -> Iterator[tuple[slice, Array]]:
        """Tokens (rows, L, d) of the first `count` samples, a block of samples at a time."""
        whitener = self.device.array(self.whitener)
        for part, tokens in super().samples(count):
            yield part, tokens @ whitener


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
    outcome = run(settings, draw_departed(settings, departure, index))
    return replace(outcome, seconds=time.perf_counter() - start)


def draw_departed(settings: Settings, departure: Departure, index: int) -> Streams:
    """The samples of a repeat, whitened if that is what is done."""
    seeds = np.random.SeedSequence(settings.seed, spawn_key=(index,)).spawn(4)
    rng = np.random.default_rng(seeds[0])
    task, noise, signal = settings.task, departure.token_noise, departure.signal(settings.dim, rng)

    def stream(n: int, seed: np.random.SeedSequence) -> TokenStream:
        labels = task.sample_labels(n, np.random.default_rng([*seed.generate_state(4)]))
        return TokenStream(task, noise, labels, signal, seed, settings.place, _BLOCK)

    sizes = (*settings.sizes, settings.test_samples)
    streams = [stream(n, seed) for n, seed in zip(sizes, seeds[1:], strict=True)]
    if departure.whitening is not None:
        whitener = whitening(streams[:2], departure, settings.dim)
        streams = [WhitenedStream(**vars(raw), whitener=whitener) for raw in streams]
    query, readout, test = streams
    return Streams(query, readout, test, rng)


def whitening(streams: list[TokenStream], departure: Departure, dim: int) -> FloatArray:
    """Σ^{-½}, symmetric: of the true covariance, or of noise tokens of negative samples."""
    assert departure.whitening is not None
    if departure.whitening == math.inf:
        covariance = departure.covariance(dim)
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

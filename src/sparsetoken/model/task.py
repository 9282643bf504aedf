r"""The task (section 1 of docs/theory.md): a weak signal hidden in a few of many noisy tokens.

A sample is X ∈ R^{L×d}, with Z an L×d matrix of independent N(0, 1) and ξ a fixed unit vector:

    y = −1 (probability 1 − π):  X = Z
    y = +1 (probability π):      X = θ v ξᵀ + Z,   v ∈ {0,1}^L with exactly R ones.

The places of the ones are uniform over subsets, or, with position weights p_l, drawn from

    P(v) = Π_{l: v_l = 1} p_l / e_R(p),   e_R the elementary symmetric polynomial,

which is p itself (normalised) for R = 1 and uniform for equal weights.

Strength and sparsity may vary from sample to sample (θ and R are then drawn anew, independently,
for each positive one; R = 0 may be among its values), and tokens may share a part of their noise,
z_l = √ρ z₀ + √(1−ρ) ε_l.

Noise may have a covariance Σ, and signal tokens another, C (`covariances.py`): a noise token is
Σ^½z, a signal token θξ + C^½z.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from sparsetoken.model.covariances import JointSpectrum, Spectrum, Spread, TokenNoise, White
from sparsetoken.model.layout import draw_layout
from sparsetoken.model.noise import Gaussian, Noise, Shared
from sparsetoken.model.places import checked_places, weighted_subsets
from sparsetoken.model.signals import Continuous, Varying, varying
from sparsetoken.support.arrays import BoolArray, FloatArray
from sparsetoken.support.checks import real, refusal, settle, whole
from sparsetoken.support.errors import InvalidInput

Strength: TypeAlias = float | Varying
Sparsity: TypeAlias = int | Varying
Number = TypeVar("Number", int, float)

_RAREST = 1e-12  # prevalence, of either class: below, rates that are weighted by it are rounding


class Signals(NamedTuple):
    """What (θ, R) may be in a positive sample: atoms with probabilities, shape (k,) each."""

    strengths: FloatArray
    sparsities: FloatArray
    weights: FloatArray


class Sample(NamedTuple):
    """What `Task.sample` draws.

    >>> sample = Task(length=2, sparsity=1, strength=1.0).sample(3, dim=4, rng=0)
    >>> sample.labels.shape, sample.tokens.shape, sample.places.shape, sample.signal.shape
    ((3,), (3, 2, 4), (3, 2), (4,))
    """

    labels: FloatArray  # (n,), +1 or −1
    tokens: FloatArray  # (n, L, d)
    places: BoolArray  # (n, L), True where a token carries the signal
    signal: FloatArray  # (d,), the unit vector ξ


@dataclass(frozen=True, repr=False)
class Task:
    """What a sample is: X = θ v ξᵀ + Z for a positive sample, X = Z for a negative one.

    Parameters
    ----------
    length : int
        L, tokens in a sample.
    sparsity : int or law
        R, tokens that carry the signal in a positive sample, 1 ≤ R ≤ L. A law, `Discrete` or one of
        scipy.stats, may have R = 0 among others: positive samples that nothing tells from negative
        ones.
    strength : float or law
        θ ≥ 0, length of the signal in one token, in units of the noise. A law, `Discrete` or a
        frozen one of scipy.stats, is a number that varies from sample to sample.
    prevalence : float
        π, probability of a positive sample, 0 < π < 1.
    places : tuple of float, optional
        Weights of the L positions (at least R positive); None for uniform subsets.
    token_correlation : float
        ρ, 0 ≤ ρ < 1: the part of the noise's variance that the tokens of a sample share.
    noise : White, Spectrum or Covariances
        Σ, the covariance of noise tokens, and how the signal lies in it.
    signal_spread : float or tuple of float, optional
        C, the covariance of signal tokens: a number c for C = cΣ, or its eigenvalues on those of
        the `Spectrum`. None for C = Σ (`Covariances` have their own).

    Examples
    --------
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> sample = task.sample(4, dim=3, rng=0)
    >>> sample.tokens.shape
    (4, 10, 3)
    >>> Task(length=10, sparsity=11, strength=5.0)
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: Task: sparsity must be a whole number between 1 and 10 (the length),
    got 11
    >>> from sparsetoken import Discrete
    >>> Task(length=10, sparsity=1, strength=Discrete([3, 6])).dose
    0.45
    """

    length: int
    sparsity: Sparsity
    strength: Strength
    prevalence: float = 0.5
    places: tuple[float, ...] | None = None
    token_correlation: float = 0.0
    noise: TokenNoise = field(default_factory=White)
    signal_spread: Spread = None

    def __post_init__(self) -> None:
        length = whole(Task, "length", self.length, least=1, most=10**9)
        sparsity, strength = _checked_signal(self.sparsity, self.strength, length)
        shared = real(Task, "token_correlation", self.token_correlation, least=0, below=1)
        prevalence = real(Task, "prevalence", self.prevalence, above=0, below=1)
        if min(prevalence, 1 - prevalence) < _RAREST:
            raise refusal(Task, "prevalence", prevalence, f"between {_RAREST} and 1 - {_RAREST}")
        settle(self, length=length, sparsity=sparsity, strength=strength)
        settle(self, token_correlation=shared, prevalence=prevalence)
        self._check_covariances()
        if self.places is not None:
            if self.varies:
                raise InvalidInput(
                    "Task: places must be None where strength or sparsity vary from sample to "
                    f"sample, got {self.places!r}"
                )
            settle(self, places=checked_places(self.places, length, self.fixed_sparsity))

    def _check_covariances(self) -> None:
        if not isinstance(self.noise, TokenNoise):
            raise refusal(Task, "noise", self.noise, "White(), a Spectrum or Covariances")
        settle(self, signal_spread=self.noise.checked_spread(self.signal_spread))
        if self.token_correlation and not self.is_white and self.has_spread:
            raise InvalidInput(
                "Task: token_correlation must be 0 where signal tokens have a covariance of their "
                f"own, got {self.token_correlation:g}"
            )

    def __repr__(self) -> str:
        """Without what is added to the task of the paper only now and then."""
        rare = {"noise": White(), "signal_spread": None}
        shown = [entry.name for entry in fields(self)]
        shown = [name for name in shown if name not in rare or getattr(self, name) != rare[name]]
        return f"Task({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    @cached_property
    def joint_spectrum(self) -> JointSpectrum | None:
        """Σ and C in their common eigenspaces; None where they do not commute."""
        return self.noise.joint(self.signal_spread)

    @cached_property
    def is_white(self) -> bool:
        """Whether noise and signal tokens have the covariance I."""
        joint = self.joint_spectrum
        return joint is not None and joint.is_white

    @cached_property
    def has_spread(self) -> bool:
        """Whether signal tokens have another covariance than noise tokens, C ≠ Σ."""
        joint = self.joint_spectrum
        return joint is None or joint.has_spread

    @property
    def varies(self) -> bool:
        """Whether strength or sparsity differ from sample to sample."""
        return isinstance(self.strength, Varying) or isinstance(self.sparsity, Varying)

    @property
    def fixed_strength(self) -> float:
        """θ, for what is only asked of one that does not vary."""
        if isinstance(self.strength, Varying):
            raise InvalidInput(f"Task: strength must be one number here, got {self.strength!r}")
        return self.strength

    @property
    def fixed_sparsity(self) -> int:
        """R, for what is only asked of one that does not vary."""
        if isinstance(self.sparsity, Varying):
            raise InvalidInput(f"Task: sparsity must be one number here, got {self.sparsity!r}")
        return self.sparsity

    @property
    def is_plain(self) -> bool:
        """One strength, one sparsity, independent tokens of white noise: the task of the paper."""
        return not self.varies and self.token_correlation == 0 and self.is_white

    @property
    def signals(self) -> Signals:
        """Every (θ, R) of a positive sample with its probability."""
        (thetas, p), (ones, q) = _atoms(self.strength), _atoms(self.sparsity)
        return Signals(
            np.repeat(thetas, len(ones)), np.tile(ones, len(thetas)), np.outer(p, q).ravel()
        )

    def for_dim(self, dim: int) -> Task:
        """The same in `dim` dimensions, where a spectrum has more eigenvalues than coordinates.

        It then has one for each coordinate: the mean over a dim-th of the density, neighbours in
        size together, with their share of the signal. Otherwise, and where the signal lies in
        directions of no density, the task is as it is.

        >>> from sparsetoken.model.covariances import Spectrum
        >>> Task(10, 1, 5.0, noise=Spectrum((1.0, 3.0, 5.0, 7.0))).for_dim(2).noise.eigenvalues
        (6.0, 2.0)
        """
        noise = self.noise
        if not isinstance(noise, Spectrum) or np.count_nonzero(noise.signal_share) <= dim:
            return self
        joint = noise.joint(self.signal_spread)
        assert joint is not None
        if np.any(joint.share[joint.density == 0]):
            return self
        few = joint.merged(dim)
        values = (tuple(value.tolist()) for value in (few.noise, few.density, few.share))
        spread = self.signal_spread
        spread = tuple(few.signal.tolist()) if isinstance(spread, tuple) else spread
        return replace(self, noise=Spectrum(*values), signal_spread=spread)

    def weakened(self, factor: float) -> Task:
        """The same with its strengths times a factor above 0."""
        if isinstance(self.strength, Varying):
            return replace(self, strength=self.strength.scaled(factor))
        return replace(self, strength=factor * self.strength)

    @property
    def dose(self) -> float:
        """E[θR]/L: the signal in the mean token of a positive sample."""
        atoms = self.signals
        return float(atoms.weights @ (atoms.strengths * atoms.sparsities)) / self.length

    @property
    def white_noise(self) -> Noise:
        """What Z is drawn from, where it is white."""
        return Shared(self.token_correlation) if self.token_correlation else Gaussian()

    @property
    def mean_variance(self) -> float:
        """ρ + (1−ρ)/L: the variance of the mean token, per coordinate."""
        return self.token_correlation + (1 - self.token_correlation) / self.length

    @property
    def normals(self) -> int:
        """Standard normals that fix a sample along one direction.

        One for each token; one for what tokens share, for a varying strength and sparsity each.
        """
        return self.length + self._varying + (self.token_correlation > 0)

    @property
    def _varying(self) -> int:
        return isinstance(self.strength, Varying) + isinstance(self.sparsity, Varying)

    def signal_at(self, normals: FloatArray) -> tuple[float | FloatArray, int | FloatArray]:
        """Strength and sparsity from the last normals (n, …) of samples: numbers, or (n,) each."""
        sparsity, normals = _value_at(self.sparsity, normals)
        strength, _ = _value_at(self.strength, normals)
        return strength, sparsity

    def sample_signals(
        self, n: int, rng: np.random.Generator | int
    ) -> tuple[float | FloatArray, int | FloatArray]:
        """Strengths and sparsities of n positive samples; plain numbers where they do not vary."""
        return self.signal_at(np.random.default_rng(rng).standard_normal((n, self._varying)))

    @property
    def uniform_places(self) -> bool:
        """Whether every subset of positions is equally likely."""
        return self.places is None or len(set(self.places)) == 1

    def sample_labels(self, n: int, rng: np.random.Generator | int) -> FloatArray:
        """n labels, +1 with probability `prevalence`, else −1; shape (n,)."""
        rng = np.random.default_rng(rng)
        n = whole("sample_labels", "n", n, least=0)
        return np.where(rng.random(n) < self.prevalence, 1.0, -1.0)

    def sample_places(
        self, n: int, rng: np.random.Generator | int, sparsity: int | FloatArray | None = None
    ) -> BoolArray:
        """n independent sets of signal positions; shape (n, L), R True in each row.

        Where R varies, `sparsity` (n,) says how many (drawn if it is not given).
        """
        rng = np.random.default_rng(rng)
        n = whole("sample_places", "n", n, least=0)
        if isinstance(self.sparsity, Varying):
            if sparsity is None:
                sparsity = self.sparsity.at(rng.standard_normal(n))
            order = np.argsort(rng.random((n, self.length)), axis=1)
            return np.asarray(order < np.asarray(sparsity)[:, None])
        if self.uniform_places:
            ranks = rng.random((n, self.length))
            chosen = np.argpartition(ranks, self.sparsity - 1, axis=1)[:, : self.sparsity]
            places = np.zeros((n, self.length), dtype=bool)
            np.put_along_axis(places, chosen, True, axis=1)
            return places
        assert self.places is not None
        return weighted_subsets(np.asarray(self.places), self.sparsity, n, rng)

    def sample(
        self,
        n: int,
        dim: int,
        rng: np.random.Generator | int,
        signal: FloatArray | None = None,
    ) -> Sample:
        """Draw n labelled samples in dimension `dim`.

        `signal` is the unit vector ξ; when it is not given a random one is drawn: uniformly, or
        with its share of each eigenspace of the noise, whose eigenvectors the coordinates are
        (those of the first eigenvalue first), or as `Covariances` say.
        Returns `Sample(labels (n,), tokens (n, L, d), places (n, L), signal (d,))`;
        the places of a negative sample are all False.

        >>> drawn = Task(length=3, sparsity=2, strength=1.0).sample(100, dim=5, rng=1)
        >>> sorted(set(drawn.places.sum(axis=1).tolist()))
        [0, 2]
        """
        rng = np.random.default_rng(rng)
        n = whole("sample", "n", n, least=0)
        dim = whole("sample", "dim", dim, least=1)
        layout = None if self.is_white else draw_layout(self.noise, self.signal_spread, dim, rng)
        if signal is None and layout is not None:
            signal = layout.signal
        if signal is None:
            signal = rng.standard_normal(dim)
            signal /= np.linalg.norm(signal)
        signal = np.asarray(signal, dtype=float)
        if signal.shape != (dim,) or not abs(np.linalg.norm(signal) - 1) < 1e-8:
            raise InvalidInput(
                f"sample: signal must be a unit vector of shape ({dim},), got shape "
                f"{signal.shape} and norm {np.linalg.norm(signal):g}"
            )
        if layout is not None and not layout.suits(signal):
            raise InvalidInput(
                "sample: signal must lie in the noise as the task says (as `Sample.signal` of "
                f"another sample does), got {in_short(self)} and another vector"
            )
        labels = self.sample_labels(n, rng)
        strength, sparsity = self.sample_signals(n, rng)
        places = self.sample_places(n, rng, sparsity) & (labels > 0)[:, None]
        tokens = self.white_noise.draw((n, self.length, dim), rng)
        which, where = np.nonzero(places)
        if layout is not None:
            tokens = layout.coloured(tokens, which, where)
        tokens[which, where] += np.broadcast_to(strength, n)[which, None] * signal
        return Sample(labels, tokens, places, signal)


def coloured(owner: str, task: Task) -> str | None:
    """Why what is made for white noise alone does not take the task; None if it does.

    >>> coloured("best_steps", Task(10, 1, 5.0)) is None
    True
    >>> coloured("best_steps", Task(10, 1, 5.0, signal_spread=2.0))
    'best_steps: task must have white noise and a signal without a spread of its own (noise=White(),
    signal_spread=None), got noise=White(), signal_spread=2.0'
    """
    if task.is_white:
        return None
    return (
        f"{owner}: task must have white noise and a signal without a spread of its own "
        f"(noise=White(), signal_spread=None), got {in_short(task)}"
    )


def in_short(task: Task) -> str:
    """Noise and spread of a task, in a line."""
    return f"noise={_short(task.noise)}, signal_spread={_short(task.signal_spread)}"


def require_white(owner: str, task: Task) -> None:
    """Refuse a task with coloured noise or a spread of its signal, in a sentence."""
    why = coloured(owner, task)
    if why is not None:
        raise InvalidInput(why)


def _short(value: object) -> str:
    words = repr(value)
    return words if len(words) <= 60 else words[:57] + "..."


def _value_at(
    number: Number | Varying, normals: FloatArray
) -> tuple[Number | FloatArray, FloatArray]:
    """A number, or its values at the last of the normals; and the normals that are left."""
    if isinstance(number, Varying):
        return number.at(normals[:, -1]), normals[:, :-1]
    return number, normals


def _atoms(number: float | Varying) -> tuple[FloatArray, FloatArray]:
    """A number that varies, or one that does not, as atoms."""
    if isinstance(number, Varying):
        return number.atoms()
    return np.array([float(number)]), np.ones(1)


def _checked_signal(
    sparsity: object, strength: object, length: int
) -> tuple[int | Varying, float | Varying]:
    """Sparsity and strength, each a number or a law of such numbers."""
    ones, theta = varying(Task, "sparsity", sparsity), varying(Task, "strength", strength)
    if isinstance(ones, Continuous):
        raise InvalidInput(f"Task: sparsity must vary over whole numbers, got {sparsity!r}")
    counts = [] if ones is None else ones.atoms()[0].tolist()
    for value in counts:
        whole(Task, "sparsity", value, least=0, most=length, why="the length")
    if ones is not None and not any(counts):
        raise refusal(Task, "sparsity", sparsity, "above 0 in some of the samples")
    if isinstance(theta, Continuous):
        real(Task, "strength (the least)", theta.support[0], least=0)
    for value in [] if theta is None else theta.atoms()[0].tolist():
        real(Task, "strength", value, least=0, most=1e6)
    return (
        ones or whole(Task, "sparsity", sparsity, least=1, most=length, why="the length"),
        theta or real(Task, "strength", strength, least=0, most=1e6),
    )

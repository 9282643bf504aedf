r"""What n samples tell of ξ: how much of the signal their tokens reveal at squared cosine m.

Prior ξ ~ N(0, I/d). The positive bags are a rank-one matrix u ξᵀ with noise, u = θv; where m is the
squared cosine of the posterior mean with ξ, a bag's tokens tell of u what g ~ N(√m u, Σ) tells, Σ
the covariance of the tokens of a bag. With û the posterior mean of u, bags add to the posterior's
precision

    Γ(m) = Σ_k α_k F_k(m),   F_k(m) = E⟨u, Σ⁻¹û⟩,

α_k samples per dimension of kind k. Kinds differ in the chance that a bag is positive: 1 for
labelled bags, π where the label is not known, something between where labels may be wrong; and in
whether the signal tokens are marked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from scipy.interpolate import BSpline, CubicSpline, PPoly, make_interp_spline
from scipy.special import softmax

from sparsetoken.model.task import Task
from sparsetoken.oracles.bayes import BayesOracle, bayes_oracle
from sparsetoken.oracles.exact import Gaussian
from sparsetoken.oracles.extremes import LARGEST, REPLICATES, drawn_tokens
from sparsetoken.oracles.posterior import PosteriorOracle, places_energy
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.checks import real
from sparsetoken.support.errors import ConvergenceError
from sparsetoken.support.estimate import Estimate

_TERMS = 1 << 22  # tokens times nodes of their polynomials, in all draws of a class
_FEWEST_BITS, _MOST_BITS = 9, 15  # draws of a class are between 2^9 and 2^15
_CLOSE = 2e-5  # of log F, between the nodes at which it is computed
_DEGREE = 5  # of the spline between nodes
_GAIN = 32.0  # by which a node in the middle makes it closer, at least: h⁶ says 64
_FINER = 8  # pieces of an interval that cubic splines are as good on
_ROUNDS = 12  # in which intervals between nodes are halved
_STEP = 0.6  # between the first nodes, in units in which the noise of a token is 1
_CLEAR = 20  # such steps, beyond which signal tokens are seen for what they are
_FAINT = 1e-6  # a root so near 0 that nothing changes below
_NORMALS = np.linspace(-10.0, 10.0, 401)
_DENSITY = np.exp(-(_NORMALS**2) / 2) / np.exp(-(_NORMALS**2) / 2).sum()


class Kind(NamedTuple):
    """Bags of a training set that tell the same."""

    share: float  # of the labelled samples
    more: float  # samples per dimension beside them
    chance: float  # that such a bag is positive
    marked: bool  # whether its signal tokens are


@dataclass(frozen=True)
class Labels:
    """What is known of the bags of a training set, beside the labels.

    `annotated` is the share of the rightly labelled positive bags whose signal tokens are marked,
    `unlabelled` a number of bags without a label per dimension, `label_noise` the chance that a
    label is wrong.

    >>> [kind.chance for kind in Labels(label_noise=0.1).kinds(Task(10, 1, 3.0, 0.5))]
    [0.9, 0.1]
    """

    annotated: float = 0.0
    unlabelled: float = 0.0
    label_noise: float = 0.0
    owner: str = "bayes_curve"

    def __post_init__(self) -> None:
        real(self.owner, "annotated", self.annotated, least=0, most=1)
        real(self.owner, "unlabelled", self.unlabelled, least=0)
        real(self.owner, "label_noise", self.label_noise, least=0, below=0.5)

    def kinds(self, task: Task) -> list[Kind]:
        """The bags of a task, by what they tell; those that are certainly noise tell nothing."""
        right, wrong = 1 - self.label_noise, self.label_noise
        positive, negative = task.prevalence, 1 - task.prevalence
        marked = positive * right * self.annotated
        said_positive = positive * right - marked, negative * wrong  # of them those that are, not
        said_negative = positive * wrong, negative * right
        kinds = [Kind(marked, 0.0, 1.0, True), Kind(0.0, self.unlabelled, positive, False)]
        for signals, others in (said_positive, said_negative):
            kinds.append(
                Kind(signals + others, 0.0, signals / max(signals + others, 1e-300), False)
            )
        if task.signals.strengths.max() == 0:
            return []
        return [kind for kind in kinds if (kind.share or kind.more) and kind.chance]


class Channel(Protocol):
    """Tokens of the task with the signal weakened to `root` times its strength."""

    def overlaps(self, root: float, chance: float) -> FloatArray:
        """E⟨u, Σ⁻¹û⟩ of bags that are positive with this chance, by replicates."""
        ...

    def error(self, root: float, few: bool = False) -> Estimate:
        """Of the Bayes test; of few draws, the same for every root."""
        ...


@dataclass(frozen=True)
class PlainChannel:
    """Of the paper's tasks, by the sampled Bayes test with one token integrated out."""

    oracle: BayesOracle | Gaussian
    strength: float

    def overlaps(self, root: float, chance: float) -> FloatArray:
        return self.strength**2 * self.oracle.overlaps(self.strength * root, chance)

    def error(self, root: float, few: bool = False) -> Estimate:
        return self.oracle.error(self.strength * root, few)


@dataclass(frozen=True)
class VaryingChannel:
    """Of tasks with other laws of the signal or shared noise, by draws of the posterior."""

    task: Task
    seed: int
    owner: str = "bayes_curve"

    def __post_init__(self) -> None:
        self._oracle(1.0)  # refuses a task of too many terms

    def overlaps(self, root: float, chance: float) -> FloatArray:
        root = max(root, _FAINT)
        return self._oracle(root).overlaps(chance) / root**2

    def error(self, root: float, few: bool = False) -> Estimate:
        return self._oracle(root, few).error()

    def _oracle(self, root: float, few: bool = False) -> PosteriorOracle:
        task = self.task
        terms = task.normals * len(task.signals.weights) * int(task.signals.sparsities.max())
        bits = _FEWEST_BITS if few else _draw_bits(terms)
        return PosteriorOracle(task.weakened(root), self.seed, 1 << bits, self.owner)


def channel_of(owner: str, task: Task, seed: int) -> Channel:
    """The channel of a task, with so many draws that a number takes milliseconds."""
    if not task.is_plain:
        return VaryingChannel(task, seed, owner)
    size = task.fixed_sparsity
    tokens = drawn_tokens(task.length, size, max(LARGEST, 4 * size))
    nodes = 1 if size == 1 else 3 * min(25, 9 + size // 2)  # of complex numbers
    most = 1 << _draw_bits(max(tokens, 1) * nodes)
    return PlainChannel(bayes_oracle(owner, task, seed, most), task.fixed_strength)


def _draw_bits(terms: int) -> int:
    """log₂ of how many draws of so many terms."""
    return min(max((_TERMS // terms).bit_length() - 1, _FEWEST_BITS), _MOST_BITS)


@dataclass(frozen=True)
class Revealed:
    """F of one kind of bags and the information I = ½∫(S − F) dm, as functions of √m.

    Values (…, 17) are those of all draws, then those of the replicates.
    """

    energy: float  # S = E⟨u, Σ⁻¹u⟩, all that there is to reveal
    log_overlap: CubicSpline
    information: PPoly

    def overlap(self, root: float | FloatArray) -> FloatArray:
        return np.asarray(np.exp(self.log_overlap(root)))


@lru_cache(maxsize=32)
def revealed(task: Task, chance: float, marked: bool, seed: int) -> Revealed:
    """What bags tell that are positive with this chance, or whose signal tokens are marked."""
    theta, ones, weights = task.signals
    energy = chance * float(weights @ (theta**2 * places_energy(task, ones)))
    overlaps = _Marked(task).overlaps if marked else channel_of("bayes_curve", task, seed).overlaps

    def log_values(root: float) -> FloatArray:
        values = np.broadcast_to(overlaps(root, chance), REPLICATES)
        return np.log(np.concatenate([[values.mean()], values]))

    nodes, values = _refined(log_values, _first_nodes(_STEP / float(theta.max())))
    hidden = (energy - np.exp(values)) * nodes[:, None]  # dm = 2√m d√m
    return Revealed(energy, CubicSpline(nodes, values), CubicSpline(nodes, hidden).antiderivative())


def _first_nodes(step: float) -> FloatArray:
    """From 0 to 1: equal steps while signal tokens are hidden, then doubled."""
    clear = min(1.0, _CLEAR * step)
    nodes = np.linspace(0.0, clear, max(math.ceil(clear / step), _DEGREE // 2 + 1) + 1)
    return np.append(nodes, [*clear * 2.0 ** np.arange(1, -math.log2(clear)), *[1.0] * (clear < 1)])


def _refined(
    function: Callable[[float], FloatArray], nodes: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Nodes, with values (n, k), between which a cubic spline is close to the first value.

    As many as are needed are computed, and the others are on a spline of higher degree between
    them: F is even in √m (noise turned round), and smooth.
    """
    values = np.array([function(node) for node in nodes.tolist()])
    open_ = np.stack([nodes[:-1], nodes[1:]], axis=1)  # intervals to be looked into
    for _ in range(_ROUNDS):
        middles = open_.mean(axis=1)
        truth = np.array([function(node) for node in middles.tolist()])
        far = np.abs(_even_spline(nodes, values)(middles) - truth)[:, 0] > _GAIN * _CLOSE
        order = np.argsort(np.append(nodes, middles))
        nodes = np.append(nodes, middles)[order]
        values = np.concatenate([values, truth])[order]
        if not far.any():
            places = np.arange(_FINER * (len(nodes) - 1) + 1) / _FINER
            finer = np.interp(places, np.arange(len(nodes)), nodes)
            return finer, _even_spline(nodes, values)(finer)
        low, high = open_[far].T
        open_ = np.concatenate(
            [np.stack(ends, axis=1) for ends in ((low, middles[far]), (middles[far], high))]
        )
    raise ConvergenceError(
        f"bayes_curve: what bags reveal is not resolved by {len(nodes)} nodes to {_CLOSE:g}"
    )


def _even_spline(nodes: FloatArray, values: FloatArray) -> BSpline:
    mirrored = np.append(-nodes[:0:-1], nodes), np.concatenate([values[:0:-1], values])
    return make_interp_spline(*mirrored, k=_DEGREE)


@dataclass(frozen=True)
class _Marked:
    """Bags whose signal tokens are known: what they tell of θ is all that is open."""

    task: Task

    def overlaps(self, root: float, chance: float) -> FloatArray:
        """E[θ E[θ | t] vᵀΣ⁻¹v], t = vᵀΣ⁻¹g ~ N(√m θ, 1)·vᵀΣ⁻¹v in law."""
        theta, ones, weights = self.task.signals
        total = 0.0
        for size in np.unique(ones):
            same = ones == size
            strengths, shares = theta[same], weights[same]
            energy = float(places_energy(self.task, size))
            statistic = root * strengths[:, None] * energy + math.sqrt(energy) * _NORMALS
            log_odds = root * (
                statistic[:, :, None] * strengths - root * strengths**2 * energy / 2
            )  # (θ, node, hypothesis)
            means = softmax(log_odds + np.log(shares), axis=2) @ strengths
            total += energy * float((shares * strengths) @ (means @ _DENSITY))
        return np.array([chance * total])

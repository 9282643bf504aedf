r"""Queries of a finite training set in a few numbers each: sums over samples by the central limit.

`model/queries.py` draws a query exactly, from O(n) random numbers. Here the three sums over samples
that it needs, with t as there, h the loss's slope at the sample's logit,

    S₁ = Σ hθ⟨v, t⟩,   S₂ = Σ h⟨ζ, t⟩,   S₃ = Σ h²‖t‖²,

are normal given what stage 1 learned (S₃, which enters the norm alone, is kept at its mean): their
means and covariances are averages of h and h² over the logits, which the loss knows. A query is
then a smooth function of eight normals, the same for every n: what a planner needs to compare
splits of the samples, and all that is affordable for millions of them. Against exact draws the
cosine's mean and spread agree to some percent from a few dozen samples of each class on.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, ndtr

from sparsetoken.model.envelopes import Moments
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import FloatArray

NORMALS = 8  # that fix a query
_DOSES = 32  # of a signal; more are averaged by a polynomial


def spread_queries(
    task: Task,
    protocol: Protocol,
    dim: int,
    n: float,
    normals: FloatArray,
    bias_steps: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Cosines and sharpnesses of queries learned from n samples, from normals (queries, 8).

    `bias_steps` (queries,) replace the protocol's.

    >>> normals = np.random.default_rng(0).standard_normal((1000, NORMALS))
    >>> cosine, _ = spread_queries(Task(10, 1, 5.0), Protocol(), 200, 400, normals)
    >>> round(float(cosine.mean()), 2), round(float(cosine.std()), 2)
    (0.95, 0.01)
    """
    zeros = np.zeros(len(normals))
    if task.length == 1:
        return zeros, zeros
    of_class, of_dose, along, of_length, one, two, of_side, of_rest = normals.T
    length, loss, pi = task.length, protocol.loss, task.prevalence
    slope, variance = float(loss.slope(0.0)), task.mean_variance
    atoms = task.signals
    # the classes as they are drawn, and the positives' mean dose
    least = min(0.5 / n, 0.5)  # of one sample, half of either class
    share = np.clip(pi + math.sqrt(pi * (1 - pi) / n) * of_class, least, 1 - least)
    doses, _ = doses_and_powers(task)
    mean_dose = atoms.weights @ doses
    dose_variance = max(float(atoms.weights @ doses**2 - mean_dose**2), 0.0)
    dose = mean_dose + np.sqrt(dose_variance / (n * share)) * of_dose
    # stage 1: ⟨w¹, ξ⟩, the rest of w¹, b¹
    across = _chi(of_length, dim - 1)
    unit = abs(slope) * math.sqrt(variance / n)
    on_signal = -protocol.readout_step * (slope * share * dose + unit * along)
    off_signal = -protocol.readout_step * unit * across
    norm = np.hypot(on_signal, off_signal)
    steps = protocol.bias_step if bias_steps is None else bias_steps
    bias = -steps * slope * (2 * share - 1)
    # margins of positives, for each (θ, R), and of negatives; the middle term is a sample's own
    own = math.copysign(1.0, slope) * math.sqrt(variance / n)
    own_shift = own * (along * on_signal + across * off_signal)
    signals = _Signals.of(task)
    means = np.column_stack([bias[:, None] + signals.doses * on_signal[:, None], -bias])
    moments = loss.moments(means + own_shift[:, None], (norm * math.sqrt(variance))[:, None], 0.0)
    one_sum, two_sum, square_sum = _sums(
        task, signals, n, share, on_signal, norm, moments, one, two
    )
    part = math.sqrt(1 - task.token_correlation)
    free = part * np.sqrt(square_sum)
    cosine, sine = on_signal / norm, np.abs(off_signal) / norm
    parallel = one_sum * cosine + part * two_sum
    sideways = one_sum * sine + free * of_side
    elsewhere = free * _chi(of_rest, dim - 2)
    total = np.sqrt(parallel**2 + sideways**2 + elsewhere**2)
    scale = -protocol.query_step * protocol.inverse_temperature / (n * length)
    overlap = np.sign(scale) * (parallel * cosine + sideways * sine)
    cosines = np.divide(overlap, total, out=zeros.copy(), where=total > 0)
    return cosines, protocol.inverse_temperature * abs(scale) * total


def few_queries(
    cosine: FloatArray, sharpness: FloatArray, count: int = 3
) -> list[tuple[float, float, float]]:
    """A few (weight, cosine, sharpness) that stand for many queries, the middle one first.

    By `gauss_nodes` of the cosines as they are; log sharpness follows the cosine by its linear
    regression.

    >>> x = np.random.default_rng(0).uniform(-1, 1, 1000)
    >>> nodes = few_queries(x, np.ones(1000))
    >>> bool(abs(sum(w * s**4 for w, s, _ in nodes) - np.mean(x**4)) < 1e-9)
    True
    """
    logs = np.log(np.maximum(sharpness, 1e-300))
    centre, size = float(cosine.mean()), float(cosine.std())
    slope = float(np.mean((cosine - centre) * logs)) / size**2 if size > 1e-9 else 0.0
    nodes = [
        (weight, min(1.0, max(-1.0, node)), math.exp(float(logs.mean()) + slope * (node - centre)))
        for weight, node in gauss_nodes(cosine, np.full(len(cosine), 1 / len(cosine)), count)
    ]
    return sorted(nodes, key=lambda node: abs(node[1] - centre))


def gauss_nodes(values: FloatArray, weights: FloatArray, count: int) -> list[tuple[float, float]]:
    """Gauss's quadrature for weighted points: at most `count` pairs (weight, node).

    Lanczos's method on their diagonal matrix; averages of polynomials of degree 2·count − 1 are
    exact, and nodes lie between the points.
    """
    centre = float(weights @ values)
    size = math.sqrt(max(float(weights @ (values - centre) ** 2), 0.0))
    if size <= 1e-9 * (1 + abs(centre)):
        return [(1.0, centre)]
    x = (values - centre) / size
    vectors = [np.sqrt(weights)]
    diagonal, beside = [], []
    for _ in range(count):
        image = x * vectors[-1]
        diagonal.append(float(image @ vectors[-1]))
        for other in vectors:  # all of them: rounding would let them drift
            image = image - (image @ other) * other
        beside.append(float(np.linalg.norm(image)))
        if beside[-1] < 1e-9:  # fewer different points than nodes
            break
        vectors.append(image / beside[-1])
    beside = beside[: len(diagonal) - 1]
    nodes, axes = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    return [
        (float(weight), centre + size * float(node))
        for node, weight in zip(nodes, axes[0] ** 2, strict=True)
    ]


def doses_and_powers(task: Task) -> tuple[FloatArray, FloatArray]:
    """θR/L, the signal in the mean token, and θ²ϱ = θ²R(1 − R/L) of every (θ, R)."""
    atoms = task.signals
    share = atoms.sparsities / task.length
    power = atoms.strengths**2 * atoms.sparsities * (1 - share)
    return atoms.strengths * atoms.sparsities / task.length, power


class _Signals(NamedTuple):
    """What a positive sample's signal does to averages: over its dose θR/L and `power` ϱθ²."""

    doses: FloatArray  # (nodes,)
    by_power: FloatArray  # (3, nodes), weights of averages of f(dose)·powerʲ, j = 0, 1, 2

    @classmethod
    def of(cls, task: Task) -> _Signals:
        """Atoms as they are, if few; of many, averages of f's polynomial through Chebyshev nodes
        (f is smooth: the loss's slope, averaged over noise)."""
        doses, power = doses_and_powers(task)
        by_power = task.signals.weights * power ** np.arange(3)[:, None]
        if len(doses) <= _DOSES:
            return cls(doses, by_power)
        nodes = np.polynomial.chebyshev.chebpts1(_DOSES)
        low, high = doses.min(), doses.max()
        places = (2 * doses - low - high) / (high - low)
        through = np.polynomial.chebyshev.chebvander(places, _DOSES - 1) @ np.linalg.inv(
            np.polynomial.chebyshev.chebvander(nodes, _DOSES - 1)
        )  # (atoms, nodes)
        return cls(0.5 * (low + high + (high - low) * nodes), by_power @ through)


def _sums(
    task: Task,
    signals: _Signals,
    n: float,
    share: FloatArray,
    on_signal: FloatArray,
    norm: FloatArray,
    moments: Moments,
    one: FloatArray,
    two: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """S₁, S₂ (a Gaussian pair) and the mean of S₃, (queries,) each.

    With f = L−1, ϱθ² = `power`, a = ⟨w¹, ξ⟩ and s = √(1−ρ)‖w¹‖, given h a sample's terms have

        means      h·power·a,   h·s·f,        h²(power·a² + s²f)
        squares    h²·power(power·a² + s²),   h²(power·a² + s²(f² + 2f))
        product    h²·power·a·s(f+1).

    Logits are orthogonal to c: the part of both sums that goes with Σ(noise of the margins) is 0.
    """
    free = task.length - 1
    a, s = on_signal, math.sqrt(1 - task.token_correlation) * norm
    psi, psi_squared, psi_noise = moments.psi, moments.psi_squared, moments.psi_noise
    h, h_1, _ = signals.by_power @ psi[:, :-1].T
    hh, hh_1, hh_2 = signals.by_power @ psi_squared[:, :-1].T
    hg, hg_1, _ = signals.by_power @ psi_noise[:, :-1].T
    first, second = h_1 * a, h * s * free
    square_11 = hh_2 * a**2 + hh_1 * s**2
    square_22 = hh_1 * a**2 + hh * s**2 * (free**2 + 2 * free)
    square_12 = hh_1 * a * s * (free + 1)
    third = hh_1 * a**2 + hh * s**2 * free
    # negatives carry no signal, and their h has the other sign
    negative = -psi[:, -1] * s * free
    negative_22 = psi_squared[:, -1] * s**2 * (free**2 + 2 * free)
    negative_third = psi_squared[:, -1] * s**2 * free
    with_noise_1 = share * hg_1 * a
    with_noise_2 = (share * hg - (1 - share) * psi_noise[:, -1]) * s * free
    variance_11 = share * (square_11 - first**2) - with_noise_1**2
    variance_12 = share * (square_12 - first * second) - with_noise_1 * with_noise_2
    variance_22 = share * (square_22 - second**2) + (1 - share) * (negative_22 - negative**2)
    variance_22 = variance_22 - with_noise_2**2
    root_11 = np.sqrt(n * np.maximum(variance_11, 0.0))
    root_12 = np.divide(n * variance_12, root_11, out=np.zeros_like(root_11), where=root_11 > 0)
    root_22 = np.sqrt(np.maximum(n * variance_22 - root_12**2, 0.0))
    return (
        n * share * first + root_11 * one,
        n * (share * second + (1 - share) * negative) + root_12 * one + root_22 * two,
        n * (share * third + (1 - share) * negative_third),
    )


def _chi(normals: FloatArray, freedoms: int) -> FloatArray:
    """√χ² at the quantiles of normals."""
    if freedoms <= 0:
        return np.zeros(len(normals))
    return np.asarray(np.sqrt(2 * gammaincinv(freedoms / 2, ndtr(normals))))

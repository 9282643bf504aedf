r"""The query after two gradient steps, in the limit (Theorem 3, Corollary 1).

With c_y = ℓ′(y, 0), stage 1 gives w¹ and b¹ with

    m = ⟨w¹, ξ⟩ → −η_w π c₊ θR/L,   ω² = ‖w¹‖² → m² + η_w² E[c²]/(α₀L),   b¹ → −η_b E[c].

The logit of a training sample is then N(b¹ − η_w c_y/(α₀L) + 1₊ mθR/L, ω²/L) given its label; the
middle term is the sample's own contribution to w¹. With h = ℓ′(y, logit) and ϱ = R(1 − R/L),

    A = π E[h|+] θ² m ϱ,   B = (L−1) E[h],   k = η_q β/L,
    N² = (1/α₀) { π E[h²|+] (θ²m²ϱ + ω²(L−1)) + (1−π) E[h²|−] ω²(L−1) },
    ⟨q, ξ⟩ → −k(A + Bm),   ‖q‖ → k √(A² + 2ABm + B²ω² + N²).

As α₀ → ∞, |cosine| = 1 − C/α₀ + o(1/α₀) with C = [B²η_w²E[c²]/L + α₀N²] / (2(A + Bm)²) at α₀ = ∞.

Where θ and R vary over positive samples, m has E[θR], a logit its own θR, and θ²ϱ is averaged
together with h and h². Tokens that share a part ρ of their noise: the mean token has the variance
v̄ = ρ + (1−ρ)/L in place of 1/L; P removes what is shared, P Z = √(1−ρ) P ε, so that L−1 becomes
(1−ρ)(L−1) and N² gains a factor 1−ρ.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sparsetoken.model.classifiers import AnyQuery, Query
from sparsetoken.model.clouds import normal_cloud
from sparsetoken.model.losses import FARTHEST_BIAS, Loss, balancing_bias
from sparsetoken.model.protocol import Protocol, check_task
from sparsetoken.model.task import Task, require_white
from sparsetoken.support.arrays import FloatArray
from sparsetoken.theory.coloured_alignment import coloured_query
from sparsetoken.theory.query_spread import NORMALS, doses_and_powers, spread_queries


class _Limits(NamedTuple):
    """The quantities of the module docstring; `noise` is α₀N²."""

    m: float
    omega_squared: float
    a: float
    b: float
    noise: float
    mean_c_squared: float


def _limits(task: Task, protocol: Protocol) -> _Limits:
    prevalence, variance = task.prevalence, task.mean_variance
    loss, samples = protocol.loss, protocol.query_samples
    slope = float(loss.slope(0.0))  # c_y = y·slope
    c_squared = slope**2
    m = -protocol.readout_step * prevalence * slope * task.dose
    omega_squared = m**2 + protocol.readout_step**2 * c_squared * variance / samples
    bias = -protocol.bias_step * slope * (2 * prevalence - 1)

    # margin of a positive training sample, for each (θ, R), and of a negative one after stage 1
    own = -protocol.readout_step * slope * variance / samples
    atoms = task.signals
    doses, power = doses_and_powers(task)
    means = np.append(bias + m * doses, -bias) + own
    deviation = math.sqrt(omega_squared * variance)
    if deviation > 0:
        moments = loss.moments(means, deviation, 0.0)
        first, second = moments.psi, moments.psi_squared
    else:  # no samples' noise and no signal: w¹ = 0
        first, second = loss.slope(means), loss.slope(means) ** 2
    free = _free_tokens(task)
    chance = np.append(prevalence * atoms.weights, 1 - prevalence)
    noise = (chance[:-1] * second[:-1]) @ power * m**2
    noise += chance @ second * omega_squared * free
    return _Limits(
        m=m,
        omega_squared=omega_squared,
        a=float((chance[:-1] * first[:-1]) @ power * m),
        b=float(free * (chance[:-1] @ first[:-1] - chance[-1] * first[-1])),
        noise=float((1 - task.token_correlation) * noise),
        mean_c_squared=c_squared,
    )


def _free_tokens(task: Task) -> float:
    """(1−ρ)(L−1): the variance of P Z along any direction."""
    return (1 - task.token_correlation) * (task.length - 1)


def align(task: Task, protocol: Protocol) -> AnyQuery:
    """The query that stages 1–3 learn, in the limit of many dimensions.

    ⟨q, ξ⟩ → −k(A + Bm) and ‖q‖ → k √(A² + 2ABm + B²ω² + N²), with the quantities of the module
    docstring.

    Parameters
    ----------
    task : Task
        What a sample is.
    protocol : Protocol
        Its query samples, loss, steps and inverse temperature are used.

    Returns
    -------
    Query
        `.overlap` ⟨q, ξ⟩, `.norm` ‖q‖, `.cosine` and `.sharpness` β‖q‖. The cosine may be negative:
        with rare or frequent positives the bias step can turn the query away from the signal. It is
        0 for a query of zero (length 1: there is nothing to attend to). Where noise is not white or
        the signal has a spread, a `ColouredQuery`, which also says how the query lies in the
        spectrum (`theory/coloured_alignment.py`).

    Raises
    ------
    InvalidInput
        If `task` is not a `Task`.

    Examples
    --------
    >>> query = align(Task(length=10, sparsity=1, strength=5.0), Protocol(query_samples=2.0))
    >>> round(query.cosine, 6), round(query.sharpness, 6)
    (0.947565, 0.700352)
    """
    check_task("align", task)
    if not task.is_white:
        return coloured_query(task, protocol)
    at = _limits(task, protocol)
    k = protocol.query_step * protocol.inverse_temperature / task.length
    along = at.a + at.b * at.m
    # A² + 2ABm + B²ω² = (A + Bm)² + B²(ω² − m²): no cancellation
    across = at.b**2 * (at.omega_squared - at.m**2) + at.noise / protocol.query_samples
    norm = k * math.sqrt(along**2 + across)
    return Query(-k * along, norm, protocol.inverse_temperature * norm)


def alignment_rate(task: Task, protocol: Protocol) -> float:
    """How fast more query samples help: C in |cosine| = 1 − C/α₀ + o(1/α₀).

    C = [B²η_w²E[c²]/L + α₀N²] / (2(A + Bm)²) at α₀ = ∞ (Corollary 1).

    Parameters
    ----------
    task : Task
        What a sample is.
    protocol : Protocol
        As in `align`; its query samples are not used.

    Returns
    -------
    float
        C; inf where the overlap vanishes in the limit (A + Bm = 0: no signal, say), since then the
        cosine does not tend to ±1.

    Raises
    ------
    InvalidInput
        If `task` is something else than a `Task`.

    Examples
    --------
    >>> task = Task(length=10, sparsity=1, strength=5.0)
    >>> rate = alignment_rate(task, Protocol())
    >>> many = align(task, Protocol(query_samples=1e6))
    >>> bool(abs((1 - many.cosine) * 1e6 / rate - 1) < 1e-3)
    True
    """
    check_task("alignment_rate", task)
    require_white("alignment_rate", task)
    at = _limits(task, replace(protocol, query_samples=math.inf))
    along = at.a + at.b * at.m
    size = abs(at.a) + abs(at.b * at.m)
    if abs(along) <= 1e-12 * size or size == 0.0:
        return math.inf
    spread = at.b**2 * protocol.readout_step**2 * at.mean_c_squared * task.mean_variance
    return (spread + at.noise) / (2 * along**2)


_LARGEST_STEP = 1e9  # that a protocol takes
_BIAS_STEPS = np.append(0.0, np.geomspace(0.03, 60.0, 12))  # tried at finite size


class Steps(NamedTuple):
    """Of readout and bias, and the cosine they give."""

    readout: float
    bias: float
    cosine: float


def best_steps(task: Task, loss: Loss, query_samples: float, dim: int | None = None) -> Steps:
    r"""The readout and bias step with the highest cosine; the query step does not change it.

    As η_w → 0 (a larger readout step only adds noise to the logits) the slopes h are those at b¹,
    one number for each class, x = (h₊, h₋). Overlap and noise are then linear and quadratic in
    them: with m, ω² at η_w = 1, p = (π, 1−π) and l = (1−ρ)(L−1),

        cosine = u·x / √((u·x)² + xᵀMx),   u = m(pl + (πE[θ²ϱ], 0)),
        M = (ω²−m²)l² ppᵀ + ((1−ρ)/α₀) diag(plω² + (πE[θ²ϱ]m², 0)),

    largest at x = M⁻¹u. That fixes the ratio of the slopes, hence b¹ and η_b. With rare positives
    the bias step matters: too small, it turns the query away from the signal.

    That is the limit. Near equal classes it asks for η_b ~ 1/(2π−1), while the share of positives
    among n₀ samples is off by 1/√n₀: with `dim` the bias step is the one with the highest mean
    cosine over training sets of that size, and that mean is returned.

    Parameters
    ----------
    task : Task
        What a sample is.
    loss : Loss
        That the steps descend.
    query_samples : float
        α₀ = n₀/d, samples per embedding dimension.
    dim : int, optional
        Embedding dimension d; without it, the limit.

    Returns
    -------
    Steps
        `.readout`, `.bias`, and the `.cosine` they give.

    Raises
    ------
    InvalidInput
        For query samples that are not allowed.

    Examples
    --------
    >>> rare = Task(length=17, sparsity=2, strength=4.0, prevalence=0.1)
    >>> steps = best_steps(rare, Protocol().loss, query_samples=2.6)
    >>> round(steps.bias, 1), round(steps.cosine, 2)
    (6.1, 0.71)
    >>> align(rare, Protocol(query_samples=2.6)).cosine < 0
    True
    >>> even = Task(length=10, sparsity=1, strength=5.0, prevalence=0.499)
    >>> limit, finite = (best_steps(even, Protocol().loss, 2.0, dim).bias for dim in (None, 200))
    >>> limit > 20 * finite
    True
    """
    require_white("best_steps", task)
    readout, bias = 0.01, 1.0
    prevalence, free = task.prevalence, _free_tokens(task)
    c = float(loss.slope(0.0))
    m = -prevalence * c * task.dose
    spread = c**2 * task.mean_variance / query_samples  # ω² − m²
    power = float(task.signals.weights @ doses_and_powers(task)[1])
    p = np.array([prevalence, 1 - prevalence])
    u = m * (p * free + [prevalence * power, 0.0])
    noise = p * free * (m**2 + spread) + [prevalence * power * m**2, 0.0]
    noise *= 1 - task.token_correlation
    matrix = spread * free**2 * np.outer(p, p) + np.diag(noise) / query_samples
    if u.any() and prevalence != 0.5:  # else there is no signal, or the bias stays 0
        up, down = np.linalg.solve(matrix, u)
        ends = (0.0, FARTHEST_BIAS) if prevalence > 0.5 else (-FARTHEST_BIAS, 0.0)
        bias = float(balancing_bias(loss, -down / up, 1.0, ends=ends))
        bias = min(bias / (-c * (2 * prevalence - 1)), _LARGEST_STEP)
    if dim is not None:
        return _best_at_size(task, loss, query_samples, dim, readout, bias)
    steps = {"readout_step": readout, "bias_step": bias}
    query = align(task, Protocol(query_samples=query_samples, loss=loss, **steps))
    return Steps(readout, bias, query.cosine)


def _best_at_size(
    task: Task, loss: Loss, query_samples: float, dim: int, readout: float, limit: float
) -> Steps:
    """The bias step with the highest mean cosine: the best of a grid, then of a parabola.

    The grid has in it the limit's best, whose peak can be narrow.
    """
    protocol = Protocol(query_samples=query_samples, loss=loss, readout_step=readout)
    normals = _few_normals()

    def means(steps: FloatArray) -> FloatArray:
        cosine, _ = spread_queries(
            task,
            protocol,
            dim,
            query_samples * dim,
            np.tile(normals, (len(steps), 1)),
            np.repeat(steps, len(normals)),
        )
        return np.asarray(cosine.reshape(len(steps), -1).mean(axis=1))

    grid = np.unique(np.concatenate([_BIAS_STEPS, limit * np.array([0.85, 1.0, 1.15])]))
    values = means(grid)
    best = int(np.argmax(values))
    step, value = float(grid[best]), float(values[best])
    if 1 < best < len(grid) - 1:  # neighbours are positive
        x, y = np.log(grid[best - 1 : best + 2]), values[best - 1 : best + 2]
        bend, slope, _ = np.polyfit(x - x[1], y, 2)
        if bend < 0:
            trial = float(
                np.clip(np.exp(x[1] - slope / (2 * bend)), grid[best - 1], grid[best + 1])
            )
            at_trial = float(means(np.array([trial]))[0])
            if at_trial > value:
                step, value = trial, at_trial
    return Steps(readout, step, value)


@lru_cache(maxsize=1)
def _few_normals() -> FloatArray:
    return normal_cloud(NORMALS, 0, 64)

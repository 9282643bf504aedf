r"""The query after two gradient steps where noise is not white or the signal is a cloud.

With n₀ = α₀d samples, tokens of covariance Σ (noise) and C (signal), c = ℓ′(y, 0) and the share
p = πE[R]/L of signal tokens among all,

    w¹ = mξ + n_w,   m = −η_w π c₊ E[θR]/L,   Cov n_w = ω_n² S̄/d,   S̄ = (1−p)Σ + pC,
    ω_n² = η_w² E[c²]/(α₀L).

Seen from w¹ a noise token is t = δ₀ + s₀g and a signal token t = θm + δ₁ + s₁g, with s₀² = w¹ᵀΣw¹,
s₁² = w¹ᵀCw¹ and the sample's own contribution to w¹, δ₀ = −η_w c tr̄Σ/(α₀L), δ₁ likewise with C.
A token is Cov w¹/s² times the fluctuation φ of its t, and what is independent of it; hence, with
h = ℓ′(y, b¹ + mean of t), k = η_qβ/L and averages over samples,

    q = −k(Aξ + (B₀Σ + B₁C)w¹ + n_q),   A = E[hθ Σ_signal (Pt)_l],
    B₀s₀² = E[h Σ_noise (Pt)_l φ_l],   N₀ = E[h² Σ_noise (Pt)_l²]/α₀,   B₁, N₁ likewise,
    Cov n_q = (N₀Σ + N₁C)/d,   Cov(n_w, n_q) = X(C − Σ)/d,   X = −(η_w/(α₀L)) E[ch Σ_signal (Pt)_l].

Where C = Σ the fluctuation of the mean is independent of Pt, and A, B₀ + B₁, N₀ + N₁ are those of
`alignment`, with ω² = s₀² and v̄ tr̄Σ for the own contribution. Else, given the mean, its deviation z
of variance σ̄², a token's φ is βz and a rest, β = s²/(Lσ̄²), and all are averages of h and h² with
1, z and z², which are the loss's Gaussian moments.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsetoken.model.coloured import ColouredQuery, MatrixQuery, ShapedQuery, matrices
from sparsetoken.model.covariances import JointSpectrum
from sparsetoken.model.losses import Loss
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task
from sparsetoken.support.arrays import FloatArray


class _Pulls(NamedTuple):
    """Averages over samples of one class: of h times, or h² times, sums over tokens."""

    caught: float  # E[h Σ_signal (Pt)_l]
    along: FloatArray  # (2,), E[h Σ (Pt)_l φ_l] over noise and over signal tokens
    power: FloatArray  # (2,), E[h² Σ (Pt)_l²]


class _Projected(NamedTuple):
    """Tokens of one class along w¹, t_l = ⟨x_l, w¹⟩: noise tokens and signal tokens."""

    means: FloatArray  # (2,)
    square: FloatArray  # (2,), variances
    carriers: int  # tokens with the signal


class _Spectral:
    """Functions of Σ and C that commute: arrays over their joint spectrum."""

    def __init__(self, joint: JointSpectrum) -> None:
        self.kinds = joint.noise, joint.signal
        self.density, self.share = joint.density, joint.share

    def product(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return a * b

    def trace(self, a: FloatArray) -> float:
        """tr̄."""
        return float(self.density @ a)

    def along(self, a: FloatArray) -> float:
        """ξᵀaξ."""
        return float(self.share @ a)

    def query(
        self, a: float, turned: FloatArray, noise: FloatArray, sharpness: float
    ) -> ColouredQuery:
        """aξ + turned ξ and noise; `sharpness` is that of a query of norm 1."""
        signal, noise = a + turned, np.maximum(noise, 0.0)
        norm = math.sqrt(self.along(signal**2) + self.trace(noise))
        unit = norm or 1.0
        functions = (tuple((f / u).tolist()) for f, u in ((signal, unit), (noise, unit**2)))
        return ColouredQuery(self.along(signal), norm, sharpness * norm, *functions)


class _Matrices:
    """The same for matrices that do not commute."""

    def __init__(self, sigma: FloatArray, c: FloatArray, xi: FloatArray) -> None:
        self.kinds, self.xi = (sigma, c), xi

    def product(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return np.asarray(a @ b)

    def trace(self, a: FloatArray) -> float:
        return float(np.trace(a)) / len(a)

    def along(self, a: FloatArray) -> float:
        return float(self.xi @ a @ self.xi)

    def query(
        self, a: float, turned: FloatArray, noise: FloatArray, sharpness: float
    ) -> MatrixQuery:
        vector = a * self.xi + turned @ self.xi
        noise = 0.5 * (noise + noise.T)
        norm = math.sqrt(max(float(vector @ vector) + self.trace(noise), 0.0))
        unit = norm or 1.0
        overlap = float(vector @ self.xi)
        return MatrixQuery(overlap, norm, sharpness * norm, vector / unit, noise / unit**2)


def coloured_query(task: Task, protocol: Protocol) -> ShapedQuery:
    """The query that stages 1–3 learn, as functions of Σ and C."""
    joint = task.joint_spectrum
    of: _Spectral | _Matrices = _Matrices(*matrices(task)) if joint is None else _Spectral(joint)
    sigma, c = of.kinds
    loss, samples, step = protocol.loss, protocol.query_samples, protocol.readout_step
    slope = float(loss.slope(0.0))  # c_y = y·slope
    variance = task.mean_variance
    m = -step * task.prevalence * slope * task.dose
    strength = step**2 * slope**2 * variance / samples  # ω_n²
    atoms = task.signals
    part = task.prevalence * float(atoms.weights @ atoms.sparsities) / task.length
    mixed = (1 - part) * sigma + part * c  # S̄
    # s₀², s₁²
    square = np.array(
        [m**2 * of.along(kind) + strength * of.trace(of.product(kind, mixed)) for kind in of.kinds]
    )
    own = -step * slope * variance / samples * np.array([of.trace(kind) for kind in of.kinds])
    bias = -protocol.bias_step * slope * (2 * task.prevalence - 1)
    k = -protocol.query_step * protocol.inverse_temperature  # and 1/L is in the sums over tokens
    if not square[0] > 0:
        return of.query(0.0, 0 * sigma, 0 * sigma, protocol.inverse_temperature)

    a, x = 0.0, 0.0
    along, power = np.zeros(2), np.zeros(2)
    chances = np.append(task.prevalence * atoms.weights, 1 - task.prevalence)
    strengths, counts = np.append(atoms.strengths, 0.0), np.append(atoms.sparsities, 0)
    pulls_of = _same_pulls if not task.has_spread else _pulls
    for place, (chance, theta, count) in enumerate(zip(chances, strengths, counts, strict=True)):
        label = 1.0 if place < len(atoms.weights) else -1.0
        means = label * own + [0.0, theta * m]
        pulls = pulls_of(task, loss, label, bias, _Projected(means, square, int(count)))
        a += chance * theta * pulls.caught
        x -= chance * step * label * slope * pulls.caught * variance / samples
        along += chance * pulls.along
        power += chance * pulls.power / samples
    b = np.divide(along, square, out=np.zeros(2), where=square > 0)
    turned = b[0] * sigma + b[1] * c
    shared = of.product(turned, c - sigma)
    shared = shared + (shared.T if joint is None else shared)
    noise = strength * of.product(of.product(turned, mixed), turned)
    noise = noise + x * shared + power[0] * sigma + power[1] * c
    return of.query(k * a, k * m * turned, k**2 * noise, protocol.inverse_temperature)


def _same_pulls(task: Task, loss: Loss, label: float, bias: float, tokens: _Projected) -> _Pulls:
    """Where C = Σ, tokens may share noise: Pt is independent of the mean, and so of h."""
    means, square, count = tokens
    share = count / task.length
    margin = label * (bias + means[0] + share * (means[1] - means[0]))
    moments = loss.moments(margin, math.sqrt(square[0] * task.mean_variance), 0.0)
    first, second = label * float(moments.psi), float(moments.psi_squared)
    own = 1 - task.token_correlation  # of the noise
    shift = means[1] - means[0]
    spread = count * (1 - share) * shift  # Σ_signal (Pt)_l on average
    free = own * square[0] * (task.length - 1)
    along = np.array([first * free, 0.0])
    power = np.array([second * own * (spread * shift + free), 0.0])
    return _Pulls(first * spread / task.length, along / task.length, power / task.length**2)


def _pulls(task: Task, loss: Loss, label: float, bias: float, tokens: _Projected) -> _Pulls:
    """Where they differ, by conditioning on the mean of t."""
    means, square, count = tokens
    length = task.length
    counts = np.array([length - count, count])
    centre = float(counts @ means) / length
    variance = float(counts @ square) / length**2  # σ̄²
    if variance == 0:  # signals without noise, and nothing else: all tokens are alike
        return _Pulls(0.0, np.zeros(2), np.zeros(2))
    deviation = math.sqrt(variance)
    m = loss.moments(label * (bias + centre), deviation, 0.0)
    # E[h z^k] and E[h² z^k], k = 0, 1, 2, by Stein
    first = np.array([label * m.psi, m.psi_noise, label * (m.psi + deviation * m.delta_noise)])
    second = np.array(
        [
            m.psi_squared,
            label * 2 * deviation * m.psi_delta,
            m.psi_squared + 2 * deviation * m.psi_delta_noise,
        ]
    )
    first, second = (np.ravel(moments) * deviation ** np.arange(3) for moments in (first, second))
    gap = means - centre  # of the mean of t_l to that of all
    beta = square / (length * variance)
    rest = square - square**2 / (length**2 * variance)  # of φ given z
    caught = count * (gap[1] * first[0] + (beta[1] - 1) * first[1])
    along = rest * first[0] + beta * gap * first[1] + beta * (beta - 1) * first[2]
    power = (gap**2 + rest) * second[0] + 2 * gap * (beta - 1) * second[1]
    power = power + (beta - 1) ** 2 * second[2]
    return _Pulls(float(caught) / length, counts * along / length, counts * power / length**2)

r"""The query that stages 1–3 learn from n samples in dimension d, drawn exactly.

P = I − 11ᵀ/L makes P X_i independent of the mean token. The query lies in the span of ξ, the noise
in Σ c_i x̄_i, and fresh noise; all it needs of a sample is

    its logit,   ⟨v, t⟩,   ⟨ζ, t⟩,   ‖t‖²      for t = P(a v + s ζ),  a = θ⟨ξ, w¹⟩1₊,  s = ‖w¹‖:

with ϱ = ‖Pv‖² = R(1 − R/L), g ~ N(0,1) and h ~ χ²(L−2) they are aϱ + s√ϱ g, g(a√ϱ + sg) + sh and
(a√ϱ + sg)² + s²h. So a query costs O(n) random numbers, whatever L and d are. Tokens that share a
part ρ of their noise have a mean token of variance ρ + (1−ρ)/L, and √(1−ρ) ζ in place of ζ.

Simulation and the theory of finite size both draw queries here; the experiment on tokens
(`simulation/tokens.py`), which shares no code with it, is the witness of both.
"""

from __future__ import annotations

import math

import numpy as np

from sparsetoken.model.classifiers import Query
from sparsetoken.model.protocol import Protocol
from sparsetoken.model.task import Task, require_white


def draw_query(task: Task, protocol: Protocol, dim: int, n: int, rng: np.random.Generator) -> Query:
    """Stages 1–3 with n samples in dimension d: the query's overlap and norm, exact in law.

    >>> rng = np.random.default_rng(0)
    >>> query = draw_query(Task(10, 1, 5.0), Protocol(), dim=1000, n=2000, rng=rng)
    >>> abs(query.cosine - 0.948) < 0.02
    True
    """
    require_white("draw_query", task)
    length, loss = task.length, protocol.loss
    labels = task.sample_labels(n, rng)
    positive = labels > 0
    theta, sparsity = task.sample_signals(n, rng)
    share = sparsity / length
    doses = theta * share * positive
    c = labels * float(loss.slope(0.0))
    # Σ c_i Z̄_i = ‖c‖ √v̄ g₀, v̄ = 1/L or so: its component along ξ, and the length of the rest
    size = float(np.linalg.norm(c)) * math.sqrt(task.mean_variance)
    along, across = rng.standard_normal(), math.sqrt(rng.chisquare(dim - 1))
    step = -protocol.readout_step / n
    on_signal = step * (doses @ c + size * along)  # ⟨w¹, ξ⟩
    off_signal = step * size * across
    norm = math.hypot(on_signal, off_signal)  # ‖w¹‖
    bias = -protocol.bias_step * c.mean()
    # logits: the sample's own contribution to w¹, and noise orthogonal to c
    own = c / np.linalg.norm(c)
    noise = rng.standard_normal(n)
    noise = (noise - own * (own @ noise)) * norm + own * (along * on_signal + across * off_signal)
    logits = bias + doses * on_signal + noise * math.sqrt(task.mean_variance)
    h = labels * loss.slope(labels * logits)
    if length == 1 or norm == 0:  # one token is its own mean: the query has no gradient
        return Query(0.0, 0.0, 0.0)
    own_part = math.sqrt(1 - task.token_correlation)  # of the noise
    spread = theta * np.sqrt(sparsity * (1 - share)) * positive  # θ‖Pv‖
    g = rng.standard_normal(n)
    rest = rng.chisquare(length - 2, n) if length > 2 else np.zeros(n)
    moved = spread * on_signal + own_part * norm * g
    on_signal_pull = float((h * spread) @ moved)  # Σ h θ⟨v, t⟩
    on_readout_pull = own_part * float(h @ (g * moved + own_part * norm * rest))  # Σ h √(1−ρ)⟨ζ, t⟩
    free = own_part * math.sqrt(float((h * h) @ (moved * moved + (own_part * norm) ** 2 * rest)))
    cosine = on_signal / norm
    sine = abs(off_signal) / norm
    parallel = on_signal_pull * cosine + on_readout_pull  # along w¹
    sideways = on_signal_pull * sine + free * rng.standard_normal()  # in the plane of w¹ and ξ
    elsewhere = free * math.sqrt(rng.chisquare(dim - 2)) if dim > 2 else 0.0
    scale = -protocol.query_step * protocol.inverse_temperature / (n * length)
    overlap = scale * (parallel * cosine + sideways * sine)
    total = abs(scale) * math.sqrt(parallel**2 + sideways**2 + elsewhere**2)
    return Query(float(overlap), float(total), protocol.inverse_temperature * float(total))

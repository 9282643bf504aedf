r"""Joint training: all parameters of attention at once, by L-BFGS on their gradient.

    minimise over (q, w, b)   Σ s_i ℓ(y_i u_i) + (λ/2)‖w‖² + (λ_q/2)‖q‖²,
    u_i = ⟨w, Σ_l a_il x_il⟩ + b,   a_i = softmax(β⟨x_i1, q⟩, β⟨x_i2, q⟩, …)

With h_i = s_i y_i ℓ′(y_i u_i) and v_il = ⟨x_il, w⟩ the gradients are Σ h_i Σ_l a_il x_il + λw for
w, Σ h_i for b, and β Σ h_i Σ_l a_il (v_il − Σ_k a_ik v_ik) x_il for q: two passes over the rows. It
is not convex: what comes out is stationary, and depends on the start.

Rows may be seen in other coordinates, x = Rᵀ(x′ − c), without a copy of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetoken.fitting.groups import Groups
from sparsetoken.fitting.low_rank import LowRank
from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError

_MOST = 2000  # iterations


@dataclass(frozen=True, eq=False)
class Trained:
    """A stationary point: attention with all its parameters."""

    query: FloatArray  # q (d,)
    weights: FloatArray  # w (d,)
    bias: float
    scores: FloatArray  # u on the training samples (n,)
    certificate: float  # largest entry of the gradient, relative to that at zero
    iterations: int


def train_jointly(
    groups: Groups,
    labels: FloatArray,
    loss: Loss,
    ridge: float,
    query_ridge: float,
    *,
    weights: FloatArray | None = None,
    root: FloatArray | LowRank | None = None,
    centre: FloatArray | None = None,
    inverse_temperature: float = 1.0,
    start: tuple[FloatArray, FloatArray, float] | None = None,
    tolerance: float = 1e-3,
    least_fall: float = 1e-13,
    least_gradient: float = 1e-7,
) -> Trained:
    """Descend from `start` (q, w, b), or from zero, with labels ±1 (n,) and weights of samples.

    `root` is R (d, d), `centre` c (d,); without them rows are as they are. From zero
    the first gradient moves w and b only, the next one q: as stages 1 to 3 of a protocol do. It
    ends where a step lowers the objective by less than a part `least_fall` or no entry of the
    gradient exceeds `least_gradient`, and is accepted if the gradient is at most `tolerance` of
    that at zero.

    >>> from sparsetoken import Logistic, Task
    >>> sample = Task(5, 1, 6.0).sample(200, dim=10, rng=np.random.default_rng(0))
    >>> groups = Groups(sample.tokens.reshape(1000, 10), 5 * np.arange(201))
    >>> trained = train_jointly(groups, sample.labels, Logistic(), 1e-2, 1e-2)
    >>> cosine = trained.query @ sample.signal / np.linalg.norm(trained.query)
    >>> bool(cosine > 0.9), trained.certificate < 1e-5
    (True, True)
    """
    from scipy.optimize import minimize

    n, dim = len(labels), groups.dim
    root = LowRank.identity(dim) if root is None else root
    centre = np.zeros(dim) if centre is None else centre
    shares = np.full(n, 1 / n) if weights is None else weights / weights.sum()

    def attend(both: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        along = root @ both.reshape(2, dim).T
        projected = groups.project(along) - centre @ along  # on q and on w
        attention = groups.softmax(inverse_temperature * projected[:, 0])
        return attention, projected[:, 1], groups.total(attention * projected[:, 1])

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        attention, level, pooled = attend(x[:-1])
        margin = labels * (pooled + x[-1])
        h = shares * labels * loss.slope(margin)
        pull = attention * groups.spread(h)  # (N,), of w
        turn = inverse_temperature * pull * (level - groups.spread(pooled))  # of q
        values = np.stack([turn, pull])
        gradient = (groups.sums(values) - np.outer(values.sum(axis=1), centre)) @ root  # (2, d)
        q, w = x[:dim], x[dim:-1]
        gradient[0] += query_ridge * q
        gradient[1] += ridge * w
        penalty = 0.5 * (ridge * float(w @ w) + query_ridge * float(q @ q))
        value = float(shares @ loss.value(margin)) + penalty
        return value, np.append(gradient.ravel(), h.sum())

    zero = np.zeros(2 * dim + 1)
    first: Any = zero if start is None else np.concatenate([*start[:2], [start[2]]])
    options: Any = {
        "maxiter": _MOST,
        "maxfun": 2 * _MOST,
        "gtol": least_gradient,
        "ftol": least_fall,
    }
    solution = minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
    (_, gradient), (_, at_zero) = objective(solution.x), objective(zero)
    scale = max(float(np.abs(at_zero).max()), np.finfo(float).tiny)
    certificate = float(np.abs(gradient).max()) / scale
    if certificate > tolerance:
        raise ConvergenceError(
            f"train_jointly: relative gradient {certificate:.1e} after {solution.nit} iterations, "
            f"{tolerance:g} is required (ridge={ridge:g})"
        )
    return Trained(
        query=solution.x[:dim],
        weights=solution.x[dim:-1],
        bias=float(solution.x[-1]),
        scores=attend(solution.x[:-1])[2] + solution.x[-1],
        certificate=certificate,
        iterations=int(solution.nit),
    )

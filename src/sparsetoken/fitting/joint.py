r"""Joint training: all parameters of the attention classifier at once, by L-BFGS on their gradient.

    minimise over (q, w, b)   (1/n) Σ ℓ(y_i u_i) + (λ/2)‖w‖² + (λ_q/2)‖q‖²,
    u_i = ⟨w, X_iᵀ a_i⟩ + b,   a_i = softmax(β X_i q)

With h_i = y_i ℓ′(y_i u_i) and s_i = X_i w the gradients are (1/n) Σ h_i X_iᵀ a_i + λw for w,
(1/n) Σ h_i for b, and (β/n) Σ h_i X_iᵀ (a_i ∘ (s_i − ⟨a_i, s_i⟩)) for q: two passes over the
tokens. It is not convex: what is found is stationary, and depends on the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetoken.model.losses import Loss
from sparsetoken.support.arrays import FloatArray
from sparsetoken.support.errors import ConvergenceError

_MOST = 2000  # iterations
_CERTIFIED = 1e-3  # gradient relative to that at zero


@dataclass(frozen=True, eq=False)
class Trained:
    """A stationary point: the attention classifier with all its parameters."""

    query: FloatArray  # q (d,)
    weights: FloatArray  # w (d,)
    bias: float
    scores: FloatArray  # u on the training samples (n,)
    certificate: float  # largest entry of the gradient, relative to that at zero
    iterations: int


def train_jointly(
    tokens: FloatArray,
    labels: FloatArray,
    loss: Loss,
    ridge: float,
    query_ridge: float,
    inverse_temperature: float = 1.0,
    start: tuple[FloatArray, FloatArray, float] | None = None,
) -> Trained:
    """Descend from `start` (q, w, b), or from zero, on tokens (n, L, d) with labels ±1 (n,).

    From zero the first gradient moves w and b only, the next one q: as stages 1 to 3 do.

    >>> from sparsetoken import Logistic, Task
    >>> sample = Task(5, 1, 6.0).sample(200, dim=10, rng=np.random.default_rng(0))
    >>> trained = train_jointly(sample.tokens, sample.labels, Logistic(), 1e-2, 1e-2)
    >>> cosine = trained.query @ sample.signal / np.linalg.norm(trained.query)
    >>> bool(cosine > 0.9), trained.certificate < 1e-5
    (True, True)
    """
    from scipy.optimize import minimize

    n, length, dim = tokens.shape
    flat = tokens.reshape(n * length, dim)

    def attend(both: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        projected = flat @ both.reshape(2, dim).T  # (nL, 2): on q and on w
        logits = inverse_temperature * projected[:, 0].reshape(n, length)
        attention = np.exp(logits - logits.max(axis=1, keepdims=True))
        attention /= attention.sum(axis=1, keepdims=True)
        level = projected[:, 1].reshape(n, length)
        return attention, level, np.einsum("nl,nl->n", attention, level)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        attention, level, pooled = attend(x[:-1])
        margin = labels * (pooled + x[-1])
        h = labels * loss.slope(margin) / n
        pull = attention * h[:, None]  # (n, L), of w
        turn = inverse_temperature * pull * (level - pooled[:, None])  # of q
        gradient = np.column_stack([turn.ravel(), pull.ravel()]).T @ flat  # (2, d)
        q, w = x[:dim], x[dim:-1]
        gradient[0] += query_ridge * q
        gradient[1] += ridge * w
        penalty = 0.5 * (ridge * (w @ w) + query_ridge * (q @ q))
        value = float(np.mean(loss.value(margin)) + penalty)
        return value, np.append(gradient.ravel(), h.sum())

    first: Any = (
        np.zeros(2 * dim + 1) if start is None else np.concatenate([*start[:2], [start[2]]])
    )
    options: Any = {"maxiter": _MOST, "maxfun": 2 * _MOST, "gtol": 1e-7, "ftol": 1e-13}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", options=options)
    (_, gradient), (_, at_zero) = objective(found.x), objective(np.zeros(2 * dim + 1))
    certificate = float(np.abs(gradient).max() / np.abs(at_zero).max())
    if certificate > _CERTIFIED:
        raise ConvergenceError(
            f"train_jointly: relative gradient {certificate:.1e} after {found.nit} iterations, "
            f"{_CERTIFIED:g} is required"
        )
    scores = attend(found.x[:-1])[2] + found.x[-1]
    return Trained(
        query=found.x[:dim],
        weights=found.x[dim:-1],
        bias=float(found.x[-1]),
        scores=scores,
        certificate=certificate,
        iterations=int(found.nit),
    )

"""A plain token-level experiment, written without the package's theory: the witness.

It draws tokens, takes the protocol's gradient steps, fits the readout and tests it on fresh tokens.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog, minimize

SLOPES = {
    "Square()": lambda x: x - 1,
    "Logistic()": lambda x: -1 / (1 + np.exp(x)),
    "SquaredHinge()": lambda x: np.minimum(x - 1, 0),
    "Huber(width=1.0)": lambda x: np.clip(x - 1, -1, 0),
}
VALUES = {
    "Square()": lambda x: 0.5 * (1 - x) ** 2,
    "Logistic()": lambda x: np.logaddexp(0, -x),
    "SquaredHinge()": lambda x: 0.5 * np.maximum(1 - x, 0) ** 2,
    "Huber(width=1.0)": lambda x: np.where(x > 1, 0, np.where(x > 0, 0.5 * (1 - x) ** 2, 0.5 - x)),
}


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def pooled(tokens, query=None):
    return tokens.mean(axis=1)


def vectorized(tokens, query=None):
    return tokens.reshape(len(tokens), -1)


def attention(tokens, query):
    return np.einsum("nl,nld->nd", softmax(tokens @ query), tokens)


def learn_query(labels, tokens, protocol):
    """Stages 1 to 3: two gradient steps from zero."""
    slope = SLOPES[repr(protocol.loss)]
    n, length, _ = tokens.shape
    mean = tokens.mean(axis=1)
    c = labels * slope(np.zeros(n))
    w = -protocol.readout_step / n * c @ mean
    b = -protocol.bias_step / n * c.sum()
    h = labels * slope(labels * (mean @ w + b))
    centred = tokens - mean[:, None, :]
    pull = np.einsum("n,nld,nl->d", h, centred, centred @ w) / (n * length)
    return -protocol.query_step * protocol.inverse_temperature * pull


def fit(features, labels, loss, ridge):
    """Stage 4: minimise mean loss + (ridge/2)‖w‖² over (w, b)."""
    n, p = features.shape
    value, slope = VALUES[repr(loss)], SLOPES[repr(loss)]
    if repr(loss) == "Square()":
        design = np.column_stack([features, np.ones(n)])
        penalty = ridge * n * np.eye(p + 1)
        penalty[-1, -1] = 0
        solution = np.linalg.solve(design.T @ design + penalty, design.T @ labels)
        return solution[:-1], solution[-1]

    def objective(x):
        margin = labels * (features @ x[:-1] + x[-1])
        pull = labels * slope(margin) / n
        gradient = np.append(features.T @ pull + ridge * x[:-1], pull.sum())
        return value(margin).mean() + 0.5 * ridge * x[:-1] @ x[:-1], gradient

    options = dict(maxiter=5000, maxfun=20000, ftol=1e-14, gtol=1e-8)
    x = minimize(objective, np.zeros(p + 1), jac=True, method="L-BFGS-B", options=options).x
    return x[:-1], x[-1]


def experiment(task, features, protocol, dim, rng, learned=False, query=None, tests=4000):
    """One run of the protocol; a dict of measured numbers."""
    signal = rng.standard_normal(dim)
    signal /= np.linalg.norm(signal)
    result = {}
    if learned:
        n0 = round(protocol.query_samples * dim)
        labels, tokens, _, _ = task.sample(n0, dim, rng, signal)
        query = learn_query(labels, tokens, protocol)
        norm = np.linalg.norm(query)
        result |= {"norm": norm, "overlap": query @ signal, "cosine": query @ signal / norm}
        query = protocol.inverse_temperature * query
    elif query is not None:  # a frozen query (cosine, sharpness)
        cosine, sharpness = query
        other = rng.standard_normal(dim)
        other -= (other @ signal) * signal
        other /= np.linalg.norm(other)
        query = sharpness * (cosine * signal + np.sqrt(1 - cosine**2) * other)
    n1 = round(protocol.readout_samples * dim)
    labels, tokens, _, _ = task.sample(n1, dim, rng, signal)
    train = features(tokens, query)
    w, b = fit(train, labels, protocol.loss, protocol.ridge)
    margin = labels * (train @ w + b)
    result["train_error"] = np.mean(margin < 0)
    result["train_loss"] = VALUES[repr(protocol.loss)](margin).mean()
    labels, tokens, _, _ = task.sample(tests, dim, rng, signal)
    result["test_error"] = np.mean(labels * (features(tokens, query) @ w + b) < 0)
    return result


def separable(features, labels):
    """Whether some (w, b) has y(⟨w, f⟩ + b) ≥ 1 for every sample: a linear programme."""
    n, p = features.shape
    signed = -labels[:, None] * np.column_stack([features, np.ones(n)])
    found = linprog(
        np.zeros(p + 1), A_ub=signed, b_ub=-np.ones(n), bounds=(None, None), method="highs"
    )
    return found.status == 0

"""Theory against a plain token-level simulation: alignment, errors, training loss, separability.

Every comparison allows four standard errors of the simulated mean, and for its finite size 1/d, or
12/d of the predicted number itself where that is less.
"""

from __future__ import annotations

import numpy as np
import pytest

import sparsetoken as st
import witness as plain

DIM = 240


def agree(runs, name, predicted, dim=DIM, scale=1.0):
    values = np.array([run[name] for run in runs])
    error = values.std(ddof=1) / np.sqrt(len(values))
    allowed = 4 * error + min(scale, 12 * abs(predicted)) / dim
    if name == "train_error":  # counted on some 1e4 samples in all: rare ones are Poisson
        allowed += 4 * np.sqrt(predicted / 5e3) + 1 / 5e3
    assert abs(values.mean() - predicted) <= allowed, (
        f"{name}: simulated {values.mean():.5f} ± {error:.5f}, predicted {predicted:.5f}"
    )


def repeat(count, *args, seed, **kwargs):
    streams = np.random.SeedSequence(seed).spawn(count)
    return [plain.experiment(*args, np.random.default_rng(s), **kwargs) for s in streams]


LEARNED = [
    (st.Task(5, 1, 4.0), st.Square(), 1.0),
    (st.Task(5, 1, 4.0), st.Logistic(), 1.0),
    (st.Task(6, 2, 3.0, prevalence=0.1), st.Square(), 0.3),
    (st.Task(6, 2, 3.0, prevalence=0.1), st.Logistic(), 0.3),
    (st.Task(6, 2, 3.0, prevalence=0.1), st.Logistic(), 5.5),  # balanced: the query finds ξ
    (st.Task(4, 3, 2.0, prevalence=0.7), st.Huber(), 1.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("task, loss, bias_step", LEARNED, ids=lambda v: repr(v)[:24])
def test_learned_attention(task, loss, bias_step):
    protocol = st.Protocol(3.0, 3.0, loss, ridge=0.02, bias_step=bias_step, query_step=8.0)
    runs = repeat(12, task, plain.attention, protocol, DIM, seed=1, learned=True)
    query = st.align(task, protocol)
    for name in ("overlap", "norm"):
        agree(runs, name, getattr(query, name), scale=max(1.0, query.norm))
    agree(runs, "cosine", query.cosine)
    prediction = st.predict(task, st.Attention(), protocol)
    for name in ("test_error", "train_error", "train_loss"):
        agree(runs, name, getattr(prediction, name))


FROZEN = [
    (st.Pooled(), plain.pooled, st.Task(5, 2, 3.0, prevalence=0.1), st.Logistic(), 1e-3, 4.0),
    (st.Pooled(), plain.pooled, st.Task(3, 1, 4.0), st.SquaredHinge(), 1e-2, 1.5),
    (st.Vectorized(), plain.vectorized, st.Task(3, 1, 4.0, prevalence=0.3), st.Square(), 0.05, 2.0),
    (st.Vectorized(), plain.vectorized, st.Task(2, 1, 3.0), st.Logistic(), 0.02, 3.0),
    (st.Attention(0.8, 2.0), plain.attention, st.Task(5, 1, 4.0, 0.1), st.Logistic(), 1e-3, 3.0),
    (st.Attention(-0.6, 1.5), plain.attention, st.Task(4, 2, 3.0, 0.4), st.Square(), 0.1, 1.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("setting", FROZEN, ids=lambda s: f"{s[0]!r}-{s[3]!r}-{s[2].prevalence}")
def test_frozen_classifiers(setting):
    classifier, features, task, loss, ridge, samples = setting
    protocol = st.Protocol(readout_samples=samples, loss=loss, ridge=ridge)
    query = None
    if isinstance(classifier, st.Attention):
        query = (classifier.cosine, classifier.sharpness)
    runs = repeat(12, task, features, protocol, DIM, seed=2, query=query)
    prediction = st.predict(task, classifier, protocol)
    for name in ("test_error", "train_error", "train_loss"):
        agree(runs, name, getattr(prediction, name))


@pytest.mark.slow
def test_vectorized_with_position_weights():
    task = st.Task(3, 1, 4.0, prevalence=0.4, places=(6, 1, 0.5))
    protocol = st.Protocol(readout_samples=3.0, loss=st.Square(), ridge=0.05)
    prediction = st.predict(task, st.Vectorized(), protocol)
    assert prediction.fit.weights.shape == (3,)  # one coordinate per position
    assert prediction.fit.weights[0] > 1.5 * prediction.fit.weights[1]
    uniform = st.predict(st.Task(3, 1, 4.0, prevalence=0.4), st.Vectorized(), protocol)
    assert prediction.test_error < uniform.test_error - 0.02
    runs = repeat(12, task, plain.vectorized, protocol, 160, seed=3)
    for name in ("test_error", "train_error", "train_loss"):
        agree(runs, name, getattr(prediction, name), dim=160)


@pytest.mark.slow
def test_another_task_at_test_time():
    """Trained at one length and strength, tested at others."""
    task, other = st.Task(5, 1, 4.0), st.Task(9, 2, 3.0, prevalence=0.3)
    protocol = st.Protocol(readout_samples=3.0, loss=st.Square(), ridge=0.02)
    prediction = st.predict(task, st.Attention(0.8, 1.5), protocol)
    runs = []
    for stream in np.random.SeedSequence(4).spawn(10):
        rng = np.random.default_rng(stream)
        signal = np.eye(DIM)[0]
        query = 1.5 * (0.8 * signal + 0.6 * np.eye(DIM)[1])
        labels, tokens, _, _ = task.sample(3 * DIM, DIM, rng, signal)
        w, b = plain.fit(plain.attention(tokens, query), labels, protocol.loss, protocol.ridge)
        labels, tokens, _, _ = other.sample(4000, DIM, rng, signal)
        margin = labels * (plain.attention(tokens, query) @ w + b)
        runs.append({"test_error": np.mean(margin < 0)})
    agree(runs, "test_error", prediction.on(other).test_error)


def test_the_query_step_is_the_gradient_of_the_objective():
    """−η_q ∂/∂q of the mean loss at q = 0, by finite differences."""
    task = st.Task(4, 1, 2.0, prevalence=0.3)
    protocol = st.Protocol(query_step=2.0, inverse_temperature=0.7, bias_step=0.4)
    labels, tokens, _, _ = task.sample(30, 6, rng=0)
    mean = tokens.mean(axis=1)
    slope, value = plain.SLOPES["Logistic()"], plain.VALUES["Logistic()"]
    c = labels * slope(np.zeros(30))
    w, b = -c @ mean / 30, -0.4 * c.mean()

    def objective(q):
        features = plain.attention(tokens, 0.7 * q)
        return value(labels * (features @ w + b)).mean()

    h = 1e-5
    gradient = [(objective(h * e) - objective(-h * e)) / (2 * h) for e in np.eye(6)]
    np.testing.assert_allclose(
        plain.learn_query(labels, tokens, protocol), -2.0 * np.array(gradient), rtol=1e-6, atol=1e-9
    )


SEPARABLE = [
    (st.Pooled(), plain.pooled, st.Task(4, 1, 4.0), 60),
    (st.Pooled(), plain.pooled, st.Task(4, 1, 4.0, prevalence=0.1), 50),
    (st.Vectorized(), plain.vectorized, st.Task(3, 1, 4.0), 30),
    (st.Attention(0.9, 1.0), plain.attention, st.Task(4, 1, 3.0), 40),
]


@pytest.mark.slow
@pytest.mark.parametrize("setting", SEPARABLE, ids=lambda s: f"{s[0]!r}-{s[2].prevalence}")
def test_separability_changes_at_the_capacity(setting):
    """Linear programmes a quarter below and above the predicted threshold."""
    classifier, features, task, dim = setting
    threshold = st.capacity(task, classifier)
    rng = np.random.default_rng(6)
    shares = []
    for factor in (0.75, 1.25):
        count = 0
        for _ in range(16):
            signal = np.eye(dim)[0]
            query = None
            if isinstance(classifier, st.Attention):
                side = np.sqrt(1 - classifier.cosine**2)
                query = classifier.sharpness * (classifier.cosine * signal + side * np.eye(dim)[1])
            n = round(factor * threshold * dim)
            labels, tokens, _, _ = task.sample(n, dim, rng, signal)
            count += plain.separable(features(tokens, query), labels)
        shares.append(count / 16)
    assert shares[0] >= 0.8 and shares[1] <= 0.2, shares

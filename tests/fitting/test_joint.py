"""Joint training and separability, against computations that share no code with them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

import sparsetoken as st
from sparsetoken.fitting.groups import Groups
from sparsetoken.fitting.joint import train_jointly
from sparsetoken.fitting.separability import separable
from sparsetoken.support.errors import InvalidInput

TASK = st.Task(5, 1, 4.0)


def groups(tokens):
    n, length, dim = tokens.shape
    return Groups(tokens.reshape(n * length, dim), length * np.arange(n + 1))


def objective(x, tokens, labels, ridge, query_ridge, beta):
    q, w, b = x[: tokens.shape[2]], x[tokens.shape[2] : -1], x[-1]
    total = 0.0
    for sample, label in zip(tokens, labels, strict=True):
        pooled = sample.T @ softmax(beta * sample @ q)
        total += np.log1p(np.exp(-label * (w @ pooled + b)))
    return total / len(labels) + 0.5 * ridge * w @ w + 0.5 * query_ridge * q @ q


@pytest.mark.parametrize(("ridge", "query_ridge", "beta"), [(0.05, 0.05, 1.0), (0.02, 0.1, 0.5)])
def test_joint_training_ends_where_no_direction_goes_down(ridge, query_ridge, beta):
    sample = TASK.sample(60, dim=4, rng=np.random.default_rng(1))
    given = (sample.tokens, sample.labels)
    trained = train_jointly(
        groups(sample.tokens),
        sample.labels,
        st.Logistic(),
        ridge,
        query_ridge,
        inverse_temperature=beta,
    )
    x = np.concatenate([trained.query, trained.weights, [trained.bias]])
    here = objective(x, *given, ridge, query_ridge, beta)
    for index in range(len(x)):  # stationary: differences of second order only
        step = np.zeros(len(x))
        step[index] = 1e-4
        up, down = (objective(x + s, *given, ridge, query_ridge, beta) for s in (step, -step))
        assert abs(up - down) / 2e-4 < 1e-5
        assert (up + down) / 2 > here - 1e-12  # a minimum, not a saddle, along the axes
    pooled = np.einsum(
        "nl,nld->nd", softmax(beta * sample.tokens @ trained.query, axis=1), given[0]
    )
    np.testing.assert_allclose(trained.scores, pooled @ trained.weights + trained.bias)


def test_a_start_at_the_end_stays_there():
    sample = TASK.sample(80, dim=4, rng=np.random.default_rng(2))
    first = train_jointly(groups(sample.tokens), sample.labels, st.Logistic(), 0.05, 0.05)
    start = (first.query, first.weights, first.bias)
    again = train_jointly(
        groups(sample.tokens), sample.labels, st.Logistic(), 0.05, 0.05, start=start
    )
    assert again.iterations <= 3
    np.testing.assert_allclose(again.query, first.query, atol=1e-4)


@pytest.mark.parametrize("training", ["joint", "joint from stages", "joint with free query"])
def test_joint_training_in_a_simulation(training):
    protocol = st.Protocol(query_samples=6.0, readout_samples=6.0, ridge=0.01)
    arguments = dict(sampler="tokens", reuse_data=True, test_samples=20_000)
    run = st.simulate(TASK, st.Attention(), protocol, 30, 3, training=training, **arguments)
    stages = st.simulate(TASK, st.Attention(), protocol, 30, 3, **arguments)
    assert (run.train_loss < stages.train_loss).all()  # more parameters are fitted
    for repeat in range(3):  # the readout in the law's coordinates gives the measured error
        exact = run.scores(repeat).test_error
        noise = np.sqrt(exact * (1 - exact) / 20_000)
        assert abs(run.test_error[repeat] - exact) < 4 * noise
    assert (np.abs(run.cosine) <= 1).all() and (run.certificate < 1e-4).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(training="both"), "training must be one of 'stages'"),
        (dict(training="joint"), "training must be 'stages' unless reuse_data=True"),
        (
            dict(training="joint", reuse_data=True),
            "reuse_data must be False with sampler='reduced'",
        ),
    ],
)
def test_wrong_training(change, words):
    with pytest.raises(InvalidInput, match=words):
        st.simulate(TASK, st.Attention(), st.Protocol(), 30, 1, **change)


def test_separability_against_a_perceptron():
    """A perceptron that ends has separated; one that circles for long has not."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(60):
        features, labels = rng.standard_normal((9, 3)), rng.choice([-1.0, 1.0], 9)
        labels[:2] = [1.0, -1.0]
        signed = labels[:, None] * np.column_stack([features, np.ones(9)])
        weights = np.zeros(4)
        for _ in range(20_000):
            wrong = signed @ weights <= 0
            if not wrong.any():
                break
            weights += signed[np.argmax(wrong)]
        found.append(not wrong.any())
        assert separable(features, labels) == found[-1]
    assert 10 < sum(found) < 50


def test_separability_does_not_depend_on_units():
    rng = np.random.default_rng(1)
    for _ in range(10):
        features, labels = rng.standard_normal((12, 4)), rng.choice([-1.0, 1.0], 12)
        wanted = separable(features, labels)
        assert separable(1e3 * features + 5.0, labels) == wanted
        assert separable(1e-3 * features, labels) == wanted


def test_cells_of_separability_follow_covers_count():
    """No signal, one token: points in general position, separable with Cover's probability."""
    from scipy.stats import binom

    cells = st.grid(
        length=1, sparsity=1, strength=0.0, classifier=st.Pooled(), kind="separability", dim=9,
        readout_samples=[1.5, 2.5], repeats=400,
    )  # fmt: skip
    share = st.sweep(cells).groupby("readout_samples").separable.mean()
    for samples, found in share.items():
        n = round(9 * samples)
        wanted = binom.cdf(9, n - 1, 0.5)  # Σ_{k≤d} C(n−1, k) / 2^(n−1)
        assert abs(found - wanted) < 4 * np.sqrt(wanted * (1 - wanted) / 400)

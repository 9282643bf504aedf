"""Nothing beats the Bayes curve: all that learns here, in theory, simulated and on bags."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone

import sparsetoken as st

CLASSIFIERS = [
    st.Attention(),
    st.Pooled(),
    st.Vectorized(),
    st.Attention(weighting=st.HardMax()),
    st.Attention(weighting=st.TopK(2)),
    st.Attention(weighting=st.Sparsemax()),
]
LOSSES = [st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber()]


def settings(seed, count):
    """Random tasks, samples per dimension in all, and a share of them for the query."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        length = int(rng.integers(3, 25))
        task = st.Task(
            length,
            int(rng.integers(1, min(length, 5))),
            float(rng.uniform(1.5, 5.0)),
            prevalence=float(rng.uniform(0.25, 0.6)),
        )
        yield task, float(np.exp(rng.uniform(np.log(0.5), np.log(8)))), float(rng.uniform(0.2, 0.7))


@pytest.mark.parametrize("number", range(18))
def test_no_classifier_does_in_theory(number):
    (*_, (task, samples, share)) = settings(1, number + 1)
    classifier = CLASSIFIERS[number % len(CLASSIFIERS)]
    loss = LOSSES[number % len(LOSSES)]
    query = share * samples if classifier.learns_query else 1.0
    readout = samples - query if classifier.learns_query else samples
    floor = st.bayes_curve(task, [samples])[0].test_error
    steps = st.best_steps(task, loss, query)
    for ridge in (1e-2, 1.0):
        for query_step in (4.0, 16.0):
            protocol = st.Protocol(
                query, readout, loss, ridge,
                readout_step=steps.readout, bias_step=steps.bias, query_step=query_step,
            )  # fmt: skip
            error = st.predict(task, classifier, protocol).test_error
            doubt = np.hypot(floor.standard_error, getattr(error, "standard_error", 0.0))
            assert error > floor - 3 * doubt


@pytest.mark.slow
@pytest.mark.parametrize("number", range(6))
def test_joint_training_does_not(number):
    """Query, readout and bias at once on the same samples, from zero and from the protocol's."""
    (*_, (task, samples, _)) = settings(2, number + 1)
    training = ("joint", "joint from stages", "joint with free query")[number % 3]
    samples = min(samples, 3.0)
    floor = st.bayes_curve(task, [samples])[0].test_error
    protocol = st.Protocol(samples, readout_samples=samples, ridge=0.03, loss=st.Logistic())
    run = st.simulate(
        task, st.Attention(), protocol, dim=150, repeats=6, seed=number, sampler="tokens",
        reuse_data=True, training=training, test_samples=4000,
    )  # fmt: skip
    assert run.mean("test_error") > floor - 3 * run.sem("test_error")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_message_passing_does_not_either(number):
    (*_, (task, samples, _)) = settings(3, number + 1)
    floor = st.bayes_curve(task, [samples])[0].test_error
    run = st.simulate(
        task, st.MessagePassing(10), st.Protocol(readout_samples=samples), dim=2000, repeats=8
    )
    assert run.mean("test_error") > floor - 3 * run.sem("test_error")


ESTIMATORS = {
    "posterior": st.AttentionClassifier(query="posterior"),
    "joint": st.AttentionClassifier(query="joint"),
    "statistics": st.StatisticsClassifier(),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("number", range(4))
def test_no_estimator_does_on_bags(name, number):
    """Fitted to bags drawn from the task, and tested on new ones."""
    (*_, (task, samples, _)) = settings(4, number + 1)
    dim, tests, errors = 150, 4000, []
    count = round(samples * dim)
    floor = st.bayes_curve(task, [count / dim])[0].test_error
    for seed in range(4):
        train = task.sample(count, dim, rng=seed)
        test = task.sample(tests, dim, rng=1000 + seed, signal=train.signal)
        fitted = clone(ESTIMATORS[name]).fit(train.tokens, train.labels)
        errors.append(1 - fitted.score(test.tokens, test.labels))
    doubt = math.hypot(np.std(errors, ddof=1) / 2, floor.standard_error)
    assert np.mean(errors) > floor - 3 * doubt

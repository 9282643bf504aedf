"""Theory and simulation share nothing but the model, and agree.

At d = 1000 with the reduced sampler, over random settings:
|theory − mean| ≤ 4 standard errors + 3/d.
"""

from __future__ import annotations

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.queries import draw_query

DIM, REPEATS = 1000, 10
LOSSES = [st.Logistic(), st.Square(), st.SquaredHinge(), st.Huber(), st.Huber(width=0.5)]


def random_setting(index):
    """Task, classifier and protocol number `index`; every loss and classifier has its turn."""
    rng = np.random.default_rng([7, index])
    kind = ("learned", "frozen", "pooled", "vectorized")[index % 4]
    loss = LOSSES[index % 5]
    length = int(rng.integers(2, 15))
    sparsity = int(rng.integers(1, min(3, length) + 1))
    rare = index % 3 == 0
    factor = (0.2, 0.8, 1.2, 4.0)[(index // 4) % 4]  # of the capacity
    task = st.Task(
        length,
        sparsity,
        rng.uniform(0.5, 2) if factor > 1 else rng.uniform(2, 6),  # weak: a small capacity
        prevalence=rng.uniform(0.05, 0.15) if rare else 0.5,
    )
    classifier = {
        "learned": st.Attention(),
        "frozen": st.Attention(cosine=rng.uniform(0.3, 1), sharpness=rng.uniform(0.3, 2.5)),
        "pooled": st.Pooled(),
        "vectorized": st.Vectorized(),
    }[kind]
    protocol = st.Protocol(
        query_samples=rng.uniform(0.5, 4), loss=loss, ridge=10 ** rng.uniform(-3.5, -1)
    )
    # samples: far below capacity, around it, far above, where a readout of that size is affordable
    threshold = float(st.capacity(task, classifier, protocol))
    most = 8.0 if loss in LOSSES[:2] or factor > 1 else 3.0  # kinks take longer below capacity
    samples = float(np.clip(factor * threshold, 0.1, 1.0 if kind == "vectorized" else most))
    return task, classifier, protocol.with_readout_samples(samples)


def distances(task, classifier, protocol, dim, repeats, seed=0):
    """theory, mean and standard error of each quantity."""
    run = st.simulate(task, classifier, protocol, dim, repeats, seed)
    prediction = st.predict(task, classifier, protocol)
    names = ("test_error", "train_error", "train_loss")
    theory = {name: getattr(prediction, name) for name in names}
    if prediction.query is not None:
        theory["cosine"] = prediction.query.cosine
    assert run.failed == 0, run.status
    return {name: (value, run.mean(name), run.sem(name)) for name, value in theory.items()}


@pytest.mark.slow
@pytest.mark.parametrize("index", range(40))
def test_random_settings(index):
    setting = random_setting(index)
    for name, (theory, mean, error) in distances(*setting, DIM, REPEATS).items():
        assert abs(theory - mean) <= 4 * error + 3 / DIM, (name, theory, mean, error, setting)


def test_the_settings_are_what_they_should_be():
    settings = [random_setting(index) for index in range(40)]
    assert {repr(protocol.loss) for _, _, protocol in settings} == {repr(loss) for loss in LOSSES}
    assert {type(classifier) for _, classifier, _ in settings} == {
        st.Attention, st.Pooled, st.Vectorized,
    }  # fmt: skip
    assert sum(task.prevalence < 0.2 for task, _, _ in settings) > 10
    samples = [protocol.readout_samples for _, _, protocol in settings]
    assert min(samples) < 0.5 and max(samples) == 8.0
    sides = [np.log(p.readout_samples / float(st.capacity(t, c, p))) for t, c, p in settings]
    assert min(sides) < -1 and max(sides) > 1 and sum(abs(np.array(sides)) < 0.3) >= 4


def check_slope(dims, gap, error):
    """log |mean − theory| falls with slope −1 in log d, by weighted least squares."""
    assert np.all(np.abs(gap) > 4 * error), "the differences are not resolved"
    assert len(set(np.sign(gap))) == 1
    weight = np.abs(gap) / error  # of the logarithms
    slope, _ = np.polyfit(np.log(dims), np.log(np.abs(gap)), 1, w=weight)
    assert slope == pytest.approx(-1, abs=0.2)


@pytest.mark.slow
def test_the_difference_in_test_error_shrinks_like_one_over_dim():
    task = st.Task(length=4, sparsity=1, strength=3.0)
    protocol = st.Protocol(readout_samples=1.5, loss=st.Square(), ridge=0.05)
    theory = st.predict(task, st.Pooled(), protocol).test_error
    dims = np.array([8, 16, 32, 64])
    runs = [st.simulate(task, st.Pooled(), protocol, int(dim), 6000, seed=11) for dim in dims]
    assert max(run.failed for run in runs) < 10  # 12 samples of one class
    gap = np.array([run.mean("test_error") - theory for run in runs])
    check_slope(dims, gap, np.array([run.sem("test_error") for run in runs]))


@pytest.mark.slow
def test_the_difference_in_cosine_shrinks_like_one_over_dim():
    task = st.Task(length=4, sparsity=1, strength=3.0)
    protocol = st.Protocol(query_samples=1.5)
    theory = st.align(task, protocol).cosine
    dims = np.array([20, 40, 80, 160])
    rng = np.random.default_rng(3)
    means, errors = [], []
    for dim in dims:
        n = round(1.5 * dim)
        draws = [draw_query(task, protocol, int(dim), n, rng).cosine for _ in range(20_000)]
        means.append(np.mean(draws))
        errors.append(np.std(draws) / np.sqrt(len(draws)))
    check_slope(dims, np.array(means) - theory, np.array(errors))

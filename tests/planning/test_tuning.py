"""The optimum is an optimum: of the steps, of all knobs of random tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.attention import white_pooling
from sparsetoken.planning.metrics import Error
from sparsetoken.planning.ridges import Setting
from sparsetoken.planning.whitening import tuners
from sparsetoken.theory.alignment import best_steps
from sparsetoken.theory.asymptotics import solve_many

LOSSES = [st.Logistic(), st.Square(), st.SquaredHinge(), st.Huber()]


@pytest.mark.parametrize("seed", range(12))
def test_no_steps_align_better(seed):
    rng = np.random.default_rng(seed)
    length = int(rng.integers(3, 60))
    prevalence = float(rng.choice([0.5, 0.3, 0.1, 0.02, 0.8, 0.95]))
    task = st.Task(length, int(rng.integers(1, max(2, length // 3))), rng.uniform(1, 6), prevalence)
    samples, loss = float(np.exp(rng.uniform(-1, 4))), LOSSES[seed % 4]
    steps = best_steps(task, loss, samples)
    biases = np.concatenate(
        [np.geomspace(1e-3, 1e3, 60), np.linspace(0.8, 1.3, 60), steps.bias * np.linspace(0.9, 1.1)]
    )
    others = [
        st.align(task, st.Protocol(samples, loss=loss, readout_step=readout, bias_step=bias)).cosine
        for readout in (0.003, 0.03, 0.3, 3.0)
        for bias in biases
    ]
    assert steps.cosine > max(others) - 5e-4


def random_question(seed):
    rng = np.random.default_rng(seed)
    length = int(rng.integers(4, 40))
    sparsity = int(rng.integers(1, max(2, length // 4)))
    prevalence = float(rng.choice([0.5, 0.5, 0.3, 0.1, 0.05]))
    task = st.Task(length, sparsity, float(rng.uniform(2, 6)), prevalence)
    n = int(np.exp(rng.uniform(np.log(100), np.log(10_000))))
    return task, n, LOSSES[seed % 3], str(rng.choice(["error", "error", "auc"]))


def rough_grid(task, n, dim, loss, bad):
    """Protocols over ridge, split, sharpness and steps, the best in the limit first."""
    found = []
    for share in (0.1, 0.3, 0.5, 0.75):
        per_dim = share * n / dim, (1 - share) * n / dim
        best = best_steps(task, loss, per_dim[0], dim)
        for readout, bias in ((best.readout, best.bias), (1.0, best.bias), (1.0, 1.0)):
            protocol = st.Protocol(
                *per_dim, loss, readout_step=readout, bias_step=bias, query_step=1.0
            )
            query = st.align(task, protocol)
            if query.cosine <= 0:
                continue
            for sharpness in (0.3, 0.6, 1.0, 1.7, 3.0, 6.0):
                cloud = white_pooling(task, query.cosine, sharpness).law(points=1 << 11)
                fits = st.solve_many(
                    cloud.smaller(3, 4), loss, np.geomspace(1e-4, 1e2, 7), per_dim[1]
                )
                for fit in fits:
                    step = sharpness / query.sharpness
                    choice = replace(protocol, ridge=fit.ridge, query_step=step)
                    found.append((bad(cloud.scores(fit.readout)), choice))
    return [choice for _, choice in sorted(found, key=lambda pair: pair[0])]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_a_dense_grid_finds_nothing_better(seed):
    """At this size, over ridge, split, sharpness and steps: by at most 1 % and what the numbers
    leave open."""
    task, n, loss, metric = random_question(seed)
    dim = 200
    advice = st.plan(task, dim=dim, samples=n, loss=loss, metric=metric, check=False)
    measure = advice.metric

    def not_better(option, protocol):
        here = st.predict(task, option.tuned.classifier, protocol, dim=dim)
        other = here.test_error if metric == "error" else here.auc
        open_ = 3 * np.hypot(other.standard_error, option.value.standard_error)
        assert measure.badness(option.value) < 1.01 * measure.badness(other) + open_, (
            option,
            protocol,
        )

    for choice in rough_grid(task, n, dim, loss, measure.badness_of)[:60:15]:
        not_better(advice["attention"], choice)
    for name in ("pooled", "vectorized"):
        for ridge in np.geomspace(1e-5, 1e3, 9):
            not_better(advice[name], replace(advice[name].protocol, ridge=ridge))


@pytest.mark.parametrize(
    "task", [st.Task(20, 2, 3.0, 0.2), st.Task(200, 3, 4.0, 0.3), st.Task(60, 1, 5.0)], ids=str
)
def test_the_limit_of_attention_is_near_its_oracle(task):
    """With infinitely many samples a readout is as good as the best one, up to 3 %."""
    tuner = tuners(Setting(100, st.Logistic(), Error()), task)["attention"]
    assert tuner.limit(task) == pytest.approx(st.oracle_error(task, st.Attention()), rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "sharpnesses", "tolerance"),
    [
        (st.Task(10, 1, 5.0), (2.0, 15.0), 3e-3),
        (st.Task(30, 3, 3.0), (0.6, 0.8), 5e-3),
        (st.Task(200, 2, 5.0), (1.0, 1.3), 1.5e-2),  # its standard error is 2 %
    ],
)
def test_the_limit_of_attention_is_the_best_of_a_dense_grid(task, sharpnesses, tolerance):
    loss = st.Logistic()
    tuner = tuners(Setting(100, loss, Error()), task)["attention"]
    errors = []
    for tau in np.geomspace(*sharpnesses, 12):
        law = st.Attention(cosine=1.0, sharpness=tau).law(task)
        fits = solve_many(law, loss, np.geomspace(1e-5, 0.1, 9), np.inf)
        errors += [law.scores(fit.readout).test_error for fit in fits]
    assert tuner.limit(task) == pytest.approx(min(errors), rel=tolerance)

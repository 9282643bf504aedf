"""The query after two steps: limits, signs, and the constant of the rate."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.queries import draw_query

LOSSES = [st.Square(), st.Logistic(), st.SquaredHinge(), st.Huber()]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("prevalence", [0.5, 0.1])
def test_rate_of_alignment(loss, prevalence):
    """α₀(1 − |cosine|) → C (Corollary 1)."""
    task = st.Task(8, 2, 3.0, prevalence)
    protocol = st.Protocol(loss=loss, bias_step=0.3)
    rate = st.alignment_rate(task, protocol)
    gaps = []
    for samples in (1e5, 1e6):
        query = st.align(task, replace(protocol, query_samples=samples))
        gaps.append(samples * (1 - abs(query.cosine)) / rate - 1)
    assert abs(gaps[1]) < 1e-3 and abs(gaps[1]) < abs(gaps[0])
    limit = st.align(task, replace(protocol, query_samples=math.inf))
    assert abs(limit.cosine) == pytest.approx(1, abs=1e-12)


def test_rare_classes_turn_the_query_away_unless_the_bias_step_balances_them():
    """Small bias steps leave E[h] ≠ 0, and B m outweighs A: the overlap is negative."""
    task = st.Task(16, 3, 1.5, prevalence=0.1)
    away = st.align(task, st.Protocol(query_samples=6.0, bias_step=0.5))
    balanced = st.align(task, st.Protocol(query_samples=6.0, bias_step=math.log(9) / 0.4))
    assert away.cosine < -0.2
    assert balanced.cosine > 0.0


def test_no_signal_no_direction():
    task = st.Task(6, 1, 0.0)
    query = st.align(task, st.Protocol())
    assert query.cosine == 0 and query.norm > 0
    assert st.alignment_rate(task, st.Protocol()) == math.inf
    nothing = st.align(task, st.Protocol(query_samples=math.inf))
    assert nothing.norm == 0 and nothing.cosine == 0 and nothing.sharpness == 0


def test_a_single_token_leaves_nothing_to_attend_to():
    query = st.align(st.Task(1, 1, 3.0), st.Protocol())
    assert query.norm == 0 and query.cosine == 0
    assert st.alignment_rate(st.Task(1, 1, 3.0), st.Protocol()) == math.inf


def test_every_token_carrying_the_signal_leaves_only_the_mean_direction():
    """R = L: ϱ = 0, so A = 0, and the overlap is −k B m."""
    task = st.Task(5, 5, 1.0, prevalence=0.3)
    query = st.align(task, st.Protocol(query_samples=4.0))
    assert -1 <= query.cosine <= 1 and query.norm > 0


def test_cosine_never_exceeds_one():
    rng = np.random.default_rng(0)
    for _ in range(300):
        length = int(rng.integers(1, 40))
        task = st.Task(
            length,
            int(rng.integers(1, length + 1)),
            float(10 ** rng.uniform(-2, 1.7)),
            float(rng.uniform(0.01, 0.99)),
        )
        protocol = st.Protocol(
            query_samples=float(10 ** rng.uniform(-2, 8)),
            loss=LOSSES[rng.integers(4)],
            readout_step=float(10 ** rng.uniform(-2, 3)),
            bias_step=float(10 ** rng.uniform(-2, 2)),
            query_step=float(10 ** rng.uniform(-2, 3)),
        )
        query = st.align(task, protocol)
        assert abs(query.cosine) <= 1 + 1e-12 and np.isfinite(query.norm)


def test_steps_scale_the_query():
    task = st.Task(6, 1, 3.0)
    one = st.align(task, st.Protocol(query_step=1.0))
    three = st.align(task, st.Protocol(query_step=3.0))
    hot = st.align(task, st.Protocol(query_step=1.0, inverse_temperature=2.0))
    assert three.norm == pytest.approx(3 * one.norm) and three.cosine == pytest.approx(one.cosine)
    assert hot.sharpness == pytest.approx(4 * one.sharpness)  # once in q, once in the softmax


@pytest.mark.parametrize("prevalence", [0.5 - 1e-10, 0.499, 0.5, 0.501, 0.3, 0.9])
def test_steps_that_are_best_at_a_size(prevalence):
    """By runs: better than those of the limit where n cannot tell the classes' shares, and never
    worse. A cosine over 60 queries is known to some thousandths."""
    task = st.Task(10, 1, 5.0, prevalence)
    dim, samples = 200, 1.75
    here = st.best_steps(task, st.Logistic(), samples, dim=dim)
    limit = st.best_steps(task, st.Logistic(), samples)

    def cosines(steps):
        protocol = st.Protocol(samples, readout_step=steps.readout, bias_step=steps.bias)
        rng = np.random.default_rng(1)
        drawn = [draw_query(task, protocol, dim, round(samples * dim), rng) for _ in range(60)]
        return np.array([query.cosine for query in drawn])

    mine, limits = cosines(here), cosines(limit)
    error = math.hypot(mine.std(), limits.std()) / math.sqrt(60)
    assert abs(mine.mean() - here.cosine) < 4 * mine.std() / math.sqrt(60) + 0.002
    assert mine.mean() > limits.mean() - 2 * error
    if 0.49 < prevalence < 0.5:
        assert here.bias < 10 < limit.bias
        assert mine.mean() > limits.mean() + 4 * error

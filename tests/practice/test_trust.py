"""When to trust a prediction: the rule of thumb is the tested one, its sentences name numbers."""

from __future__ import annotations

import math

import pytest

import sparsetoken as st
from sparsetoken.practice.trust import allowance, warnings
from sparsetoken.reproduction import departures

TASK = st.Task(10, 1, 5.0)


@pytest.mark.parametrize(("task", "protocol", "dim"), departures._tasks())
def test_the_rule_is_the_one_that_is_tested(task, protocol, dim):
    query, readout = (
        round(share * dim) for share in (protocol.query_samples, protocol.readout_samples)
    )
    for classifier, taught in ((st.Attention(), query), (st.Pooled(), 0)):
        mine = allowance(task, dim, taught, readout, protocol.ridge)
        assert math.isclose(mine, departures.allowance(task, protocol, dim, classifier))


def test_the_rule_is_not_idle():
    """A simulation where few samples matter is off by a good part of it, and not by more."""
    protocol = st.Protocol(query_samples=0.5, readout_samples=0.5, ridge=1e-2)
    run = st.simulate(TASK, st.Attention(), protocol, dim=40, repeats=60, seed=2)
    gap = run.mean("test_error") - st.predict(TASK, st.Attention(), protocol).test_error
    allowed = allowance(TASK, 40, 20, 20, 1e-2)
    assert 0.2 * allowed < gap < allowed


def test_nothing_to_say_in_the_tested_range():
    assert warnings(TASK, 20, 40, 80) == []
    assert warnings(TASK, 200, 0, 40) == []  # no query
    assert warnings(st.Task(360, 6, 5.0), 30, 60, 120, ridge=1e-3) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((TASK, 12, 400, 400), ["dim=12 is small (below 20)"]),
        ((TASK, 30, 20, 400), ["about 10 of the 20 samples for the query will be positive", "0.1"]),
        ((TASK, 30, 400, 20), ["about 10 of the 20 samples for the readout", "(below 20)"]),
        (
            (st.Task(10, 1, 5.0, prevalence=0.98), 50, 300, 200),
            ["about 4 of the 200 samples for the readout will be negative", "about 0.25"],
        ),
        ((st.Task(1000, 9, 5.0), 50, 400, 400), ["length=1000 is more than 12 times dim=50"]),
        ((TASK, 50, 0, 400, 0.5), ["ridge=0.5 times length=10 is above 1", "about 0.1"]),
    ],
)
def test_sentences_name_value_limit_and_consequence(arguments, words):
    (found,) = warnings(*arguments)
    assert all(word in found for word in words), found


def test_no_samples_no_trust():
    assert allowance(TASK, 20, 0, 0) == math.inf

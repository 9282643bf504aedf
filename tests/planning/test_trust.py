"""What may disappoint about a prediction, in sentences: computed numbers, and ranges tested."""

from __future__ import annotations

import re

import pytest

import sparsetoken as st
from sparsetoken.planning.advice import range_warnings, scatter_warnings

TASK = st.Task(10, 1, 5.0)


def test_nothing_to_say_in_the_tested_range():
    assert list(range_warnings(TASK, 20, 40, 80)) == []
    assert list(range_warnings(TASK, 200, 0, 40)) == []  # no query
    assert list(range_warnings(st.Task(360, 6, 5.0), 30, 60, 120)) == []
    assert list(scatter_warnings("test error", 0.1, 0.01, 0.0)) == []
    assert list(scatter_warnings("AUC", 0.9, 0.01, None)) == []
    assert list(scatter_warnings("cost per sample", 3.0, 0.1, None)) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((TASK, 12, 400, 400), ["dim=12 is small (below 20)"]),
        ((TASK, 30, 8, 400), ["about 4 of the 8 samples for the query will be positive"]),
        ((TASK, 30, 400, 8), ["about 4 of the 8 samples for the readout", "(below 5)"]),
        (
            (st.Task(10, 1, 5.0, prevalence=0.98), 50, 300, 200),
            ["about 4 of the 200 samples for the readout will be negative"],
        ),
        ((st.Task(1000, 9, 5.0), 50, 400, 400), ["length=1000 is more than 12 times dim=50"]),
    ],
)
def test_sentences_name_value_limit_and_consequence(arguments, words):
    (found,) = range_warnings(*arguments)
    assert all(word in found for word in words), found


def test_scatter_is_that_of_the_prediction():
    """Where training sets differ much the sentence has the numbers of `predict`."""
    protocol = st.Protocol(query_samples=0.5, readout_samples=0.5, ridge=1e-2)
    here = st.predict(TASK, st.Attention(), protocol, dim=40)
    found = list(scatter_warnings("test error", here.test_error, here.spread, here.useless))
    assert f"test error {here.test_error:.3g} is a mean" in found[0]
    assert f"deviation of {here.spread:.2g}" in found[0]
    run = st.simulate(TASK, st.Attention(), protocol, dim=40, repeats=60, seed=2)
    assert abs(run.mean("test_error") - here.test_error) < 4 * run.sem("test_error")
    assert len(found) == 2 and f"{here.useless:.0%} of training sets" in found[1]
    for text in found:  # a probability is one
        assert all(0 <= float(x) <= 1 for x in re.findall(r"\d+\.\d+", text))

"""Standard errors of sampled metrics: never below what other draws show, exact ones are 0."""

from __future__ import annotations

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.attention import white_pooling
from sparsetoken.model.law import Readout
from sparsetoken.model.scores import Scores
from sparsetoken.support.estimate import Estimate

METRICS = {
    "test_error": lambda scores: scores.test_error,
    "false_positive_rate": lambda scores: scores.false_positive_rate,
    "auc": lambda scores: scores.auc,
    "average_precision": lambda scores: scores.average_precision,
    "sensitivity": lambda scores: scores.sensitivity(0.9),
}


@pytest.mark.parametrize(
    ("task", "cosine"),
    [(st.Task(8, 1, 4.0, 0.3), 0.8), (st.Task(30, 2, 5.0), 0.6)],
    ids=["8", "30"],
)
def test_standard_errors_cover_the_scatter_between_clouds(task, cosine):
    """Over 8 clouds: a scatter above twice what is claimed would be seen; quasi-random draws
    scatter less than their parts suggest, up to ten times."""
    readout = Readout(np.array([1.0, 0.3]), -1.0, 1.0)
    laws = [white_pooling(task, cosine, 1.5).law(seed, points=1 << 12) for seed in range(8)]
    for name, metric in METRICS.items():
        found = [metric(law.scores(readout)) for law in laws]
        assert all(isinstance(value, Estimate) for value in found)
        claimed = np.mean([value.standard_error for value in found])
        scatter = np.std(found, ddof=1)
        assert scatter < 1.5 * claimed, name
        assert claimed < 15 * scatter and claimed < 0.02, name


def test_exact_scores_have_no_error():
    law = st.Pooled().law(st.Task(8, 2, 4.0))
    scores = law.scores(Readout(np.array([1.0]), -0.5, 1.0))
    assert all(metric(scores).standard_error == 0 for metric in METRICS.values())
    assert Scores.always(1.0, 0.3).test_error == pytest.approx(0.7)


def test_vectorized_beyond_the_countable_is_sampled_and_says_so():
    """C(20, 8) = 125,970 sets of signal tokens: drawn, with a seed that can be chosen."""
    few, many = st.Task(6, 2, 2.0), st.Task(20, 8, 1.0)
    for task, exact in ((few, True), (many, False)):
        weights = np.linspace(0.0, 0.2, task.length)
        readout = Readout(weights, -0.5, 1.0)
        one = st.Vectorized().scores(task, readout)
        assert (one.test_error.standard_error == 0) == exact
        if not exact:
            others = [
                st.Vectorized().scores(task, readout, seed=seed).test_error for seed in range(1, 7)
            ]
            scatter = np.std(others, ddof=1)
            assert 0 < scatter < 3 * one.test_error.standard_error

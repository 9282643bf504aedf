"""Classifiers of bags reuse their samples: theory that counts them twice is near what they do."""

from __future__ import annotations

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.losses import Logistic
from sparsetoken.planning.reuse import reusing_tuners
from sparsetoken.planning.ridges import Setting
from sparsetoken.planning.whitening import tuners

CASES = [  # task, dimension, samples
    (st.Task(10, 1, 5.0), 40, 100),
    (st.Task(30, 1, 5.0), 40, 200),
    (st.Task(10, 2, 3.0, prevalence=0.3), 30, 200),
]


def setting(dim):
    return Setting(dim, Logistic(), st.METRICS.make("error"))


@pytest.mark.parametrize(("task", "dim", "samples"), CASES)
def test_counted_twice_samples_give_what_reused_ones_do(task, dim, samples):
    """Two standard errors of the mean of twelve training sets, and 15 %."""
    errors = []
    for seed in range(12):
        bags = task.sample(samples, dim, rng=seed)
        new = task.sample(2000, dim, rng=1000 + seed, signal=bags.signal)
        classifier = st.AttentionClassifier().fit(bags.tokens, bags.labels)
        errors.append(1 - classifier.score(new.tokens, new.labels))
    truth, error = np.mean(errors), np.std(errors) / np.sqrt(len(errors))
    reused = float(reusing_tuners(setting(dim), task)["attention"].best(task, samples).value)
    split = float(tuners(setting(dim), task)["attention"].best(task, samples).value)
    assert abs(reused - truth) < 2 * error + 0.15 * truth
    assert split - truth > 2 * abs(reused - truth)


def test_all_samples_teach_both_and_the_search_ends_where_nothing_near_is_better():
    task, samples = st.Task(10, 1, 4.0), 100
    tuner = reusing_tuners(setting(20), task)["attention"]
    knobs = tuner.search(task, samples)
    tuned = tuner.predict(task, samples, knobs)
    assert tuned.query_count == tuned.readout_count == samples
    least = tuner.draft(task, samples, knobs).badness
    for factor in np.geomspace(0.25, 4.0, 9):
        other = tuner.draft(task, samples, knobs._replace(sharpness=factor * knobs.sharpness))
        assert other.badness > 0.985 * least


def test_classifiers_without_a_query_are_as_they_were():
    task = st.Task(10, 1, 4.0)
    plain, reused = (make(setting(20), task)["pooled"] for make in (tuners, reusing_tuners))
    assert float(plain.best(task, 100).value) == float(reused.best(task, 100).value)

"""Strengths and sparsities that vary, tokens that share noise: what a task draws."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.stats

import sparsetoken as st
from sparsetoken.model.signals import law_in_words, shown, varying
from sparsetoken.oracles.posterior import log_likelihood_ratio
from sparsetoken.support.errors import InvalidInput


def test_atoms_average_what_scipy_does():
    for law in (scipy.stats.gamma(4, scale=0.7), scipy.stats.uniform(1, 3),
                scipy.stats.beta(2, 3, loc=1, scale=4), scipy.stats.lognorm(0.4)):  # fmt: skip
        values, weights = varying("Task", "strength", law).atoms()
        for power in (1, 2, 3):
            assert weights @ values**power == pytest.approx(law.moment(power), rel=1e-9)
    values, weights = varying("Task", "sparsity", scipy.stats.binom(5, 0.3)).atoms()
    assert weights @ values == pytest.approx(1.5) and len(values) == 6


@pytest.mark.parametrize("weights", [np.array([1.0, 3.0]), [1, 3], (1.0, 3.0)])
def test_a_discrete_law_is_given_as_arrays_or_lists(weights):
    assert st.Discrete(np.array([3.0, 5.0]), weights).mean() == 4.5
    assert st.Discrete([3.0, 5.0], None) == st.Discrete([3.0, 5.0]) == st.Discrete([5, 3], ())


def test_draws_have_the_law():
    rng = np.random.default_rng(0)
    gamma = scipy.stats.gamma(4, scale=0.7)
    drawn = varying("Task", "strength", gamma).at(rng.standard_normal(4000))
    assert scipy.stats.kstest(drawn, gamma.cdf).pvalue > 1e-3
    few = st.Discrete([5, 1, 2], [1, 2, 1])
    assert few.values == (1.0, 2.0, 5.0) and few.weights == (0.5, 0.25, 0.25)
    counts = np.bincount(few.at(rng.standard_normal(8000)).astype(int), minlength=6)[[1, 2, 5]]
    assert scipy.stats.chisquare(counts, 8000 * np.array(few.weights)).pvalue > 1e-3


def test_a_task_draws_what_it_says():
    task = st.Task(8, st.Discrete([1, 3], [0.7, 0.3]), st.Discrete([2.0, 6.0]), 0.5,
                   token_correlation=0.4)  # fmt: skip
    signal = np.eye(5)[0]
    sample = task.sample(6000, 5, rng=1, signal=signal)
    positive = sample.labels > 0
    ones = sample.places.sum(axis=1)
    assert set(ones[positive]) == {1, 3} and not ones[~positive].any()
    assert np.mean(ones[positive] == 3) == pytest.approx(0.3, abs=0.04)
    assert sample.places[positive].mean(axis=0) == pytest.approx(1.6 / 8, abs=0.04)
    noise = sample.tokens[:, :, 1]  # the signal is not there
    covariance = np.cov(noise.T)
    np.testing.assert_allclose(covariance, 0.4 + 0.6 * np.eye(8), atol=0.08)
    means = sample.tokens[positive].mean(axis=1) @ signal
    assert means.mean() == pytest.approx(task.dose, abs=4 * means.std() / np.sqrt(len(means)))
    assert task.dose == pytest.approx(4 * 1.6 / 8) and task.mean_variance == 0.4 + 0.6 / 8
    negatives = sample.tokens[~positive].mean(axis=1)
    assert negatives.var() == pytest.approx(task.mean_variance, rel=0.05)


def test_tasks_are_values():
    """Equal, hashable, picklable: kept laws, stores and processes rely on it."""
    one = st.Task(8, st.Discrete([1, 2]), scipy.stats.gamma(4))
    other = st.Task(8, st.Discrete([1, 2]), scipy.stats.gamma(4, scale=1.0))
    assert one == other and hash(one) == hash(other) and pickle.loads(pickle.dumps(one)) == one
    assert one != st.Task(8, st.Discrete([1, 2]), scipy.stats.gamma(5))
    assert one.varies and not one.is_plain and st.Task(3, 1, 1.0).is_plain
    assert not st.Task(3, 1, 1.0, token_correlation=0.1).is_plain


def test_a_plain_task_draws_as_before():
    task = st.Task(5, 2, 3.0)
    point = st.Task(5, st.Discrete([2]), st.Discrete([3.0]))
    assert task.sample_signals(10, 0) == (3.0, 2) and task.normals == 5 and point.normals == 7
    assert task.dose == pytest.approx(point.dose, rel=1e-12)
    found = st.align(point, st.Protocol())
    assert st.align(task, st.Protocol()) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize("arguments, message", [
    (dict(sparsity=0), "sparsity must be a whole number between 1 and 8"),
    (dict(sparsity=st.Discrete([1, 9])), "sparsity must be a whole number between 0 and 8"),
    (dict(sparsity=st.Discrete([1.5])), "sparsity must be a whole number between 0 and 8"),
    (dict(sparsity=st.Discrete([-1, 2])), "sparsity must be a whole number between 0 and 8"),
    (dict(sparsity=st.Discrete([0])), "sparsity must be above 0 in some of the samples"),
    (dict(sparsity=scipy.stats.gamma(4)), "sparsity must vary over whole numbers"),
    (dict(strength=st.Discrete([-1, 2])), "strength must be a number at least 0"),
    (dict(strength=scipy.stats.norm(3)), r"strength \(the least\) must be a number at least 0"),
    (dict(token_correlation=1.0), "token_correlation must be a number at least 0 and below 1"),
    (dict(token_correlation=-0.1), "token_correlation must be a number at least 0 and below 1"),
    (dict(token_correlation="much"), "token_correlation must be a number"),
    (dict(strength=st.Discrete([1, 2]), places=(1,) * 8), "places must be None where strength"),
    (dict(strength=scipy.stats.gamma), "strength must be a number"),
])  # fmt: skip
def test_wrong_tasks_are_named(arguments, message):
    with pytest.raises(InvalidInput, match=f"Task: {message}"):
        st.Task(**({"length": 8, "sparsity": 1, "strength": 2.0} | arguments))


def test_wrong_laws_are_named():
    for given, message in (
        (dict(values=()), "values must be 1 to 10000 numbers, got 0"),
        (dict(values=(1, 1)), "values must differ"),
        (dict(values=(1, 2), weights=(1,)), r"weights must be 2 numbers \(one a value\), got 1"),
        (dict(values=(1, 2), weights=(1, 0)), r"weights\[1\] must be a number above 0"),
        (dict(values=("a",)), "values must be"),
        (dict(values={3: 0.5}), "values must be a list of numbers"),
        (dict(values=(1, 2), weights=0.5), "weights must be numbers"),
        (dict(values=(1, 2), weights=(1e-300, 1e100)), "weights must be within a factor 1e300"),
        (dict(values=3), "values must be numbers"),
    ):
        with pytest.raises(InvalidInput, match=message):
            st.Discrete(**given)
    for family, parameters, message in (
        ("no_such", (1.0,), "family must be the name of a continuous law"),
        (3, (1.0,), "family must be the name of a continuous law"),
        ("binom", (5.0, 0.5), "family must be the name of a continuous law"),
        ("gamma", (4.0,), r"parameters of gamma must be 3 numbers \(a, loc, scale\)"),
        ("gamma", (-4.0, 0.0, 1.0), "parameters must be allowed by scipy.stats.gamma"),
    ):
        with pytest.raises(InvalidInput, match=message):
            st.Continuous(family, parameters)


def test_laws_that_cannot_be_kept_are_refused():
    """Not cut off, not replaced by others of the same name."""

    class Own(scipy.stats.rv_continuous):
        def _pdf(self, x):
            return 2 * x

    for law in (scipy.stats.zipf(1.5), scipy.stats.poisson(9990), scipy.stats.poisson(3, loc=0.5),
                scipy.stats.rv_discrete(values=([1, 2.5], [0.5, 0.5]))(),
                Own(a=0, b=1, name="uniform")()):  # fmt: skip
        with pytest.raises(InvalidInput, match="Task: strength must be"):
            st.Task(8, 1, law)
    assert st.Discrete([1, 2], None) == st.Discrete([1, 2])


def test_laws_in_words():
    assert law_in_words("3:1,5:3") == st.Discrete([3, 5], [0.25, 0.75])
    assert law_in_words("3,5") == st.Discrete([3, 5])
    with pytest.raises(InvalidInput, match=r"values with weights such as 3:0.25,5:0.75.*got 'x:1'"):
        law_in_words("x:1")
    assert shown(3.0) == "3" and shown(st.Discrete([1, 2])) == "varying over 1, 2"
    assert shown(st.Continuous("gamma", (4.0, 0.0, 1.0))) == "varying (gamma, mean 4)"


def test_vectorized_refuses_shared_noise():
    task = st.Task(4, 1, 2.0, token_correlation=0.2)
    for ask in (lambda: st.Vectorized().law(task), lambda: st.capacity(task, st.Vectorized()),
                lambda: st.simulate(task, st.Vectorized(), st.Protocol(), 20, 1)):  # fmt: skip
        with pytest.raises(
            InvalidInput, match=r"Vectorized: token_correlation must be 0 .*got 0.2"
        ):
            ask()


@pytest.mark.slow
def test_oracles_know_samples_without_a_signal_token():
    none = st.Task(8, st.Discrete([0, 2], [0.3, 0.7]), 4.0, 0.4)
    weak = st.Task(8, 2, st.Discrete([0.0, 4.0], [0.3, 0.7]), 0.4)
    frozen = st.Attention(0.9, 1.0)
    errors = [st.predict(task, frozen, st.Protocol()).test_error for task in (none, weak)]
    assert errors[0] == pytest.approx(errors[1], abs=1e-3)  # their clouds differ
    assert st.bayes_error(none) == pytest.approx(st.bayes_error(weak), abs=2e-3)
    for classifier in (st.Pooled(), st.Attention()):
        floor = st.oracle_error(weak, classifier)
        assert st.oracle_error(none, classifier) == pytest.approx(floor, abs=2e-3)
    assert st.capacity(none, frozen) == pytest.approx(st.capacity(weak, frozen), rel=0.02)


def test_samples_without_a_signal_token_are_those_of_strength_zero():
    """R = 0 and θ = 0 are the same sample: laws, queries, errors and draws agree."""
    none = st.Task(8, st.Discrete([0, 2], [0.3, 0.7]), 4.0, 0.4)
    weak = st.Task(8, 2, st.Discrete([0.0, 4.0], [0.3, 0.7]), 0.4)
    assert none.dose == pytest.approx(weak.dose, rel=1e-12)
    protocol = st.Protocol()
    assert st.align(none, protocol) == pytest.approx(st.align(weak, protocol), rel=1e-9)
    for classifier in (st.Pooled(), st.Vectorized()):
        errors = [st.predict(task, classifier, protocol).test_error for task in (none, weak)]
        assert errors[0] == pytest.approx(errors[1], rel=1e-6)
    scores = np.random.default_rng(0).standard_normal((50, 8))
    np.testing.assert_allclose(
        log_likelihood_ratio(none, scores), log_likelihood_ratio(weak, scores), atol=1e-9
    )
    sample = none.sample(4000, dim=3, rng=0)
    ones = sample.places.sum(axis=1)[sample.labels > 0]
    assert set(ones) == {0, 2} and np.mean(ones == 0) == pytest.approx(0.3, abs=0.05)

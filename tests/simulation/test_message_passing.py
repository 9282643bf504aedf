"""Message passing beside the scalar iteration of the theory, with which it shares no code."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import ks_2samp

import sparsetoken as st
from sparsetoken.model.places import carrier_chances
from sparsetoken.simulation.devices import Device
from sparsetoken.simulation.message_passing import Belief
from sparsetoken.simulation.spiked import Spiked

HARD = st.Task(length=100, sparsity=1, strength=4.0, prevalence=0.3)


@lru_cache
def random_setting(index):
    """Task, samples per dimension and dimension number `index`, off the hard phase."""
    rng = np.random.default_rng([21, index])
    while True:
        length = int(rng.integers(2, 41))
        sparsity = int(rng.integers(1, min(4, length) + 1))
        task = st.Task(length, sparsity, rng.uniform(1.5, 5.5), rng.uniform(0.15, 0.7))
        samples = float(np.exp(rng.uniform(math.log(0.3), math.log(4))))
        learned = st.bayes_curve(task, [samples])[0]
        phase = st.hard_phase(task)
        far = phase is None or samples < 0.7 * phase.begin or samples > 1.5 * phase.end
        if far and learned.test_error > 0.003:  # what 10⁴ samples resolve
            return task, samples, int(rng.integers(500, 2001))


@lru_cache
def rounds_of(task, samples, rounds):
    return st.message_passing_rounds(task, samples, rounds)


def compare(task, samples, dim, repeats, rounds, sampler="reduced"):
    """Cosines of the rounds and the test error of the last, beside the theory."""
    learner = st.MessagePassing(rounds)
    protocol = st.Protocol(readout_samples=samples)
    run = st.simulate(task, learner, protocol, dim, repeats, 3, sampler)
    theory = rounds_of(task, samples, rounds)
    for i in sorted({0, min(1, rounds - 1), min(2, rounds - 1), rounds - 1}):
        own = run.cosines[:, i]
        gap = abs(own.mean() - theory[i].cosine)
        assert gap <= 4 * own.std(ddof=1) / math.sqrt(repeats) + 3 / dim, (i, own, theory[i])
    error = theory[-1].test_error
    doubt = math.hypot(run.sem("test_error"), error.standard_error)
    assert abs(run.mean("test_error") - error) <= 4 * doubt + 3 / dim


@pytest.mark.parametrize("index", [1, 2])
@pytest.mark.parametrize("rounds", [3])
def test_round_by_round(index, rounds):
    compare(*random_setting(index), repeats=12, rounds=rounds)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(20))
@pytest.mark.parametrize("rounds", [1, 2, 3, 10])
def test_round_by_round_of_many_tasks(index, rounds):
    compare(*random_setting(index), repeats=12, rounds=rounds)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(3))
def test_round_by_round_on_tokens(index):
    task, samples, _ = random_setting(index)
    compare(replace(task, length=min(task.length, 15)), samples, 500, 6, 4, "tokens")


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(
            st.Task(12, st.Discrete([1, 3]), st.Discrete([2.0, 4.0])), marks=pytest.mark.slow
        ),
        pytest.param(st.Task(8, st.Discrete([0, 2], [0.3, 0.7]), 3.0, 0.4), marks=pytest.mark.slow),
        st.Task(6, 2, 2.0, places=(1, 2, 3, 0, 2, 4)),
        st.Task(5, 5, 1.0, 0.3),
        st.Task(1, 1, 2.0, 0.6),
    ],
)
def test_every_task_that_it_can_learn(task):
    compare(task, 0.8, 800, repeats=8, rounds=3)


@pytest.mark.slow
def test_the_settings_are_what_they_should_be():
    settings = [random_setting(index) for index in range(20)]
    assert {task.sparsity for task, _, _ in settings} == {1, 2, 3, 4}
    assert all(500 <= dim <= 2000 for _, _, dim in settings)


@pytest.mark.slow
@pytest.mark.parametrize("samples", [0.42, 0.47])
def test_hard_where_the_theory_says_so(samples):
    """From the class mean it stays on the lower branch, from the truth on the upper one: after
    twelve rounds where the iteration is by then."""
    assert st.bayes_curve(HARD, [samples])[0].hard
    protocol = st.Protocol(readout_samples=samples)
    dim, repeats, cosines = 4000, 8, []
    for start in (0.0, 1.0):
        learner = st.MessagePassing(rounds=12, start=start)
        own = st.simulate(HARD, learner, protocol, dim, repeats, 0).cosine
        theory = st.message_passing_rounds(HARD, samples, 12, start=start)[-1].cosine
        gap = abs(own.mean() - theory)
        assert gap <= 4 * own.std(ddof=1) / math.sqrt(repeats) + 3 / dim, (start, own, theory)
        cosines.append(own)
    low, high = cosines
    assert low.max() + 0.2 < high.min()


def test_both_samplers_have_one_law():
    task, protocol = st.Task(6, 2, 2.5, 0.4), st.Protocol(readout_samples=1.2)
    runs = [
        st.simulate(
            task, st.MessagePassing(3, 0.2), protocol, 40, 100, 0, sampler, test_samples=1000
        )
        for sampler in ("reduced", "tokens")
    ]
    for numbers in ("test_error", "norm"):
        assert ks_2samp(*(getattr(run, numbers) for run in runs)).pvalue > 1e-3
    for i in range(3):
        assert ks_2samp(*(run.cosines[:, i] for run in runs)).pvalue > 1e-3


def test_it_reaches_the_floor_where_attention_does_not():
    task, protocol = st.Task(10, 1, 5.0), st.Protocol(query_samples=0.5, readout_samples=0.5)
    run = st.simulate(task, st.MessagePassing(), st.Protocol(readout_samples=1.0), 1000, 8)
    floor = st.bayes_curve(task, [1.0]).test_error[0]
    assert abs(run.mean("test_error") - floor) < 4 * run.sem("test_error") + 3 / 1000
    assert st.predict(task, st.Attention(), protocol).test_error > 3 * floor


# --------------------------------------------------------------------------- its parts


def test_products_are_those_of_one_matrix():
    """b·(Xa) = (Xᵀb)·a for all vectors, whatever was asked between; and linear in them."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal(7)
    matrix = Spiked(left, np.eye(5)[0], Device().source(np.random.SeedSequence(1)))
    rows, columns = rng.standard_normal((4, 7)), rng.standard_normal((4, 5))
    columns[3] = columns[0] - 2 * columns[1]  # nothing new
    images, back = [], []
    for row, column in zip(rows, columns, strict=True):
        images.append(matrix.times(column))
        back.append(matrix.transposed_times(row))
    np.testing.assert_allclose(rows @ np.array(images).T, (columns @ np.array(back).T).T)
    np.testing.assert_allclose(images[3], images[0] - 2 * images[1])
    np.testing.assert_allclose(matrix.times(columns[2]), images[2])
    full = np.array([matrix.times(unit) for unit in np.eye(5)]).T  # more than it has been asked
    np.testing.assert_allclose(full @ columns.T, np.array(images).T)
    np.testing.assert_allclose(rows @ full, back)


def test_products_have_the_law_of_a_gaussian_matrix():
    """Every entry of Z, recovered from products with dependent vectors, is N(0, 1) by itself."""
    entries = []
    for seed in range(800):
        matrix = Spiked(np.zeros(4), np.eye(3)[0], Device().source(np.random.SeedSequence(seed)))
        first = matrix.times(np.array([1.0, 2.0, 0.0]))
        second = matrix.transposed_times(np.tanh(first))  # depends on Z, as in an algorithm
        matrix.times(second)
        entries.append(np.array([matrix.times(unit) for unit in np.eye(3)]).ravel())
    covariance = np.cov(np.array(entries).T)
    np.testing.assert_allclose(covariance, np.eye(12), atol=5 / math.sqrt(800))
    assert abs(np.mean(entries, axis=0)).max() < 4.5 / math.sqrt(800)


@pytest.mark.parametrize(
    "task",
    [
        st.Task(6, 3, 2.0),
        st.Task(5, st.Discrete([0, 2, 5]), st.Discrete([1.0, 3.0], [0.7, 0.3])),
        st.Task(6, 2, 2.0, places=(1, 2, 3, 0, 2, 4)),
    ],
)
def test_beliefs_are_sums_over_all_sets(task):
    scores, size = np.random.default_rng(2).standard_normal((4, task.length)) * 2, 0.6
    signals, priors = [], []
    for theta, ones, weight in zip(*task.signals, strict=True):
        subsets = list(itertools.combinations(range(task.length), int(ones)))
        shares = np.ones(len(subsets))
        if task.places is not None:
            shares = np.array([np.prod([task.places[i] for i in s]) for s in subsets])
        for subset, share in zip(subsets, shares / shares.sum(), strict=True):
            signals.append(theta * np.isin(np.arange(task.length), subset))
            priors.append(weight * share)
    signals = np.array(signals)
    logs = scores @ signals.T - size * (signals**2).sum(axis=1) / 2
    with np.errstate(divide="ignore"):
        logs = logs + np.log(priors)
    posterior = np.exp(logs - logsumexp(logs, axis=1)[:, None])
    belief = Belief(task)
    mean, variance = belief.means(scores, size)
    np.testing.assert_allclose(mean, posterior @ signals, atol=1e-12)
    np.testing.assert_allclose(variance, posterior @ signals**2 - mean**2, atol=1e-12)
    np.testing.assert_allclose(belief.log_ratio(scores, size), logsumexp(logs, axis=1))


def test_chances_of_extreme_weights():
    logs = np.array([[-np.inf, 800.0, -800.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    total, chances = carrier_chances(logs, 2)
    np.testing.assert_allclose(chances, [[0, 1, 0, 1], [0.5] * 4], atol=1e-12)
    np.testing.assert_allclose(total, [800.0, math.log(6)])
    _, many = carrier_chances(np.random.default_rng(0).standard_normal((2, 3000)) * 4, 40)
    np.testing.assert_allclose(many.sum(axis=1), 40, rtol=1e-9)


# --------------------------------------------------------------------------- as a result


def test_numbers_do_not_depend_on_workers_or_rounds():
    task, protocol = st.Task(5, 1, 4.0), st.Protocol(readout_samples=1.0)
    one = st.simulate(task, st.MessagePassing(4), protocol, 60, 3, 5)
    two = st.simulate(task, st.MessagePassing(4), protocol, 60, 3, 5, workers=2)
    np.testing.assert_array_equal(one.cosines, two.cosines)
    np.testing.assert_array_equal(one.test_error, two.test_error)
    short = st.simulate(task, st.MessagePassing(2), protocol, 60, 3, 5)
    np.testing.assert_array_equal(short.cosines, one.cosines[:, :2])
    assert one.failed == 0 and np.isnan(one.train_error).all() and np.isnan(one.auc).all()
    assert set(one.summary().index) == {"test_error", "cosine", "norm"}
    with pytest.raises(st.InvalidInput, match="repeat 0 has no readout"):
        one.scores(0)


def test_without_a_positive_sample_nothing_is_learned():
    rare = st.Task(4, 1, 3.0, 1e-6)
    for sampler in ("reduced", "tokens"):
        run = st.simulate(rare, st.MessagePassing(3), st.Protocol(), 20, 2, 0, sampler)
        assert (run.cosine == 0).all() and (run.test_error < 1e-3).all()


def test_bad_input_is_one_sentence():
    task, protocol = st.Task(5, 1, 4.0), st.Protocol()
    learner = st.MessagePassing()
    for bad, words in (
        (lambda: st.MessagePassing(0), "rounds must be"),
        (lambda: st.MessagePassing(2.5), "rounds must be"),
        (lambda: st.MessagePassing(start=1.2), "start must be"),
        (lambda: st.MessagePassing(start="truth"), "start must be"),
        (lambda: st.simulate(replace(task, token_correlation=0.2), learner, protocol, 20), "corr"),
        (lambda: st.simulate(task, learner, protocol, 20, reuse_data=True), "reuse_data must be"),
        (lambda: st.simulate(task, learner, protocol, 20, training="joint"), "training must be"),
        (lambda: st.simulate(task, learner, task, 20), "protocol must be"),
        (lambda: st.simulate(task, st.MessagePassing, protocol, 20), "classifier must be"),
        (lambda: st.simulate(task, learner, protocol, 10**12), "dim must be small enough"),
        (lambda: st.predict(task, learner, protocol), "classifier must be"),
        (lambda: st.message_passing_rounds(task, 0.0), "samples must be"),
        (lambda: st.message_passing_rounds(task, 1.0, rounds=0), "rounds must be"),
        (lambda: st.message_passing_rounds(task, 1.0, start=-1), "start must be"),
    ):
        with pytest.raises(st.InvalidInput, match=words):
            bad()


COLOURED = st.Task(
    6, 1, 3.5, 0.4, noise=st.Spectrum((0.25, 1.0, 4.0), (0.4, 0.3, 0.3), (0.2, 0.1, 0.7))
)


@pytest.mark.parametrize("sampler, dim, repeats", [
    ("reduced", 1000, 4),
    pytest.param("reduced", 4000, 10, marks=pytest.mark.slow),
    pytest.param("tokens", 600, 16, marks=pytest.mark.slow),
])  # fmt: skip
def test_coloured_noise_round_by_round(sampler, dim, repeats):
    """With known spectrum and shares the equation is another (section 12), and messages follow."""
    protocol = st.Protocol(readout_samples=1.5)
    theory = st.message_passing_rounds(COLOURED, 1.5, rounds=4)
    run = st.simulate(
        COLOURED, st.MessagePassing(4), protocol, dim, repeats, 0, sampler, test_samples=4000
    )
    error = run.cosines.std(axis=0, ddof=1) / np.sqrt(repeats)
    gap = run.cosines.mean(axis=0) - [one.cosine for one in theory]
    assert np.all(np.abs(gap) < 4 * error + 5 / dim)
    allowed = 4 * max(run.sem("test_error"), 0.005 / np.sqrt(repeats))
    assert abs(run.mean("test_error") - theory[-1].test_error) < allowed
    # what white noise of the same strength, whitened, would give is another number
    white = st.message_passing_rounds(st.Task(6, 1, 3.5, 0.4), 1.5, rounds=4)
    assert abs(white[-1].cosine - theory[-1].cosine) > 0.02


@pytest.mark.parametrize("task, match", [
    (st.Task(3, 1, 2.0, signal_spread=2.0), "signal_spread must be that of the noise"),
    (st.Task(3, 1, 2.0, noise=st.Covariances(np.diag([1.0, 2.0]), None, [1.0, 0.0])),
     "noise must be White"),
])  # fmt: skip
def test_messages_need_points_and_shares(task, match):
    with pytest.raises(st.InvalidInput, match=match):
        st.simulate(task, st.MessagePassing(), st.Protocol(), dim=2, repeats=1)

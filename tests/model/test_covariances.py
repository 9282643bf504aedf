"""Covariances of tokens as data: what is allowed, what a task with them is, and who refuses it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.studies.questions import units_of

SPECTRUM = st.Spectrum((0.2, 1.0, 4.0), (0.5, 0.35, 0.15), (0.1, 0.2, 0.7))
EYE = np.eye(3)
DEFICIENT = np.cov(np.random.default_rng(0).standard_normal((3, 3)))  # of three tokens
KEY = "6122287941cff3cb"  # of a cell, as it was before there were covariances


def random_covariance(dim: int, seed: int) -> np.ndarray:
    factor = np.random.default_rng(seed).standard_normal((dim, 2 * dim))
    return factor @ factor.T / (2 * dim)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: st.Spectrum(()), "eigenvalues must be 1 to 10000 numbers, got 0"),
        (lambda: st.Spectrum((1.0, 0.0)), r"eigenvalues\[1\] must be a number above 0"),
        (lambda: st.Spectrum((1.0, -2.0)), r"eigenvalues\[1\] must be a number above 0"),
        (lambda: st.Spectrum("12"), "eigenvalues must be a list of numbers"),
        (lambda: st.Spectrum((1.0, 2.0), (0.5, 0.6)), "density must sum to one, got a sum of 1.1"),
        (lambda: st.Spectrum((1.0, 2.0), (1.5, -0.5)), r"density\[1\] must be a number at least 0"),
        (lambda: st.Spectrum((1.0, 2.0), (1.0,)), "density must be 2 numbers"),
        (lambda: st.Spectrum((1.0,), (1.0,), (0.9,)), "signal_share must sum to one"),
        (lambda: st.Spectrum.power_law(-1.0), "exponent must be a number at least 0"),
        (lambda: st.Covariances([1.0], None, [1.0]), "noise must be a square matrix, got shape"),
        (lambda: st.Covariances(-EYE, None, [1, 0, 0]), "noise must be positive definite"),
        (lambda: st.Covariances(0 * EYE, None, [1, 0, 0]), "noise must be positive definite"),
        (lambda: st.Covariances(EYE, -EYE, [1, 0, 0]), "signal must be positive semidefinite"),
        (lambda: st.Covariances(EYE, np.eye(2), [1, 0, 0]), r"noise has 3 rows\), got shape"),
        (lambda: st.Covariances(EYE, None, [1, 0]), r"mean must be a vector of shape \(3,\)"),
        (lambda: st.Covariances(EYE, None, [0, 0, 0]), "mean must not be zero"),
        (lambda: st.Covariances(np.tri(3), None, [1, 0, 0]), "noise must be symmetric"),
        (lambda: st.Covariances(np.nan * EYE, None, [1, 0, 0]), "noise must be finite"),
        (lambda: st.Covariances("a", None, [1, 0, 0]), "noise must be an array of numbers"),
        (lambda: st.Task(5, 1, 2.0, noise=1.0), r"noise must be White\(\), a Spectrum or"),
        (lambda: st.Task(5, 1, 2.0, noise=EYE), r"got an array of shape \(3, 3\)$"),
        (lambda: st.Task(5, 1, 2.0, signal_spread=EYE), "signal_spread must be a number or a tup"),
        (lambda: st.Task(5, 1, 2.0, signal_spread=EYE), r"got an array of shape \(3, 3\)$"),
        (lambda: st.Task(5, 1, 2.0, signal_spread=SPECTRUM), "a number or a tuple .* got Spectrum"),
        (lambda: st.Task(5, 1, 2.0, signal_spread="2"), "a number or a tuple of numbers"),
        (lambda: st.Task(5, 1, 2.0, signal_spread=True), "a number or a tuple of numbers"),
        (lambda: st.Spectrum(EYE), r"eigenvalues must be a list of numbers, got an array of shape"),
        (lambda: st.Covariances(DEFICIENT, None, [1, 0, 0]), r"an eigenvalue of .*: shrink it"),
        (lambda: st.Task(5, 1, 2.0, signal_spread=-1.0), "signal_spread must be a number at least"),
        (lambda: st.Task(5, 1, 2.0, signal_spread=(1.0, 2.0)), "a number or 1 of them"),
        (lambda: st.Task(5, 1, 2.0, noise=SPECTRUM, signal_spread=(1.0,)), "a number or 3 of them"),
        (
            lambda: st.Task(
                5, 1, 2.0, noise=st.Covariances(EYE, None, [1, 0, 0]), signal_spread=2.0
            ),
            "signal_spread must be None with Covariances",
        ),
        (
            lambda: st.Task(5, 1, 2.0, token_correlation=0.1, signal_spread=2.0),
            "token_correlation must be 0 where signal tokens have a covariance of their own",
        ),
        (lambda: SPECTRUM.counts(2), "dim must be at least 3"),
        (lambda: st.Covariances(EYE, None, [1, 0, 0]).counts(4), "dim must be 3"),
    ],
)
def test_what_is_not_allowed_is_refused_in_one_sentence(make, message):
    with pytest.raises(st.InvalidInput, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_task_without_them_is_what_it_was():
    task = st.Task(10, 1, 5.0)
    assert repr(task) == (
        "Task(length=10, sparsity=1, strength=5.0, prevalence=0.5, places=None, "
        "token_correlation=0.0)"
    )
    assert task.is_white and task.is_plain and task == st.Task(10, 1, 5.0, signal_spread=1.0)
    cell = st.Cell(task, st.Pooled(), st.Protocol())
    assert units_of([cell])[0].key.startswith(KEY)
    other = st.Cell(st.Task(10, 1, 5.0, noise=SPECTRUM), *vars_of(cell))
    spread = st.Cell(st.Task(10, 1, 5.0, signal_spread=2.0), *vars_of(cell))
    assert len({unit.key for unit in units_of([cell, other, spread])}) == 3


def vars_of(cell):
    return cell.classifier, cell.protocol


def test_ones_are_white_whatever_they_are_written_as():
    for noise in (st.Spectrum((1.0, 1.0)), st.Covariances(EYE, EYE, [1.0, 2.0, 3.0])):
        assert st.Task(5, 1, 2.0, noise=noise).is_white
    assert not st.Task(5, 1, 2.0, noise=st.Spectrum((2.0,))).is_white


def test_matrices_are_told_apart_by_their_content():
    made = [
        st.Covariances(random_covariance(4, 0), random_covariance(4, seed), np.arange(4) + 1.0)
        for seed in (1, 1, 2)
    ]
    assert made[0] == made[1] != made[2] and hash(made[0]) == hash(made[1])
    assert pickle.loads(pickle.dumps(made[0])) == copy.deepcopy(made[0]) == made[0]
    tasks = [st.Task(5, 1, 2.0, noise=noise) for noise in made]
    assert len(set(tasks)) == 2 and len({repr(task) for task in tasks}) == 2
    assert made[0].joint(None) is None  # they do not commute


def test_commuting_matrices_have_a_joint_spectrum_in_any_basis():
    rng = np.random.default_rng(3)
    values, spreads = rng.uniform(0.1, 3, 6), np.array([0.0, 0.0, 1.0, 1.0, 5.0, 2.0])
    xi = rng.standard_normal(6)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    turned = st.Covariances(turn * values @ turn.T, turn * spreads @ turn.T, turn @ xi)
    joint = turned.joint(None)
    order, expected = np.argsort(joint.noise), np.argsort(values)
    np.testing.assert_allclose(joint.noise[order], values[expected], rtol=1e-10)
    np.testing.assert_allclose(joint.signal[order], spreads[expected], atol=1e-10)
    np.testing.assert_allclose(joint.share[order], xi[expected] ** 2 / (xi @ xi), atol=1e-10)


def test_counts_are_the_nearest_whole_numbers():
    assert SPECTRUM.counts(100).tolist() == [50, 35, 15]
    few = st.Spectrum((1.0, 9.0), (1.0, 0.0), (0.5, 0.5))  # one direction among many
    assert few.counts(10).tolist() == [9, 1]
    for dim in range(3, 60):
        counts = SPECTRUM.counts(dim)
        assert counts.sum() == dim and np.all(np.abs(counts - dim * np.array(SPECTRUM.density)) < 2)


def test_a_power_law_has_mean_one():
    flat, steep = st.Spectrum.power_law(0.0, 7), st.Spectrum.power_law(2.0, 50)
    assert flat.eigenvalues == (1.0,) * 7
    assert np.mean(steep.eigenvalues) == pytest.approx(1.0)
    assert steep.eigenvalues[1] / steep.eigenvalues[3] == pytest.approx(4.0)


def test_fewer_eigenvalues_keep_means_and_shares():
    spectrum = st.Spectrum((0.5, 4.0, 1.0, 2.0), (0.1, 0.3, 0.4, 0.2), (0.4, 0.3, 0.2, 0.1))
    task = st.Task(5, 1, 2.0, noise=spectrum, signal_spread=(1.0, 2.0, 3.0, 4.0))
    few = task.for_dim(2)
    assert few.noise.eigenvalues == pytest.approx((2 * (0.3 * 4 + 0.2 * 2), 2 * (0.4 + 0.05)))
    assert few.noise.signal_share == pytest.approx((0.4, 0.6)) and few.noise.density == (0.5, 0.5)
    assert few.signal_spread == pytest.approx((2 * (0.6 + 0.8), 2 * (1.2 + 0.1)))
    assert task.for_dim(4) is task and few.noise.counts(2).tolist() == [1, 1]
    law = st.Task(5, 1, 2.0, noise=st.Spectrum.power_law(0.8), signal_spread=2.0)
    for dim in (1, 7, 50, 99):
        fewer = law.for_dim(dim)
        assert fewer.noise.mean_variance == pytest.approx(1.0) and fewer.signal_spread == 2.0
        assert fewer.noise.counts(dim).tolist() == [1] * dim
    lone = st.Task(5, 1, 2.0, noise=st.Spectrum((1.0, 9.0), (1.0, 0.0), (0.5, 0.5)))
    assert lone.for_dim(1) is lone


COLOURED = [
    st.Task(6, 1, 3.0, noise=SPECTRUM),
    st.Task(6, 1, 3.0, signal_spread=4.0),
    st.Task(6, 1, 3.0, noise=st.Covariances(2 * EYE, EYE, [1, 0, 0])),
]


@pytest.mark.parametrize("task", COLOURED)
@pytest.mark.parametrize(
    "ask",
    [
        lambda task: st.best_steps(task, st.Logistic(), 2.0),
        lambda task: st.alignment_rate(task, st.Protocol()),
    ],
)
def test_what_is_made_for_white_noise_refuses_the_rest(task, ask):
    with pytest.raises(st.InvalidInput, match="must have white noise and a signal without"):
        ask(task)


def test_a_query_learned_on_coloured_noise_is_not_frozen_to_two_numbers():
    query = st.align(COLOURED[0], st.Protocol())
    with pytest.raises(st.InvalidInput, match="cannot be frozen"):
        st.Attention().frozen(query)

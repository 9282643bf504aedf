"""Whitening as another task: what it keeps, and what matrices and spectra say alike."""

from __future__ import annotations

import numpy as np
import pytest

import sparsetoken as st

SPECTRUM = st.Spectrum((0.2, 1.0, 4.0), (0.5, 0.35, 0.15), (0.1, 0.2, 0.7))


def test_full_whitening_leaves_white_noise():
    task = st.whitened(st.Task(6, 2, 3.0, noise=SPECTRUM))
    assert task.is_white and task.strength == pytest.approx(
        3 * np.sqrt(0.1 / 0.2 + 0.2 / 1.0 + 0.7 / 4.0)
    )
    spread = st.whitened(st.Task(6, 2, 3.0, noise=SPECTRUM, signal_spread=(1.0, 1.0, 2.0)))
    np.testing.assert_allclose(spread.joint_spectrum.noise, 1.0)
    np.testing.assert_allclose(spread.signal_spread, (5.0, 1.0, 0.5))


@pytest.mark.parametrize("atoms", [1, 20, 100])
@pytest.mark.parametrize("exponent", [0.3, 0.8, 1.0, 1.7])
@pytest.mark.parametrize("spread", [None, 3.0])
def test_a_whitened_power_law_is_white_to_the_last_digit(exponent, atoms, spread):
    noise = st.Spectrum.power_law(exponent, atoms)
    task = st.whitened(st.Task(6, 2, 3.0, noise=noise, signal_spread=spread))
    assert task.noise == st.White() and task.signal_spread == spread
    assert task.strength == pytest.approx(3 * np.sqrt(np.mean(1 / np.array(noise.eigenvalues))))
    if spread is not None:  # written as eigenvalues, it is the same
        eigenvalues = [spread * value for value in noise.eigenvalues]
        other = st.whitened(st.Task(6, 2, 3.0, noise=noise, signal_spread=eigenvalues))
        assert other.noise == st.White() and other.signal_spread == pytest.approx(spread)


@pytest.mark.parametrize("dim", [2, 9, 40])
@pytest.mark.parametrize("ratio", [None, 1.0, 3.0])
def test_whitened_matrices_are_white_to_the_last_digit(dim, ratio):
    rng = np.random.default_rng(dim)
    factor = rng.standard_normal((dim, 2 * dim))
    noise = factor @ factor.T / dim
    signal = None if ratio is None else ratio * noise
    task = st.Task(6, 2, 3.0, noise=st.Covariances(noise, signal, rng.standard_normal(dim)))
    after = st.whitened(task)
    joint = after.joint_spectrum
    assert np.all(joint.noise == 1) and after.is_white == (ratio != 3.0)
    np.testing.assert_allclose(joint.signal, ratio or 1.0)
    assert joint.is_proportional
    xi = task.noise.mean
    assert after.strength == pytest.approx(3 * np.sqrt(xi @ np.linalg.solve(noise, xi)))


def test_what_is_whitened_is_as_fast_and_as_free_in_its_size_as_white_noise():
    task = st.whitened(st.Task(6, 2, 3.0, noise=st.Spectrum.power_law(0.8)))
    run = st.simulate(task, st.Pooled(), st.Protocol(), dim=20, repeats=1)
    assert run.status == ("ok",) and st.bayes_error(task) < st.oracle_error(task, st.Pooled())


def test_no_whitening_is_a_matter_of_units():
    task = st.Task(6, 2, 3.0, noise=SPECTRUM, signal_spread=2.0)
    other = st.whitened(task, shrinkage=1.0)
    mean = float(np.dot(SPECTRUM.eigenvalues, SPECTRUM.density))
    for classifier in (st.Pooled(), st.Vectorized()):
        usual = st.predict(task, classifier, st.Protocol(ridge=0.1))
        found = st.predict(other, classifier, st.Protocol(ridge=0.1 / mean))
        assert found.test_error == pytest.approx(usual.test_error, abs=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_matrices_and_spectra_are_whitened_alike(shrinkage):
    rng = np.random.default_rng(0)
    x, c, xi = np.exp(rng.normal(size=8)), np.exp(rng.normal(size=8)), rng.normal(size=8)
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    spectrum = st.Spectrum(x.tolist(), None, (xi**2 / (xi @ xi)).tolist())
    matrices = st.Covariances(turn * x @ turn.T, turn * c @ turn.T, turn @ xi)
    one = st.whitened(st.Task(6, 2, 3.0, noise=spectrum, signal_spread=c.tolist()), shrinkage)
    two = st.whitened(st.Task(6, 2, 3.0, noise=matrices), shrinkage)
    assert two.strength == pytest.approx(one.strength)
    a, b = one.joint_spectrum, two.joint_spectrum
    order, other = np.argsort(a.signal), np.argsort(b.signal)
    for name in ("noise", "signal", "share"):
        np.testing.assert_allclose(
            getattr(b, name)[other], getattr(a, name)[order], rtol=1e-8, atol=1e-10
        )


def test_capacity_does_not_care():
    """Linear classifiers separate the same data after any linear map."""
    task = st.Task(6, 2, 3.0, noise=SPECTRUM, signal_spread=(3.0, 0.5, 9.0))
    for classifier in (st.Pooled(), st.Vectorized()):
        usual = st.capacity(task, classifier)
        for shrinkage in (0.0, 0.2):
            found = st.capacity(st.whitened(task, shrinkage), classifier)
            assert found == pytest.approx(usual, rel=1e-7)


@pytest.mark.parametrize("shrinkage", [-0.1, 1.5, np.nan, "half"])
def test_a_shrinkage_is_between_nothing_and_all(shrinkage):
    with pytest.raises(st.InvalidInput, match="shrinkage must be a number at least 0 and at most"):
        st.whitened(st.Task(6, 2, 3.0, noise=SPECTRUM), shrinkage)


def test_the_best_shrinkage_is_no_worse_than_either_end():
    task = st.Task(8, 1, 4.0, noise=st.Spectrum.power_law(1.2, 40))
    for classifier in (st.Pooled(), st.Attention()):
        best = st.best_shrinkage(task, classifier, st.Protocol(readout_samples=2.0, ridge=0.05))
        assert best.test_error <= min(best.white, best.unwhitened) + 1e-12
        assert 0 <= best.shrinkage <= 1

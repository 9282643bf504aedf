"""Separability with coloured noise and spreads: limits, and data themselves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

import sparsetoken as st

SPECTRUM = st.Spectrum((0.2, 1.0, 4.0), (0.5, 0.35, 0.15), (0.1, 0.2, 0.7))
FROZEN = st.Attention(cosine=0.8, sharpness=1.0)
LINEAR = (st.Pooled(), st.Vectorized())


def task(spread=None, noise=SPECTRUM):
    return st.Task(6, 2, 3.0, 0.4, noise=noise, signal_spread=spread)


@pytest.mark.parametrize("classifier", [*LINEAR, FROZEN])
def test_white_noise_is_a_limit(classifier):
    usual = st.capacity(st.Task(6, 2, 3.0, 0.4), classifier)
    nearly = st.Spectrum((1 - 1e-9, 1 + 1e-9), (0.5, 0.5), (0.2, 0.8))
    assert st.capacity(task(noise=nearly), classifier) == pytest.approx(usual, rel=1e-6)


@pytest.mark.parametrize("classifier", [*LINEAR, FROZEN])
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_two_covariances_in_proportion_are_one(classifier, ratio):
    spread = tuple(ratio * x * (1 + 1e-8 * i) for i, x in enumerate(SPECTRUM.eigenvalues))
    one, two = st.capacity(task(ratio), classifier), st.capacity(task(spread), classifier)
    assert two == pytest.approx(one, rel=1e-5)
    assert two.standard_error == pytest.approx(one.standard_error, rel=0.05)


def test_capacity_does_not_depend_on_units():
    """Separability is the same after any linear map of the features."""
    for classifier in LINEAR:
        usual = st.capacity(st.Task(6, 2, 3.0), classifier)
        scaled = st.capacity(st.Task(6, 2, 6.0, noise=st.Spectrum((4.0,))), classifier)
        assert scaled == pytest.approx(usual, rel=1e-10)


def is_separable(features, labels):
    """Whether some (w, b) has all margins at least 1."""
    rows = labels[:, None] * np.column_stack([features, np.ones(len(labels))])
    found = linprog(
        np.zeros(rows.shape[1]), A_ub=-rows, b_ub=-np.ones(len(rows)), bounds=(None, None)
    )
    return found.status == 0


@pytest.mark.parametrize("spread", [None, (3.0, 0.5, 9.0)])
def test_mean_tokens_are_separable_below_and_not_above(spread):
    asked, dim, rng = task(spread), 120, np.random.default_rng(0)
    threshold = st.capacity(asked, st.Pooled())
    joint, counts = asked.joint_spectrum, SPECTRUM.counts(dim)
    atom = np.repeat(np.arange(3), counts)
    xi = np.sqrt(joint.share / counts)[atom]
    for factor, expected in ((0.85, True), (1.15, False)):
        found = []
        for _ in range(6):
            n = round(factor * threshold * dim)
            labels = np.where(rng.random(n) < asked.prevalence, 1.0, -1.0)
            ones = np.where(labels > 0, asked.sparsity, 0)
            variance = np.outer(6 - ones, joint.noise[atom]) + np.outer(ones, joint.signal[atom])
            noise = rng.standard_normal((n, dim)) * np.sqrt(variance) / 6
            features = np.outer(asked.strength * ones / 6, xi) + noise
            found.append(is_separable(features, labels))
        assert np.mean(found) > 0.8 if expected else np.mean(found) < 0.2


def test_without_a_ridge_separable_data_are_refused():
    law = st.Pooled().law(task((3.0, 0.5, 9.0)))
    threshold = st.separability_threshold(law)
    assert st.solve(law, st.Logistic(), 0.0, 1.2 * threshold).residual < 1e-9
    with pytest.raises(st.NoMinimiserError, match="separability threshold"):
        st.solve(law, st.Logistic(), 0.0, 0.9 * threshold)


def with_matrices(dim, rotation=None):
    rng = np.random.default_rng(5)
    factors = rng.standard_normal((2, dim, 2 * dim))
    noise, signal = factors @ factors.swapaxes(1, 2) / (2 * dim)
    xi, turn = rng.standard_normal(dim), np.eye(dim) if rotation is None else rotation
    turned = [turn @ matrix @ turn.T for matrix in (noise, 3 * signal)]
    covariances = st.Covariances(*(0.5 * (x + x.T) for x in turned), turn @ xi)
    assert covariances.joint(None) is None
    return st.Task(6, 2, 3.0, 0.4, noise=covariances)


@pytest.mark.parametrize("classifier", LINEAR)
def test_matrices_separate_what_their_spectrum_separates_once_whitened(classifier):
    """Whitened, C and I commute: capacity by matrices against that by a joint spectrum."""
    asked = with_matrices(20)
    spectral = st.whitened(asked)
    assert spectral.joint_spectrum is not None
    usual, found = st.capacity(spectral, classifier), st.capacity(asked, classifier)
    assert found == pytest.approx(usual, rel=1e-6)


@pytest.mark.parametrize("classifier", [st.Pooled(), FROZEN])
def test_the_capacity_of_matrices_does_not_depend_on_the_axes(classifier):
    rotation = np.linalg.qr(np.random.default_rng(6).standard_normal((20, 20)))[0]
    usual = st.capacity(with_matrices(20), classifier)
    found = st.capacity(with_matrices(20, rotation), classifier)
    assert found == pytest.approx(usual, rel=1e-6)

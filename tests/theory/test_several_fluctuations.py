"""How readouts scatter where noise has several covariances: one white one, matrices, simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.geometry import MatrixGeometry, SpectralGeometry
from sparsetoken.theory.fluctuations import readout_covariance as white_covariance
from sparsetoken.theory.several_fluctuations import readout_covariance

TASK = st.Task(10, 1, 5.0)
WHITE = {
    "pooled": (st.Pooled().law(TASK), st.Logistic(), 0.1, 4.0),
    "square": (st.Pooled().law(st.Task(10, 3, 3.0, 0.3)), st.Square(), 0.01, 2.0),
    "attention": (st.Attention(0.8, 2.0).law(TASK).compressed, st.Logistic(), 0.05, 3.0),
    "few": (
        st.Attention(0.9, 1.0).law(st.Task(8, 2, 4.0, 0.93)).compressed, st.Logistic(), 1e-3, 0.6,
    ),
    "huber": (st.Attention(0.7, 1.5).law(st.Task(20, 2, 5.0)).compressed, st.Huber(), 0.1, 0.6),
    "large ridge": (st.Pooled().law(TASK), st.Logistic(), 100.0, 2.0),
}  # fmt: skip


def with_covariances(law, parts):
    """The same law with its white noise in several parts (atoms, J) of its variance."""
    size, count = len(law.noisy), parts.shape[1]
    geometry = SpectralGeometry(np.ones((count, 1)), np.ones(1), np.eye(size)[None])
    scales = law.scales[:, None] * np.sqrt(parts)
    return replace(law, scales=scales, noisy=np.tile(law.noisy, (count, 1)), geometry=geometry)


@pytest.mark.parametrize("within_classes", [False, True])
@pytest.mark.parametrize("name", WHITE)
def test_white_noise_in_one_part_or_two(name, within_classes):
    law, loss, ridge, samples = WHITE[name]
    fit = st.solve(law, loss, ridge, samples)
    size = len(law.noisy)
    wanted = white_covariance(fit, within_classes)
    turn = np.eye(size + 2)  # r² = ρ² + Σ_noisy w²
    turn[-1, :size] = law.noisy * fit.weights / fit.noise**2
    turn[-1, -1] = fit.rest**2 / fit.noise**2
    wanted = turn @ wanted @ turn.T
    share = np.random.default_rng(0).uniform(0.2, 0.8, len(law.scales))
    for parts in (np.ones((len(share), 1)), np.column_stack([share, 1 - share])):
        several = st.solve(with_covariances(law, parts), loss, ridge, samples)
        found = readout_covariance(several, within_classes)
        sizes = np.sqrt(np.diag(wanted))
        rows = slice(size + 2)
        np.testing.assert_allclose(
            found[rows, rows] / np.outer(sizes, sizes),
            wanted / np.outer(sizes, sizes),
            atol=1e-9,
        )
        np.testing.assert_allclose(found[-1], found[size + 1], atol=1e-9 * np.abs(found).max())


def test_no_fluctuations_with_endless_samples():
    law = with_covariances(st.Pooled().law(TASK), np.ones((2, 1)))
    assert not readout_covariance(st.solve(law, st.Logistic(), 0.1, np.inf)).any()


def test_matrices_are_their_spectrum():
    rng, dim = np.random.default_rng(3), 40
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    values = np.array([np.linspace(0.2, 3, dim), rng.uniform(0.1, 4, dim)])
    directions = rng.standard_normal((dim, 3)) * [0.3, 0.2, 0.15]
    gram = np.einsum("ak,al->akl", directions, directions)
    spectral = SpectralGeometry(values, np.full(dim, 1 / dim), gram)
    turned = turn @ directions
    products = np.einsum("ak,bl->klab", turned, turned)
    matrices = MatrixGeometry([(turn * x) @ turn.T for x in values], products, spectral)
    noise = st.Spectrum((0.5, 2.0), (0.5, 0.5))
    task = st.Task(6, 2, 3.0, 0.4, noise=noise, signal_spread=(3.0, 0.3))
    law = st.Attention(0.8, 1.5).law(task).compressed
    first, second = (
        readout_covariance(
            st.solve(
                replace(law, geometry=geometry, noisy=np.ones((2, 3), dtype=bool)),
                st.Logistic(), 0.05, 2.0,
            )
        )
        for geometry in (spectral, matrices)
    )  # fmt: skip
    np.testing.assert_allclose(second, first, rtol=1e-8, atol=1e-10)


CLOUDS = {
    "one covariance": (st.Spectrum.power_law(1.0, 50), 3.0, st.Logistic(), 0.05),
    "two covariances": (st.Spectrum((0.5, 2.0), (0.6, 0.4)), (6.0, 0.3), st.Square(), 0.02),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOUDS)
def test_standard_deviations_of_the_readout(name):
    """Of ⟨w, ξ⟩ and of b over 400 runs, each known to 3.5 %."""
    noise, spread, loss, ridge = CLOUDS[name]
    task = st.Task(6, 2, 2.5, 0.4, noise=noise, signal_spread=spread)
    dim, samples = 150, 3.0
    run = st.simulate(
        task, st.Pooled(), st.Protocol(1.0, samples, loss, ridge), dim=dim, repeats=400, seed=3
    )
    fit = st.solve(st.Pooled().law(task), loss, ridge, samples)
    predicted = np.sqrt(np.diag(readout_covariance(fit)) / (samples * dim))
    along = [outcome.readout.on_signal for outcome in run.outcomes]
    assert np.std(along, ddof=1) == pytest.approx(predicted[0], rel=0.15)
    assert np.std(run.bias, ddof=1) == pytest.approx(predicted[1], rel=0.15)

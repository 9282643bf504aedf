"""Noise of every kind: moments, dependence, correlation; the numbers it draws on a device."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sparsetoken as st
from sparsetoken.model.names import NOISES
from sparsetoken.model.noise import (
    Coloured,
    Elliptical,
    Gaussian,
    Rademacher,
    Shared,
    Sparse,
    Student,
)
from sparsetoken.support.errors import InvalidInput

KINDS = [
    (Gaussian(), 3.0),
    (Rademacher(), 1.0),
    (Student(9.0), 3 + 6 / 5),
    (Sparse(0.1), 10.0),
    (Elliptical(9.0), 3 * 7 / 5),
]


def test_every_name_is_here():
    assert list(NOISES) == [NOISES.kind(noise) for noise, _ in KINDS]


@pytest.mark.parametrize(("noise", "fourth"), KINDS)
def test_moments(noise, fourth):
    drawn = noise.draw((40_000, 5), np.random.default_rng(0))
    n = len(drawn)
    assert np.abs(drawn.mean(axis=0)).max() < 5 / math.sqrt(n)
    covariance = drawn.T @ drawn / n
    assert np.abs(covariance - np.eye(5)).max() < 5 * math.sqrt(fourth / n)
    assert abs(np.mean(drawn**4) / fourth - 1) < 0.2
    assert len(np.unique(drawn)) == {Rademacher: 2, Sparse: 3}.get(type(noise), drawn.size)
    sizes = (drawn**2).sum(axis=1)  # one scale for a token makes its coordinates dependent
    alone = np.var(drawn**2, axis=0).sum()
    assert (sizes.var() > 1.3 * alone) != noise.by_coordinates


@pytest.mark.parametrize("noise", [noise for noise, _ in KINDS])
def test_shared_noise_correlates_tokens_and_coloured_noise_coordinates(noise):
    drawn = Shared(0.3, noise).draw((40_000, 2, 1), np.random.default_rng(0))[:, :, 0]
    assert np.abs(drawn.T @ drawn / 40_000 - [[1, 0.3], [0.3, 1]]).max() < 0.1
    assert Shared(0.3, noise).by_coordinates == noise.by_coordinates
    coloured = Coloured(0.6, noise)
    drawn = coloured.draw((40_000, 1, 4), np.random.default_rng(0))[:, 0]
    expected = [[1, 0.6, 0.36, 0.216], [0.6, 1, 0.6, 0.36], [0.36, 0.6, 1, 0.6]]
    assert np.allclose(coloured.covariance(4)[:3], expected)
    assert np.abs(drawn.T @ drawn / 40_000 - coloured.covariance(4)).max() < 0.1
    assert not coloured.by_coordinates


def test_the_noise_of_a_task():
    assert st.Task(3, 1, 1.0).white_noise == Gaussian()
    assert st.Task(3, 1, 1.0, token_correlation=0.2).white_noise == Shared(0.2)


@pytest.mark.parametrize("make", [Shared, Coloured])
def test_bad_correlations_get_a_sentence(make):
    with pytest.raises(InvalidInput, match=f"{make.__name__}: correlation must be .*, got 1.0"):
        make(1.0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("noise", [*(noise for noise, _ in KINDS), Coloured(0.5), Shared(0.5)])
def test_a_source_draws_the_numbers_of_its_generator(noise, dtype):
    from sparsetoken.simulation.devices import Device

    source = Device(dtype=dtype).source(np.random.SeedSequence(3))
    drawn = noise.draw((6, 2, 4), source)
    plain = noise.draw((6, 2, 4), np.random.default_rng(np.random.SeedSequence(3)))
    assert drawn.dtype == dtype and drawn.shape == plain.shape
    if dtype == "float64":
        np.testing.assert_array_equal(drawn, plain)

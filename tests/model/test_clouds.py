"""Clouds: nets of standard normals and of uniforms, replicates by seed; log C(n, k)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest

from sparsetoken.model.clouds import (
    kept_blocks,
    normal_blocks,
    normal_cloud,
    uniform_cloud,
)
from sparsetoken.model.places import log_choose


def test_a_cloud_is_standardised():
    cloud = normal_cloud(5, 0, 256)
    assert cloud.shape == (256, 5)
    np.testing.assert_allclose(cloud.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(cloud.T @ cloud / 256, np.eye(5), atol=1e-12)
    assert normal_cloud(5, 0, 200).shape == (200, 5)
    assert kstest(normal_cloud(2, 0, 4096)[:, 1], "norm").pvalue > 0.5


def test_seeds_are_replicates():
    one, again, other = (normal_cloud(3, seed, 64) for seed in (1, 1, (1, 2)))
    assert np.array_equal(one, again)
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.3


def test_blocks_are_one_cloud():
    whole = np.concatenate(list(normal_blocks(3, 0, 128, math.inf)))
    parts = list(normal_blocks(3, 0, 128, numbers=100))
    assert [len(part) for part in parts] == [32] * 4
    assert np.array_equal(np.concatenate(parts), whole)
    (kept,) = kept_blocks(3, 0, 128, 4)
    assert np.array_equal(kept, normal_cloud(3, 0, 128))
    with pytest.raises(ValueError, match="read-only"):
        kept += 1


@pytest.mark.parametrize("widest", [4, 3])
def test_uniforms_are_never_at_the_ends(widest):
    cloud = uniform_cloud(4, 0, 1 << 12, widest)
    assert 0 < cloud.min() and cloud.max() < 1
    assert kstest(cloud[:, 2], "uniform").pvalue > 0.01
    assert uniform_cloud(0, 0, 8).shape == (8, 0)


def test_a_net_is_more_even_than_independent_points():
    net, independent = (uniform_cloud(3, 0, 1024, widest) for widest in (3, 2))
    off = [np.abs((cloud < 0.3).mean(axis=0) - 0.3).max() for cloud in (net, independent)]
    assert off[0] < 2e-3 < off[1]


def test_log_choose():
    for n, k in ((5, 2), (30, 0), (52, 26)):
        assert log_choose(n, k) == pytest.approx(math.log(math.comb(n, k)), rel=1e-12)

"""Compression keeps averages exactly and weights positive."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken.model.compression import polynomial_basis, recombine


@pytest.mark.parametrize("atoms, functions", [(10, 3), (500, 12), (4000, 56), (56, 56), (5, 9)])
def test_recombination_keeps_every_average(atoms, functions):
    rng = np.random.default_rng(atoms)
    values = rng.normal(size=(atoms, functions))
    values[:, 0] = 1.0
    weights = rng.random(atoms) + 0.01
    index, new = recombine(values, weights)
    assert len(index) <= min(atoms, functions) and len(set(index.tolist())) == len(index)
    assert np.all(new > 0)
    np.testing.assert_allclose(new @ values[index], weights @ values, rtol=0, atol=1e-9 * atoms)


def test_heavy_tails_and_constant_variables():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.standard_t(1.2, 3000), np.full(3000, 2.5), rng.normal(size=3000)])
    weights = np.full(3000, 1 / 3000)
    basis = polynomial_basis(points, weights, degree=4)
    assert basis.shape[1] <= 15  # two variables move: C(6, 2) polynomials
    np.testing.assert_allclose((basis.T * weights) @ basis, np.eye(basis.shape[1]), atol=1e-4)
    index, new = recombine(basis, weights)
    assert np.all(new > 0) and abs(new.sum() - 1) < 1e-8
    for power in (1, 2, 4):
        want = np.mean(points[:, 2] ** power)
        assert abs(new @ points[index, 2] ** power - want) < 1e-6 * (1 + abs(want))


def test_a_cloud_of_one_point_becomes_one_atom():
    basis = polynomial_basis(np.zeros((50, 3)), np.full(50, 0.02), degree=6)
    index, new = recombine(basis, np.full(50, 0.02))
    assert len(index) == 1 and abs(new[0] - 1) < 1e-12

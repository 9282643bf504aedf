"""Compression keeps averages exactly and weights positive."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken.model.compression import compress, polynomial_basis, recombine


@pytest.mark.parametrize("slices, atoms, functions", [(1, 16, 3), (3, 512, 12), (2, 4096, 56)])
def test_recombination_keeps_every_average(slices, atoms, functions):
    rng = np.random.default_rng(atoms)
    values = rng.normal(size=(slices, atoms, functions))
    values[..., 0] = 1.0
    weights = rng.random((slices, atoms)) + 0.01
    index, new = recombine(values, weights)
    assert index.shape == new.shape == (slices, functions)
    assert np.all(new >= 0)
    for part in range(slices):
        assert len(set(index[part].tolist())) == functions
        got, want = new[part] @ values[part, index[part]], weights[part] @ values[part]
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-9 * atoms)


@pytest.mark.parametrize("atoms", [10, 37, 5000, 8192])
def test_compression_keeps_polynomials_for_any_number_of_atoms(atoms):
    rng = np.random.default_rng(atoms)
    points, weights = rng.normal(size=(atoms, 2)), rng.random(atoms) + 0.1
    index, new = compress(points, weights, degree=4, slices=4)
    assert np.all(new > 0) and len(index) <= min(4 * 15, atoms * 4)
    for one in range(5):
        for two in range(5 - one):
            f = points[:, 0] ** one * points[:, 1] ** two
            assert abs(new @ f[index] - weights @ f) < 1e-8 * (weights @ np.abs(f))


def test_heavy_tails_and_constant_variables():
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.standard_t(1.2, 4096), np.full(4096, 2.5), rng.normal(size=4096)])
    weights = np.full(4096, 1 / 4096)
    basis = polynomial_basis(points[None], weights[None], degree=4)[0]
    active = basis.any(axis=0)
    assert active.sum() <= 15  # two variables move: C(6, 2) polynomials
    gram = (basis[:, active].T * weights) @ basis[:, active]
    np.testing.assert_allclose(gram, np.eye(active.sum()), atol=1e-4)
    index, new = compress(points, weights, degree=4, slices=1)
    assert np.all(new > 0) and abs(new.sum() - 1) < 1e-12
    for power in (1, 2, 4):
        want = np.mean(points[:, 2] ** power)
        assert abs(new @ points[index, 2] ** power - want) < 1e-6 * (1 + abs(want))


def test_a_cloud_of_one_point_keeps_its_mass():
    index, new = compress(np.zeros((500, 1)), np.full(500, 0.002), degree=6, slices=1)
    assert len(index) <= 7 and abs(new.sum() - 1) < 1e-12

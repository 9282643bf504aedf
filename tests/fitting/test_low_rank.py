"""A diagonal matrix plus one of low rank is the matrix it stands for."""

from __future__ import annotations

import numpy as np
import pytest

from sparsetoken.fitting.low_rank import LowRank


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_it_is_the_matrix_it_stands_for(rank):
    rng = np.random.default_rng(rank)
    diagonal, left, right = (rng.standard_normal(shape) for shape in ((7,), (7, rank), (7, rank)))
    matrix, formed = LowRank(diagonal, left, right), np.diag(diagonal) + left @ right.T
    vector, columns = rng.standard_normal(7), rng.standard_normal((7, 2))
    assert matrix.shape == formed.shape
    for one, other in [
        (matrix @ vector, formed @ vector),
        (matrix @ columns, formed @ columns),
        (vector @ matrix, vector @ formed),
        (columns.T @ matrix, columns.T @ formed),
        (matrix.T @ columns, formed.T @ columns),
        (matrix[:, 2:5], formed[:, 2:5]),
        (matrix[:, 5:99], formed[:, 5:]),
    ]:
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_identity():
    columns = np.random.default_rng(0).standard_normal((5, 2))
    np.testing.assert_array_equal(LowRank.identity(5) @ columns, columns)

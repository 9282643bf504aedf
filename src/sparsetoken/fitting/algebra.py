"""The few pieces of linear algebra the array standard does not have, for NumPy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from sparsetoken.support.arrays import Array

# LAPACK itself: scipy's wrappers take longer than a small factor
_FACTOR: Any = {8: lapack.dpotrf, 4: lapack.spotrf}  # by bytes of a float
_SOLVE: Any = {8: lapack.dpotrs, 4: lapack.spotrs}
_PANEL = 1024  # columns at once: enough for full speed, few enough to skip nearly half the work


class SingularError(RuntimeError):
    """A matrix that should be positive definite is not, to rounding."""


def outer_gram(xp: Any, rows: Array) -> Array:
    """AᵀA (p, p) of A (n, p), doing only half of the multiplications where that is possible."""
    size = rows.shape[1]
    if xp is np or size <= _PANEL:  # NumPy sees the transpose and takes the symmetric product
        return rows.T @ rows
    gram = xp.empty((size, size), dtype=rows.dtype, device=rows.device)
    for start in range(0, size, _PANEL):
        stop = min(start + _PANEL, size)
        panel = rows[:, start:].T @ rows[:, start:stop]  # (size − start, panel)
        gram[start:, start:stop] = panel
        gram[start:stop, stop:] = panel[stop - start :].T
    return gram


def cholesky(xp: Any, matrix: Array) -> Array:
    """The lower factor C with CCᵀ = matrix; `SingularError` where there is none."""
    if xp is np:
        root, failed = _FACTOR[matrix.itemsize](matrix, lower=True, clean=True)
    else:
        root, failed = xp.linalg.cholesky_ex(matrix)
    if int(failed):
        raise SingularError(f"leading minor of order {int(failed)} is not positive")
    return root


def solve_root(xp: Any, root: Array, vector: Array) -> Array:
    """x with CCᵀx = vector, from the lower factor C."""
    if xp is np:
        return _SOLVE[root.itemsize](root, vector, lower=True)[0]
    return xp.cholesky_solve(vector[:, None], root)[:, 0]


def solve_transposed_root(xp: Any, root: Array, vector: Array) -> Array:
    """x with Cᵀx = vector, from the lower factor C."""
    if xp is np:
        return scipy.linalg.solve_triangular(root, vector, lower=True, trans=1, check_finite=False)
    return xp.linalg.solve_triangular(root.T, vector[:, None], upper=True)[:, 0]


def add_to_diagonal(matrix: Array, value: float) -> None:
    """matrix += value·I, in place, for a matrix as it was made: row after row in memory."""
    matrix.reshape(-1)[:: matrix.shape[0] + 1] += value

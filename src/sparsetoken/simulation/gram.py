r"""Gaussian columns through their Gram matrix.

Z Zᵀ of n rows with p ≥ n columns is Wishart and has the Cholesky factor of Bartlett: normals below,
√χ²_{p−i} on the diagonal, n²/2 numbers whatever p is. Its rows are as good as those of Z.
"""

from __future__ import annotations

import numpy as np

from sparsetoken.simulation.devices import Source
from sparsetoken.support.arrays import Array, FloatArray, floats

_ROWS = 256  # of a Bartlett factor drawn at once


def gaussian_columns(scales: FloatArray, size: int, source: Source) -> Array:
    """Columns (n, min(n, size)) with the Gram matrix of Z (n, size), rows times their scales."""
    count = len(scales)
    if count > size:
        columns = source.standard_normal((count, size))
    else:
        columns = bartlett(count, 0, size, source)
    columns *= source.device.array(scales)[:, None]
    return columns


def bartlett(count: int, explicit: int, freedoms: int, source: Source) -> Array:
    """K columns of normals, then the lower factor of a Wishart matrix (count × count)."""
    factor = source.device.empty((count, explicit + count))
    for start in range(0, count, _ROWS):
        stop = min(start + _ROWS, count)
        xp, block = floats(source.standard_normal((stop - start, explicit + stop)))
        block[:, explicit + start :] = xp.tril(block[:, explicit + start :])
        factor[start:stop, : explicit + stop] = block
        factor[start:stop, explicit + stop :] = 0.0
    index = np.arange(count)
    chi = np.sqrt(source.rng.chisquare(freedoms - index.astype(float)))
    factor[index, explicit + index] = source.device.array(chi)
    return factor

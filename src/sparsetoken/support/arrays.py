"""Arrays of any library: the same formula on NumPy arrays and on torch tensors, CPU or GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
Array = Any  # a NumPy array or an array of another library with the standard's functions


def floats(values: Any) -> tuple[Any, Array]:
    """The namespace of an array's library (np, torch, …) and the values as its floats.

    Floating arrays stay as they are, where they are; everything else becomes NumPy float64.

    >>> space, array = floats([1, 2])
    >>> space is np, array.dtype
    (True, dtype('float64'))
    """
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return np, values
    if isinstance(values, (np.ndarray, np.generic, int, float, list, tuple)):
        return np, np.asarray(values, dtype=float)
    import array_api_compat

    if not array_api_compat.is_array_api_obj(values):
        return np, np.asarray(values, dtype=float)
    return array_api_compat.array_namespace(values), values

"""Arrays of any library: the same formula on NumPy arrays and on torch tensors, CPU or GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
Array = Any  # a NumPy array or an array of another library with the standard's functions


class Column:
    """One number of each part of a result, as an array: an attribute of the parts' name for it.

    >>> class Polygon:
    ...     real = Column("corners", "Where the corners are along the real axis.")
    ...     corners = [0.0, 1.0, 0.5 + 1.0j]
    >>> Polygon().real.tolist()
    [0.0, 1.0, 0.5]
    """

    def __init__(self, parts: str, meaning: str) -> None:
        self._parts, self.__doc__ = parts, meaning

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, result: object, owner: type) -> FloatArray:
        if result is None:  # asked of the class: for help, and for dataclasses
            raise AttributeError(self._name)
        parts = getattr(result, self._parts)
        return np.array([getattr(part, self._name) for part in parts], dtype=float)


class Curve(Sequence[Any]):
    """A dataclass of columns as long as one another: the entries of the last, or a slice of all."""

    @property
    def _columns(self) -> tuple[Any, ...]:
        return tuple(getattr(self, column.name) for column in fields(self))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._columns[-1])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(*(column[index] for column in self._columns))
        return self._columns[-1][index]


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

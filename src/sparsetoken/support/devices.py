"""Where arrays live: NumPy, or torch on a CPU or GPU by its name."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsetoken.support.arrays import Array, FloatArray
from sparsetoken.support.errors import InvalidInput


def load_torch() -> Any:
    """The library."""
    import torch

    return torch


def array_on(device: str | None, values: Any, dtype: str = "float64") -> Array:
    """Numbers as an array of this floating type, on a device; None is NumPy."""
    if device is None:
        return np.asarray(values, dtype=dtype)
    torch, array = load_torch(), np.asarray(values)
    if not array.flags.writeable:  # torch has no such arrays
        array = array.copy()
    return torch.from_numpy(array).to(device).to(getattr(torch, dtype))


def to_numpy(values: Array) -> FloatArray:
    """Any array as NumPy float64."""
    if not isinstance(values, np.ndarray):
        values = values.detach().cpu().numpy()
    return values.astype(float)


def check_device(who: str, name: str) -> None:
    """A sentence, instead of torch's stack trace, for a device that cannot be used."""
    allowed = "None (NumPy) or a torch device that is there"
    if not isinstance(name, str):
        raise InvalidInput(f"{who}: device must be {allowed}, got {name!r}")
    try:
        torch = load_torch()
    except ImportError:
        raise InvalidInput(
            f"{who}: device must be None (NumPy) where torch is not installed, got {name!r} "
            "(pip install 'sparsetoken[torch]')"
        ) from None
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InvalidInput(f"{who}: device must be {allowed}, got {name!r} ({reason})") from None

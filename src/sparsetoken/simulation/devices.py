"""Where arrays live and random numbers are drawn: NumPy, or torch on a CPU or GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetoken.support.arrays import Array, FloatArray
from sparsetoken.support.errors import InvalidInput

_FLOATS = ("float64", "float32")


@dataclass(frozen=True)
class Device:
    """A place for arrays, with a floating type.

    `name=None` is NumPy; a name such as "cuda", "cuda:1" or "cpu" is torch on that device. The
    stream of random numbers depends on the library: the same seed gives other numbers, of the same
    law, under torch.

    >>> Device(dtype="float32").source(np.random.SeedSequence(0)).normal((2, 3)).dtype
    dtype('float32')
    """

    name: str | None = None
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if self.dtype not in _FLOATS:
            raise InvalidInput(
                f"simulate: dtype must be one of {', '.join(_FLOATS)}, got {self.dtype!r}"
            )
        if self.name is not None:
            _check_device(self.name)

    def array(self, values: Any) -> Array:
        """Numbers as an array of this device and floating type."""
        if self.name is None:
            return np.asarray(values, dtype=self.dtype)
        torch = _torch()
        return torch.tensor(np.array(values), dtype=getattr(torch, self.dtype), device=self.name)

    def empty(self, shape: tuple[int, ...]) -> Array:
        """An array whose entries are still to be written."""
        if self.name is None:
            return np.empty(shape, dtype=self.dtype)
        torch = _torch()
        return torch.empty(shape, dtype=getattr(torch, self.dtype), device=self.name)

    def source(self, seed: np.random.SeedSequence) -> Source:
        """A stream of random numbers."""
        return Source(self, seed)


class Source:
    """Random numbers for one purpose: small ones from NumPy, large arrays where the device is."""

    def __init__(self, device: Device, seed: np.random.SeedSequence) -> None:
        self.device = device
        self.rng = np.random.default_rng(seed)
        self._generator: Any = None
        if device.name is not None:
            state = int(seed.generate_state(1, np.uint64)[0]) >> 1  # torch wants a signed number
            self._generator = _torch().Generator(device=device.name).manual_seed(state)

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Independent N(0, 1) of the device's floating type."""
        if self.device.name is None:
            return self.rng.standard_normal(shape, dtype=np.dtype(self.device.dtype).type)
        torch = _torch()
        return torch.randn(
            shape,
            generator=self._generator,
            dtype=getattr(torch, self.device.dtype),
            device=self.device.name,
        )

    def chi(self, freedoms: FloatArray) -> Array:
        """√χ² with the given degrees of freedom."""
        return self.device.array(np.sqrt(self.rng.chisquare(freedoms)))


def to_numpy(values: Array) -> FloatArray:
    """Any array as NumPy float64."""
    if not isinstance(values, np.ndarray):
        values = values.detach().cpu().numpy()
    return values.astype(float)


def _torch() -> Any:
    import torch

    return torch


def _check_device(name: str) -> None:
    """A sentence, instead of torch's stack trace, for a device that cannot be used."""
    allowed = "None (NumPy) or a torch device that is there"
    if not isinstance(name, str):
        raise InvalidInput(f"simulate: device must be {allowed}, got {name!r}")
    try:
        torch = _torch()
    except ImportError:
        raise InvalidInput(
            f"simulate: device must be None (NumPy) where torch is not installed, got {name!r} "
            "(pip install 'sparsetoken[torch]')"
        ) from None
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InvalidInput(f"simulate: device must be {allowed}, got {name!r} ({reason})") from None

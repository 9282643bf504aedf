"""Where arrays live and random numbers are drawn: NumPy, or torch on a CPU or GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsetoken.support.arrays import Array
from sparsetoken.support.checks import one_of
from sparsetoken.support.devices import array_on, check_device, load_torch

_FLOATS = ("float64", "float32")


@dataclass(frozen=True)
class Device:
    """A place for arrays, with a floating type.

    `name=None` is NumPy; a name such as "cuda", "cuda:1" or "cpu" is torch on that device. The
    stream of random numbers depends on the library: the same seed gives other numbers, of the same
    law, under torch.

    >>> Device(dtype="float32").source(np.random.SeedSequence(0)).standard_normal((2, 3)).dtype
    dtype('float32')
    """

    name: str | None = None
    dtype: str = "float64"

    def __post_init__(self) -> None:
        one_of("simulate", "dtype", self.dtype, _FLOATS)
        if self.name is not None:
            check_device("simulate", self.name)

    def array(self, values: Any) -> Array:
        """Numbers as an array of this device and floating type."""
        return array_on(self.name, values, self.dtype)

    def empty(self, shape: tuple[int, ...]) -> Array:
        """An array whose entries are still to be written."""
        if self.name is None:
            return np.empty(shape, dtype=self.dtype)
        torch = load_torch()
        return torch.empty(shape, dtype=getattr(torch, self.dtype), device=self.name)

    def source(self, seed: np.random.SeedSequence) -> Source:
        """A stream of random numbers."""
        return Source(self, seed)


class Source:
    """Random numbers for one purpose, by the methods of NumPy's generators.

    Normals are drawn where the device is, all others (and small ones, from `rng`) by NumPy.
    """

    def __init__(self, device: Device, seed: np.random.SeedSequence) -> None:
        self.device = device
        self.rng = np.random.default_rng(seed)
        self._generator: Any = None
        if device.name is not None:
            state = int(seed.generate_state(1, np.uint64)[0]) >> 1  # torch wants a signed number
            self._generator = load_torch().Generator(device=device.name).manual_seed(state)

    def standard_normal(self, size: tuple[int, ...]) -> Array:
        """Independent N(0, 1) of the device's floating type."""
        if self.device.name is None:
            return self.rng.standard_normal(size, dtype=np.dtype(self.device.dtype).type)
        torch = load_torch()
        return torch.randn(
            size,
            generator=self._generator,
            dtype=getattr(torch, self.device.dtype),
            device=self.device.name,
        )

    def random(self, size: tuple[int, ...]) -> Array:
        """Uniform on [0, 1)."""
        return self.device.array(self.rng.random(size))

    def integers(self, low: int, high: int, size: tuple[int, ...]) -> Array:
        """Uniform on low, …, high − 1."""
        return self.device.array(self.rng.integers(low, high, size))

    def standard_t(self, df: float, size: tuple[int, ...]) -> Array:
        """Student's t with df degrees of freedom."""
        return self.device.array(self.rng.standard_t(df, size))

    def chisquare(self, df: float, size: tuple[int, ...]) -> Array:
        """χ² with df degrees of freedom."""
        return self.device.array(self.rng.chisquare(df, size))

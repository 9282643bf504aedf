"""A number that knows how sure it is."""

from __future__ import annotations

import math


class Estimate(float):
    """A number with its standard error; it behaves as the number.

    `standard_error` is 0 for an exact result; `sharpness` is the best τ where attention was asked.

    >>> error = Estimate(0.25, standard_error=0.001)
    >>> error, error + 1, error.standard_error
    (0.2500 ± 0.0010, 1.25, 0.001)
    """

    __slots__ = ("_sharpness", "_standard_error")
    _standard_error: float
    _sharpness: float | None

    def __new__(
        cls, value: float, standard_error: float = 0.0, sharpness: float | None = None
    ) -> Estimate:
        self = super().__new__(cls, value)
        self._standard_error = float(standard_error)
        self._sharpness = None if sharpness is None else float(sharpness)
        return self

    @property
    def standard_error(self) -> float:
        return self._standard_error

    @property
    def sharpness(self) -> float | None:
        return self._sharpness

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, float, float | None]]:
        return Estimate, (float(self), self._standard_error, self._sharpness)

    def __repr__(self) -> str:
        if self._standard_error == 0 or not math.isfinite(self._standard_error):
            return f"{float(self)!r} ± {self._standard_error:g}"
        digits = max(0, 1 - math.floor(math.log10(self._standard_error)))
        return f"{float(self):.{digits}f} ± {self._standard_error:.{digits}f}"

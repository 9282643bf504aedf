"""A number that knows how sure it is."""

from __future__ import annotations

import math
from collections.abc import Callable


class Estimate(float):
    """A number with its standard error; it behaves as the number.

    `standard_error` is 0 for an exact result, and computed when it is first asked for where that
    takes longer than the number itself (then it is given as a function). `sharpness` is the best τ
    where attention's was sought.

    >>> error = Estimate(0.25, standard_error=0.001)
    >>> error, error + 1, error.standard_error
    (0.2500 ± 0.0010, 1.25, 0.001)
    >>> Estimate(0.5)  # exact
    0.5
    """

    __slots__ = ("_sharpness", "_standard_error")
    _standard_error: float | Callable[[], float]
    _sharpness: float | None

    def __new__(
        cls,
        value: float,
        standard_error: float | Callable[[], float] = 0.0,
        sharpness: float | None = None,
    ) -> Estimate:
        self = super().__new__(cls, value)
        self._standard_error = standard_error if callable(standard_error) else float(standard_error)
        self._sharpness = None if sharpness is None else float(sharpness)
        return self

    @property
    def standard_error(self) -> float:
        if callable(self._standard_error):
            self._standard_error = float(self._standard_error())
        return self._standard_error

    @property
    def sharpness(self) -> float | None:
        return self._sharpness

    def __reduce__(self) -> tuple[type[Estimate], tuple[float, float, float | None]]:
        return Estimate, (float(self), self.standard_error, self._sharpness)

    def __repr__(self) -> str:
        error = self.standard_error
        if error == 0:
            return repr(float(self))
        if not math.isfinite(error):
            return f"{float(self)!r} ± {error:g}"
        digits = max(0, 1 - math.floor(math.log10(error)))
        return f"{float(self):.{digits}f} ± {error:.{digits}f}"

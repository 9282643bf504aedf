"""The strength at which an error is reached: of a function, and of one that is sampled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from sparsetoken.support.errors import ConvergenceError
from sparsetoken.support.estimate import Estimate

_STRONGEST = 2.0**60  # a strength that no threshold is beyond
_CLOSE = 0.2  # of a standard error: closer is not worth another evaluation


def trivial_error(prevalence: float) -> float:
    """The error of always saying the likelier class."""
    return min(prevalence, 1 - prevalence)


def crossing(
    error_at: Callable[[float], float], error: float, tolerance: float, guess: float = 1.0
) -> float:
    """θ > 0 with error_at(θ) = error, for a function that is above it near 0 and falls to 0.

    Regula falsi (Illinois) on the logarithms. Not brentq: it evaluates both ends of the bracket
    again, which take seconds where errors are sampled, and leaves a reference cycle that keeps its
    argument, here a hundred megabytes of draws, alive.
    """

    def excess(strength: float) -> float:
        return math.log(max(error_at(strength), 1e-300) / error)

    low = high = guess
    above = below = excess(guess)
    while below > 0 and high < _STRONGEST:
        low, above, high = high, below, 2 * high
        below = excess(high)
    while above <= 0 and low > 1 / _STRONGEST:
        high, below, low = low, above, low / 2
        above = excess(low)
    if not above > 0 >= below:
        raise ConvergenceError(
            f"signal_threshold: the error does not cross {error:g} between strengths "
            f"{low:g} and {high:g}"
        )
    for _ in range(200):
        middle = high - below * (high - low) / (below - above)
        value = excess(middle)
        if abs(value) <= tolerance or high - low <= tolerance * high:
            return middle
        if value > 0:
            low, above, below = middle, value, below / 2
        else:
            high, below, above = middle, value, above / 2
    raise ConvergenceError(
        f"signal_threshold: between strengths {low:g} and {high:g} after 200 steps, a tolerance of "
        f"{tolerance:g} is required"
    )


class _ErrorAt(Protocol):
    def __call__(self, strength: float, few: bool = False) -> Estimate: ...


def sampled_threshold(error_at: _ErrorAt, error: float, guess: float) -> Estimate:
    """Found with few draws, polished by secant steps in log error with all of them."""
    strength = crossing(lambda at: error_at(at, few=True), error, 0.02, guess)
    step = 0.02 * strength
    ends = [math.log(error_at(at, few=True)) for at in (strength - step, strength + step)]
    slope = (ends[1] - ends[0]) / (2 * step)
    value = error_at(strength)
    gap = math.log(value / error)
    for _ in range(8):
        if abs(gap) < max(1e-8, _CLOSE * value.standard_error / value):
            break
        step = -gap / slope
        strength, before = strength + step, gap
        value = error_at(strength)
        gap = math.log(value / error)
        if abs(step) > 1e-3 * strength:  # else the slope would be one of rounding
            slope = (gap - before) / step
    else:
        # what is left is added below, along the slope; it must be small beside the sampling error
        if abs(gap) > max(1e-6, value.standard_error / value):
            raise ConvergenceError(
                f"signal_threshold: log error off by {gap:.1e} at strength {strength:g} after 8 "
                f"steps, its standard error {value.standard_error / value:.1e} is required"
            )
    return Estimate(
        strength - gap / slope, value.standard_error / (value * abs(slope)), value.sharpness
    )

"""Validation with one voice: every error names the field, the value and what is allowed."""

from __future__ import annotations

import math

import numpy as np

from sparsetoken.support.errors import InvalidInput

Owner = type | str


def _refuse(owner: Owner, field: str, value: object, allowed: str) -> InvalidInput:
    name = owner if isinstance(owner, str) else owner.__name__
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
    return InvalidInput(f"{name}: {field} must be {allowed}, got {shown}")


def _number(value: object) -> float | None:
    """A Python or NumPy number as a float; None for anything else, truth values included."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)):
        return None
    if isinstance(value, np.complexfloating):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def whole(
    owner: Owner, field: str, value: object, *, least: int, most: int | None = None, why: str = ""
) -> int:
    """A whole number in [least, most], given as an int or as a float without a fraction."""
    allowed = f"a whole number of at least {least}"
    if most is not None:
        allowed = f"a whole number between {least} and {most}"
    allowed += f" ({why})" if why else ""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int(value)  # not through a float: long ones would be rounded
    else:
        given = _number(value)
        if given is None or not given.is_integer():
            raise _refuse(owner, field, value, allowed)
        number = int(given)
    if number < least or (most is not None and number > most):
        raise _refuse(owner, field, value, allowed)
    return number


def real(
    owner: Owner,
    field: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
    infinite: bool = False,
) -> float:
    """A real number inside the given bounds; infinity only where `infinite` allows it."""
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (
            ("above", above),
            ("at least", least),
            ("below", below),
            ("at most", most),
        )
        if bound is not None
    ]
    allowed = " ".join(["a number", " and ".join(bounds)]).strip()
    allowed = allowed if bounds else "a finite number"
    allowed += " (inf is allowed)" if infinite else ""
    number = _number(value)
    if number is None:
        raise _refuse(owner, field, value, allowed)
    inside = (
        (above is None or number > above)
        and (least is None or number >= least)
        and (below is None or number < below)
        and (most is None or number <= most)
    )
    if math.isnan(number) or not inside or (math.isinf(number) and not infinite):
        raise _refuse(owner, field, value, allowed)
    return number

"""Validation with one voice: every error names the field, the value and what is allowed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import TypedDict, TypeVar, Unpack

import numpy as np

from sparsetoken.support.errors import InvalidInput

Owner = type | str
Choice = TypeVar("Choice")


class Bounds(TypedDict, total=False):
    """Of a real number."""

    above: float
    least: float
    below: float
    most: float


_BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "above": ("above", operator.gt),
    "least": ("at least", operator.ge),
    "below": ("below", operator.lt),
    "most": ("at most", operator.le),
}


def refusal(owner: Owner, field: str, value: object, allowed: str) -> InvalidInput:
    """The error for a value that is not allowed, in one line; a long one is cut.

    >>> print(refusal("Task", "noise", np.eye(3), "White()"))
    Task: noise must be White(), got an array of shape (3, 3)
    """
    name = owner if isinstance(owner, str) else owner.__name__
    return InvalidInput(f"{name}: {field} must be {allowed}, got {_in_a_line(value)}")


def _in_a_line(value: object) -> str:
    shape = getattr(value, "shape", ())
    if isinstance(shape, tuple) and len(shape) > 1:
        return f"an array of shape {tuple(shape)}"
    words = " ".join(repr(value).split("\n"))
    return words if len(words) <= 80 else words[:77] + "..."


def settle(thing: object, **values: object) -> None:
    """Write checked values into the fields of a frozen dataclass that is being made."""
    for name, value in values.items():
        object.__setattr__(thing, name, value)


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
    number = None
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int(value)  # not through a float: long ones would be rounded
    elif (given := _number(value)) is not None and given.is_integer():
        number = int(given)
    if number is None or number < least or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"between {least} and {most}"
        allowed = f"a whole number {limits}" + (f" ({why})" if why else "")
        raise refusal(owner, field, value, allowed)
    return number


def real(
    owner: Owner, field: str, value: object, *, infinite: bool = False, **bounds: Unpack[Bounds]
) -> float:
    """A real number inside the given bounds; infinity only where `infinite` allows it."""
    limits = [(*_BOUNDS[name], bounds[name]) for name in _BOUNDS if name in bounds]  # type: ignore[literal-required]
    number = _number(value)
    inside = number is not None and all(keeps(number, bound) for _, keeps, bound in limits)
    if number is None or not inside or math.isnan(number) or (math.isinf(number) and not infinite):
        words = " and ".join(f"{word} {bound:g}" for word, _, bound in limits)
        noun = "a finite number" if inside else "a number"  # what is inside is refused as infinite
        allowed = f"{noun} {words}" if limits else "a finite number"
        raise refusal(owner, field, value, allowed + (" (inf is allowed)" if infinite else ""))
    return number


def one_of(owner: Owner, field: str, value: object, allowed: Iterable[Choice]) -> Choice:
    """One of a few values.

    >>> one_of("simulate", "sampler", "token", ("reduced", "tokens"))
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: simulate: sampler must be one of 'reduced', 'tokens', got 'token'
    """
    options = list(allowed)
    for option in options:
        if isinstance(value, type(option)) and value == option:  # 1 is not True
            return option
    raise refusal(owner, field, value, "one of " + ", ".join(map(repr, options)))

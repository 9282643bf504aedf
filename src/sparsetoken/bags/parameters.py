"""What the parameters of the classifiers may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sparsetoken.bags.units import TARGETS
from sparsetoken.support.checks import one_of
from sparsetoken.support.errors import InvalidInput


class Tuned(NamedTuple):
    """A number that may be "auto"."""

    least: float
    most: float
    words: str  # for these bounds
    tried: tuple[float, ...] = ()  # what "auto" chooses from; for the ridge, see `training.py`


_HUGE = 1e300  # beyond it squares and sums would be infinite
TUNED = {
    "ridge": Tuned(math.ulp(0.0), _HUGE, "above 0"),
    "shrinkage": Tuned(0.0, 1.0, "from 0 to 1", (0.0, 0.3, 1.0)),  # 0: as Ledoit and Wolf say
    "sharpness": Tuned(0.0, _HUGE, "of at least 0", (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)),
    "inverse_width": Tuned(0.0, _HUGE, "of at least 0", (0.0, 0.25, 1.0, 4.0)),
}
_COUNTS = {"n_tokens": 1, "folds": 2}  # at least
_WORDS = {
    "query": ("two-step", "joint", "posterior"),
    "reuse": ("all", "cross", "split"),
    "target": ("auto", *TARGETS),
}


def check_parameters(who: str, parameters: Mapping[str, Any]) -> None:
    """Each as the tables above have it."""
    for name, value in parameters.items():
        if name in TUNED and value != "auto":
            least, most, words, _ = TUNED[name]
            if not isinstance(value, int | float | np.number) or not least <= value <= most:
                raise InvalidInput(f"{name} must be 'auto' or a number {words}, got {value!r}")
        elif name in _COUNTS:
            fewest = _COUNTS[name]
            if not isinstance(value, int | np.integer) or value < fewest:
                raise InvalidInput(
                    f"{name} must be a whole number of at least {fewest}, got {value!r}"
                )
        elif name in _WORDS:
            one_of(who, name, value, _WORDS[name])
        elif name == "token_map":
            _check_map(value)


def _check_map(token_map: Any) -> None:
    methods = ("fit", "transform", "get_params")
    is_map = all(hasattr(token_map, name) for name in methods)
    if isinstance(token_map, type) or not (is_map or token_map in (None, "auto")):
        raise InvalidInput(
            f"token_map must be None, 'auto' or a transformer of scikit-learn's, got {token_map!r}"
        )

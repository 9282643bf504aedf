"""What the theory raises instead of returning a number it cannot vouch for."""

from __future__ import annotations


class ConvergenceError(RuntimeError):
    """A solver stopped short of its certified residual; no number is returned in its place."""


class NoMinimiserError(ValueError):
    """The objective has no (unique) minimiser for these parameters, so there is nothing to find."""

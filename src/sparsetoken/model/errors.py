"""What is raised instead of a number that cannot be vouched for."""

from __future__ import annotations


class ConvergenceError(RuntimeError):
    """A solver stopped short of its certified residual; no number is returned in its place.

    >>> raise ConvergenceError("solve: residual 1e-3, 1e-09 is required")
    Traceback (most recent call last):
        ...
    sparsetoken.model.errors.ConvergenceError: solve: residual 1e-3, 1e-09 is required
    """


class NoMinimiserError(ValueError):
    """The objective has no (unique) minimiser for these parameters, so there is nothing to find.

    >>> from sparsetoken import Pooled, Square, Task, solve
    >>> solve(Pooled().law(Task(2, 1, 1.0)), Square(), ridge=0.0, samples_per_dim=0.5)
    Traceback (most recent call last):
        ...
    sparsetoken.model.errors.NoMinimiserError: solve: with ridge=0 and samples_per_dim=0.5 (at most
    1) infinitely many readouts interpolate the data under Square(); use a positive ridge
    """


class IncompleteError(RuntimeError):
    """Results are missing: no verdict is given without them.

    >>> raise IncompleteError("reproduce: 1 of 90 rows has no result")
    Traceback (most recent call last):
        ...
    sparsetoken.model.errors.IncompleteError: reproduce: 1 of 90 rows has no result
    """

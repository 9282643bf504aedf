"""Errors with a class: the caller's value, or a number that cannot be vouched for.

Whoever turns errors into sentences (the command line, the explorer, a sweep) does so for these
alone. Anything else that is raised is a bug of this package and is shown as one.
"""

from __future__ import annotations


class InvalidInput(ValueError):
    """A value the caller gave; the message names the field, the value and what is allowed.

    >>> from sparsetoken import Task
    >>> Task(length=0, sparsity=1, strength=5.0)
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: Task: length must be a whole number between 1 and 1000000000, got 0
    """

    __module__ = "sparsetoken"  # where users find it


class ConvergenceError(RuntimeError):
    """A solver stopped short of its certified residual; no number is returned in its place.

    >>> raise ConvergenceError("solve: residual 1e-3, 1e-09 is required")
    Traceback (most recent call last):
        ...
    sparsetoken.ConvergenceError: solve: residual 1e-3, 1e-09 is required
    """

    __module__ = "sparsetoken"


class NoMinimiserError(ValueError):
    """The objective has no (unique) minimiser for these parameters, so there is nothing to find.

    >>> from sparsetoken import Pooled, Square, Task, solve
    >>> solve(Pooled().law(Task(2, 1, 1.0)), Square(), ridge=0.0, samples_per_dim=0.5)
    Traceback (most recent call last):
        ...
    sparsetoken.NoMinimiserError: solve: with ridge=0 and samples_per_dim=0.5 (at most 1)
    infinitely many readouts interpolate the data under Square(); use a positive ridge
    """

    __module__ = "sparsetoken"


class IncompleteError(RuntimeError):
    """Results are missing: no verdict is given without them.

    >>> raise IncompleteError("reproduce: 1 of 90 rows has no result")
    Traceback (most recent call last):
        ...
    sparsetoken.IncompleteError: reproduce: 1 of 90 rows has no result
    """

    __module__ = "sparsetoken"


class WorkerDied(RuntimeError):
    """A process that computed something was killed, or ran out of memory.

    >>> raise WorkerDied("simulate: a process died at repeat 3")
    Traceback (most recent call last):
        ...
    sparsetoken.WorkerDied: simulate: a process died at repeat 3
    """

    __module__ = "sparsetoken"

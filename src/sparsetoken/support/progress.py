"""A progress bar for long work, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Advance(Protocol):
    """One more is done, well or not."""

    def __call__(self, failed: bool = False) -> None: ...


@contextmanager
def byte_bar(total: int, text: str, show: bool) -> Iterator[Callable[[int], None]]:
    """Yields a function that advances the bar by so many bytes; without `show` it does nothing."""
    if not show:
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        "{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    plain: dict[str, Any] = {"redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, console=Console(stderr=True), **plain) as bar:
        task = bar.add_task(text, total=total)
        yield lambda size: bar.update(task, advance=size)


@contextmanager
def progress_bar(total: int, text: str, show: bool, done: int = 0) -> Iterator[Advance]:
    """Yields a function that advances the bar by one; without `show` it does nothing.

    `done` of the total were there before: they say nothing of the speed.
    """
    if not show:
        yield lambda failed=False: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        "{task.fields[failed]}",
        TimeRemainingColumn(),
    )
    failures = 0
    # not in the way of others' output: forked workers would inherit the locks
    plain: dict[str, Any] = {"redirect_stdout": False, "redirect_stderr": False}
    with Progress(*columns, console=Console(stderr=True), **plain) as bar:
        task = bar.add_task(text, total=total, completed=done, failed="")

        def advance(failed: bool = False) -> None:
            nonlocal failures
            failures += failed
            bar.update(task, advance=1, failed=f"{failures} failed" if failures else "")

        yield advance

r"""How a source of bags is gone over: by whom, where, with how much memory, with what kept.

Parts go to threads, processes or any executor of `concurrent.futures` (Dask's as well), a bounded
number at a time, and come back in order: sums have the same digits whoever computed them. BLAS has
one thread meanwhile, as the parts are what is shared out.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from sparsetoken.bags.bags import Arrays
from sparsetoken.support.blas import one_blas_thread
from sparsetoken.support.errors import InvalidInput
from sparsetoken.support.numerics import NUMERICS
from sparsetoken.support.processes import Reply, killed_workers, results
from sparsetoken.support.whole_files import whole_file

_AHEAD = 64  # parts under way in an executor: more than clusters have workers, not much memory
_TRIES = 3  # of a part whose process dies, or whose result is lost


@dataclass(frozen=True, eq=False)
class Walking:
    """How passes over a source are made; `BagSource.walked` explains the fields."""

    executor: Executor | int | None = None
    device: str | None = None
    memory: int = 1 << 30  # bytes
    kept_in: Path | None = None
    progress: bool = False

    def results(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """What the function gives for each item, in order."""
        if self.executor == 0:
            with one_blas_thread():
                yield from map(function, items)
        elif isinstance(self.executor, int):
            yield from _in_processes(function, items, self.executor)
        else:
            given = self.executor
            pool: AbstractContextManager[Executor] = (
                ThreadPoolExecutor(_processors()) if given is None else nullcontext(given)
            )
            with one_blas_thread(), pool as executor:
                yield from _in_order(function, items, executor)

    def kept(self, about: Callable[[], bytes], make: Callable[[], Arrays]) -> Arrays:
        """The result of a pass, from its file if it was made before."""
        if self.kept_in is None:
            return make()
        path = self.kept_in / f"{hashlib.sha256(about()).hexdigest()[:32]}.npz"
        if not path.exists():
            arrays = make()
            with whole_file(path) as draft, draft.open("wb") as stream:
                np.savez(stream, **arrays)  # type: ignore[arg-type]
            return arrays
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise InvalidInput(
                f"{path}: what was kept of a pass is damaged, delete it ({error})"
            ) from error


def fingerprint(kernel: Any, names: tuple[str, ...], keys: tuple[Any, ...], lengths: Any) -> bytes:
    """All that the result of a pass depends on, but for how it is made."""
    files = [_file(key) for key in keys]
    return pickle.dumps((NUMERICS, type(kernel).__name__, kernel, names, files, lengths.tolist()))


def _file(key: Any) -> str:
    """A file by its size and time as well: it may have been written anew."""
    if isinstance(key, Path) and key.exists():
        status = key.stat()
        return f"{key} {status.st_size} {status.st_mtime_ns}"
    return " ".join(map(_file, key)) if isinstance(key, tuple) else repr(key)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_order(
    function: Callable[[Any], Any], items: Iterable[Any], executor: Executor
) -> Iterator[Any]:
    """By an executor, so many ahead."""
    ahead: deque[tuple[Any, Future[Reply]]] = deque()
    task = _Answered(function)
    try:
        for item in items:
            ahead.append((item, executor.submit(task, item)))
            if len(ahead) == _AHEAD:
                yield _result(executor, task, *ahead.popleft())
        while ahead:
            yield _result(executor, task, *ahead.popleft())
    finally:
        for _, future in ahead:
            future.cancel()


def _result(executor: Executor, task: _Answered, item: Any, future: Future[Reply]) -> Any:
    """Of a future, or of another in its place: a worker that dies as it hands its result over
    leaves one that is broken."""
    for tries_left in reversed(range(_TRIES)):
        try:
            reply = future.result()
            break
        except Exception as error:  # the executor's own: the function's come as replies
            if not tries_left or isinstance(error, killed_workers()):
                raise
            future = executor.submit(task, item)
    if reply.error is not None:
        raise reply.error
    return reply.value


@dataclass(frozen=True, eq=False)
class _Answered:
    """A function whose errors are replies."""

    function: Callable[[Any], Any]

    def __call__(self, item: Any) -> Reply:
        try:
            return Reply(self.function(item))
        except Exception as error:
            return Reply(None, error)


def _in_processes(
    function: Callable[[Any], Any], items: Iterable[Any], processes: int
) -> Iterator[Any]:
    """By processes, which may die; results that come early wait for their turn."""
    early, turn = {}, 0
    numbered = ([_Numbered(number, function, item)] for number, item in enumerate(items))
    for item, reply in results(_Numbered.run, numbered, processes, _TRIES):
        if reply.error is not None:
            raise reply.error
        early[item.number] = reply.value
        while turn in early:
            yield early.pop(turn)
            turn += 1


@dataclass(frozen=True, eq=False)
class _Numbered:
    number: int
    function: Callable[[Any], Any]
    item: Any

    def run(self) -> Any:
        return self.function(self.item)

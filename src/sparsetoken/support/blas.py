"""How many threads BLAS may use.

The setting belongs to the whole process, and threads of one process share it: whoever wants one
thread counts himself in and out, and only the last to leave puts it back.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any


def blas_threads(count: int) -> AbstractContextManager[Any]:
    """`count` threads inside the with block."""
    return _controller("torch" in sys.modules).limit(limits=count)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """One thread while anyone is inside: the same sums in the same order on every machine."""
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = blas_threads(1)
            _limit.__enter__()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.__exit__(None, None, None)


_lock = threading.Lock()
_inside = 0
_limit: Any = None


@cache
def _controller(with_torch: bool) -> Any:
    """Of the libraries that are loaded; torch, if it comes, brings its own."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

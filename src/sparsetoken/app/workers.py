"""Heavy work in a process of its own, so that drafts stay quick; outdated work is not begun."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from typing import Any

from sparsetoken.app.state import State
from sparsetoken.support.errors import ConvergenceError, InvalidInput, NoMinimiserError

_LONGEST_WAIT = 90.0  # seconds
NAMED = (InvalidInput, NoMinimiserError, ConvergenceError)  # told on the page; all else is a bug


def end_with_parent() -> None:
    """In a process of the server: the end of the server, however it comes, is its end too."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _begin() -> None:
    """Drafts and the browser go first."""
    end_with_parent()
    if hasattr(os, "nice"):
        os.nice(10)


class Worker:
    """One process for the exact numbers of all pages; the newest wish of a page counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wishes: dict[tuple[str, str], Future[Any]] = {}
        self._pool = self._new_pool()

    @staticmethod
    def _new_pool() -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin)

    def run(self, page: str, work: Callable[[State], dict[str, Any]], state: State) -> Any:
        """What the work gives, or a sentence why it does not; {} if the page has moved on."""
        wish = (page, work.__name__)
        with self._lock:
            older = self._wishes.pop(wish, None)
            if older is not None:
                older.cancel()
            try:
                future = self._pool.submit(work, state)
            except BrokenExecutor:
                self._pool = self._new_pool()
                future = self._pool.submit(work, state)
            self._wishes[wish] = future
        try:
            return future.result(timeout=_LONGEST_WAIT)
        except CancelledError:
            return {}
        except TimeoutError:
            future.cancel()
            return {"message": "the server is busy with other pages: try again in a moment"}
        except NAMED as error:
            return {"message": str(error)}
        finally:
            with self._lock:
                if self._wishes.get(wish) is future:
                    del self._wishes[wish]

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(wait=False, cancel_futures=True)

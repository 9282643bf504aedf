"""Heavy work in a process of its own, so that drafts stay quick; outdated work is not begun."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from sparsetoken.app.state import State
from sparsetoken.support.errors import ConvergenceError, InvalidInput, NoMinimiserError, WorkerDied
from sparsetoken.support.plugins import PLUGINS, import_plugins
from sparsetoken.support.processes import Worker

_LONGEST_WAIT = 90.0  # seconds, behind other pages
NAMED = (InvalidInput, NoMinimiserError, ConvergenceError)  # told on the page; all else is a bug


class Calculator:
    """One process for the exact numbers of all pages; the newest wish of a page counts."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._waiting: dict[tuple[str, str], object] = {}  # wishes in order, each with its request
        self._busy = False
        self._worker: Worker | None = None

    def run(self, page: str, work: Callable[[State], dict[str, Any]], state: State) -> Any:
        """What the work gives, or a sentence why it does not; {} if the page has moved on."""
        wish, request = (page, work.__name__), object()

        def outdated() -> bool:
            return self._waiting.get(wish) is not request

        def first() -> bool:
            return not self._busy and next(iter(self._waiting)) == wish

        with self._turn:
            self._waiting.pop(wish, None)
            self._waiting[wish] = request
            self._turn.notify_all()
            if not self._turn.wait_for(lambda: outdated() or first(), _LONGEST_WAIT):
                del self._waiting[wish]
                return {"message": "the server is busy with other pages: try again in a moment"}
            if outdated():
                return {}
            del self._waiting[wish]
            self._busy = True
        try:
            if self._worker is None or not self._worker.alive:
                self._worker = Worker("spawn")  # the server has threads, which a fork would not
                self._worker.run(import_plugins, PLUGINS)  # first: the controls name their classes
                self._worker.run(_let_others_go_first)
            return self._worker.run(work, state)
        except NAMED as error:
            return {"message": str(error)}
        except WorkerDied as error:
            return {"message": f"{error} (killed, or out of memory): try again"}
        finally:
            with self._turn:
                self._busy = False
                self._turn.notify_all()

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.kill()


def _let_others_go_first() -> None:
    """Drafts and the browser."""
    if hasattr(os, "nice"):
        os.nice(10)

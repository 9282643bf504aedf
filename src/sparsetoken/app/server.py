"""The server of the explorer: every value is checked, work is bounded, no page is remembered.

A page loads its files, and asks over one WebSocket (`sessions.py`); a single answer can be had by
its address as well. What is sent becomes a `State` or a sentence; anything else that goes wrong is
a bug: status 500, with a traceback in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from sparsetoken.app.answers import KINDS, MAP_FIELDS, SAMPLE_FIELDS, SIMULATED_FIELDS
from sparsetoken.app.guard import Guard
from sparsetoken.app.sessions import Session, Work
from sparsetoken.app.simulations import Simulations
from sparsetoken.app.state import (
    CLASSIFIER_WORDS,
    CONTROLS,
    DEFAULTS,
    METRIC_WORDS,
    METRICS,
    VIEWS,
    State,
)
from sparsetoken.app.workers import NAMED, Outdated, Pool
from sparsetoken.model.names import CLASSIFIERS
from sparsetoken.support.errors import WorkerDied

_STATIC = Path(__file__).parent / "static"
_MOST_PAGES = 256  # connected at once
_LOG = logging.getLogger("sparsetoken.app")
_FIRST_ASKED = ("curves_draft", "code", "curves", "table", "story")  # of the page as it is at first
# few controls first, the rest in groups behind "more"
FIRST = ("length", "sparsity", "strength", "prevalence", "query_samples", "readout_samples")
GROUPS = {
    "Tokens": ("power_law", "signal_spread", "token_correlation"),
    "Training": ("ridge", "loss", "readout_step", "bias_step", "query_step"),
    "Query": ("query", "cosine", "sharpness", "weighting"),
    "Simulation and plan": ("dim", "repeats", "target"),
    "Map": ("across", "up"),
}


def page_settings() -> dict[str, Any]:
    """What the page has to know of controls, views and kinds of answers."""
    return {
        "version": version("sparsetoken"),
        "defaults": DEFAULTS,
        "controls": {name: vars(control) for name, control in CONTROLS.items()},
        "first": FIRST,
        "groups": GROUPS,
        "views": VIEWS,
        "metrics": METRICS,
        "metric_words": METRIC_WORDS,
        "classifier_words": CLASSIFIER_WORDS,
        "classifiers": list(CLASSIFIERS),
        "kinds": {
            name: {"fields": kind.fields, "views": kind.views, "quick": kind.quick}
            for name, kind in KINDS.items()
        } | {
            "map": {"fields": MAP_FIELDS, "views": ("map",), "quick": False},
            "sample": {"fields": SAMPLE_FIELDS, "views": ("sample",), "quick": False},
        },
        "simulated": SIMULATED_FIELDS,
    }  # fmt: skip


def make_app(host: str = "127.0.0.1") -> Starlette:
    """The application, for one event loop; its processes begin here and end with its lifespan."""
    exact = Pool(max(3, min(6, os.cpu_count() or 3)))
    quick = Pool(1, gentle=False)
    works: list[Work] = []
    numbers = count()
    pages = 0

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        works.append(Work(exact, quick, Simulations()))
        warm = [asyncio.create_task(_warm(works[0], name)) for name in _FIRST_ASKED]
        try:
            yield
        finally:
            for task in warm:
                task.cancel()
            works[0].close()

    async def home(_: Request) -> Response:
        settings = json.dumps(page_settings()).replace("<", "\\u003c")
        page = (_STATIC / "index.html").read_text(encoding="utf-8")
        return HTMLResponse(page.replace("{settings}", settings))

    async def one_answer(request: Request) -> Response:
        """A kind of answer, or of the story, or of the sample, for the state in the address."""
        kind = request.path_params["kind"]
        if kind not in (*KINDS, "story", "sample"):
            return PlainTextResponse("there is no such answer", 404)
        try:
            state = State.from_query(request.url.query)
            return JSONResponse(await works[0].answer(f"request {next(numbers)}", kind, state))
        except NAMED as error:
            return PlainTextResponse(str(error), 400)
        except WorkerDied as error:
            return PlainTextResponse(f"{error} (killed, or out of memory): try again", 503)
        except asyncio.CancelledError:
            return PlainTextResponse("the explorer has ended", 503)

    async def talk(socket: WebSocket) -> None:
        nonlocal pages
        if pages >= _MOST_PAGES:
            await socket.close(1013, "too many pages are open")
            return
        pages += 1
        try:
            await Session(socket, works[0], f"page {next(numbers)}").run()
        finally:
            pages -= 1

    async def broken(_: Request, error: Exception) -> Response:
        _LOG.error("a bug", exc_info=error)
        return PlainTextResponse("the explorer has a bug: its log has the traceback", 500)

    app = Starlette(
        routes=[
            Route("/", home),
            Route("/answers/{kind}", one_answer),
            Route("/{kind:str}.json", one_answer),
            WebSocketRoute("/talk", talk),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ],
        middleware=[Middleware(Guard, host=host)],
        exception_handlers={Exception: broken},
        lifespan=lifespan,
    )
    app.state.pools = exact, quick
    return app


async def _warm(work: Work, kind: str) -> None:
    """Answers of the first page that is opened, before it is."""
    with contextlib.suppress(Outdated, WorkerDied, *NAMED):
        await work.answer("", kind, State())

"""`Session`: one page at its WebSocket, from the first message to the last.

The page sends {"ask": kind, "id": number, "words": {…}} and is answered by {"ask", "id", "answer"},
or {"ask", "id", "refused": a sentence}, or {"ask", "id", "bug": …} where the log has the traceback.
A kind's newer wish takes the place of an older one, which is then not answered. A map and a
simulation are answered part by part, the last with "done". "alive" is said every other second, so
that a page notices a server that has stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from sparsetoken.app import maps
from sparsetoken.app.answers import (
    KINDS,
    MAP_FIELDS,
    SAMPLE_FIELDS,
    SIMULATED_FIELDS,
    Answer,
    Kind,
    answer,
    map_cells,
    sample,
    story,
)
from sparsetoken.app.simulations import Simulations
from sparsetoken.app.state import State
from sparsetoken.app.workers import NAMED, Outdated, Pool
from sparsetoken.support.errors import InvalidInput, WorkerDied

MOST_BYTES = 1 << 14  # of a message
_PULSE = 2.0  # seconds
_PATIENCE = 20.0  # seconds for a page to take a message
_TOLD = 0.25  # seconds between parts of an answer
_LOG = logging.getLogger("sparsetoken.app")
_URGENCY = {name: place for place, name in enumerate(KINDS)} | {"sample": 4, "map": 40, "story": 8}


@dataclass(frozen=True)
class Work:
    """Who works for the sessions."""

    exact: Pool
    quick: Pool
    simulations: Simulations

    async def answer(self, page: str, kind: str, state: State) -> Answer:
        """A kind of answer; also of the sample and the story."""
        if kind == "story":
            return await self._exact(page, kind, story)
        if kind == "sample":
            reduced = State(**state.values(SAMPLE_FIELDS))
            return await self._exact(page, kind, sample, reduced)
        what = KINDS[kind]
        if what.quick:
            return await self._quick(page, kind, what, state)
        return await self._exact(page, kind, answer, kind, what.state(state), long=what.long)

    async def _quick(self, page: str, kind: str, what: Kind, state: State) -> Answer:
        made: Answer = await self.quick.ask((page, kind), answer, kind, what.state(state))
        return made

    async def _exact(
        self, page: str, kind: str, work: Any, *arguments: Any, long: bool = False
    ) -> Answer:
        made: Answer = await self.exact.ask(
            (page, kind), work, *arguments, urgency=_URGENCY[kind], long=long
        )
        return made

    async def map(self, page: str, state: State) -> AsyncGenerator[Answer, None]:
        """First the axes, then cells as they are known: drafts of all, then exact ones."""
        axes = maps.axes(state)
        yield {"x": axes.x, "y": axes.y, "cells": []}
        places = maps.order(len(axes.x), len(axes.y))
        states = {at: maps.there(state, axes.x[at[0]], axes.y[at[1]]) for at in places}
        real = [at for at in places if states[at] is not None]
        size = len(axes.x)
        parts = [(True, real[k : k + size]) for k in range(0, len(real), size)]
        parts += [(False, real[k : k + 4]) for k in range(0, len(real), 4)]

        async def part(number: int) -> tuple[bool, list[tuple[int, int]], list[maps.Cell]]:
            draft, ats = parts[number]
            cells = tuple(replace(states[at], view="curves") for at in ats)  # type: ignore[type-var]
            values = await self.exact.ask(
                (page, f"map {number}"), map_cells, cells, draft, urgency=_URGENCY["map"]
            )
            return draft, ats, values

        tasks = [asyncio.create_task(part(number)) for number in range(len(parts))]
        try:
            for finished in asyncio.as_completed(tasks):
                draft, ats, values = await finished
                cells = [[*at, *value] for at, value in zip(ats, values, strict=True)]
                yield {"cells": cells, "draft": draft, "count": len(real)}
        finally:
            for task in tasks:
                task.cancel()

    def close(self) -> None:
        """End all processes."""
        self.exact.close()
        self.quick.close()
        self.simulations.close()


class Session:
    """One page."""

    def __init__(self, socket: WebSocket, work: Work, page: str) -> None:
        self._socket, self._work, self._page = socket, work, page
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Until the page goes."""
        await self._socket.accept()
        pulse = asyncio.create_task(self._pulse())
        try:
            while True:
                message = await self._socket.receive_text()
                try:
                    self._take(json.loads(message))
                except (ValueError, TypeError, RecursionError) as error:
                    _LOG.info("a message that makes no sense: %s", error)
                    await self._socket.close(1003, "this makes no sense to the explorer")
                    return
        except (WebSocketDisconnect, KeyError, RuntimeError):
            pass  # gone, or a message that is no text
        finally:
            pulse.cancel()
            for tasks in self._tasks.values():
                for task in tasks:
                    task.cancel()

    def _take(self, message: Any) -> None:
        kind, number, words = message["ask"], message["id"], message.get("words")
        if not isinstance(number, int):
            raise TypeError("id must be a whole number")
        if kind == "cancel":
            self._end("simulate")
            return
        if kind not in (*KINDS, "map", "sample", "simulate"):
            raise ValueError("there is no such answer")
        if kind in ("map", "simulate"):
            self._end(kind)
        task = asyncio.create_task(self._answer(kind, number, words))
        tasks = self._tasks.setdefault(kind, set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _end(self, kind: str) -> None:
        for task in self._tasks.get(kind, ()):
            task.cancel()

    async def _answer(self, kind: str, number: int, words: Any) -> None:
        reply: dict[str, Any] = {"ask": kind, "id": number}
        try:
            if not isinstance(words, dict):
                raise InvalidInput("a state must be names with values")
            state = State.of(words)
            if kind == "map":
                base = State(**state.values(MAP_FIELDS))
                await self._parts(reply, self._work.map(self._page, base))
                return
            if kind == "simulate":
                await self._parts(reply, self._simulate(state))
                return
            reply["answer"] = await self._work.answer(self._page, kind, state)
        except Outdated:
            return
        except NAMED as error:
            reply["refused"] = str(error)
        except WorkerDied as error:
            reply["refused"] = f"{error} (killed, or out of memory): try again"
        except Exception as error:
            _LOG.error("a bug", exc_info=error)
            reply["bug"] = "the explorer has a bug: its log has the traceback"
        await self._say(reply)

    async def _simulate(self, state: State) -> AsyncGenerator[Answer, None]:
        base = State(**state.values((*SIMULATED_FIELDS, "repeats")))
        simulations = self._work.simulations
        yield {"total": simulations.total(base), "dots": []}
        async with contextlib.aclosing(simulations.run(base)) as dots:
            async for dot in dots:
                yield {"dots": [dot]}

    async def _parts(self, reply: dict[str, Any], parts: AsyncGenerator[Answer, None]) -> None:
        """Some at once, as they come: lists grow, all else is the newest."""
        loop = asyncio.get_running_loop()
        waiting: list[Answer] = []
        sent = 0.0
        try:
            async for part in parts:
                waiting.append(part)
                if loop.time() - sent >= _TOLD:
                    await self._say(reply | {"parts": waiting})
                    waiting, sent = [], loop.time()
        finally:
            await parts.aclose()
        await self._say(reply | {"parts": waiting, "done": True})

    async def _pulse(self) -> None:
        while True:
            await self._say({"ask": "alive", "id": 0})
            await asyncio.sleep(_PULSE)

    async def _say(self, message: Any) -> None:
        """One message after another; a page that does not take them is left."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            async with self._sending:
                try:
                    text = json.dumps(message, separators=(",", ":"))
                    await asyncio.wait_for(self._socket.send_text(text), _PATIENCE)
                except TimeoutError:
                    await self._socket.close(1008)

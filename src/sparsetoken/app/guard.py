"""Who may ask, and for how long: hosts and origins, headers, connections that hang.

A page of another site can reach this machine by a name of its own that it points here (DNS
rebinding), or open a WebSocket across origins: the name that is asked for must be one of ours, and
a browser that says where it comes from must come from here. A number is no name: whoever listens
beyond this machine answers to its addresses too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from uvicorn.protocols.http.h11_impl import H11Protocol

_MOST_LETTERS = 4000  # of an address
_REQUEST = 10.0  # seconds for a request to be complete
_RESPONSE = 120.0  # seconds for a response to be taken
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class Guard:
    """In front of the application."""

    def __init__(self, app: ASGIApp, host: str = "127.0.0.1") -> None:
        self._app = app
        self._names = {"localhost", host.lower()}
        self._beyond = not _loopback(host)
        if self._beyond:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        if (refusal := self._refusal(scope)) is None:
            await self._app(scope, receive, guarded)
        elif scope["type"] == "websocket":
            await WebSocketClose(1008, refusal[1])(scope, receive, send)
        else:
            status, words = refusal
            await PlainTextResponse(words, status)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._ours(hosts[0]):
            return 421, "this name is not the explorer's"
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != hosts[0].lower():
            return 403, "another site may not ask the explorer"
        if origin is None and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            if headers.get("sec-fetch-mode") != "navigate":
                return 403, "another site may not ask the explorer"
        if len(scope.get("query_string", b"")) > _MOST_LETTERS:
            return 414, f"an address must have at most {_MOST_LETTERS} letters"
        return None

    def _ours(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        return name in self._names or _loopback(name) or (self._beyond and _number(name))


def _number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _loopback(host: str) -> bool:
    return host == "localhost" or (_number(host) and ipaddress.ip_address(host).is_loopback)


class Patient(H11Protocol):
    """HTTP connections with deadlines: for a request to be said, and for its answer to be taken."""

    _deadline: asyncio.TimerHandle | None = None
    _answering = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        super().handle_websocket_upgrade(event)
        self._stop()  # another protocol goes on, which has pings

    def _watch(self) -> None:
        """A new deadline only where the connection begins to wait for something else."""
        if self.transport.get_protocol() is not self:
            return
        answering = self.cycle is not None and not self.cycle.response_complete
        if self._deadline is not None and answering == self._answering:
            return
        self._stop()
        self._answering = answering
        patience = _RESPONSE if answering else _REQUEST
        self._deadline = self.loop.call_later(patience, self.transport.abort)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

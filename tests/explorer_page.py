"""The explorer as its command serves it, and its page in a browser, for tests and measurements."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from urllib.parse import urlsplit

PATIENCE = 90.0  # seconds; the machine may be busy


class Server:
    """The command in a process of its own; it can be killed, stopped and started again."""

    def __init__(self, *options: str, code: str = "") -> None:
        command = ["-c", code] if code else ["-m", "sparsetoken", "explore", "--no-browser"]
        self._command = [sys.executable, *command]
        self.log = ""
        self.start([] if options == ("-",) else options or ("--port", "0"))

    def start(self, options=None) -> None:
        given = ("--port", str(urlsplit(self.address).port)) if options is None else options
        self.process = subprocess.Popen(
            [*self._command, *given], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()
        assert line.startswith("http://"), line + self.process.stderr.read()
        self.address = line.split()[0]

    def workers(self) -> list[int]:
        """The processes it has begun."""
        asked = ["pgrep", "-P", str(self.process.pid)]
        listed = subprocess.run(asked, capture_output=True, text=True)
        return [int(word) for word in listed.stdout.split()]

    def kill(self) -> None:
        self.process.kill()
        self.log += self.process.communicate()[1]

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def end(self) -> None:
        """As Ctrl-C does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.log += self.process.communicate(timeout=20)[1]
            except subprocess.TimeoutExpired:
                self.kill()


@contextlib.contextmanager
def serving(*options: str, code: str = ""):
    server = Server(*options, code=code)
    try:
        yield server
    finally:
        server.end()


def until(page, expression: str, argument=None, patience: float = PATIENCE):
    """The first true value of an expression; the page's policy forbids Playwright's own way."""
    end = time.monotonic() + patience
    while True:
        value = page.evaluate(expression, argument)
        if value:
            return value
        if time.monotonic() > end:
            state = page.evaluate("JSON.stringify(window.explorer)")
            raise AssertionError(f"never: {expression} {argument}; {state}")
        time.sleep(0.02)


def words_of(page) -> dict:
    return page.evaluate("window.explorer.words")


def wait(page, said=("exact",), patience: float = PATIENCE, **wanted) -> None:
    """Until the page says so of these words."""
    until(
        page,
        """([said, wanted]) => {
            const { words, status } = window.explorer ?? {};
            return words && said.includes(status.word)
                && Object.entries(wanted).every(([name, value]) => words[name] === value);
        }""",
        [list(said), wanted],
        patience,
    )


def watched(page, address: str) -> list[str]:
    """What goes wrong on a page, as it does: errors, answers with an error, other machines."""
    wrong: list[str] = []

    def asked(request):
        elsewhere = urlsplit(request.url).hostname != urlsplit(address).hostname
        if elsewhere and not request.url.startswith(("data:", "blob:")):
            wrong.append(request.url)

    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", asked)
    page.on("response", lambda r: wrong.append(r.url) if r.status >= 400 else None)
    return wrong


class Meddler:
    """Between page and server: delays, fails, swaps or loses answers of a kind."""

    def __init__(self, page) -> None:
        self.rule = lambda message: "pass"
        self.held: list = []
        page.route_web_socket("**/talk", self._connect)

    def _connect(self, client) -> None:
        server = client.connect_to_server()
        self.client = client

        def take(text):
            message = json.loads(text)
            what = self.rule(message)
            if what == "pass":
                client.send(text)
            elif what == "hold":
                self.held.append(text)
            elif what == "bug":
                bug = {"ask": message["ask"], "id": message["id"], "bug": "the explorer has a bug"}
                client.send(json.dumps(bug))

        server.on_message(take)

    def release(self, backwards: bool = False) -> None:
        held, self.held = self.held, []
        for text in reversed(held) if backwards else held:
            self.client.send(text)


def ask(address: str, path: str, **headers):
    """Status, headers and body of an address, whatever the status."""
    from http.client import HTTPConnection

    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers=names)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


class Talk:
    """A page's WebSocket without a page."""

    def __init__(self, address: str, origin: str | None = None, host: str | None = None) -> None:
        import socket

        from wsproto import ConnectionType, WSConnection
        from wsproto.events import Request

        parts = urlsplit(address)
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE)
        self._protocol = WSConnection(ConnectionType.CLIENT)
        extra = [(b"origin", origin.encode())] if origin else []
        hello = Request(host=host or parts.netloc, target="/talk", extra_headers=extra)
        self._socket.sendall(self._protocol.send(hello))
        self._events: list = []
        self._text = ""
        self.opened = self.event()  # accepted or refused

    def say(self, text: str | dict) -> None:
        from wsproto.events import TextMessage

        data = text if isinstance(text, str) else json.dumps(text)
        self._socket.sendall(self._protocol.send(TextMessage(data=data)))

    def event(self):
        """The next event; messages are whole."""
        from wsproto.events import CloseConnection, Ping, TextMessage

        while True:
            while not self._events:
                data = self._socket.recv(1 << 16)
                self._protocol.receive_data(data or None)
                self._events = list(self._protocol.events())
                if not data and not self._events:
                    return CloseConnection(code=1006)
            event = self._events.pop(0)
            if isinstance(event, Ping):
                self._socket.sendall(self._protocol.send(event.response()))
            elif isinstance(event, TextMessage):
                self._text += event.data
                if event.message_finished:
                    text, self._text = self._text, ""
                    return json.loads(text)
            else:
                return event

    def answer(self, kind: str, words: dict, number: int = 1) -> dict:
        """Ask, and wait for the last part of the answer."""
        self.say({"ask": kind, "id": number, "words": words})
        parts: list = []
        while True:
            message = self.event()
            if not isinstance(message, dict):
                continue
            if message["ask"] == kind and message["id"] == number:
                parts += message.get("parts", [])
                if "parts" not in message or message.get("done"):
                    return message | {"parts": parts}

    def close(self) -> None:
        self._socket.close()

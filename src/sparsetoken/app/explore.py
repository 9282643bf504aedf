"""`explore`: serve the page, on this machine alone unless asked otherwise."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable

from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput

PORT = 8642  # so that links survive a restart
_NEXT = 20  # ports that are tried after it


def explore(
    host: str = "127.0.0.1",
    port: int | None = None,
    *,
    browser: bool = True,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the explorer, a page on which the theory moves with its sliders, until interrupted.

    Parameters
    ----------
    host : str
        Where to listen; the default serves this machine alone, "0.0.0.0" lets others in.
    port : int, optional
        0 takes a free one; without it 8642, or the next that is free.
    browser : bool
        Open a browser.
    ready : callable, optional
        Told the address once the page can be opened.

    Returns
    -------
    None
        After Ctrl-C (KeyboardInterrupt goes through); all that the page has begun is ended.

    Raises
    ------
    InvalidInput
        If nothing can listen there, or the extra app is not installed.

    Examples
    --------
    >>> explore(port=99999)
    Traceback (most recent call last):
        ...
    sparsetoken.InvalidInput: explore: port must be a whole number between 0 and 65535, got 99999
    """
    if port is not None:
        port = whole("explore", "port", port, least=0, most=65535)
    try:
        import uvicorn

        from sparsetoken.app.guard import Patient
        from sparsetoken.app.server import make_app
        from sparsetoken.app.sessions import MOST_BYTES
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"explore: {error.name} is missing; install it with pip install 'sparsetoken[app]'"
        ) from error
    app = make_app(host)  # first: what it begins must not have the socket
    try:
        listening = _listen(host, port)
    except InvalidInput:
        for pool in app.state.pools:
            pool.close()
        raise
    address = f"http://{_name(host)}:{listening.getsockname()[1]}/"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not self.started:
                return
            if ready is not None:
                ready(address)
            if browser:
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    with listening:
        config = uvicorn.Config(
            app,
            http=Patient,
            ws="wsproto",
            ws_max_size=MOST_BYTES,
            h11_max_incomplete_event_size=MOST_BYTES,
            limit_concurrency=512,
            timeout_graceful_shutdown=1,
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            lifespan="on",
        )
        Server(config).run(sockets=[listening])


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket at that port, or at the first that is free."""
    error: Exception | None = None
    for place in range(PORT, PORT + _NEXT) if port is None else [port]:
        try:
            family, kind, _, _, where = socket.getaddrinfo(
                host or "0.0.0.0", place, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listening = socket.socket(family, kind)
        except OSError as raised:
            error = raised
            break
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
            listening.listen(512)
        except OSError as raised:
            listening.close()
            error = raised
        else:
            return listening
    words = f"port {port}" if port is not None else f"ports {PORT} to {PORT + _NEXT - 1}"
    raise InvalidInput(f"explore: nothing can listen at {host}, {words} ({error})") from error


def _name(host: str) -> str:
    """What a browser on this machine calls that host."""
    if host in ("0.0.0.0", "::", ""):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host

"""`explore`: serve the page, on this machine alone unless asked otherwise."""

from __future__ import annotations

import socket
import threading
import webbrowser
from collections.abc import Callable

from sparsetoken.support.checks import whole
from sparsetoken.support.errors import InvalidInput


def explore(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    browser: bool = True,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve the explorer, a page on which the theory moves with its sliders, until interrupted.

    Parameters
    ----------
    host : str
        Where to listen; the default serves this machine alone, "0.0.0.0" lets others in.
    port : int
        0 takes a free one.
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
    port = whole("explore", "port", port, least=0, most=65535)
    try:
        from werkzeug.serving import WSGIRequestHandler, make_server

        from sparsetoken.app.server import make_app
    except ModuleNotFoundError as error:
        raise InvalidInput(
            f"explore: {error.name} is missing; install it with pip install 'sparsetoken[app]'"
        ) from error

    class Quiet(WSGIRequestHandler):  # type: ignore[misc]
        protocol_version = "HTTP/1.1"  # one connection for many requests
        disable_nagle_algorithm = True

        def log(self, type: str, message: str, *args: object) -> None:
            """Requests are not worth a line each."""

    app = make_app()
    try:
        server = make_server(host, port, app.server, threaded=True, request_handler=Quiet)
    except (OSError, SystemExit) as error:
        raise InvalidInput(
            f"explore: nothing can listen at {host}, port {port} ({error})"
        ) from error
    address = f"http://{_name(host)}:{server.server_port}/"
    if ready is not None:
        ready(address)
    if browser:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
    try:
        server.serve_forever()
    finally:
        server.server_close()
        app.simulations.close()
        app.worker.close()


def _name(host: str) -> str:
    """What a browser on this machine calls that host."""
    if host in ("0.0.0.0", "::", ""):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host

# SPDX-License-Identifier: MIT
"""What answers for the exporter: metrics, the page, the page's numbers."""

from __future__ import annotations

import json
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

import click
from prometheus_client import CollectorRegistry, make_wsgi_app

from linnapp.commands.screens import hour_page
from linnapp.drive.counters.hour import Hour
from linnapp.drive.counters.looks import WatchedArray
from linnapp.errors import LinnappError

#: The page needs nothing but itself, and may load nothing else.
_PAGE_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:"),
    ("Cache-Control", "no-store"),
)
_TEXT_HEADERS = (("Content-Type", "text/plain"),)
_JSON_HEADERS = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
#: says that the exporter answers, and asks no drive
_HEALTHY = "/-/healthy"


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that go away or stay silent."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Silent(WSGIRequestHandler):
    #: seconds until a client that neither asks nor reads is given up, and its thread with it
    timeout = 30

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of every request."""


def _application(
    registry: CollectorRegistry, hour: Hour | None, every_s: float
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    metrics = make_wsgi_app(registry)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path != _HEALTHY and (path == "/metrics" or hour is None):
            found: Iterable[bytes] = metrics(environ, start)
            return found
        method = environ.get("REQUEST_METHOD", "GET")
        status = "200 OK"
        headers: tuple[tuple[str, str], ...] = _PAGE_HEADERS
        if method not in ("GET", "HEAD"):
            status, headers = "405 Method Not Allowed", (*_TEXT_HEADERS, ("Allow", "GET, HEAD"))
            body = b"ask with GET or HEAD\n"
        elif hour is None or path == _HEALTHY:
            headers = _TEXT_HEADERS
            body = b"healthy\n"
        elif path == "/":
            body = hour_page.page(hour, every_s).encode()
        elif path == "/hour.json":
            headers = _JSON_HEADERS
            body = json.dumps(hour_page.data(hour)).encode()
        else:
            status, headers = "404 Not Found", _TEXT_HEADERS
            body = b"there are /, /hour.json, /metrics and /-/healthy\n"
        # A list of its own: the server adds to it.
        start(status, [*headers, ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    return answer


def _look(hour: Hour, names: list[str], every_s: float) -> None:
    array = WatchedArray(names)
    said = ""
    while True:
        try:
            hour.add(array.look(), time.time())
            said = ""
        except Exception as error:
            # Whatever it is: a thread that ends leaves a page that ages, and nobody is told.
            words = f"{type(error).__name__}: {error}"
            if words != said:
                click.echo(f"linnapp: warning: no look at the drives: {words}", err=True)
            said = words
        time.sleep(every_s)


def serve(
    registry: CollectorRegistry,
    listen: tuple[str, int],
    looks: tuple[list[str], float] | None,
) -> None:
    """Answer at this address and port (0: any that is free) until interrupted.

    With `looks` there is the page of these drives, of all if there are none, and so many seconds
    from one look to the next; without, metrics alone.
    """
    host, port = listen
    hour = None if looks is None else Hour()
    every_s = 0.0 if looks is None else looks[1]
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        server = make_server(
            str(address[0]),
            port,
            _application(registry, hour, every_s),
            _Server6 if family == socket.AF_INET6 else _Server,
            _Silent,
        )
    except OSError as error:
        raise LinnappError(
            f"--listen {host}:{port}: {error.strerror or error}; choose another"
        ) from error
    if hour is not None and looks is not None:
        threading.Thread(target=_look, args=(hour, *looks), daemon=True).start()
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"listening on http://{shown}:{server.server_port}/metrics", err=True)
    if hour is not None:
        click.echo(f"the last hour is on http://{shown}:{server.server_port}/", err=True)
    with server:
        server.serve_forever()

# SPDX-License-Identifier: MIT
"""HTTP server of ``linnapp exporter``: metrics for Prometheus, and a page with the last hour."""

from __future__ import annotations

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

from linnapp.drive.snapshots import WatchedArray
from linnapp.errors import LinnappError
from linnapp.insight.hour_page import Hour, render

#: The page is self-contained, and a browser must not load anything else for it.
_PAGE_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:"),
    ("Cache-Control", "no-store"),
)
_TEXT_HEADERS = (("Content-Type", "text/plain"),)
#: Path of a health check that accesses no drive.
_HEALTHY = "/-/healthy"


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect or send nothing."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Server6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    #: seconds after which an idle client is disconnected and its thread ends
    timeout = 30

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""


def _application(
    registry: CollectorRegistry, hour: Hour, every_s: float
) -> Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]]:
    metrics = make_wsgi_app(registry)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        method = environ.get("REQUEST_METHOD", "GET")
        if path == "/metrics":
            found: Iterable[bytes] = metrics(environ, start)
            return found
        status = "200 OK"
        headers: tuple[tuple[str, str], ...] = _TEXT_HEADERS
        if method not in ("GET", "HEAD"):
            status, headers = "405 Method Not Allowed", (*_TEXT_HEADERS, ("Allow", "GET, HEAD"))
            body = b"use GET or HEAD\n"
        elif path == _HEALTHY:
            body = b"healthy\n"
        elif path == "/":
            headers = _PAGE_HEADERS
            body = render(hour, every_s).encode()
        else:
            status = "404 Not Found"
            body = b"available: /, /metrics and /-/healthy\n"
        # The server appends to this list, so it must be a copy.
        start(status, [*headers, ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    return answer


def _take_snapshots(hour: Hour, names: list[str], every_s: float) -> None:
    array = WatchedArray(names)
    last_warning = ""
    while True:
        try:
            hour.add(array.take_snapshot(), time.time())
            last_warning = ""
        except Exception as error:
            # If this thread ended, the page would become stale without any message.
            warning = f"{type(error).__name__}: {error}"
            if warning != last_warning:
                click.echo(f"linnapp: warning: cannot read the drives: {warning}", err=True)
            last_warning = warning
        time.sleep(every_s)


def serve(
    registry: CollectorRegistry, listen: tuple[str, int], names: list[str], every_s: float
) -> None:
    """Serve at an address and port until interrupted. Port 0 selects a free one.

    The page shows the drives of `names`, or all. A snapshot is taken every `every_s` seconds.
    """
    host, port = listen
    hour = Hour()
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        server = make_server(
            str(address[0]),
            port,
            _application(registry, hour, every_s),
            _Server6 if family == socket.AF_INET6 else _Server,
            _QuietHandler,
        )
    except OSError as error:
        raise LinnappError(
            f"--listen {host}:{port}: {error.strerror or error}; choose another"
        ) from error
    threading.Thread(target=_take_snapshots, args=(hour, names, every_s), daemon=True).start()
    shown = f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}"
    click.echo(f"listening on {shown}/metrics\nthe last hour is on {shown}/", err=True)
    with server:
        server.serve_forever()

# SPDX-License-Identifier: MIT
"""HTTP server of ``linnapp exporter``: metrics for Prometheus, and a page with the last hour.

The page is one HTML file that loads nothing else; ``/hour.json`` has the same values.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.types import StartResponse, WSGIEnvironment

import click
from prometheus_client import CollectorRegistry, make_wsgi_app

from linnapp.drive.hour import MINUTES, Hour, Minute
from linnapp.drive.snapshots import DriveRow, WatchedArray
from linnapp.errors import LinnappError
from linnapp.insight.top import format_age

if TYPE_CHECKING:
    import jinja2


#: the page is self-contained and may load nothing else
_PAGE_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:"),
    ("Cache-Control", "no-store"),
)
_TEXT_HEADERS = (("Content-Type", "text/plain"),)
_JSON_HEADERS = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
#: health check that accesses no drive
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
            body = b"use GET or HEAD\n"
        elif hour is None or path == _HEALTHY:
            headers = _TEXT_HEADERS
            body = b"healthy\n"
        elif path == "/":
            body = render_page(hour, every_s).encode()
        elif path == "/hour.json":
            headers = _JSON_HEADERS
            body = json.dumps(page_data(hour)).encode()
        else:
            status, headers = "404 Not Found", _TEXT_HEADERS
            body = b"available: /, /hour.json, /metrics and /-/healthy\n"
        # The server appends to this list, so it must be a copy.
        start(status, [*headers, ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    return answer


def _take_snapshots(hour: Hour, names: list[str], every_s: float) -> None:
    array = WatchedArray(names)
    last_warning = ""
    while True:
        try:
            hour.add(array.look(), time.time())
            last_warning = ""
        except Exception as error:
            # If this thread ended, the page would become stale without any message.
            warning = f"{type(error).__name__}: {error}"
            if warning != last_warning:
                click.echo(f"linnapp: warning: cannot read the drives: {warning}", err=True)
            last_warning = warning
        time.sleep(every_s)


def serve(
    registry: CollectorRegistry,
    listen: tuple[str, int],
    page: tuple[list[str], float] | None,
) -> None:
    """Serve at an address and port until interrupted. Port 0 selects a free one.

    `page` contains the drives of the page, all if empty, and the seconds between two snapshots of
    them. Without it only metrics are served.
    """
    host, port = listen
    hour = None if page is None else Hour()
    every_s = 0.0 if page is None else page[1]
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
    if hour is not None and page is not None:
        threading.Thread(target=_take_snapshots, args=(hour, *page), daemon=True).start()
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"listening on http://{shown}:{server.server_port}/metrics", err=True)
    if hour is not None:
        click.echo(f"the last hour is on http://{shown}:{server.server_port}/", err=True)
    with server:
        server.serve_forever()


#: width of a minute in percent of the panel
_MINUTE_WIDTH = 100 / MINUTES

#: number of missed snapshots after which the page shows the age of its values
_STALE_AFTER = 3

_TEMPLATE = files("linnapp").joinpath("monitoring", "hour.html.j2")


@dataclasses.dataclass(frozen=True)
class Scale:
    """Logarithmic axis of latencies in whole decades, common to all drives."""

    #: `low`, `high`: exponents of the ends in us
    low: int
    high: int

    @classmethod
    def containing(cls, minutes: Iterable[Minute]) -> Scale:
        """Return the shortest axis that includes all latencies."""
        known = [us for m in minutes for us in (m.read_us, m.p99_us) if us]
        low = max(0, math.floor(math.log10(min(known, default=10))))
        return cls(low, max(low + 1, math.ceil(math.log10(max(known, default=1000)))))

    def percent(self, us: float) -> float:
        """Return the height of a latency in percent of the axis."""
        return 100 * max(0.0, math.log10(max(us, 1e-3)) - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[str, float]]:
        """Return the decades with their heights."""
        return [(duration(10.0**k), self.percent(10.0**k)) for k in range(self.low, self.high)]


def duration(us: float) -> str:
    """Format a latency in its largest unit."""
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3g} {unit}"
    return f"{us:.3g} us"


@dataclasses.dataclass(frozen=True)
class Panel:
    """A drive's panel. Positions are in percent of the panel, from the left and the top."""

    name: str
    row: DriveRow | None
    #: SVG paths
    mean: str
    p99: str
    #: minutes with refused reads: left edge, and percentage of the hinted reads
    refused: list[tuple[float, float]]
    #: description of the panel for screen readers
    words: str


def _panel(
    name: str, row: DriveRow | None, minutes: list[Minute], scale: Scale, now_minute: int
) -> Panel:
    def left(minute: Minute) -> float:
        return 100 - (now_minute - minute.minute + 1) * _MINUTE_WIDTH

    def path(latency_of: Callable[[Minute], float | None]) -> str:
        points, before = [], None
        for minute in minutes:
            us = latency_of(minute)
            if us is None:
                continue
            # "h0" draws a dot for a minute without neighbours.
            x, y = left(minute) + _MINUTE_WIDTH / 2, 100 - scale.percent(us)
            points.append(f"{'L' if before == minute.minute - 1 else 'M'}{x:.2f} {y:.2f}h0")
            before = minute.minute
        return "".join(points)

    refused = [(left(m), 100 * share) for m in minutes if (share := m.refused_share)]
    reads = sum(m.reads for m in minutes)
    mean_us = sum((m.read_us or 0) * m.reads for m in minutes) / reads if reads else None
    p99s = [m.p99_us for m in minutes if m.p99_us is not None]
    words = f"{name}, {len(minutes)} minutes: "
    words += "no reads" if mean_us is None else f"reads took {duration(mean_us)} on average"
    words += f", p99 of a minute up to {duration(max(p99s))}" if p99s else ""
    words += f"; {sum(m.revoked for m in minutes):.0f} reads refused in {len(refused)} minutes"
    return Panel(name, row, path(lambda m: m.read_us), path(lambda m: m.p99_us), refused, words)


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters.update(age=format_age, duration=duration)
    return environment.from_string(_TEMPLATE.read_text())


def render_page(hour: Hour, every_s: float, now_s: float | None = None) -> str:
    """Return the page for the time `now_s`. It reloads itself after each snapshot interval."""
    now_s = time.time() if now_s is None else now_s
    drives = hour.drives()
    scale = Scale.containing(minute for _, kept in drives.values() for minute in kept)
    silent_s = 0.0 if hour.looked_s is None else now_s - hour.looked_s
    return _template().render(
        drives=[
            _panel(name, row, kept, scale, int(now_s // 60)) for name, (row, kept) in drives.items()
        ],
        ticks=scale.ticks(),
        minute_width=_MINUTE_WIDTH,
        every_s=max(1, round(every_s)),
        silent_s=silent_s if silent_s > _STALE_AFTER * max(1.0, every_s) else None,
        when=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now_s)),
    )


def page_data(hour: Hour) -> dict[str, Any]:
    """Return the page's values for scripts."""
    return {
        "looked_s": hour.looked_s,
        "drives": [
            {
                "drive": name,
                "now": None if row is None else row.to_json(),
                "minutes": [minute.to_json() for minute in kept],
            }
            for name, (row, kept) in hour.drives().items()
        ],
    }

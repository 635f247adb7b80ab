# SPDX-License-Identifier: MIT
"""``linnapp exporter``: serve the drives' counters to Prometheus."""

from __future__ import annotations

import re

import click

from linnapp.option_types import FiniteRange

_DEFAULT = "127.0.0.1:9870"


class Address(click.ParamType):  # type: ignore[type-arg]
    """HOST:PORT, :PORT or PORT. Without HOST only this machine can connect."""

    name = "[HOST:]PORT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Parse the text."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(?:(\[[0-9a-fA-F:.]+\]|[^:\[\]]*):)?(\d{1,5})", str(value))
        if not match or int(match[2]) > 65535:
            self.fail(f"{value!r}: expected [HOST:]PORT, e.g. {_DEFAULT}", param, ctx)
        return (match[1] or "127.0.0.1").strip("[]"), int(match[2])


@click.command()
@click.argument("devices", nargs=-1, metavar="[DEV...]")
@click.option(
    "--listen",
    type=Address(),
    default=_DEFAULT,
    help="Address to serve; other machines can connect only if HOST is an external address.",
)
@click.option(
    "--every",
    "every_s",
    type=FiniteRange(0.1, 60.0),
    default=5.0,
    metavar="S",
    help="Seconds between two snapshots of the drives for the page.",
)
@click.option("--once", is_flag=True, help="Print the metrics and exit.")
def exporter(devices: tuple[str, ...], listen: tuple[str, int], every_s: float, once: bool) -> None:
    """Serve the drives' counters to Prometheus, and their last hour as a page, until ctrl-C.

    \b
    /metrics    for Prometheus, read from the kernel's files when it asks
    /           the last hour of every drive: latencies, decisions, bursts
    /-/healthy  health check for a service manager

    Without DEV, all drives with LinnOS are served. Virtual disks (null_blk, loop, ram, zram) and
    drives without a medium must be named.
    Root is not needed. Alert rules and a Grafana dashboard are in linnapp/monitoring.
    """
    from linnapp.errors import needs

    with needs("the exporter needs prometheus_client and Jinja", "'linnapp[exporter]'"):
        import jinja2  # noqa: F401
        import prometheus_client
    from linnapp.drive.metrics import DriveCollector
    from linnapp.drive.sysfs import Drive, check_has_drives

    names = [Drive(device).name for device in devices]
    if not names:
        check_has_drives()
    registry = prometheus_client.CollectorRegistry()
    registry.register(DriveCollector(names))
    if once:
        click.echo(prometheus_client.generate_latest(registry), nl=False)
        return
    from linnapp.insight.exporter import serve

    serve(registry, listen, names, every_s)

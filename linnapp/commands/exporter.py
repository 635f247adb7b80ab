# SPDX-License-Identifier: MIT
"""``linnapp exporter``: the drives' counters for Prometheus."""

from __future__ import annotations

import re

import click

from linnapp.option_types import FiniteRange, ParamType

_DEFAULT = "127.0.0.1:9870"


class Address(ParamType[tuple[str, int]]):
    """HOST:PORT, :PORT or PORT; without HOST this machine alone."""

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
    help="Where to answer; other machines reach it only if HOST is one of this one's addresses.",
)
@click.option(
    "--look-every",
    type=FiniteRange(0.1, 60.0),
    default=5.0,
    metavar="S",
    help="Seconds between two looks at the drives, for the page.",
)
@click.option("--no-page", is_flag=True, help="Metrics alone; look at drives when asked only.")
@click.option("--once", is_flag=True, help="Print the metrics and exit.")
def exporter(
    devices: tuple[str, ...],
    listen: tuple[str, int],
    look_every: float,
    no_page: bool,
    once: bool,
) -> None:
    """Serve the drives' counters to Prometheus, and their last hour as a page, until ctrl-C.

    \b
    /metrics    for Prometheus, read from the kernel's files when it asks
    /           the last hour of every drive: latencies, decisions, bursts
    /hour.json  the page's numbers
    /-/healthy  whether it answers, for whoever restarts it

    Of the drives named, or of all that have LinnOS at the time; of disks that are no drives
    (null_blk, loop, ram, zram), or have no medium, those with a model or a mode other than off.
    Needs no root; as root it has the pending pages too. Alert rules and a Grafana dashboard are
    in linnapp/monitoring.
    """
    from linnapp.errors import needs

    with needs("the exporter needs prometheus_client", "'linnapp[exporter]'"):
        import prometheus_client
    if not (once or no_page):
        with needs("the page, which --no-page leaves out, needs Jinja", "'linnapp[exporter]'"):
            import jinja2  # noqa: F401
    from linnapp.drive.counters.metrics import DriveCollector
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

    serve(registry, listen, None if no_page else (names, look_every))

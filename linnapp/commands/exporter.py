# SPDX-License-Identifier: MIT
"""``linnapp exporter``: the drives' counters for Prometheus."""

from __future__ import annotations

import re

import click

_DEFAULT = "127.0.0.1:9870"


class Address(click.ParamType[tuple[str, int]]):
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
    show_default=True,
    help="Where to answer; other machines reach it only if HOST is one of this one's addresses.",
)
@click.option("--once", is_flag=True, help="Print the metrics and exit.")
def exporter(devices: tuple[str, ...], listen: tuple[str, int], once: bool) -> None:
    """Serve the drives' counters to Prometheus, until ctrl-C.

    Of the drives named, or of all that have LinnOS at the time of a scrape. The kernel's files are
    read when Prometheus asks, and only then. Needs no root; as root it has the pending pages too.

    Alert rules and a Grafana dashboard are in linnapp/monitoring.
    """
    from linnapp.errors import DeviceError, LinnappError

    try:
        import prometheus_client
    except ImportError as error:
        raise LinnappError(
            "prometheus_client is not installed; pip install 'linnapp[exporter]'"
        ) from error
    from linnapp.drive.metrics import DriveCollector
    from linnapp.drive.sysfs import Drive, drives

    names = [Drive(device).name for device in devices]
    if not names and not drives():
        raise DeviceError(
            "no disk has LinnOS: this kernel lacks the patch (CONFIG_BLK_LINNOS); boot the "
            "patched kernel"
        )
    registry = prometheus_client.CollectorRegistry()
    registry.register(DriveCollector(names))
    if once:
        click.echo(prometheus_client.generate_latest(registry), nl=False)
        return
    host, port = listen
    try:
        server, thread = prometheus_client.start_http_server(port, host, registry)
    except OSError as error:
        raise LinnappError(
            f"--listen {host}:{port}: {error.strerror or error}; choose another"
        ) from error
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"listening on http://{shown}:{server.server_port}/metrics", err=True)
    try:
        thread.join()
    finally:
        server.shutdown()

# SPDX-License-Identifier: MIT
"""``linnapp status``: what the kernel does per drive."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

#: counters shown as rates since the last look
_RATES = ("reads", "latency_critical", "admitted", "revoked", "probes", "slow", "false_submits")


@click.command()
@click.argument("devices", nargs=-1, metavar="[DEV...]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--watch", is_flag=True, help="Look again and again, until ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1),
    default=1.0,
    show_default=True,
    help="Seconds between looks of --watch.",
)
def status(devices: tuple[str, ...], as_json: bool, watch: bool, interval: float) -> None:
    """Show mode, model, counters and rates of the drives, or of all that have LinnOS.

    Rates are those since the last look, of this command or of --watch.
    """
    from linnapp.errors import DeviceError
    from linnapp.sysfs import Drive, drives

    names = list(devices) or drives()
    if not names:
        raise DeviceError(
            "no disk has LinnOS: this kernel lacks the patch (CONFIG_BLK_LINNOS); boot the "
            "patched kernel"
        )
    found = [Drive(name) for name in names]
    if as_json and not watch:
        click.echo(json.dumps({"drives": [_look(drive) for drive in found]}, indent=1))
    elif as_json:
        while True:
            click.echo(json.dumps({"drives": [_look(drive) for drive in found]}))
            time.sleep(interval)
    elif not watch:
        from rich.console import Console

        Console().print(_table([_look(drive) for drive in found]))
    else:
        from rich.live import Live

        with (
            contextlib.suppress(KeyboardInterrupt),
            Live(_table([_look(drive) for drive in found]), auto_refresh=False) as live,
        ):
            while True:
                time.sleep(interval)
                live.update(_table([_look(drive) for drive in found]), refresh=True)


def _look(drive: Any) -> dict[str, Any]:
    from linnapp import state
    from linnapp.errors import LinnappError

    stats = drive.stats
    now = time.time()
    last = state.load_json(drive.name, "status")
    rates = None
    elapsed = now - last.get("time", now)
    before = last.get("stats", {})
    # Counters that went back mean another boot or another disk of that name.
    if elapsed > 0 and all(stats.get(name, 0) >= before.get(name, 0) for name in _RATES):
        rates = {
            name: (stats.get(name, 0) - before.get(name, 0)) / elapsed
            for name in _RATES
            if name in stats
        }
    with contextlib.suppress(LinnappError):
        state.save_json(drive.name, "status", {"time": now, "stats": stats})
    inferences = stats.get("inferences", 0)
    return {
        "drive": drive.name,
        "mode": drive.mode,
        "model_id": drive.model_id,
        "threshold_us": drive.threshold_us,
        **drive.probes,
        "inference_ns_mean": stats.get("inference_ns", 0) / inferences if inferences else None,
        "stats": stats,
        "since_s": elapsed if rates is not None else None,
        "per_second": rates,
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    since = max((row["since_s"] or 0 for row in rows), default=0)
    caption = f"second lines: per second, over the last {since:.1f} s" if since else None
    table = Table(caption=caption, caption_justify="left")
    for title in ("drive", "mode", "model"):
        table.add_column(title)
    titles = ("threshold", "reads", "hinted", "admitted", "revoked", "probes", "slow")
    for title in (*titles, "false submits", "ns per inference"):
        table.add_column(title, justify="right")
    for row in rows:
        rates = row["per_second"] or {}
        mean_ns = row["inference_ns_mean"]
        table.add_row(
            row["drive"],
            row["mode"],
            row["model_id"] or "none",
            f"{row['threshold_us']} us" if row["model_id"] else "-",
            *(
                f"{row['stats'].get(name, 0)}" + (f"\n{rates[name]:.1f}/s" if name in rates else "")
                for name in _RATES
            ),
            f"{mean_ns:.0f}" if mean_ns is not None else "-",
        )
    return table

# SPDX-License-Identifier: MIT
"""``linnapp status``: what the kernel does per drive."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command()
@click.argument("devices", nargs=-1, metavar="[DEV...]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(devices: tuple[str, ...], as_json: bool) -> None:
    """Show mode, model and counters of the drives, or of all that have LinnOS."""
    from linnapp.errors import DeviceError
    from linnapp.sysfs import Drive, drives

    names = list(devices) or drives()
    if not names:
        raise DeviceError(
            "no disk has LinnOS: this kernel lacks the patch (CONFIG_BLK_LINNOS); boot the "
            "patched kernel"
        )
    rows = [_look(Drive(name)) for name in names]
    if as_json:
        click.echo(json.dumps({"drives": rows}, indent=1))
        return
    click.echo(
        f"{'drive':12} {'mode':8} {'model':8} {'threshold':>10} {'reads':>10} {'hinted':>10} "
        f"{'admitted':>10} {'revoked':>10} {'probes':>8} {'slow':>8} "
        f"{'false sub.':>10} {'ns/inf.':>8}"
    )
    for row in rows:
        stats: dict[str, int] = row["stats"]
        inferences = stats.get("inferences", 0)
        per_inference = stats.get("inference_ns", 0) / inferences if inferences else 0
        click.echo(
            f"{row['drive']:12} {row['mode']:8} {row['model_id'] or 'none':8} "
            f"{row['threshold_us']:7d} us {stats.get('reads', 0):10d} "
            f"{stats.get('latency_critical', 0):10d} {stats.get('admitted', 0):10d} "
            f"{stats.get('revoked', 0):10d} {stats.get('probes', 0):8d} {stats.get('slow', 0):8d} "
            f"{stats.get('false_submits', 0):10d} {per_inference:8.0f}"
        )


def _look(drive: Any) -> dict[str, Any]:
    return {
        "drive": drive.name,
        "mode": drive.mode,
        "model_id": drive.model_id,
        "threshold_us": drive.threshold_us,
        **drive.probes,
        "stats": drive.stats,
    }

# SPDX-License-Identifier: MIT
"""``linnapp status``: show the state and counters of each drive."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

    from linnapp.drive.sysfs import Drive

#: columns of the terminal for the titles, and for each drive next to them
_LABEL_WIDTH = 21
_CELL_WIDTH = 23


@click.command()
@click.argument("devices", nargs=-1, metavar="[DEV...]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(devices: tuple[str, ...], as_json: bool) -> None:
    """Show mode, model and counters of the drives, or of all that have LinnOS.

    p99 includes all reads that the policy has timed, within 12 %. refused is the share of the
    hinted reads. slow counts reads slower than the threshold. slow admitted counts those of them
    that were predicted fast (stats/false_submits). If the threshold is lower than the median
    latency, half of a healthy drive's reads are slow: compare the two shares. asked is shown if a
    drive is queried for reads without a hint, for example by md. `linnapp top` shows rates.

    Virtual disks (null_blk, loop, ram, zram) and drives without a medium must be named. The table
    is followed by the md arrays that query LinnOS, with the benefit that md has measured
    (md/linnos_guard), and by the drives that `linnapp keep` has reset, with the reason.
    """
    from linnapp.drive.sysfs import check_has_drives

    if not devices:
        check_has_drives()
    if as_json:
        click.echo(_to_json(devices))
        return
    from rich.console import Console

    # If the output is not a terminal, it need not fit its width.
    console = Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=200)
    console.print(_show(_rows(devices), console.width))


def _rows(devices: Sequence[str]) -> list[dict[str, Any]]:
    """Return the values of these drives or of all; one that is being removed hides no other."""
    from linnapp.drive.sysfs import Drive, drives
    from linnapp.errors import DeviceError

    if devices:
        return [_row(Drive(name)) for name in devices]
    found, errors = [], {}
    for name in drives():
        try:
            found.append(_row(Drive(name)))
        except DeviceError as error:
            errors[name] = error
    for name, reason in errors.items():
        if not found:
            raise reason
        click.echo(f"linnapp: warning: {name} is left out: {reason}", err=True)
    return found


def _to_json(devices: Sequence[str]) -> str:
    from linnapp.drive.md import guards
    from linnapp.drive.switches import current_resets

    resets = {r.current_name: {"time_s": r.time_s, "why": r.why} for r in current_resets()}
    content = {
        "drives": _rows(devices),
        "arrays": [dataclasses.asdict(each) for each in guards()],
        "switched_back": resets,
    }
    return json.dumps(content, indent=1)


def _row(drive: Drive) -> dict[str, Any]:
    """Return a drive's values."""
    from linnapp.drive.latencies import percentile_us
    from linnapp.drive.snapshots import Snapshot

    snapshot = Snapshot.take(drive)
    stats = snapshot.stats
    inferences = stats.get("inferences", 0)
    return {
        "drive": drive.name,
        "mode": snapshot.mode,
        "model_id": snapshot.model_id,
        "model_kind": drive.model_kind,
        "threshold_us": snapshot.threshold_us,
        **drive.probes,
        "p99_us": percentile_us(snapshot.latency_counts, 99),
        "refused_share": _share(stats.get("revoked", 0), stats.get("latency_critical", 0)),
        "failover_us": drive.failover_us,
        "inference_ns_mean": stats.get("inference_ns", 0) / inferences if inferences else None,
        "stats": stats,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None


def _cells(row: dict[str, Any], asked: bool) -> dict[str, str]:
    """Return a drive's values by their titles; shares follow their counter."""
    stats = row["stats"]

    def part(name: str, whole: int, of: str) -> str:
        share = _share(stats.get(name, 0), whole)
        return f"{stats.get(name, 0)}" + ("" if share is None else f"  {share:.1%} of {of}")

    def known(value: float | None, form: str) -> str:
        return "-" if value is None else form.format(value)

    cells = {
        "drive": row["drive"],
        "mode": row["mode"],
        "model": row["model_id"] or "none",
        "kind": row["model_kind"] or "-",
        "threshold": f"{row['threshold_us']} us" if row["model_id"] else "-",
        "p99": known(row["p99_us"], "{:.0f} us"),
        "refused": known(row["refused_share"], "{:.1%}"),
        "reads": stats.get("reads", 0),
        "hinted": stats.get("latency_critical", 0),
        "admitted": stats.get("admitted", 0),
        "revoked": stats.get("revoked", 0),
        "probes": stats.get("probes", 0),
        "slow": part("slow", stats.get("reads", 0) - stats.get("revoked", 0), "reads"),
        "slow admitted": part("false_submits", stats.get("admitted", 0), "admitted"),
        "ns per inference": known(row["inference_ns_mean"], "{:.0f}"),
        "asked": stats.get("inferences", 0),
    }
    return {title: str(cell) for title, cell in cells.items() if asked or title != "asked"}


def _show(rows: list[dict[str, Any]], width: int) -> RenderableType:
    """Return tables with a column per drive, as many as fit, followed by arrays and resets."""
    from rich.console import Group
    from rich.table import Column, Table
    from rich.text import Text

    from linnapp.drive.md import guards
    from linnapp.drive.snapshots import is_asked
    from linnapp.drive.switches import current_resets

    asked = any(is_asked(row["stats"]) for row in rows)
    n_columns = max(1, (width - _LABEL_WIDTH) // _CELL_WIDTH)
    parts: list[RenderableType] = []
    for start in range(0, len(rows), n_columns):
        columns = [_cells(row, asked) for row in rows[start : start + n_columns]]
        values = (Column(justify="right", no_wrap=True) for _ in columns)
        table = Table("", *values, show_header=False)
        for title in columns[0]:
            table.add_row(title, *(column[title] for column in columns))
        parts.append(table)
    parts += [Text(each.words) for each in guards() if each.state != "off"]
    parts += [Text(reset.describe()) for reset in current_resets()]
    return Group(*parts)

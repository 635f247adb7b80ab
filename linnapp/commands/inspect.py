# SPDX-License-Identifier: MIT
"""``linnapp inspect``: show the properties of a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from linnapp.commands._options import format_options, reader_options
from linnapp.errors import as_options
from linnapp.option_types import PATH

if TYPE_CHECKING:
    from linnapp.trace.inspection import Inspection


@click.command()
@click.argument("traces", nargs=-1, required=True, type=PATH, metavar="TRACE...")
@format_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: an object, or a list for several traces."
)
@click.option(
    "--queue-depth",
    type=click.IntRange(1, 1_000_000),
    default=32,
    help="Number of I/Os that a drive accepts at once, for burstiness: 32 for SATA, more for NVMe.",
)
@reader_options
def inspect(
    traces: tuple[Path, ...],
    source_format: str | None,
    volume: str | None,
    as_json: bool,
    queue_depth: int,
    **reader: Any,
) -> None:
    """Show counts, mix, rates, sizes, queueing and latency percentiles of traces.

    TRACE has any format that `linnapp convert` reads, or is the replayer's per-I/O log. In that
    log, a latency begins at the submission, and a response time when the I/O was due. `linnapp help
    traces` explains slack and burstiness.
    """
    from linnapp.trace.inspection import inspect as inspect_trace

    inspections = [
        inspect_trace(trace, source_format, queue_depth=queue_depth, volume=volume, **reader)
        for trace in traces
    ]
    if as_json:
        found = [inspection.to_json() for inspection in inspections]
        click.echo(json.dumps(found[0] if len(found) == 1 else found, indent=1))
        return
    for inspection in inspections:
        _show(inspection)


def _kib(size: float) -> str:
    return f"{size / 1024:.1f} KiB"


def _busiest(summary: dict[str, Any]) -> str:
    from linnapp.trace.workload import WINDOW_S

    if summary["duration_s"] < WINDOW_S:
        return f"shorter than {WINDOW_S} s"
    return f"max over {WINDOW_S} s {summary['iops_max_10s']:.0f}"


def _show(inspection: Inspection) -> None:
    s = inspection.summary
    click.echo(f"{inspection.trace} ({inspection.trace_format}: {inspection.units})")
    for note in inspection.notes:
        click.echo(as_options(f"  {note}"))
    click.echo(
        f"  {s['reads']} reads, {s['writes']} writes ({s['read_fraction']:.0%} reads) "
        f"in {s['duration_s']:.1f} s, up to byte {s['end_bytes']}"
    )
    click.echo(
        f"  IOPS mean {s['iops_mean']:.0f}, {_busiest(s)}; "
        f"reads {s['read_mb_s']:.1f} MB/s, writes {s['write_mb_s']:.1f} MB/s"
    )
    click.echo(
        f"  size mean/max: reads {_kib(s['read_bytes_mean'])} / {_kib(s['read_bytes_max'])}, "
        f"writes {_kib(s['write_bytes_mean'])} / {_kib(s['write_bytes_max'])}"
    )
    queue = inspection.queue
    if queue.slack is not None and queue.burstiness is not None:
        click.echo(
            f"  slack {queue.slack:.1%}, burstiness {queue.burstiness:.1%} at queue depth "
            f"{queue.queue_depth}"
        )
    for name, latency in inspection.latencies.items():
        values = latency.to_json().items()
        words = "  ".join(f"{key.removesuffix('_us')} {value:.0f}" for key, value in values)
        click.echo(f"  {name.replace('_', ' ')} us: {words}")
    wrong = {
        name.replace("_", " "): inspection.events[name]
        for name in (
            "missing_completions",
            "unmatched_completions",
            "lost_events",
            "doubtful_reads",
            "out_of_order",
            "errors",
            "revoked",
        )
        if inspection.events.get(name)
    }
    if wrong:
        click.echo("  " + ", ".join(f"{count} {name}" for name, count in wrong.items()))

# SPDX-License-Identifier: MIT
"""``linnapp layers``: show the time that I/Os spend in each layer."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from linnapp.commands._options import COMMAND, CommandAfterDashes, reader_options
from linnapp.option_types import DRIVE, PATH

if TYPE_CHECKING:
    from linnapp.insight.functions import Call, FunctionTimes, Overhead
    from linnapp.insight.layers import Layers

#: letter of a layer in the bars
_LETTERS = {"request": "r", "issue": "q", "drive": "d"}
_BAR = 56
_GROUP_WIDTH = 52


@click.command(cls=CommandAfterDashes, options_metavar="[OPTIONS]")
@click.argument("traces", nargs=-1, type=PATH, metavar="[TRACE...]")
@click.option(
    "--device",
    "devices",
    multiple=True,
    type=DRIVE,
    metavar="DEV",
    help="Drive to record while `-- CMD ...` runs; repeatable. By default all drives are recorded "
    "and those that served I/Os are shown.",
)
@click.option(
    "--functions",
    is_flag=True,
    help="Show in which kernel functions the reads, writes and syncs of `-- CMD ...` spend their "
    "time.",
)
@click.option("--writes", is_flag=True, help="Show writes instead of reads.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reader_options
@click.pass_context
def layers(
    ctx: click.Context,
    /,
    traces: tuple[Path, ...],
    devices: tuple[Path, ...],
    functions: bool,
    writes: bool,
    as_json: bool,
    **reader: Any,
) -> None:
    """Show the time that I/Os spend in each layer, from blktrace recordings.

    \b
    linnapp layers az.blk                        a recording
    linnapp layers -- fio job.fio                all drives that serve it
    linnapp layers --device /dev/nvme0n1 -- fio job.fio
    linnapp layers --functions -- fio job.fio    within the kernel

    \b
    request   waiting for a free tag
    issue     plug, scheduler, dispatch
    drive     the driver and the drive

    Times start when the block layer queues an I/O. Earlier delays by a file system, the page cache
    or a cgroup's io.max are not included. If an I/O was split, its layers are those of the part
    that completed last.

    With `-- CMD` drives are recorded while CMD runs, and its exit status is returned. The I/Os of
    other programs on these drives are included. Needs root and a kernel with blktrace.

    With --functions the time in system calls of CMD and its descendants is shown by groups of
    kernel functions, for any drive and file system. It needs root and the kernel's function graph
    tracer. The overhead of tracing is measured and subtracted.
    """
    from linnapp.errors import TraceError, TraceWarning
    from linnapp.insight.layers import NothingServedError, layers_of

    command: list[str] = ctx.meta[COMMAND]
    if devices and not command:
        raise click.UsageError("--device needs `-- CMD ...`")
    if functions:
        if not command or devices or writes or any(reader.values()):
            raise click.UsageError(
                "--functions needs `-- CMD ...` and allows only the option --json"
            )
        ctx.exit(_show_functions(command, as_json))
    if bool(command) == bool(traces):
        raise click.UsageError("give either recordings or `-- CMD ...`")
    status, are_named = 0, bool(devices)
    with tempfile.TemporaryDirectory(prefix="linnapp-") as folder:
        if command:
            from linnapp.drive.recording import drives_to_record, record

            devices = devices or tuple(drives_to_record())
            recordings, status = record(
                devices, Path(folder), command=command, unmerged_dir=tempfile.gettempdir()
            )
            traces = tuple(recording.path for recording in recordings)
        found, without = [], []
        for i, trace in enumerate(traces):
            try:
                with warnings.catch_warnings():
                    if command:  # The file names are temporary; a warning follows below.
                        warnings.simplefilter("ignore", TraceWarning)
                    each = layers_of(trace, writes=writes, **reader)
            except TraceError as error:
                # An idle drive must not hide the other recorded drives.
                if not command or (
                    recordings[i].events and not isinstance(error, NothingServedError)
                ):
                    raise
                without.append(str(devices[i]))
                continue
            # The files of a command's recordings are deleted, so the device is named.
            found.append((devices[i].name if command else str(trace), each))
            if command and each.lost_events:
                click.echo(
                    f"linnapp: warning: {found[-1][0]}: {each.lost_events} events were lost; "
                    f"{each.reads_left_out} reads next to them are left out",
                    err=True,
                )
    kind = "writes" if writes else "reads"
    if command and not are_named:
        if not found:
            click.echo(_nothing_served(kind, without), err=True)
        without = []  # These drives were not named by the user.
    for device in without:
        click.echo(
            f"linnapp: warning: {device}: it served no {kind} while the command ran", err=True
        )
    if command and not found:
        ctx.exit(status or 1)
    if as_json:
        result = {"recordings": [{"name": n, **f.to_json()} for n, f in found]}
        click.echo(json.dumps(result, indent=1))
    else:
        for name, each in found:
            _show(name, kind, each)
    ctx.exit(status)


def _show_functions(command: Sequence[str], as_json: bool) -> int:
    from linnapp.drive.recording import check_command
    from linnapp.insight.function_recording import prepared

    check_command(command)
    with prepared() as recording:
        times, status = recording.record(command)
    if as_json:
        click.echo(json.dumps(functions_json(times, recording.overhead), indent=1))
    else:
        show_functions(times, recording.overhead)
    return status if times.calls else status or 1


def _nothing_served(kind: str, drives: Sequence[str]) -> str:
    remedy = (
        "cached data is not read from a drive (to drop the page cache, as root: sync; "
        "echo 3 >/proc/sys/vm/drop_caches); --writes shows writes"
        if kind == "reads"
        else "the page cache writes later unless the program syncs (sync, fsync); without "
        "--writes reads are shown"
    )
    return (
        f"linnapp: error: none of {', '.join(drives)} served {kind} while the command ran: "
        f"{remedy}; "
        "network file systems and tmpfs have no drive here"
    )


def _show(name: str, kind: str, found: Layers) -> None:
    from linnapp.insight.layers import LAYERS

    click.echo(f"{name}: {found.n} {kind}, us")
    columns = ("mean", "p50", "p95", "p99", "p999", "max")
    click.echo(f"  {'':8}" + "".join(f"{column:>11}" for column in (*columns, "share")))
    values = found.to_json()
    whole_share = sum(statistics["share"] for statistics in values["layers"].values())
    for layer, statistics in {
        **values["layers"],
        "total": {**values["total"], "share": whole_share},
    }.items():
        click.echo(
            f"  {layer:8}"
            + "".join(f"{statistics[f'{column}_us']:>11.1f}" for column in columns)
            + f"{statistics['share']:>11.1%}"
        )
    click.echo(
        "  " + ", ".join(f"{_LETTERS[layer]} {layer}: {words}" for layer, words in LAYERS.items())
    )
    for band in found.bands():
        whole = sum(band.mean_us.values())
        bar = "".join(
            _LETTERS[layer] * round(us / whole * _BAR) if whole else ""
            for layer, us in band.mean_us.items()
        )
        click.echo(f"  p{band.low:<5g}to p{band.high:<5g} {band.n:>9} {whole:>11.1f} us  {bar}")


def functions_json(times: FunctionTimes, overhead: Overhead) -> dict[str, Any]:
    """Return all values of ``--functions --json``."""
    return {
        "calls": [call.to_json(overhead) for call in times.calls],
        "outside_us": times.outside_us,
        "traced_functions": times.events,
        "overhead": {
            "function_ns": overhead.function_ns,
            "inside_ns": overhead.inside_ns,
            "outside_ns": overhead.outside_ns,
        },
        "lost": {"times": times.missed, "calls": times.cut},
    }


def show_functions(times: FunctionTimes, overhead: Overhead) -> None:
    """Print a table for each kind of system call."""
    for call in times.calls:
        _show_call(call, overhead)
    if not times.calls:
        click.echo("linnapp: the command made no system calls that read, write or sync", err=True)
    click.echo(
        f"tracing adds {overhead.function_ns:.0f} ns to a function call, {overhead.inside_ns:.0f} "
        f"of them to its own time; {times.events} calls were traced"
    )
    if times.outside_us:
        click.echo(f"outside of these system calls: {times.outside_us:.1f} us")
    if times.missed:
        click.echo(
            f"linnapp: warning: events were lost {times.missed} times because the buffer was full; "
            f"{times.cut} incomplete calls are left out",
            err=True,
        )


def _show_call(call: Call, overhead: Overhead) -> None:
    from linnapp.insight.functions import GROUPS

    groups = call.groups(overhead)
    us = sum(group.us for group in groups.values())
    tracing_share = 1 - us / call.measured_us if call.measured_us else 0.0
    click.echo(
        f"{call.name}: {call.calls} calls, {us / call.calls:.1f} us each; as recorded "
        f"{call.measured_us / call.calls:.1f}, of which tracing took {tracing_share:.1%}"
    )
    click.echo(
        f"  {'':{_GROUP_WIDTH}}{'us a call':>12}{'share':>8}{'recorded':>10}{'functions':>11}"
        "  longest"
    )
    for name, group in groups.items():
        function = max(
            (f for f in call.functions if f.group == name), key=lambda f: f.own_ns(overhead)
        )
        click.echo(
            f"  {GROUPS[name][0]:{_GROUP_WIDTH}}{group.us / call.calls:>12.2f}{group.share:>8.1%}"
            f"{group.measured_share:>10.1%}{group.calls / call.calls:>11.1f}  {function.name}"
        )

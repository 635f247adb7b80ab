# SPDX-License-Identifier: MIT
"""``linnapp watch``: record a program's storage system calls and the block I/Os they cause."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from linnapp.commands._elasticsearch import (
    elasticsearch_option,
    exit_status,
    prepared_server,
    print_outcome,
)
from linnapp.commands._options import COMMAND, CommandAfterDashes
from linnapp.files import os_errors
from linnapp.option_types import FOLDER, FiniteRange
from linnapp.terminal import printable

_PATH_WIDTH = 44
#: Number of paths in the summary, by time in calls, and of tags.
_MAX_ROWS = 20
#: p99 of fewer calls is not meaningful
_CALLS_FOR_P99 = 100
_LAYERS = {
    "plug_ns": "plug or a free tag",
    "scheduler_ns": "scheduler",
    "drive_ns": "driver and drive",
}


def _split_words(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for each in given for word in each.split(",") if word)


def _words_option(
    option: str, name: str, metavar: str, words: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option that collects values from repetitions and comma-separated lists."""
    return click.option(
        option, name, multiple=True, callback=_split_words, metavar=metavar, help=words
    )


@click.command(cls=CommandAfterDashes, options_metavar="[OPTIONS]")
@click.option(
    "--pid",
    "pids",
    type=click.IntRange(1, 2**22),
    multiple=True,
    help="Watch this process, until it ends or ctrl-C; may be given several times.",
)
@click.option("--all", "every", is_flag=True, help="Watch every process but this one.")
@_words_option("--call", "calls", "CALL,...", "Only these system calls.")
@click.option(
    "--path", "paths", multiple=True, metavar="PATH", help="Only this file or folder; repeatable."
)
@_words_option("--process", "processes", "NAME,...", "Only processes with these names.")
@_words_option("--thread", "threads", "NAME|TID,...", "Only threads with these names or numbers.")
@click.option(
    "--arguments",
    type=click.Choice(["raw", "detailed"]),
    help="Also store the calls' arguments: six numbers, or named values with symbolic flags.",
)
@click.option(
    "--hash",
    "hashes",
    is_flag=True,
    help="Also store a hash (XXH64) of the data that each call read or wrote, up to 64 KiB.",
)
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    help="Folder for the tables that `linnapp query` reads. Without it only the summary is shown.",
)
@click.option(
    "--session",
    metavar="NAME",
    help="Store the recording under this name, together with others in the folder.",
)
@elasticsearch_option("While recording, also send it to this server: http://HOST:9200.")
@click.option("--duration", type=FiniteRange(0, 1e9, min_open=True), help="Seconds to watch.")
@click.option(
    "--buffer-mib",
    type=click.Choice(["1", "4", "16", "64", "256"]),
    default="16",
    help="Buffer between kernel and reader. Records that do not fit are lost and counted.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def watch(
    ctx: click.Context,
    /,
    pids: tuple[int, ...],
    every: bool,
    arguments: str | None,
    hashes: bool,
    output: Path | None,
    session: str | None,
    url: str | None,
    duration: float | None,
    buffer_mib: str,
    as_json: bool,
    **wanted: tuple[str, ...],
) -> None:
    """Record a program's storage system calls and the block I/Os they cause.

    \b
    sudo linnapp watch -- fio job.fio                 a summary by path
    sudo linnapp watch -o seen -- tar xf linux.tar    and every call and I/O
    sudo linnapp watch -o seen --pid 4711             until ctrl-C
    sudo linnapp watch --all --call fsync,fdatasync --duration 10
    sudo linnapp watch -o seen --arguments detailed -- make test
    sudo linnapp watch -o seen --session before -- make test
    sudo linnapp query seen "select call, count(*) from calls group by call"
    sudo linnapp query seen --compare before after    which calls became slower?
    sudo linnapp watch -o seen --elasticsearch http://127.0.0.1:9200 -- make test

    The command records calls that read, write, sync, open, rename, remove or inspect files. They
    are made by CMD and its descendants, or by the processes of --pid and their later children. For
    each call the time is divided into running and waiting: for its own I/Os, the I/Os of others,
    ext4's journal, locks and similar, and a CPU.

    A block I/O belongs to the call in which its thread queued it. Write-back by kernel threads
    belongs to no call and is shown separately. For each I/O the waiting times and the drive are
    recorded, LinnOS' decision if the kernel has it, and the tag: applications can set the hint
    field of the I/O priority, from 8 upward, to mark the purpose of an I/O.

    --call, --path, --process and --thread filter in the kernel, which counts the calls left out; a
    call must match all of them. With --call or --path only the I/Os of matching calls are
    recorded. Process names are those of `ps -o comm`: up to 15 bytes.

    With --elasticsearch the connection is checked before CMD starts. ELASTIC_API_KEY, or
    ELASTIC_PASSWORD and a user in the URL, contain the credentials. Documents are sent about half a
    second after the call. They wait on the disk while the server is away or refuses them, and up to
    three minutes after the end. Documents that could not be sent by then stay in the folder, and
    `linnapp query FOLDER --elasticsearch URL` sends them.

    The exit status is that of CMD. Needs root, and a kernel with BTF.
    """
    from linnapp.insight.calls import Filters
    from linnapp.insight.query import session_folder, summary
    from linnapp.insight.watch import watch as watch_

    command: list[str] = ctx.meta[COMMAND]
    if (command and pids) or (every and pids) or not (command or pids or every):
        raise click.UsageError("give `-- CMD ...`, --pid PID or --all")
    if session is not None and output is None:
        raise click.UsageError("--session needs -o FOLDER")
    if (arguments is not None or hashes) and output is None and url is None:
        raise click.UsageError("--arguments and --hash need -o FOLDER or --elasticsearch URL")
    with contextlib.ExitStack() as stack:
        server = None if url is None else prepared_server(url)
        folder = output
        if folder is not None and session is not None:
            folder = output = session_folder(folder, session)
        if folder is None:
            # Not in /tmp, which may be in memory.
            place = os.environ.get("TMPDIR", "/var/tmp")
            with os_errors(place):
                scratch = Path(tempfile.mkdtemp(prefix="linnapp-", dir=place))
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            folder = scratch / "watched"
        watched = watch_(
            folder,
            command=command,
            pids=pids,
            every=every,
            filters=Filters(**wanted),
            session=session,
            duration_s=duration,
            buffer_mib=int(buffer_mib),
            arguments=arguments,
            hashes=hashes,
            server=server,
            notify=lambda words: click.echo(f"linnapp: warning: {words}", err=True),
        )
        found = summary(folder, _MAX_ROWS)
        outcome = watched.outcome
        if outcome is not None and (outcome.left or outcome.refused):
            stack.pop_all()  # Documents are missing on the server, so the tables are kept.
            output = folder
    if as_json:
        extra = {} if outcome is None else {"elasticsearch": outcome.to_json()}
        click.echo(json.dumps({**found, **extra}, indent=1))
    else:
        _show(found, output)
    if outcome is None or server is None:
        ctx.exit(watched.status)
    rest = f"`linnapp query {output} --elasticsearch URL` sends them"
    print_outcome(outcome, server, rest, is_quiet=as_json)
    ctx.exit(watched.status or exit_status(outcome))


def _show(found: dict[str, Any], output: Path | None) -> None:
    from linnapp.insight.calls import COUNTS, DROPPED, describe_parts

    click.echo(
        f"{'path':{_PATH_WIDTH}} {'time ms':>10} {'calls':>9} {'bytes':>14} {'p50 us':>10} "
        f"{'p99 us':>10} "
        f"{'I/Os':>8} {'read':>12} {'written':>12}"
    )
    for row in found["by_path"]:
        path = "(unknown)" if row["path"] is None else printable(row["path"])
        if len(path) > _PATH_WIDTH:
            path = "..." + path[3 - _PATH_WIDTH :]
        p99_us = f"{row['p99_us']:.1f}" if row["calls"] >= _CALLS_FOR_P99 else "-"
        click.echo(
            f"{path:{_PATH_WIDTH}} {row['time_us'] / 1e3:>10.1f} {row['calls']:>9} "
            f"{row['bytes']:>14} {row['p50_us']:>10.1f} {p99_us:>10} {row['ios']:>8} "
            f"{row['io_read_bytes']:>12} {row['io_written_bytes']:>12}"
        )
    shown = sum(row["path"] is not None for row in found["by_path"])
    if found["paths"] > shown:
        click.echo(f"and {found['paths'] - shown} more paths")
    if found["on_no_file"]["calls"]:
        click.echo(
            f"on pipes, sockets and similar: {found['on_no_file']['calls']} calls, "
            f"{found['on_no_file']['time_us'] / 1e3:.1f} ms"
        )
    ios = found["ios"]
    if parts := describe_parts(found["parts_us"]):
        click.echo(f"{sum(found['parts_us'].values()) / 1e6:.3f} s in calls: {parts}")
    for op, layers in found["layers_us"].items():
        click.echo(
            f"mean time of a {op} in block layer and drive {sum(layers.values()):.1f} us: "
            + ", ".join(f"{words} {layers[layer]:.1f}" for layer, words in _LAYERS.items())
        )
    if found["decisions"]:
        decisions = ", ".join(f"{n} {decision}" for decision, n in found["decisions"].items())
        click.echo(f"LinnOS decisions: {decisions}")
    for row in found["by_tag"]:
        percentiles = ", ".join(
            f"{p} {row[f'{p}_us']:.1f}" for p in ("p50", "p99") if row["p50_us"]
        )
        latency = f"; {percentiles} us" if percentiles else ""
        click.echo(f"tag {row['tag']}: block I/Os {_ios(row)}{latency}")
    click.echo(
        f"{found['calls']} calls in {found['seconds']:.1f} s, "
        f"{found['calls_without_path']} of them without a path; "
        f"block I/Os in calls: {_ios(ios['in_calls'])}"
    )
    for name, words in (
        ("outside_calls", "block I/Os outside of these calls (page faults, exec)"),
        ("kernel_threads", "block I/Os of kernel threads (write-back, journal)"),
    ):
        if ios[name]["ios"]:
            click.echo(f"{words}: {_ios(ios[name])}")
    if ios["below"]["ios"]:
        click.echo(f"{ios['below']['ios']} more I/Os are parts of these, on the underlying drives")
    if found["ios_without_end"]:
        click.echo(f"{found['ios_without_end']} I/Os without a recorded completion have no latency")
    for name, words in COUNTS.items():
        if found[name]:
            click.echo(f"{found[name]} {words}")
    if not any(found[name] for name in DROPPED):
        click.echo("nothing was dropped")
    if output is not None:
        click.echo(f"{output}: calls.parquet, ios.parquet; see linnapp query --help")


def _ios(ios: dict[str, int]) -> str:
    return f"{ios['ios']}, {ios['read_bytes']} bytes read, {ios['written_bytes']} written"

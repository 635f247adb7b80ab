# SPDX-License-Identifier: MIT
"""``linnapp query``: query, compare, draw or send recorded calls and I/Os."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import click

from linnapp.commands._elasticsearch import (
    elasticsearch_option,
    exit_status,
    prepared_server,
    print_outcome,
)
from linnapp.option_types import FILE, PATH, FiniteRange
from linnapp.terminal import printable

_MAX_ROWS = 10_000


@click.command()
@click.argument("folder", type=PATH)
@click.argument("sql", required=False)
@click.option(
    "--compare",
    nargs=2,
    metavar="BEFORE AFTER",
    help="Instead of SQL: show which calls became slower or faster between two sessions.",
)
@click.option(
    "--by-path", is_flag=True, help="With --compare: compare the calls on each path separately."
)
@click.option(
    "--timeline", type=FILE, help="Instead of SQL: draw a session as a self-contained HTML file."
)
@elasticsearch_option(
    "Instead of SQL: send the recordings, as `linnapp watch --elasticsearch` does."
)
@click.option("--session", metavar="NAME", help="Session for --timeline and --elasticsearch.")
@click.option(
    "--window",
    nargs=2,
    type=FiniteRange(0, 1e9),
    metavar="FROM TO",
    help="With --timeline: period in seconds since the session's start.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: a list with an object for each row; infinities are null.",
)
@click.pass_context
def query(
    ctx: click.Context,
    /,
    folder: Path,
    sql: str | None,
    compare: tuple[str, str] | None,
    by_path: bool,
    timeline: Path | None,
    url: str | None,
    session: str | None,
    window: tuple[float, float] | None,
    as_json: bool,
) -> None:
    """Query the recordings of `linnapp watch -o FOLDER` in DuckDB's SQL.

    \b
    linnapp query seen "select path, count(*), quantile_cont(duration_ns, 0.99)
                        from calls where call = 'fsync' group by path"
    linnapp query seen "select calls.path, sum(ios.bytes) from ios join calls
                        on ios.tid = calls.tid and ios.call_time_ns = calls.time_ns
                        group by calls.path"
    linnapp query seen --compare before after
    linnapp query seen --session after --timeline after.html --window 1.5 1.8
    linnapp query seen --elasticsearch http://127.0.0.1:9200

    \b
    calls  session time_ns duration_ns on_cpu_ns io_wait_ns others_io_wait_ns journal_wait_ns
           other_wait_ns wakeup_ns preempted_ns pid tid process call fd path to_path
           file_offset bytes result content_hash hashed_bytes arguments kind device inode
           first_access_ns
    ios    session time_ns latency_ns plug_ns scheduler_ns drive_ns device drive
           decision tag op sector bytes pid tid process watched call call_time_ns
           readahead metadata below failed

    The tables contain all sessions of the folder. --compare shows the calls whose mean duration
    differs significantly between two of them, with their waiting times and those of their I/Os.

    --elasticsearch sends the documents that the server does not have yet. ELASTIC_API_KEY, or
    ELASTIC_PASSWORD and a user in the URL, contain the credentials.

    `result` is negative for an error: -2 is ENOENT. `describe calls` has the types, and
    docs/watch.md says what each column means.
    """
    from linnapp.insight.query import query as query_
    from linnapp.stats import finite_or_none

    if sum(each is not None for each in (sql, compare, timeline, url)) != 1:
        raise click.UsageError(
            "give a query in SQL, or --compare BEFORE AFTER, or --timeline FILE, or "
            "--elasticsearch URL"
        )
    if by_path and compare is None:
        raise click.UsageError("--by-path needs --compare")
    if timeline is None and not (window is None and (session is None or url is not None)):
        raise click.UsageError("--session and --window need --timeline")
    if timeline is not None:
        if as_json:
            raise click.UsageError("--json cannot be combined with --timeline")
        _draw(folder, timeline, session, window)
        return
    if compare is not None:
        _compare(folder, compare, by_path, as_json)
        return
    if url is not None:
        ctx.exit(_send(folder, url, session, as_json))
    assert sql is not None
    columns, rows = query_(folder, sql)
    if as_json:
        names = _unique_names(columns)
        click.echo("[", nl=False)
        for i, row in enumerate(rows):
            text = json.dumps(dict(zip(names, map(finite_or_none, row), strict=True)), default=str)
            click.echo(f"{',' if i else ''}\n {text}", nl=False)
        click.echo("\n]")
        return
    shown = [[_cell(value) for value in row] for row in itertools.islice(rows, _MAX_ROWS)]
    more = next(rows, None) is not None
    widths = [max(map(len, column)) for column in zip(columns, *shown, strict=True)]
    for line in (columns, *shown):
        words = (word.ljust(width) for word, width in zip(line, widths, strict=True))
        click.echo("  ".join(words).rstrip())
    if more:
        click.echo(
            f"linnapp: warning: only the first {_MAX_ROWS} rows are shown; "
            "--json prints all, `limit` selects fewer",
            err=True,
        )


def _draw(
    folder: Path, output: Path, session: str | None, window: tuple[float, float] | None
) -> None:
    from linnapp.files import replaced_file
    from linnapp.insight.query import recording, session_folder
    from linnapp.insight.timeline import check_can_draw, page, timeline

    check_can_draw()
    shown = timeline(folder, session, window)
    properties = recording(
        folder if shown.session is None else session_folder(folder, shown.session)
    )
    with replaced_file(output) as stream:
        # The page contains file names that other users may not list.
        os.fchmod(stream.fileno(), 0o600)
        stream.write(page(shown, properties).encode())


def _send(folder: Path, url: str, session: str | None, as_json: bool) -> int:
    from linnapp.insight.calls import check_can_store
    from linnapp.insight.documents import send

    check_can_store()
    server = prepared_server(url)
    outcome = send(folder, server, session)
    if as_json:
        click.echo(json.dumps(outcome.to_json(), indent=1))
    print_outcome(outcome, server, "the same command sends the rest", is_quiet=as_json)
    return exit_status(outcome)


def _compare(folder: Path, sessions: tuple[str, str], by_path: bool, as_json: bool) -> None:
    from linnapp.insight.calls import PART_NAMES
    from linnapp.insight.query import changes

    found = changes(folder, *sessions, by_path=by_path)
    if as_json:
        click.echo(json.dumps([change.to_json() for change in found], indent=1))
        return
    changed = [change for change in found if change.us.excludes_zero]
    for change in changed:
        a, b = change.before, change.after
        on = f" {printable(change.path or '(unknown)')}" if by_path else ""
        click.echo(
            f"{change.call}{on}: {'slower' if change.us.is_above else 'faster'}: mean "
            f"{a.mean_us:.1f} -> {b.mean_us:.1f} us, {change.us:+.1f}"
        )
        click.echo(
            f"  calls {a.calls} -> {b.calls}, p50 {a.p50_us:.1f} -> {b.p50_us:.1f}, "
            f"p99 {a.p99_us:.1f} -> {b.p99_us:.1f} us"
        )
        click.echo(
            f"  a call's I/Os: {a.ios:.2f} -> {b.ios:.2f}, waiting {a.wait_us:.1f} -> "
            f"{b.wait_us:.1f} us, at the drive {a.drive_us:.1f} -> {b.drive_us:.1f} us"
        )
        parts = [
            f"{words} {a.parts_us[part]:.1f} -> {b.parts_us[part]:.1f}"
            for part, words in PART_NAMES.items()
            if a.parts_us[part] or b.parts_us[part]
        ]
        if parts:
            click.echo(f"  of the mean: {', '.join(parts)} us")
    short = sum(not change.us.is_known for change in found)
    click.echo(
        f"{len(found)} kinds of calls in both, {len(changed)} with significant changes"
        + (f"; {short} have too few calls for a comparison" if short else "")
    )


def _unique_names(columns: list[str]) -> list[str]:
    """Make column names unique: the second `x` becomes `x_1`, as in DuckDB's subqueries."""
    names: list[str] = []
    for column in columns:
        name, n = column, 0
        while name in names or (n and name in columns):
            n += 1
            name = f"{column}_{n}"
        names.append(name)
    return names


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    word = f"{value:.6g}" if isinstance(value, float) else str(value)
    return printable(word)

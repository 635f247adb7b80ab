# SPDX-License-Identifier: MIT
"""``linnapp query``: what was watched, asked in SQL."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import click

from linnapp.commands._terminal import printable

_SHOWN = 10_000


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("sql")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: a list with an object a row.")
def query(folder: Path, sql: str, as_json: bool) -> None:
    """Ask what `linnapp watch -o FOLDER` has stored, in DuckDB's SQL.

    \b
    linnapp query seen "select path, count(*), quantile_cont(duration_ns, 0.99)
                        from calls where call = 'fsync' group by path"
    linnapp query seen "select calls.path, sum(ios.bytes) from ios join calls
                        on ios.tid = calls.tid and ios.call_time_ns = calls.time_ns
                        group by calls.path"

    \b
    calls  time_ns duration_ns pid tid process call fd path to_path file_offset bytes
           result kind device inode
    ios    time_ns latency_ns device op sector bytes pid tid process watched call
           call_time_ns readahead metadata below failed

    `result` is negative for an error: -2 is ENOENT. `describe calls` has the types, and
    docs/insight.md says what each column means.
    """
    from linnapp.trace.watched import query as query_

    columns, rows = query_(folder, sql)
    if as_json:
        click.echo("[", nl=False)
        for i, row in enumerate(rows):
            said = json.dumps(dict(zip(columns, row, strict=True)), default=str)
            click.echo(f"{',' if i else ''}\n {said}", nl=False)
        click.echo("\n]")
        return
    shown = [[_word(value) for value in row] for row in itertools.islice(rows, _SHOWN)]
    more = next(rows, None) is not None
    widths = [max(map(len, column)) for column in zip(columns, *shown, strict=True)]
    for line in (columns, *shown):
        words = (word.ljust(width) for word, width in zip(line, widths, strict=True))
        click.echo("  ".join(words).rstrip())
    if more:
        click.echo(
            f"linnapp: warning: the first {_SHOWN} rows; --json prints all, `limit` asks for less",
            err=True,
        )


def _word(value: Any) -> str:
    if value is None:
        return "-"
    word = f"{value:.6g}" if isinstance(value, float) else str(value)
    return printable(word)

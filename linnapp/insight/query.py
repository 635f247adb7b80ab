# SPDX-License-Identifier: MIT
"""What was watched: two tables in Parquet files, written chunk by chunk, and asked in SQL.

``calls.parquet`` has a row for each system call, ``ios.parquet`` one for each block I/O. A row of
`ios` belongs to the row of `calls` with its `tid` and, as `time_ns`, its `call_time_ns`. A folder
may hold a recording, and named ones (sessions) in folders of their own: asked are all of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from linnapp import stats
from linnapp.errors import LinnappError, TraceError
from linnapp.files import AnyPath, explain_os_error
from linnapp.insight.calls import (
    LAYERS,
    MOVES_BYTES,
    PARTS,
    RECORDING_FILE,
    TABLES,
    check_can_store,
    check_is_text,
)

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def session_folder(folder: AnyPath, session: str) -> Path:
    """Where a session is kept."""
    if not session.isprintable() or "/" in session or session.startswith(".") or not session:
        raise LinnappError(
            f"--session {session!r}: it names a folder: printable, without /, not with a dot first"
        )
    return Path(folder) / session


def recordings(folder: AnyPath) -> list[Path]:
    """The folders of a folder's recordings: itself, and those of its sessions."""
    folder = Path(folder)
    try:
        below = sorted(folder.iterdir())
    except OSError:
        below = []  # whoever opens the tables says why
    # With a dot first one is being written.
    below = [each for each in below if not each.name.startswith(".")]
    found = [each for each in (folder, *below) if (each / RECORDING_FILE).is_file()]
    return found or [folder]


@contextlib.contextmanager
def opened(folder: AnyPath) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the tables `calls` and `ios` of a folder's recordings."""
    check_can_store()
    check_is_text(folder)
    import duckdb

    database = duckdb.connect(":memory:")
    try:
        for table in TABLES:
            paths = [each / f"{table}.parquet" for each in recordings(folder)]
            path = paths[0]
            try:
                for path in paths:
                    with path.open("rb"):
                        pass
                # One at a time, since that says which one is damaged.
                for path in paths:
                    database.execute(f"describe from read_parquet({_pattern(path)})")
                names = ", ".join(map(_pattern, paths))
                database.execute(f"create view {table} as from read_parquet([{names}])")
            except OSError as error:
                raise TraceError(
                    f"{path.parent}: {path.name}: {error.strerror}; a folder that "
                    "`linnapp watch -o` has written is asked"
                ) from error
            except duckdb.Error as error:
                raise TraceError(
                    f"{path}: not a table that can be read: {_first(error)}"
                ) from error
        yield database
    finally:
        database.close()


def _pattern(path: Path) -> str:
    """A file's name in SQL: what has a special meaning in a pattern is meant as it stands."""
    quoted = str(path.resolve()).replace("'", "''")
    return "'" + "".join(f"[{c}]" if c in "*?[" else c for c in quoted) + "'"


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def recording(folder: AnyPath) -> dict[str, Any]:
    """What is known of a recording as a whole: command, seconds, and how much is not in it."""
    path = Path(folder) / RECORDING_FILE
    try:
        said = json.loads(path.read_bytes())
    except OSError as error:
        raise explain_os_error(error, path) from error
    except ValueError as error:
        raise TraceError(f"{path}: damaged: {error}") from error
    if not isinstance(said, dict) or not isinstance(said.get("recording"), str):
        raise TraceError(f"{path}: damaged: no object with the recording's name")
    return said


def chunks(folder: AnyPath) -> Iterator[tuple[str, int, int, Callable[[], pa.Table]]]:
    """Of each chunk of a recording its table, the number of its first row, its length, its reader.

    The tables are there, and are tables: :func:`opened` finds that out. The reader raises
    TraceError if the chunk is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    def read(file: parquet.ParquetFile, group: int, path: Path) -> pa.Table:
        try:
            return file.read_row_group(group)
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"{path}: not a table that can be read: {_first(error)}") from error

    for table in TABLES:
        path = Path(folder) / f"{table}.parquet"
        with parquet.ParquetFile(path) as file:
            first_row = 0
            for group in range(file.num_row_groups):
                n = file.metadata.row_group(group).num_rows
                yield table, first_row, n, functools.partial(read, file, group, path)
                first_row += n


def query(folder: AnyPath, sql: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Ask a recording for columns, and for rows, which are fetched as they are asked for.

    In DuckDB's SQL, of the tables `calls` and `ios` that :func:`linnapp.insight.watch.watch`
    wrote.
    """
    stack = contextlib.ExitStack()
    try:
        database = stack.enter_context(opened(folder))
        import duckdb

        try:
            result = database.execute(sql)
        except duckdb.Error as error:
            raise TraceError(f"the query: {str(error).strip()}") from error
        if result is None:
            raise TraceError("the query: there is none; try: select * from calls limit 5")
        columns = [str(column[0]) for column in result.description or ()]
    except BaseException:
        stack.close()
        raise
    return columns, _rows(result, stack)


def _rows(result: Any, stack: contextlib.ExitStack) -> Iterator[tuple[Any, ...]]:
    import duckdb

    with stack:
        try:
            while rows := result.fetchmany(10_000):
                yield from rows
        except duckdb.Error as error:
            raise TraceError(f"the query: {str(error).strip()}") from error


#: pipes, sockets and what else is in no folder
_NO_FILE = "coalesce(not starts_with(path, '/'), false)"

_BY_PATH = f"""
with called as (
  select path, count(*) as calls,
    coalesce(sum(result) filter (result > 0 and call in {MOVES_BYTES}), 0)::bigint as bytes,
    sum(duration_ns) as time_ns,
    approx_quantile(duration_ns, 0.5) as p50_ns, approx_quantile(duration_ns, 0.99) as p99_ns
  from calls where not {_NO_FILE} group by path
), queued as (
  select path, count(*) as ios,
    coalesce(sum(ios.bytes) filter (op = 'read'), 0)::bigint as io_read_bytes,
    coalesce(sum(ios.bytes) filter (op = 'write'), 0)::bigint as io_written_bytes
  from ios join calls on ios.tid = calls.tid and ios.call_time_ns = calls.time_ns
  where not below group by path
)
select called.path, calls, bytes, time_ns / 1e3 as time_us, p50_ns / 1e3 as p50_us,
  p99_ns / 1e3 as p99_us, coalesce(ios, 0) as ios,
  coalesce(io_read_bytes, 0) as io_read_bytes, coalesce(io_written_bytes, 0) as io_written_bytes
from called left join queued on called.path is not distinct from queued.path
order by time_us desc, called.path
"""

_ON_NO_FILE = f"""
select count(*) as calls, coalesce(sum(duration_ns), 0) / 1e3 as time_us
from calls where {_NO_FILE}
"""

_LAYERS = f"""
select op, {", ".join(f"avg({layer}) / 1e3 as {layer}" for layer in LAYERS)}
from ios where not below and drive_ns is not null and op in ('read', 'write')
group by op order by op
"""
_PARTS = f"""
select {", ".join(f"sum({part})::double / 1e3 as {part}" for part in PARTS)}
from calls where duration_ns > 0
"""
_DECISIONS = """
select decision, count(*) as n from ios where decision is not null
group by decision order by n desc, decision
"""
_BY_TAG = """
select tag, count(*) as ios, coalesce(sum(bytes) filter (op = 'read'), 0)::bigint as read_bytes,
  coalesce(sum(bytes) filter (op = 'write'), 0)::bigint as written_bytes,
  approx_quantile(latency_ns, 0.5) / 1e3 as p50_us,
  approx_quantile(latency_ns, 0.99) / 1e3 as p99_us
from ios where not below and tag is not null group by tag order by ios desc, tag
"""
_IOS = """
select count(*) as ios, coalesce(sum(bytes) filter (op = 'read'), 0)::bigint as read_bytes,
  coalesce(sum(bytes) filter (op = 'write'), 0)::bigint as written_bytes
from ios where """
#: whose I/Os those are that no call of a watched program has queued, and those it has
_WHOSE = {
    "in_calls": "watched and call is not null and not below",
    "outside_calls": "watched and call is null and not below",
    "kernel_threads": "not watched and not below",
    "below": "below",
}


def summary(folder: AnyPath, top: int) -> dict[str, Any]:
    """Calls and I/Os by so many paths, those that took most of the time first; I/Os by tag.

    Pipes, sockets and the like are counted apart: what waits there waits for no drive. I/Os that a
    driver passed on to drives below it are counted apart, since they are parts of others.
    """
    with opened(folder) as database:
        n_paths, n_calls, without = ask(
            database,
            f"select count(distinct path) filter (not {_NO_FILE}), count(*), "
            "count(*) - count(path) from calls",
        )[0].values()
        found = {
            **recording(folder),
            "calls": n_calls,
            "calls_without_path": without,
            "paths": n_paths,
            **ask(database, "select count(*) - count(latency_ns) as ios_without_end from ios")[0],
            "parts_us": ask(database, _PARTS)[0],
            "layers_us": {row.pop("op"): row for row in ask(database, _LAYERS)},
            "decisions": {row["decision"]: row["n"] for row in ask(database, _DECISIONS)},
            "ios": {whose: ask(database, _IOS + where)[0] for whose, where in _WHOSE.items()},
            "on_no_file": ask(database, _ON_NO_FILE)[0],
            "by_path": ask(database, f"{_BY_PATH} limit {int(top)}"),
            "by_tag": ask(database, f"{_BY_TAG} limit {int(top)}"),
        }
    return found


def ask(
    database: duckdb.DuckDBPyConnection, sql: str, given: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The rows of an answer, by column; what the query names as ``$name`` is given."""
    result = database.execute(sql, given or {})
    columns = [str(column[0]) for column in result.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


#: Of every kind of call and every block of time: how many, ns in them, in waiting of their I/Os and
#: at the drive. An I/O that a driver passed on is there once more, below.
_BLOCKS = f"""
with bounds as (
  select min(time_ns) as first, max(time_ns) - min(time_ns) + 1 as span
  from calls where session = $session
), of_calls as (
  select tid, call_time_ns, count(*) as ios, sum(plug_ns + scheduler_ns) as wait_ns,
    sum(drive_ns) as drive_ns
  from ios where session = $session and call is not null and not below group by all
)
select call, case when $by_path then path end as path,
  ((time_ns - first) * $blocks // span)::integer as block, count(*) as calls,
  sum(duration_ns)::double as duration_ns, coalesce(sum(ios), 0)::double as ios,
  coalesce(sum(wait_ns), 0)::double as wait_ns, coalesce(sum(drive_ns), 0)::double as drive_ns,
  {", ".join(f"coalesce(sum({part}), 0)::double" for part in PARTS)}
from calls cross join bounds
  left join of_calls on calls.tid = of_calls.tid and calls.time_ns = of_calls.call_time_ns
where session = $session group by 1, 2, 3 order by 1, 2, 3
"""
_PERCENTILES = """
select call, case when $by_path then path end as path,
  quantile_cont(duration_ns, 0.5) / 1e3 as p50_us, quantile_cont(duration_ns, 0.99) / 1e3 as p99_us
from calls where session = $session group by 1, 2
"""


@dataclasses.dataclass(frozen=True)
class Side:
    """A kind of call in one session; times in us."""

    calls: int
    #: `mean_us`, `p50_us`, `p99_us`: from call to return.
    mean_us: float
    p50_us: float
    p99_us: float
    #: `ios`, `wait_us`, `drive_us`: of each call, on average: I/Os that it queued, what they waited
    #: for the driver, and what they took from there on. I/Os at the same time count one after
    #: another.
    ios: float
    wait_us: float
    drive_us: float
    #: What the mean is made of, by the names of :data:`linnapp.insight.calls.PARTS`.
    parts_us: dict[str, float]


@dataclasses.dataclass(frozen=True)
class CallChange(stats.Difference):
    """How the mean duration of a kind of call differs."""

    call: str
    #: None unless paths are told apart.
    path: str | None
    before: Side
    after: Side

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**dataclasses.asdict(self), "beyond_chance": self.is_significant}


def changes(folder: AnyPath, before: str, after: str, *, by_path: bool = False) -> list[CallChange]:
    """Compare two sessions of a folder: what both have, that which changed most first.

    `by_path` tells calls of one kind on different files apart.
    """
    with opened(folder) as database:
        kept = {row["session"] for row in ask(database, "select distinct session from calls")}
        for session in (before, after):
            if session not in kept:
                names = ", ".join(sorted(name for name in kept if name is not None))
                raise TraceError(
                    f"{folder}: no session {session} with calls; it has {names or 'none'}: "
                    "`linnapp watch -o FOLDER --session NAME` records one"
                )
        sides = [_session(database, session, by_path) for session in (before, after)]
    common = [kind for kind in sides[0] if kind in sides[1]]
    found = [_change(kind, sides[0][kind], sides[1][kind], len(common)) for kind in common]
    return sorted(
        found,
        key=lambda change: (not change.is_significant, -abs(change.us), change.call),
    )


_Kind = tuple[str, str | None]
_Blocks = npt.NDArray[np.float64]


def _session(
    database: duckdb.DuckDBPyConnection, session: str, by_path: bool
) -> dict[_Kind, tuple[Side, _Blocks]]:
    given = {"session": session, "by_path": by_path}
    span = "select max(time_ns) - min(time_ns) + 1 as ns from calls where session = $session"
    (row,) = ask(database, span, {"session": session})
    n_blocks = stats.count_blocks(row["ns"]) or 1
    rows = database.execute(_BLOCKS, {**given, "blocks": n_blocks}).fetchall()
    blocks: dict[_Kind, list[tuple[float, ...]]] = {}
    for call, path, _, *sums in rows:
        blocks.setdefault((call, path), []).append(tuple(sums))
    percentiles = {(row["call"], row["path"]): row for row in ask(database, _PERCENTILES, given)}
    found = {}
    for kind, sums in blocks.items():
        columns = np.array(sums, dtype=np.float64)
        calls, *totals = columns.sum(axis=0).tolist()
        duration_ns, ios, wait_ns, drive_ns, *parts_ns = (total / calls for total in totals)
        side = Side(
            calls=int(calls),
            mean_us=duration_ns / 1000,
            p50_us=percentiles[kind]["p50_us"],
            p99_us=percentiles[kind]["p99_us"],
            ios=ios,
            wait_us=wait_ns / 1000,
            drive_us=drive_ns / 1000,
            parts_us=dict(zip(PARTS, (ns / 1000 for ns in parts_ns), strict=True)),
        )
        found[kind] = side, columns[:, :2]
    return found


def _change(
    kind: _Kind, before: tuple[Side, _Blocks], after: tuple[Side, _Blocks], n_kinds: int
) -> CallChange:
    interval = stats.Interval.unknown()
    if min(len(before[1]), len(after[1])) >= stats.MIN_BLOCKS:
        in_us = (1, 1000)
        (interval,) = stats.differences(before[1] / in_us, after[1] / in_us, n_kinds)
    us = after[0].mean_us - before[0].mean_us
    return CallChange(us, *interval.ends, *kind, before=before[0], after=after[0])

# SPDX-License-Identifier: MIT
"""Query recorded calls and I/Os with SQL, summarise them, and compare two sessions.

A folder can contain a recording and, in subfolders, named recordings (sessions). The tables `calls`
and `ios` contain the rows of all of them.

:func:`changes` compares the mean duration of each kind of call between two sessions. The intervals
are bootstrapped over blocks of time (:func:`linnapp.stats.differences`). They are corrected for the
number of kinds, so that all of them hold simultaneously with 95 % confidence.
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
    """Return the subfolder of a session. Raise if it cannot be the name of a folder."""
    if not session.isprintable() or "/" in session or session.startswith(".") or not session:
        raise LinnappError(
            f"--session {session!r}: must be printable, must not contain / or start with a dot"
        )
    return Path(folder) / session


def recordings(folder: AnyPath) -> list[Path]:
    """Return the folders with recordings: the folder itself and those of its sessions."""
    folder = Path(folder)
    try:
        below = sorted(folder.iterdir())
    except OSError:
        below = []  # Opening the tables reports the error.
    # A folder that starts with a dot is still being written.
    below = [each for each in below if not each.name.startswith(".")]
    found = [each for each in (folder, *below) if (each / RECORDING_FILE).is_file()]
    return found or [folder]


@contextlib.contextmanager
def opened(folder: AnyPath) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database with the tables `calls` and `ios` of all recordings in a folder."""
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
                # Reading one file at a time shows which one is damaged.
                for path in paths:
                    found = database.execute(f"describe from read_parquet({_pattern(path)})")
                    if not {"session", "time_ns"} <= {row[0] for row in found.fetchall()}:
                        raise TraceError(
                            f"{path}: is not a table of `linnapp watch`, because it has no column "
                            "session or time_ns; name a folder that `linnapp watch -o` has written"
                        )
                names = ", ".join(map(_pattern, paths))
                database.execute(f"create view {table} as from read_parquet([{names}])")
            except OSError as error:
                raise TraceError(
                    f"{path.parent}: {path.name}: {error.strerror}; name a folder "
                    "that `linnapp watch -o` has written"
                ) from error
            except duckdb.Error as error:
                raise TraceError(
                    f"{path}: is not a readable table: {_first_line(error)}"
                ) from error
        yield database
    finally:
        database.close()


def _pattern(path: Path) -> str:
    """Quote a file name for SQL, with pattern characters escaped."""
    quoted = str(path.resolve()).replace("'", "''")
    return "'" + "".join(f"[{c}]" if c in "*?[" else c for c in quoted) + "'"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def recording(folder: AnyPath) -> dict[str, Any]:
    """Return the properties of a recording: command, duration, counters of lost data."""
    path = Path(folder) / RECORDING_FILE
    try:
        properties = json.loads(path.read_bytes())
    except OSError as error:
        raise explain_os_error(error, path) from error
    except ValueError as error:
        raise TraceError(f"{path}: damaged: {error}") from error
    if not isinstance(properties, dict) or not isinstance(properties.get("recording"), str):
        raise TraceError(f"{path}: damaged: the recording's identifier is missing")
    return properties


def chunks(folder: AnyPath) -> Iterator[tuple[str, int, int, Callable[[], pa.Table]]]:
    """Yield table name, number of the first row, number of rows and reader of each chunk.

    :func:`opened` must have checked the tables. The reader raises TraceError if the chunk is
    damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    def read(file: parquet.ParquetFile, group: int, path: Path) -> pa.Table:
        try:
            return file.read_row_group(group)
        except (OSError, pa.ArrowException) as error:
            raise TraceError(f"{path}: is not a readable table: {_first_line(error)}") from error

    for table in TABLES:
        path = Path(folder) / f"{table}.parquet"
        with parquet.ParquetFile(path) as file:
            first_row = 0
            for group in range(file.num_row_groups):
                n = file.metadata.row_group(group).num_rows
                yield table, first_row, n, functools.partial(read, file, group, path)
                first_row += n


def query(folder: AnyPath, sql: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Return the columns of a query and an iterator that fetches its rows as needed.

    `sql` is DuckDB's SQL on the tables `calls` and `ios` that :func:`linnapp.insight.watch.watch`
    wrote.
    """
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(opened(folder))
        import duckdb

        try:
            result = database.execute(sql)
        except duckdb.Error as error:
            raise TraceError(f"the query: {str(error).strip()}") from error
        if result is None:
            raise TraceError("the query is empty; try: select * from calls limit 5")
        columns = [str(column[0]) for column in result.description or ()]
        return columns, _rows(result, stack.pop_all())


def _rows(result: Any, stack: contextlib.ExitStack) -> Iterator[tuple[Any, ...]]:
    import duckdb

    with stack:
        try:
            while rows := result.fetchmany(10_000):
                yield from rows
        except duckdb.Error as error:
            raise TraceError(f"the query: {str(error).strip()}") from error


#: true for pipes, sockets and other objects outside file systems
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
#: classes of I/Os: queued in or outside recorded calls, by kernel threads, by stacked drivers
_IO_CLASSES = {
    "in_calls": "watched and call is not null and not below",
    "outside_calls": "watched and call is null and not below",
    "kernel_threads": "not watched and not below",
    "below": "below",
}


def summary(folder: AnyPath, top: int) -> dict[str, Any]:
    """Summarize calls and I/Os by path, the `top` paths with the longest total time, and by tag.

    Calls on pipes, sockets and similar objects are counted separately because they wait for no
    drive. I/Os that a stacked driver passed on are counted separately because they are parts of
    others.
    """
    with opened(folder) as database:
        n_paths, n_calls, without = fetch_rows(
            database,
            f"select count(distinct path) filter (not {_NO_FILE}), count(*), "
            "count(*) - count(path) from calls",
        )[0].values()
        found = {
            **recording(folder),
            "calls": n_calls,
            "calls_without_path": without,
            "paths": n_paths,
            **fetch_rows(
                database, "select count(*) - count(latency_ns) as ios_without_end from ios"
            )[0],
            "parts_us": fetch_rows(database, _PARTS)[0],
            "layers_us": {row.pop("op"): row for row in fetch_rows(database, _LAYERS)},
            "decisions": {row["decision"]: row["n"] for row in fetch_rows(database, _DECISIONS)},
            "ios": {
                name: fetch_rows(database, _IOS + where)[0] for name, where in _IO_CLASSES.items()
            },
            "on_no_file": fetch_rows(database, _ON_NO_FILE)[0],
            "by_path": fetch_rows(database, f"{_BY_PATH} limit {int(top)}"),
            "by_tag": fetch_rows(database, f"{_BY_TAG} limit {int(top)}"),
        }
    return found


def fetch_rows(
    database: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Run a query with the parameters ``$name`` and return its rows as dictionaries."""
    result = database.execute(sql, parameters or {})
    columns = [str(column[0]) for column in result.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


#: For each kind of call and block of time: number of calls, total duration, and the waiting and
#: drive times of their I/Os. I/Os that a stacked driver passed on (`below`) are left out.
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
    """Statistics of a kind of call in one session; times in us."""

    calls: int
    #: `mean_us`, `p50_us`, `p99_us`: duration from call to return
    mean_us: float
    p50_us: float
    p99_us: float
    #: `ios`, `wait_us`, `drive_us`: means per call: number of I/Os queued, their time before the
    #: driver, and their time in driver and drive. Times of concurrent I/Os are added.
    ios: float
    wait_us: float
    drive_us: float
    #: parts of the mean by the names of :data:`linnapp.insight.calls.PARTS`
    parts_us: dict[str, float]


@dataclasses.dataclass(frozen=True)
class CallChange:
    """Difference of the mean duration of a kind of call between two sessions."""

    #: Difference of the means in us. The interval is unknown if there are too few blocks of time.
    us: stats.Interval
    call: str
    #: None unless `by_path`
    path: str | None
    before: Side
    after: Side

    def to_json(self) -> dict[str, Any]:
        """Return all fields by name."""
        low_us, high_us = self.us.ends
        return {
            **dataclasses.asdict(self),
            **{"us": self.us.value, "low_us": low_us, "high_us": high_us},
            "beyond_chance": self.us.excludes_zero,
        }


def changes(folder: AnyPath, before: str, after: str, *, by_path: bool = False) -> list[CallChange]:
    """Compare two sessions of a folder. Return the kinds of calls in both, largest change first.

    With `by_path`, calls on different files are different kinds.
    """
    with opened(folder) as database:
        kept = {
            row["session"] for row in fetch_rows(database, "select distinct session from calls")
        }
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
        found, key=lambda change: (not change.us.excludes_zero, -abs(change.us.value), change.call)
    )


_Kind = tuple[str, str | None]
_Blocks = npt.NDArray[np.float64]


def _session(
    database: duckdb.DuckDBPyConnection, session: str, by_path: bool
) -> dict[_Kind, tuple[Side, _Blocks]]:
    given = {"session": session, "by_path": by_path}
    span = "select max(time_ns) - min(time_ns) + 1 as ns from calls where session = $session"
    (row,) = fetch_rows(database, span, {"session": session})
    n_blocks = stats.count_blocks(row["ns"]) or 1
    rows = database.execute(_BLOCKS, {**given, "blocks": n_blocks}).fetchall()
    blocks: dict[_Kind, list[tuple[float, ...]]] = {}
    for call, path, _, *sums in rows:
        blocks.setdefault((call, path), []).append(tuple(sums))
    percentiles = {
        (row["call"], row["path"]): row for row in fetch_rows(database, _PERCENTILES, given)
    }
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
    us = stats.Interval.unknown(after[0].mean_us - before[0].mean_us)
    if min(len(before[1]), len(after[1])) >= stats.MIN_BLOCKS:
        in_us = (1, 1000)
        (interval,) = stats.differences(before[1] / in_us, after[1] / in_us, n_kinds)
        us = dataclasses.replace(interval, value=us.value)
    return CallChange(us, *kind, before=before[0], after=after[0])

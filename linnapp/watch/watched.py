# SPDX-License-Identifier: MIT
"""What was watched: two tables in Parquet files, written chunk by chunk, and asked in SQL.

``calls.parquet`` has a row for each system call, ``ios.parquet`` one for each block I/O. A row of
`ios` belongs to the row of `calls` with its `tid` and, as `time_ns`, its `call_time_ns`. A folder
may hold a recording, and named ones (sessions) in folders of their own: asked are all of them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import socket
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import LinnappError, TraceError, needs
from linnapp.files import AnyPath, explain_os_error, os_errors
from linnapp.watch import arguments as watch_arguments
from linnapp.watch import reader as watch_reader
from linnapp.watch.arguments import words as _words

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

TABLES = ("calls", "ios")
_RECORDING = "recording.json"

_OPS = {
    0: "read",
    1: "write",
    2: "flush",
    3: "discard",
    5: "secure_erase",
    7: "zone_append",
    9: "write_zeroes",
}
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFBLK: "block",
    stat.S_IFCHR: "character",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFLNK: "link",
}

#: calls whose result is a number of bytes that were moved
MOVES_BYTES = (
    *("read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev"),
    *("preadv2", "pwritev2", "sendfile", "copy_file_range"),
)


def check_can_store() -> None:
    """Find out whether Parquet and SQL are there."""
    with needs(
        "what is watched is stored as Parquet and asked in SQL, which needs pyarrow and duckdb",
        "'linnapp[watch]'",
    ):
        importlib.import_module("duckdb")
        importlib.import_module("pyarrow")


def check_is_text(folder: AnyPath) -> None:
    """Refuse a folder whose name is not UTF-8: those who read and write the tables take none."""
    try:
        str(Path(folder).absolute()).encode()
    except UnicodeEncodeError as error:
        raise LinnappError(
            f"{folder}: a name that is no text, which Parquet's files cannot have; choose another"
        ) from error


class Store:
    """Writes the two tables; a context.

    `session` is what this recording is called, in a column of its own; `arguments` how calls'
    arguments are told, ``raw`` or ``detailed``, if at all.
    """

    def __init__(
        self,
        folder: AnyPath,
        call_names: Sequence[str],
        name: Callable[[int], str | None],
        session: str | None = None,
        arguments: str | None = None,
    ) -> None:
        self._folder = Path(folder)
        self._session = session
        self._arguments = arguments
        self._call_names = dict(enumerate(call_names))
        self._name = functools.lru_cache(maxsize=65536)(name)
        self._device = functools.cache(_device)
        self._decisions = dict(enumerate(watch_reader.DECISIONS))
        self._writers: dict[str, Any] = {}

    def __enter__(self) -> Store:
        import pyarrow as pa

        # Without rows there are tables, too.
        self._write("calls", self._calls(np.zeros(0, watch_reader.CALL_ROW), pa))
        self._write("ios", self._ios(np.zeros(0, watch_reader.IO_ROW), pa))
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            with contextlib.suppress(OSError):
                writer.close()
        self._writers.clear()

    def add(self, calls: npt.NDArray[np.void], ios: npt.NDArray[np.void]) -> None:
        """Write rows, of `CALL_ROW` and of `IO_ROW`."""
        import pyarrow as pa

        if len(calls):
            self._write("calls", self._calls(calls, pa))
        if len(ios):
            self._write("ios", self._ios(ios, pa))

    def finish(self, said: dict[str, Any]) -> None:
        """Close the tables, and write what is to be known of the recording beside them."""
        # The recording's name is one that no other has.
        said = {"recording": uuid.uuid4().hex, "host": socket.gethostname(), **said}
        with os_errors(self._folder):
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()
            place = self._folder / _RECORDING
            place.write_text(json.dumps(said, indent=1) + "\n")
            place.chmod(0o600)

    def _write(self, name: str, table: pa.Table) -> None:
        import pyarrow.parquet as parquet

        path = self._folder / f"{name}.parquet"
        with os_errors(path):
            if name not in self._writers:
                # Names of files that others may not list are in it.
                path.touch(0o600)
                self._writers[name] = parquet.ParquetWriter(path, table.schema, compression="zstd")
            self._writers[name].write_table(table)

    def _calls(self, rows: npt.NDArray[np.void], pa: Any) -> pa.Table:
        no_file = rows["inode"] == watch_reader.NULL
        return pa.table(
            {
                "session": self._session_of(rows, pa),
                "time_ns": _integers(rows["time_ns"], pa),
                "duration_ns": _integers(rows["duration_ns"], pa),
                **{part: _integers(rows[part], pa) for part in watch_reader.PARTS},
                "pid": pa.array(np.ascontiguousarray(rows["pid"])),
                "tid": pa.array(np.ascontiguousarray(rows["tid"])),
                "process": _words(rows["process"], self._name, pa),
                "call": _words(rows["call"], self._call_names.get, pa),
                "fd": _integers(rows["fd"], pa),
                "path": _words(rows["path"], self._name, pa),
                "to_path": _words(rows["to_path"], self._name, pa),
                # `offset` is a word of SQL's own.
                "file_offset": _integers(rows["offset"], pa),
                "bytes": _integers(rows["bytes"], pa),
                "result": _integers(rows["result"], pa),
                "arguments": self._arguments_of(rows, pa),
                "kind": _words(
                    np.where(no_file, 0, rows["mode"] & 0o170000).astype(np.int64),
                    _KINDS.get,
                    pa,
                ),
                "device": _words(
                    np.where(no_file, -1, rows["device"].astype(np.int64)), self._device, pa
                ),
                "inode": _integers(rows["inode"], pa),
                "first_access_ns": _integers(rows["first_access_ns"], pa),
            }
        )

    def _ios(self, rows: npt.NDArray[np.void], pa: Any) -> pa.Table:
        flags = rows["flags"]
        in_call = flags & watch_reader.IN_CALL != 0
        flush = (rows["bytes"] == 0) & (flags & watch_reader.PREFLUSH != 0)
        drive = np.where(rows["drive"] == watch_reader.SEVERAL, -1, rows["drive"].astype(np.int64))
        tag = rows["priority"].astype(np.int64) >> watch_reader.TAG_SHIFT & watch_reader.TAG_MASK
        return pa.table(
            {
                "session": self._session_of(rows, pa),
                "time_ns": _integers(rows["time_ns"], pa),
                "latency_ns": _integers(rows["latency_ns"], pa),
                **{layer: _integers(rows[layer], pa) for layer in watch_reader.LAYERS},
                "device": _words(rows["device"].astype(np.int64), self._device, pa),
                "drive": _words(drive, self._device, pa),
                "decision": _words(rows["decision"], self._decisions.get, pa),
                "tag": pa.array(tag, mask=tag < watch_reader.FIRST_TAG),
                "op": _words(np.where(flush, 2, rows["op"]), lambda op: _OPS.get(op, "other"), pa),
                "sector": pa.array(rows["sector"].astype(np.int64)),
                "bytes": pa.array(rows["bytes"].astype(np.int64)),
                "pid": pa.array(np.ascontiguousarray(rows["pid"])),
                "tid": pa.array(np.ascontiguousarray(rows["tid"])),
                "process": _words(rows["process"], self._name, pa),
                "watched": pa.array(flags & watch_reader.WATCHED != 0),
                "call": _words(np.where(in_call, rows["call"], -1), self._call_names.get, pa),
                "call_time_ns": _integers(rows["call_time_ns"], pa),
                "readahead": pa.array(flags & watch_reader.READAHEAD != 0),
                "metadata": pa.array(flags & watch_reader.METADATA != 0),
                "below": pa.array(flags & watch_reader.BELOW != 0),
                "failed": pa.array(flags & watch_reader.FAILED != 0),
            }
        )

    def _arguments_of(self, rows: npt.NDArray[np.void], pa: Any) -> Any:
        if self._arguments is None:
            return pa.nulls(len(rows), pa.string())
        if self._arguments == "raw":
            return watch_arguments.raw(rows)
        return watch_arguments.detailed(rows, self._call_names, self._name)

    def _session_of(self, rows: npt.NDArray[np.void], pa: Any) -> pa.Array:
        return pa.repeat(pa.scalar(self._session, pa.string()), len(rows))


def schemas() -> dict[str, pa.Schema]:
    """Columns of the tables, and their types."""
    import pyarrow as pa

    store = Store(".", (), lambda _: None)
    calls = store._calls(np.zeros(0, watch_reader.CALL_ROW), pa)
    ios = store._ios(np.zeros(0, watch_reader.IO_ROW), pa)
    return {"calls": calls.schema, "ios": ios.schema}


def _integers(column: npt.NDArray[np.int64], pa: Any) -> Any:
    return pa.array(np.ascontiguousarray(column), mask=column == watch_reader.NULL)


def _device(number: int) -> str | None:
    """What a device is called; of none, as file systems without a drive have it, its number."""
    if number < 0:
        return None
    pair = f"{number >> 20}:{number & 0xFFFFF}"
    place = Path("/sys/dev/block") / pair
    return place.resolve().name if place.exists() else pair


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
    found = [each for each in (folder, *below) if (each / _RECORDING).is_file()]
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
    path = Path(folder) / _RECORDING
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

    In DuckDB's SQL, of the tables `calls` and `ios` that :func:`linnapp.watch.watching.watch`
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
select op, {", ".join(f"avg({layer}) / 1e3 as {layer}" for layer in watch_reader.LAYERS)}
from ios where not below and drive_ns is not null and op in ('read', 'write')
group by op order by op
"""
_PARTS = f"""
select {", ".join(f"sum({part})::double / 1e3 as {part}" for part in watch_reader.PARTS)}
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

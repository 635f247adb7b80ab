# SPDX-License-Identifier: MIT
"""Record system calls and block I/Os, and store them in Parquet tables.

`Reader` wraps the native library that attaches BPF programs and returns arrays of rows;
linnapp/native/watch.bpf.c describes the events and how an I/O is assigned to a call. `Store` writes
these rows, chunk by chunk, to two tables: ``calls.parquet`` has a row for each system call,
``ios.parquet`` a row for each block I/O. The same rows can be sent to a server while they are
recorded (linnapp/insight/live.py). A row of `ios` belongs to the row of `calls` with the same
`tid` whose `time_ns` equals its `call_time_ns`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import importlib
import json
import os
import socket
import stat
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from linnapp.errors import DeviceError, LinnappError, needs
from linnapp.files import AnyPath, os_errors
from linnapp.insight import arguments as call_arguments
from linnapp.insight.arguments import words as _words
from linnapp.native import Library, declare, load_library, loaded_once, row_type
from linnapp.trace.blktrace import format_device

if TYPE_CHECKING:
    import pyarrow as pa


_FFI = declare("watch_records.h", "watch.h")
CALL_ROW, IO_ROW = row_type(_FFI, "lw_call_row"), row_type(_FFI, "lw_io_row")

#: LW_NULL in linnapp/native/watch.h
NULL = -(2**63)
_FLAGS = _FFI.typeof("enum lw_io_flag").relements
PREFLUSH, READAHEAD, METADATA, BELOW, COMPLETED, FAILED, IN_CALL, WATCHED = (
    _FLAGS[f"LW_{name}"]
    for name in (
        *("PREFLUSH", "READAHEAD", "METADATA", "BELOW", "COMPLETED", "FAILED", "IN_CALL"),
        "WATCHED",
    )
)
#: parts of an I/O's latency: until the scheduler receives it, until the driver receives it, and
#: until its completion
LAYERS = ("plug_ns", "scheduler_ns", "drive_ns")
#: parts of a call's duration: running; waiting for block I/O with and without own I/O in flight;
#: waiting for a commit of ext4's journal; other waiting; runnable after a wait; preempted
PARTS = (
    *("on_cpu_ns", "io_wait_ns", "others_io_wait_ns", "journal_wait_ns", "other_wait_ns"),
    *("wakeup_ns", "preempted_ns"),
)
#: ways to record the arguments of calls: `enum lw_arguments`
ARGUMENTS = {None: 0, "raw": 1, "detailed": 2}
#: LinnOS' decisions about a read; a row stores the index
DECISIONS = (None, "admitted", "revoked", "probe")
SEVERAL = 0xFFFFFFFF
#: An I/O's tag is the hint field of its priority. The kernel uses the values below FIRST_TAG itself
#: (command duration limits).
TAG_SHIFT, TAG_MASK, FIRST_TAG = 3, 0x3FF, 8
#: counters of data that the rows do not contain, with the reasons
COUNTS = {
    "lost_calls": "calls were lost: the buffer was full",
    "lost_names": "file names were lost: the buffer was full, or they are too long",
    "lost_ios": "block I/Os were lost: the buffer was full",
    "untracked_calls": "calls were not followed: too many at the same time",
    "untracked_ios": "block I/Os were not followed: too many at the same time",
    "untracked_processes": "processes were not followed: too many at the same time",
    "compat_calls": "calls of 32-bit programs were not recorded",
    "other_ios": "block I/Os of other programs were not recorded",
    "filtered_calls": "calls were left out by the filters",
    "filtered_ios": "block I/Os were left out by the filters",
    "missed_events": "events were missed during an interrupt",
    "unfinished_calls": "calls had not returned when the recording ended",
    "unhashed_calls": "calls have no hash: their content was not in memory any more",
    "names_left_out": "names exceeded the number that is kept",
    "files_left_out": "calls used files beyond those whose first access is kept",
}
#: Names of the counters of data that should have been recorded.
DROPPED = tuple(
    name
    for name in COUNTS
    if name not in ("other_ios", "unfinished_calls", "filtered_calls", "filtered_ios")
)

#: Number of rows of each table that are buffered in memory.
_ROWS = 65536


@loaded_once
def library() -> Library:
    """Load the native library, once."""
    try:
        return load_library("liblinnapp_watch.so", "LINNAPP_WATCH_LIB", _FFI)
    except LinnappError as error:
        raise LinnappError(
            f"{error}. It is built if clang, pkg-config and libbpf-dev 1.0 are installed"
        ) from error


def call_names() -> list[str]:
    """Return the recorded system calls. A row's `call` is an index into this list."""
    names: list[str] = []
    while name := library().text(library().lib.lw_call_name(len(names))):
        names.append(name)
    return names


@dataclasses.dataclass(frozen=True)
class Filters:
    """Filters on the calls of the followed processes. An empty filter selects everything.

    The kernel drops and counts the other calls, so that they take no space in the buffer.
    """

    #: names of system calls, from :func:`call_names`
    calls: Sequence[str] = ()
    #: files, and folders with all their contents
    paths: Sequence[str] = ()
    #: names of processes, as the kernel keeps them (15 bytes)
    processes: Sequence[str] = ()
    #: names or numbers of threads
    threads: Sequence[str] = ()


NO_FILTERS = Filters()


def _path_variants(path: str) -> list[bytes]:
    """Return the absolute path as given and with links resolved; programs may use either."""
    given = os.path.abspath(path)  # noqa: PTH100 - resolve() follows links
    variants = dict.fromkeys((given, os.path.realpath(path)))
    if "/" in variants:
        raise LinnappError(f"--path {path}: contains all files; omit the option")
    return [os.fsencode(variant) for variant in variants]


def _request(filters: Filters, **settings: object) -> Any:
    """Return ``struct lw_request`` for the filters and other settings."""
    lib, names = library().lib, call_names()
    request = _FFI.new("struct lw_request *")
    for name, value in settings.items():
        setattr(request.settings, name, value)
    for call in filters.calls:
        if call not in names:
            close = difflib.get_close_matches(call, names, 3, 0.5) or names
            raise LinnappError(
                f"--call {call}: is not recorded on this machine; recorded are "
                f"{', '.join(close)}" + ("" if close is names else ", among others")
            )
        request.calls[names.index(call)] = True
    request.settings.by_call = bool(filters.calls)
    variants = [variant for path in filters.paths for variant in _path_variants(path)]
    if len(variants) > lib.LW_MAX_PATHS:
        raise LinnappError(f"--path: too many paths; the maximum is {lib.LW_MAX_PATHS}")
    for i, variant in enumerate(variants):
        if len(variant) >= lib.LW_PREFIX:
            raise LinnappError(
                f"--path: the path has {len(variant)} bytes; the maximum is {lib.LW_PREFIX - 1}"
            )
        request.settings.path[i] = variant
        request.settings.path_length[i] = len(variant)
    request.settings.by_path = bool(variants)
    threads = [*filters.processes, *filters.threads]
    if len(threads) > lib.LW_MAX_CHOICES:
        raise LinnappError(
            "--process, --thread: too many processes and threads; the maximum is "
            f"{lib.LW_MAX_CHOICES}"
        )
    for i, thread in enumerate(threads):
        chosen = request.threads[i]
        if i < len(filters.processes):
            chosen.kind = lib.LW_PROCESS_NAME
        elif thread.isascii() and thread.isdigit() and int(thread) < 2**32:
            chosen.kind, chosen.tid = lib.LW_THREAD, int(thread)
            continue
        else:
            chosen.kind = lib.LW_THREAD_NAME
        # The kernel truncates names.
        chosen.comm = os.fsencode(thread)[: lib.LW_COMM - 1]
    request.n_threads = len(threads)
    request.settings.by_process = bool(filters.processes)
    request.settings.by_thread = bool(filters.threads)
    return request


class Reader:
    """Context manager that records calls and I/Os. :meth:`take` returns the rows read so far."""

    def __init__(self, rows: int = _ROWS) -> None:
        self._native = library()
        self._library = self._native.lib
        self.calls = np.zeros(rows, CALL_ROW)
        self.ios = np.zeros(rows, IO_ROW)
        arrays = {"calls": self.calls, "ios": self.ios}
        self._rows = self._native.columns("lw_rows", arrays, capacity=rows)
        self._handle = self._library.lw_new(self._rows)
        if not self._handle:
            raise MemoryError

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.lw_close(self._handle)
        self._handle = None

    def _checked(
        self, status: int, error: type[LinnappError] = LinnappError, what: str = ""
    ) -> int:
        if status < 0:
            raise error(what + (self._native.text(self._library.lw_error(self._handle)) or ""))
        return status

    def attach(
        self,
        buffer_bytes: int,
        filters: Filters = NO_FILTERS,
        *,
        every: bool = False,
        arguments: str | None = None,
        hashes: bool = False,
    ) -> None:
        """Start recording, of every process except this one or of those to :meth:`follow`.

        `buffer_bytes` must be a power of two. See :func:`linnapp.insight.watch.watch` for
        `arguments` and `hashes`.
        """
        request = _request(
            filters,
            every_process_but=os.getpid() if every else 0,
            arguments=ARGUMENTS[arguments],
            hashes=hashes,
        )
        status = self._library.lw_attach(self._handle, request, buffer_bytes)
        self._checked(status, DeviceError, "the kernel does not allow watching: ")

    def follow(self, pid: int, *, is_launcher: bool = False) -> None:
        """Follow a process and its children; of a launcher, only the children after their exec."""
        how = self._library.LW_LAUNCHER if is_launcher else self._library.LW_FOLLOWED
        self._checked(self._library.lw_follow(self._handle, pid, how), DeviceError)

    def read(self, timeout_ms: int) -> bool:
        """Fill rows with recorded data. Return true if they are full and must be taken first."""
        return bool(self._checked(self._library.lw_read(self._handle, timeout_ms)))

    def feed(self, record: bytes) -> bool:
        """Fill rows with a record from memory. Return value as for :meth:`read`."""
        return bool(self._checked(self._library.lw_feed(self._handle, record, len(record))))

    def stop(self) -> None:
        """Stop recording. Recorded data can still be read."""
        self._library.lw_stop(self._handle)

    def read_unfinished(self) -> bool:
        """Fill rows with I/Os still in flight at the end. Return value as for :meth:`read`."""
        return bool(self._library.lw_read_unfinished(self._handle))

    def take(self) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
        """Return copies of the filled rows and reuse their space."""
        filled = self._rows.n_calls, self._rows.n_ios
        self._rows.n_calls = self._rows.n_ios = 0
        return self.calls[: filled[0]].copy(), self.ios[: filled[1]].copy()

    def name(self, number: int) -> str | None:
        """Return the name of a process or file by its number in a row."""
        return self._native.text(self._library.lw_name(self._handle, number))

    def counts(self) -> dict[str, int]:
        """Return the counters described by :data:`COUNTS`."""
        return self._native.counters(self._library.lw_counts(self._handle)[0])


TABLES = ("calls", "ios")
RECORDING_FILE = "recording.json"

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

#: calls whose result is the number of bytes transferred
MOVES_BYTES = (
    *("read", "write", "pread64", "pwrite64", "readv", "writev", "preadv", "pwritev"),
    *("preadv2", "pwritev2", "sendfile", "copy_file_range", "io_uring_read", "io_uring_write"),
    *("io_uring_readv", "io_uring_writev", "io_uring_read_fixed", "io_uring_write_fixed"),
)


def check_can_store() -> None:
    """Raise LinnappError if the libraries for Parquet and SQL are missing."""
    with needs(
        "recordings are Parquet tables queried with SQL, which needs pyarrow and duckdb",
        "'linnapp[watch]'",
    ):
        importlib.import_module("duckdb")
        importlib.import_module("pyarrow")


def check_is_text(folder: AnyPath) -> None:
    """Raise LinnappError if a folder's name is not UTF-8: pyarrow and duckdb cannot open it."""
    try:
        str(Path(folder).absolute()).encode()
    except UnicodeEncodeError as error:
        raise LinnappError(
            f"{folder}: the name is not UTF-8, which Parquet libraries need; choose another name"
        ) from error


class Store:
    """Context manager that writes the two tables.

    `session` is the name of the recording, stored in the column `session`. `arguments` selects how
    the arguments of calls are stored: ``raw``, ``detailed``, or None to omit them. `live` is also
    called with the name of a table and its new rows, as soon as they are added.
    """

    def __init__(
        self,
        folder: AnyPath,
        call_names: Sequence[str],
        name: Callable[[int], str | None],
        session: str | None = None,
        arguments: str | None = None,
        live: Callable[[str, pa.Table], object] | None = None,
    ) -> None:
        self._folder = Path(folder)
        self._live = live
        self._session = session
        self._arguments = arguments
        self._call_names = dict(enumerate(call_names))
        self._name = functools.lru_cache(maxsize=65536)(name)
        self._device = functools.cache(_device)
        self._decisions = dict(enumerate(DECISIONS))
        self._writers: dict[str, Any] = {}
        #: rows that are not written yet, because a file of many small groups is large and slow
        self._waiting: dict[str, list[pa.Table]] = {table: [] for table in TABLES}

    def __enter__(self) -> Store:
        import pyarrow as pa

        # The tables exist even if there are no rows.
        self._write("calls", self._calls(np.zeros(0, CALL_ROW), pa))
        self._write("ios", self._ios(np.zeros(0, IO_ROW), pa))
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            with contextlib.suppress(OSError):
                writer.close()
        self._writers.clear()

    def add(self, calls: npt.NDArray[np.void], ios: npt.NDArray[np.void]) -> None:
        """Add rows of type `CALL_ROW` and `IO_ROW` to the tables."""
        import pyarrow as pa

        if len(calls):
            self._add("calls", self._calls(calls, pa))
        if len(ios):
            self._add("ios", self._ios(ios, pa))

    def finish(self, properties: dict[str, Any]) -> None:
        """Close the tables and write the recording's properties next to them."""
        # The identifier is unique, so that documents sent to Elasticsearch are, too.
        properties = {"recording": uuid.uuid4().hex, "host": socket.gethostname(), **properties}
        for table in TABLES:
            self._write_waiting(table)
        with os_errors(self._folder):
            for writer in self._writers.values():
                writer.close()
            self._writers.clear()
            place = self._folder / RECORDING_FILE
            place.write_text(json.dumps(properties, indent=1) + "\n")
            place.chmod(0o600)

    def _add(self, name: str, table: pa.Table) -> None:
        if self._live is not None:
            self._live(name, table)
        self._waiting[name].append(table)
        if sum(each.num_rows for each in self._waiting[name]) >= _ROWS:
            self._write_waiting(name)

    def _write_waiting(self, name: str) -> None:
        import pyarrow as pa

        if self._waiting[name]:
            self._write(name, pa.concat_tables(self._waiting[name]))
            self._waiting[name] = []

    def _write(self, name: str, table: pa.Table) -> None:
        import pyarrow.parquet as parquet

        path = self._folder / f"{name}.parquet"
        with os_errors(path):
            if name not in self._writers:
                # The table contains file names that other users may not list.
                path.touch(0o600)
                self._writers[name] = parquet.ParquetWriter(path, table.schema, compression="zstd")
            self._writers[name].write_table(table)

    def _calls(self, rows: npt.NDArray[np.void], pa: Any) -> pa.Table:
        no_file = rows["inode"] == NULL
        return pa.table(
            {
                "session": self._session_of(rows, pa),
                "time_ns": _integers(rows["time_ns"], pa),
                "duration_ns": _integers(rows["duration_ns"], pa),
                **{part: _integers(rows[part], pa) for part in PARTS},
                "pid": pa.array(np.ascontiguousarray(rows["pid"])),
                "tid": pa.array(np.ascontiguousarray(rows["tid"])),
                "process": _words(rows["process"], self._name, pa),
                "call": _words(rows["call"], self._call_names.get, pa),
                "fd": _integers(rows["fd"], pa),
                "path": _words(rows["path"], self._name, pa),
                "to_path": _words(rows["to_path"], self._name, pa),
                # `offset` is a reserved word of SQL.
                "file_offset": _integers(rows["offset"], pa),
                "bytes": _integers(rows["bytes"], pa),
                "result": _integers(rows["result"], pa),
                "content_hash": _hashes(rows, pa),
                "hashed_bytes": pa.array(
                    rows["hashed_bytes"].astype(np.int64), mask=rows["hashed_bytes"] == 0
                ),
                "arguments": self._arguments_of(rows, pa),
                "kind": _words(
                    np.where(no_file, 0, rows["mode"] & 0o170000).astype(np.int64), _KINDS.get, pa
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
        in_call = flags & IN_CALL != 0
        flush = (rows["bytes"] == 0) & (flags & PREFLUSH != 0)
        drive = np.where(rows["drive"] == SEVERAL, -1, rows["drive"].astype(np.int64))
        tag = rows["priority"].astype(np.int64) >> TAG_SHIFT & TAG_MASK
        return pa.table(
            {
                "session": self._session_of(rows, pa),
                "time_ns": _integers(rows["time_ns"], pa),
                "latency_ns": _integers(rows["latency_ns"], pa),
                **{layer: _integers(rows[layer], pa) for layer in LAYERS},
                "device": _words(rows["device"].astype(np.int64), self._device, pa),
                "drive": _words(drive, self._device, pa),
                "decision": _words(rows["decision"], self._decisions.get, pa),
                "tag": pa.array(tag, mask=tag < FIRST_TAG),
                "op": _words(np.where(flush, 2, rows["op"]), lambda op: _OPS.get(op, "other"), pa),
                "sector": pa.array(rows["sector"].astype(np.int64)),
                "bytes": pa.array(rows["bytes"].astype(np.int64)),
                "pid": pa.array(np.ascontiguousarray(rows["pid"])),
                "tid": pa.array(np.ascontiguousarray(rows["tid"])),
                "process": _words(rows["process"], self._name, pa),
                "watched": pa.array(flags & WATCHED != 0),
                "call": _words(np.where(in_call, rows["call"], -1), self._call_names.get, pa),
                "call_time_ns": _integers(rows["call_time_ns"], pa),
                "readahead": pa.array(flags & READAHEAD != 0),
                "metadata": pa.array(flags & METADATA != 0),
                "below": pa.array(flags & BELOW != 0),
                "failed": pa.array(flags & FAILED != 0),
            }
        )

    def _arguments_of(self, rows: npt.NDArray[np.void], pa: Any) -> Any:
        if self._arguments is None:
            return pa.nulls(len(rows), pa.string())
        if self._arguments == "raw":
            return call_arguments.raw(rows)
        return call_arguments.detailed(rows, self._call_names, self._name)

    def _session_of(self, rows: npt.NDArray[np.void], pa: Any) -> pa.Array:
        return pa.repeat(pa.scalar(self._session, pa.string()), len(rows))


def schemas() -> dict[str, pa.Schema]:
    """Return the columns of the tables with their types."""
    import pyarrow as pa

    store = Store(".", (), lambda _: None)
    calls = store._calls(np.zeros(0, CALL_ROW), pa)
    ios = store._ios(np.zeros(0, IO_ROW), pa)
    return {"calls": calls.schema, "ios": ios.schema}


def _integers(column: npt.NDArray[np.int64], pa: Any) -> Any:
    return pa.array(np.ascontiguousarray(column), mask=column == NULL)


def _hashes(rows: npt.NDArray[np.void], pa: Any) -> Any:
    """Return the hashes of contents as 16 digits, as `xxhsum -H64` prints them."""
    has_none = rows["hashed_bytes"] == 0
    if has_none.all():
        return pa.nulls(len(rows), pa.string())
    digits = rows["hash"].astype(">u8").tobytes().hex().encode()
    return pa.array(np.frombuffer(digits, "S16"), mask=has_none).cast(pa.string())


def _device(number: int) -> str | None:
    """Return a device's name, or its number if it has no name, as tmpfs."""
    if number < 0:
        return None
    pair = format_device(number)
    place = Path("/sys/dev/block") / pair
    return place.resolve().name if place.exists() else pair


#: Descriptions of the `PARTS`.
PART_NAMES = {
    "on_cpu_ns": "on a CPU",
    "io_wait_ns": "its own I/Os",
    "others_io_wait_ns": "others' I/Os",
    "journal_wait_ns": "the journal",
    "other_wait_ns": "locks and all else",
    "wakeup_ns": "waking up",
    "preempted_ns": "preempted",
}


def describe_parts(parts: Mapping[str, float | None]) -> str:
    """Format the parts that are not zero as fractions of their sum. Empty if all are zero."""
    known = {part: parts[part] or 0 for part in PART_NAMES}
    whole = sum(known.values())
    return ", ".join(
        f"{PART_NAMES[part]} {value / whole:.1%}" for part, value in known.items() if value > 0
    )

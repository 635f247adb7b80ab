# SPDX-License-Identifier: MIT
"""Test recordings with synthetic records and with programs on this kernel."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
from running import run

from linnapp.commands.watch import _show
from linnapp.errors import LinnappError
from linnapp.insight import calls
from linnapp.insight import query as watch_query
from linnapp.insight import watch as watching
from linnapp.insight.calls import NULL, Filters, Reader, Store, call_names
from linnapp.insight.query import changes, query

DOCUMENT = Path(__file__).parents[2] / "docs" / "watch.md"

if platform.machine() not in ("x86_64", "aarch64"):
    pytest.skip(f"not built for {platform.machine()}", allow_module_level=True)


# --- Synthetic records; the layouts are those of linnapp/native/watch_records.h.

FILE = struct.Struct("<QQII8x")
DEVICE = 4095 << 20 | 1  # no drive has this number
FOO = FILE.pack(0xFFFF0001, 12, DEVICE, stat.S_IFREG | 0o644)
BAR = FILE.pack(0xFFFF0002, 14, DEVICE, stat.S_IFREG | 0o644)
FOLDER = FILE.pack(0xFFFF0002, 2, DEVICE, stat.S_IFDIR | 0o755)
NONE = FILE.pack(0, 0, 0, 0)


def file_record(file: bytes, *components: bytes) -> bytes:
    """Return the record of a file whose path components are given from last to first."""
    name = b"".join(b"/" + part for part in reversed(components)) + b"\0"
    return struct.pack("<IIQII", 1, 0, 0, 0, len(name)) + file + name


def name_record(tid: int, time_ns: int, argument: int, name: bytes) -> bytes:
    record = struct.pack("<IIQII", 2, tid, time_ns, argument, len(name) + 1)
    return record + NONE + name + b"\0"


def call_record(
    call: str,
    file: bytes = NONE,
    *,
    tid: int = 7,
    time_ns: int = 100,
    duration_ns: int = 5,
    result: int = 0,
    fd: int = 3,
    offset: int = NULL,
    n_bytes: int = NULL,
    to_elsewhere: bool = False,
    waits_ns: Sequence[int] = (0,) * 6,
    arguments: Sequence[int] | None = None,
    hashed: tuple[int, int] = (0, 0),
) -> bytes:
    """Return a record with the first arguments, each a 64-bit register; the others are 0.

    `hashed` is a content's hash and its number of bytes.
    """
    return (
        struct.pack("<IIII", 0, call_names().index(call), 7, tid)
        + struct.pack("<QQqqqq", time_ns, duration_ns, result, offset, n_bytes, fd)
        + file
        + struct.pack("<IIQ6Q16s", to_elsewhere, hashed[1], hashed[0], *waits_ns, b"postgres")
        + (b"" if arguments is None else struct.pack("<6Q", *(*arguments, 0, 0, 0, 0, 0, 0)[:6]))
    )


def io_record(
    flags: int,
    *,
    time_ns: int = 110,
    latency_ns: int = 50,
    n_bytes: int = 4096,
    op: int = 0,
    call: str = "read",
    call_time_ns: int = 100,
    insert_ns: int = 0,
    issue_ns: int = 0,
    drive: int = 0,
    decision: int = 0,
    priority: int = 0,
) -> bytes:
    """Return the record of an I/O that was queued at `time_ns`."""
    return struct.pack(
        "<IIIIQQQIIIIQQQIIII16s",
        *(3, flags, 7, 7, time_ns, latency_ns, 2048, n_bytes, DEVICE, op),
        *(call_names().index(call), call_time_ns, insert_ns, issue_ns),
        *(0, drive, decision, priority, b"kworker/u8:1"),
    )


def paths(*records: bytes) -> list[str | None]:
    """Return the paths of the calls in some records."""
    with Reader(rows=100) as reader:
        for record in records:
            reader.feed(record)
        return [reader.name(int(row["path"])) for row in reader.take()[0]]


def test_a_descriptor_has_the_name_of_its_file() -> None:
    named = file_record(FOO, b"foo", b"data", b"srv")
    assert paths(call_record("read", FOO)) == [None]
    assert (
        paths(named, call_record("read", FOO), call_record("fsync", FOO)) == ["/srv/data/foo"] * 2
    )
    # The address is reused for another file.
    other = FILE.pack(0xFFFF0001, 13, DEVICE, stat.S_IFREG)
    assert paths(named, call_record("read", other)) == [None]
    assert paths(named, file_record(other, b"bar"), call_record("read", other)) == ["/bar"]
    assert paths(named, call_record("sync")) == [None]


def test_unnamed_files_have_the_kernels_name() -> None:
    for kind, name in (
        (stat.S_IFSOCK, "socket:[12]"),
        (stat.S_IFIFO, "pipe:[12]"),
        (stat.S_IFREG, "anonymous:[12]"),
        (stat.S_IFDIR, "/"),
    ):
        file = FILE.pack(1, 12, 3, kind)
        assert paths(file_record(file), call_record("read", file)) == [name]


def test_name_belongs_to_the_call_that_received_it() -> None:
    folder = file_record(FOLDER, b"data", b"srv")
    stat_ = call_record("newfstatat", FOLDER)

    def given(name: bytes) -> bytes:
        return name_record(7, 100, 0, name)

    assert paths(folder, given(b"foo"), stat_) == ["/srv/data/foo"]
    assert paths(folder, given(b"./foo"), stat_) == ["/srv/data/foo"]
    assert paths(folder, given(b"/etc/foo"), stat_) == ["/etc/foo"]
    assert paths(folder, given(b""), stat_) == ["/srv/data"]
    assert paths(given(b"foo"), stat_) == ["foo"]
    # A lost name is not replaced by the folder's, another thread's or an earlier call's.
    assert paths(folder, stat_) == [None]
    assert paths(folder, name_record(8, 100, 0, b"foo"), stat_) == [None]
    assert paths(folder, name_record(7, 99, 0, b"foo"), stat_) == [None]


def test_an_open_that_fails_has_the_name_it_was_given() -> None:
    opened = file_record(FOO, b"foo")
    assert paths(opened, call_record("openat", FOO, result=3)) == ["/foo"]
    failed = call_record("openat", FOLDER, result=-2)
    folder = file_record(FOLDER, b"srv")
    assert paths(folder, name_record(7, 100, 0, b"foo"), failed) == ["/srv/foo"]


@pytest.mark.parametrize(("elsewhere", "name"), [(False, "/srv/new"), (True, "new")])
def test_a_second_name_is_relative_to_its_own_folder(elsewhere: bool, name: str) -> None:
    with Reader(rows=10) as reader:
        reader.feed(file_record(FOLDER, b"srv"))
        reader.feed(name_record(7, 100, 0, b"old"))
        reader.feed(name_record(7, 100, 1, b"new"))
        reader.feed(call_record("renameat2", FOLDER, to_elsewhere=elsewhere))
        [row] = reader.take()[0]
        assert (reader.name(row["path"]), reader.name(row["to_path"])) == ("/srv/old", name)
        assert row["fd"] == NULL and row["inode"] == NULL


def test_names_can_contain_any_bytes() -> None:
    long = bytes([0xE4]) * 255
    found = paths(file_record(FOO, long, b"a\nb"), call_record("read", FOO))
    assert found == ["/a\nb/" + "\\xe4" * 255]


def test_full_buffer_is_taken_and_reading_continues() -> None:
    with Reader(rows=2) as reader:
        assert not reader.feed(call_record("read", time_ns=1))
        assert reader.feed(call_record("read", time_ns=2))
        calls, ios = reader.take()
        assert calls["time_ns"].tolist() == [1, 2] and not len(ios)
        assert not reader.feed(io_record(0))
        calls, ios = reader.take()
        assert not len(calls) and len(ios) == 1


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\0\0",
        struct.pack("<I", 9) * 100,
        call_record("read")[:-1],
        struct.pack("<II", 0, 250) + call_record("read")[8:],
        io_record(0)[:-1],
        file_record(FOO, b"foo")[:-1],
        file_record(FOO, b"foo")[:-1] + b"x",
        struct.pack("<IIQII", 1, 0, 0, 0, 2**32 - 1) + FOO,
        name_record(7, 100, 2, b"foo"),
    ],
)
def test_a_damaged_record_is_refused(record: bytes) -> None:
    with Reader(rows=10) as reader, pytest.raises(LinnappError, match="damaged"):
        reader.feed(record)


def test_reader_returns_no_rows_before_attach() -> None:
    with Reader(rows=10) as reader, pytest.raises(LinnappError, match="nothing is recorded"):
        reader.read(0)


# --- The tables.


def store_session(
    folder: Path, *records: bytes, session: str | None = None, arguments: str | None = None
) -> Path:
    folder.mkdir(parents=True)
    with (
        Reader(rows=10_000) as reader,
        Store(folder, call_names(), reader.name, session, arguments=arguments) as store,
    ):
        for record in records:
            reader.feed(record)
        store.add(*reader.take())
        store.finish({"command": ["x"], "seconds": 1.0, **reader.counts()})
    return folder


def select(folder: Path, sql: str) -> list[dict[str, Any]]:
    columns, rows = query(folder, sql)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def test_rows_contain_the_fields_of_the_records(tmp_path: Path) -> None:
    read = call_record("pread64", FOO, result=4096, n_bytes=8192, offset=512, duration_ns=60)
    in_call = calls.IN_CALL | calls.WATCHED | calls.COMPLETED
    folder = store_session(
        tmp_path / "seen",
        *(file_record(FOO, b"foo"), read, call_record("unlink", result=-13, time_ns=200)),
        io_record(in_call | calls.READAHEAD, call="pread64"),
        io_record(calls.METADATA | calls.FAILED | calls.BELOW, op=77),
        io_record(calls.PREFLUSH, n_bytes=0, op=1),
    )
    first, second = select(folder, "select * from calls order by time_ns")
    assert [first.pop(part) for part in calls.PARTS] == [60, 0, 0, 0, 0, 0, 0]
    assert first == {
        **{
            "session": None,
            "time_ns": 100,
            "duration_ns": 60,
            "pid": 7,
            "tid": 7,
            "process": "postgres",
        },
        **{"call": "pread64", "fd": 3, "path": "/foo", "to_path": None, "file_offset": 512},
        **{"bytes": 8192, "result": 4096, "kind": "file", "device": "4095:1", "inode": 12},
        **{"first_access_ns": 100, "arguments": None, "content_hash": None, "hashed_bytes": None},
    }
    assert (second["result"], second["path"], second["kind"]) == (-13, None, None)
    assert (second["device"], second["file_offset"]) == (None, None)
    assert second["first_access_ns"] is None
    one, two, three = select(folder, "select * from ios")
    assert (one["call"], one["call_time_ns"], one["latency_ns"]) == ("pread64", 100, 50)
    assert (one["op"], one["bytes"], one["sector"], one["readahead"]) == ("read", 4096, 2048, True)
    assert one["watched"] and not one["below"] and one["process"] == "kworker/u8:1"
    assert (two["call"], two["call_time_ns"], two["latency_ns"]) == (None, None, None)
    assert (two["op"], two["metadata"], two["failed"], two["below"]) == ("other", True, True, True)
    assert three["op"] == "flush" and not three["watched"]
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()} == {
        "calls.parquet": 0o600,
        "ios.parquet": 0o600,
        "recording.json": 0o600,
    }
    found = watch_query.summary(folder, 1)
    assert found["ios"]["in_calls"] == {"ios": 1, "read_bytes": 4096, "written_bytes": 0}
    assert found["ios"]["kernel_threads"]["ios"] == 1 and found["ios"]["below"]["ios"] == 1
    assert (found["calls"], found["calls_without_path"], found["paths"]) == (2, 1, 1)
    assert found["ios_without_end"] == 2
    [row] = found["by_path"]
    assert (row["path"], row["bytes"], row["ios"], row["io_read_bytes"]) == ("/foo", 4096, 1, 4096)


def test_a_summary_is_sorted_by_the_time_it_shows_and_waits_on_pipes_are_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = FILE.pack(0xFFFF0003, 13, DEVICE, stat.S_IFIFO | 0o644)
    folder = store_session(
        tmp_path / "seen",
        *(file_record(FOO, b"foo"), file_record(BAR, b"bar"), file_record(pipe)),
        *[call_record("read", FOO, duration_ns=100, time_ns=n) for n in range(99)],
        *[call_record("read", BAR, duration_ns=200_000, time_ns=n) for n in range(100, 200)],
        call_record("read", pipe, duration_ns=30_000_000, time_ns=300),
    )
    summary = watch_query.summary(folder, 5)
    assert [row["path"] for row in summary["by_path"]] == ["/bar", "/foo"]
    assert summary["paths"] == 2
    assert summary["on_no_file"] == {"calls": 1, "time_us": 30_000}
    _show(summary, None)
    head, bar, foo, *rest = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["path", "time", "ms"]
    assert bar.split()[:6] == ["/bar", "20.0", "100", "0", "200.0", "200.0"]
    assert foo.split()[:6] == ["/foo", "0.0", "99", "0", "0.1", "-"]  # too few for p99
    assert "on pipes, sockets and similar: 1 calls, 30.0 ms" in rest


def test_an_inodes_number_that_is_used_again_is_another_file(tmp_path: Path) -> None:
    def file(address: int, generation: int, device: int = DEVICE) -> bytes:
        return FILE.pack(address, 12, device, stat.S_IFREG)[:24] + struct.pack("<II", generation, 0)

    again, other_drive = file(1, 2), file(2, 1, DEVICE + 1)
    folder = store_session(
        tmp_path / "seen",
        call_record("read", file(1, 1), time_ns=200),
        call_record("read", again, time_ns=300),
        call_record("read", other_drive, time_ns=400),
        call_record("read", file(3, 1), time_ns=500),  # opened twice, it is one file
        call_record("read", again, time_ns=600),
        call_record("sync", time_ns=700),
    )
    rows = select(folder, "select time_ns, first_access_ns from calls order by time_ns")
    first = {row["time_ns"]: row["first_access_ns"] for row in rows}
    assert first == {200: 200, 300: 300, 400: 400, 500: 200, 600: 300, 700: None}


def test_drives_and_decisions_have_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = store_session(
        tmp_path / "seen",
        io_record(0),
        io_record(0, drive=4094 << 20 | 2, decision=1),
        io_record(0, drive=calls.SEVERAL, decision=2),
        io_record(0, decision=3),
        io_record(0, decision=1),
    )
    rows = select(folder, "select drive, decision from ios")
    assert [row["drive"] for row in rows[:3]] == ["4095:1", "4094:2", None]
    assert [row["decision"] for row in rows[:4]] == [None, "admitted", "revoked", "probe"]
    _show(watch_query.summary(folder, 1), None)
    assert "LinnOS decisions: 2 admitted, 1 probe, 1 revoked" in capsys.readouterr().out


def test_an_ios_tag_is_the_hint_of_its_priority(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tags work in each priority class and level. Hints up to 7 belong to the kernel."""
    tags = {
        0: None,
        2 << 13 | 4: None,
        1 << 13 | 7 << 3 | 7: None,
        2 << 13 | 8 << 3: 8,
        3 << 13 | 1023 << 3: 1023,
        1 << 13 | 512 << 3 | 7: 512,
    }
    ended = calls.COMPLETED
    folder = store_session(
        tmp_path / "seen",
        *(io_record(ended, priority=priority) for priority in tags),
        io_record(ended, priority=2 << 13 | 8 << 3, op=1, n_bytes=512),
        io_record(ended | calls.BELOW, priority=2 << 13 | 8 << 3),
        io_record(0, priority=2 << 13 | 9 << 3),
    )
    rows = select(folder, "select tag from ios")
    assert [row["tag"] for row in rows[: len(tags)]] == [*tags.values()]
    summary = watch_query.summary(folder, 2)
    assert [(row["tag"], row["ios"]) for row in summary["by_tag"]] == [(8, 2), (9, 1)]
    _show(summary, None)
    shown = capsys.readouterr().out
    assert "tag 8: block I/Os 2, 4096 bytes read, 512 written; p50 0.1, p99" in shown
    assert "tag 9: block I/Os 1, 4096 bytes read, 0 written\n" in shown


def test_sessions_are_kept_side_by_side(tmp_path: Path) -> None:
    folder = tmp_path / "seen"
    store_session(folder, call_record("read", result=1))
    for i, session in enumerate(("before", "af'ter")):
        store_session(
            watch_query.session_folder(folder, session),
            *(call_record("read", time_ns=1000 * i + n) for n in range(i + 2)),
            session=session,
        )
    (folder / "notes").mkdir()
    counts = select(folder, "select session, count(*) as n from calls group by all order by all")
    assert [(row["session"], row["n"]) for row in counts] == [
        ("af'ter", 3),
        ("before", 2),
        (None, 1),
    ]
    (folder / "before" / "ios.parquet").write_bytes(b"PAR1" * 5)
    with pytest.raises(LinnappError, match="before/ios.parquet: is not a readable table"):
        query(folder, "from calls")
    duckdb.execute(
        "copy (select 1 as a) to ? (format parquet)", [str(folder / "before" / "ios.parquet")]
    )
    with pytest.raises(LinnappError, match="before/ios.parquet: .*has no column session"):
        query(folder, "from calls")
    for name in ("", ".", "..", "a/b", "a\x1b", ".hidden"):
        with pytest.raises(LinnappError, match="--session"):
            watch_query.session_folder(folder, name)


def test_changed_call_is_named_with_its_waits(tmp_path: Path) -> None:
    """fsync() takes 300 us more, all at the drive; reads differ only by chance."""
    rng = np.random.default_rng(5)
    n = 400
    for i, session in enumerate(("before", "after")):
        records: list[bytes] = [file_record(FOO, b"foo")]
        for k in range(n):
            time_ns = i * 10**12 + 50 * 10**6 * k
            duration_ns = 500_000 + int(rng.normal(0, 20_000)) + 300_000 * i
            io = io_record(
                calls.IN_CALL | calls.WATCHED | calls.COMPLETED,
                time_ns=time_ns + 1000,
                latency_ns=duration_ns - 2000,
                op=1,
                call="fsync",
                call_time_ns=time_ns,
                insert_ns=time_ns + 2000,
                issue_ns=time_ns + 11_000,
            )
            records += [
                call_record(
                    *("fsync", FOO),
                    time_ns=time_ns,
                    duration_ns=duration_ns,
                    waits_ns=(duration_ns - 5000, 0, 0, 0, 0, 0),
                ),
                call_record(
                    "read", FOO, time_ns=time_ns, duration_ns=2000 + int(rng.normal(0, 300)), tid=8
                ),
                io,
            ]
        records += [call_record("unlink", time_ns=i * 10**12)]
        store_session(tmp_path / "seen" / session, *records, session=session)
    found = {change.call: change for change in changes(tmp_path / "seen", "before", "after")}
    assert sorted(found) == ["fsync", "read", "unlink"] and next(iter(found)) == "fsync"
    fsync = found["fsync"]
    assert fsync.us.excludes_zero and not found["read"].us.excludes_zero
    assert not found["unlink"].us.is_known
    assert fsync.us.low < 300 < fsync.us.high and fsync.us.high - fsync.us.low < 20
    assert (fsync.before.calls, fsync.before.ios) == (n, 1.0)
    assert fsync.after.drive_us - fsync.before.drive_us == pytest.approx(fsync.us.value, abs=0.01)
    assert fsync.after.wait_us == fsync.before.wait_us == 10.0
    parts = [side.parts_us for side in (fsync.before, fsync.after)]
    assert sum(parts[0].values()) == pytest.approx(fsync.before.mean_us)
    longer_ns = parts[1]["io_wait_ns"] - parts[0]["io_wait_ns"]
    assert longer_ns == pytest.approx(fsync.us.value, abs=0.01)
    shown = run("query", tmp_path / "seen", "--compare", "before", "after", "--by-path")
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("fsync /foo: slower: mean ")
    assert "\n  of the mean: on a CPU 5.0 -> 5.0, its own I/Os 4" in shown.output
    assert "3 kinds of calls in both, 1 with significant changes; 1 have too few" in shown.output
    back = json.loads(
        run("query", tmp_path / "seen", "--compare", "after", "before", "--json").output
    )
    assert (back[0]["call"], back[0]["beyond_chance"]) == ("fsync", True)
    assert back[0]["us"] == -fsync.us.value and back[0]["low_us"] < back[0]["high_us"]
    refused = run("query", tmp_path / "seen", "--compare", "before", "x")
    assert "no session x with calls; it has after, before" in str(refused.exception)
    for arguments in ((), ("select 1", "--compare", "a", "b"), ("select 1", "--by-path")):
        assert run("query", tmp_path / "seen", *arguments).exit_code == 2


def test_queries_are_answered_as_text_and_as_json(tmp_path: Path) -> None:
    folder = store_session(
        tmp_path / "it's [a] seen*", file_record(FOO, b"a\x1b[2J"), call_record("read", FOO)
    )
    shown = run("query", folder, "select path, file_offset, 0.25 as x from calls")
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines() == ["path    file_offset  x", "/a?[2J  -            0.25"]
    found = run("query", folder, "select path, file_offset from calls", "--json")
    assert json.loads(found.output) == [{"path": "/a\x1b[2J", "file_offset": None}]
    assert json.loads(run("query", folder, "from ios", "--json").output) == []
    twice = "select 1 as a, 2 as a, 3 as a_1, 1.5 / 0 as b, ['nan'::double, 1] as c"
    assert json.loads(run("query", folder, twice, "--json").output, parse_constant=pytest.fail) == [
        {"a": 1, "a_2": 2, "a_1": 3, "b": None, "c": [None, 1.0]}
    ]
    drawn = run("query", folder, "--timeline", tmp_path / "x.html", "--json")
    assert drawn.exit_code == 2 and "combined with --timeline" in drawn.output
    many = run("query", folder, "select range from range(20000)")
    assert len(many.stdout.splitlines()) == 10_001 and "the first 10000 rows" in many.stderr


def test_queries_and_columns_on_the_watch_page_are_right(tmp_path: Path) -> None:
    document = DOCUMENT.read_text()
    folder = store_session(
        tmp_path / "seen",
        file_record(FOO, b"foo", b"srv"),
        call_record("pwrite64", FOO, result=100),
        io_record(calls.IN_CALL | calls.COMPLETED, call="pwrite64"),
    )
    # Other tests run the remaining queries on suitable programs.
    queries = re.findall(r"```sql\n(.*?)```", document.split("\n### With which")[0], re.S)
    assert len(queries) == 3
    for sql in queries:
        [row] = select(folder, sql)
        assert row["path"] == "/srv/foo"
    for table in calls.TABLES:
        [rows] = re.findall(rf"^\| `{table}` \| \|\n\|---\|---\|\n(.*?)\n\n", document, re.S | re.M)
        descriptions = [
            name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
        ]
        columns = [row["column_name"] for row in select(folder, f"describe {table}")]
        assert sorted(descriptions) == sorted(columns)
        help_ = run("query", "--help").output
        assert all(name in help_ for name in columns)
    if platform.machine() == "x86_64":
        assert f"{len(call_names())} calls on x86-64" in document


def test_invalid_sql_and_damaged_or_missing_tables_are_named(tmp_path: Path) -> None:
    folder = store_session(tmp_path / "seen", call_record("read"))
    for sql, words in (("select nonsense from calls", "nonsense"), ("selec", "syntax error")):
        with pytest.raises(LinnappError, match=words):
            query(folder, sql)
    (folder / "ios.parquet").write_bytes(b"PAR1" * 5)
    with pytest.raises(LinnappError, match="ios.parquet: is not a readable table"):
        query(folder, "from calls")
    (folder / "ios.parquet").unlink()
    with pytest.raises(LinnappError, match="ios.parquet: No such file .*linnapp watch -o"):
        query(folder, "from calls")


# --- Refusals.


def test_watch_names_each_missing_requirement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "types").touch()
    lib = str(tmp_path / "lib.so")
    for change, message in (
        (lambda m: m.setattr(watching.os, "geteuid", lambda: 1000), "needs root; .*sudo"),
        (lambda m: m.setattr(watching, "_BTF", tmp_path / "none"), "CONFIG_DEBUG_INFO_BTF"),
        (lambda m: m.setattr(watching, "_INITIAL_PID_NAMESPACE", 1), "runs in a PID namespace"),
        (lambda m: m.setitem(sys.modules, "duckdb", None), r"pip install 'linnapp\[watch\]'"),
        (lambda m: m.setenv("LINNAPP_WATCH_LIB", lib), "lib.so: not built; .*libbpf-dev"),
    ):
        with monkeypatch.context() as m:
            m.setattr(watching.os, "geteuid", lambda: 0)
            m.setattr(watching, "_BTF", tmp_path / "types")
            change(m)
            calls.library.cache_clear()
            with pytest.raises(LinnappError, match=message):
                watching.check_can_watch()
    calls.library.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("-- no-such-command", "no-such-command: no such command"),
        (f"--pid {2**22}", "--pid 4194304: no such process"),
        ("--call raed -- true", "--call raed: is not recorded .* read, "),
        ("--path / -- true", "--path /: contains all files"),
        (f"--path /{'x' * 300} -- true", "--path: the path has 301 bytes; the maximum is 255"),
        ("--path a" + " --path b" * 8 + " -- true", "too many paths; the maximum is 8"),
        (f"--thread {','.join(map(str, range(70)))} -- true", "too many processes and threads"),
        ("--session a/b -- true", "--session 'a/b': must be printable"),
    ],
)
def test_watch_refuses_what_it_cannot_record(tmp_path: Path, arguments: str, words: str) -> None:
    refused = run("watch", "-o", tmp_path / "out", *arguments.split())
    assert isinstance(refused.exception, LinnappError), refused.output
    assert re.search(words, str(refused.exception)), refused.exception
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--session a -- true", "needs -o FOLDER"),
        ("--arguments raw -- true", "need -o FOLDER or"),
        ("--hash -- true", "need -o FOLDER or"),
        ("--all --pid 1", "or --all"),
        ("", "give `-- CMD ...`, --pid"),
        ("--pid 1 -- true", "give `-- CMD ...`, --pid"),
    ],
)
def test_options_of_watch_that_need_or_exclude_others_are_refused(
    arguments: str, words: str
) -> None:
    assert words in run("watch", *arguments.split()).output


# --- On this machine's own kernel.


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Path]:
    """Make a separate ext4 on a loop device."""
    image, place = tmp_path / "image", tmp_path / "drive"
    with image.open("wb") as stream:
        stream.truncate(64 << 20)
    place.mkdir()
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", image, place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no loop device here: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def queue_of(drive: Path) -> Path:
    """Return the settings of a drive's queue."""
    device = drive.stat().st_dev
    return Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue").resolve()


def recorded(folder: Path, script: str, *arguments: object, **options: Any) -> watching.Watched:
    """Record a program in Python, which must succeed; return what was counted."""
    program = [sys.executable, "-S", "-E", "-c", textwrap.dedent(script), *map(str, arguments)]
    seen = watching.watch(folder, command=program, **options)
    assert not seen.status and not seen.counts["lost_calls"]
    return seen


@contextlib.contextmanager
def running(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a program in the background; kill it at the end."""
    program = subprocess.Popen(list(map(str, command)), text=True, **options)
    try:
        yield program
    finally:
        program.kill()
        program.wait()


PROGRAM = """
import mmap, os, sys
os.chdir(sys.argv[1])
os.mkdir("folder")
for name, n, size in (("one", 20, 4096), ("folder/two", 7, 65536), ("three", 3, 12288)):
    fd = os.open(name, os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    os.posix_fallocate(fd, 0, n * size)
    os.fsync(fd)
    page = mmap.mmap(-1, size)
    page[:] = b"x" * size
    for i in range(n):
        os.pwrite(fd, page, i * size)
    os.fsync(fd)
    copy = os.dup(fd)
    os.close(fd)
    for i in range(n):
        assert os.preadv(copy, [page], i * size) == size
    os.lseek(copy, size, os.SEEK_SET)
    if name == "three":
        os.readv(copy, [page])
    os.close(copy)
os.rename("three", "folder/four")
try:
    os.unlink("three")
except FileNotFoundError:
    pass
"""


def test_counts_bytes_and_paths_are_those_of_the_program(
    can_watch: None, drive: Path, tmp_path: Path
) -> None:
    program = [sys.executable, "-S", "-E", "-c", PROGRAM, str(drive)]
    folder = tmp_path / "seen"
    # The program itself is not counted here; its children are watched, too.
    seen = watching.watch(folder, command=["sh", "-c", '"$@" && exit 3', "sh", *program])
    assert seen.status == 3
    lost = ("lost_calls", "lost_names", "lost_ios", "untracked_calls", "untracked_ios")
    assert [seen.counts[name] for name in (*lost, "untracked_processes")] == [0] * 6
    loop = queue_of(drive).parent.name
    found = select(
        folder,
        f"""select path, call, count(*) as n, sum(bytes)::bigint as bytes,
        sum(result)::bigint as results, min(file_offset) as low, max(file_offset) as high
        from calls where starts_with(path, '{drive}/') and kind = 'file' and device = '{loop}'
        and call in ('pwrite64', 'preadv', 'preadv2', 'fsync', 'readv', 'close', 'lseek')
        group by all""",
    )
    by_call = {(row["path"].removeprefix(f"{drive}/"), row["call"]): row for row in found}
    reads = next(call for _, call in by_call if call.startswith("preadv"))
    for name, n, size in (("one", 20, 4096), ("folder/two", 7, 65536), ("three", 3, 12288)):
        for call in "pwrite64", reads:
            row = by_call.pop((name, call))
            assert (row["n"], row["bytes"], row["results"]) == (n, n * size, n * size)
            assert (row["low"], row["high"]) == (0, (n - 1) * size)
        assert by_call.pop((name, "fsync"))["n"] == 2
        assert by_call.pop((name, "close"))["n"] == 2
        assert by_call.pop((name, "lseek"))["results"] == size
        # Each of them went to the drive separately, and none to another drive.
        for call, op in ("pwrite64", "write"), (reads, "read"):
            ios = select(
                folder,
                f"""select count(*) as n, sum(ios.bytes)::bigint as bytes, count(distinct
                calls.time_ns) as calls, coalesce(min(latency_ns), 1) > 0 as took,
                bool_and(coalesce(latency_ns, 0) < duration_ns) as within
                from ios join calls on ios.tid = calls.tid and call_time_ns = calls.time_ns
                where ios.device = '{loop}' and op = '{op}' and not metadata
                and calls.call = '{call}' and path = '{drive}/{name}'""",
            )
            assert ios == [{"n": n, "bytes": n * size, "calls": n, "took": True, "within": True}], (
                name
            )
    # The offset is the position in the file, which lseek() has moved.
    read = by_call.pop(("three", "readv"))
    assert (read["n"], read["bytes"], read["low"]) == (1, 12288, 12288)
    assert not by_call
    [renamed] = select(folder, "select * from calls where call like 'rename%'")
    assert (renamed["path"], renamed["to_path"]) == (f"{drive}/three", f"{drive}/folder/four")
    [unlinked] = select(folder, f"select * from calls where path = '{drive}/three' and result = -2")
    assert unlinked["call"].startswith("unlink")
    [mkdir] = select(
        folder, f"select * from calls where path = '{drive}/folder' and call ~ 'mkdir'"
    )
    assert mkdir["result"] == 0
    # fsync() makes the drive flush its cache; a thread of the kernel writes the journal.
    journal = select(folder, f"from ios where device = '{loop}' and not watched and call is null")
    assert any(row["process"].startswith("jbd2/") for row in journal)
    summary = watch_query.summary(folder, 1000)
    row_of_one = next(row for row in summary["by_path"] if row["path"] == f"{drive}/one")
    assert row_of_one["bytes"] == 2 * 20 * 4096
    assert (row_of_one["io_read_bytes"], row_of_one["io_written_bytes"] >= 20 * 4096) == (
        20 * 4096,
        True,
    )


#: The 42 of DIO's Table 1 (Esteves et al., 2023), which calls newfstatat() by its older name.
DIO = {
    "data": "read pread64 readv write pwrite64 writev fsync fdatasync readahead",
    "metadata": "creat open openat close lseek truncate ftruncate rename renameat renameat2 unlink "
    "unlinkat readlink readlinkat stat lstat fstat fstatfs newfstatat",
    "extended attributes": "getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr listxattr "
    "llistxattr flistxattr removexattr lremovexattr fremovexattr",
    "directories": "mknod mknodat",
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="others have no open(), stat(), ...")
def test_watch_records_the_cases_of_the_dio_paper(can_watch: None, tmp_path: Path) -> None:
    """Check that each call with an invalid descriptor and address is recorded once, as failed."""
    calls = [call for kind in DIO.values() for call in kind.split()]
    assert len(set(calls)) == 42 and set(calls) <= set(call_names())
    (tmp_path / "calls.c").write_text(
        "#include <sys/syscall.h>\n#include <unistd.h>\nint main(void)\n{\n"
        + "".join(f"\tsyscall(SYS_{call}, -1L, -1L, -1L, 77L, -1L, -1L);\n" for call in calls)
        + "\treturn 0;\n}\n"
    )
    subprocess.run(["cc", "-o", tmp_path / "calls", tmp_path / "calls.c"], check=True)
    watching.watch(tmp_path / "seen", command=[str(tmp_path / "calls")], arguments="raw")
    rows = select(
        tmp_path / "seen",
        "select call, result from calls where (arguments->>3)::ubigint = 77 order by time_ns",
    )
    assert [row["call"] for row in rows] == calls
    assert all(row["result"] < 0 for row in rows)


def test_split_io_is_one_io_that_ends_with_its_last_part(
    can_watch: None, drive: Path, tmp_path: Path
) -> None:
    """The I/O has 256 KiB and the drive accepts 64 KiB at a time."""
    (queue_of(drive) / "max_sectors_kb").write_text("64")
    script = f"""
        import mmap, os
        fd = os.open("{drive}/f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        os.posix_fallocate(fd, 0, 20 << 18)
        page = mmap.mmap(-1, 1 << 18)
        for i in range(20):
            os.pwrite(fd, page, i << 18)
    """
    recorded(tmp_path / "seen", script)
    ios = select(
        tmp_path / "seen",
        """select ios.bytes, latency_ns, duration_ns from ios join calls
        on ios.tid = calls.tid and call_time_ns = calls.time_ns
        where ios.call = 'pwrite64' and not metadata""",
    )
    assert [io["bytes"] for io in ios] == [1 << 18] * 20
    ended = [io for io in ios if io["latency_ns"] is not None]
    # Some kernels run no BPF programs while certain processes run. The end of an I/O in an
    # interrupt at such a time is not seen.
    assert len(ended) >= 15
    assert all(0 < io["latency_ns"] < io["duration_ns"] for io in ended)


@pytest.mark.parametrize("scheduler", ["none", "mq-deadline"])
def test_io_latency_is_split_by_layer(
    can_watch: None, drive: Path, tmp_path: Path, scheduler: str
) -> None:
    """Eight threads wait at a drive that takes two I/Os at a time, if there is a scheduler."""
    queue = queue_of(drive)
    if scheduler not in (queue / "scheduler").read_text():
        pytest.skip(f"this kernel has no {scheduler}")
    (queue / "scheduler").write_text(scheduler)
    script = f"""
        import mmap, os, threading
        fd = os.open("{drive}/f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        os.posix_fallocate(fd, 0, 1 << 22)
        page = mmap.mmap(-1, 1 << 22)
        os.pwrite(fd, page, 0)
        def read():
            page = mmap.mmap(-1, 4096)
            for i in range(100):
                os.preadv(fd, [page], i << 12)
        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
    recorded(tmp_path / "seen", script)
    [found] = select(
        tmp_path / "seen",
        """select count(*) as n, count(drive_ns) as known, bool_and(drive = ios.device) as served,
        bool_and(plug_ns + scheduler_ns + drive_ns = latency_ns) as adds_up,
        bool_and(plug_ns >= 0 and scheduler_ns >= 0 and drive_ns > 0) as is_time,
        max(scheduler_ns) as scheduler_ns, count(decision) as decided
        from ios join calls on ios.tid = calls.tid and call_time_ns = calls.time_ns
        where ios.op = 'read' and ios.call like 'pread%' and not metadata""",
    )
    assert found["n"] == 800 and found["known"] >= 700
    assert found["adds_up"] and found["is_time"] and found["served"]
    assert (found["scheduler_ns"] > 0) == (scheduler != "none")
    has_linnos = bool(list(Path("/sys/block").glob("*/linnos")))
    assert has_linnos or not found["decided"]


@pytest.fixture
def tags(can_watch: None) -> None:
    """Skip the test if the I/O priority has no room for tags, as before Linux 6.5."""
    if tuple(map(int, platform.release().split("-")[0].split(".")[:2])) < (6, 5):
        pytest.skip("this kernel's I/O priorities have no hints")


@pytest.fixture
def tagged_reads(tmp_path: Path) -> Path:
    program = tmp_path / "tagged_reads"
    source = Path(__file__).parent / "watched_programs" / "tagged_reads.c"
    subprocess.run(["cc", "-O2", "-Wall", "-pthread", "-o", program, source, "-luring"], check=True)
    return program


def test_io_has_the_tag_set_by_its_application(
    tags: None, tagged_reads: Path, drive: Path, tmp_path: Path
) -> None:
    """Threads and requests of io_uring and aio set tags; the program prints which."""
    loop = queue_of(drive).parent.name
    folder = tmp_path / "seen"
    stdout = subprocess.run(
        [
            *(sys.executable, "-m", "linnapp", "watch", "-o", folder, "--"),
            *(tagged_reads, f"/dev/{loop}"),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    expected = {int(sector): int(tag) for sector, tag in re.findall(r"^(\d+) (\d+)$", stdout, re.M)}
    seen = select(folder, f"select sector, tag, call from ios where device = '{loop}'")
    # A read that a worker of a ring had to send again is recorded twice, both times with its tag.
    assert {(io["sector"], io["tag"] or 0) for io in seen} == set(expected.items())
    assert len(expected) == 16 * (3 + 1 + 6 + 1)
    calls = {tag: {io["call"] for io in seen if io["tag"] == tag} for tag in (100, 400)}
    assert calls == {100: {"pread64"}, 400: {"io_submit"}}
    assert re.search(r"^tag 400: block I/Os 16, 65536 bytes read, 0 written;", stdout, re.M)
    document = DOCUMENT.read_text().split("\n### Whose request it is: tags\n")[1].split("\n### ")[0]
    [sql] = re.findall(r"```sql\n(.*?)```", document, re.S)
    rows = {row["tag"]: row for row in select(folder, sql)}
    assert [*rows] == [8, 100, 101, 102, 200, 400, 1023, None]
    assert all(row["ios"] >= 16 and row["p99_us"] > 0 for row in rows.values())


#: Makes calls in two folders, by the main thread and by one with its own name and number.
FILTERED = """
import os, sys, threading
def work():
    os.chdir(sys.argv[1])
    for name in ("in/a", "inner/b", "./in/c", sys.argv[1] + "/in/sub/d", "out/e"):
        fd = os.open(name, os.O_CREAT | os.O_RDWR)
        os.write(fd, b"x" * 100)
        os.fsync(fd)
        os.close(fd)
        os.stat(name)
    os.rename("out/e", "in/e")
    os.symlink("in/a", "link")
    os.close(os.open("link", os.O_RDONLY))
    r, w = os.pipe()
    os.write(w, b"x")
    os.chdir("in")
    os.unlink("e")
    os.chdir("sub")
    os.stat("../../out")
for folder in ("in", "in/sub", "inner", "out"):
    os.makedirs(os.path.join(sys.argv[1], folder))
thread = threading.Thread(target=work)
if len(sys.argv) > 2:
    thread.run()
else:
    def named():
        open("/proc/thread-self/comm", "w").write("worker")
        print(threading.get_native_id())
        work()
    thread = threading.Thread(target=named)
    thread.start()
    thread.join()
"""


def watched_by(folder: Path, filters: Filters, *arguments: object) -> watching.Watched:
    seen = recorded(folder, FILTERED, *arguments, filters=filters)
    assert seen.counts["filtered_calls"] > 0
    return seen


def test_filter_records_only_calls_within_the_path(
    can_watch: None, drive: Path, tmp_path: Path
) -> None:
    place = drive / "place"
    filters = Filters(paths=[f"{place}/in", f"{place}/nowhere"])
    seen = watched_by(tmp_path / "seen", filters, place, "main")
    rows = select(tmp_path / "seen", "select call, path, to_path from calls order by time_ns")
    # C libraries may use openat() and statx() instead.
    found = [
        (re.sub(r"^newf|at2?$|x$", "", row["call"]), row["path"].removeprefix(f"{place}/"))
        for row in rows
    ]
    worked = ["open", "write", "fsync", "close", "stat"]
    for name in ("in/a", "in/c", "in/sub/d"):
        assert [call for call, path in found if path == name][:5] == worked, name
    assert all(path.split("/")[0] == "in" or call == "rename" for call, path in found)
    renames = [row for row in rows if row["call"].startswith("rename")]
    assert [(row["path"], row["to_path"]) for row in renames] == [
        (f"{place}/out/e", f"{place}/in/e")
    ]
    # The link is another path, but the opened file is the same.
    assert [call for call, path in found if path == "in/a"][5:] == ["open", "close"]
    assert ("unlink", "in/e") in found
    assert all(path.startswith("in/") for call, path in found if call == "write")
    # Links from inside to outside count by the given name.
    assert ("stat", "in/sub/../../out") in found
    # I/Os of these calls, without those of the journal.
    [ios] = select(
        tmp_path / "seen",
        "select count(*) as n, bool_and(call is not null) as within, bool_or(call = 'fsync') as "
        "synced from ios",
    )
    assert ios["n"] >= 3 and ios["within"] and ios["synced"]
    assert seen.counts["filtered_ios"] > 0


def test_filter_compares_names_that_are_read_late(can_watch: None, tmp_path: Path) -> None:
    """One of two names, in pages that are not resident at the call's start, is in the path."""
    script = """
        import ctypes, mmap, sys
        access = ctypes.CDLL(None).access
        with open(sys.argv[1] + "/names", "w+b") as names:
            for name in b"in/missing", b"out/missing":
                names.seek(0)
                names.write(sys.argv[1].encode() + b"/" + name + bytes(4096))
                names.flush()
                page = mmap.mmap(names.fileno(), 4096, flags=mmap.MAP_PRIVATE)
                access(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(page))), 0)
    """
    recorded(tmp_path / "seen", script, tmp_path, filters=Filters(paths=[f"{tmp_path}/in"]))
    rows = select(tmp_path / "seen", "select path, result from calls")
    assert [(row["path"], row["result"]) for row in rows] == [(f"{tmp_path}/in/missing", -2)]


def test_only_certain_calls_and_threads_are_recorded(can_watch: None, tmp_path: Path) -> None:
    def seen(filters: Filters, *arguments: object) -> list[tuple[str, str]]:
        folder, place = tmp_path / f"{len(list(tmp_path.iterdir()))}", tmp_path / "place"
        shutil.rmtree(place, ignore_errors=True)
        watched_by(folder, filters, place, *arguments)
        [left_out] = select(folder, "select count(*) as n from ios where call is null")
        assert left_out["n"] == 0 or not filters.calls
        return [
            (row["call"], row["process"])
            for row in select(folder, "select call, process from calls")
        ]

    found = seen(Filters(calls=["fsync", "rename"]), "main")
    assert sorted(call for call, _ in found) == ["fsync"] * 5 + ["rename"]
    [process] = {process for _, process in found}
    found = seen(Filters(threads=["worker"]))
    assert {process for _, process in found} == {"worker"}
    assert [call for call, _ in found].count("fsync") == 5
    # A process counts once, with all of its threads.
    found = seen(Filters(calls=["fsync", "read"], processes=[process]))
    assert [each for each in found if each[0] == "fsync"] == [("fsync", "worker")] * 5
    assert ("read", process) in found
    assert seen(Filters(processes=["absent"])) == []


#: Seconds until a test gives up; no test waits this long otherwise.
GIVE_UP_S = 600


def lasts_until(happened: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the watch last until something has happened."""
    begin = time.monotonic()
    has_happened = False

    def monotonic() -> float:
        nonlocal has_happened
        has_happened = has_happened or bool(happened())
        assert has_happened or time.monotonic() - begin < GIVE_UP_S
        return time.monotonic() if has_happened else begin

    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=monotonic))


def lasts_until_grown(*files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the watch last until each of these files has grown by some bytes."""
    before: list[int] = []

    def have_grown() -> bool:
        sizes = [file.stat().st_size if file.exists() else 0 for file in files]
        before.extend(sizes[len(before) :])
        return all(now > was + 5 for now, was in zip(sizes, before, strict=True))

    lasts_until(have_grown, monkeypatch)


def goes_when_followed(n: int, go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create the file that programs wait for once `n` of them are followed."""
    followed: list[int] = []
    follow = Reader.follow

    def follows(reader: Reader, pid: int) -> None:
        follow(reader, pid)
        followed.append(pid)
        if len(followed) == n:
            go.touch()

    monkeypatch.setattr(Reader, "follow", follows)


def test_only_calls_that_are_under_way_at_the_end_are_unfinished(
    can_watch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread waits in a read until the other writes, which then sleeps forever."""
    script = textwrap.dedent("""
        import os, threading, time
        r, w = os.pipe()
        def reads():
            while True:
                os.read(r, 1)
        threading.Thread(target=reads).start()
        while not os.path.exists("go"):
            time.sleep(0.01)
        for _ in range(10):
            os.write(w, b"x")
        open("done", "w").close()
        time.sleep(600)
    """)

    def are_both_asleep() -> bool:
        stats = Path(f"/proc/{program.pid}/task").glob("*/stat")
        states = [stat.read_text().rpartition(")")[2].split()[0] for stat in stats]
        return (tmp_path / "done").exists() and states == ["S", "S"]

    goes_when_followed(1, tmp_path / "go", monkeypatch)
    lasts_until(are_both_asleep, monkeypatch)
    with running([sys.executable, "-S", "-c", script], cwd=tmp_path) as program:
        seen = watching.watch(tmp_path / "seen", pids=[program.pid], duration_s=0.1)
    [row] = select(tmp_path / "seen", "select count(*) as n, count(distinct tid) as t from calls")
    assert row["n"] >= 20 and row["t"] == 2
    assert seen.counts["unfinished_calls"] == 1


def test_a_thread_is_chosen_by_its_number(
    can_watch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = textwrap.dedent("""
        import os, threading, time
        def work(name):
            with open(name, "w") as f:
                f.write(str(threading.get_native_id()))
            with open(name + ".looks", "wb", buffering=0) as looks:
                while True:
                    os.stat(name)
                    looks.write(b"x")
                    time.sleep(0.005)
        for name in "ab":
            threading.Thread(target=work, args=[name]).start()
    """)
    looks = [tmp_path / "a.looks", tmp_path / "b.looks"]
    with running([sys.executable, "-S", "-c", script], cwd=tmp_path):
        while not all(path.exists() for path in looks):
            time.sleep(0.01)
        lasts_until_grown(*looks, monkeypatch=monkeypatch)
        watching.watch(
            tmp_path / "seen",
            every=True,
            filters=Filters(threads=[(tmp_path / "b").read_text()]),
            duration_s=0.1,
        )
    [found] = select(
        tmp_path / "seen", "select distinct tid, path from calls where call ~ 'stat|statx'"
    )
    assert found == {"tid": int((tmp_path / "b").read_text()), "path": f"{tmp_path}/b"}


def test_several_processes_are_watched_until_the_last_has_ended(
    can_watch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"""
        while [ ! -e {tmp_path}/go ]; do sleep 0.01; done
        for i in 1 2 3; do : >{tmp_path}/$0; sleep $0; done
    """
    goes_when_followed(2, tmp_path / "go", monkeypatch)
    programs = [subprocess.Popen(["sh", "-c", script, name]) for name in ("0.05", "0.15")]
    watching.watch(tmp_path / "seen", pids=[program.pid for program in programs])
    for program in programs:
        assert program.wait(GIVE_UP_S) == 0
    found = select(
        tmp_path / "seen",
        f"""select path, pid, count(*) as n from calls where call = 'openat' and result >= 0
        and starts_with(path, '{tmp_path}/') group by all order by path""",
    )
    assert [(row["path"], row["pid"], row["n"]) for row in found] == [
        (f"{tmp_path}/{name}", program.pid, 3)
        for name, program in zip(("0.05", "0.15"), programs, strict=True)
    ]


def test_watch_all_records_every_other_process(
    can_watch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two programs that were not named are recorded; one starts after the watch."""
    script = f"while :; do echo >>{tmp_path}/$0; sleep 0.02; done"
    lasts_until_grown(tmp_path / "first", tmp_path / "second", monkeypatch=monkeypatch)
    with running(["sh", "-c", script, "first"]):
        seen = watching.watch(
            tmp_path / "seen", command=["sh", "-c", script, "second"], every=True, duration_s=0.1
        )
    assert not seen.counts["lost_calls"]
    found = select(
        tmp_path / "seen",
        f"""select path, count(*) as n, bool_and(pid <> {os.getpid()}) as not_ours from calls
        where path in ('{tmp_path}/first', '{tmp_path}/second') and call = 'openat' group by all
        order by path""",
    )
    assert [row["path"] for row in found] == [f"{tmp_path}/first", f"{tmp_path}/second"]
    assert all(row["n"] > 3 and row["not_ours"] for row in found)
    [ours] = select(tmp_path / "seen", f"select count(*) as n from calls where pid = {os.getpid()}")
    assert ours["n"] == 0


def test_a_process_that_runs_is_watched_and_its_open_files_have_names(
    can_watch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = textwrap.dedent(f"""
        import os, time
        fd = os.open("{tmp_path}/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        r, w = os.pipe()
        os.write(fd, b"begun")
        while True:
            os.write(fd, b"line")
            os.write(w, b"x")
            os.read(r, 1)
            time.sleep(0.01)
    """)
    log = tmp_path / "log"
    with running([sys.executable, "-S", "-c", script]) as program:
        while not (log.exists() and log.stat().st_size):
            time.sleep(0.01)
        lasts_until_grown(log, monkeypatch=monkeypatch)
        seen = run("watch", "-o", tmp_path / "seen", "--pid", program.pid, "--duration", 0.1)
        assert program.poll() is None
    assert seen.exit_code == 0, seen.output
    assert f"{tmp_path}/log"[-30:] in seen.output and "nothing was dropped" in seen.output
    rows = select(tmp_path / "seen", "from calls where call = 'write' and kind = 'file'")
    assert rows and {(row["path"], row["bytes"], row["pid"]) for row in rows} == {
        (f"{tmp_path}/log", 4, program.pid)
    }
    # Each call appends where the previous one has ended.
    offsets = np.sort([row["file_offset"] for row in rows])
    assert offsets[0] >= 5 and (np.diff(offsets) == 4).all()
    [pipe] = select(tmp_path / "seen", "select distinct path, kind from calls where call = 'read'")
    assert pipe["kind"] == "pipe" and pipe["path"].startswith("pipe:[")


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Restore the default for interrupts, which background jobs of a shell ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_watch_keeps_the_recording_when_interrupted(
    can_watch: None, heeded_interrupts: None, tmp_path: Path, how: signal.Signals
) -> None:
    script = f"import os, time; open('{tmp_path}/begun', 'w').write('x'); time.sleep(600)"
    command = [sys.executable, "-m", "linnapp", "watch", "-o", tmp_path / "seen", "--"]
    begun = tmp_path / "begun"
    command += [sys.executable, "-S", "-c", script]
    with running(command, stdout=subprocess.PIPE) as process:
        while not (begun.exists() and begun.stat().st_size):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(how)
        shown, _ = process.communicate(timeout=GIVE_UP_S)
    if how == signal.SIGTERM:
        assert process.returncode == -signal.SIGTERM and not shown
        assert [path.name for path in tmp_path.iterdir()] == ["begun"]
        return
    assert process.returncode == 128 + signal.SIGTERM, shown
    assert "calls in" in shown
    rows = select(tmp_path / "seen", f"from calls where path = '{begun}' and call = 'write'")
    assert [row["result"] for row in rows] == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "seen"]


def test_watch_counts_records_that_do_not_fit_the_buffer(
    can_watch: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader never reads, so every call is in the tables or counted as lost."""
    n = 40_000
    script = textwrap.dedent(f"""
        import os
        fd = os.open("/dev/null", os.O_WRONLY)
        for i in range({n}):
            os.write(fd, b"x")
    """)
    programs: list[subprocess.Popen[bytes]] = []
    start, read = watching.start_command, Reader.read

    def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
        programs.append(start(command))
        return programs[-1]

    def late(reader: Reader, timeout_ms: int) -> bool:
        programs[0].wait()
        return read(reader, 0)

    monkeypatch.setattr(watching, "start_command", started)
    monkeypatch.setattr(Reader, "read", late)
    seen = watching.watch(
        tmp_path / "seen", command=[sys.executable, "-S", "-c", script], buffer_mib=1
    )
    [row] = select(tmp_path / "seen", "select count(*) as n from calls where path = '/dev/null'")
    assert seen.counts["lost_calls"] > 0
    [every] = select(tmp_path / "seen", "select count(*) as n from calls")
    # All other calls come before and after the writes; the buffer holds some 8,000 of them.
    assert 0 < row["n"] < n
    assert n <= every["n"] + seen.counts["lost_calls"] < n + 2000
    shown = watch_query.summary(tmp_path / "seen", 3)
    assert shown["lost_calls"] == seen.counts["lost_calls"]

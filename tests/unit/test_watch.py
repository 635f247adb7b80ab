# SPDX-License-Identifier: MIT
"""What is watched is what a program did: of made-up records, and of programs on this kernel."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
import stat
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from linnapp.cli import cli
from linnapp.commands.watch import _show
from linnapp.errors import LinnappError
from linnapp.trace import watch_reader, watched, watching
from linnapp.trace.watch_reader import NULL, Reader, call_names
from linnapp.trace.watched import Store, query

DOCUMENT = Path(__file__).parents[2] / "docs" / "insight.md"

if platform.machine() not in ("x86_64", "aarch64"):
    pytest.skip(f"not built for {platform.machine()}", allow_module_level=True)


# --- Made-up records; the layouts are those of linnapp/native/watch_records.h.

FILE = struct.Struct("<QQII")
DEVICE = 4095 << 20 | 1  # no drive has this number
FOO = FILE.pack(0xFFFF0001, 12, DEVICE, stat.S_IFREG | 0o644)
FOLDER = FILE.pack(0xFFFF0002, 2, DEVICE, stat.S_IFDIR | 0o755)
NONE = FILE.pack(0, 0, 0, 0)


def file_record(file: bytes, *components: bytes) -> bytes:
    name = b"".join(part + b"\0" for part in components)
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
) -> bytes:
    return (
        struct.pack("<IIII", 0, call_names().index(call), 7, tid)
        + struct.pack("<QQqqqq", time_ns, duration_ns, result, offset, n_bytes, fd)
        + file
        + struct.pack("<II16s", to_elsewhere, 0, b"postgres")
    )


def io_record(flags: int, *, n_bytes: int = 4096, op: int = 0, call: str = "read") -> bytes:
    return struct.pack(
        "<IIIIQQQIIIIQII16s",
        *(3, flags, 7, 7, 110, 50, 2048, n_bytes, DEVICE, op),
        *(call_names().index(call), 100, 0, 0, b"kworker/u8:1"),
    )


def paths(*records: bytes) -> list[str | None]:
    """Of the calls of some records."""
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
    # The address is used again, by another file.
    other = FILE.pack(0xFFFF0001, 13, DEVICE, stat.S_IFREG)
    assert paths(named, call_record("read", other)) == [None]
    assert paths(named, file_record(other, b"bar"), call_record("read", other)) == ["/bar"]
    assert paths(named, call_record("sync")) == [None]


def test_what_has_no_name_is_called_as_the_kernel_does() -> None:
    for kind, name in (
        (stat.S_IFSOCK, "socket:[12]"),
        (stat.S_IFIFO, "pipe:[12]"),
        (stat.S_IFREG, "anonymous:[12]"),
        (stat.S_IFDIR, "/"),
    ):
        file = FILE.pack(1, 12, 3, kind)
        assert paths(file_record(file), call_record("read", file)) == [name]


def test_a_name_is_that_of_the_call_that_was_given_it() -> None:
    folder = file_record(FOLDER, b"data", b"srv")
    stat_ = call_record("newfstatat", FOLDER)

    def given(name: bytes) -> bytes:
        return name_record(7, 100, 0, name)

    assert paths(folder, given(b"foo"), stat_) == ["/srv/data/foo"]
    assert paths(folder, given(b"./foo"), stat_) == ["/srv/data/foo"]
    assert paths(folder, given(b"/etc/foo"), stat_) == ["/etc/foo"]
    assert paths(folder, given(b""), stat_) == ["/srv/data"]
    assert paths(given(b"foo"), stat_) == ["foo"]
    # Lost: neither the folder's own, nor that of another thread's call, nor of an earlier one.
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


def test_any_bytes_are_a_name() -> None:
    long = bytes([0xE4]) * 255
    found = paths(file_record(FOO, long, b"a\nb"), call_record("read", FOO))
    assert found == ["/a\nb/" + "\\xe4" * 255]


def test_many_names_are_told_apart() -> None:
    n = 3000
    with Reader(rows=n + 1) as reader:
        for i in range(n):
            file = FILE.pack(1000 + i, i, 1, stat.S_IFREG)
            reader.feed(file_record(file, b"%d" % i))
        for i in range(n):
            reader.feed(call_record("read", FILE.pack(1000 + i, i, 1, stat.S_IFREG), tid=i + 1))
        found = [reader.name(int(row["path"])) for row in reader.take()[0]]
        assert found == [f"/{i}" for i in range(n)]
        assert reader.counts()["names_left_out"] == 0


def test_full_rows_are_taken_and_others_follow() -> None:
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
    ],
)
def test_a_damaged_record_is_refused(record: bytes) -> None:
    with Reader(rows=10) as reader, pytest.raises(LinnappError, match="damaged"):
        reader.feed(record)


def test_what_is_not_attached_has_nothing_to_read() -> None:
    with Reader(rows=10) as reader, pytest.raises(LinnappError, match="nothing is recorded"):
        reader.read(0)


# --- The tables.


def stored(folder: Path, *records: bytes) -> Path:
    folder.mkdir()
    with Reader(rows=100) as reader, Store(folder, call_names(), reader.name) as store:
        for record in records:
            reader.feed(record)
        store.add(*reader.take())
        store.finish({"command": ["x"], "seconds": 1.0, **reader.counts()})
    return folder


def asked(folder: Path, sql: str) -> list[dict[str, Any]]:
    columns, rows = query(folder, sql)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def test_rows_hold_what_the_records_said(tmp_path: Path) -> None:
    read = call_record("pread64", FOO, result=4096, n_bytes=8192, offset=512, duration_ns=60)
    in_call = watch_reader.IN_CALL | watch_reader.WATCHED | watch_reader.COMPLETED
    folder = stored(
        tmp_path / "seen",
        *(file_record(FOO, b"foo"), read, call_record("unlink", result=-13, time_ns=200)),
        io_record(in_call | watch_reader.READAHEAD, call="pread64"),
        io_record(watch_reader.METADATA | watch_reader.FAILED | watch_reader.BELOW, op=77),
        io_record(watch_reader.PREFLUSH, n_bytes=0, op=1),
    )
    first, second = asked(folder, "select * from calls order by time_ns")
    assert first == {
        **{"time_ns": 100, "duration_ns": 60, "pid": 7, "tid": 7, "process": "postgres"},
        **{"call": "pread64", "fd": 3, "path": "/foo", "to_path": None, "file_offset": 512},
        **{"bytes": 8192, "result": 4096, "kind": "file", "device": "4095:1", "inode": 12},
    }
    assert (second["result"], second["path"], second["kind"]) == (-13, None, None)
    assert (second["device"], second["file_offset"]) == (None, None)
    one, two, three = asked(folder, "select * from ios")
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
    found = watched.summary(folder, 1)
    assert found["ios"]["in_calls"] == {"ios": 1, "read_bytes": 4096, "written_bytes": 0}
    assert found["ios"]["kernel_threads"]["ios"] == 1 and found["ios"]["below"]["ios"] == 1
    assert (found["calls"], found["calls_without_path"], found["paths"]) == (2, 1, 1)
    assert found["ios_without_end"] == 2
    [row] = found["by_path"]
    assert (row["path"], row["bytes"], row["ios"], row["io_read_bytes"]) == ("/foo", 4096, 1, 4096)


def test_all_that_is_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = watched.summary(stored(tmp_path / "seen", call_record("read")), 5)
    _show(found, None)
    assert "nothing was dropped" in capsys.readouterr().out
    for name, words in watch_reader.COUNTS.items():
        _show({**found, name: 7}, None)
        shown = capsys.readouterr().out
        assert f"7 {words}" in shown
        assert ("nothing was dropped" in shown) == (name in ("other_ios", "unfinished_calls"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


def test_queries_are_answered_as_text_and_as_json(tmp_path: Path) -> None:
    folder = stored(
        tmp_path / "it's [a] seen*", file_record(FOO, b"a\x1b[2J"), call_record("read", FOO)
    )
    shown = run("query", folder, "select path, file_offset, 0.25 as x from calls")
    assert shown.exit_code == 0, shown.output
    assert shown.output.splitlines() == ["path    file_offset  x", "/a?[2J  -            0.25"]
    found = run("query", folder, "select path, file_offset from calls", "--json")
    assert json.loads(found.output) == [{"path": "/a\x1b[2J", "file_offset": None}]
    assert json.loads(run("query", folder, "from ios", "--json").output) == []
    many = run("query", folder, "select range from range(20000)")
    assert len(many.stdout.splitlines()) == 10_001 and "the first 10000 rows" in many.stderr


def test_the_documents_queries_and_columns_are_right(tmp_path: Path) -> None:
    document = DOCUMENT.read_text()
    folder = stored(
        tmp_path / "seen",
        file_record(FOO, b"foo", b"srv"),
        call_record("pwrite64", FOO, result=100),
        io_record(watch_reader.IN_CALL | watch_reader.COMPLETED, call="pwrite64"),
    )
    queries = re.findall(r"```sql\n(.*?)```", document, re.S)
    assert len(queries) == 3
    for sql in queries:
        [row] = asked(folder, sql)
        assert row["path"] == "/srv/foo"
    for table in watched.TABLES:
        [rows] = re.findall(rf"^\| `{table}` \| \|\n\|---\|---\|\n(.*?)\n\n", document, re.S | re.M)
        told = [
            name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
        ]
        columns = [row["column_name"] for row in asked(folder, f"describe {table}")]
        assert sorted(told) == sorted(columns)
        help_ = run("query", "--help").output
        assert all(name in help_ for name in columns)
    if platform.machine() == "x86_64":
        assert f"{len(call_names())} calls on x86-64" in document


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select nonsense from calls", "nonsense"),
        ("selec", "syntax error"),
        ("", "the query"),
        ("select error('stop') from calls", "stop"),
    ],
)
def test_a_query_that_cannot_be_is_refused_in_the_databases_words(
    tmp_path: Path, sql: str, words: str
) -> None:
    folder = stored(tmp_path / "seen", call_record("read"))
    refused = run("query", folder, sql)
    assert isinstance(refused.exception, LinnappError) and words in str(refused.exception)


def test_tables_that_are_damaged_are_named(tmp_path: Path) -> None:
    folder = stored(tmp_path / "seen", call_record("read"))
    (folder / "ios.parquet").write_bytes(b"PAR1" * 5)
    with pytest.raises(LinnappError, match="ios.parquet: not a table that can be read"):
        query(folder, "from calls")
    (folder / "ios.parquet").unlink()
    with pytest.raises(LinnappError, match="ios.parquet: No such file .*linnapp watch -o"):
        query(folder, "from calls")


# --- Why it cannot be.


def test_each_obstacle_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(message: str) -> None:
        with pytest.raises(LinnappError, match=message):
            watching.check_can_watch()

    monkeypatch.setattr(watching.os, "geteuid", lambda: 0)
    with monkeypatch.context() as m:
        m.setattr(watching.os, "geteuid", lambda: 1000)
        refused("needs root; .*sudo")
    with monkeypatch.context() as m:
        m.setattr(watching, "_TYPES", tmp_path / "none")
        refused("none is missing: .*CONFIG_DEBUG_INFO_BTF")
    (tmp_path / "types").touch()
    monkeypatch.setattr(watching, "_TYPES", tmp_path / "types")
    with monkeypatch.context() as m:
        m.setattr(watching, "_FIRST_PID_NAMESPACE", 1)
        refused("PID namespace of its own")
    with monkeypatch.context() as m:
        m.setitem(sys.modules, "duckdb", None)
        refused(r"pip install 'linnapp\[watch\]'")
    with monkeypatch.context() as m:
        m.setenv("LINNAPP_WATCH_LIB", str(tmp_path / "lib.so"))
        watch_reader.library.cache_clear()
        refused("lib.so: not built; .*libbpf-dev")
    watch_reader.library.cache_clear()


def test_what_is_to_be_watched_must_be_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for arguments, words in (
        (("--", "no-such-command"), "no-such-command: no such command"),
        (("--", tmp_path), "no such command"),
        (("--pid", 2**22), "--pid 4194304: no such process"),
    ):
        refused = run("watch", "-o", out, *arguments)
        assert isinstance(refused.exception, LinnappError), refused.output
        assert words in str(refused.exception)
    assert "give `-- CMD ...` to run, or --pid" in run("watch").output
    assert "give `-- CMD ...` to run, or --pid" in run("watch", "--pid", 1, "--", "true").output
    assert not out.exists()


# --- On this machine's own kernel.


@pytest.fixture
def kernel() -> None:
    """Skip where the kernel, or the user, does not allow it."""
    try:
        watching.check_can_watch()
        with Reader() as reader:
            reader.attach(1 << 20)
    except LinnappError as error:
        pytest.skip(f"this machine does not let itself be watched: {error}")


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of its own on a loop device."""
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
    kernel: None, drive: Path, tmp_path: Path
) -> None:
    program = [sys.executable, "-S", "-E", "-c", PROGRAM, str(drive)]
    folder = tmp_path / "seen"
    # Not the program itself: what it starts is watched as well.
    seen = watching.watch(folder, command=["sh", "-c", '"$@" && exit 3', "sh", *program])
    assert seen.status == 3
    lost = ("lost_calls", "lost_names", "lost_ios", "untracked_calls", "untracked_ios")
    assert [seen.counts[name] for name in (*lost, "untracked_processes")] == [0] * 6
    device = drive.stat().st_dev
    loop = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    found = asked(
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
        # Each of them went to the drive by itself, and none elsewhere.
        for call, op in ("pwrite64", "write"), (reads, "read"):
            ios = asked(
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
    # At the file's position, which lseek() has moved.
    read = by_call.pop(("three", "readv"))
    assert (read["n"], read["bytes"], read["low"]) == (1, 12288, 12288)
    assert not by_call
    [renamed] = asked(folder, "select * from calls where call like 'rename%'")
    assert (renamed["path"], renamed["to_path"]) == (f"{drive}/three", f"{drive}/folder/four")
    [unlinked] = asked(folder, f"select * from calls where path = '{drive}/three' and result = -2")
    assert unlinked["call"].startswith("unlink")
    [made] = asked(folder, f"select * from calls where path = '{drive}/folder' and call ~ 'mkdir'")
    assert made["result"] == 0
    # fsync() has the drive flushed; the journal is written by a thread of the kernel.
    journal = asked(folder, f"from ios where device = '{loop}' and not watched and call is null")
    assert any(row["process"].startswith("jbd2/") for row in journal)
    summary = watched.summary(folder, 1000)
    one = next(row for row in summary["by_path"] if row["path"] == f"{drive}/one")
    assert one["bytes"] == 2 * 20 * 4096
    assert (one["io_read_bytes"], one["io_written_bytes"] >= 20 * 4096) == (20 * 4096, True)


def test_a_split_io_is_one_that_ends_with_its_last_part(
    kernel: None, drive: Path, tmp_path: Path
) -> None:
    """Of 256 KiB for a drive that takes 64 KiB at a time."""
    device = drive.stat().st_dev
    limit = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/queue/max_sectors_kb")
    limit.write_text("64")
    script = textwrap.dedent(f"""
        import mmap, os
        fd = os.open("{drive}/f", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        os.posix_fallocate(fd, 0, 20 << 18)
        page = mmap.mmap(-1, 1 << 18)
        for i in range(20):
            os.pwrite(fd, page, i << 18)
    """)
    watching.watch(tmp_path / "seen", command=[sys.executable, "-S", "-c", script])
    ios = asked(
        tmp_path / "seen",
        """select ios.bytes, latency_ns, duration_ns from ios join calls
        on ios.tid = calls.tid and call_time_ns = calls.time_ns
        where ios.call = 'pwrite64' and not metadata""",
    )
    assert [io["bytes"] for io in ios] == [1 << 18] * 20
    ended = [io for io in ios if io["latency_ns"] is not None]
    # Some kernels keep programs off while certain processes run; an end in an interrupt of theirs
    # is then not seen.
    assert len(ended) >= 15
    assert all(0 < io["latency_ns"] < io["duration_ns"] for io in ended)


def test_a_process_that_runs_is_watched_and_its_open_files_have_names(
    kernel: None, tmp_path: Path
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
    program = subprocess.Popen([sys.executable, "-S", "-c", script])
    try:
        seen = run("watch", "-o", tmp_path / "seen", "--pid", program.pid, "--duration", 1)
        assert program.poll() is None
    finally:
        program.kill()
        program.wait()
    assert seen.exit_code == 0, seen.output
    assert f"{tmp_path}/log"[-30:] in seen.output and "nothing was dropped" in seen.output
    rows = asked(tmp_path / "seen", "from calls where call = 'write' and kind = 'file'")
    assert rows and {(row["path"], row["bytes"], row["pid"]) for row in rows} == {
        (f"{tmp_path}/log", 4, program.pid)
    }
    # Each appends where the one before it has ended.
    offsets = np.sort([row["file_offset"] for row in rows])
    assert offsets[0] >= 5 and (np.diff(offsets) == 4).all()
    [pipe] = asked(tmp_path / "seen", "select distinct path, kind from calls where call = 'read'")
    assert pipe["kind"] == "pipe" and pipe["path"].startswith("pipe:[")


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """A shell has what it runs in the background ignore them, and all that is started by it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_keeps_what_was_recorded_and_told_to_end_nothing(
    kernel: None, heeded_interrupts: None, tmp_path: Path, how: signal.Signals
) -> None:
    script = f"import os, time; open('{tmp_path}/begun', 'w').write('x'); time.sleep(600)"
    command = [sys.executable, "-m", "linnapp", "watch", "-o", tmp_path / "seen", "--"]
    process = subprocess.Popen(
        [*command, sys.executable, "-S", "-c", script], stdout=subprocess.PIPE, text=True
    )
    begun = tmp_path / "begun"
    try:
        while not (begun.exists() and begun.stat().st_size):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(how)
        shown, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    if how == signal.SIGTERM:
        assert process.returncode == -signal.SIGTERM and not shown
        assert [path.name for path in tmp_path.iterdir()] == ["begun"]
        return
    assert process.returncode == 128 + signal.SIGTERM, shown
    assert "calls in" in shown
    rows = asked(tmp_path / "seen", f"from calls where path = '{begun}' and call = 'write'")
    assert [row["result"] for row in rows] == [1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "seen"]


def test_a_program_that_is_being_started_is_not_left_behind(
    kernel: None, heeded_interrupts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs: list[subprocess.Popen[bytes]] = []
    start = watching._started

    def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
        programs.append(start(command))
        signal.raise_signal(signal.SIGINT)
        return programs[0]

    monkeypatch.setattr(watching, "_started", started)
    try:
        seen = watching.watch(tmp_path / "seen", command=["sleep", "600"])
        assert programs[0].poll() == -signal.SIGTERM and seen.status == 128 + signal.SIGTERM
    finally:
        programs[0].kill()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_does_not_fit_the_buffer_is_counted(
    kernel: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that never comes: every call is in the tables or among the lost."""
    n = 40_000
    script = textwrap.dedent(f"""
        import os
        fd = os.open("/dev/null", os.O_WRONLY)
        for i in range({n}):
            os.write(fd, b"x")
    """)
    programs: list[subprocess.Popen[bytes]] = []
    start, read = watching._started, Reader.read

    def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
        programs.append(start(command))
        return programs[0]

    def late(reader: Reader, timeout_ms: int) -> bool:
        programs[0].wait()
        return read(reader, 0)

    monkeypatch.setattr(watching, "_started", started)
    monkeypatch.setattr(Reader, "read", late)
    seen = watching.watch(
        tmp_path / "seen", command=[sys.executable, "-S", "-c", script], buffer_mib=1
    )
    [row] = asked(tmp_path / "seen", "select count(*) as n from calls where path = '/dev/null'")
    assert seen.counts["lost_calls"] > 0
    [every] = asked(tmp_path / "seen", "select count(*) as n from calls")
    # All other calls are from before and after the writes: the buffer holds some 8,000.
    assert 0 < row["n"] < n
    assert n <= every["n"] + seen.counts["lost_calls"] < n + 2000
    shown = watched.summary(tmp_path / "seen", 3)
    assert shown["lost_calls"] == seen.counts["lost_calls"]

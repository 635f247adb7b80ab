# SPDX-License-Identifier: MIT
"""Times of functions, from synthetic pages of the kernel's ring buffer with known sums."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from linnapp.cli import cli
from linnapp.commands.layers import functions_json, show_functions
from linnapp.drive import tracefs
from linnapp.errors import DeviceError, LinnappError, TraceError
from linnapp.insight.function_recording import _Recorder, overhead_of
from linnapp.insight.functions import (
    FunctionTimes,
    Overhead,
    Symbols,
    group_of,
    grouped,
    sum_recordings,
)

PAGE = 4096
EXIT, OTHER = 12, 11
LAYOUT = {
    "page_bytes": PAGE,
    "commit_at": 8,
    "data_at": 16,
    "exit_type": EXIT,
    "pid_at": 4,
    "function_at": 8,
    "depth_at": 16,
    "begin_at": 24,
    "end_at": 32,
    "exit_bytes": 40,
}
WRITE, VFS, PAGES, SLEEP, FAULT = 0x1000, 0x2000, 0x3000, 0x4000, 0x5000
NAMES = {
    "__x64_sys_write": WRITE,
    "vfs_write": VFS,
    "bio_iov_iter_get_pages": PAGES,
    "io_schedule": SLEEP,
    "submit_bio": FAULT,
    "__x64_sys_pread64": 0x6000,
    "read_null": 0x7000,
}
GROUPS = grouped(NAMES)
SYMBOLS = Symbols([f"{at:016x} T {name}" for name, at in NAMES.items()], GROUPS)


class Pages:
    """Build the recording of a CPU; times are in ns."""

    def __init__(self) -> None:
        self._pages: list[bytes] = []
        self.start_page(0)

    def start_page(self, time: int, missed: bool = False) -> Pages:
        """Start a page."""
        self._time, self._missed, self._events = time, missed, b""
        return self

    def end(self) -> Pages:
        """End the page."""
        commit = len(self._events) | (1 << 31 if self._missed else 0)
        page = struct.pack("<QQ", self._began(), commit) + self._events
        self._pages.append(page.ljust(PAGE, b"\0"))
        return self

    def _began(self) -> int:
        return self._first if self._events else self._time

    def head(self, type_len: int, delta: int) -> bytes:
        if not self._events:
            self._first = self._time - delta
        return struct.pack("<I", type_len | delta << 5)

    def left(
        self, pid: int, function: int, depth: int, begin: int, end: int, kind: int = EXIT
    ) -> Pages:
        """Add a function's return; the kernel records the address plus four bytes."""
        data = struct.pack("<HBBiQiIQQ", kind, 0, 0, pid, function + 4, depth, 0, begin, end)
        delta = end - self._time
        self._time = end
        if delta >= 1 << 27:
            self._events += self.head(30, delta & ((1 << 27) - 1)) + struct.pack("<I", delta >> 27)
            delta = 0
        self._events += self.head(len(data) // 4, delta) + data
        return self

    def long_one(self) -> Pages:
        """Add another event, whose length comes first; then a discarded one."""
        self._events += self.head(0, 0) + struct.pack("<IHH", 8, OTHER, 0)
        self._events += self.head(29, 1) + struct.pack("<II", 8, 0)
        self._time += 1
        return self

    def write(self, path: Path) -> Path:
        path.write_bytes(b"".join(self._pages))
        return path


def times_of(*recordings: Path) -> FunctionTimes:
    return sum_recordings(recordings, LAYOUT, GROUPS, SYMBOLS)


def own_ns(times: FunctionTimes, call: int = 0) -> dict[str, int]:
    return {f.name: f.self_ns for f in times.calls[call].functions}


def a_write(pages: Pages, pid: int, begin: int) -> Pages:
    """Return 1000 ns, 700 of them in the VFS, of which 100 and 50 are in pages and 300 asleep."""
    pages.left(pid, PAGES, 2, begin + 200, begin + 300)
    pages.left(pid, PAGES, 2, begin + 310, begin + 360)
    pages.left(pid, SLEEP, 2, begin + 400, begin + 700)
    pages.left(pid, VFS, 1, begin + 100, begin + 800)
    return pages.left(pid, WRITE, 0, begin, begin + 1000)


def test_time_is_counted_for_the_function_that_spent_it(tmp_path: Path) -> None:
    pages = a_write(a_write(Pages().start_page(500), 7, 1000).long_one(), 7, 5000).end()
    found = times_of(pages.write(tmp_path / "cpu0"))
    (call,) = found.calls
    assert (call.name, call.calls, call.measured_us) == ("write", 2, 2.0)
    assert own_ns(found) == {
        "__x64_sys_write": 600,
        "vfs_write": 500,
        "bio_iov_iter_get_pages": 300,
        "io_schedule": 600,
    }
    by_name = {f.name: f for f in call.functions}
    assert (by_name["vfs_write"].calls, by_name["vfs_write"].children) == (2, 6)
    assert by_name["vfs_write"].total_ns == 1400
    assert found.events == 10 and not found.missed and not found.cut and not found.outside_us


def test_calls_of_one_function_by_two_callers_are_two_nodes_of_the_tree(tmp_path: Path) -> None:
    """Both calls of the kernel's write have pages in the VFS, and the second one outside of it."""
    pages = a_write(Pages().start_page(500), 7, 1000)
    pages.left(7, PAGES, 2, 5200, 5300).left(7, VFS, 1, 5100, 5400)
    pages.left(7, SLEEP, 2, 5520, 5540).left(7, PAGES, 1, 5500, 5600).left(7, WRITE, 0, 5000, 6000)
    found = times_of(pages.end().write(tmp_path / "cpu0"))
    exported = json.loads(json.dumps(functions_json(found, Overhead(0, 0))))
    (call,) = exported["calls"]

    def nodes(node: dict[str, Any], depth: int = 0) -> list[tuple[int, str, int, float, float]]:
        times = (node["with_called_us"], node["us"])
        below = [each for child in node["called"] for each in nodes(child, depth + 1)]
        return [(depth, node["name"], node["calls"], *times), *below]

    assert nodes(call["tree"]) == [
        (0, "__x64_sys_write", 2, 2.0, 0.9),
        (1, "vfs_write", 2, 1.0, 0.45),
        (2, "bio_iov_iter_get_pages", 3, 0.25, 0.25),
        (2, "io_schedule", 1, 0.3, 0.3),
        (1, "bio_iov_iter_get_pages", 1, 0.1, 0.08),
        (2, "io_schedule", 1, 0.02, 0.02),
    ]
    get_pages = next(f for f in call["functions"] if f["name"] == "bio_iov_iter_get_pages")
    assert (get_pages["calls"], get_pages["with_called_us"], get_pages["us"]) == (4, 0.35, 0.33)


def test_function_times_follow_a_thread_from_cpu_to_cpu(tmp_path: Path) -> None:
    """Events of other threads are between its own."""
    first = Pages().start_page(1000).left(7, PAGES, 2, 1200, 1300)
    first.left(7, SLEEP, 2, 1400, 1700).left(8, PAGES, 2, 1710, 1750).end()
    other = Pages().start_page(900).left(8, PAGES, 2, 950, 1250).left(7, VFS, 1, 1100, 1800)
    other.left(7, WRITE, 0, 1000, 2000).left(8, VFS, 1, 900, 2100).left(8, WRITE, 0, 900, 2200)
    other.end()
    found = times_of(first.write(tmp_path / "cpu0"), other.write(tmp_path / "cpu1"))
    assert found.calls[0].calls == 2
    assert own_ns(found) == {
        "__x64_sys_write": 300 + 100,
        "vfs_write": 300 + 860,
        "bio_iov_iter_get_pages": 100 + 340,
        "io_schedule": 300,
    }


def test_calls_that_may_lack_a_part_are_left_out(tmp_path: Path) -> None:
    pages = Pages().start_page(500).left(7, PAGES, 2, 600, 700).end()
    pages.start_page(5000, missed=True).left(7, VFS, 1, 550, 6000).left(7, WRITE, 0, 500, 6100)
    # Calls of a thread that is first seen after the loss may lack a part, too.
    pages.left(9, VFS, 1, 4000, 6200).left(9, WRITE, 0, 3900, 6300)
    hour = 3600 * 10**9
    a_write(pages.left(7, FAULT, 0, 6400, 6500), 7, hour).end()
    found = times_of(pages.write(tmp_path / "cpu0"))
    assert (found.missed, found.cut) == (1, 2)
    assert found.calls[0].calls == 1 and own_ns(found)["vfs_write"] == 250
    # This function was called outside of system calls.
    assert found.outside_us == pytest.approx(0.1)


def test_group_times_exclude_the_tracing_overhead(tmp_path: Path) -> None:
    (call,) = times_of(a_write(Pages().start_page(500), 7, 1000).end().write(tmp_path / "c")).calls
    overhead = Overhead(inside_ns=20, outside_ns=10)
    groups = call.groups(overhead)
    assert {name: round(1000 * group.us) for name, group in groups.items()} == {
        "wait": 280,
        "pages": 110,
        "filesystem": 250 - 20 - 30,
        "entry": 300 - 20 - 10,
    }
    assert groups["wait"].measured_share == 0.3
    assert groups["wait"].share == pytest.approx(280 / 860)
    assert sum(group.share for group in groups.values()) == pytest.approx(1)
    # The time is never negative.
    assert call.groups(Overhead(1000, 0))["entry"].us == 0


def test_overhead_is_measured_with_cheap_calls(tmp_path: Path) -> None:
    pages = Pages().start_page(500)
    for k in range(5):
        begin = 1000 * (k + 1)
        pages.left(7, NAMES["read_null"], 2, begin + 200, begin + 240)
        pages.left(7, VFS, 1, begin + 100, begin + 400)
        pages.left(7, NAMES["__x64_sys_pread64"], 0, begin, begin + 500)
    found = times_of(pages.end().write(tmp_path / "cpu0"))
    overhead = overhead_of(found, 300)
    assert (overhead.function_ns, overhead.inside_ns, overhead.outside_ns) == (100, 40, 60)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],  # not whole pages
        lambda data: data[:8] + struct.pack("<I", PAGE) + data[12:],  # more than fits
        lambda data: data[:16] + struct.pack("<I", 5) + data[20:],  # an event too short
        lambda data: data[:16] + struct.pack("<II", 0, 2**30) + data[24:],  # and one too long
        lambda data: data[:36] + struct.pack("<i", 1 << 20) + data[40:],  # too deep
    ],
)
def test_query_refuses_a_folder_without_a_recording(damage, tmp_path: Path) -> None:
    path = a_write(Pages().start_page(500), 7, 1000).end().write(tmp_path / "cpu0")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TraceError, match="cannot be read"):
        times_of(path)


@pytest.mark.parametrize(
    ("group", "functions"),
    [
        ("pages", "bio_iov_iter_get_pages bio_add_page"),
        ("split", "bio_split_rw blk_attempt_plug_merge"),
        ("mapping", "ext4_iomap_begin xfs_direct_write_iomap_begin"),
        ("driver", "nvme_queue_rq"),
        ("linnos", "blk_linnos_decide __blk_linnos_answer"),
        ("wait", "blk_io_schedule"),
        ("completion", "iomap_dio_complete"),
        ("queue", "submit_bio_noacct_nocheck"),
        ("filesystem", "__iomap_dio_rw iomap_dio_bio_iter.isra.0"),
        ("entry", "__x64_sys_pwrite64 __arm64_sys_read"),
        (None, "kmalloc linnos_load_snapshot __x64_sys_readlink __x64_sys_getpid schedule_work"),
    ],
)
def test_functions_are_in_the_group_that_bears_their_name(group: str, functions: str) -> None:
    assert {group_of(function) for function in functions.split()} == {group}


@pytest.fixture
def tracing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a tree of files in place of tracefs."""
    monkeypatch.setenv("LINNAPP_SYSFS", str(tmp_path))
    root = tmp_path / "kernel" / "tracing"
    (root / "events").mkdir(parents=True)
    (root / "instances").mkdir()
    (root / "available_tracers").write_text("function_graph function nop\n")
    (root / "available_filter_functions").write_text("schedule\nvfs_read\nnvme_irq [nvme]\n")
    return root


def test_missing_or_busy_function_tracer_is_reported(tracing: Path) -> None:
    # Without a separate buffer the tracer is shared; here another process uses it.
    (tracing / "current_tracer").write_text("function\n")
    (tracing / "set_ftrace_filter").write_text("#### all functions enabled ####\n")
    refused = tracefs.function_tracer([0], buffer_kib=64)
    with pytest.raises(DeviceError, match=r"in use \(tracer function\).* trace-cmd reset"), refused:
        pass
    assert (tracing / "current_tracer").read_text() == "function\n"
    (tracing / "available_tracers").write_text("blk nop\n")
    refused = tracefs.function_tracer([0], buffer_kib=64)
    with pytest.raises(DeviceError, match=r"lacks CONFIG_FUNCTION_GRAPH_TRACER"), refused:
        pass


@pytest.mark.parametrize("stop", ["raise KeyboardInterrupt", "os._exit(0)"])
def test_command_does_not_start_if_linnapp_ends_before(stop: str) -> None:
    script = (
        "import os\n"
        "from linnapp.insight.function_recording import _paused_child\n"
        "with _paused_child(lambda: os.write(1, b'began')):\n"
        f"    {stop}\n"
    )
    # Its output ends when both processes have ended.
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert result.stdout == b""


def test_recorder_of_an_unknown_format_leaves_no_file_open(tmp_path: Path) -> None:
    tracer = SimpleNamespace(
        streams=lambda: [os.open(os.devnull, os.O_RDONLY)],
        page_format=lambda: {"commit": (8, 8), "data": (16, 4080)},
        format=lambda _: (12, {"func": (8, 8)}),
    )
    before = sorted(Path("/proc/self/fd").iterdir())
    with pytest.raises(DeviceError, match="does not support its format"):
        _Recorder.opened(tracer, tmp_path).__enter__()  # type: ignore[arg-type]
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_command_ignores_the_end_of_the_terminal_under_nohup() -> None:
    script = (
        "import os, signal\n"
        "from linnapp.insight.function_recording import _paused_child\n"
        "ignored = lambda: int(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)\n"
        "for action in signal.SIG_DFL, signal.SIG_IGN:\n"
        "    signal.signal(signal.SIGHUP, action)\n"
        "    with _paused_child(ignored) as (pid, begin):\n"
        "        begin()\n"
        "        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert result.stdout == b"0\n1\n"


def test_layers_functions_accepts_only_a_command(tmp_path: Path) -> None:
    for arguments in (["t.blk"], ["--writes", "--", "fio"], ["--device", "/dev/x", "--", "fio"]):
        refused = CliRunner().invoke(cli, ["layers", "--functions", *arguments])
        assert refused.exit_code == 2 and "--functions needs" in refused.output
    missing = CliRunner().invoke(cli, ["layers", "--functions", "--", "/no/such/command"])
    assert isinstance(missing.exception, LinnappError)


def test_function_table_has_every_group(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    times = times_of(a_write(Pages().start_page(500), 7, 1000).end().write(tmp_path / "c"))
    show_functions(times, Overhead(20, 10))
    shown = capsys.readouterr().out
    assert "write: 1 calls, 0.9 us each; as recorded 1.0, of which tracing took 14.0%" in shown
    assert "asleep" in shown and "io_schedule" in shown and "32.6%" in shown
    assert functions_json(times, Overhead(20, 10))["overhead"]["function_ns"] == 30

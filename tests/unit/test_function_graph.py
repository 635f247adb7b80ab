# SPDX-License-Identifier: MIT
"""Times of functions, from synthetic pages of the kernel's ring buffer with known sums."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from linnapp.cli import cli
from linnapp.commands.layers import functions_json, show_functions
from linnapp.drive import tracefs
from linnapp.errors import DeviceError, LinnappError, TraceError
from linnapp.insight.function_recording import _paused_child, layout_of, overhead_of
from linnapp.insight.functions import (
    FunctionTimes,
    Overhead,
    Symbols,
    group_of,
    grouped,
    sum_recordings,
    system_call,
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


def test_time_is_that_of_the_function_it_was_spent_in(tmp_path: Path) -> None:
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


def test_a_thread_is_followed_from_cpu_to_cpu(tmp_path: Path) -> None:
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
    a_write(pages, 7, 10_000).end()
    found = times_of(pages.write(tmp_path / "cpu0"))
    assert (found.missed, found.cut) == (1, 1)
    assert found.calls[0].calls == 1 and own_ns(found)["vfs_write"] == 250


def test_a_thread_that_is_first_seen_after_a_loss_may_lack_a_part_as_well(tmp_path: Path) -> None:
    pages = a_write(Pages().start_page(500), 7, 1000).end()
    pages.start_page(5000, missed=True).left(9, VFS, 1, 4000, 6000).left(9, WRITE, 0, 3900, 6100)
    a_write(pages, 9, 10_000).end()
    found = times_of(pages.write(tmp_path / "cpu0"))
    assert (found.missed, found.cut) == (1, 1)
    assert found.calls[0].calls == 2 and own_ns(found)["vfs_write"] == 500


def test_long_waits_and_what_is_outside_of_system_calls(tmp_path: Path) -> None:
    hour = 3600 * 10**9
    pages = Pages().start_page(500).left(7, FAULT, 0, 600, 700)
    a_write(pages, 7, hour).end()
    found = times_of(pages.write(tmp_path / "cpu0"))
    assert found.outside_us == pytest.approx(0.1) and found.calls[0].measured_us == 1.0


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
    # Never below 0.
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


def test_functions_are_in_the_group_that_bears_their_name() -> None:
    for function, group in {
        "bio_iov_iter_get_pages": "pages",
        "bio_add_page": "pages",
        "bio_split_rw": "split",
        "blk_attempt_plug_merge": "split",
        "ext4_iomap_begin": "mapping",
        "xfs_direct_write_iomap_begin": "mapping",
        "nvme_queue_rq": "driver",
        "blk_linnos_decide": "linnos",
        "__blk_linnos_answer": "linnos",
        "blk_io_schedule": "wait",
        "iomap_dio_complete": "completion",
        "submit_bio_noacct_nocheck": "queue",
        "__iomap_dio_rw": "filesystem",
        "iomap_dio_bio_iter.isra.0": "filesystem",
        "__x64_sys_pwrite64": "entry",
        "__arm64_sys_read": "entry",
    }.items():
        assert group_of(function) == group, function
    for function in (
        "kmalloc",
        "linnos_load_snapshot",
        "__x64_sys_readlink",
        "__x64_sys_getpid",
        "schedule_work",
    ):
        assert group_of(function) is None, function
    assert system_call("__x64_sys_pwrite64") == "pwrite64" and system_call("vfs_read") is None


def test_addresses_have_the_names_of_functions_that_begin_there() -> None:
    assert SYMBOLS.name(WRITE) == SYMBOLS.name(WRITE + 4) == "__x64_sys_write"
    assert SYMBOLS.name(WRITE - 1) is None and SYMBOLS.name(WRITE + 64) is None


@pytest.fixture
def tracing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of files in place of tracefs."""
    monkeypatch.setenv("LINNAPP_SYSFS", str(tmp_path))
    root = tmp_path / "kernel" / "tracing"
    (root / "events" / "ftrace" / "funcgraph_exit").mkdir(parents=True)
    (root / "instances").mkdir()
    (root / "available_tracers").write_text("function_graph function nop\n")
    (root / "available_filter_functions").write_text("schedule\nvfs_read\nnvme_irq [nvme]\n")
    (root / "events" / "header_page").write_text(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
        "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
        "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
        "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n"
    )
    fields = (("common_pid", 4, 4), ("func", 8, 8), ("depth", 16, 4), ("overrun", 20, 4))
    fields += (("calltime", 24, 8), ("rettime", 32, 8))
    (root / "events" / "ftrace" / "funcgraph_exit" / "format").write_text(
        "name: funcgraph_exit\nID: 10\nformat:\n"
        + "".join(f"\tfield:int {n};\toffset:{at};\tsize:{s};\tsigned:0;\n" for n, at, s in fields)
    )
    return root


def made_instance(path: Path) -> None:
    """Create the files that the kernel creates with a folder."""
    subprocess.run(["mkdir", "-p", path / "options"], check=True)


def test_functions_are_chosen_by_their_places(
    tracing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tracefs.traceable_functions() == ["schedule", "vfs_read", "nvme_irq"]
    monkeypatch.setattr(Path, "mkdir", made_instance)
    with tracefs.function_tracer([0, 2], buffer_kib=64) as tracer:
        (instance,) = (tracing / "instances").iterdir()
        assert (instance / "set_ftrace_filter").read_text() == "1\n3\n"
        assert (instance / "current_tracer").read_text() == "function_graph"
        assert (instance / "tracing_on").read_text() == "0"
        tracer.trace(4711)
        assert (instance / "set_ftrace_pid").read_text() == "4711"
        assert (instance / "tracing_on").read_text() == "1"
        layout = layout_of(tracer)
        assert (layout["page_bytes"], layout["exit_type"], layout["exit_bytes"]) == (4096, 10, 40)
        assert [layout[f"{field}_at"] for field in ("function", "depth", "end")] == [8, 16, 32]
    assert (instance / "current_tracer").read_text() == "nop"
    assert (instance / "set_ftrace_filter").read_text() == ""


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


def test_a_tracer_with_another_format_is_refused(
    tracing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tracing / "events" / "ftrace" / "funcgraph_exit" / "format"
    path.write_text(path.read_text().replace("calltime", "begin"))
    monkeypatch.setattr(Path, "mkdir", made_instance)
    with (
        tracefs.function_tracer([0], buffer_kib=64) as tracer,
        pytest.raises(DeviceError, match="does not record 'calltime'"),
    ):
        layout_of(tracer)


def test_paused_child_starts_when_released(tmp_path: Path) -> None:
    began = tmp_path / "began"

    def act() -> int:
        began.touch()
        return int(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)

    def status(pid: int) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    # Whatever the tests themselves run under; and as nohup has it: the command, too, does not end
    # with the terminal.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with _paused_child(act) as (pid, begin):
            assert not began.exists()
            begin()
            assert status(pid) == 0
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with _paused_child(act) as (pid, begin):
            begin()
            assert status(pid) == 1
    finally:
        signal.signal(signal.SIGHUP, before)
    began.unlink()
    with pytest.raises(KeyboardInterrupt), _paused_child(act) as (pid, begin):
        raise KeyboardInterrupt
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, 0)
    assert not began.exists()


def test_paused_child_does_not_start_when_the_parent_ends(tmp_path: Path) -> None:
    script = (
        "import os, sys\n"
        "from linnapp.insight.function_recording import _paused_child\n"
        "with _paused_child(lambda: os.write(1, b'began')) as (pid, begin):\n"
        "    os._exit(0)\n"
    )
    # Its output ends when both have ended.
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert ran.stdout == b""


def test_with_functions_goes_a_command_and_nothing_else(tmp_path: Path) -> None:
    for arguments in (["t.blk"], ["--writes", "--", "fio"], ["--device", "/dev/x", "--", "fio"]):
        refused = CliRunner().invoke(cli, ["layers", "--functions", *arguments])
        assert refused.exit_code == 2 and "--functions needs" in refused.output
    missing = CliRunner().invoke(cli, ["layers", "--functions", "--", "/no/such/command"])
    assert isinstance(missing.exception, LinnappError)


def test_the_table_has_every_group(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    times = times_of(a_write(Pages().start_page(500), 7, 1000).end().write(tmp_path / "c"))
    show_functions(times, Overhead(20, 10))
    shown = capsys.readouterr().out
    assert "write: 1 calls, 0.9 us each; as recorded 1.0, of which tracing took 14.0%" in shown
    assert "asleep" in shown and "io_schedule" in shown and "32.6%" in shown
    assert functions_json(times, Overhead(20, 10))["overhead"]["function_ns"] == 30

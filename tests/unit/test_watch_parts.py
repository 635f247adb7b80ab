# SPDX-License-Identifier: MIT
"""Test the parts of a call's time with delays in the drive, the journal, a lock and a page.

tests/unit/slow_drive.py delays the drives and reports the delays. The scheduler counts the time
that a thread slept or waited for a CPU. The measured waits must lie between the two, on a busy
machine as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from slow_drive import SlowDrive, slow_drive
from test_watch import select

from linnapp.insight import watch as watching
from linnapp.insight.calls import PARTS

pytestmark = pytest.mark.usefixtures("can_watch")

DELAY_S = 0.05
#: A second thread can start within this time, while the first one waits.
LONG_S = 0.5
#: Clocks that are read one after the other may differ by this time per call.
SLACK_S = 0.001
SIZE = 64 << 20
MKFS = ["mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]
WAITS = ("io_wait_ns", "others_io_wait_ns", "journal_wait_ns", "other_wait_ns")

#: Start of the recorded programs. Their first argument is the file for the measured times.
ACCOUNTS = """
import atexit, json, os, sys, threading, time
accounts = []
atexit.register(lambda: open(sys.argv[1], "w").write(json.dumps(accounts)))
def ready_ns():
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])
def now():
    while True:
        ready = ready_ns()
        found = time.monotonic_ns(), time.thread_time_ns(), ready
        if ready_ns() == ready:  # it was on a CPU all the time
            return found
def account(call, *arguments):
    before = now()
    call(*arguments)
    took, ran, ready = (b - a for a, b in zip(before, now()))
    accounts.append((threading.get_native_id(), took / 1e9, ran / 1e9, ready / 1e9))
def until_asleep(thread):
    while open(f"/proc/self/task/{thread.native_id}/stat").read().rpartition(")")[2][1] != "D":
        time.sleep(0.001)
"""


@dataclass(frozen=True)
class Account:
    """Time of a call as its thread measured it: running, runnable and asleep."""

    tid: int
    took_s: float
    ran_s: float
    ready_s: float

    @property
    def awake_s(self) -> float:
        return self.ran_s + self.ready_s

    @property
    def asleep_s(self) -> float:
        """Time asleep, including the time that a hypervisor took from its CPU."""
        return self.took_s - self.awake_s


@pytest.fixture
def slow(can_watch: None, tmp_path: Path) -> Iterator[SlowDrive]:
    """Return a drive, initially without delay."""
    with contextlib.ExitStack() as stack:
        try:
            drive = stack.enter_context(slow_drive(tmp_path / "served", SIZE))
        except OSError as error:
            pytest.skip(f"no slow drive here: {error}")
        yield drive


@contextlib.contextmanager
def mounted(device: Path, place: Path, *options: str) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", *options, device, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def watched(tmp_path: Path, script: str, *arguments: object) -> tuple[Path, list[Account]]:
    """Watch a Python program; every call's parts add up to its duration."""
    folder, accounts = tmp_path / "seen", tmp_path / "accounts"
    program = [sys.executable, "-S", "-E", "-c", ACCOUNTS + textwrap.dedent(script)]
    seen = watching.watch(folder, command=[*program, *map(str, (accounts, *arguments))])
    assert not seen.status and not seen.counts["lost_calls"]
    [whole] = select(
        folder,
        f"""select count(*) as n, bool_and({" + ".join(PARTS)} = duration_ns) as adds_up,
        min(least({", ".join(PARTS)})) as least_ns from calls""",
    )
    assert whole["n"] and whole["adds_up"] and whole["least_ns"] >= 0
    return folder, [Account(*each) for each in json.loads(accounts.read_text())]


def parts(folder: Path, where: str) -> dict[str, Any]:
    """Return the parts in seconds, summed over the calls that match a condition."""
    sums = ", ".join(f"sum({part})::double / 1e9 as {part}" for part in ("duration_ns", *PARTS))
    [found] = select(folder, f"select count(*) as n, {sums} from calls where {where}")
    return found


def assert_waited(found: dict[str, Any], accounts: Iterable[Account], **at_least_s: float) -> None:
    """Check the minimum waits of some calls, and that all waits are no longer than their sleep.

    A thread that is off the CPU is not always asleep: it can be about to sleep or already awake.
    """
    accounts = list(accounts)
    assert found["n"] == len(accounts)
    slack_s = SLACK_S * len(accounts)
    awake_s = sum(account.awake_s for account in accounts)
    for part, seconds in at_least_s.items():
        assert found[part] >= seconds - awake_s - slack_s, (part, found, accounts)
    asleep_s = sum(account.asleep_s for account in accounts)
    assert sum(found[part] for part in WAITS) <= asleep_s + slack_s, (found, accounts)


def test_wait_for_a_slow_drive_is_shown(slow: SlowDrive, tmp_path: Path) -> None:
    script = """
        import mmap
        fd = os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECT)
        page = mmap.mmap(-1, 4096)
        for i in range(10):
            account(os.preadv, fd, [page], i << 20)
    """
    slow.delay(DELAY_S)
    slow.served_s()
    folder, accounts = watched(tmp_path, script, slow.device)
    delays = [s for s in slow.served_s() if s >= DELAY_S]
    found = parts(folder, f"call like 'preadv%' and path = '{slow.device}'")
    assert found["n"] == 10 == len(delays)
    assert_waited(found, accounts, io_wait_ns=sum(delays))
    # The wait was at the drive, as its I/O shows.
    [io] = select(
        folder,
        """select sum(drive_ns)::double / 1e9 as drive, sum(latency_ns)::double / 1e9 as whole
        from ios where call like 'preadv%'""",
    )
    awake_s = sum(account.awake_s for account in accounts)
    assert sum(delays) <= io["drive"] <= io["whole"] < found["duration_ns"]
    assert io["whole"] - io["drive"] <= awake_s
    assert found["others_io_wait_ns"] == found["journal_wait_ns"] == 0


def test_wait_for_a_page_read_by_another_thread_is_shown(slow: SlowDrive, tmp_path: Path) -> None:
    script = """
        fd = os.open(sys.argv[2], os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        reader = threading.Thread(target=account, args=(os.pread, fd, 512, 8 << 20))
        reader.start()
        until_asleep(reader)
        account(os.pread, fd, 512, 8 << 20)
        reader.join()
    """
    slow.delay(LONG_S)
    slow.served()
    folder, accounts = watched(tmp_path, script, slow.device)
    [(_, end_s)] = [served for served in slow.served() if served[1] - served[0] >= LONG_S]
    where = f"call = 'pread64' and path = '{slow.device}'"
    first, second = select(folder, f"select tid, time_ns from calls where {where} order by time_ns")
    of = {account.tid: account for account in accounts}
    own, others = (parts(folder, f"{where} and tid = {row['tid']}") for row in (first, second))
    assert_waited(own, [of[first["tid"]]], io_wait_ns=LONG_S)
    assert own["others_io_wait_ns"] == 0
    left_s = end_s - second["time_ns"] / 1e9
    assert left_s > 0
    assert_waited(others, [of[second["tid"]]], others_io_wait_ns=left_s)
    assert others["io_wait_ns"] == 0


def test_wait_for_a_lock_is_shown(slow: SlowDrive, tmp_path: Path) -> None:
    """Another thread extends the file with direct I/O."""
    script = """
        import mmap
        fd = os.open(sys.argv[2], os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        page = mmap.mmap(-1, 4096)
        page[:] = b"x" * 4096
        os.pwrite(fd, page, 0)
        writer = threading.Thread(target=account, args=(os.pwrite, fd, page, 4096))
        writer.start()
        until_asleep(writer)
        account(os.pwrite, fd, page, 8192)
        writer.join()
    """
    subprocess.run([*MKFS, slow.device], check=True)
    with mounted(slow.device, tmp_path / "place", "-o", "commit=600") as place:
        slow.delay(LONG_S)
        folder, accounts = watched(tmp_path, script, place / "f")
        slow.delay(0)
    where = f"call = 'pwrite64' and path = '{place}/f'"
    _, first, second = select(
        folder, f"select tid, time_ns from calls where {where} order by time_ns"
    )
    wrote = select(
        folder,
        f"""select tid, latency_ns / 1e9 as took_s, (time_ns + latency_ns) / 1e9 as end_s
        from ios where call_time_ns in ({first["time_ns"]}, {second["time_ns"]}) order by end_s""",
    )
    assert [io["tid"] for io in wrote] == [first["tid"], second["tid"]]
    left_s = wrote[0]["end_s"] - second["time_ns"] / 1e9
    assert left_s > 0 and wrote[1]["took_s"] >= LONG_S
    found = parts(folder, f"{where} and time_ns = {second['time_ns']}")
    [account] = [account for account in accounts if account.tid == second["tid"]]
    assert_waited(found, [account], other_wait_ns=left_s, io_wait_ns=LONG_S)
    assert found["journal_wait_ns"] == found["others_io_wait_ns"] == 0


def test_wait_for_a_slow_journal_is_shown(slow: SlowDrive, tmp_path: Path) -> None:
    """The journal is on a separate slow drive, so waits for data can be distinguished."""
    script = """
        for i in range(5):
            fd = os.open(f"{sys.argv[2]}/{i}", os.O_CREAT | os.O_RDWR)
            os.write(fd, b"x" * 4096)
            account(os.fsync, fd)
    """
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, SIZE)
    subprocess.run(["mke2fs", "-q", "-b", "4096", "-O", "journal_dev", slow.device], check=True)
    make = [*MKFS, "-b", "4096", "-O", "^fast_commit", "-J", f"device={slow.device}"]
    subprocess.run([*make, image], check=True)
    # Only fsync() causes commits.
    with mounted(image, tmp_path / "place", "-o", "loop,commit=600") as place:
        os.sync()
        slow.delay(3 * DELAY_S)
        slow.served()
        folder, accounts = watched(tmp_path, script, place)
        served = slow.served()
        slow.delay(0)
    calls = select(folder, "select * from calls where call = 'fsync' order by time_ns")
    assert len(calls) == 5
    for call, account in zip(calls, accounts, strict=True):
        begin_s, end_s = call["time_ns"] / 1e9, (call["time_ns"] + call["duration_ns"]) / 1e9
        took_s = sum(max(0, min(end_s, end) - max(begin_s, begin)) for begin, end in served)
        # The call waits for the data and for the commit record.
        assert took_s >= 2 * 3 * DELAY_S
        found = parts(folder, f"call = 'fsync' and time_ns = {call['time_ns']}")
        assert_waited(found, [account], journal_wait_ns=took_s)


def test_preempted_thread_is_shown_as_not_running(tmp_path: Path) -> None:
    """Another process on the same CPU gets half of the time."""
    script = """
        import signal
        parent = os.getpid()
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        if not os.fork():
            signal.alarm(600)
            while os.getppid() == parent:
                pass
            os._exit(0)
        fd = os.open("/dev/zero", os.O_RDONLY)
        account(os.preadv, fd, [bytearray(16 << 20)] * 100, 0)
    """
    # A virtual machine may be stopped between the scheduler's clock read and the trace event, which
    # is unlikely to happen three times.
    for name in "abc":
        (place := tmp_path / name).mkdir()
        folder, [account] = watched(place, script)
        found = parts(folder, "call like 'preadv%' and path = '/dev/zero'")
        if found["on_cpu_ns"] <= account.took_s - account.ready_s + SLACK_S:
            break
    assert_waited(found, [account])
    # Other processes may run there, too.
    assert found["preempted_ns"] > 0.5 * found["on_cpu_ns"]
    # Some of the thousands of switches take long.
    slack_s = SLACK_S + account.ready_s / 100
    assert found["preempted_ns"] <= account.ready_s + slack_s
    off_cpu_s = account.ready_s + sum(found[part] for part in WAITS)
    assert found["duration_ns"] - off_cpu_s - slack_s <= found["on_cpu_ns"]
    assert found["on_cpu_ns"] <= account.took_s - account.ready_s + slack_s

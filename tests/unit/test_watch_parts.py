# SPDX-License-Identifier: MIT
"""Where a call's time goes, held against delays put into the drive, the journal, a lock, a page.

The drives are as slow as tests/unit/slow_drive.py makes them, and it says how long they took.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slow_drive import SlowDrive, slow_drive
from test_watch import asked, kernel

from linnapp.trace import watching
from linnapp.trace.watch_reader import PARTS

__all__ = ["kernel"]  # a fixture

pytestmark = pytest.mark.usefixtures("kernel")

#: so long that what a busy machine adds is little
DELAY_S = 0.05
SIZE = 64 << 20
MKFS = ["mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]


@pytest.fixture
def slow(kernel: None, tmp_path: Path) -> Iterator[SlowDrive]:
    """A drive without delay as yet."""
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


def watched(tmp_path: Path, script: str, *arguments: object) -> Path:
    """Watch a Python program; every call's parts add up to its duration."""
    folder = tmp_path / "seen"
    program = [sys.executable, "-S", "-E", "-c", textwrap.dedent(script), *map(str, arguments)]
    seen = watching.watch(folder, command=program)
    assert not seen.status and not seen.counts["lost_calls"]
    [whole] = asked(
        folder,
        f"""select count(*) as n, bool_and({" + ".join(PARTS)} = duration_ns) as adds_up,
        min(least({", ".join(PARTS)})) as least_ns from calls""",
    )
    assert whole["n"] and whole["adds_up"] and whole["least_ns"] >= 0
    return folder


def parts(folder: Path, where: str) -> dict[str, Any]:
    """In seconds, of the calls that a condition names."""
    sums = ", ".join(f"sum({part})::double / 1e9 as {part}" for part in ("duration_ns", *PARTS))
    [found] = asked(folder, f"select count(*) as n, {sums} from calls where {where}")
    return found


def close_to(seconds: float) -> Any:
    return pytest.approx(seconds, rel=0.05)


def test_a_slow_drive_is_waited_for(slow: SlowDrive, tmp_path: Path) -> None:
    script = """
        import mmap, os, sys
        fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
        page = mmap.mmap(-1, 4096)
        for i in range(10):
            os.preadv(fd, [page], i << 20)
    """
    slow.delay(DELAY_S)
    slow.served_s()
    folder = watched(tmp_path, script, slow.device)
    took = [s for s in slow.served_s() if s >= DELAY_S]
    found = parts(folder, f"call like 'preadv%' and path = '{slow.device}'")
    assert found["n"] == 10 == len(took)
    assert found["io_wait_ns"] == close_to(sum(took))
    # At the drive, as its I/O says.
    [io] = asked(
        folder,
        """select sum(drive_ns)::double / 1e9 as drive, sum(latency_ns)::double / 1e9 as whole
        from ios where call like 'preadv%'""",
    )
    assert io["drive"] == close_to(sum(took)) and io["whole"] == close_to(io["drive"])
    assert found["others_io_wait_ns"] == found["journal_wait_ns"] == 0


def test_a_free_tag_is_waited_for(slow: SlowDrive, tmp_path: Path) -> None:
    """Twelve threads at a drive that has four tags, and serves one at a time."""
    script = """
        import mmap, os, sys, threading
        fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
        def read(i):
            os.preadv(fd, [mmap.mmap(-1, 4096)], i << 20)
        threads = [threading.Thread(target=read, args=[i]) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
    queue = Path("/sys/block") / slow.device.name / "queue"
    (queue / "scheduler").write_text("none")
    (queue / "nr_requests").write_text("4")
    slow.delay(DELAY_S)
    slow.served()
    folder = watched(tmp_path, script, slow.device)
    ends_s = [end_s for begin_s, end_s in slow.served() if end_s - begin_s >= DELAY_S]
    where = f"call like 'preadv%' and path = '{slow.device}'"
    calls = asked(folder, f"select time_ns / 1e9 as s from calls where {where}")
    assert len(calls) == 12 == len(ends_s)
    # They end one after the other. Where others want the CPUs, they do not all begin at once.
    found = parts(folder, where)
    assert found["io_wait_ns"] == close_to(sum(ends_s) - sum(call["s"] for call in calls))
    # The fifth waits for the end of the first, the sixth for that of the second, ...
    ios = asked(
        folder, "select time_ns / 1e9 as s, plug_ns from ios where call ~ 'preadv' order by s"
    )
    plugged_s = sum(ends_s[:8]) - sum(io["s"] for io in ios[4:])
    assert sum(io["plug_ns"] for io in ios) / 1e9 == close_to(plugged_s)


def test_a_page_that_another_thread_reads_is_waited_for(slow: SlowDrive, tmp_path: Path) -> None:
    script = """
        import os, sys, threading, time
        fd = os.open(sys.argv[1], os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        reader = threading.Thread(target=os.pread, args=(fd, 512, 8 << 20))
        reader.start()
        time.sleep(0.01)
        os.pread(fd, 512, 8 << 20)
        reader.join()
    """
    slow.delay(4 * DELAY_S)
    folder = watched(tmp_path, script, slow.device)
    where = f"call = 'pread64' and path = '{slow.device}'"
    first, second = asked(
        folder, f"select tid, time_ns, duration_ns from calls where {where} order by time_ns"
    )
    left_s = (first["time_ns"] + first["duration_ns"] - second["time_ns"]) / 1e9
    own, others = (parts(folder, f"{where} and tid = {row['tid']}") for row in (first, second))
    assert own["io_wait_ns"] >= 4 * DELAY_S and own["others_io_wait_ns"] == 0
    assert others["others_io_wait_ns"] == close_to(left_s) and others["io_wait_ns"] == 0


def test_a_lock_is_waited_for(slow: SlowDrive, tmp_path: Path) -> None:
    """Of a file that another thread makes longer, past the page cache."""
    script = """
        import mmap, os, sys, threading, time
        fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        page = mmap.mmap(-1, 4096)
        page[:] = b"x" * 4096
        os.pwrite(fd, page, 0)
        writer = threading.Thread(target=os.pwrite, args=(fd, page, 4096))
        writer.start()
        time.sleep(0.01)
        os.pwrite(fd, page, 8192)
        writer.join()
    """
    subprocess.run([*MKFS, slow.device], check=True)
    with mounted(slow.device, tmp_path / "place") as place:
        slow.delay(4 * DELAY_S)
        folder = watched(tmp_path, script, place / "f")
        slow.delay(0)
    where = f"call = 'pwrite64' and path = '{place}/f'"
    _, first, second = asked(
        folder, f"select time_ns, duration_ns from calls where {where} order by time_ns"
    )
    left_s = (first["time_ns"] + first["duration_ns"] - second["time_ns"]) / 1e9
    found = parts(folder, f"{where} and time_ns = {second['time_ns']}")
    assert left_s > 3 * DELAY_S and found["other_wait_ns"] == close_to(left_s)
    assert found["io_wait_ns"] == close_to(4 * DELAY_S)
    assert found["journal_wait_ns"] == found["others_io_wait_ns"] == 0


def test_a_slow_journal_is_waited_for(slow: SlowDrive, tmp_path: Path) -> None:
    """On a drive of its own, the data's being fast.

    Where others want the CPUs, the journal's thread waits for one between two writes. So each write
    takes longer than elsewhere here, and what is judged is the middle one of the calls.
    """
    script = """
        import os, sys
        for i in range(5):
            fd = os.open(f"{sys.argv[1]}/{i}", os.O_CREAT | os.O_RDWR)
            os.write(fd, b"x" * 4096)
            os.fsync(fd)
    """
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, SIZE)
    subprocess.run(["mke2fs", "-q", "-b", "4096", "-O", "journal_dev", slow.device], check=True)
    make = [*MKFS, "-b", "4096", "-O", "^fast_commit", "-J", f"device={slow.device}"]
    subprocess.run([*make, image], check=True)
    with mounted(image, tmp_path / "place", "-o", "loop") as place:
        os.sync()
        slow.delay(3 * DELAY_S)
        slow.served()
        folder = watched(tmp_path, script, place)
        served = slow.served()
        slow.delay(0)
    ratios, elsewhere = [], []
    for call in asked(folder, "select * from calls where call = 'fsync'"):
        begin_s, end_s = call["time_ns"] / 1e9, (call["time_ns"] + call["duration_ns"]) / 1e9
        took_s = sum(max(0, min(end_s, end) - max(begin_s, begin)) for begin, end in served)
        # What it commits, and that it is committed.
        assert took_s > 1.9 * 3 * DELAY_S
        ratios.append(call["journal_wait_ns"] / 1e9 / took_s)
        elsewhere.append((call["io_wait_ns"] + call["others_io_wait_ns"]) / 1e9 / took_s)
    assert len(ratios) == 5
    assert statistics.median(ratios) == close_to(1), ratios
    # Waiting for the data is told apart.
    assert statistics.median(elsewhere) < 0.05, elsewhere


def test_a_thread_that_has_to_give_way_did_not_run(tmp_path: Path) -> None:
    """To another on the same CPU, which it shares with it evenly."""
    script = """
        import os, signal
        parent = os.getpid()
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        if not os.fork():
            signal.alarm(60)
            while os.getppid() == parent:
                pass
            os._exit(0)
        fd = os.open("/dev/zero", os.O_RDONLY)
        os.preadv(fd, [bytearray(16 << 20)] * 100, 0)
    """
    folder = watched(tmp_path, script)
    found = parts(folder, "call like 'preadv%' and path = '/dev/zero'")
    # Others may run there, too.
    assert found["preempted_ns"] > 0.5 * found["on_cpu_ns"]
    assert found["preempted_ns"] + found["on_cpu_ns"] == close_to(found["duration_ns"])

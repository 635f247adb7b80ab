# SPDX-License-Identifier: MIT
"""The emulated drive: data, latencies, injection, oracle and repeatability."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from guest_runs import GuestResult

from linnapp.lab.array import Array

pytestmark = pytest.mark.lab

READS = f"python3 {Path(__file__).with_name('time_reads.py')}"
FIO = "fio --name=job --direct=1 --ioengine=io_uring --clocksource=clock_gettime --thread"
COUNTERS = "cat /sys/kernel/debug/flashsim/flash0/counters >$OUT/"
PROFILES = ["consumer", "consumer-nvme", "enterprise-a", "enterprise-b", "enterprise-c"]


def _counters(result: GuestResult, name: str) -> dict[str, int]:
    return {
        counter: int(value) for counter, value in map(str.split, result.text(name).splitlines())
    }


def _drive(profile: str = "enterprise-a", size_mb: int = 256, precondition: bool = True) -> Array:
    return Array(n_drives=1, profile=profile, size_mb=size_mb, precondition=precondition)


@pytest.mark.parametrize("profile", ["consumer", "enterprise-a"])
def test_reads_return_the_data_written(boot, profile: str) -> None:
    boot(
        f"{FIO} --filename=/dev/flash0 --rw=randwrite --bsrange=512-256k --blockalign=512"
        " --iodepth=64 --size=64m --verify=crc32c --verify_fatal=1 --verify_state_save=0"
        " --fsync=50 >&2",
        _drive(profile),
    )


def test_discarded_pages_read_as_zeros_and_free_memory(boot) -> None:
    result = boot(
        r"""
free() { awk '/^MemFree/ { print $2 }' /proc/meminfo >>$OUT/free; }
free
yes abcdefghi | dd of=/dev/flash0 bs=1M count=128 oflag=direct iflag=fullblock
free
blkdiscard -o 1048576 -l 125829120 /dev/flash0
free
dd if=/dev/flash0 bs=1M count=128 iflag=direct | tr -d '\0' | wc -c >$OUT/left
""",
        _drive(size_mb=128, precondition=False),
    )
    start, written, discarded = result.numbers("free")
    assert result.text("left") == f"{8 << 20}\n"
    mib = 1024
    assert start - written > 120 * mib
    assert discarded - written > 110 * mib


def test_a_buffer_that_splits_sectors_is_refused(boot) -> None:
    script = r"""
cat >/run/tmp/aligned.py <<'PYTHON'
import mmap, os
fd = os.open("/dev/flash0", os.O_RDWR | os.O_DIRECT)
memory = memoryview(mmap.mmap(-1, 1 << 20))
for shift in (4, 256, 512):
    data = os.urandom(64 << 10)
    part = memory[shift : shift + len(data)]
    part[:] = data
    try:
        os.pwritev(fd, [part], 8192)
        part[:] = bytes(len(data))
        os.preadv(fd, [part], 8192)
        print(shift, "right" if part == data else "wrong")
    except OSError as error:
        print(shift, error.strerror)
PYTHON
python3 /run/tmp/aligned.py >$OUT/answers
"""
    answers = boot(script, _drive(size_mb=64, precondition=False)).text("answers")
    assert answers == "4 Invalid argument\n256 Invalid argument\n512 right\n"


def test_counting_words_are_stored_compactly_and_other_data_unchanged(boot) -> None:
    script = r"""
cat >/run/tmp/series.py <<'PYTHON'
import fcntl, mmap, os, struct
import numpy as np

def free_kb():
    return int(open("/proc/meminfo").read().split("MemFree:")[1].split()[0])

PAGE, PAGES = 4096, 16384
rng = np.random.default_rng(1)
fd = os.open("/dev/flash0", os.O_RDWR | os.O_DIRECT)
room = np.frombuffer(mmap.mmap(-1, 1 << 20), np.uint8)
disk = np.zeros(PAGES * PAGE, np.uint8)

def write(offset, data):
    disk[offset : offset + len(data)] = data
    room[: len(data)] = data
    assert os.pwritev(fd, [room[: len(data)]], offset) == len(data)

def series(pages):
    first, base, step = rng.integers(0, 1 << 63, (3, pages, 1), np.uint64)
    words = base + np.arange(512, dtype=np.uint64) * step
    words[:, :1] = first
    return words.reshape(-1).view(np.uint8)

def compare():
    for offset in range(0, len(disk), len(room)):
        assert os.preadv(fd, [room], offset) == len(room)
        assert (room == disk[offset : offset + len(room)]).all(), offset

disk[:] = 0  # its memory is there before it is measured
before = free_kb()
for offset in range(0, len(disk), len(room)):
    write(offset, series(256))
print(before - free_kb())
compare()
for _ in range(4000):
    kind = rng.integers(5)
    pages = int(rng.integers(1, 9))
    at = int(rng.integers(PAGES - pages)) * PAGE
    if kind == 0:
        write(at, series(pages))
    elif kind == 1:
        write(at, np.full(pages * PAGE, rng.integers(256), np.uint8))
    elif kind == 2:
        write(at, rng.integers(0, 256, pages * PAGE, np.uint8))
    elif kind == 3:  # a part of a page, and of the next
        write(at + 512 * int(rng.integers(8)), rng.integers(0, 256, 512 * pages, np.uint8))
    else:
        at += 512 * int(rng.integers(8))
        fcntl.ioctl(fd, 0x1277, struct.pack("QQ", at, 512 * pages))  # BLKDISCARD
        disk[at : at + 512 * pages] = 0
compare()
PYTHON
python3 /run/tmp/series.py >$OUT/grown_kb
"""
    result = boot(script, _drive(size_mb=64, precondition=False))
    # 64 MiB written; the script's own memory counts as well.
    assert int(result.text("grown_kb")) < 8192


@pytest.mark.parametrize("profile", PROFILES)
def test_writes_add_a_latency_tail_to_stable_reads(boot, tmp_path: Path, profile: str) -> None:
    boot(
        f"{READS} /dev/flash0 2000 $OUT/alone.npy\n"
        f"{READS} /dev/flash0 4000 $OUT/mixed.npy --write-share 0.2 --max-kb 64",
        _drive(profile, size_mb=1024),
    )
    alone = np.load(tmp_path / "alone.npy")[:, 1] / 1000
    mixed = np.load(tmp_path / "mixed.npy")[:, 1] / 1000
    # Data sheets: 80 to 110 us for 4 KiB at queue depth 1. The pages of a word line differ.
    assert 70 < np.median(alone) < 115
    assert np.percentile(alone, 99.9) < 2 * np.median(alone)
    assert np.percentile(mixed, 99) > 3 * np.median(mixed)
    assert mixed.max() < 50_000


def test_random_writes_start_garbage_collection(boot) -> None:
    result = boot(
        f"{COUNTERS}before\n"
        f"{FIO} --filename=/dev/flash0 --rw=randwrite --bs=16k --iodepth=16 --size=256m"
        f" --io_size=512m >&2\n{COUNTERS}after",
        _drive("consumer"),
    )
    before, after = (_counters(result, name) for name in ("before", "after"))
    delta = {name: after[name] - before[name] for name in after}
    assert delta["write_sectors"] == 512 * 2048
    for name in ("gc_runs", "gc_pages_moved", "erases", "block_erases", "flushes"):
        assert delta[name] > 0, name
    # All data written and moved was programmed, in rows of 8 units.
    units = delta["write_sectors"] // 8 + delta["gc_pages_moved"]
    assert delta["page_programs"] * 8 == pytest.approx(units, rel=0.1)


@pytest.mark.parametrize("profile", ["consumer", "enterprise-a"])
def test_large_io_takes_link_transfer_time(boot, profile: str) -> None:
    script = r"""
cat >/run/tmp/large.py <<'PYTHON'
import mmap, os, time
fd = os.open("/dev/flash0", os.O_RDWR | os.O_DIRECT)
memory = mmap.mmap(-1, 8 << 20)
def took(call):
    start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert call(fd, [memory], 0) == len(memory)
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) - start
write = took(os.pwritev)
time.sleep(3)
print(write, took(os.preadv))
PYTHON
python3 /run/tmp/large.py >$OUT/took
cat /sys/kernel/config/flashsim/flash0/host_transfer_ns >>$OUT/took
"""
    result = boot(script, _drive(profile, size_mb=64, precondition=False))
    write_ns, read_ns, transfer_ns = result.numbers("took")
    link_ns = 2048 * transfer_ns  # of 8 MiB
    assert link_ns < write_ns < 1.05 * link_ns
    assert link_ns < read_ns < 1.3 * link_ns


def test_two_boots_give_the_same_times(boot, tmp_path: Path) -> None:
    script = (
        f"{READS} /dev/flash0 1500 $OUT/reads.npy --write-share 0.3 --max-kb 1024\n{COUNTERS}all"
    )
    boot(script, _drive("consumer"))
    reads, counters = np.load(tmp_path / "reads.npy"), (tmp_path / "all").read_text()
    boot(script, _drive("consumer"))
    assert (np.load(tmp_path / "reads.npy")[:, 1] == reads[:, 1]).all()
    assert (tmp_path / "all").read_text() == counters


@pytest.mark.parametrize("profile", ["consumer", "enterprise-a"])
def test_oracle_includes_the_last_part_of_a_split_read(boot, tmp_path: Path, profile: str) -> None:
    # Four requests; every third is late, including the last ones of a read.
    boot(
        f"{READS} /dev/flash0 30 $OUT/idle.npy --read-kb 4096 --oracle\n"
        f"{READS} /dev/flash0 60 $OUT/busy.npy --read-kb 4096 --oracle --write-share 0.7"
        " --max-kb 1024\n"
        "sleep 3; inject flash0 interval=3 latency_us=3000 op=read pattern=interval\n"
        f"{READS} /dev/flash0 30 $OUT/injected.npy --read-kb 4096 --oracle\n",
        _drive(profile),
    )
    exact, predicted = {}, {}
    for load in ("idle", "busy", "injected"):
        _, latency, predicted[load] = np.load(tmp_path / f"{load}.npy").T
        # Reading the clock takes 256 ns of the guest's time, and it is read twice.
        exact[load] = np.abs(latency - predicted[load]) <= 2 * 256
    assert exact["idle"].all() and exact["injected"].all()
    # A chip can start other work between the query and the read.
    assert exact["busy"].mean() > 0.95
    idle = np.median(predicted["idle"])
    assert predicted["busy"].max() > 1.5 * idle
    assert np.median(predicted["injected"]) > idle + 700_000


def test_injection_patterns_delay_the_stated_reads(boot, tmp_path: Path) -> None:
    runs = {
        "interval": "interval=50",
        "continuous": "period_ios=500 ratio_ppm=100000",
        "random": "ratio_ppm=100000",
    }
    script = "".join(
        f"inject flash0 op=read latency_us=5000 pattern={pattern} {knobs}\n"
        f"{READS} /dev/flash0 2000 $OUT/{pattern}.npy\n"
        for pattern, knobs in runs.items()
    )
    script += f"inject flash0 arm=0\n{READS} /dev/flash0 500 $OUT/disarmed.npy\n{COUNTERS}all"
    result = boot(script, _drive())
    slow = {
        name: np.flatnonzero(np.load(tmp_path / f"{name}.npy")[:, 1] > 5_000_000)
        for name in [*runs, "disarmed"]
    }
    assert slow["interval"].tolist() == list(range(49, 2000, 50))
    assert slow["continuous"].tolist() == [500 * k + i for k in range(4) for i in range(50)]
    assert 150 < len(slow["random"]) < 250
    assert len(slow["disarmed"]) == 0
    hits = sum(map(len, slow.values()))
    assert _counters(result, "all")["injected_reads"] == hits


def test_wrong_settings_are_refused(boot) -> None:
    result = boot(
        r"""
cd /sys/kernel/config/flashsim
refused() { if (echo "$2" >$1) 2>/dev/null; then echo "$1=$2 accepted"; fi; }
(refused flash0/profile nonsense
refused flash0/inject/pattern sometimes
refused flash0/inject/ratio_ppm 1000001
refused flash0/inject/interval 0
refused flash0/channels 8
refused flash0/size_mb 64
mkdir sda 2>/dev/null && echo 'mkdir sda accepted'
mkdir flash9
refused flash9/channels 33
refused flash9/precondition 1
echo 6 >flash9/gc_low_blocks; echo 6 >flash9/gc_high_blocks
refused flash9/power 1) >$OUT/accepted 2>&1 || true
rmdir flash9
""",
        _drive(precondition=False),
    )
    assert result.text("accepted") == ""
    assert "flashsim: inject/pattern: no such value" in result.dmesg
    assert "flashsim: inject/ratio_ppm: must be 0 to 1000000" in result.dmesg
    assert "flashsim: drive/channels: must be 1 to 32" in result.dmesg


def test_drive_is_removed_and_added_under_load(boot) -> None:
    boot(
        f"""
cd /sys/kernel/config/flashsim
for k in 1 2 3; do
    {FIO} --filename=/dev/flash0 --rw=randrw --bs=64k --iodepth=256 --size=64m --time_based \
        --runtime=1 >/dev/null 2>&1 &
    sleep 0.2
    echo 0 >flash0/power
    wait
    echo 1 >flash0/power
done
dd if=/dev/flash0 of=/dev/null bs=1M count=4 iflag=direct
""",
        _drive("consumer", size_mb=64, precondition=False),
    )


def test_an_open_disk_outlives_its_drive(boot) -> None:
    script = r"""
cat >/run/tmp/hold.py <<'PYTHON'
import fcntl, os, struct
drive = "/sys/kernel/config/flashsim/flash0"
fd = os.open("/dev/flash0", os.O_RDONLY)
def ask():
    question = bytearray(struct.pack("=QIIQ", 0, 8, 0, 0))
    try:
        fcntl.ioctl(fd, 3 << 30 | 24 << 16 | 0xF5 << 8 | 1, question)
        return "latency" if struct.unpack("=QIIQ", question)[3] else "zero"
    except OSError as error:
        return os.strerror(error.errno)
print(ask())
open(drive + "/power", "w").write("0")
print(ask())
open(drive + "/power", "w").write("1")
print(ask())
os.rmdir(drive)
print(ask())
PYTHON
python3 /run/tmp/hold.py >$OUT/answers
ls /dev/flash* >$OUT/left 2>/dev/null || true
"""
    result = boot(script, _drive(size_mb=64, precondition=False))
    gone = "No such device"
    assert result.text("answers").splitlines() == ["latency", gone, gone, gone]
    assert result.text("left") == ""
    assert "BUG" not in result.dmesg and "WARNING" not in result.dmesg

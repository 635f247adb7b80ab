# SPDX-License-Identifier: MIT
"""linnos.ko on unmodified Debian kernels: its counters agree with the tracepoints of the same
run, its answers follow from them, and it can be loaded and removed under load."""

from __future__ import annotations

import os
import re
import subprocess
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from debian import ALL, BUILD, BUILT_HERE, DEBIAN, DebianKernel, debian_kernel
from guest_runs import GuestResult
from trees_by_hand import STEPS_US, last_read

from linnapp.drive.latencies import LOWEST_US
from linnapp.lab.guest import REPOSITORY

pytestmark = pytest.mark.qemu

NETWORK = REPOSITORY / "models" / "example" / "flash0.linnos"


def assert_idle(result: GuestResult) -> None:
    assert result.text("in_flight") == "0 pages, 0 reads\n"


@pytest.fixture(params=ALL)
def kernel(request: pytest.FixtureRequest) -> DebianKernel:
    return debian_kernel(request.param)


@pytest.fixture(params=DEBIAN)
def debian(request: pytest.FixtureRequest) -> DebianKernel:
    """Return a kernel without debugging, for tests of times and of the headers' configuration."""
    return debian_kernel(request.param)


def test_build_finds_the_interfaces_of_the_kernel(debian: DebianKernel) -> None:
    version = tuple(int(n) for n in debian.modules.name.split(".")[:2])
    text = (debian.built / "linnos_interfaces.h").read_text()
    assert dict(re.findall(r"^#define LINNOS_HAS_(\w+) ([01])$", text, re.M)) == {
        "BLOCK_IO_START": str(int(version >= (6, 5))),
        "CLASS_INTERFACE_OF_DEVICE": str(int(version >= (6, 4))),
        "HRTIMER_SETUP": str(int(version >= (6, 13))),
    }


# One CPU, so that events are reported in order.
OBSERVED = """
. $TESTS/lib.sh
files=/sys/kernel/linnos/nvme0n1
traced=/sys/kernel/debug/tracing
insmod $BUILT/linnos.ko drives=nvme0n1
cat {model} >$files/model
echo 65536 >$traced/buffer_size_kb
echo mono >$traced/trace_clock
for event in block_io_start block_rq_insert block_rq_issue block_rq_complete; do
    if [ -e $traced/events/block/$event ]; then echo block:$event >>$traced/set_event; fi
done
echo linnos:linnos_expected >>$traced/set_event
echo observe >$files/mode
fio --name=all --filename=/dev/nvme0n1 --allow_file_create=0 --direct=1 --ioengine=libaio \\
    --iodepth=8 --bsrange=4k-64k --bs_unaligned=0 --time_based --runtime=600 --norandommap=0 \\
    --name=reads --rw=randread --size=128m --rate_iops=400 \\
    --name=writes --rw=randwrite --offset=128m --size=128m --rate_iops=200 >/dev/null &
load=$!
flowing() {{ [ $(cat $files/stats/reads) -gt 100 ]; }}
wait_for flowing
python3 $TESTS/asks.py --look --count 500 --every-ms 4 --reads $files/stats/reads /dev/nvme0n1 \\
    >$OUT/answers
kill -INT $load
wait $load || true
cat /sys/kernel/debug/linnos/nvme0n1/in_flight >$OUT/in_flight
cat /sys/kernel/debug/linnos/nvme0n1/missed >$OUT/missed
cat $files/stats/reads >$OUT/reads
cat $files/latency_us_histogram >$OUT/histogram
echo >$traced/set_event
cp $traced/trace $OUT/trace
rmmod linnos
"""


@dataclass
class Request:
    """An I/O of the trace."""

    is_read: bool
    pages: int
    issued_us: float = 0.0


@dataclass(frozen=True)
class Question:
    """A query and its right answer by the trace: pages in flight, latency of the last read."""

    pending: int
    latency_us: int
    traced_pages: int
    traced_us: float


REQUEST = re.compile(
    r" (\d+\.\d+): block_(io_start|rq_insert|rq_issue|rq_complete): \d+,\d+ (\w+) "
    r"(?:\d+ )?\(.*?\) (\d+) \+ (\d+) "
)
QUESTION = re.compile(r" linnos_expected: .* pending=(\d+) .* latency_us=(\d+)")


def pages_of(sectors: str) -> int:
    return -(-int(sectors) // 8)


def replayed(trace: str, latencies_us: list[float]) -> Iterator[Question]:
    """Yield the queries of a trace; append the latencies of all reads to the list."""
    in_flight: dict[tuple[str, str], Request] = {}
    for line in trace.splitlines():
        if asked := QUESTION.search(line):
            pages = sum(request.pages for request in in_flight.values())
            yield Question(int(asked[1]), int(asked[2]), pages, latencies_us[-1])
        elif match := REQUEST.search(line):
            time_us, kind, op = float(match[1]) * 1e6, match[2], match[3]
            if op[0] not in "RW":
                continue
            at = (op[0], match[4])
            if kind == "rq_complete":
                request = in_flight.pop(at, None)
                if request and request.is_read:
                    latencies_us.append(time_us - request.issued_us)
                continue
            request = in_flight.setdefault(at, Request(op[0] == "R", pages_of(match[5])))
            if kind == "rq_issue" and not request.issued_us:
                request.issued_us = time_us
    assert not in_flight


def is_answer(answer_us: int, last_us: float) -> bool:
    """Return true if the model `last_read` gives this answer after a read of about `last_us`."""
    steps = {
        STEPS_US[min(bisect_left(STEPS_US, us), len(STEPS_US) - 1)]
        for us in (0.95 * last_us - 10, last_us, 1.05 * last_us + 10)
    }
    return any(abs(answer_us - step_us) <= 1 + step_us / 100 for step_us in steps)


def test_counters_and_answers_agree_with_the_trace(debian: DebianKernel, tmp_path: Path) -> None:
    model = last_read(threshold_us=100, refuse_us=10**6, overdue_us=10**7)
    model.save(tmp_path / "last.linnos")
    script = OBSERVED.format(model=tmp_path / "last.linnos")
    result = debian.boot(script, tmp_path, n_cpus=1, n_drives=1)
    assert_idle(result)
    assert result.numbers("missed") == [0]

    latencies_us: list[float] = []
    questions = list(replayed(result.text("trace"), latencies_us))
    (reads,) = result.numbers("reads")
    assert reads == len(latencies_us) > 500

    # Each read is in its bucket, except for the delay between module and tracepoint.
    counted = np.array(result.numbers("histogram"))
    assert counted.sum() == reads
    traced_us = np.array(latencies_us)
    more_us = 10 + 0.05 * traced_us
    for bound_us, below in zip(LOWEST_US[1:], counted.cumsum(), strict=False):
        least, most = ((traced_us + by < bound_us).sum() for by in (more_us, -more_us))
        assert least - reads // 200 <= below <= most + reads // 200, bound_us

    answers = result.json("answers")
    assert len(questions) == len(answers) == 500
    assert [answer[0][2] for _, answer in answers] == [asked.latency_us for asked in questions]
    exact = [asked.pending == asked.traced_pages + 1 for asked in questions]
    assert len({asked.pending for asked in questions}) > 10
    # An interrupt may come between the answer and its trace.
    assert sum(exact) >= 0.99 * len(exact), [
        a for a, same in zip(questions, exact, strict=True) if not same
    ]
    # The latency of the read before the last one gives the right answer in three of four cases.
    near = [is_answer(asked.latency_us, asked.traced_us) for asked in questions]
    assert sum(near) >= 0.95 * len(near)


# Whatever happens to a drive or to the module during I/O, nothing stays counted as in flight.
CHANGING = """
. $TESTS/lib.sh
files=/sys/kernel/linnos
told=/sys/kernel/debug/linnos
rounds=6
use() {{ cat {model} >$files/$1/model && echo observe >$files/$1/mode; }}
observe() {{
    echo $1 >$files/add
    use $1
}}
reads() {{ cat $files/$1/stats/reads; }}
flowing() {{ [ $(reads $1) -gt 50 ]; }}
refused() {{ if "$@" 2>/dev/null; then echo "not refused: $*" >&2; exit 1; fi; }}
mixed_load() {{
    fio --name=load --filename=/dev/$1 --allow_file_create=0 --direct=1 --ioengine=io_uring \\
        --iodepth=16 --bsrange=4k-256k --rw=randrw --size=128m --time_based --runtime=900 \\
        --numjobs=2 >/dev/null 2>&1 &
}}

insmod $BUILT/linnos.ko drives=nvme0n1,absent
linnapp upload --model {model} --device /dev/nvme0n1 --mode observe >/dev/null
observe nvme1n1
python3 -c '
import os
from linnapp.replicas import best
print(best([os.open(f"/dev/nvme{{k}}n1", os.O_RDONLY) for k in range(2)], 4096))
' >$OUT/best
python3 $TESTS/asks.py --count 20 /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 >$OUT/idle
refused sh -c "echo nvme1n1 >$files/add"
refused sh -c "echo absent >$files/add"
refused sh -c "echo nvme0n1p1 >$files/remove"
refused sh -c "echo enforce >$files/nvme0n1/mode"
refused sh -c "head -c 500 {model} >$files/nvme0n1/model"
[ "$(cat $files/nvme0n1/mode)" = observe ]

mixed_load nvme0n1
load0=$!
mixed_load nvme1n1
load1=$!
for k in 0 1; do wait_for flowing nvme${{k}}n1; done
python3 $TESTS/asks.py --count 300 --every-ms 1 --reads $files/nvme0n1/stats/reads \\
    /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 >$OUT/answers
cat $files/nvme0n1/stats/inferences >$OUT/inferences

# A scheduler has its own requests: some earlier ones are in flight without a place.
for round in $(seq $rounds); do
    for scheduler in mq-deadline none; do
        echo $scheduler >/sys/block/nvme0n1/queue/scheduler
        echo off >$files/nvme0n1/mode
        sleep 0.2
        use nvme0n1
    done
    echo nvme1n1 >$files/remove
    [ ! -e $files/nvme1n1 ]
    observe nvme1n1
    wait_for flowing nvme1n1
done

for round in $(seq $rounds); do
    rmmod linnos
    [ ! -e $files ] && [ ! -e /dev/linnos ]
    insmod $BUILT/linnos.ko drives=nvme0n1
    use nvme0n1
    observe nvme1n1
    wait_for flowing nvme0n1
done

# The removal of an observed drive is noticed.
remove_device /sys/block/nvme1n1/device/device
wait $load1 || true
gone() {{ [ ! -e $files/nvme1n1 ]; }}
wait_for gone
python3 $TESTS/asks.py /dev/nvme0n1 >/dev/null
find_devices
wait_for [ -b /dev/nvme1n1 ]
observe nvme1n1
dd if=/dev/nvme1n1 of=/dev/null bs=1M count=64 status=none
[ $(reads nvme1n1) -gt 0 ]

kill -INT $load0
wait $load0 || true
for k in 0 1; do cat $told/nvme${{k}}n1/in_flight $told/nvme${{k}}n1/missed; done >$OUT/in_flight
rmmod linnos
"""


def test_module_is_loaded_and_removed_under_load(kernel: DebianKernel, tmp_path: Path) -> None:
    result = kernel.boot(CHANGING.format(model=NETWORK), tmp_path, n_drives=3, drive_mb=128)
    for message in (
        *("absent: not observed", "a module cannot refuse reads", "model refused"),
        "nvme1n1 was removed",
    ):
        assert message in result.dmesg
    assert result.text("in_flight") == "0 pages, 0 reads\n0\n" * 2

    # Both drives are idle; a network without history predicts fast.
    assert result.json("best") == [0, 1]

    verdict, no_policy = 4, 0
    is_slow = 1
    # asks.py has checked that the best drives follow from these.
    answers = result.json("idle") + result.json("answers")
    for _, drives in answers:
        assert [known for known, _, _ in drives] == [verdict, verdict, no_policy]
    # Both predictions occurred, fast and slow.
    assert {flags & is_slow for _, drives in answers for _, flags, _ in drives[:2]} == {0, 1}
    assert result.numbers("inferences")[0] >= len(answers)


# The depth of a scheduler is increased, so that more requests are in flight than there was room
# for.
GROWING = """
files=/sys/kernel/linnos/nullb0
told=/sys/kernel/debug/linnos/nullb0
modprobe -d $UNPACKED null_blk queue_mode=2 irqmode=2 completion_nsec=50000000 hw_queue_depth=2 gb=1
insmod $BUILT/linnos.ko drives=nullb0
echo observe >$files/mode
echo mq-deadline >/sys/block/nullb0/queue/scheduler
echo 1000 >/sys/block/nullb0/queue/nr_requests
fio --name=reads --filename=/dev/nullb0 --rw=randread --direct=1 --ioengine=libaio --iodepth=600 \\
    --time_based --runtime=600 >/dev/null &
load=$!
. $TESTS/lib.sh
pages() {{ set -- $(cat $told/in_flight); echo $1; }}
# There were 256 places, so no more requests were counted before.
grown() {{ [ $(pages) -gt 256 ]; }}
wait_for grown
cat $told/missed >$OUT/missed
kill -INT $load
wait $load || true
cat $told/in_flight >$OUT/in_flight
rmmod linnos
"""


def test_module_observes_a_drive_whose_queue_grows(kernel: DebianKernel, tmp_path: Path) -> None:
    result = kernel.boot(GROWING.format(), tmp_path, n_drives=1, drive_mb=64)
    assert result.numbers("missed") == [0]
    assert_idle(result)


# SCSI first completes the good part of a failed read, which has no bytes, without an error.
FAILING = """
. $TESTS/lib.sh
files=/sys/kernel/linnos/sda
modprobe -d $UNPACKED sd_mod
modprobe -d $UNPACKED scsi_debug add_host=1 dev_size_mb=16 fake_rw=0
wait_for [ -b /dev/sda ]
insmod $BUILT/linnos.ko drives=sda
cat {model} >$files/model
echo observe >$files/mode
read_at() {{ dd if=/dev/sda of=/dev/null bs=$1 skip=$2 count=$3 iflag=direct status=none; }}
read_at 4096 0 16
cat $files/latency_us_histogram >$OUT/good
# Medium errors, at sectors 4660 to 4669.
echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts
for size in 4096 16384; do
    for again in 1 2 3; do
        if read_at $size $((582 * 4096 / size)) 1 2>/dev/null; then exit 1; fi
    done
done
cat $files/latency_us_histogram >$OUT/failed
cat $files/stats/reads >$OUT/reads
echo 0 >/sys/bus/pseudo/drivers/scsi_debug/opts
read_at 4096 582 1
cat $files/latency_us_histogram >$OUT/good_again
cat /sys/kernel/debug/linnos/sda/in_flight >$OUT/in_flight
rmmod linnos
"""


def test_failed_reads_are_not_in_the_histogram(kernel: DebianKernel, tmp_path: Path) -> None:
    result = kernel.boot(FAILING.format(model=NETWORK), tmp_path, n_drives=1, drive_mb=64)
    counts = [sum(result.numbers(name)) for name in ("good", "failed", "good_again")]
    assert counts == [16, 16, 17]
    assert result.numbers("reads")[0] >= 16 + 6
    assert_idle(result)


# The module of a driver is removed, with the code that would later free a disk or its host.
DRIVERS_GO = """
. $TESTS/lib.sh
files=/sys/kernel/linnos
insmod $BUILT/linnos.ko drives=nvme0n1
modprobe -d $UNPACKED sd_mod
modprobe -d $UNPACKED scsi_debug add_host=1
wait_for [ -b /dev/sda ]
echo sda >$files/add
for disk in nvme0n1 sda; do
    echo observe >$files/$disk/mode
    dd if=/dev/$disk of=/dev/null bs=1M count=4 status=none
    [ $(cat $files/$disk/stats/reads) -gt 0 ]
done
rmmod nvme
rmmod scsi_debug
[ ! -e $files/nvme0n1 ] && [ ! -e $files/sda ]
rmmod nvme_core
sleep 4
modprobe -d $UNPACKED nvme
wait_for [ -b /dev/nvme0n1 ]
echo nvme0n1 >$files/add
rmmod linnos
"""


def test_driver_can_be_removed_while_the_module_observes(
    kernel: DebianKernel, tmp_path: Path
) -> None:
    log = kernel.boot(DRIVERS_GO, tmp_path, n_drives=1, drive_mb=64).dmesg
    assert "nvme0n1 was removed" in log
    assert "sda was removed" in log


@pytest.mark.parametrize("name", BUILT_HERE)
def test_module_refuses_a_kernel_with_linnos(tmp_path: Path, name: str) -> None:
    debian = debian_kernel(name)
    release = debian.modules.name
    # As in the kernel's headers.
    with_linnos = {**os.environ, "CONFIG_BLK_LINNOS": "y"}
    command = [BUILD, "--kernel", release, "--out", tmp_path / "built"]
    subprocess.run(command, check=True, env=with_linnos)
    log = debian.boot(
        f"if insmod {tmp_path}/built/linnos.ko; then exit 1; fi\n"
        "[ ! -e /dev/linnos ] && [ ! -e /sys/kernel/linnos ]",
        tmp_path,
        n_drives=1,
        drive_mb=64,
    ).dmesg
    assert "this kernel has LinnOS in its block layer" in log

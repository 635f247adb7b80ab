# SPDX-License-Identifier: MIT
"""linnos.ko observes an NVMe multipath drive by its paths, while a path is removed and returns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from debian import ALL, debian_kernel

from linnapp.lab.guest import REPOSITORY
from linnapp.trace.reads import load

pytestmark = pytest.mark.qemu

NETWORK = REPOSITORY / "models" / "example" / "flash0.linnos"

SCRIPT = """
. $TESTS/lib.sh
paths() {{ ls -d /sys/block/nvme*c*n1 2>/dev/null | wc -l; }}
two_paths() {{ [ $(paths) = 2 ]; }}
one_path() {{ [ $(paths) = 1 ]; }}
reads_of_paths() {{
    total=0
    for path in /sys/block/nvme*c*n1; do
        read reads rest <$path/stat
        total=$((total + reads))
    done
    echo $total
}}
busy() {{ read reads rest <$1/stat && [ $reads -gt $2 ]; }}
compare() {{
    counted=$(cat $files/stats/reads) served=$(reads_of_paths)
    fio --name=exact --filename=/dev/$head --allow_file_create=0 --rw=randread --direct=1 \\
        --ioengine=io_uring --iodepth=8 --bs=4k --size=64m --number_ios=500 --output=/dev/null
    echo $(($(cat $files/stats/reads) - counted)) $(($(reads_of_paths) - served)) >>$OUT/exact
}}

wait_for two_paths
head=$(cd /sys/block && ls -d nvme*n1 | grep -v c)
wait_for [ -b /dev/$head ]
for drive in /sys/class/nvme-subsystem/*; do echo round-robin >$drive/iopolicy; done
files=/sys/kernel/linnos/$head
insmod $BUILT/linnos.ko
echo $head >/sys/kernel/linnos/add
linnapp upload --model {model} --device /dev/$head --mode observe >/dev/null
compare
python3 $TESTS/asks.py --count 20 /dev/$head >$OUT/answers
fio --name=load --filename=/dev/$head --allow_file_create=0 --offset=64m --size=64m --rw=randrw \\
    --bsrange=4k-64k --direct=1 --ioengine=io_uring --iodepth=16 --verify=crc32c \\
    --verify_fatal=1 --verify_backlog=32 --verify_state_save=0 --time_based --runtime=900 \\
    --output=$OUT/fio &
load=$!
for path in /sys/block/nvme*c*n1; do wait_for busy $path 200; done
linnapp trace /dev/$head -o $OUT/recorded --duration 5 >/dev/null
cat /sys/kernel/debug/tracing/current_tracer >$OUT/tracer
for round in 1 2 3; do
    for path in /sys/block/nvme*c*n1; do wait_for busy $path 200; done
    set -- /sys/class/nvme/nvme*
    [ $((round % 2)) = 0 ] && one=$1 || one=$2
    echo 1 >$(readlink -f $one/device)/remove
    wait_for one_path
    echo 1 >/sys/bus/pci/rescan
    wait_for two_paths
    # The path's own counters started again at zero.
    for path in /sys/block/nvme*c*n1; do wait_for busy $path 200; done
done
rmmod linnos
insmod $BUILT/linnos.ko drives=$head
linnapp upload --model {model} --device /dev/$head --mode observe >/dev/null
sleep 1
kill -INT $load
wait $load || true
compare
cat /sys/kernel/debug/linnos/$head/in_flight /sys/kernel/debug/linnos/$head/missed >$OUT/in_flight
rmmod linnos
"""


@pytest.mark.parametrize("name", ALL)
def test_paths_of_an_observed_drive_are_removed_and_return(name: str, tmp_path: Path) -> None:
    kernel = debian_kernel(name)
    kernel.boot(SCRIPT.format(model=NETWORK), tmp_path, n_drives=1, n_paths=2)
    counts = [line.split() for line in (tmp_path / "exact").read_text().splitlines()]
    assert len(counts) == 2
    for counted, served in counts:
        assert int(counted) == int(served) >= 500, "each read is counted once, on either path"
    assert (tmp_path / "in_flight").read_text() == "0 pages, 0 reads\n0\n"
    (recording,) = (tmp_path / "recorded").glob("*.blk")
    recorded = load(recording)
    reads = recorded.is_served_read
    assert reads.sum() > 100 and recorded.stats["lost_events"] == 0
    assert recorded.stats["unmatched_completions"] < 20
    assert np.median(recorded.latency_ns[reads]) > 10_000
    assert (tmp_path / "tracer").read_text() == "nop\n"
    verdict = 4
    answers = json.loads((tmp_path / "answers").read_text())
    assert {drives[0][0] for _, drives in answers} == {verdict}
    assert "verify:" not in (tmp_path / "fio").read_text()

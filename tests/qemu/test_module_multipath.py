# SPDX-License-Identifier: MIT
"""linnos.ko observes an NVMe multipath drive by its paths, while a path is removed and returns."""

from __future__ import annotations

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
reads_of_paths() {{
    total=0
    for path in $paths; do
        read reads rest </sys/block/$path/stat
        total=$((total + reads))
    done
    echo $total
}}
compare() {{
    counted=$(cat $files/stats/reads) served=$(reads_of_paths)
    fio --name=exact --filename=/dev/$head --allow_file_create=0 --rw=randread --direct=1 \\
        --ioengine=io_uring --iodepth=8 --bs=4k --size=64m --number_ios=500 --output=/dev/null
    echo $(($(cat $files/stats/reads) - counted)) $(($(reads_of_paths) - served)) >>$OUT/exact
}}

find_head
files=/sys/kernel/linnos/$head
insmod $BUILT/linnos.ko
echo $head >/sys/kernel/linnos/add
linnapp upload --model {model} --device /dev/$head --mode observe >/dev/null
compare
python3 $TESTS/asks.py --count 20 /dev/$head >$OUT/answers
verify_load /dev/$head
all_busy
linnapp trace /dev/$head -o $OUT/recorded --duration 5 >/dev/null
cat /sys/kernel/debug/tracing/current_tracer >$OUT/tracer
replace_paths 3 true
rmmod linnos
insmod $BUILT/linnos.ko drives=$head
linnapp upload --model {model} --device /dev/$head --mode observe >/dev/null
sleep 1
end_load
compare
cat /sys/kernel/debug/linnos/$head/in_flight /sys/kernel/debug/linnos/$head/missed >$OUT/in_flight
rmmod linnos
"""


@pytest.mark.parametrize("name", ALL)
def test_paths_of_an_observed_drive_are_removed_and_return(name: str, tmp_path: Path) -> None:
    kernel = debian_kernel(name)
    result = kernel.boot(SCRIPT.format(model=NETWORK), tmp_path, n_drives=1, n_paths=2)
    counts = [line.split() for line in result.text("exact").splitlines()]
    assert len(counts) == 2
    for counted, served in counts:
        assert int(counted) == int(served) >= 500, "each read is counted once, on either path"
    assert result.text("in_flight") == "0 pages, 0 reads\n0\n"
    (recording,) = (tmp_path / "recorded").glob("*.blk")
    recorded = load(recording)
    reads = recorded.is_served_read
    assert reads.sum() > 100 and recorded.stats["lost_events"] == 0
    assert recorded.stats["unmatched_completions"] < 20
    assert np.median(recorded.latency_ns[reads]) > 10_000
    assert result.text("tracer") == "nop\n"
    verdict = 4
    assert {drives[0][0] for _, drives in result.json("answers")} == {verdict}

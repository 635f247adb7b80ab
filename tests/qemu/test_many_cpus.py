# SPDX-License-Identifier: MIT
"""One drive and several CPUs: after any load, the in-flight counts end at zero."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.qemu

ROUNDS = 2

# The drive is a null_blk that serves I/O at once, so that CPUs often run the same code at the same
# time. In each round except the last it is removed under load.
SCRIPT = """
. $TESTS/lib.sh
drive=/sys/kernel/config/nullb/many
linnos=/sys/block/many/linnos
begun() {{ [ $(cat $linnos/stats/reads) -gt 500 ]; }}
change() {{
    echo enforce >$linnos/mode && cat {model} >$linnos/model &&
        cat /sys/kernel/debug/block/many/rqos/linnos/* >/dev/null &&
        echo off >$linnos/mode && echo observe >$linnos/mode
}}

for round in $(seq {rounds}); do
    mkdir $drive
    echo {cpus} >$drive/submit_queues
    echo 2 >$drive/queue_mode
    echo 0 >$drive/irqmode
    echo 64 >$drive/size
    echo 1 >$drive/power
    wait_for [ -b /dev/many ]
    cat {model} >$linnos/model
    echo observe >$linnos/mode
    load /dev/many --workers {cpus} --seconds 600 --stop-file /run/stop$round >/dev/null &
    hinted=$!
    fio --name=f --filename=/dev/many --allow_file_create=0 --rw=randrw --rwmixread=80 \\
        --bsrange=4k-64k --direct=1 --ioengine=io_uring --iodepth=8 --numjobs={cpus} \\
        --time_based --runtime=600 >/dev/null 2>&1 &
    fio=$!
    wait_for begun
    for try in 1 2 3; do change; done
    if [ $round = {rounds} ]; then
        touch /run/stop$round
        kill -INT $fio
    else
        echo 0 >$drive/power
    fi
    wait $hinted || true
    wait $fio || true
    if [ $round = {rounds} ]; then
        cat /sys/kernel/debug/block/many/rqos/linnos/in_flight >$OUT/in_flight
    fi
    rmdir $drive
done
"""


KERNEL_ARGS = (
    "null_blk.nr_devices=0",
    # A hanging task ends the guest, and its stack is shown.
    "sysctl.kernel.hung_task_timeout_secs=60",
    "sysctl.kernel.hung_task_panic=1",
)


@pytest.mark.parametrize("cpus", [2, 4])
def test_in_flight_counts_end_at_zero(
    boot_qemu, tmp_path: Path, queue_model: Path, cpus: int
) -> None:
    boot_qemu(
        SCRIPT.format(model=queue_model, rounds=ROUNDS, cpus=cpus),
        n_cpus=cpus,
        n_drives=1,
        kernel_args=KERNEL_ARGS,
        timeout_s=1800,
    )
    assert (tmp_path / "in_flight").read_text() == "0 pages, 0 reads\n"

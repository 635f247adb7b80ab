# SPDX-License-Identifier: MIT
"""The policy on several CPUs: its model decides which hinted reads of a drive are revoked, admitted
data is right, and after any load the in-flight counts end at zero."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from guest_runs import GuestResult
from kernel_log import PANIC_WHEN_HUNG

pytestmark = pytest.mark.qemu

#: Reads that must have been refused, and admitted, under a mixed load. A machine without KVM, or a
#: slow debug kernel, has few reads in flight at a time, and refuses few.
ENOUGH = 10


def loads_of(result: GuestResult) -> list[dict[str, int]]:
    """Return the outputs of hinted_load.py; the data was right."""
    loads = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    for load in loads:
        assert load["wrong_data"] == load["touched"] == load["errors"] == load["gone"] == 0
    return loads


def stats_of(folder: Path) -> dict[str, int]:
    return {file.name: int(file.read_text()) for file in folder.iterdir()}


def test_suites_pass_on_x86(boot_qemu) -> None:
    arguments = ("kunit.enable=1", "kunit.filter_glob=linnos*")
    dmesg = boot_qemu("true", n_drives=1, kernel_args=arguments).dmesg
    suites = re.findall(r"# (linnos[\w-]*): pass:(\d+) fail:(\d+) skip:\d+", dmesg)
    assert suites, "no suite ran:\n" + dmesg[-2000:]
    assert all(int(passed) > 0 == int(failed) for _, passed, failed in suites), suites


def test_reads_are_decided_by_the_drives_own_model(
    boot_qemu, tmp_path: Path, queue_model: Path
) -> None:
    # One reader at a time, so a read sees its own pages only: 4 KiB is fast
    # for the model (1 page pending), 64 KiB slow (16 pages). The second drive
    # has no model, the third one does not enforce.
    result = boot_qemu(
        f"""
        . $TESTS/lib.sh
        linnapp upload --model {queue_model} --device /dev/nvme0n1 --mode enforce
        linnapp upload --model {queue_model} --device /dev/nvme2n1 --mode observe
        no_probes /sys/block/nvme0n1/linnos
        for k in 0 1 2; do
            load /dev/nvme${{k}}n1 --fill --count 300
            load /dev/nvme${{k}}n1 --count 300 --pages 16
            load /dev/nvme${{k}}n1 --count 300 --pages 16 --plain
            cp -r /sys/block/nvme${{k}}n1/linnos/stats $OUT/stats$k
            cat /sys/block/nvme${{k}}n1/linnos/model_id >>$OUT/ids
        done
        cmp {queue_model} /sys/block/nvme0n1/linnos/model
        """
    )
    small, big, plain, *others = loads_of(result)
    assert small["admitted"] == big["revoked"] == plain["admitted"] == 300
    assert [load["admitted"] for load in others] == [300] * 6

    enforcing, none, observing = (stats_of(tmp_path / f"stats{k}") for k in range(3))
    assert enforcing["revoked"] == 300
    assert enforcing["probes"] == 0
    assert enforcing["latency_critical"] == enforcing["inferences"] == 600
    assert none["revoked"] == none["inferences"] == 0
    assert observing["revoked"] == 0 and observing["inferences"] == 600
    ids = result.words("ids")
    assert ids[0] == ids[2] != ids[1] == "none"


@pytest.mark.parametrize("parts", [1, 3])
def test_two_cpus_share_one_drive(boot_qemu, tmp_path: Path, queue_model: Path, parts: int) -> None:
    """If the drive's limit splits every read into three, the parts may end on any CPU."""
    result = boot_qemu(
        f"""
        . $TESTS/lib.sh
        nproc >$OUT/nproc
        cat /sys/block/nvme0n1/mq/*/cpu_list >$OUT/queues
        d=/sys/block/nvme0n1/linnos
        [ {parts} = 1 ] || echo 4 >/sys/block/nvme0n1/queue/max_sectors_kb
        enforce nvme0n1 {queue_model}
        load /dev/nvme0n1 --fill --count 1
        requests() {{ awk '{{ print $1 }}' /sys/block/nvme0n1/stat; }}
        requests >$OUT/requests
        cp -r $d/stats $OUT/before
        # 8 readers of 3 pages each, on both CPUs: more than 12 pages pending, often.
        load /dev/nvme0n1 --workers 8 --pages 3 --seconds $((8 * PATIENCE)) &
        load=$!
        # Meanwhile mode and model change.
        for round in $(seq $((7 * PATIENCE))); do
            for mode in observe off enforce; do
                echo $mode >$d/mode
                cat {queue_model} >$d/model
                sleep 0.1
            done
        done
        wait $load
        requests >>$OUT/requests
        cp -r $d/stats $OUT/after
        # Nothing is pending any more: 12 pages alone are fast, 13 slow.
        no_probes /sys/block/nvme0n1/linnos
        load /dev/nvme0n1 --count 100 --pages 12
        load /dev/nvme0n1 --count 100 --pages 13
        """
    )
    assert result.text("nproc") == "2\n"
    assert sorted(result.words("queues")) == ["0", "1"], "one hardware queue for each CPU"

    _, load, twelve, thirteen = loads_of(result)
    assert min(load["revoked"], load["admitted"]) > ENOUGH
    assert twelve["admitted"] == 100 and thirteen["revoked"] == 100
    # A refused read has no request.
    before, after = result.numbers("requests")
    assert parts == 1 or after - before == parts * load["admitted"]

    earlier, later = stats_of(tmp_path / "before"), stats_of(tmp_path / "after")
    delta = {name: later[name] - earlier[name] for name in later}
    # The counters of both CPUs together have all reads of the readers.
    assert delta["revoked"] == load["revoked"]
    assert delta["latency_critical"] == delta["admitted"] + delta["revoked"]
    assert delta["latency_critical"] <= load["revoked"] + load["admitted"]


ROUNDS = 2

# The drive is a null_blk that serves I/O at once, so that CPUs often run the same code at the same
# time. In each round except the last it is removed under load.
MANY_CPUS = """
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


@pytest.mark.parametrize("cpus", [2, 4])
def test_in_flight_counts_end_at_zero(boot_qemu, queue_model: Path, cpus: int) -> None:
    result = boot_qemu(
        MANY_CPUS.format(model=queue_model, rounds=ROUNDS, cpus=cpus),
        n_cpus=cpus,
        n_drives=1,
        kernel_args=("null_blk.nr_devices=0", *PANIC_WHEN_HUNG),
    )
    assert result.text("in_flight") == "0 pages, 0 reads\n"

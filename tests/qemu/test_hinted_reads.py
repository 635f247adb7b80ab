# SPDX-License-Identifier: MIT
"""The model decides which hinted reads of an NVMe drive are revoked; admitted data is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.qemu

#: Reads that must have been refused, and admitted, under a mixed load. A machine without KVM, or a
#: slow debug kernel, has few reads in flight at a time, and refuses few.
ENOUGH = 10


def _loads(text: str) -> list[dict[str, int]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _stats(folder: Path) -> dict[str, int]:
    return {file.name: int(file.read_text()) for file in folder.iterdir()}


def _assert_data_right(load: dict[str, int]) -> None:
    assert load["wrong_data"] == load["touched"] == load["errors"] == load["gone"] == 0


def test_reads_are_decided_by_the_drives_own_model(
    boot_qemu, tmp_path: Path, queue_model: Path
) -> None:
    # One reader at a time, so a read sees its own pages only: 4 KiB is fast
    # for the model (1 page pending), 64 KiB slow (16 pages). The second drive
    # has no model, the third one does not enforce.
    ran = boot_qemu(
        f"""
        linnapp upload --model {queue_model} --device /dev/nvme0n1 --mode enforce
        linnapp upload --model {queue_model} --device /dev/nvme2n1 --mode observe
        # Probes would let some of the slow ones through.
        echo 0 >/sys/block/nvme0n1/linnos/probe_after_us
        echo 0 >/sys/block/nvme0n1/linnos/probe_after_revokes
        load() {{ python3 $TESTS/hinted_load.py "$@"; }}
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
    loads = _loads(ran.stdout)
    assert len(loads) == 9
    for load in loads:
        _assert_data_right(load)
    small, big, plain = loads[:3]
    assert small["admitted"] == big["revoked"] == plain["admitted"] == 300
    for load in loads[3:]:
        assert load["admitted"] == 300

    enforcing, none, observing = (_stats(tmp_path / f"stats{k}") for k in range(3))
    assert enforcing["revoked"] == 300
    assert enforcing["probes"] == 0
    assert enforcing["latency_critical"] == enforcing["inferences"] == 600
    assert none["revoked"] == none["inferences"] == 0
    assert observing["revoked"] == 0 and observing["inferences"] == 600
    ids = (tmp_path / "ids").read_text().split()
    assert ids[0] == ids[2] != ids[1] == "none"


def test_two_cpus_share_one_drive(boot_qemu, tmp_path: Path, queue_model: Path) -> None:
    ran = boot_qemu(
        f"""
        nproc >$OUT/nproc
        cat /sys/block/nvme0n1/mq/*/cpu_list >$OUT/queues
        d=/sys/block/nvme0n1/linnos
        linnapp upload --model {queue_model} --device /dev/nvme0n1 --mode enforce
        python3 $TESTS/hinted_load.py /dev/nvme0n1 --fill --count 1
        cp -r $d/stats $OUT/before
        # 8 readers of 3 pages each, on both CPUs: more than 12 pages pending, often.
        python3 $TESTS/hinted_load.py /dev/nvme0n1 --workers 8 --pages 3 \\
            --seconds $((8 * PATIENCE)) &
        load=$!
        # Meanwhile mode and model change.
        for round in $(seq $((10 * PATIENCE))); do
            for mode in observe off enforce; do
                echo $mode >$d/mode
                cat {queue_model} >$d/model
                sleep 0.1
            done
        done
        wait $load
        cp -r $d/stats $OUT/after
        # Nothing is pending any more: 12 pages alone are fast, 13 slow.
        echo 0 >$d/probe_after_us
        echo 0 >$d/probe_after_revokes
        python3 $TESTS/hinted_load.py /dev/nvme0n1 --count 100 --pages 12
        python3 $TESTS/hinted_load.py /dev/nvme0n1 --count 100 --pages 13
        """
    )
    assert (tmp_path / "nproc").read_text() == "2\n"
    queues = (tmp_path / "queues").read_text().split()
    assert sorted(queues) == ["0", "1"], "one hardware queue for each CPU"

    warm_up, load, twelve, thirteen = _loads(ran.stdout)
    for counts in (warm_up, load, twelve, thirteen):
        _assert_data_right(counts)
    assert min(load["revoked"], load["admitted"]) > ENOUGH
    assert twelve["admitted"] == 100 and thirteen["revoked"] == 100

    before, after = _stats(tmp_path / "before"), _stats(tmp_path / "after")
    delta = {name: after[name] - before[name] for name in after}
    # The counters of both CPUs together have all reads of the readers.
    assert delta["revoked"] == load["revoked"]
    assert delta["latency_critical"] == delta["admitted"] + delta["revoked"]
    assert delta["latency_critical"] <= load["revoked"] + load["admitted"]


def test_split_reads_of_two_cpus_are_decided_whole(
    boot_qemu, tmp_path: Path, queue_model: Path
) -> None:
    """The drive's limit splits every read into three; the parts may end on any CPU."""
    ran = boot_qemu(
        f"""
        d=/sys/block/nvme0n1/linnos
        echo 4 >/sys/block/nvme0n1/queue/max_sectors_kb
        linnapp upload --model {queue_model} --device /dev/nvme0n1 --mode enforce
        python3 $TESTS/hinted_load.py /dev/nvme0n1 --fill --count 1
        cp -r $d/stats $OUT/before
        parts=$(awk '{{print $1}}' /sys/block/nvme0n1/stat)
        python3 $TESTS/hinted_load.py /dev/nvme0n1 --workers 8 --pages 3 \\
            --seconds $((6 * PATIENCE)) &
        load=$!
        for round in $(seq $((5 * PATIENCE))); do
            for mode in observe off enforce; do
                echo $mode >$d/mode
                sleep 0.1
            done
        done
        wait $load
        echo $(($(awk '{{print $1}}' /sys/block/nvme0n1/stat) - parts)) >$OUT/parts
        cp -r $d/stats $OUT/after
        # No page of parts or of refused reads stays pending.
        echo 0 >$d/probe_after_us
        echo 0 >$d/probe_after_revokes
        python3 $TESTS/hinted_load.py /dev/nvme0n1 --count 100 --pages 12
        python3 $TESTS/hinted_load.py /dev/nvme0n1 --count 100 --pages 13
        """
    )
    _, load, twelve, thirteen = _loads(ran.stdout)
    for counts in (load, twelve, thirteen):
        _assert_data_right(counts)
    assert min(load["revoked"], load["admitted"]) > ENOUGH
    assert twelve["admitted"] == 100 and thirteen["revoked"] == 100
    # Three requests per admitted read, none for a refused one.
    assert int((tmp_path / "parts").read_text()) == 3 * load["admitted"]
    before, after = _stats(tmp_path / "before"), _stats(tmp_path / "after")
    assert after["revoked"] - before["revoked"] == load["revoked"]

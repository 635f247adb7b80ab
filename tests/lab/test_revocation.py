# SPDX-License-Identifier: MIT
"""Revoked reads never reach a drive, nothing else is revoked, and the data is always right."""

from __future__ import annotations

from pathlib import Path

import pytest
from replays import replay

from linnapp.trace import replay_log

pytestmark = pytest.mark.lab

GENERATED = ",".join(f"/run/tmp/w/flash{k}.iolog" for k in range(3))

RUN = """
linnapp generate demo -o /run/tmp/w --drives 3 --duration 4 --seed 11
count() # NAME: sum up the counters of all drives
{{
    for d in flash0 flash1 flash2; do
        cat /sys/kernel/debug/flashsim/$d/counters
        for s in /sys/block/$d/linnos/stats/*; do echo linnos_$(basename $s) $(cat $s); done
        # the sum of the reads in all buckets
        echo timed $(($(tr ' ' + </sys/block/$d/linnos/latency_us_histogram)))
    done | awk '{{ n[$1] += $2 }} END {{ for (name in n) print name, n[name] }}' >$OUT/$1
}}
for d in flash0 flash1 flash2; do
    linnapp upload --model {model} --device /dev/$d --mode enforce
done
count before
"""


@pytest.mark.parametrize("options", ["", "--replicate-writes"])
def test_revoked_reads_never_reach_the_drive(
    boot, tmp_path: Path, queue_model: Path, options: str
) -> None:
    # The contents of the drives are not inspected, which would be counted.
    result = replay(
        boot, tmp_path, GENERATED,
        f"--policy linnos --prefill none --fit {options} --force $LINNOS_DRIVES",
        before=RUN.format(model=queue_model), after="count after",
    )  # fmt: skip
    run, log = result.summary, result.log
    before, after = (
        dict(line.split() for line in result.guest.text(name).splitlines())
        for name in ("before", "after")
    )
    delta = {name: int(after[name]) - int(before.get(name, 0)) for name in after}

    assert run["data_errors"] == 0 and run["io_errors"] == 0
    assert delta["linnos_revoked"] == run["revocations"] > 100
    # Every user read reached a drive exactly once, whatever was revoked on
    # the way; every write reached the drives it was for. In sectors, because
    # the block layer merges neighbours that are submitted together.
    sectors = {
        op: int(log["size_bytes"][log["op"] == op].sum()) // 512
        for op in (replay_log.READ, replay_log.WRITE)
    }
    copies = 3 if options else 1
    assert delta["read_sectors"] == sectors[replay_log.READ] > 40_000
    assert delta["write_sectors"] == sectors[replay_log.WRITE] * copies
    assert delta["linnos_latency_critical"] == delta["linnos_admitted"] + delta["linnos_revoked"]
    # Each request of a read has been timed; those that were refused never had one.
    assert delta["timed"] == delta["linnos_reads"] - delta["linnos_revoked"] > 0


def test_unhinted_reads_and_writes_are_never_revoked(boot, queue_model: Path) -> None:
    result = boot(
        f"""
linnapp upload --model {queue_model} --device /dev/flash0 --mode enforce
fio --name=mix --filename=/dev/flash0 --rw=randrw --bs=4k --iodepth=64 --ioengine=io_uring \
    --direct=1 --size=64m --clocksource=clock_gettime --output-format=json --output=$OUT/fio.json
cat /sys/block/flash0/linnos/stats/revoked /sys/block/flash0/linnos/stats/latency_critical \
    >$OUT/counts
"""
    )
    (job,) = result.json("fio.json")["jobs"]
    assert job["error"] == 0 and job["read"]["total_ios"] > 1000
    assert result.numbers("counts") == [0, 0]

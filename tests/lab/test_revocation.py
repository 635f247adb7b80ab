# SPDX-License-Identifier: MIT
"""Revoked reads never reach a drive, nothing else is revoked, and the data is always right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from linnapp.trace import replay_log

pytestmark = pytest.mark.lab

RUN = """
linnapp generate demo -o /run/tmp/w --drives 3 --duration 4 --seed 11
for d in flash0 flash1 flash2; do
    linnapp upload --model {model} --device /dev/$d --mode enforce
done
count() {{
    for d in flash0 flash1 flash2; do
        awk -v d=$d '{{ print d, $1, $2 }}' /sys/kernel/debug/flashsim/$d/counters
        for s in /sys/block/$d/linnos/stats/*; do echo $d linnos_$(basename $s) $(cat $s); done
        # the sum of the reads in all buckets
        echo $d timed $(($(tr ' ' + </sys/block/$d/linnos/latency_us_histogram)))
    done >$1
}}
count $OUT/before
replayer --devices $LINNOS_DRIVES \
    --trace /run/tmp/w/flash0.iolog,/run/tmp/w/flash1.iolog,/run/tmp/w/flash2.iolog \
    --policy linnos --prefill none --fit --json $OUT/run.json --log $OUT/run.log {options} \
    --force $LINNOS_DRIVES  # do not inspect their contents, which would be counted
count $OUT/after
"""


def _counters(path: Path) -> dict[str, int]:
    total: dict[str, int] = {}
    for line in path.read_text().splitlines():
        _, name, value = line.split()
        total[name] = total.get(name, 0) + int(value)
    return total


@pytest.mark.parametrize("options", ["", "--replicate-writes"])
def test_revoked_reads_never_reach_the_drive(
    boot, tmp_path: Path, queue_model: Path, options: str
) -> None:
    boot(RUN.format(model=queue_model, options=options))
    run = json.loads((tmp_path / "run.json").read_text())
    before, after = _counters(tmp_path / "before"), _counters(tmp_path / "after")
    delta = {name: after[name] - before.get(name, 0) for name in after}

    assert run["data_errors"] == 0 and run["io_errors"] == 0
    assert delta["linnos_revoked"] == run["revocations"] > 100
    # Every user read reached a drive exactly once, whatever was revoked on
    # the way; every write reached the drives it was for. In sectors, because
    # the block layer merges neighbours that are submitted together.
    log = replay_log.read(tmp_path / "run.log")
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


def test_unhinted_reads_and_writes_are_never_revoked(
    boot, tmp_path: Path, queue_model: Path
) -> None:
    boot(
        f"""
linnapp upload --model {queue_model} --device /dev/flash0 --mode enforce
fio --name=mix --filename=/dev/flash0 --rw=randrw --bs=4k --iodepth=64 --ioengine=io_uring \
    --direct=1 --size=64m --clocksource=clock_gettime --output-format=json --output=$OUT/fio.json
cat /sys/block/flash0/linnos/stats/revoked >$OUT/revoked
cat /sys/block/flash0/linnos/stats/latency_critical >$OUT/hinted
"""
    )
    job = json.loads((tmp_path / "fio.json").read_text())["jobs"][0]
    assert job["error"] == 0 and job["read"]["total_ios"] > 1000
    assert (tmp_path / "revoked").read_text() == "0\n"
    assert (tmp_path / "hinted").read_text() == "0\n"

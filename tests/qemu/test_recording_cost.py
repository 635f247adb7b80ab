# SPDX-License-Identifier: MIT
"""What `linnapp layers -- CMD` says that recording takes, of an NVMe drive; what it leaves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.qemu

FIO = (
    "fio --name=x --filename=/dev/nvme1n1 --allow_file_create=0 --rw=randread --bs=4k --direct=1"
    " --number_ios=300 --size=32m --output=/dev/null"
)
SCRIPT = f"""
sum() {{ sha256sum /dev/nvme1n1; }}
sum >$OUT/before
linnapp layers --json -- {FIO} >$OUT/all.json
linnapp layers --device /dev/nvme1n1 -- {FIO} >$OUT/one.txt
# Of none of the drives anything is left on.
ls -d /sys/kernel/debug/block/nvme*/dropped >$OUT/left 2>/dev/null || :
sum >$OUT/after
# Whoever else traces is left alone.
blktrace -D $OUT/theirs -d /dev/nvme1n1 >$OUT/blktrace 2>&1 &
tracer=$!
until [ -e /sys/kernel/debug/block/nvme1n1/dropped ]; do sleep 0.1; done
sleep 1
python3 -c 'from linnapp.trace.recording_cost import measure
measure("/dev/nvme1n1")' 2>$OUT/busy || :
dd if=/dev/nvme1n1 of=/dev/null bs=4k count=7 skip=100 iflag=direct
kill -INT $tracer
wait $tracer
"""


def test_what_recording_takes_is_measured_on_the_drive_that_served(
    boot_qemu, tmp_path: Path
) -> None:
    # Else a slow machine's guest may have no clock finer than 4 ms.
    boot_qemu(SCRIPT, n_cpus=1, n_drives=2, drive_mb=64, counts_instructions=True)
    said = json.loads((tmp_path / "all.json").read_text())
    cost = said["recording_cost"]
    print(cost)
    (found,) = said["recordings"]
    # Its own reads come afterwards and are not in the recording.
    assert found["name"] == cost["drive"] == "nvme1n1" and found["ios"] == 300
    assert cost["low_us"] <= cost["us"] <= cost["high_us"]
    # How much it is, and how wide the interval, depends on what else the host does: up to more than
    # a read takes, not to many times that. What is said of it does not.
    assert cost["read_us"] > 0 and cost["us"] < 10 * cost["read_us"]
    assert cost["beyond_noise"] != (cost["low_us"] <= 0 <= cost["high_us"])
    line = (tmp_path / "one.txt").read_text().splitlines()[-1]
    print(line)
    told = re.match(
        r"(?:recording takes|what recording takes is (below noise):) [\d.]+ us an I/O"
        r" \[(-?[\d.]+), (-?[\d.]+)\].*nvme1n1's first 4 KiB",
        line,
    )
    assert told, line
    # As of the other recording: on a busy host it is below noise, and then that is said.
    below_noise, low_us, high_us = told.groups()
    assert bool(below_noise) == (float(low_us) <= 0 <= float(high_us))
    assert (tmp_path / "left").read_text() == ""
    assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text()
    assert "somebody else traces it" in (tmp_path / "busy").read_text()
    assert (tmp_path / "theirs" / "nvme1n1.blktrace.0").stat().st_size > 0

# SPDX-License-Identifier: MIT
"""A drive that is removed under load breaks nothing else, and works again when it returns."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_log import PANIC_WHEN_HUNG

pytestmark = pytest.mark.qemu

ROUNDS = 4

# Hinted reads, plain reads, fio's writes and a loop that uses the sysfs files
# keep the drive busy; it is removed when each of the readers has begun and
# reads have been revoked.
SCRIPT = """
. $TESTS/lib.sh
revoked() {{ [ $(cat /sys/block/nvme1n1/linnos/stats/revoked) -gt 20 ]; }}
written() {{ read reads rm rs rt writes rest </sys/block/nvme1n1/stat && [ $writes -gt 100 ]; }}
change() {{
    cat {model} >$1/model && cat $1/stats/* $1/latency_us_histogram >/dev/null &&
        echo observe >$1/mode && echo off >$1/mode && echo enforce >$1/mode
}}

enforce nvme0n1 {model}
load /dev/nvme0n1 --fill --count 1 >/dev/null
load /dev/nvme0n1 --workers 2 --seconds 600 --stop-file /run/stop >$OUT/stays &
stays=$!
for round in $(seq {rounds}); do
    enforce nvme1n1 {model}
    load /dev/nvme1n1 --fill --count 1 >/dev/null
    fio --name=w --filename=/dev/nvme1n1 --allow_file_create=0 --offset=64m --size=64m \\
        --rw=randrw --direct=1 --ioengine=io_uring --iodepth=16 --time_based --runtime=600 \\
        >/dev/null 2>&1 &
    fio=$!
    wait_for written
    load /dev/nvme1n1 --workers 6 --pages 3 --seconds 600 --started-file /run/h$round \\
        >$OUT/hinted$round &
    hinted=$!
    load /dev/nvme1n1 --workers 2 --plain --seconds 600 --started-file /run/p$round \\
        >$OUT/plain$round &
    plain=$!
    while change /sys/block/nvme1n1/linnos; do sleep 0.02; done 2>/dev/null &
    files=$!
    wait_for revoked
    wait_for [ -e /run/h$round ]
    wait_for [ -e /run/p$round ]
    remove_device /sys/block/nvme1n1/device/device
    wait $hinted
    wait $plain
    wait $files || true
    # fio rightly reports an error, because the drive was removed.
    wait $fio || true
    [ ! -e /sys/block/nvme1n1 ]
    find_devices
    wait_for [ -e /sys/block/nvme1n1/linnos/mode ]
    wait_for [ -b /dev/nvme1n1 ]
done
kill -0 $stays
touch /run/stop
wait $stays
"""


def test_drive_vanishes_and_returns_under_load(boot_qemu, queue_model: Path) -> None:
    script = SCRIPT.format(model=queue_model, rounds=ROUNDS)
    result = boot_qemu(script, kernel_args=PANIC_WHEN_HUNG)
    for number in range(1, ROUNDS + 1):
        hinted, plain = result.json(f"hinted{number}"), result.json(f"plain{number}")
        for counts, workers in ((hinted, 6), (plain, 2)):
            assert counts["gone"] == workers, "every reader got an error for the removed drive"
            assert counts["wrong_data"] == counts["touched"] == counts["errors"] == 0
        assert hinted["admitted"] > 0 and hinted["revoked"] > 0
        assert plain["admitted"] > 0 and plain["revoked"] == 0
    stays = result.json("stays")
    assert stays["admitted"] > 0
    assert stays["wrong_data"] == stays["touched"] == stays["errors"] == stays["gone"] == 0

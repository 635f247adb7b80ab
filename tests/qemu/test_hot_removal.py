# SPDX-License-Identifier: MIT
"""A drive that vanishes under load takes nothing with it, and works again when it is back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.qemu

ROUNDS = 5


def test_drive_vanishes_and_returns_under_load(
    boot_qemu, tmp_path: Path, queue_model: Path
) -> None:
    ran = boot_qemu(
        f"""
        dmesg -n 1
        upload() {{ linnapp upload --model {queue_model} --device $1 --mode enforce; }}
        load() {{ python3 $TESTS/hinted_load.py "$@"; }}
        upload /dev/nvme0n1
        load /dev/nvme0n1 --fill --count 1 >/dev/null
        load /dev/nvme0n1 --workers 2 --seconds 300 --stop-file /run/stop >$OUT/stays &
        stays=$!
        for round in $(seq {ROUNDS}); do
            upload /dev/nvme1n1
            load /dev/nvme1n1 --fill --count 1 >/dev/null
            controller=$(readlink -f /sys/block/nvme1n1/device/device)
            load /dev/nvme1n1 --workers 6 --pages 3 --seconds 60 >$OUT/hinted$round &
            hinted=$!
            load /dev/nvme1n1 --workers 2 --plain --seconds 60 >$OUT/plain$round &
            plain=$!
            fio --name=w --filename=/dev/nvme1n1 --offset=64m --size=64m --rw=randrw --direct=1 \\
                --ioengine=io_uring --iodepth=16 --time_based --runtime=60 >/dev/null 2>&1 &
            fio=$!
            # The sysfs files are read and written while they vanish, too.
            d=/sys/block/nvme1n1/linnos
            while cat {queue_model} >$d/model && cat $d/stats/* && echo observe >$d/mode &&
                echo off >$d/mode && echo enforce >$d/mode; do sleep 0.05; done >/dev/null 2>&1 &
            files=$!
            sleep 2
            echo 1 >$controller/remove
            wait $hinted $plain $files
            # fio calls a drive that is gone an error, rightly.
            wait $fio || true
            [ ! -e /sys/block/nvme1n1 ]
            echo 1 >/sys/bus/pci/rescan
            for try in $(seq 100); do [ -b /dev/nvme1n1 ] && break; sleep 0.1; done
        done
        kill -0 $stays
        touch /run/stop
        wait $stays
        """,
        timeout_s=400,
    )
    for round_ in range(1, ROUNDS + 1):
        hinted = json.loads((tmp_path / f"hinted{round_}").read_text())
        plain = json.loads((tmp_path / f"plain{round_}").read_text())
        for counts, workers in ((hinted, 6), (plain, 2)):
            assert counts["gone"] == workers, "every reader was told that the drive is gone"
            assert counts["wrong_data"] == counts["touched"] == counts["errors"] == 0
        assert hinted["admitted"] > 0 and hinted["revoked"] > 0
        assert plain["admitted"] > 0 and plain["revoked"] == 0
    stays = json.loads((tmp_path / "stays").read_text())
    assert stays["admitted"] > 0
    assert stays["wrong_data"] == stays["touched"] == stays["errors"] == stays["gone"] == 0
    assert "nvme1" in ran.dmesg

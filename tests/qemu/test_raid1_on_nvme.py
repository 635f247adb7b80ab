# SPDX-License-Identifier: MIT
"""md raid1 over NVMe drives, on two CPUs: whom it reads from, and all of it changing under load."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from linnapp.model import Model

pytestmark = pytest.mark.qemu

SCRIPT = """
. $TESTS/lib.sh
load() {{ python3 $TESTS/hinted_load.py /dev/md0 --plain "$@"; }}
stat() {{ cat /sys/block/nvme$1n1/linnos/stats/$2; }}
use() {{
    cat {models}/$2.linnos >/sys/block/nvme$1n1/linnos/model
    echo observe >/sys/block/nvme$1n1/linnos/mode
}}
whole() {{ [ "$(cat $md/degraded)" = 0 ]; }}
reads() {{ for k in 0 1 2; do stat $k reads; done | tr '\\n' ' '; stat 0 probes; }}
change() {{
    for value in off on; do
        echo $value >$md/linnos
        for k in 0 1 2; do
            cat {models}/fast.linnos >/sys/block/nvme${{k}}n1/linnos/model
            echo off >/sys/block/nvme${{k}}n1/linnos/mode
            use $k slow
        done
    done
}}

mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --bitmap=internal --level=1 \\
    --raid-devices=3 /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 2>/dev/null
md=/sys/block/md0/md
load --fill --count 1 >/dev/null
use 0 slow
use 1 fast
use 2 fast
echo on >$md/linnos
reads >$OUT/before
load --workers 4 --count 500 >$OUT/steered
reads >$OUT/after

load --workers 4 --seconds 600 --stop-file /run/stop >$OUT/changing &
load=$!
while [ ! -e /run/stop ]; do change; done &
changes=$!
for k in 1 0; do
    mdadm --fail /dev/md0 /dev/nvme${{k}}n1
    wait_for mdadm --remove /dev/md0 /dev/nvme${{k}}n1
    sleep 1
    mdadm --add /dev/md0 /dev/nvme${{k}}n1
    wait_for whole
done 2>/dev/null
touch /run/stop
wait $load
wait $changes
mdadm --stop /dev/md0 2>/dev/null
"""


def constant_model(path: Path, output_bias: tuple[int, int]) -> None:
    Model(
        hidden_weights=np.zeros((31, 256), np.int32),
        hidden_bias=np.zeros(256, np.int32),
        output_weights=np.zeros((256, 2), np.int32),
        output_bias=np.array(output_bias, np.int64),
        threshold_us=150,
    ).save(path)


def test_raid1_of_nvme_drives(boot_qemu, tmp_path: Path) -> None:
    constant_model(tmp_path / "slow.linnos", (0, 1))
    constant_model(tmp_path / "fast.linnos", (1, 0))
    boot_qemu(SCRIPT.format(models=tmp_path), timeout_s=600)

    for name in ("steered", "changing"):
        counts = json.loads((tmp_path / name).read_text())
        assert counts["wrong_data"] == counts["errors"] == counts["gone"] == 0, name
        assert counts["admitted"] > 0 and counts["revoked"] == 0

    before, after = (
        [int(count) for count in (tmp_path / name).read_text().split()]
        for name in ("before", "after")
    )
    slow, *fast, probes = (now - then for now, then in zip(after, before, strict=True))
    assert slow <= probes, "the slow drive was read from, but for a look now and then"
    assert sum(fast) + slow >= 500

# SPDX-License-Identifier: MIT
"""`linnapp check` on an md array of two NVMe drives that are equally fast."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.qemu

SCRIPT = """
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=2 \\
    /dev/nvme0n1 /dev/nvme1n1 2>/dev/null
status=0
linnapp check /dev/md0 --for 2 --json >$OUT/idle || status=$?
[ $status = 3 ]
fio --name=load --filename=/dev/md0 --rw=randread --bs=4k --direct=1 --iodepth=4 --rate_iops=400 \\
    --rate_process=poisson --ioengine=io_uring --time_based --runtime=1000 --output=/dev/null &
load=$!
linnapp check /dev/md0 --for 20 --json -o $OUT/check.png >$OUT/equal || [ $? = 3 ]
kill $load
wait $load || true
for drive in nvme0n1 nvme1n1; do
    echo $drive $(cat /sys/block/$drive/trace/enable /sys/block/$drive/linnos/mode) >>$OUT/after
done
mdadm --stop /dev/md0 2>/dev/null
"""


def test_check_does_not_recommend_choosing_between_equal_drives(boot_qemu) -> None:
    result = boot_qemu(SCRIPT, n_drives=2)

    idle, equal = result.json("idle"), result.json("equal")
    assert idle["verdict"] == "unknown", idle["reason"]
    assert equal["verdict"] != "yes", equal["reason"]
    reads = [replica["reads"] for replica in equal["replicas"]]
    assert len(reads) == 2 and sum(reads) > 2000
    assert (result.out / "check.png").stat().st_size > 1000
    assert result.text("after") == "nvme0n1 0 off\nnvme1n1 0 off\n"

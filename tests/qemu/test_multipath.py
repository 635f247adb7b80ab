# SPDX-License-Identifier: MIT
"""A drive with two paths: its head accepts no hint; removing a path leaks no in-flight count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.qemu

ROUNDS = 3

# Reads and checked writes of the head, which the paths' disks cut into parts, while one path after
# the other is removed and returns: I/O on a removed path is sent on the other path, and the parts
# of split I/O may use two paths.
SCRIPT = """
. $TESTS/lib.sh
two_paths() {{
    set -- /sys/block/nvme*c*n1
    [ $# = 2 ] && [ -e $1/linnos/mode ] && [ -e $2/linnos/mode ]
}}
busy() {{ read reads rest <$1/stat && [ $reads -gt $2 ]; }}
enforce() {{
    for disk in /sys/block/nvme*c*n1; do
        cat {model} >$disk/linnos/model
        echo enforce >$disk/linnos/mode
        echo 8 >$disk/queue/max_sectors_kb
    done
}}

wait_for two_paths
head=$(cd /sys/block && ls -d nvme*n1 | grep -v c)
wait_for [ -b /dev/$head ]
for drive in /sys/class/nvme-subsystem/*; do
    echo round-robin >$drive/iopolicy
done
ls -d /sys/block/$head/linnos >$OUT/head 2>/dev/null || true
python3 - /dev/$head >$OUT/hinted <<'END'
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
try:
    os.preadv(fd, [mmap.mmap(-1, 4096)], 0, 0x8000)
except OSError as error:
    print(error.errno)
END
python3 $TESTS/hinted_load.py /dev/$head --fill --count 1 >/dev/null
python3 $TESTS/hinted_load.py /dev/$head --workers 6 --pages 16 --plain --seconds 600 \\
    --stop-file /run/stop >$OUT/reads &
readers=$!
fio --name=w --filename=/dev/$head --allow_file_create=0 --offset=64m --size=32m --rw=randrw \\
    --bsrange=4k-64k --direct=1 --ioengine=io_uring --iodepth=16 --verify=crc32c \\
    --verify_fatal=1 --verify_backlog=32 --verify_state_save=0 --time_based --runtime=600 \\
    --output=$OUT/fio &
fio=$!
for round in $(seq {rounds}); do
    enforce
    for disk in /sys/block/nvme*c*n1; do
        wait_for busy $disk 200
    done
    set -- /sys/class/nvme/nvme*
    [ $((round % 2)) = 0 ] && one=$1 || one=$2
    echo 1 >$(readlink -f $one/device)/remove
    wait_for [ ! -e $one ]
    echo 1 >/sys/bus/pci/rescan
    wait_for two_paths
done
enforce
sleep 1
touch /run/stop
wait $readers
kill -INT $fio
wait $fio || true
for disk in /sys/block/nvme*c*n1; do
    cat /sys/kernel/debug/block/${{disk##*/}}/rqos/linnos/in_flight >>$OUT/in_flight
    cat $disk/linnos/stats/revoked >>$OUT/revoked
done
"""


def test_paths_are_removed_and_return_under_load(
    boot_qemu, tmp_path: Path, queue_model: Path
) -> None:
    boot_qemu(
        SCRIPT.format(model=queue_model, rounds=ROUNDS),
        n_drives=1,
        n_paths=2,
        kernel_args=("sysctl.kernel.hung_task_timeout_secs=60", "sysctl.kernel.hung_task_panic=1"),
        timeout_s=1800,
    )
    assert (tmp_path / "head").read_text() == "", "a head has no policy of its own"
    assert (tmp_path / "hinted").read_text() == "95\n", "EOPNOTSUPP"
    reads = json.loads((tmp_path / "reads").read_text())
    assert reads["admitted"] > 100
    assert reads["wrong_data"] == reads["errors"] == reads["gone"] == reads["revoked"] == 0
    assert "verify:" not in (tmp_path / "fio").read_text()
    assert set((tmp_path / "revoked").read_text().split()) == {"0"}
    assert set((tmp_path / "in_flight").read_text().splitlines()) == {"0 pages, 0 reads"}

# SPDX-License-Identifier: MIT
"""I/O other than reads and writes of the block layer: io_uring's NVMe commands, discards, zeroes.

The nvme driver sends them to an emulated controller; LinnOS neither decides nor counts them.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.qemu

PASSTHROUGH = Path(__file__).parents[1] / "lab_block" / "passthrough.c"

# Reads of 16 pages, which the model calls slow, go on all the while.
SCRIPT = """
d=/sys/block/nvme0n1/linnos
cat {model} >$d/model
echo 0 >$d/probe_after_us
echo 0 >$d/probe_after_revokes
python3 $TESTS/hinted_load.py /dev/nvme0n1 --fill --count 1 >/dev/null
echo enforce >$d/mode
first=$(cat $d/stats/reads)
python3 $TESTS/hinted_load.py /dev/nvme0n1 --pages 16 --workers 2 --seconds 600 \\
    --stop-file /run/stop >$OUT/load &
load=$!
until [ $(cat $d/stats/revoked) -gt 20 ]; do sleep 0.1; done
before=$(cat $d/stats/revoked)
idle() {{ cat /sys/kernel/debug/block/nvme0n1/rqos/linnos/in_flight; }}
for how in uring poll; do
    $OUT/passthrough $how /dev/ng0n1 400
    idle
done
blkdiscard -f -z -o 67108864 -l 4194304 /dev/nvme0n1
idle
blkdiscard -f -o 134217728 /dev/nvme0n1
idle
[ $(cat $d/stats/revoked) -gt $before ]
touch /run/stop
wait $load
echo $(($(cat $d/stats/reads) - first))
"""


def test_passthrough_commands_are_not_counted(boot_qemu, tmp_path: Path, queue_model: Path) -> None:
    compiler = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", PASSTHROUGH, "-luring"]
    subprocess.run([*compiler, "-o", tmp_path / "passthrough"], check=True)
    ran = boot_qemu(
        SCRIPT.format(model=queue_model), n_drives=1, kernel_args=("nvme.poll_queues=1",)
    )
    nothing = "0 pages, 0 reads"
    *said, served = ran.stdout.splitlines()
    assert said == ["ok=400", nothing, "ok=400", nothing, nothing, nothing]
    load = json.loads((tmp_path / "load").read_text())
    # Among the reads are those of the load, refused ones too, and none of the commands.
    assert int(served) == load["admitted"] + load["revoked"]
    assert load["revoked"] > 0
    for what in ("wrong_data", "touched", "errors", "gone"):
        assert load[what] == 0, what

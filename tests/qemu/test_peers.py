# SPDX-License-Identifier: MIT
"""Peers that are asked from two CPUs while they are named, and while one of them vanishes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from trees_by_hand import last_read

pytestmark = pytest.mark.qemu

ROUNDS = 2

# Every read is slow by the model, so each asks the other drive.
SCRIPT = """
. $TESTS/lib.sh
peers=/sys/block/nvme0n1/linnos/peers
stats=/sys/block/nvme0n1/linnos/stats
asked() {{ echo $(($(cat $stats/kept) + $(cat $stats/revoked))); }}
asked_more() {{ [ $(asked) -gt $1 ]; }}

enforce nvme0n1 {model}
load /dev/nvme0n1 --blocks 512 --fill --count 1 >/dev/null
load /dev/nvme0n1 --blocks 512 --workers 4 --seconds 600 --stop-file /run/stop >$OUT/stays &
stays=$!
for round in $(seq {rounds}); do
    enforce nvme1n1 {model}
    load /dev/nvme1n1 --blocks 512 --fill --count 1 >/dev/null
    echo nvme0n1 >/sys/block/nvme1n1/linnos/peers
    echo nvme1n1 >$peers
    before=$(asked)
    load /dev/nvme1n1 --blocks 512 --workers 4 --seconds 600 --started-file /run/$round \\
        >$OUT/goes$round &
    goes=$!
    while echo nvme1n1 >$peers; do :; done 2>/dev/null &
    naming=$!
    wait_for [ -e /run/$round ]
    wait_for asked_more $((before + 200))
    echo 1 >$(readlink -f /sys/block/nvme1n1/device/device)/remove
    wait $naming || true
    wait $goes
    [ "$(cat $peers)" = "" ]
    # There is nobody left to read from.
    revoked=$(cat $stats/revoked)
    before=$(cat $stats/kept)
    kept_more() {{ [ $(cat $stats/kept) -gt $((before + 100)) ]; }}
    wait_for kept_more
    [ $(cat $stats/revoked) = $revoked ]
    echo 1 >/sys/bus/pci/rescan
    wait_for [ -e /sys/block/nvme1n1/linnos/mode ]
    wait_for [ -b /dev/nvme1n1 ]
done
touch /run/stop
wait $stays
"""


def test_a_peer_vanishes_while_it_is_asked_and_named(boot_qemu, tmp_path: Path) -> None:
    model = tmp_path / "slow.linnos"
    last_read(threshold_us=1, refuse_us=1, overdue_us=1_000_000).save(model)
    ran = boot_qemu(
        SCRIPT.format(model=model, rounds=ROUNDS),
        n_drives=2,
        # A task that hangs ends the guest, and its story is told.
        kernel_args=(
            "sysctl.kernel.hung_task_timeout_secs=60",
            "sysctl.kernel.hung_task_panic=1",
        ),
        timeout_s=1800,
    )
    assert ran.dmesg.count("nvme0n1: its last peer, nvme1n1, has gone") == ROUNDS
    for name in ("stays", *(f"goes{number}" for number in range(1, ROUNDS + 1))):
        counts = json.loads((tmp_path / name).read_text())
        assert counts["admitted"] > 0
        assert counts["wrong_data"] == counts["touched"] == counts["errors"] == 0
        assert counts["gone"] == (0 if name == "stays" else 4)

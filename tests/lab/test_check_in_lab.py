# SPDX-License-Identifier: MIT
"""`linnapp check` on md arrays of the lab: with stalls it says yes, without stalls no."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from check_arrays import KINDS, CheckedArray, script

from linnapp.insight.benefit import estimate_benefit
from linnapp.lab.array import Array

#: Arrays of each kind; with 100, the promise of at most 5 wrong verdicts is checked by hand.
N_ARRAYS = int(os.environ.get("LINNOS_CHECK_ARRAYS", "1"))

#: Arrays that are recorded in one boot.
ARRAYS_PER_BOOT = 10

#: `array MIRRORS` makes an md raid1; `load` reads from it.
BEGIN = """
burst_us=400000
array() {
    devices=
    for k in $(seq 0 $(($1 - 1))); do devices="$devices /dev/flash$k"; done
    mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=$1 \\
        $devices 2>/dev/null
}
load() {
    fio --name=load --filename=/dev/md0 --rw=randread --bs=4k --direct=1 --iodepth=4 \\
        --ioengine=io_uring --rate_iops=2000 --rate_process=poisson --time_based --runtime=1000 \\
        --clocksource=clock_gettime --output=/dev/null & load=$!
}
check() { linnapp check /dev/md0 --for 20 --json >$OUT/$1 || [ $? = 3 ]; }
"""

ARRAYS = """
array 3
status=0
linnapp check /dev/md0 --for 1 --json >$OUT/idle || status=$?
[ $status = 3 ]
load
check equal
bursts 1
check stalls
kill $load
mdadm --stop /dev/md0
array 2
mdadm --fail /dev/md0 /dev/flash1
! linnapp check /dev/md0 2>$OUT/degraded || exit 1
ls /sys/block/flash0/linnos/mode && cat /sys/block/flash0/linnos/mode >$OUT/mode
"""


@pytest.mark.lab
def test_check_says_yes_only_when_the_mirrors_stall(boot) -> None:
    result = boot(BEGIN + ARRAYS, Array(size_mb=64, precondition=False))

    def verdict(name: str) -> str:
        found = result.json(name)
        print(name, found["reason"])
        return str(found["verdict"])

    assert verdict("equal") != "yes"
    assert verdict("stalls") == "yes"
    assert verdict("idle") == "unknown"
    assert "degraded" in result.text("degraded")
    assert result.text("mode") == "off\n"


def verdict_of(array: CheckedArray, folder: Path) -> str:
    """Return the verdict on a recorded array."""
    found = estimate_benefit(array.recordings(folder), array.drives)
    print(array.name, found.verdict, found.reason)
    return found.verdict


@pytest.mark.lab
@pytest.mark.parametrize("kind", KINDS)
def test_check_verdict_is_rarely_wrong_on_recorded_arrays(boot, tmp_path: Path, kind: str) -> None:
    arrays = [CheckedArray(kind, seed) for seed in range(N_ARRAYS)]
    for first in range(0, N_ARRAYS, ARRAYS_PER_BOOT):
        boot(script(arrays[first : first + ARRAYS_PER_BOOT]), Array(n_drives=0))
    wrong = "no" if kind == "in turn" else "yes"
    verdicts = [verdict_of(array, tmp_path) for array in arrays]
    print(kind, {verdict: verdicts.count(verdict) for verdict in set(verdicts)})
    assert verdicts.count(wrong) <= 0.05 * N_ARRAYS

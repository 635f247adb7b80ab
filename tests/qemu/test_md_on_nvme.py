# SPDX-License-Identifier: MIT
"""md raid1 and raid10 over NVMe drives, on two CPUs: whom they read from, and all of it changing
under load."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from linnapp.model import Model

pytestmark = pytest.mark.qemu

#: Where the files of the drive of a number are, in a kernel with LinnOS.
FILES = "files() { echo /sys/block/nvme$1n1/linnos; }"

#: After a line that defines `files`.
SCRIPT = """
. $TESTS/lib.sh
load() {{ python3 $TESTS/hinted_load.py /dev/md0 --plain --pages {pages} "$@"; }}
stat() {{ cat $(files $1)/stats/$2; }}
use() {{
    cat {models}/$2.linnos >$(files $1)/model
    echo observe >$(files $1)/mode
}}
whole() {{ [ "$(cat $md/degraded)" = 0 ]; }}
idle() {{ [ "$(cat $md/sync_action)" = idle ]; }}
reads() {{ for k in $drives; do echo $(stat $k reads) $(stat $k probes); done; }}
change() {{
    for value in off on unguarded; do
        echo $value >$md/linnos
        for k in $drives; do
            cat {models}/fast.linnos >$(files $k)/model
            echo off >$(files $k)/mode
            use $k slow
        done
    done
}}

drives="{drives}"
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --bitmap=internal {level} \\
    --raid-devices=$(echo $drives | wc -w) $(printf '/dev/nvme%dn1 ' $drives) 2>/dev/null
md=/sys/block/md0/md
load --fill --count 1 >/dev/null
for k in $drives; do use $k fast; done
for k in {slow}; do use $k slow; done
for value in off unguarded; do
    echo $value >$md/linnos
    reads >$OUT/before_$value
    load --workers 4 --count 500 >$OUT/steered_$value
    reads >$OUT/after_$value
done

load --workers 4 --writers 2 --seconds 600 --stop-file /run/stop >$OUT/changing &
load=$!
while [ ! -e /run/stop ]; do change; done &
changes=$!
for k in {fails}; do
    mdadm --fail /dev/md0 /dev/nvme${{k}}n1
    wait_for mdadm --remove /dev/md0 /dev/nvme${{k}}n1
    sleep 1
    mdadm --add /dev/md0 /dev/nvme${{k}}n1
    wait_for whole
done 2>/dev/null
touch /run/stop
wait $load
wait $changes
wait_for idle
echo check >$md/sync_action
wait_for idle
cat $md/mismatch_cnt >$OUT/mismatches
mdadm --stop /dev/md0 2>/dev/null
"""


@dataclass(frozen=True)
class Level:
    """An array: how it is made, of how many drives, which are slow, and which fail in turn."""

    options: str
    n_drives: int
    slow: tuple[int, ...]
    fails: tuple[int, ...]
    #: Of a read, so that it may be one of several chunks.
    pages: int = 1


LEVELS = {
    "raid1": Level("--level=1", 3, slow=(0,), fails=(1, 0)),
    # Pairs: 0 and 1, 2 and 3.
    "raid10": Level("--level=10 --layout=n2 --chunk=16", 4, slow=(0, 3), fails=(1, 0, 3), pages=3),
}


def constant_model(path: Path, output_bias: tuple[int, int]) -> None:
    Model(
        hidden_weights=np.zeros((31, 256), np.int32),
        hidden_bias=np.zeros(256, np.int32),
        output_weights=np.zeros((256, 2), np.int32),
        output_bias=np.array(output_bias, np.int64),
        threshold_us=150,
    ).save(path)


def numbers(values: tuple[int, ...] | range) -> str:
    return " ".join(map(str, values))


def script_of(level: Level, models: Path) -> str:
    """The script for an array, with a model for slow drives and one for others in the folder."""
    constant_model(models / "slow.linnos", (0, 1))
    constant_model(models / "fast.linnos", (1, 0))
    return SCRIPT.format(
        models=models,
        level=level.options,
        drives=numbers(range(level.n_drives)),
        slow=numbers(level.slow),
        fails=numbers(level.fails),
        pages=level.pages,
    )


def check(level: Level, out: Path) -> None:
    """That the slow drives were left out, and that nothing was lost while all of it changed."""
    for run in ("steered_off", "steered_unguarded", "changing"):
        counts = json.loads((out / run).read_text())
        assert counts["wrong_data"] == counts["errors"] == counts["gone"] == 0, run
        assert counts["admitted"] > 0 and counts["revoked"] == 0
    assert counts["written"] > 100
    assert (out / "mismatches").read_text().split() == ["0"]

    for linnos in ("off", "unguarded"):
        before, after = (
            np.loadtxt(out / f"{when}_{linnos}", dtype=int) for when in ("before", "after")
        )
        reads, probes = (after - before).T
        assert reads.sum() >= 2000
        for slow in level.slow:
            if linnos == "off":
                assert reads[slow] > 100, "it is not left out by itself"
            else:
                assert reads[slow] <= probes[slow], "the slow drive was read from without a look"


@pytest.mark.parametrize("name", LEVELS)
def test_md_of_nvme_drives(boot_qemu, tmp_path: Path, name: str) -> None:
    level = LEVELS[name]
    # Small: all of them is compared in the end.
    boot_qemu(
        FILES + script_of(level, tmp_path), n_drives=level.n_drives, drive_mb=64, timeout_s=1800
    )
    check(level, tmp_path)

# SPDX-License-Identifier: MIT
"""Common parts of the tests of md arrays over drives with LinnOS."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from networks_by_hand import network
from trees_by_hand import last_four

from linnapp.model import Model

BUILD = Path(__file__).parents[2] / "build"
KERNELS = {
    "lab": BUILD / "linux-um" / "linux",
    "debug": BUILD / "linux-um-debug" / "linux",
}

READS = f"python3 {Path(__file__).with_name('paced_reads.py')} /dev/md0"

#: Delay of each read in a burst; drives have bursts of 100 ms in turn.
BURST_US = 2000

#: Shell functions for the guest; $md is the folder of the array in sysfs.
FUNCTIONS = f"""
md=/sys/block/md0/md
drives=$(ls -d /sys/block/flash? | wc -l)
bursts() # 1|0 [DRIVES]: switch bursts on or off, on all drives or the first ones
{{
	turns=${{2:-$drives}}
	for k in $(seq 0 $((turns - 1))); do
		cd /sys/kernel/config/flashsim/flash$k/inject
		echo 0 >arm
		echo all >pattern
		echo read >op
		echo {BURST_US} >latency_us
		echo 100000 >window_us
		echo 100000 >window_every_us
		echo $turns >window_turns
		echo $((1 << k)) >window_turn_mask
		echo $1 >arm
	done
	cd /
}}
models() # NAME: upload the model to all drives, in mode observe
{{
	for k in $(seq 0 $((drives - 1))); do
		cat $OUT/$1.linnos >/sys/block/flash$k/linnos/model
		echo observe >/sys/block/flash$k/linnos/mode
	done
}}
stats() # FILE...: print the sum over the drives
{{
	for file; do
		cat /sys/block/flash?/linnos/stats/$file | paste -sd+ | sed "s/.*/echo $file \\$((&))/" | sh
	done
}}
spoil() # let reads of some sectors of the first drive fail
{{
	rule=/sys/kernel/config/flashsim/flash0/rules/errs
	mkdir $rule
	echo read >$rule/op
	echo medium_error >$rule/fault
	echo 10240 256 >$rule/ranges
	echo 1 >$rule/enabled
}}
mend() {{ rmdir /sys/kernel/config/flashsim/flash0/rules/errs; }}
wipe() # let the first drive fail, and return it empty
{{
	mdadm --fail /dev/md0 /dev/flash0
	sleep 0.1
	mdadm --remove /dev/md0 /dev/flash0
	mdadm --zero-superblock /dev/flash0
	dd if=/dev/zero of=/dev/flash0 bs=1M oflag=direct 2>/dev/null || true
	mdadm --add /dev/md0 /dev/flash0
	whole
}}
state() {{ echo $(cat $md/degraded $md/array_state $md/dev-flash?/errors); }}
whole() {{ until [ "$(cat $md/degraded)" = 0 ]; do sleep 0.01; done; }}
mismatches()
{{
	echo check >$md/sync_action
	until [ "$(cat $md/sync_action)" = idle ]; do sleep 0.1; done
	cat $md/mismatch_cnt
}}
"""


EACH_KERNEL = pytest.mark.parametrize(
    "kernel", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in KERNELS]
)


def built(kernel: str) -> Path:
    """Return the kernel of this name; the test fails if it does not exist."""
    if not KERNELS[kernel].exists():
        pytest.fail(f"{KERNELS[kernel]}: no kernel; see `make help`")
    return KERNELS[kernel]


def save_models(directory: Path) -> None:
    """Save ``recent.linnos`` and ``latency.linnos``, for the shell function ``models``."""
    recent_model().save(directory / "recent.linnos")
    # No read is slow, only slower than on another mirror.
    last_four(90, 90 + BURST_US, 1000, threshold_us=1000, refuse_us=2**32 - 1, overdue_us=300).save(
        directory / "latency.linnos"
    )


def recent_model() -> Model:
    """Return a model that predicts slow if one of the last four reads took 1 ms or more."""
    return network(dict.fromkeys((15, 19, 23, 27), 500), (250_000, 0), threshold_us=1000)


def result(path: Path) -> dict[str, Any]:
    """Return the result of paced_reads.py; no read may be lost or wrong."""
    one: dict[str, Any] = json.loads(path.read_text())
    assert one["errors"] == [] and one["wrong"] == [], path.name
    return one


def assert_clean(dmesg: str) -> None:
    found = re.search(
        r".*(BUG|WARNING|INFO: |KASAN|UBSAN|cut here|Call Trace).*(\n.*){0,20}", dmesg
    )
    assert not found, found.group()

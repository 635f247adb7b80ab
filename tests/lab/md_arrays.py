# SPDX-License-Identifier: MIT
"""Common parts of the tests of md arrays over drives with LinnOS."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from guest_runs import GuestResult
from networks_by_hand import network
from trees_by_hand import last_four

from linnapp.model import Model

BUILD = Path(__file__).parents[2] / "build"
KERNELS = {"lab": BUILD / "linux-um" / "linux", "debug": BUILD / "linux-um-debug" / "linux"}

READS = "paced_reads /dev/md0"

#: Delay of each read in a burst of the shell function ``bursts``.
BURST_US = 2000

#: Shell functions for the guest; $md is the folder of the array in sysfs.
FUNCTIONS = f"""
md=/sys/block/md0/md
drives=$(ls -d /sys/block/flash? | wc -l)
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
create() # DRIVES OPTION...: make an array of the first drives, and fill it
{{
	n=$1
	shift
	tries=0 # with CONFIG_DEBUG_KOBJECT_RELEASE, the previous md0 disappears seconds later
	until mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean "$@" --raid-devices=$n \
		$(seq -f /dev/flash%g 0 $((n - 1))) 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 6 ] || exit 1
		sleep 5
	done
	{READS} --fill
}}
spoil() # let reads of some sectors of the first drive fail
{{
	rule flash0 errs op=read fault=medium_error 'ranges=10240 256'
}}
mend() {{ remove_rule flash0 errs; }}
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
levels() # ATTRIBUTE VALUE: an array has the attribute while its level supports it
{{
	mdadm --create /dev/md1 --run --force --metadata=1.2 --level=1 --bitmap=none \
		--raid-devices=1 /dev/flash0 2>&1
	echo $2 >/sys/block/md1/md/$1
	for level in raid0 raid10; do
		echo $level >/sys/block/md1/md/level
		echo $level $(cat /sys/block/md1/md/$1) >>$OUT/levels
	done
	mdadm --stop /dev/md1
	mdadm --zero-superblock /dev/flash0
}}
refuses() # ATTRIBUTE VALUE...
{{
	attribute=$1
	shift
	for bad; do
		if echo "$bad" | tee $md/$attribute 2>>$OUT/refused >/dev/null; then exit 1; fi
	done
}}
lose() # N OUTPUT: under a load of N reads, the second mirror fails and is resynced by the bitmap
{{
	echo 500000 >$md/sync_speed_min
	{READS} $1 500 --writes >$OUT/$2 &
	load=$!
	sleep 0.2
	mdadm --fail /dev/md0 /dev/flash1
	sleep 0.1
	mdadm --remove /dev/md0 /dev/flash1
	sleep 0.2
	mdadm --add /dev/md0 /dev/flash1
	whole
}}
finish() # until the load ends, which has gone on until now
{{
	kill -0 $load || exit 1
	wait $load
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
    # No read is slow, but some are slower than on another mirror.
    last_four(90, 90 + BURST_US, 1000, threshold_us=1000, refuse_us=2**32 - 1, overdue_us=300).save(
        directory / "latency.linnos"
    )


def recent_model() -> Model:
    """Return a model that predicts slow if one of the last four reads took 1 ms or more."""
    return network(dict.fromkeys((15, 19, 23, 27), 500), (250_000, 0), threshold_us=1000)


def reads_of(result: GuestResult, name: str) -> dict[str, Any]:
    """Return the result of paced_reads; no read may be lost or wrong."""
    reads: dict[str, Any] = result.json(name)
    assert reads["errors"] == reads["wrong"] == 0, name
    return reads


def assert_avoids_bursts(off: dict[str, Any], on: dict[str, Any]) -> None:
    """Compare the results of reads while md does not redirect them, and while it does."""
    assert off["reads"] == on["reads"]
    assert on["mean_us"] < 0.65 * off["mean_us"]
    assert on["slow"] < off["slow"] / 3


def assert_whole(state: str) -> None:
    """Check the output of the shell function ``state``: no mirror is missing or had errors."""
    degraded, array_state, *errors = state.split()
    assert degraded == "0" and array_state in ("active", "clean") and set(errors) == {"0"}


def assert_odd_mirrors(result: GuestResult, n_reads: int) -> None:
    """Check that reads are right while the first drive has the bad sectors of ``spoil``."""
    assert reads_of(result, "odd")["reads"] == n_reads
    assert result.words("after_odd")[0] == "0"
    bad = [int(line.split()[0]) for line in result.text("bad_blocks").splitlines()]
    assert bad and all(10240 <= sector < 10496 for sector in bad)
    assert result.words("mismatches") == ["0"]
    # md queries drives, and never sends hinted reads.
    stats = dict(re.findall(r"(\w+) (\d+)", result.text("stats")))
    assert stats["latency_critical"] == stats["revoked"] == "0"
    assert int(stats["probes"]) > 10


def assert_clean(dmesg: str) -> None:
    found = re.search(
        r".*(BUG|WARNING|INFO: |KASAN|UBSAN|cut here|Call Trace).*(\n.*){0,20}", dmesg
    )
    assert not found, found.group()

# SPDX-License-Identifier: MIT
"""The guard of md raid1 soon stops redirecting reads if the drives' models mislead, and
keeps redirecting them if the models help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from md_arrays import (
    BURST_US,
    EACH_KERNEL,
    FUNCTIONS,
    READS,
    assert_clean,
    built,
    reads_of,
    save_models,
)
from trees_by_hand import last_four

from linnapp.drive.md import Guard
from linnapp.lab.array import Array

#: 10 s: the guard learns in the first of them.
N = 10_000
EVERY_US = 1000

#: These models help, and this one misleads.
HELPFUL, MISLEADING = ("recent", "latency"), "opposite"

#: Reads with the array in a state, and what the guard says of them.
RUN = f"""
echo off >$md/linnos
sleep 1
echo STATE >$md/linnos
bursts 1
{READS} {N} {EVERY_US} >$OUT/NAME
bursts 0
cat $md/linnos_guard >$OUT/NAME_guard
"""

#: The first drive, to which md sends reads by default, is always slow. The guard learns that first.
KNOWN = f"""
models recent
bursts 1 1
for state in unguarded on; do
	echo off >$md/linnos
	sleep 1
	echo $state >$md/linnos
	[ $state = unguarded ] || {READS} {N} {EVERY_US} >/dev/null
	{READS} {N} {EVERY_US} >$OUT/known_$state
done
bursts 0
"""


def run(state: str, name: str) -> str:
    return RUN.replace("STATE", state).replace("NAME", name)


@EACH_KERNEL
def test_guarded_choosing_does_not_slow_reads(boot: Any, tmp_path: Path, kernel: str) -> None:
    save_models(tmp_path)
    last_four(90 + BURST_US, 90, 1000, threshold_us=1000, refuse_us=2**32 - 1, overdue_us=300).save(
        tmp_path / f"{MISLEADING}.linnos"
    )
    script = FUNCTIONS + "create 3 --level=1\n" + run("off", "off")
    for model in (*HELPFUL, MISLEADING):
        script += f"models {model}\n"
        for state in ("unguarded", "on"):
            script += run(state, f"{model}_{state}")
    result = boot(script + KNOWN, Array(size_mb=96, precondition=False), kernel=built(kernel))

    def mean_us(name: str) -> float:
        return float(reads_of(result, name)["mean_us"])

    def guard(name: str) -> Guard:
        return Guard.parse("md0", result.text(f"{name}_guard"))

    off = mean_us("off")
    assert guard("off").state == "off"
    for model in HELPFUL:
        unguarded, on = mean_us(f"{model}_unguarded"), mean_us(f"{model}_on")
        print(f"{kernel}: {model}: {off:.1f}, {unguarded:.1f}, {on:.1f}")
        assert off - on > 0.9 * (off - unguarded) > 0.4 * off, model
        assert guard(f"{model}_unguarded").state == "unguarded"
        found = guard(f"{model}_on")
        assert found.state == "redirecting" and found.redirected > N / 4
    unguarded, on = mean_us(f"{MISLEADING}_unguarded"), mean_us(f"{MISLEADING}_on")
    found = guard(f"{MISLEADING}_on")
    print(f"{kernel}: {MISLEADING}: {off:.1f}, {unguarded:.1f}, {on:.1f}; {found.redirected}")
    assert unguarded > 1.5 * off and on < 1.03 * off
    assert found.state == "suspended" and found.redirected < N / 100
    # Later, the control group is less than a hundredth of the reads.
    slow = {state: reads_of(result, f"known_{state}")["slow"] for state in ("unguarded", "on")}
    print(f"{kernel}: slow reads while the guard knows: {slow}")
    assert 0 < slow["on"] - slow["unguarded"] < N / 100
    assert_clean(result.dmesg)

# SPDX-License-Identifier: MIT
"""The guard of md raid1 soon stops redirecting reads if the drives' models mislead, and
keeps redirecting them if the models help."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from md_arrays import (
    BURST_US,
    EACH_KERNEL,
    FUNCTIONS,
    READS,
    assert_clean,
    built,
    recent_model,
    result,
    save_models,
)
from trees_by_hand import last_four

from linnapp.drive.md import Guard
from linnapp.lab.array import Array
from linnapp.model import Model

#: 20 s: a guard learns in the first of them, and has some twenty slices without asking.
N = 20_000
EVERY_US = 1000

MODELS = ("recent", "latency", "opposite_network", "opposite_latency")
STATES = ("off", "unguarded", "on")

BEGIN = f"""
mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 \
	--raid-devices=3 /dev/flash0 /dev/flash1 /dev/flash2 2>&1
{READS} --fill
"""


def opposite_network() -> Model:
    """Return a network that predicts slow if none of the last four reads took a millisecond."""
    model = recent_model()
    return dataclasses.replace(
        model,
        output_weights=np.ascontiguousarray(model.output_weights[:, ::-1]),
        output_bias=np.array((0, 250_000), np.int64),
    )


def saved(directory: Path) -> None:
    save_models(directory)
    opposite_network().save(directory / "opposite_network.linnos")
    last_four(90 + BURST_US, 90, 1000, threshold_us=1000, refuse_us=2**32 - 1, overdue_us=300).save(
        directory / "opposite_latency.linnos"
    )


#: The first drive, to which md sends reads by default, is always slow.
KNOWN = f"""
bursts 1 1
for state in unguarded on; do
	echo off >$md/linnos
	sleep 1
	echo $state >$md/linnos
	{READS} {N} {EVERY_US} >/dev/null
	{READS} {N} {EVERY_US} >$OUT/known_$state
done
bursts 0
"""


@EACH_KERNEL
def test_guarded_choosing_does_not_slow_reads(boot: Any, tmp_path: Path, kernel: str) -> None:
    saved(tmp_path)
    script = FUNCTIONS + BEGIN
    for model in MODELS:
        script += f"models {model}\n"
        for state in STATES:
            script += f"echo off >$md/linnos\nsleep 1\necho {state} >$md/linnos\n"
            script += f"bursts 1\n{READS} {N} {EVERY_US} >$OUT/{model}_{state}\nbursts 0\n"
            script += f"cat $md/linnos_guard >$OUT/{model}_{state}_guard\n"
    script += "models recent\n" + KNOWN
    ran = boot(script, Array(size_mb=96, precondition=False), kernel=built(kernel))
    mean_us: dict[tuple[str, str], float] = {}
    guards = {}
    for model in MODELS:
        for state in STATES:
            mean_us[model, state] = result(tmp_path / f"{model}_{state}")["mean_us"]
            text = (tmp_path / f"{model}_{state}_guard").read_text()
            guards[model, state] = Guard.parse("md0", text)
        off, unguarded, on = (mean_us[model, state] for state in STATES)
        print(f"{kernel}: {model}: {off:.1f}, {unguarded:.1f}, {on:.1f}")
        print(guards[model, "on"].words)

    for model in MODELS:
        assert guards[model, "off"].state == "off"
        assert guards[model, "unguarded"].state == "unguarded"
        off, unguarded, on = (mean_us[model, state] for state in STATES)
        gain = guards[model, "on"].gain_percent
        assert gain is not None
        # The interval misses the truth once in twenty times; four are checked.
        slack = (gain[2] - gain[1]) / 2
        assert gain[1] - slack <= 100 * (off - on) / off <= gain[2] + slack, model
    for model in ("recent", "latency"):
        off, unguarded, on = (mean_us[model, state] for state in STATES)
        assert off - on > 0.9 * (off - unguarded) > 0.4 * off, model
        assert guards[model, "on"].state == "redirecting" and guards[model, "on"].redirected > N / 4
    off, unguarded, on = (mean_us["opposite_latency", state] for state in STATES)
    assert unguarded > 1.5 * off and on < 1.03 * off
    misled = guards["opposite_latency", "on"]
    assert misled.state == "suspended" and misled.redirected < N / 100
    # Later, the control group is less than a hundredth of the reads.
    slow = {state: result(tmp_path / f"known_{state}")["slow"] for state in STATES[1:]}
    print(f"{kernel}: slow where that is known: {slow}")
    assert 0 < slow["on"] - slow["unguarded"] < N / 100
    assert_clean(ran.dmesg)

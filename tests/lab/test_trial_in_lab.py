# SPDX-License-Identifier: MIT
"""`linnapp trial` on an md raid1 of the lab's drives, in blocks of a second of virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from md_arrays import FUNCTIONS, READS, recent_model, save_models

from linnapp.lab.array import Array

TRIAL = "linnapp trial /dev/md0 --block-s 1"

#: One of the drives is slow at any time, for 400 ms each; its first slow reads are unpredictable.
BEGIN = f"""
burst_us=400000
{FUNCTIONS}
export LINNAPP_STATE=$OUT/state LINNAPP_CONF=$OUT/etc/drives.conf
create 3 --level=1
refused() {{ ! linnapp trial "$@" 2>>$OUT/refused || exit 1; }}
load() {{ {READS} 200000 500 >/dev/null & load=$!; }}
"""

#: Refused arguments, and an array without reads.
REFUSED = """
refused /dev/flash0
refused /dev/md0
models latency
refused /dev/md0 --hours 0
refused /dev/md0 --hours 0.1
refused /dev/md0 --hours 0.01 --block-s 1
mdadm --fail /dev/md0 /dev/flash1
refused /dev/md0
mdadm --remove /dev/md0 /dev/flash1
mdadm --add /dev/md0 /dev/flash1
whole
cat $md/linnos >$OUT/after_refused
"""

#: Redirecting helps; then a model that never predicts slow changes nothing.
TRIALS = f"""
echo on >$md/linnos
bursts 1
load
{TRIAL} --hours 0.009 --seed 1 --json >$OUT/helps 2>$OUT/said
cat $md/linnos >$OUT/after_helps
models never
{TRIAL} --hours 0.0045 --seed 1 --json >$OUT/nothing
cat $md/linnos >$OUT/after_nothing
"""

#: Trials ended by each signal. A trial changes the array's state, which is unknown at its end,
#: so one trial starts with the array on, and one with it off.
ENDED = f"""
other() {{ until [ "$(cat $md/linnos)" != $1 ]; do sleep 0.02; done; }}
for was in on off; do
    for how in INT TERM KILL; do
        echo $was >$md/linnos
        env --default-signal=INT {TRIAL} --hours 1 >>$OUT/interrupted 2>>$OUT/ended_$how & trial=$!
        other $was
        if [ $how = INT ]; then
            ! linnapp disable 2>>$OUT/meanwhile || exit 1
            refused /dev/md0
        fi
        kill -$how $trial
        wait $trial || echo $how $? >>$OUT/statuses
        while pgrep -f '[l]innapp-trial-keeper' >/dev/null; do sleep 0.02; done
        echo $how $was $(cat $md/linnos) >>$OUT/after_ended
    done
done
kill $load
find $OUT/state -type f ! -name .lock >$OUT/left
"""


def interval(outcome: dict[str, Any], name: str) -> tuple[float, float]:
    low, high = outcome["latencies"][name]["interval_percent"]
    assert low <= outcome["latencies"][name]["lower_percent"] <= high
    return low, high


@pytest.mark.lab
def test_trial_measures_the_gain_of_choosing_and_leaves_no_files(boot, tmp_path: Path) -> None:
    save_models(tmp_path)
    never = recent_model()
    never.output_bias[0] = 10**9
    never.save(tmp_path / "never.linnos")
    result = boot(BEGIN + REFUSED + TRIALS + ENDED, Array(size_mb=64, precondition=False))
    text = result.text

    print(text("refused"), text("said"), text("helps"), text("nothing"), text("after_ended"))
    for why in ("flash0: no md array", "no mirror has a model", "0.0 is not in the range",
                "at least 8", "md0: no reads in 2 s",
                "degraded", "disable, trial or recalibrate is running"):  # fmt: skip
        assert why in text("refused")
    assert text("after_refused") == "off\n"

    helps = json.loads(text("helps"))
    assert helps["ended"] == "time" and helps["events_dropped"] == 0
    assert helps["reads"]["off"] == pytest.approx(helps["reads"]["on"], rel=0.05)
    # With off, a third of the reads takes 2 ms longer; with on, very few do.
    assert interval(helps, "p99")[0] > 80 and interval(helps, "mean")[0] > 30
    assert text("after_helps") == text("after_nothing") == "on\n"
    nothing = json.loads(text("nothing"))
    assert nothing["ended"] == "time" and nothing["pairs"] == 8
    # By chance, one such trial in twenty finds a significant difference.
    assert all(abs(nothing["latencies"][name]["lower_percent"]) < 1 for name in ("p99", "mean"))

    for line in text("after_ended").splitlines():
        _, was, now = line.split()
        assert now == was, line
    assert len(text("after_ended").splitlines()) == 6
    assert text("statuses").split() == ["INT", "130", "TERM", "143", "KILL", "137"] * 2
    assert "too few pairs" in text("interrupted")
    assert text("meanwhile").count("is running") == 2
    assert text("left") == ""

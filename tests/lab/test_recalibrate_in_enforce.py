# SPDX-License-Identifier: MIT
"""`linnapp recalibrate` of drives that enforce: what they refuse does not move the point."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from linnapp.lab.array import Array

pytestmark = pytest.mark.lab

DRIVES = ("flash0", "flash1", "flash2")
ROUND_S = 4
ROUNDS = 5

#: A burst on one drive after the other; in the end every I/O takes longer, another load.
BURSTS = "all:latency_us=1000,slot_ms=10,every_ms=20,rotate"
SLOWER = "all:latency_us=400"

FUNCTIONS = """
export LINNAPP_STATE=$OUT/state
load() {{
    replayer --devices $LINNOS_DRIVES --trace {traces} --quiet --fit --prefill none \\
        --unwritten any --settle-ms 0 "$@"
}}
again() {{
    linnapp recalibrate /dev/flash0 /dev/flash1 /dev/flash2 --models $OUT/models \\
        --duration {round_s} "$@" 2>>$OUT/log
    echo "--- $(cat /sys/block/flash?/linnos/mode | tr '\\n' ' ')" >>$OUT/log
}}
"""

FIRST = {
    "latency": """
load --policy baseline --inject {bursts} --duration {round_s}.5 >/dev/null &
again --kind latency
wait
""",
    "network": """
for drive in flash0 flash1 flash2; do
    linnapp upload --model $OUT/first/$drive.linnos --device /dev/$drive --mode observe >/dev/null
done
echo "--- uploaded" >>$OUT/log
""",
}

ROUNDS_OF_ONE_LOAD = """
for drive in flash0 flash1 flash2; do echo enforce >/sys/block/$drive/linnos/mode; done
load --policy linnos --inject {bursts} --duration {round_s} --json $OUT/refused-0.json >/dev/null
for round in $(seq {rounds}); do
    load --policy linnos --inject {bursts} --duration {round_s}.5 >/dev/null &
    again
    wait
    load --policy linnos --inject {bursts} --duration {round_s} \\
        --json $OUT/refused-$round.json >/dev/null
done
load --policy linnos --inject {slower} --duration {round_s}.5 >/dev/null &
"""

#: Networks are not trained in here: that takes a guest minutes.
LAST = {
    "latency": "again\n",
    "network": """
linnapp recalibrate /dev/flash0 /dev/flash1 /dev/flash2 --models $OUT/models \\
    --duration {round_s} 2>$OUT/last &
until grep -q training $OUT/last; do sleep 0.1; done
kill -INT $!
wait
""",
}

RECORD = """
load --policy baseline --inject {bursts} --duration {round_s}.5 >/dev/null &
linnapp trace --duration {round_s} -o $OUT /dev/flash0 /dev/flash1 /dev/flash2
wait
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["latency", "network"])
def test_five_rounds_of_one_load_leave_point_and_refusals_and_another_load_is_followed(
    kind: str, boot, tmp_path: Path
) -> None:
    workload = tmp_path / "load"
    subprocess.run(
        ["linnapp", "generate", "demo", "-o", str(workload), "--drives", "3",
         "--duration", str(ROUND_S + 1), "--seed", "7"],
        check=True, capture_output=True,
    )  # fmt: skip
    traces = ",".join(shlex.quote(str(workload / f"{name}.iolog")) for name in DRIVES)
    array = Array(n_drives=3, size_mb=256)

    def run(script: str) -> None:
        boot(
            (FUNCTIONS + script).format(
                traces=traces, round_s=ROUND_S, rounds=ROUNDS, bursts=BURSTS, slower=SLOWER
            ),
            array,
        )

    if kind == "network":
        run(RECORD)
        recorded = [tmp_path / f"{name}.blk" for name in DRIVES]
        subprocess.run(
            ["linnapp", "train", *(x for path in recorded for x in ("--trace", path)),
             "-o", tmp_path / "first", "--epochs", "6"],
            check=True, capture_output=True,
        )  # fmt: skip
    run(FIRST[kind] + ROUNDS_OF_ONE_LOAD + LAST[kind])
    log = (tmp_path / "log").read_text()
    modes = [line.split()[1:] for line in log.splitlines() if line.startswith("--- ")]
    n_enforcing = ROUNDS + (kind == "latency")
    assert modes[1:] == [["enforce"] * 3] * n_enforcing, log
    refused = [
        json.loads((tmp_path / f"refused-{round_}.json").read_text())["revoked"]
        for round_ in range(ROUNDS + 1)
    ]
    assert refused[0] > 100, log
    for name in DRIVES:
        history = [
            json.loads(line)
            for line in (tmp_path / "state" / name / "recalibration.jsonl").read_text().splitlines()
        ]
        if kind == "latency":
            first, *rounds, last = history
            assert first["uploaded"] and last["uploaded"], log
        else:
            rounds = history
            assert f"{name}: retrain" in (tmp_path / "last").read_text()
        assert len(rounds) == ROUNDS, log
        for line in rounds:
            assert line["shift_percentiles"] <= 1 + line["sampling_percentiles"], log
    # Models that are as good take turns once in forty times: about as much is refused by the last.
    assert all(abs(n / refused[0] - 1) < 0.25 for n in refused), (refused, log)

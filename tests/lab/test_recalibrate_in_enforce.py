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

RUN = """
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
load --policy baseline --inject {bursts} --duration {round_s}.5 >/dev/null &
again --kind latency
wait
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
again
"""


@pytest.mark.long
def test_five_rounds_of_one_load_leave_point_and_refusals_and_another_load_is_followed(
    boot, tmp_path: Path
) -> None:
    workload = tmp_path / "load"
    subprocess.run(
        ["linnapp", "generate", "demo", "-o", str(workload), "--drives", "3",
         "--duration", str(ROUND_S + 1), "--seed", "7"],
        check=True, capture_output=True,
    )  # fmt: skip
    traces = ",".join(shlex.quote(str(workload / f"{name}.iolog")) for name in DRIVES)
    boot(
        RUN.format(traces=traces, round_s=ROUND_S, rounds=ROUNDS, bursts=BURSTS, slower=SLOWER),
        Array(n_drives=3, size_mb=256),
    )
    log = (tmp_path / "log").read_text()
    modes = [line.split()[1:] for line in log.splitlines() if line.startswith("--- ")]
    assert modes[1:] == [["enforce"] * 3] * (ROUNDS + 1), log
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
        assert len(history) == ROUNDS + 2 and history[0]["uploaded"], log
        for line in history[1:-1]:
            assert line["shift_percentiles"] <= 1 + line["sampling_percentiles"], log
        assert history[-1]["uploaded"], log
    # Models that are as good take turns once in forty times: about as much is refused by the last.
    assert all(abs(n / refused[0] - 1) < 0.25 for n in refused), (refused, log)

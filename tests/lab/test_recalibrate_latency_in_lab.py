# SPDX-License-Identifier: MIT
"""`linnapp recalibrate` in its own closed loop: latency models, round after round of one load."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
from pathlib import Path

import pytest

from linnapp.lab.array import Array
from linnapp.model import LatencyModel

pytestmark = pytest.mark.lab

DRIVES = ("flash0", "flash1", "flash2")
ROUND_S = 4
ROUNDS = 4

#: A burst on one drive after the other; in the last round all I/Os are slower by a little.
BURSTS = "all:latency_us=1000,slot_ms=50,every_ms=200,rotate"
SLOWER = "all:latency_us=200"

RUN = """
export LINNAPP_STATE=$OUT/state
load() {{
    replayer --devices $LINNOS_DRIVES --trace {traces} --quiet --prefill none --settle-ms 0 "$@"
}}
again() {{
    linnapp recalibrate /dev/flash0 /dev/flash1 /dev/flash2 --models $OUT/models \\
        --duration {round_s} "$@" 2>>$OUT/log
    echo "--- $(cat /sys/block/flash?/linnos/model_id | tr '\\n' ' ')" >>$OUT/log
}}
load --policy baseline --inject {bursts} --duration {round_s}.5 >/dev/null &
again --kind latency
wait
for drive in flash0 flash1 flash2; do echo enforce >/sys/block/$drive/linnos/mode; done
load --policy linnos --inject {bursts} --json $OUT/enforced.json >/dev/null &
for round in $(seq 2 {rounds}); do again; done
wait
load --policy linnos --inject {slower} --duration {round_s}.5 >/dev/null &
again
"""


@pytest.mark.long
def test_rounds_of_one_load_keep_the_models_and_another_load_replaces_them(
    boot, tmp_path: Path
) -> None:
    workload = tmp_path / "load"
    subprocess.run(
        ["linnapp", "generate", "demo", "-o", str(workload), "--drives", "3",
         "--duration", str(ROUNDS * ROUND_S + 1), "--seed", "7"],
        check=True, capture_output=True,
    )  # fmt: skip
    traces = ",".join(shlex.quote(str(workload / f"{name}.iolog")) for name in DRIVES)
    boot(
        RUN.format(traces=traces, round_s=ROUND_S, rounds=ROUNDS, bursts=BURSTS, slower=SLOWER),
        Array(n_drives=3),
    )
    log = (tmp_path / "log").read_text()
    active = [line.split()[1:] for line in log.splitlines() if line.startswith("--- ")]
    assert len(active) == ROUNDS + 1 and "none" not in active[0], log
    history = [
        [json.loads(line) for line in (tmp_path / "state" / name / "recalibration.jsonl").open()]
        for name in DRIVES
    ]
    assert json.loads((tmp_path / "enforced.json").read_text())["revoked"] > 0
    replaced = 0
    for drive, rounds in enumerate(history):
        ids = [models[drive] for models in active]
        for (before, after), line in zip(itertools.pairwise(ids), rounds[1:], strict=True):
            comparison = line["comparison"]
            # Another model only where the newest reads say so, beyond chance.
            assert (after != before) == (comparison["change_high"] < 0), log
        assert ids[-1] != ids[-2], log
        replaced += sum(before != after for before, after in itertools.pairwise(ids[:-1]))
    # What they refuse is recorded, too, and one recording is as good as another.
    assert replaced <= 1, log
    assert all(LatencyModel.load(rounds[-1]["uploaded"]).n_trees for rounds in history)

# SPDX-License-Identifier: MIT
"""`linnapp recalibrate` of drives in mode enforce: refusals do not move the inflection point,
and recordings of one load are equivalent."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
from pathlib import Path

import pytest

from linnapp.drive.comparison import ALPHA
from linnapp.drive.maintain import SHIFT_PERCENTILES
from linnapp.lab.array import Array
from linnapp.model import LatencyModel

pytestmark = pytest.mark.lab

DRIVES = ("flash0", "flash1", "flash2")
ROUND_S = 4
ROUNDS = 5

#: The bursts last 10 ms, and each drive has one every 60 ms. `linnapp recalibrate` itself needs
#: blocks of a second, because of real drives, and recordings of a minute. With EVERY_S, the drives
#: are recalibrated again and again in one process, because Python and NumPy take seconds to start
#: in a guest.
SHORT_BLOCKS_AND_ROUNDS = """
import os
import sys
import time

from linnapp import stats
from linnapp.cli import main
from linnapp.drive import comparison, maintain
from linnapp.errors import LinnappError

stats.BLOCK_S, comparison.MIN_BLOCK_READS = 0.045, 10
recalibrate_once = maintain.recalibrate


def recalibrate_in_rounds(*arguments, **options):
    while True:
        try:
            recalibrate_once(*arguments, **options)
        except LinnappError as error:
            print(f"failed: {error}", file=sys.stderr, flush=True)
        time.sleep(float(os.environ["EVERY_S"]))


if "EVERY_S" in os.environ:
    maintain.recalibrate = recalibrate_in_rounds
main()
"""

#: Bursts on one drive after the other; in the end a new load, in which every I/O takes longer.
BURSTS = "all:latency_us=1000,slot_ms=10,every_ms=20,rotate"
SLOWER = "all:latency_us=400"

FUNCTIONS = """
export LINNAPP_STATE=$OUT/state
load() {{
    replayer --devices $LINNOS_DRIVES --trace {traces} --quiet --fit --prefill none \\
        --unwritten any --settle-ms 0 "$@" >/dev/null
}}
again="python $OUT/recalibrate.py recalibrate /dev/flash0 /dev/flash1 /dev/flash2 \\
    --models $OUT/models --duration {round_s}"
tell() {{ (cd /sys/block; echo $(cat flash?/linnos/mode flash?/linnos/model_id)) >>$OUT/after; }}
begun() {{ until [ "$(grep -c ' recording ' $OUT/log)" = $1 ]; do sleep 0.01; done; }}
"""

FIRST = {
    "latency": """
load --policy baseline --inject {bursts} --duration {round_s}.5 &
$again --kind latency 2>$OUT/first.log
wait
""",
    "network": """
for drive in flash0 flash1 flash2; do
    linnapp upload --model $OUT/first/$drive.linnos --device /dev/$drive --mode observe >/dev/null
done
""",
}

#: Between two recordings there is time for a load that shows which reads are refused.
ROUNDS_OF_ONE_LOAD = """
tell
for drive in flash0 flash1 flash2; do echo enforce >/sys/block/$drive/linnos/mode; done
load --policy linnos --inject {bursts} --duration {round_s} --json $OUT/refused-0.json
EVERY_S={every_s} $again 2>$OUT/log & rounds=$!
for round in $(seq {rounds}); do
    begun $round
    load --policy linnos --inject {bursts} --duration {round_s}.5
    tell
    load --policy linnos --inject {bursts} --duration {round_s} --json $OUT/refused-$round.json
done
begun $(({rounds} + 1))
load --policy linnos --inject {slower} --duration {round_s}.5 & last=$!
"""

#: Networks are not trained here, because that takes minutes in a guest.
LAST = {
    "latency": "wait $last; tell",
    "network": "until grep -q training $OUT/log; do sleep 0.1; done",
}
#: The last training takes minutes and is not checked. The shell is a batch task, so that it
#: does not reap the process in the middle of its last thread's end: shrink_dcache_parent() would
#: wait for that thread by spinning, and in virtual time no tick lets it go on.
ENDED = """
chrt --batch --pid 0 $$
kill $rounds; ended=0; wait $rounds || ended=$?; echo $ended >>$OUT/after
"""

RECORD = """
load --policy baseline --inject {bursts} --duration {round_s}.5 &
linnapp trace --duration {round_s} -o $OUT /dev/flash0 /dev/flash1 /dev/flash2
wait
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["latency", pytest.param("network", marks=pytest.mark.nightly)])
def test_recalibration_is_stable_on_one_load_and_follows_a_new_one(
    kind: str, boot, tmp_path: Path
) -> None:
    workload = tmp_path / "load"
    subprocess.run(
        ["linnapp", "generate", "demo", "-o", str(workload), "--drives", "3",
         "--duration", str(ROUND_S + 1), "--seed", "7"],
        check=True, capture_output=True,
    )  # fmt: skip
    traces = ",".join(shlex.quote(str(workload / f"{name}.iolog")) for name in DRIVES)
    (tmp_path / "recalibrate.py").write_text(SHORT_BLOCKS_AND_ROUNDS)
    array = Array(n_drives=3, size_mb=256)

    def run(script: str) -> None:
        boot(
            (FUNCTIONS + script).format(
                traces=traces,
                round_s=ROUND_S,
                every_s=2 * ROUND_S,
                rounds=ROUNDS,
                bursts=BURSTS,
                slower=SLOWER,
            ),
            array,
        )

    if kind == "network":
        run(RECORD)
        recorded = [tmp_path / f"{name}.blk" for name in DRIVES]
        subprocess.run(
            ["linnapp", "train", *(x for path in recorded for x in ("--trace", path)),
             "--kind", "network", "-o", tmp_path / "first", "--epochs", "6", "--bias", "2"],
            check=True, capture_output=True,
        )  # fmt: skip
    run(FIRST[kind] + ROUNDS_OF_ONE_LOAD + LAST[kind] + ENDED)
    log = (tmp_path / "log").read_text()
    *after, ended = [line.split() for line in (tmp_path / "after").read_text().splitlines()]
    assert ended == ["143"] and not [*tmp_path.glob("models/.[!l]*")], log
    n_enforcing = ROUNDS + (kind == "latency")
    assert [words[:3] for words in after[1:]] == [["enforce"] * 3] * n_enforcing, log
    assert "Traceback" not in log
    refused = [
        json.loads((tmp_path / f"refused-{round_}.json").read_text())["revoked"]
        for round_ in range(ROUNDS + 1)
    ]
    assert refused[0] > 100, log
    replaced = 0
    for drive, name in enumerate(DRIVES):
        history = [
            json.loads(line)
            for line in (tmp_path / "state" / name / "recalibration.jsonl").read_text().splitlines()
        ]
        if kind == "latency":
            first, *rounds, last = history
            assert first["uploaded"] and last["uploaded"], log
            ids = [words[3 + drive] for words in after]
            for (before, now), line in zip(itertools.pairwise(ids), history[1:], strict=True):
                # Another model only where it predicts the newest reads significantly better.
                # Where there were too few blocks to tell, the active one stays.
                p = line["comparison"]["p_value"]
                assert (now != before) == (p is not None and p <= ALPHA), log
            replaced += sum(now != before for before, now in itertools.pairwise(ids[:-1]))
            assert LatencyModel.load(last["uploaded"]).n_trees
        else:
            rounds = history
            assert log.count(f"{name}: retrain") == 1, log
        assert len(rounds) == ROUNDS, log
        for line in rounds:
            assert line["shift_percentiles"] < SHIFT_PERCENTILES, log
    # Equally good models replace each other in one of a hundred comparisons, and the last model
    # refuses as many reads as the first.
    assert replaced <= 1, log
    assert all(abs(n / refused[0] - 1) < 0.25 for n in refused), (refused, log)

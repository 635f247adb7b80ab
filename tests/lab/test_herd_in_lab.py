# SPDX-License-Identifier: MIT
"""Many independent replayers on one array choose by the latencies of its drives.

liblinnos/tests/test_herd.c tests the same with the library alone and simulated drives. Each
replayer knows only its own reads: one of 300, with 20 reads per second, notices a burst by the
first read that it sends there. `LINNOS_HERD=1,300` sets the numbers of replayers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from test_replayer_in_lab import BLOCK, DRIVES
from trees_by_hand import last_read

from linnapp.lab.array import Array

pytestmark = [pytest.mark.lab, pytest.mark.long]

SIZE_MB = 96
READERS = tuple(map(int, os.environ.get("LINNOS_HERD", "1,3,30").split(",")))

#: Reads per second of all readers, duration, and slowness of all drives. Crowded: a read takes
#: 100 us longer for each other read on its drive; one drive could not serve all reads.
LOADS = {
    "crowded": (18_000, 0.5, "echo queue >shape; echo 1 >at_depth; echo 100 >latency_us"),
    "bursts": (
        6_000, 2.4,
        "echo constant >shape; echo 2000 >latency_us; echo 400000 >window_us;"
        " echo 400000 >window_every_us; echo 3 >window_turns; echo $((1 << k)) >window_turn_mask",
    ),
}  # fmt: skip


def write_traces(folder: Path, name: str, readers: int, per_second: int, seconds: float) -> None:
    """Write one trace per reader; the reads of a single load are divided at random."""
    rng = np.random.default_rng(1)
    n = int(per_second * seconds)
    at_us = np.sort(rng.integers(0, int(seconds * 1e6), n))
    block = rng.integers(0, (SIZE_MB << 20) // BLOCK, n)
    reader = np.random.default_rng(2).integers(0, readers, n)
    for k in range(readers):
        lines = [
            f"{at} /dev/x read {place * BLOCK} {BLOCK}\n"
            for at, place in zip(at_us[reader == k], block[reader == k], strict=True)
        ]
        trace = folder / f"{name}{readers}_{k}.iolog"
        trace.write_text("fio version 3 iolog\n" + "".join(lines))


def mean_us(folder: Path, name: str, readers: int) -> float:
    """Return the mean over the reads of all readers."""
    ran = [json.loads((folder / f"{name}_{k}.json").read_text()) for k in range(readers)]
    reads = [one["reads"] for one in ran]
    return float(np.average([one["response_mean_us"] for one in ran], weights=reads))


def test_independent_readers_do_not_herd(boot, tmp_path: Path) -> None:
    last_read(threshold_us=500, refuse_us=2**32 - 1, overdue_us=300).save(tmp_path / "m.linnos")
    replayer = (
        f"replayer --devices {','.join(DRIVES)} --readonly --spread --quiet --start-every 1"
        " --unwritten any"
    )
    lowest = f"lowest --latency-model {','.join(['$OUT/m.linnos'] * len(DRIVES))}"
    policies = {"home": "baseline", "guarded": lowest, "unguarded": f"{lowest} --unguarded"}
    script = ""
    for load, (per_second, seconds, slow) in LOADS.items():
        script += (
            "k=0; for d in flash0 flash1 flash2; do cd /sys/kernel/config/flashsim/$d/inject\n"
            f"echo 0 >arm; echo all >pattern; echo read >op; {slow}; echo 1 >arm\n"
            "k=$((k + 1)); done; cd $OUT\n"
        )
        for readers in READERS:
            write_traces(tmp_path, load, readers, per_second, seconds)
            for name in policies if readers == 1 else ("home", "guarded"):
                script += (
                    f"for k in $(seq 0 {readers - 1}); do\n"
                    f"{replayer} --trace {tmp_path}/{load}{readers}_$k.iolog --seed $((k + 1))"
                    f" --policy {policies[name]} --json {load}_{name}{readers}_$k.json &\n"
                    "done; wait\n"
                )
    boot(script, Array(size_mb=SIZE_MB, precondition=False))
    ran = {
        load: {name: [mean_us(tmp_path, f"{load}_{name}{n}", n) for n in READERS]
               for name in ("home", "guarded")}
        for load in LOADS
    }  # fmt: skip
    alone = {load: mean_us(tmp_path, f"{load}_unguarded1", 1) for load in LOADS}
    print(ran, alone, sep="\n")
    # One reader is enough for a herd, if nothing stops it.
    crowded, bursts = ran["crowded"], ran["bursts"]
    assert alone["crowded"] > 3 * crowded["home"][0]
    for home_us, guarded_us in zip(crowded["home"], crowded["guarded"], strict=True):
        assert guarded_us < 1.15 * home_us
    gain_us = [home - guarded for home, guarded in zip(*bursts.values(), strict=True)]
    assert gain_us[0] > 0.5 * bursts["home"][0]
    for readers, gained_us in zip(READERS, gain_us, strict=True):
        assert gained_us > (0.9 if readers <= 30 else 0.3) * gain_us[0]

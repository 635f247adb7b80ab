# SPDX-License-Identifier: MIT
"""Random reads and replicated writes under `linnos-hl` while everything goes wrong at once.

The array of three emulated drives answers as fast as it can. On every drive a rule fails one read
in `ERROR_EVERY` with a medium error, bursts of slow reads wander through the array, and one drive
fails for good in the middle of the run. Afterwards the replayer's summary and its per-I/O log are
compared with the traces and the emulator's own counts:

- wrong: no read attempt returned other content than was written there;
- lost: each I/O of the traces is in the log, and no read went unanswered;
- counted twice: none is in it more often than in the traces.

The environment variable LINNOS_SOAK_READS sets the number of reads: ten million take half an hour
on one core.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from replays import BLOCK, DRIVES, replay

from linnapp.lab.array import Array
from linnapp.lab.guest import REPOSITORY
from linnapp.trace import convert as iolog
from linnapp.trace import replay_log

N_READS = int(os.environ.get("LINNOS_SOAK_READS", 60_000))
N_DRIVES = len(DRIVES)
SIZE_MB = 192
READ_SHARE = 0.97
#: One read in this number fails on each drive.
ERROR_EVERY = 1009
#: 50 ms in every 300 ms, each drive in its turn.
BURSTS = "continuous:latency_us=2000,op=read,ratio=100%,slot_ms=50,every_ms=300,rotate"

OPTIONS = (
    "--policy linnos-hl --hedge-us 600 --replicate-writes --prefill none --unwritten zero"
    f" --depth 48 --inject {BURSTS} --quiet"
)

#: The last drive fails for good after a number of I/Os.
BEFORE = f"""
for drive in flash0 flash1 flash2; do
    linnapp upload --model {REPOSITORY}/models/example/$drive.linnos --device /dev/$drive \\
        --mode enforce
    rule $drive errors op=read frequency=interval n={ERROR_EVERY} fault=medium_error
done
rule flash{N_DRIVES - 1} dead op=both frequency=all_after n=FAILS_AFTER fault=medium_error
"""

AFTER = """
for rule in $flashsim/flash?/rules/*; do
    echo $(echo $rule | cut -d / -f 6,8) $(cat $rule/injected)
done >$OUT/injected
for drive in flash0 flash1 flash2; do
    counter $drive faulted_reads
    counter $drive faulted_writes
done >$OUT/faulted
"""


def write_traces(folder: Path, reads: int, seed: int) -> list[Path]:
    """Write one iolog a drive with the given number of reads in all, and some writes."""
    paths = []
    for drive in range(N_DRIVES):
        rng = np.random.default_rng([seed, drive])
        n_reads = (reads + drive) // N_DRIVES
        n = round(n_reads / READ_SHARE)
        is_read = np.zeros(n, bool)
        is_read[rng.permutation(n)[:n_reads]] = True
        offset = rng.integers(0, (SIZE_MB << 20) // BLOCK, n) * BLOCK
        ios = iolog.Workload(np.zeros(n, np.int64), offset, np.full(n, BLOCK), ~is_read)
        paths.append(folder / f"t{drive}.iolog")
        iolog.write_iolog(paths[-1], [ios], f"flash{drive}")
    return paths


def sorted_ios(home: NDArray[Any], op: NDArray[Any], offset: NDArray[Any]) -> NDArray[np.uint64]:
    """Return one number for each I/O, from its default replica, direction and block."""
    key = (offset // BLOCK).astype(np.uint64) * np.uint64(2 * N_DRIVES)
    return np.sort(key + home.astype(np.uint64) * np.uint64(2) + op.astype(np.uint64))


@pytest.mark.lab
def test_no_read_is_wrong_lost_or_counted_twice(boot: Any, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, N_READS, 1)
    # The failing drive is the default replica of a third of the reads. Many of these are revoked
    # under this load, depending on the model; a quarter of the third is well before the end.
    result = replay(
        boot, tmp_path, ",".join(map(str, traces)), OPTIONS,
        before=BEFORE.replace("FAILS_AFTER", str(N_READS // (4 * N_DRIVES))),
        after=AFTER,
        array=Array(N_DRIVES, "enterprise", SIZE_MB, 1), timeout_s=1800 + N_READS / 1000,
    )  # fmt: skip
    summary, log = result.summary, result.log
    for name in ("data_errors", "unanswered", "reads_failed", "writes_failed"):
        assert summary[name] == 0, name

    chunks = [
        (np.full(len(chunk), drive), chunk.is_write, chunk.offset_bytes)
        for drive, path in enumerate(traces)
        for chunk in iolog.read_workload(path, "iolog")
    ]
    wanted = sorted_ios(*(np.concatenate(column) for column in zip(*chunks, strict=True)))
    logged = sorted_ios(log["home"], log["op"], log["offset_bytes"])
    np.testing.assert_array_equal(logged, wanted)

    is_read = log["op"] == replay_log.READ
    assert summary["reads"] == is_read.sum() == N_READS
    assert summary["writes"] == (~is_read).sum()
    assert summary["revoked"] == (log["revocations"] > 0).sum()
    assert summary["hedged"] == (log["flags"] & replay_log.HEDGED > 0).sum()
    served = np.bincount(log["served_by"][is_read], minlength=N_DRIVES)
    assert summary["reads_served_by"] == served.tolist()
    # Both rules of the failed drive may name the same request; the drive counts it once.
    assert summary["io_errors"] == sum(result.guest.numbers("faulted"))

    # A run in which nothing went wrong would prove nothing.
    assert min(summary[name] for name in ("revoked", "hedges_won", "io_errors")) > 50
    assert summary["failovers_on_error"] > 0
    injected = dict(line.split() for line in result.guest.text("injected").splitlines())
    print(injected)
    assert len(injected) == N_DRIVES + 1 and all(int(n) > 0 for n in injected.values())
    # The model decides how many reads go to the dead drive, but at least one in 64 does.
    assert int(injected["flash2/dead"]) > N_READS / 4 / 64

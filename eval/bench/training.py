# SPDX-License-Identifier: MIT
"""Time and memory of `linnapp train` on a synthetic recording of 2 million I/Os.

The recording has the events and the size of a real one, from a drive that is slow in bursts, so
that there is something to learn. It says nothing about the gain of the policy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from eval.bench import OUT, write
from eval.cache import ROOT

N_IOS = 2_000_000
_MEAN_IOPS = 3000

#: The synthetic drive serves one I/O after the other, and is slow for some milliseconds at times.
_SERVICE_NS, _SLOW_SERVICE_NS = 70_000, 900_000
_SLOW_EVERY_NS, _SLOW_NS = 200_000_000, 4_000_000

#: An event of blktrace.
EVENT = np.dtype(
    [("magic", "<u4"), ("sequence", "<u4"), ("time", "<u8"), ("sector", "<u8"), ("bytes", "<u4"),
     ("action", "<u4"), ("pid", "<u4"), ("device", "<u4"), ("cpu", "<u4"), ("error", "<u2"),
     ("pdu_len", "<u2")]
)  # fmt: skip
_MAGIC = 0x65617407
_QUEUE, _ISSUE, _COMPLETE = 1, 7, 8
_READ, _WRITE = 1 << 16, 1 << 17


def write_recording(path: Path, n_ios: int, seed: int) -> None:
    """Write a merged blktrace file of `n_ios` reads and writes at random times and places."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1e9 / _MEAN_IOPS, n_ios)).astype(np.int64)
    slow_at = np.sort(rng.integers(0, arrival[-1], max(1, int(arrival[-1]) // _SLOW_EVERY_NS)))
    before = np.searchsorted(slow_at, arrival, "right") - 1
    is_slow = (before >= 0) & (arrival - slow_at[np.maximum(before, 0)] < _SLOW_NS)
    service = np.where(is_slow, _SLOW_SERVICE_NS, _SERVICE_NS) * rng.uniform(0.8, 1.25, n_ios)
    # done[i] = max(arrival[i], done[i - 1]) + service[i], without a loop
    total = np.cumsum(service.astype(np.int64))
    done = total + np.maximum.accumulate(arrival - np.concatenate(([0], total[:-1])))

    events = np.zeros(3 * n_ios, EVENT)
    events["magic"], events["pid"], events["device"] = _MAGIC, 1, 8 << 20
    events["time"] = np.concatenate((arrival, arrival, done))
    events["sector"] = np.tile(rng.integers(0, 1 << 18, n_ios) * 8, 3)
    events["bytes"] = np.tile(4096 << rng.integers(0, 4, n_ios), 3)
    events["action"] = np.repeat((_QUEUE, _ISSUE, _COMPLETE), n_ios)
    events["action"] |= np.tile(np.where(rng.random(n_ios) < 0.4, _WRITE, _READ), 3).astype("<u4")
    events = events[np.argsort(events["time"], kind="stable")]
    events["sequence"] = np.arange(1, len(events) + 1)
    events.tofile(path)


def train() -> None:
    """Training of both kinds on 2 million I/Os (the paper: 15 to 20 minutes for a network)."""
    with tempfile.TemporaryDirectory(prefix=".linnapp.", dir=OUT) as name:
        trace = Path(name) / "az.blk"
        write_recording(trace, N_IOS, 1)
        kinds = ("network", "latency")
        results = {kind: _train_kind(kind, trace, Path(name) / kind) for kind in kinds}
    write("train", results)


def _train_kind(kind: str, trace: Path, models: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "linnapp", "train", "--kind", kind]
    command += ["--trace", str(trace), "-o", str(models)]
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
    # wait4() reports processor time and memory of this process and its children.
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    record = json.loads((models / "az.json").read_text())
    result = {
        "ios": N_IOS,
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "max_rss_mb": usage.ru_maxrss / 1024,
        "epochs": len(record.get("epochs", ())),
        **{key: record[key] for key in ("reads", "accuracy")},
    }
    print(
        f"{kind}: {N_IOS / 1e6:g} million I/Os, {record['reads']} reads: "
        f"{seconds:.0f} s, {result['processor_seconds']:.0f} s of processor time; "
        f"at most {result['max_rss_mb']:.0f} MB"
    )
    return result

# SPDX-License-Identifier: MIT
"""A fake lab: three drives that are slow in turn, and the result of every policy.

No guest boots and no model is trained; a rule gives the latency of each read by drive and time.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eval import cells, grid, intervals
from linnapp.lab.guests import Scenario
from linnapp.trace import convert as iolog
from linnapp.trace import replay_log

FAST_US, SLOW_US, FAILOVER_US = 100.0, 2000.0, 15.0
HEDGE_US = 300.0

#: Each drive is slow for this long in turn.
TURN_US = 500_000


def _latency_us(time_us: NDArray[Any], drive: NDArray[Any]) -> NDArray[np.float64]:
    slow = (time_us // TURN_US).astype(np.int64) % 4 == drive
    # All reads differ, so that medians and percentiles are meaningful.
    return np.where(slow, SLOW_US, FAST_US) * (1 + (time_us % 97) / 1000)


def _reads(trace: Path, drive: int) -> NDArray[Any]:
    chunks = list(iolog.read_iolog(trace))
    n = sum(len(chunk.time_us) for chunk in chunks)
    records = np.zeros(n, replay_log.RECORD)
    records["due_ns"] = np.concatenate([c.time_us for c in chunks]) * 1000
    records["offset_bytes"] = np.concatenate([c.offset_bytes for c in chunks])
    records["size_bytes"] = np.concatenate([c.size_bytes for c in chunks])
    records["op"] = np.concatenate([c.is_write for c in chunks])
    records["home"] = records["served_by"] = drive
    records["latency_ns"] = 20_000
    return records


def _serve(traces: Sequence[Path], policy: str, seed: int) -> NDArray[Any]:
    """Return the log of every I/O of a replay under a policy."""
    records = np.concatenate([_reads(trace, k) for k, trace in enumerate(traces)])
    reads = np.flatnonzero(records["op"] == replay_log.READ)
    home, time_us = records["home"][reads].astype(np.int64), records["due_ns"][reads] / 1000
    at_home, next_us = (_latency_us(time_us, (home + k) % 3) for k in (0, 1))
    served, latency_us = home, at_home
    if policy == "random":
        served = np.random.default_rng(seed).integers(0, 3, len(reads))
        latency_us = _latency_us(time_us, served)
    elif policy == "clone":
        latency_us = np.minimum(at_home, next_us)
    elif policy.startswith("hedge"):
        latency_us = np.where(
            at_home > HEDGE_US, np.minimum(at_home, HEDGE_US + next_us), at_home
        )  # fmt: skip
    elif policy.startswith("linnos") or policy == "verdict":
        slow = at_home > HEDGE_US
        served = np.where(slow, (home + 1) % 3, home)
        latency_us = np.where(slow, FAILOVER_US + next_us, at_home)
    elif policy == "oracle":
        all_us = np.stack([_latency_us(time_us, (home + k) % 3) for k in range(3)])
        latency_us = all_us.min(axis=0)
    records["served_by"][reads] = served
    records["latency_ns"][reads] = latency_us * 1000
    return records


def _write_log(path: Path, records: NDArray[Any]) -> None:
    header = np.zeros(1, replay_log.HEADER)
    header["magic"], header["version"] = replay_log.MAGIC, replay_log.VERSION
    header["record_bytes"], header["n_drives"] = replay_log.RECORD.itemsize, 3
    path.parent.mkdir(parents=True, exist_ok=True)
    order = np.argsort(records["due_ns"] + records["latency_ns"], kind="stable")
    path.write_bytes(header.tobytes() + records[order].tobytes())


def _record(scenario: Scenario, out_dir: Path) -> list[Path]:
    _write_log(out_dir / "baseline.log", _serve(scenario.traces, "baseline", 1))
    return []


def _part(records: NDArray[Any], options: Sequence[Any]) -> NDArray[Any]:
    """Return the part that --skip and --duration select."""
    given = dict(itertools.pairwise(options))
    skip_ns = round(float(given.get("--skip", 0)) * 1e9)
    end_ns = skip_ns + round(float(given.get("--duration", 1e6)) * 1e9)
    due_ns = records["due_ns"].astype(np.int64)
    records = records[(due_ns >= skip_ns) & (due_ns < end_ns)]
    records["due_ns"] -= np.uint64(skip_ns)
    return records


def _replay(scenario: Scenario, policy: str, out_dir: Path, **_: Any) -> dict[str, Any]:
    records = _part(_serve(scenario.traces, policy, scenario.seed), scenario.options)
    _write_log(out_dir / f"{policy}.log", records)
    reads = records[records["op"] == replay_log.READ]
    extra = {"clone": 1.0, "hedge": 0.25}.get(policy, 0.0)
    if "5%" in scenario.options:
        extra = 0.05
    mean_us = float(reads["latency_ns"].mean() / 1000)
    return {
        "policy": policy, "reads": len(reads), "writes": len(records) - len(reads),
        "response_mean_us": mean_us, "mean_us": mean_us, "extra_io_ratio": extra,
        "elapsed_s": float(records["due_ns"].max()) / 1e9,
        **dict.fromkeys(("p95_us", "p99_us", "p999_us"), mean_us), "false_submit_ratio": None,
        "revoked": 0, "hedged": 0, "late_ios": 0, "data_errors": 0, "io_errors": 0,
        "config": {"hedge_percentile": 95.0},
    }  # fmt: skip


def _train(traces: Sequence[Path], model_dir: Path, log: Path, *options: str) -> list[Path]:
    model_dir.mkdir(parents=True)
    for k in range(3):
        record = {
            "slow_ratio": 0.25,
            "threshold_us": 300,
            "false_submit_ratio": 0.01,
            "training_reads": 900 + k,
            "n_trees": 0 if k else 120,
        }
        (model_dir / f"flash{k}.linnos").touch()
        (model_dir / f"flash{k}.json").write_text(json.dumps(record))
    return []


def install(patch: pytest.MonkeyPatch) -> None:
    """Make configurations record, train and replay in the fake lab, each in about a second."""
    patch.setattr(intervals, "RESAMPLES", 300)
    for workload in grid.LENGTHS:
        patch.setitem(grid.LENGTHS, workload, grid.Length(1.0, 0.6, 0.3))
    patch.setitem(grid.LENGTHS, "bs-c", grid.Length(60, 40))
    patch.setattr(cells.guests, "record", _record)
    patch.setattr(cells.guests, "replay", _replay)
    patch.setattr(cells.workers, "train", _train)

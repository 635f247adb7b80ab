# SPDX-License-Identifier: MIT
"""Bursts in time under the policies: what the user sees, and when a drive is trusted again."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval import contenders, decisions, grid
from eval.cells import N_DRIVES, Replay, Replayed, read_log, replayed
from eval.experiment import Context
from eval.experiments.bursts.design import (
    ADDED_US,
    BINS,
    SETTINGS,
    SLOT_MS,
    WORKLOADS,
    bin_name,
    only_part,
)
from linnapp.trace.decisions import FAST, PROBE


class Enforced(NamedTuple):
    """A replay of bursts, and its numbers."""

    workload: str
    slot_ms: int
    policy: str
    #: A key of ``SETTINGS``, or "default".
    probing: str
    #: The result of :func:`judge_enforced`.
    numbers: dict[str, Any]
    result: Replayed


def slots(slot_ms: int, added_us: int) -> tuple[str, int]:
    """Bursts in time, one drive at a time, each drive's turn every third period."""
    every_ms = max(100, 2 * slot_ms)
    inject = (
        f"continuous:ratio=100%,op=read,latency_us={added_us},"
        f"slot_ms={slot_ms},every_ms={every_ms},rotate"
    )
    return inject, every_ms


def _write_settings(setting: str) -> str:
    writes = "".join(
        f" echo {value} >$drive/linnos/{name};" for name, value in SETTINGS[setting].items()
    )
    return f"for drive in /sys/block/flash*; do{writes} done\n"


def enforce(context: Context) -> list[Enforced]:
    """Replay bursts in time under the policies, and under LinnOS with other probing."""
    cells = grid.seed_a_workload(WORKLOADS, context.seeds)
    grid.prepare(context, cells)
    replays: list[tuple[int, str, Replay]] = []
    for cell, slot_ms in itertools.product(cells, SLOT_MS):
        inject = slots(slot_ms, ADDED_US)[0]
        for contender in contenders.named(contenders.INJECTED):
            traced = contender.kind == contenders.LINNOS
            replay = grid.replay_of(
                context.cache, cell, contender, inject=inject, keep_log=True,
                options=only_part(cell.workload),
                prepare=decisions.PREPARE if traced else "",
                finish=decisions.FINISH if traced else "",
            )  # fmt: skip
            replays.append((slot_ms, "default", replay))
        for probing in SETTINGS:
            replay = Replay(
                cell, "linnos", inject, keep_log=True, finish=decisions.FINISH,
                options=only_part(cell.workload),
                prepare=_write_settings(probing) + decisions.PREPARE,
            )  # fmt: skip
            replays.append((slot_ms, probing, replay))
    done = context.map(lambda r: replayed(context.cache, r[2]), replays, "enforcing")
    return [
        Enforced(
            replay.cell.workload, slot_ms, replay.policy, probing,
            judge_enforced(result, slot_ms), result,
        )
        for (slot_ms, probing, replay), result in zip(replays, done, strict=True)
    ]  # fmt: skip


def burst_of(
    start_us: NDArray[np.float64], drive: NDArray[np.int64], slot_ms: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.float64]]:
    """Locate each moment relative to the bursts of its drive.

    Parameters
    ----------
    start_us : array
        Moments, from the start of the replay.
    drive : int array

    Returns
    -------
    in_burst : bool array
        The drive is in its slot.
    number : int array
        How many slots of the drive had begun, less one; -1 before the first.
    since_end_us : float array
        Since the end of that slot; negative within it.
    """
    _, every_ms = slots(slot_ms, 1)
    period_us = every_ms * 1e3 * N_DRIVES
    since = start_us - drive * every_ms * 1e3
    number = np.floor(since / period_us).astype(np.int64)
    since_begin = since - number * period_us
    since_end = since_begin - slot_ms * 1e3
    return (number >= 0) & (since_end < 0), number, since_end


def judge_enforced(result: Replayed, slot_ms: int) -> dict[str, Any]:
    """Compute latencies inside bursts, and when the drive is trusted again."""
    log = read_log(result.log)
    home = log["home"].astype(np.int64)
    in_burst, number, _ = burst_of(log["start_us"], home, slot_ms)
    position = np.zeros(len(home), np.int64)
    count: dict[tuple[int, int], int] = {}
    for i in np.flatnonzero(in_burst):
        key = (int(home[i]), int(number[i]))
        count[key] = count.get(key, 0) + 1
        position[i] = count[key]
    anywhere = np.zeros(len(home), bool)
    for k in range(N_DRIVES):
        anywhere |= burst_of(log["start_us"], np.full(len(home), k), slot_ms)[0]
    calm_us = float(log["latency_us"][~anywhere].mean())
    bins = np.digitize(position, BINS) - 1
    row: dict[str, Any] = {
        "mean_us": float(log["latency_us"].mean()),
        "calm_us": calm_us,
        "burst_mean_us": float(log["latency_us"][in_burst].mean()),
        "excess_us": {
            bin_name(i): float(log["latency_us"][in_burst & (bins == i)].mean() - calm_us)
            for i in range(len(BINS))
            if np.any(in_burst & (bins == i))
        },
    }
    if (result.folder / "decisions.txt").exists():
        row.update(_trust(result, log, slot_ms))
    return row


def _trust(result: Replayed, log: dict[str, NDArray[Any]], slot_ms: int) -> dict[str, Any]:
    """Compute recovery after bursts, and count the probes."""
    table = decisions.read(result.folder)
    # Times of events begin with the boot, those of the log with the replay.
    same = (log["offset_bytes"] == table["offset_bytes"][0]) & (log["home"] == table["drive"][0])
    begin_us = float(log["start_us"][same].min() if np.any(same) else log["start_us"].min())
    time_us = table["time_us"] - (table["time_us"][0] - begin_us)
    drive = table["drive"].astype(np.int64)
    _, number, since_end = burst_of(time_us, drive, slot_ms)
    recovery, revoked_after = [], []
    for k in range(N_DRIVES):
        for m in range(int(number[drive == k].max()) + 1):
            after = (drive == k) & (number == m) & (since_end >= 0)
            if not np.any(after):
                continue
            fast = after & (table["reason"] == FAST)
            first_us = float(since_end[fast][0]) if np.any(fast) else None
            if first_us is None:
                revoked_after.append(int((after & table["revoked"]).sum()))
                recovery.append(float("inf"))
                continue
            recovery.append(first_us)
            revoked_after.append(int((after & table["revoked"] & (since_end < first_us)).sum()))
    probe = table["reason"] == PROBE
    latencies = [
        found
        for i in np.flatnonzero(probe)
        if (found := _latency_of(log, int(drive[i]), table["offset_bytes"][i], time_us[i]))
        is not None
    ]
    finite = [r for r in recovery if np.isfinite(r)]
    return {
        "bursts": len(recovery),
        "never_trusted": sum(not np.isfinite(r) for r in recovery),
        "recovery_us": finite,
        "revoked_after_burst": int(sum(revoked_after)),
        "probes": int(probe.sum()),
        "answered_probes": len(latencies),
        "answered_probes_us": float(np.sum(latencies)),
    }


def _latency_of(
    log: dict[str, NDArray[Any]], drive: int, offset_bytes: int, time_us: float
) -> float | None:
    """Return the latency of the read of a decision, or None if another drive answered it."""
    same = np.flatnonzero((log["offset_bytes"] == offset_bytes) & (log["served_by"] == drive))
    if not len(same):
        return None
    nearest = same[np.argmin(np.abs(log["start_us"][same] - time_us))]
    return float(log["latency_us"][nearest])

# SPDX-License-Identifier: MIT
"""Drives in `observe` mode: recall by position within a burst, and causes of misses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval import decisions, grid
from eval.cells import (
    PAPER_TRAINING,
    Cell,
    Replay,
    Replayed,
    read_log,
    replayed,
    trained,
    training_records,
)
from eval.experiment import Context
from eval.experiments.bursts.design import (
    ADDED_US,
    BINS,
    PATTERNS,
    WORKLOADS,
    bin_name,
    only_part,
)

#: The number of blocks of a drive's reads, which are resampled.
BLOCKS = 20


class Observed(NamedTuple):
    """The numbers of a replay in `observe` mode."""

    workload: str
    pattern: str
    trained_on: str
    #: The result of :func:`judge_observed`.
    numbers: dict[str, Any]


def _models(replay: Replay) -> tuple[Cell, tuple[str, ...]]:
    """Return the cell and the options with which a replay's models were trained."""
    return replay.models_of or replay.cell, replay.train_options


def observe(context: Context) -> list[Observed]:
    """Replay each pattern with decisions of models that were trained without and with bursts."""
    replays = []
    for clean in grid.seed_a_workload(WORKLOADS, context.seeds):
        for pattern, (options, _) in PATTERNS.items():
            inject = f"{options},op=read,latency_us={ADDED_US}"
            trainings = {
                "calm recording": (clean, PAPER_TRAINING),
                "calm recording, bursts added": (clean, ()),
                "recording with these bursts": (
                    replace(clean, train_inject=inject), PAPER_TRAINING,
                ),
            }  # fmt: skip
            for trained_on, (models_of, train_options) in trainings.items():
                replay = Replay(
                    clean, "linnos", inject, train_options, models_of, mode="observe",
                    options=only_part(clean.workload),
                    prepare=decisions.PREPARE, finish=decisions.FINISH, keep_log=True,
                )  # fmt: skip
                replays.append((pattern, trained_on, replay))
    work = context.work()
    trained_models = {
        models: work.add("training", partial(trained, context.cache, *models))
        for models in dict.fromkeys(_models(replay) for *_, replay in replays)
    }
    steps = [
        work.add("observing", partial(replayed, context.cache, r), [trained_models[_models(r)]])
        for *_, r in replays
    ]
    work.do()
    results = []
    for (pattern, trained_on, replay), step in zip(replays, steps, strict=True):
        records = training_records(trained(context.cache, *_models(replay)))
        thresholds = np.array([record["threshold_us"] for record in records], float)
        numbers = judge_observed(step.result, pattern, thresholds)
        results.append(Observed(replay.cell.workload, pattern, trained_on, numbers))
    return results


def match_observed(result: Replayed) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """Pair each decision of an observed replay with the read that it decided.

    In `observe` mode every read is decided once, by its home drive, and is
    served there: decisions and reads are the same sequence.

    Returns
    -------
    decisions, reads
        In the same order; of each read ``nth``, how many reads reached the drive before it.
    """
    table = decisions.read(result.folder)
    log = read_log(result.log)
    decision_order = np.lexsort((np.arange(len(table)), table["drive"]))
    read_order = np.lexsort((log["start_us"], log["home"]))
    table = table[decision_order]
    log = {name: column[read_order] for name, column in log.items()}
    drives, first = np.unique(log["home"], return_index=True)
    log["nth"] = np.arange(len(log["home"])) - first[np.searchsorted(drives, log["home"])]
    if len(table) != len(log["home"]):
        raise ValueError(f"{result.folder}: {len(table)} decisions, {len(log['home'])} reads")
    if np.any(table["drive"] != log["home"]):
        raise ValueError(f"{result.folder}: decisions and reads are of different drives")
    # Reads submitted in the same instant may stand in either order.
    off = np.flatnonzero(table["offset_bytes"] != log["offset_bytes"])
    for i in off:
        if table["offset_bytes"][i] == log["offset_bytes"][i]:
            continue
        near = np.arange(int(i) + 1, min(int(i) + 64, len(table)))
        same = near[
            (log["offset_bytes"][near] == table["offset_bytes"][i])
            & (log["home"][near] == table["drive"][i])
        ]
        if not len(same):
            raise ValueError(f"{result.folder}: decision {i} belongs to no read")
        for column in log.values():
            column[[i, same[0]]] = column[[same[0], i]]
    return table, log


def positions(n: NDArray[np.int64], pattern: str) -> NDArray[np.int64]:
    """Position within its burst of each slow read of a regular pattern; 0: not in a burst.

    `n` says how many reads reached the drive before this one, since injection began.
    """
    in_a_row = PATTERNS[pattern][1]
    period = in_a_row * 10
    phase = (n + 1) % period if in_a_row == 1 else n % period
    if in_a_row == 1:
        return np.where(phase == 0, 1, 0)
    return np.where(phase < in_a_row, phase + 1, 0)


def judge_observed(
    result: Replayed, pattern: str, thresholds: NDArray[np.float64]
) -> dict[str, Any]:
    """Count found and missed slow reads by position, and the misses by cause."""
    table, log = match_observed(result)
    drive = table["drive"].astype(int)
    latency_us = log["device_latency_us"].astype(float)
    added_us = float(result.replay.inject.split("latency_us=")[1]) if result.replay.inject else 0.0
    slow = latency_us > thresholds[drive]
    predicted = table["predicted_slow"]
    n = log["nth"]
    if PATTERNS[pattern][1]:
        position = positions(n, pattern)
    else:
        # Random: the drive's choice is unknown here, but the latency shows it.
        position = np.where(latency_us >= added_us, 1, 0)
        for i in range(1, len(position)):
            if position[i] and drive[i] == drive[i - 1]:
                position[i] = position[i - 1] + 1
    in_burst = position > 0
    bins = np.digitize(position, BINS) - 1
    by_position = {}
    for i in range(len(BINS)):
        at = in_burst & (bins == i)
        if np.any(at):
            by_position[bin_name(i)] = {
                "reads": int(at.sum()),
                "slow": int((at & slow).sum()),
                "found": int((at & slow & predicted).sum()),
            }
    # Neighbours are found or missed together, so blocks of reads are resampled.
    block = np.concatenate(
        [k * BLOCKS + np.arange(c) * BLOCKS // c for k, c in enumerate(np.bincount(drive)) if c]
    )
    by_block = {
        name: np.bincount(block, of).astype(int).tolist()
        for name, of in (("slow", in_burst & slow), ("found", in_burst & slow & predicted))
    }
    hist_slow = (table["hist_latency_us"] > thresholds[drive][:, None]).sum(axis=1)
    missed = in_burst & slow & ~predicted
    return {
        "reads": len(table),
        "slow_in_bursts": int((in_burst & slow).sum()),
        "found": int((in_burst & slow & predicted).sum()),
        "right": int((slow == predicted).sum()),
        "false_revokes": int((~slow & predicted).sum()),
        "by_position": by_position,
        "by_block": by_block,
        "missed": int(missed.sum()),
        **_causes(missed, position == 1, _blind(table, log, position), hist_slow),
    }


def _blind(
    table: NDArray[Any], log: dict[str, NDArray[Any]], position: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which reads were submitted before the first read of their burst had completed."""
    drive = table["drive"].astype(int)
    first = np.maximum.accumulate(np.where(position == 1, np.arange(len(position)), -1))
    known = (position > 0) & (first >= 0)
    known &= drive[np.maximum(first, 0)] == drive
    completed_us = log["start_us"][first] + log["device_latency_us"][first]
    return np.asarray(known & (log["start_us"] < completed_us))


#: Why a slow read was not refused. Each is counted under the first cause that applies.
CAUSES = {
    "first": "the first slow read of its burst",
    "blind": "a later one, submitted before the first had come back",
    "no sign": "none of the last four reads was slow",
    "few signs": "one or two of the last four were slow",
    "clear signs": "three or four of the last four were slow",
}


def _causes(
    missed: NDArray[np.bool_],
    first: NDArray[np.bool_],
    blind: NDArray[np.bool_],
    hist_slow: NDArray[np.int64],
) -> dict[str, int]:
    seeing = missed & ~first & ~blind
    return {
        "first": int((missed & first).sum()),
        "blind": int((missed & ~first & blind).sum()),
        "no sign": int((seeing & (hist_slow == 0)).sum()),
        "few signs": int((seeing & (hist_slow >= 1) & (hist_slow <= 2)).sum()),
        "clear signs": int((seeing & (hist_slow >= 3)).sum()),
    }

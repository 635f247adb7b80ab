# SPDX-License-Identifier: MIT
"""Drives in `observe` mode: recall and false submits by position, and what was misjudged."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

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
    TRAINED_ADDED_US,
    WORKLOADS,
    bin_name,
    only_part,
)

#: Stretches that a drive's reads are cut into.
BLOCKS = 20


def _inject(pattern: str, added_us: int) -> str:
    return f"{PATTERNS[pattern][0]},op=read,latency_us={added_us}"


def _models(replay: Replay) -> tuple[Cell, tuple[str, ...]]:
    """Of which cell a replay's models are, and how they were trained."""
    return replay.models_of or replay.cell, replay.train_options


def observe(context: Context) -> list[dict[str, Any]]:
    """Every pattern and added latency, decided by models trained without and with bursts."""
    replays = []
    for clean in grid.seed_a_workload(WORKLOADS, context.seeds):
        for pattern in PATTERNS:
            for added_us in ADDED_US:
                inject = _inject(pattern, added_us)
                kinds = {
                    "calm recording": (clean, PAPER_TRAINING),
                    "calm recording, bursts added": (clean, ()),
                }
                if added_us == TRAINED_ADDED_US:
                    injected = replace(clean, train_inject=inject)
                    kinds["recording with these bursts"] = (injected, PAPER_TRAINING)
                for kind, (models_of, options) in kinds.items():
                    replay = Replay(
                        clean, "linnos", inject, options, models_of, mode="observe",
                        options=only_part(clean.workload),
                        prepare=decisions.PREPARE, finish=decisions.FINISH, keep_log=True,
                    )  # fmt: skip
                    replays.append((pattern, added_us, kind, replay))
    work = context.work()
    trainings = {
        models: work.add("training", partial(trained, context.cache, *models))
        for models in dict.fromkeys(_models(replay) for *_, replay in replays)
    }
    steps = [
        work.add("observing", partial(replayed, context.cache, r), [trainings[_models(r)]])
        for *_, r in replays
    ]
    work.do()
    results = []
    for (pattern, added_us, kind, replay), step in zip(replays, steps, strict=True):
        result = step.result
        models = trained(context.cache, *_models(replay))
        records = training_records(models)
        thresholds = np.array([record["threshold_us"] for record in records], float)
        results.append(
            {
                **grid.where(replay.cell),
                "pattern": pattern,
                "added_us": added_us,
                "trained_on": kind,
                "threshold_us": thresholds.tolist(),
                **judge_observed(result, pattern, thresholds),
            }
        )
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
    """Recall and false submits by position, and causes of the misjudgements."""
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
        # By chance: the drive's dice are not seen from here, but its result is.
        position = np.where(latency_us >= added_us, 1, 0)
        for i in range(1, len(position)):
            if position[i] and drive[i] == drive[i - 1]:
                position[i] = position[i - 1] + 1
    in_burst = position > 0
    bins = np.digitize(position, BINS) - 1
    by_position = []
    for i in range(len(BINS)):
        at = in_burst & (bins == i)
        if np.any(at):
            hit = at & slow
            by_position.append(
                {
                    "position": bin_name(i),
                    "reads": int(at.sum()),
                    "slow": int(hit.sum()),
                    "found": int((hit & predicted).sum()),
                    "mean_us": float(latency_us[at].mean()),
                }
            )
    # Neighbours are found or missed together: what can be drawn anew are stretches of reads.
    block = np.concatenate(
        [k * BLOCKS + np.arange(c) * BLOCKS // c for k, c in enumerate(np.bincount(drive)) if c]
    )
    by_block = {
        name: np.bincount(block, of).astype(int).tolist()
        for name, of in (("slow", in_burst & slow), ("found", in_burst & slow & predicted))
    }
    hist_slow = (table["hist_latency_us"] > thresholds[drive][:, None]).sum(axis=1)
    missed = in_burst & slow & ~predicted
    alarm = ~slow & predicted
    return {
        "reads": len(table),
        "injected": int(in_burst.sum()),
        "injected_and_slow": int((in_burst & slow).sum()),
        "found": int((in_burst & slow & predicted).sum()),
        "right": int((slow == predicted).sum()),
        "false_revokes": int(alarm.sum()),
        "by_position": by_position,
        "by_block": by_block,
        # What the network was shown of the reads that it let through wrongly.
        "missed": int(missed.sum()),
        "missed_causes": _causes(missed, position == 1, _blind(table, log, position), hist_slow),
        "alarm_by_slow_in_history": [int((alarm & (hist_slow == k)).sum()) for k in range(5)],
    }


def _blind(
    table: NDArray[Any], log: dict[str, NDArray[Any]], position: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Reads of a burst submitted before its first read had completed: nothing could show it."""
    drive = table["drive"].astype(int)
    first = np.maximum.accumulate(np.where(position == 1, np.arange(len(position)), -1))
    known = (position > 0) & (first >= 0)
    known &= drive[np.maximum(first, 0)] == drive
    completed_us = log["start_us"][first] + log["device_latency_us"][first]
    return np.asarray(known & (log["start_us"] < completed_us))


#: Why a slow read was let through, each read under the first that holds.
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

# SPDX-License-Identifier: MIT
"""Inside a burst: what LinnOS knows at the first, second, third ... slow read.

Two parts. *Observed*: drives in `observe` mode, which decide and never revoke,
so that the truth of every decision is known: recall and false submits by
position within the burst, and what the misjudged reads had in common.
*Enforced*: bursts in time that wander over the array: what the user sees at
each position, how long a drive stays distrusted after its burst, and what
probing it costs and saves.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from eval import decisions, figures
from eval.cells import (
    N_DRIVES,
    PAPER_TRAINING,
    Cell,
    Replay,
    Replayed,
    read_log,
    replayed,
    trained,
    training_records,
)
from eval.experiment import NOT_AVAILABLE, Context, Experiment, Table
from eval.experiments import fig08
from eval.gain import percent

#: Injection patterns, a tenth of the reads slow in each: name, options of the
#: replayer, and how many slow reads come in a row (0: by chance).
PATTERNS = {
    "random 10 %": ("random:ratio=10%", 0),
    "every 10th": ("interval:interval=10", 1),
    "10 in a row": ("continuous:ratio=10%,period_ios=100", 10),
    "100 in a row": ("continuous:ratio=10%,period_ios=1000", 100),
    "400 in a row": ("continuous:ratio=10%,period_ios=4000", 400),
}
ADDED_US = (100, 1000, 5000)
TRAINED_ADDED_US = 1000

SLOT_MS = (10, 50, 200)
SLOT_ADDED_US = (300, 1000)
POLICIES = ("baseline", "hedge", "heuristic-adv", "linnos", "linnos-hl", "oracle")

#: Knobs of the kernel's policy: how a distrusted drive is probed (0: never for this reason),
#: and the stall rule, which refuses reads while those in flight do not come back.
SETTINGS = {
    "no probes": {"probe_after_us": 0, "probe_after_revokes": 0},
    "after 10 revokes": {"probe_after_us": 0, "probe_after_revokes": 10},
    "after 100 revokes": {"probe_after_us": 0, "probe_after_revokes": 100},
    "after 1000 revokes": {"probe_after_us": 0, "probe_after_revokes": 1000},
    "after 1 ms": {"probe_after_us": 1_000, "probe_after_revokes": 0},
    "after 10 ms": {"probe_after_us": 10_000, "probe_after_revokes": 0},
    "after 100 ms": {"probe_after_us": 100_000, "probe_after_revokes": 0},
    "stall rule, 300 us": {"stall_us": 300},
}

#: Positions within a burst, first of each bin; the last bin is open.
BINS = (1, 2, 3, 4, 5, 6, 11, 21, 51, 101, 201)

#: Each workload on both arrays, with a repeat's seed of its own.
WORKLOADS = ("azure", "bingselect")

PARAMETERS: dict[str, Any] = {
    "workloads": WORKLOADS,
    "arrays": ("consumer", "enterprise"),
    **{key: fig08.PARAMETERS[key] for key in ("train_s", "replay_s")},
    "patterns": PATTERNS,
    "added_us": ADDED_US,
    "trained_added_us": TRAINED_ADDED_US,
    "slot_ms": SLOT_MS,
    "slot_added_us": SLOT_ADDED_US,
    "policies": POLICIES,
    "settings": SETTINGS,
}


def bin_name(i: int) -> str:
    """How a bin of positions is written."""
    if i + 1 == len(BINS):
        return f"{BINS[i]}-"
    last = BINS[i + 1] - 1
    return str(BINS[i]) if last == BINS[i] else f"{BINS[i]}-{last}"


def _inject(pattern: str, added_us: int) -> str:
    return f"{PATTERNS[pattern][0]},op=read,latency_us={added_us}"


def cells(seeds: tuple[int, ...]) -> list[Cell]:
    """The cells: drives, workload and array differ from one to the next."""
    return [
        fig08.cell(workload, array, seed)
        for workload, seed in zip(WORKLOADS, seeds, strict=False)
        for array in PARAMETERS["arrays"]
    ]


def _where(cell: Cell) -> dict[str, Any]:
    return {"workload": cell.workload, "array": cell.array, "seed": cell.seed}


def run(context: Context) -> dict[str, Any]:
    """Both parts."""
    observed = observe(context)
    enforced, probing, runs = enforce(context)
    return {"observed": observed, "enforced": enforced, "probing": probing, "runs": runs}


# --- Observed ------------------------------------------------------------------


def observe(context: Context) -> list[dict[str, Any]]:
    """Every pattern and added latency, decided by models trained without and with bursts."""
    replays = []
    for clean in cells(context.seeds):
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
                        prepare=decisions.PREPARE, finish=decisions.FINISH, keep_log=True,
                    )  # fmt: skip
                    replays.append((pattern, added_us, kind, replay))
    trainings = list(dict.fromkeys((r.models_of or r.cell, r.train_options) for *_, r in replays))
    context.map(lambda job: trained(context.cache, *job), trainings, "training")
    done = context.map(lambda r: replayed(context.cache, r[3]), replays, "observing")
    results = []
    for (pattern, added_us, kind, replay), result in zip(replays, done, strict=True):
        models = trained(context.cache, replay.models_of or replay.cell, replay.train_options)
        records = training_records(models)
        thresholds = np.array([record["threshold_us"] for record in records], float)
        results.append(
            {
                **_where(replay.cell),
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
    """
    table = decisions.read(result.folder)
    log = read_log(result.log)
    decision_order = np.lexsort((np.arange(len(table)), table["drive"]))
    read_order = np.lexsort((log["start_us"], log["home"]))
    table = table[decision_order]
    log = {name: column[read_order] for name, column in log.items()}
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

    Parameters
    ----------
    n : array
        How many reads reached the drive before this one, since injection began.
    pattern : str
        A key of ``PATTERNS`` that is not random.
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
    n = np.concatenate([np.arange(np.count_nonzero(drive == k)) for k in range(N_DRIVES)])
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


def _ratio(part: NDArray[np.bool_], of: NDArray[np.bool_]) -> float | None:
    total = int(of.sum())
    return int(part.sum()) / total if total else None


# --- Enforced ------------------------------------------------------------------


def _slots(slot_ms: int, added_us: int) -> tuple[str, int]:
    """Bursts in time, one drive at a time, each drive's turn every third period."""
    every_ms = max(100, 2 * slot_ms)
    inject = (
        f"continuous:ratio=100%,op=read,latency_us={added_us},"
        f"slot_ms={slot_ms},every_ms={every_ms},rotate"
    )
    return inject, every_ms


def _write_knobs(setting: str) -> str:
    writes = "".join(
        f" echo {value} >$drive/linnos/{knob};" for knob, value in SETTINGS[setting].items()
    )
    return f"for drive in /sys/block/flash*; do{writes} done\n"


def enforce(
    context: Context,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Bursts in time under the policies, and LinnOS with other probing."""
    replays: list[tuple[int, int, str, Replay]] = []
    for cell, slot_ms in itertools.product(cells(context.seeds), SLOT_MS):
        for added_us in SLOT_ADDED_US:
            inject, _ = _slots(slot_ms, added_us)
            for policy in POLICIES:
                traced = policy.startswith("linnos")
                replay = Replay(
                    cell, policy, inject, keep_log=True,
                    prepare=decisions.PREPARE if traced else "",
                    finish=decisions.FINISH if traced else "",
                )  # fmt: skip
                replays.append((slot_ms, added_us, "default", replay))
        inject, _ = _slots(slot_ms, TRAINED_ADDED_US)
        for probing in SETTINGS:
            replay = Replay(
                cell, "linnos", inject, keep_log=True, finish=decisions.FINISH,
                prepare=_write_knobs(probing) + decisions.PREPARE,
            )  # fmt: skip
            replays.append((slot_ms, TRAINED_ADDED_US, probing, replay))
    done = context.map(lambda r: replayed(context.cache, r[3]), replays, "enforcing")
    enforced: list[dict[str, Any]] = []
    probing_rows: list[dict[str, Any]] = []
    for (slot_ms, added_us, probing, replay), result in zip(replays, done, strict=True):
        row = {
            **_where(replay.cell),
            "slot_ms": slot_ms,
            "added_us": added_us,
            "policy": replay.policy,
            "probing": probing,
            **judge_enforced(result, slot_ms),
        }
        (enforced if probing == "default" else probing_rows).append(row)
    runs = [result.summary for result in done]
    return enforced, probing_rows, runs


def burst_of(
    start_us: NDArray[np.float64], drive: NDArray[np.int64], slot_ms: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.float64]]:
    """Where each moment stands towards its drive's bursts.

    Parameters
    ----------
    start_us : array
        Moments, from the start of the replay.
    drive : int array
    slot_ms : int

    Returns
    -------
    in_burst : bool array
        The drive is in its slot.
    number : int array
        How many slots of the drive had begun, less one; -1 before the first.
    since_end_us : float array
        Since the end of that slot; negative within it.
    """
    _, every_ms = _slots(slot_ms, 1)
    period_us = every_ms * 1e3 * N_DRIVES
    since = start_us - drive * every_ms * 1e3
    number = np.floor(since / period_us).astype(np.int64)
    since_begin = since - number * period_us
    since_end = since_begin - slot_ms * 1e3
    return (number >= 0) & (since_end < 0), number, since_end


def judge_enforced(result: Replayed, slot_ms: int) -> dict[str, Any]:
    """What the user sees inside bursts, and how the drive is trusted again."""
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
        "burst_reads": int(in_burst.sum()),
        "burst_mean_us": float(log["latency_us"][in_burst].mean()),
        "reads": len(home),
        "by_position": [
            {
                "position": bin_name(i),
                "reads": int((in_burst & (bins == i)).sum()),
                "excess_us": float(log["latency_us"][in_burst & (bins == i)].mean() - calm_us),
            }
            for i in range(len(BINS))
            if np.any(in_burst & (bins == i))
        ],
    }
    if (result.folder / "decisions.txt").exists():
        row.update(_trust(result, log, slot_ms))
    return row


def _trust(result: Replayed, log: dict[str, NDArray[Any]], slot_ms: int) -> dict[str, Any]:
    """Recovery after bursts, and the probes."""
    table = decisions.read(result.folder)
    time_us = table["time_us"] - (table["time_us"][0] - log["start_us"].min())
    drive = table["drive"].astype(np.int64)
    in_burst, number, since_end = burst_of(time_us, drive, slot_ms)
    recovery, revoked_after = [], []
    for k in range(N_DRIVES):
        for m in range(int(number[drive == k].max()) + 1):
            after = (drive == k) & (number == m) & (since_end >= 0)
            if not np.any(after):
                continue
            fast = after & (table["reason"] == decisions.FAST)
            first_us = float(since_end[fast][0]) if np.any(fast) else None
            if first_us is None:
                revoked_after.append(int((after & table["revoked"]).sum()))
                recovery.append(float("inf"))
                continue
            recovery.append(first_us)
            revoked_after.append(int((after & table["revoked"] & (since_end < first_us)).sum()))
    probe = table["reason"] == decisions.PROBE
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
        "revoked_in_burst_ratio": _ratio(in_burst & table["revoked"], in_burst),
        "revoked_outside_ratio": _ratio(~in_burst & table["revoked"], ~in_burst),
        "probes": int(probe.sum()),
        "probes_in_burst": int((probe & in_burst).sum()),
        "answered_probes": len(latencies),
        "answered_probes_us": float(np.sum(latencies)),
    }


def _latency_of(
    log: dict[str, NDArray[Any]], drive: int, offset_bytes: int, time_us: float
) -> float | None:
    """Latency of the read that a decision was about; None when another drive answered it."""
    same = np.flatnonzero((log["offset_bytes"] == offset_bytes) & (log["served_by"] == drive))
    if not len(same):
        return None
    nearest = same[np.argmin(np.abs(log["start_us"][same] - time_us))]
    return float(log["latency_us"][nearest])


# --- In words --------------------------------------------------------------------


def pool_observed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up the cells: one row a pattern, added latency and training."""
    pooled = []
    for key, same in _grouped(rows, ("pattern", "added_us", "trained_on")):
        total = {
            name: sum(row[name] for row in same)
            for name in ("reads", "injected_and_slow", "found", "right", "false_revokes", "missed")
        }
        at: dict[str, dict[str, Any]] = {}
        for row in same:
            for p in row["by_position"]:
                into = at.setdefault(p["position"], {"reads": 0, "slow": 0, "found": 0})
                for name in into:
                    into[name] += p[name]
        names = sorted(at, key=lambda name: int(name.split("-")[0]))
        pooled.append(
            {
                **key,
                **total,
                "recall": _quotient(total["found"], total["injected_and_slow"]),
                "accuracy": total["right"] / total["reads"],
                "false_revoke_ratio": total["false_revokes"] / total["reads"],
                "missed_causes": {
                    name: sum(row["missed_causes"][name] for row in same) for name in CAUSES
                },
                "by_position": [
                    {
                        "position": name,
                        **at[name],
                        "recall": _quotient(at[name]["found"], at[name]["slow"]),
                        "false_submit_ratio": _quotient(
                            at[name]["slow"] - at[name]["found"], at[name]["reads"]
                        ),
                    }
                    for name in names
                ],
            }
        )
    return pooled


def pool_enforced(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Average the cells: one row a length of burst, added latency, policy and setting.

    Latencies are averages of the cells' own, so that a cell with more reads counts no more;
    numbers of bursts, refusals and probes are sums.
    """
    pooled = []
    for key, same in _grouped(rows, ("slot_ms", "added_us", "policy", "probing")):
        at: dict[str, list[float]] = {}
        for row in same:
            for p in row["by_position"]:
                at.setdefault(p["position"], []).append(p["excess_us"])
        row = {
            **key,
            **{
                name: float(np.mean([row[name] for row in same]))
                for name in ("mean_us", "burst_mean_us", "calm_us")
            },
            "by_position": [
                {"position": name, "excess_us": float(np.mean(at[name]))}
                for name in sorted(at, key=lambda name: int(name.split("-")[0]))
            ],
        }
        if all("probes" in one for one in same):
            for name in ("bursts", "never_trusted", "revoked_after_burst", "probes",
                         "probes_in_burst", "answered_probes", "answered_probes_us"):  # fmt: skip
                row[name] = sum(one[name] for one in same)
            recovery = [value for one in same for value in one["recovery_us"]]
            row["recovery_us"] = {
                name: float(np.percentile(recovery, q)) if recovery else None
                for name, q in (("p50", 50), ("p90", 90))
            }
            row["probe_mean_us"] = _quotient(row["answered_probes_us"], row["answered_probes"])
        pooled.append(row)
    return pooled


def _grouped(
    rows: list[dict[str, Any]], names: tuple[str, ...]
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return [(dict(zip(names, key, strict=True)), same) for key, same in groups.items()]


def _quotient(part: float, of: float) -> float | None:
    return part / of if of else None


def pooled(data: dict[str, Any]) -> dict[str, Any]:
    """The data with its cells put together."""
    return {
        "observed": pool_observed(data["observed"]),
        "enforced": pool_enforced(data["enforced"]),
        "probing": pool_enforced(data["probing"]),
    }


def table(data: dict[str, Any]) -> dict[str, Table]:
    """All of it, by part."""
    by_cell = [
        (
            f"{row['workload']} on {row['array']}", row["pattern"], str(row["added_us"]),
            row["trained_on"], str(row["injected_and_slow"]),
            _percent(_quotient(row["found"], row["injected_and_slow"])),
            percent(row["right"] / row["reads"]), percent(row["false_revokes"] / row["reads"]),
        )
        for row in data["observed"]
    ]  # fmt: skip
    enforced_by_cell = [
        (
            f"{row['workload']} on {row['array']}", str(row["slot_ms"]), str(row["added_us"]),
            row["policy"], row["probing"], f"{row['mean_us']:.1f}", f"{row['burst_mean_us']:.1f}",
            f"{row['calm_us']:.1f}",
        )
        for row in (*data["enforced"], *data["probing"])
    ]  # fmt: skip
    data = pooled(data)
    observed = []
    for row in data["observed"]:
        for at in row["by_position"]:
            observed.append(
                (
                    row["pattern"], str(row["added_us"]), row["trained_on"], at["position"],
                    str(at["reads"]), str(at["slow"]), _percent(at["recall"]),
                    _percent(at["false_submit_ratio"]),
                )
            )  # fmt: skip
    causes = [
        (
            row["pattern"], str(row["added_us"]), row["trained_on"],
            str(row["injected_and_slow"]), _percent(row["recall"]), str(row["missed"]),
            *(str(n) for n in row["missed_causes"].values()),
            percent(row["accuracy"]), _percent(row["false_revoke_ratio"]),
        )
        for row in data["observed"]
    ]  # fmt: skip
    enforced = []
    for row in data["enforced"]:
        at = {p["position"]: f"{p['excess_us']:.0f}" for p in row["by_position"]}
        enforced.append(
            (
                str(row["slot_ms"]), str(row["added_us"]), row["policy"],
                *(at.get(bin_name(i), "-") for i in range(len(BINS))), f"{row['mean_us']:.1f}",
            )
        )  # fmt: skip
    probing = [
        (
            str(row["slot_ms"]), row["probing"], f"{row['mean_us']:.1f}",
            f"{row['burst_mean_us']:.1f}", _us(row["recovery_us"]["p50"]),
            _us(row["recovery_us"]["p90"]), str(row["never_trusted"]), str(row["bursts"]),
            str(row["revoked_after_burst"]), str(row["probes"]), _us(row["probe_mean_us"]),
        )
        for row in [r for r in data["enforced"] if r["policy"] == "linnos"] + data["probing"]
        if row["added_us"] == TRAINED_ADDED_US
    ]  # fmt: skip
    return {
        "Observed: recall and false submits by position within the burst": Table(
            ("pattern", "added us", "trained on", "position", "reads", "slow", "recall",
             "false submits"),
            tuple(observed),
        ),
        "Observed: why slow reads of bursts were let through": Table(
            ("pattern", "added us", "trained on", "slow in bursts", "recall", "missed", *CAUSES,
             "accuracy", "false revokes"),
            tuple(causes),
        ),
        "Enforced: mean latency above that of calm times (us), by position": Table(
            ("slot ms", "added us", "policy", *(bin_name(i) for i in range(len(BINS))), "mean us"),
            tuple(enforced),
        ),
        "Enforced: until the drive is trusted again, by setting (linnos, 1000 us added)": Table(
            ("slot ms", "setting", "mean us", "in bursts us", "trusted again p50 us", "p90 us",
             "never", "bursts", "revoked in that time", "probes", "mean us of a probe"),
            tuple(probing),
        ),
        "Observed, every cell": Table(
            ("workload and array", "pattern", "added us", "trained on", "slow in bursts", "recall",
             "accuracy", "false revokes"),
            tuple(by_cell),
        ),
        "Enforced, every cell": Table(
            ("workload and array", "slot ms", "added us", "policy", "setting", "mean us",
             "in bursts us", "calm us"),
            tuple(enforced_by_cell),
        ),
    }  # fmt: skip


def _percent(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def reading(data: dict[str, Any]) -> str:
    """Where recall is lost, and why."""
    where = dict.fromkeys(f"{row['workload']} on {row['array']}" for row in data["observed"])
    data = pooled(data)
    parts = [
        f"{len(where)} cells: {', '.join(where)}. Reads are counted over all of them, latencies "
        "are averages of the cells'; the tables have each cell."
    ]
    for kind in dict.fromkeys(row["trained_on"] for row in data["observed"]):
        lines = []
        for row in data["observed"]:
            if row["trained_on"] != kind or row["added_us"] != TRAINED_ADDED_US:
                continue
            recalls = {p["position"]: _percent(p["recall"]) for p in row["by_position"]}
            lines.append(
                f"- {row['pattern']}: recall {_percent(row['recall'])} over all "
                f"{row['injected_and_slow']} slow reads of bursts; by position "
                + ", ".join(f"{p}: {r}" for p, r in recalls.items())
                + f"; false revokes {_percent(row['false_revoke_ratio'])} of all reads"
            )
        parts.append(
            f"Models trained on a {kind}, {TRAINED_ADDED_US} us added:\n\n" + "\n".join(lines)
        )
    parts.append(
        "Why slow reads were let through, each under the first cause that holds ("
        + "; ".join(f"*{name}*: {what}" for name, what in CAUSES.items())
        + "):\n\n"
        + "\n".join(_cause_line(data, pattern, kind) for pattern, kind in _pairs(data))
    )
    parts.append(
        "*First* is a limit of the pattern: nothing that has completed tells of a burst to come, "
        "and slow reads by chance or one at a time are all firsts. *Blind* is a limit of the "
        "features: only completed reads tell, so a burst stays unseen for as long as its reads "
        "take. To see it earlier the network would need the age of the reads in flight. *Clear "
        "signs* is a fault of the weights: the burst stood in the last latencies, but the network "
        "had learnt from none like it."
    )
    for row in data["enforced"]:
        if row["policy"] == "linnos" and row["added_us"] == TRAINED_ADDED_US:
            same = {
                r["policy"]: r
                for r in data["enforced"]
                if (r["slot_ms"], r["added_us"]) == (row["slot_ms"], row["added_us"])
            }
            recovery = row["recovery_us"]
            parts.append(
                f"Bursts of {row['slot_ms']} ms, {row['added_us']} us added: mean inside bursts "
                + ", ".join(f"`{p}` {r['burst_mean_us']:.0f} us" for p, r in same.items())
                + f". After the burst `linnos` trusts the drive again in {_us(recovery['p50'])} us "
                f"(median; p90 {_us(recovery['p90'])} us), {row['never_trusted']} of "
                f"{row['bursts']} times not before the drive's next burst; "
                f"{row['revoked_after_burst']} tries were refused in that time, "
                f"{row['probes']} probes were sent ({row['probes_in_burst']} of them into a burst)."
            )
    for slot_ms in SLOT_MS:
        rows = [row for row in data["probing"] if row["slot_ms"] == slot_ms]
        if rows:
            best = min(rows, key=lambda row: row["mean_us"])
            never = next(row for row in rows if row["probing"] == "no probes")
            parts.append(
                f"Probing at {slot_ms} ms: without probes {never['mean_us']:.1f} us on average; "
                f"best of "
                f"the settings tried: {best['probing']} with {best['mean_us']:.1f} us and "
                f"{best['probes']} probes."
            )
    return "\n\n".join(parts)


def _pairs(data: dict[str, Any]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["pattern"], row["trained_on"]) for row in data["observed"]))


def _cause_line(data: dict[str, Any], pattern: str, kind: str) -> str:
    rows = [
        row for row in data["observed"] if (row["pattern"], row["trained_on"]) == (pattern, kind)
    ]
    missed = sum(row["missed"] for row in rows)
    slow = sum(row["injected_and_slow"] for row in rows)
    causes = {
        name: sum(row["missed_causes"][name] for row in rows) / max(missed, 1) for name in CAUSES
    }
    return f"- {pattern}, {kind}: {missed} of {slow} missed; " + ", ".join(
        f"{name} {percent(share, 0)}" for name, share in causes.items()
    )


def draw(data: dict[str, Any], path: Path) -> None:
    """Recall by position, excess latency by position, recovery by probing."""
    data = pooled(data)
    figure, panels = plt.subplots(2, 3, figsize=(19, 9))
    added_us = 1000
    kinds = list(dict.fromkeys(row["trained_on"] for row in data["observed"]))
    for axes, kind in zip(panels[0], kinds, strict=False):
        for row in data["observed"]:
            if row["trained_on"] != kind or row["added_us"] != added_us:
                continue
            points = [p for p in row["by_position"] if p["recall"] is not None]
            axes.plot(
                [p["position"] for p in points], [p["recall"] for p in points],
                marker="o", label=row["pattern"],
            )  # fmt: skip
        axes.set_title(f"trained on a {kind}, {added_us} us added", fontsize=9)
        axes.set_xlabel("position within the burst")
        axes.set_ylabel("slow reads predicted slow")
        axes.set_ylim(0, 1.02)
        axes.tick_params(axis="x", rotation=30)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    axes = panels[1][0]
    slots = sorted({row["slot_ms"] for row in data["enforced"]})
    slot_ms = slots[len(slots) // 2]
    for row in data["enforced"]:
        if row["slot_ms"] == slot_ms and row["added_us"] == added_us:
            axes.plot(
                [p["position"] for p in row["by_position"]],
                [p["excess_us"] for p in row["by_position"]],
                label=row["policy"], marker=".", **figures.style(row["policy"]),
            )  # fmt: skip
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_title(f"bursts of {slot_ms} ms, {added_us} us added, enforced", fontsize=9)
    axes.set_xlabel("position within the burst")
    axes.set_ylabel("mean latency above calm times (us)")
    axes.tick_params(axis="x", rotation=30)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    axes = panels[1][1]
    settings = list(dict.fromkeys(row["probing"] for row in data["probing"]))
    width = 0.8 / max(len(slots), 1)
    for j, slot in enumerate(slots):
        rows = {row["probing"]: row for row in data["probing"] if row["slot_ms"] == slot}
        axes.bar(
            [i + j * width for i in range(len(settings))],
            [rows[s]["mean_us"] for s in settings], width, label=f"bursts of {slot} ms",
        )  # fmt: skip
    axes.set_xticks(
        [i + width for i in range(len(settings))], settings, rotation=30, ha="right", fontsize=8
    )
    axes.set_title("probing a distrusted drive", fontsize=9)
    axes.set_ylabel("mean read latency (us)")
    axes.legend(fontsize=7, loc="lower right")
    axes = panels[1][2]
    missed = [row for row in data["observed"] if row["added_us"] == added_us]
    bottom = np.zeros(len(missed))
    for cause in missed[0]["missed_causes"]:
        share = [
            100 * row["missed_causes"][cause] / max(row["injected_and_slow"], 1) for row in missed
        ]
        axes.barh(range(len(missed)), share, left=bottom, label=cause)
        bottom += share
    axes.set_yticks(
        range(len(missed)), [f"{row['pattern']}; {row['trained_on']}" for row in missed],
        fontsize=6,
    )  # fmt: skip
    axes.invert_yaxis()
    axes.set_xlabel("share of the slow reads in bursts (%)")
    axes.set_title(f"why they were let through, {added_us} us added", fontsize=9)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)


EXPERIMENT = Experiment(
    name="bursts",
    title="Inside a burst",
    source="not in the papers",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="uScope reports that LinnOS predicts single slow I/Os but loses accuracy on continuous "
    f"ones; its numbers: {NOT_AVAILABLE}.",
    differs="Added latency occupies no chip of the emulated drive: a slow read delays no other.",
    sources=("eval/decisions.py", "eval/experiments/fig08.py"),
)

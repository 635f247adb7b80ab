# SPDX-License-Identifier: MIT
"""The data as tables and in words."""

from __future__ import annotations

from typing import Any

from eval import scores
from eval.experiment import Table
from eval.experiments.bursts.design import BINS, SLOT_MS, TRAINED_ADDED_US, bin_name
from eval.experiments.bursts.observed import CAUSES
from eval.experiments.bursts.pooling import pooled, recall_interval
from eval.metrics import percent


def table(data: dict[str, Any]) -> dict[str, Table]:
    """All of it, by part."""
    by_cell = [
        (
            f"{row['workload']} on {row['array']}", row["pattern"], str(row["added_us"]),
            row["trained_on"], str(row["injected_and_slow"]),
            scores.percent(recall_interval([row]), 1),
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
    pairs = data["pairs"]
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
            str(row["injected_and_slow"]), scores.percent(row["recall_interval"], 1),
            str(row["missed"]),
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
        "Enforced: mean below that of others, 95 % interval: a difference only where zero is "
        "outside": Table(
            ("workload and array", "slot ms", "added us",
             *(f"{pair['policy']} below {pair['reference']}" for pair in pairs[0]["compared"])),
            tuple(
                (
                    f"{row['workload']} on {row['array']}", str(row["slot_ms"]),
                    str(row["added_us"]),
                    *(scores.percent(pair["below"], 1) for pair in row["compared"]),
                )
                for row in pairs
            ),
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
                f"- {row['pattern']}: recall {scores.percent(row['recall_interval'], 1)} over all "
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


def _percent(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


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

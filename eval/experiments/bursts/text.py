# SPDX-License-Identifier: MIT
"""The data as tables and in words."""

from __future__ import annotations

from typing import Any

from eval import scores
from eval.experiment import Table
from eval.experiments.bursts.design import BINS, TRAINED_ADDED_US, bin_name
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
    rows = [row for row in pooled(data)["observed"] if row["added_us"] == TRAINED_ADDED_US]
    parts = []
    for kind in dict.fromkeys(row["trained_on"] for row in rows):
        same = [row for row in rows if row["trained_on"] == kind]
        recalls = (
            f"{row['pattern']}: recall {scores.percent(row['recall_interval'], 1)}" for row in same
        )
        missed = {cause: sum(row["missed_causes"][cause] for row in same) for cause in CAUSES}
        parts.append(
            f"Models trained on a {kind}, {TRAINED_ADDED_US} us added, over all cells: "
            + "; ".join(recalls)
            + ". Missed: "
            + ", ".join(f"{cause} {n}" for cause, n in missed.items())
            + "."
        )
    parts.append(
        "Each slow read that was let through is counted under the first cause that holds: "
        + "; ".join(f"*{name}*: {what}" for name, what in CAUSES.items())
        + "."
    )
    parts.append(
        "*First* is a limit of the pattern: nothing that has completed tells of a burst to come, "
        "and slow reads by chance or one at a time are all firsts. *Blind* is a limit of the "
        "features: only completed reads tell, so a burst stays unseen for as long as its reads "
        "take. To see it earlier the network would need the age of the reads in flight. *Clear "
        "signs* is a fault of the weights: the burst stood in the last latencies, but the network "
        "had learnt from none like it."
    )
    return "\n\n".join(parts)


def _percent(value: float | None) -> str:
    return "-" if value is None else percent(value)


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"

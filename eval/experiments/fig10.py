# SPDX-License-Identifier: MIT
"""False submits and false revokes, before and after biased training, offline and live."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from eval.cells import Replay, replayed, trained, training_records
from eval.experiment import Context, Experiment, Table
from eval.experiments import fig08
from eval.gain import percent

#: How much worse a false submit counts than a false revoke.
BIASES = {"unbiased": 1.0, "biased": None}

PARAMETERS: dict[str, Any] = {
    **{key: fig08.PARAMETERS[key] for key in ("workloads", "arrays", "train_s", "replay_s")},
    "biases": BIASES,
}

#: The kernel's own counters, after the replay.
_FINISH = """
for drive in /sys/block/flash*; do
    for counter in $drive/linnos/stats/*; do echo "$(basename $counter) $(cat $counter)"; done
done >$LINNOS_OUT/stats.txt
"""


def _options(bias: float | None) -> tuple[str, ...]:
    return () if bias is None else ("--bias", str(bias))


def run(context: Context) -> dict[str, Any]:
    """Train every cell both ways; judge on held-out reads and in observe mode."""
    jobs = [
        (cell, name, _options(bias))
        for cell in fig08.cells(context.seeds)
        for name, bias in BIASES.items()
    ]
    models = context.map(lambda j: trained(context.cache, j[0], j[2]), jobs, "training")
    live = context.map(
        lambda j: replayed(
            context.cache,
            Replay(j[0], "linnos", train_options=j[2], mode="observe", finish=_FINISH),
        ),
        jobs,
        "observing",
    )
    rows = []
    for (cell, name, _), folder, result in zip(jobs, models, live, strict=True):
        records = training_records(folder)
        for where, counts in (
            ("offline", {k: float(np.mean([r[k] for r in records])) for k in
                         ("accuracy", "false_submit_ratio", "false_revoke_ratio")}),
            ("live", _live(result.folder / "stats.txt")),
        ):  # fmt: skip
            rows.append(
                {
                    "workload": cell.workload, "array": cell.array, "seed": cell.seed,
                    "training": name, "where": where, **counts,
                }
            )  # fmt: skip
    return {"rows": rows, "runs": [result.summary for result in live]}


def _live(path: Path) -> dict[str, float]:
    total: dict[str, int] = {}
    for line in path.read_text().splitlines():
        name, value = line.split()
        total[name] = total.get(name, 0) + int(value)
    reads = total["latency_critical"]
    wrong = total["false_submits"] + total["false_revokes"]
    return {
        "accuracy": 1 - wrong / reads,
        "false_submit_ratio": total["false_submits"] / reads,
        "false_revoke_ratio": total["false_revokes"] / reads,
    }


def averaged(data: dict[str, Any]) -> dict[tuple[str, str, str, str], dict[str, float]]:
    """Averages over the repeats: {(workload, array, training, where): ratios}."""
    groups: dict[tuple[str, str, str, str], list[dict[str, float]]] = {}
    for row in data["rows"]:
        key = (row["workload"], row["array"], row["training"], row["where"])
        groups.setdefault(key, []).append(row)
    return {
        key: {
            field: float(np.mean([row[field] for row in rows]))
            for field in ("accuracy", "false_submit_ratio", "false_revoke_ratio")
        }
        for key, rows in groups.items()
    }


def table(data: dict[str, Any]) -> dict[str, Table]:
    """One row a cell, training and place."""
    return {
        "Share of the reads, average of the repeats": Table(
            (
                "workload and array", "training", "where", "false submits", "false revokes",
                "accuracy",
            ),
            tuple(
                (
                    f"{workload} on {array}", training, where,
                    percent(v["false_submit_ratio"], 2), percent(v["false_revoke_ratio"], 2),
                    percent(v["accuracy"], 2),
                )
                for (workload, array, training, where), v in averaged(data).items()
            ),
        )
    }  # fmt: skip


def reading(data: dict[str, Any]) -> str:
    """What the bias buys and costs."""
    mean = averaged(data)
    parts = []
    for where in ("offline", "live"):
        lines = []
        for training in BIASES:
            rows = [v for (_, _, t, w), v in mean.items() if (t, w) == (training, where)]
            ranges = []
            for field in ("false_submit_ratio", "false_revoke_ratio", "accuracy"):
                values = [v[field] for v in rows]
                ranges.append(
                    f"{field.replace('_', ' ')} {percent(min(values), 2)} to "
                    f"{percent(max(values), 2)} (mean {percent(float(np.mean(values)), 2)})"
                )
            lines.append(f"{training}: " + ", ".join(ranges))
        parts.append(f"{where}: " + "; ".join(lines) + ".")
    parts.append(
        "Offline: the last fifth of the recording, never trained on. Live: counted by the kernel "
        "in `observe` mode over the replayed part, which comes after the recording."
    )
    return "\n\n".join(parts)


EXPERIMENT = Experiment(
    name="fig10",
    title="False submits and false revokes, before and after biased training",
    source="LinnOS Fig. 10",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    paper="Accuracy of 87 to 97 % (abstract).",
    differs="Live counts are an addition.",
    sources=("eval/experiments/fig08.py",),
)

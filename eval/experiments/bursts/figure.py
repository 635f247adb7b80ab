# SPDX-License-Identifier: MIT
"""Recall by position, excess latency by position, why reads were let through, probing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from eval import figures
from eval.experiments.bursts.pooling import pooled


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
        axes.set(xlabel="position within the burst", ylabel="slow reads predicted slow")
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
    axes.set(xlabel="position within the burst", ylabel="mean latency above calm times (us)")
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

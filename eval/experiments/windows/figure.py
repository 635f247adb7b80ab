# SPDX-License-Identifier: MIT
"""Distributions over the windows: improvement over hedge and baseline, oracle's share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from eval import figures
from eval.experiments.windows.comparison import shares


def draw(data: dict[str, Any], path: Path) -> None:
    """Distributions over the windows: improvement over hedge and baseline, oracle's share."""
    rows = data["windows"]
    policies = [p for p in rows[0]["mean_us"] if p != "baseline"]
    figure, panels = plt.subplots(1, 3, figsize=(16, 4.5))
    rank = (np.arange(len(rows)) + 1) / len(rows)
    for axes, reference in zip(panels, ("hedge", "baseline"), strict=False):
        for policy in policies:
            if policy == reference:
                continue
            gain = sorted(1 - r["mean_us"][policy] / r["mean_us"][reference] for r in rows)
            axes.plot(np.array(gain) * 100, rank, label=policy, **figures.style(policy))
        axes.axvline(0, color="black", linewidth=0.5)
        axes.set_xlim(left=-100)
        axes.set(xlabel=f"mean latency below {reference} (%)", ylabel="share of the windows")
        axes.grid(alpha=0.3)
    axes = panels[2]
    for policy in policies:
        # Windows without a share stand at its ends, or at 0: see ranked_share.
        share = np.clip(shares(data, policy), -10, 10)
        axes.plot(
            np.array(sorted(share)) * 100, rank,
            label=policy, **figures.style(policy),
        )  # fmt: skip
    axes.set_xlim(-100, 110)
    axes.set_xlabel("share of the oracle's gain (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)

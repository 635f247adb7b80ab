# SPDX-License-Identifier: MIT
"""The figure of the traces: means relative to doing nothing, a row a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures
from eval.experiments.traces.replays import BURSTS, CALM, OFF, ON
from eval.experiments.traces.scores import HEDGE_CAPPED, NOTHING, TWO, lines

DRAWN = ("shortest-queue", HEDGE_CAPPED, "linnos", "lowest", TWO, "oracle")


def draw(data: dict[str, Any], path: Path) -> None:
    """Calm beside bursts, as their gains differ tenfold."""
    of = lines(data)
    height = 0.25 * len(of) / 2 + 1.8
    figure, panels = plt.subplots(1, 2, figsize=(11, height), sharey=True)
    for axes, slowness in zip(panels, (CALM, BURSTS), strict=True):
        here = [line for line in of if line.slowness == slowness]
        for policy, reference in (*((policy, NOTHING) for policy in DRAWN), (ON, OFF)):
            told = [(line.above(policy, reference), i) for i, line in enumerate(here)]
            points = [(100 * share, i) for share, i in told if share is not None]
            axes.plot(
                [share for share, _ in points], [i for _, i in points],
                {ON: "s", TWO: "^"}.get(policy, "o"), markersize=4, label=policy, alpha=0.8,
                color=figures.style(policy).get("color", "grey"),
            )  # fmt: skip
        axes.axvline(0, color="black", linewidth=0.5)
        axes.set_title(slowness, fontsize=9)
        axes.set_xlabel("mean against doing nothing (%)")
        labels = [f"{Path(line.trace).name[-40:]}, {line.iops:.0f}/s" for line in here]
        axes.set_yticks(range(len(here)), labels, fontsize=7)
    panels[0].invert_yaxis()
    panels[0].legend(fontsize=7)
    figure.tight_layout()
    figures.save(figure, path)

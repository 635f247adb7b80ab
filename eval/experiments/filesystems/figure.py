# SPDX-License-Identifier: MIT
"""As uScope's Fig. 2, 6, 10 and 7: configurations, ext4's, patterns, steps of a commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures
from eval.experiments.filesystems.commits import STEPS
from eval.experiments.filesystems.design import (
    CACHED,
    CONFIGURATIONS,
    EVERYWHERE,
    MIXES,
    PATTERNS,
)
from eval.experiments.filesystems.text import common, is_default, select

#: uScope's Fig. 2 has these signs.
_STYLE = {
    "ext4": ("o", "#0072b2"),
    "xfs": ("s", "#e69f00"),
    "f2fs": ("^", "#009e73"),
    "btrfs": ("P", "#aa3377"),
}
_SHADES = ("#bbbbbb", "#0072b2", "#e69f00", "#009e73", "#555555")


def draw(data: dict[str, Any], path: Path) -> None:
    """A row for each question; a column for each mix."""
    figure, panels = plt.subplots(4, len(MIXES), figsize=(5 * len(MIXES), 15))
    for i, mix in enumerate(mix.name for mix in MIXES):
        _configurations(panels[0][i], data, mix)
        _ext4(panels[1][i], data, mix)
        _amounts(panels[2][i], data, mix)
    _patterns(panels[3][0], data)
    _places(panels[3][1], data)
    _steps(panels[3][2], data)
    figure.tight_layout()
    figures.save(figure, path)


def _configurations(axes: Any, data: dict[str, Any], mix: str) -> None:
    rows = common(data, 10, mix=mix)
    for system, (marker, colour) in _STYLE.items():
        same = [row for row in rows if row["file_system"] == system]
        axes.scatter(
            [row["base_us"] for row in same], [100 * row["slowdown"][0] for row in same],
            marker=marker, color=colour, label=system, s=40, alpha=0.8,
        )  # fmt: skip
        for row in same:
            _whisker(axes, row["base_us"], row["slowdown"])
    axes.set_title(f"{mix}: configurations, 10 us added to 10 %", fontsize=9)
    axes.set_xlabel("mean latency of an operation (us)", fontsize=8)
    axes.set_ylabel("slowdown (%)", fontsize=8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)


def _ext4(axes: Any, data: dict[str, Any], mix: str) -> None:
    known = [c.title for c in CONFIGURATIONS]
    rows = sorted(
        common(data, 10, mix=mix, file_system="ext4"),
        key=lambda row: known.index(row["configuration"]),
    )
    names = [row["configuration"].removeprefix("ext4 ") for row in rows]
    axes.bar(names, [row["base_us"] for row in rows], color="#cccccc")
    axes.set_ylabel("mean latency (us), bars", fontsize=8)
    axes.tick_params(axis="x", labelrotation=60, labelsize=7)
    beside = axes.twinx()
    beside.plot(names, [100 * row["slowdown"][0] for row in rows], "D", color=_STYLE["ext4"][1])
    for x, row in enumerate(rows):
        _whisker(beside, x, row["slowdown"])
    beside.set_ylim(bottom=0)
    beside.set_ylabel("slowdown (%), signs", fontsize=8)
    axes.set_title(f"{mix}: ext4, 10 us added to 10 %", fontsize=9)


def _amounts(axes: Any, data: dict[str, Any], mix: str) -> None:
    for system, (marker, colour) in _STYLE.items():
        rows = sorted(
            (row for row in select(data, mix=mix, file_system=system, pattern="random",
                                   ratio_percent=10) if is_default(row)),
            key=lambda row: row["added_us"],
        )  # fmt: skip
        axes.plot(
            [row["added_us"] for row in rows], [1 + row["slowdown"][0] for row in rows],
            marker=marker, color=colour, label=system,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    axes.set_title(f"{mix}: defaults, 10 % at random", fontsize=9)
    axes.set_xlabel("added (us)", fontsize=8)
    axes.set_ylabel("times as long", fontsize=8)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=7)


def _grouped(axes: Any, groups: list[str], series: dict[str, list[float]]) -> None:
    width = 0.8 / max(len(series), 1)
    for k, ((name, values), colour) in enumerate(zip(series.items(), _SHADES, strict=False)):
        at = [i + (k + 0.5) * width - 0.4 for i in range(len(values))]
        axes.bar(at, values, width, label=name, color=colour)
    axes.set_xticks(range(len(groups)), groups, rotation=60, fontsize=7)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3, axis="y")


def _patterns(axes: Any, data: dict[str, Any]) -> None:
    series: dict[str, list[float]] = {}
    groups: list[str] = []
    for pattern in PATTERNS:
        rows = [row for row in select(data, pattern=pattern, ratio_percent=20, added_us=1000)
                if is_default(row)]  # fmt: skip
        groups = [f"{row['file_system']} {row['mix']}" for row in rows]
        series[pattern] = [1 + row["slowdown"][0] for row in rows]
    _grouped(axes, groups, series)
    axes.set_ylabel("times as long", fontsize=8)
    axes.set_title("defaults: 1 ms added to 20 %, by pattern", fontsize=9)


def _places(axes: Any, data: dict[str, Any]) -> None:
    rows = [row for row in select(data, region=None, added_us=1000) if row["region"] != EVERYWHERE]
    everywhere = [
        common(data, 1000, configuration=row["configuration"], mix=row["mix"])[0] for row in rows
    ]
    _grouped(
        axes, [f"{row['file_system']} {row['mix']}" for row in rows],
        {
            "everywhere": [1 + row["slowdown"][0] for row in everywhere],
            "journal or metadata only": [1 + row["slowdown"][0] for row in rows],
        },
    )  # fmt: skip
    axes.set_ylabel("times as long", fontsize=8)
    axes.set_title("defaults: 1 ms added to 10 %, by place", fontsize=9)


def _steps(axes: Any, data: dict[str, Any]) -> None:
    names, columns = [], []
    for row in common(data, 1000, cache=CACHED):
        if row["steps"] is not None:
            for added, steps in zip(("0", "1 ms"), row["steps"], strict=True):
                names.append(f"{row['configuration'].removeprefix('ext4 ')}, {added}")
                columns.append([steps[step]["mean_us"] for step in STEPS])
    below = [0.0] * len(columns)
    for k, (step, colour) in enumerate(zip(STEPS, _SHADES, strict=True)):
        values = [column[k] for column in columns]
        axes.bar(names, values, bottom=below, label=step, color=colour)
        below = [a + b for a, b in zip(below, values, strict=True)]
    axes.tick_params(axis="x", labelrotation=60, labelsize=7)
    axes.set_ylabel("us", fontsize=8)
    axes.set_title("a commit of ext4's journal, varmail, cached", fontsize=9)
    # Room for the legend.
    axes.set_ylim(top=1.5 * max(below, default=1.0))
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3, axis="y")


def _whisker(axes: Any, x: float, slowdown: list[float | None]) -> None:
    figures.whisker(axes, x, [None if v is None else 100 * v for v in slowdown])

# SPDX-License-Identifier: MIT
"""The data as tables, in words and drawn, with the poster's figures beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures
from eval.experiment import NOT_AVAILABLE, Table

Point = dict[str, Any]

#: The one case of which the poster gives numbers, and those: us of ten calls of 100 MB.
POSTER_CASE = {
    "file_system": "ext4", "huge_pages": False, "operation": "write", "allocated": True,
    "bytes": 104857600,
}  # fmt: skip
_POSTER_US, _POSTER_CALLS = 2_398_220, 10
_POSTER = {
    "adding pages to bios": (489_843 / _POSTER_US, ("pages",)),
    "splitting and merging": (0.06, ("split",)),
    "submit_bio and below": (885_274 / _POSTER_US, ("split", "queue", "driver", "linnos")),
    "io_schedule: asleep": (734_778 / _POSTER_US, ()),
}

#: Parts of the software's time, from the call down.
SHORT = {
    "entry": "call", "filesystem": "VFS, file system", "mapping": "blocks, journal",
    "pages": "pages", "split": "split, merge", "linnos": "LinnOS", "queue": "queueing",
    "driver": "driver", "completion": "completion", "other": "interrupts",
}  # fmt: skip
_COLOURS = ("#999999", "#56b4e9", "#009e73", "#d55e00", "#e69f00", "#000000", "#0072b2",
            "#cc79a7", "#f0e442", "#dddddd")  # fmt: skip


def size(n: int) -> str:
    """4 KiB, 100 MiB."""
    return f"{n >> 20} MiB" if n >= 1 << 20 else f"{n >> 10} KiB"


def cases(data: dict[str, Any]) -> list[Point]:
    """Of each case its first boot, and under ``spread`` how far the others are from it."""
    keys = ("file_system", "huge_pages", "operation", "allocated", "bytes")
    by_case: dict[tuple[Any, ...], list[Point]] = {}
    for point in data["points"]:
        by_case.setdefault(tuple(point[key] for key in keys), []).append(point)
    return [
        {
            **same[0],
            "spread": max(abs(p["software_us"] / same[0]["software_us"] - 1) for p in same),
        }
        for same in by_case.values()
    ]


def poster_case(data: dict[str, Any], **changes: Any) -> Point:
    """That of which the poster gives numbers, or one that differs from it."""
    wanted = {**POSTER_CASE, **changes}
    return next(
        point for point in cases(data)
        if all(point[key] == value for key, value in wanted.items())
    )  # fmt: skip


def table(data: dict[str, Any]) -> dict[str, Table]:
    """The poster's case, and all."""
    ours = poster_case(data)
    beside = []
    for what, (share, groups) in _POSTER.items():
        present = [ours["groups"][group] for group in groups if group in ours["groups"]]
        us = sum(group["us"] for group in present)
        beside.append(
            (
                what,
                f"{share:.1%}",
                f"{share * _POSTER_US / _POSTER_CALLS / 1000:.1f}",
                f"{us / ours['software_us']:.1%}" if groups else NOT_AVAILABLE,
                f"{sum(g['recorded_share'] for g in present):.1%}" if groups else NOT_AVAILABLE,
                f"{us / 1000:.2f}" if groups else NOT_AVAILABLE,
            )
        )
    shown = [group for group in SHORT if any(group in p["groups"] for p in data["points"])]
    rows = []
    for point in cases(data):
        rows.append(
            (
                point["file_system"],
                "2 MiB" if point["huge_pages"] else "4 KiB",
                point["operation"],
                "allocated" if point["allocated"] else "new",
                size(point["bytes"]),
                f"{point['software_us']:.1f}",
                *(f"{100 * point['groups'].get(g, {'share': 0.0})['share']:.1f}" for g in shown),
                f"{100 * point['tracing_share']:.0f}",
                f"{100 * point['spread']:.1f}",
            )
        )
    return {
        "Of 100 MB written to an allocated file, ext4": Table(
            (
                "", "poster, share of all", "poster, ms a call", "ours, share of the software",
                "ours, tracing not taken off", "ours, million instructions a call",
            ),
            tuple(beside),
        ),
        "Share of the software's time by part, %": Table(
            (
                "file system", "pages of", "", "file", "a call", "thousand instructions a call",
                *(SHORT[group] for group in shown), "tracing took", "boots differ by",
            ),
            tuple(rows),
        ),
    }  # fmt: skip


def reading(data: dict[str, Any]) -> str:
    """What it comes to."""
    every = [point for point in cases(data) if not point["huge_pages"]]
    small = [point for point in every if point["bytes"] == 4096 and not _is_hole(point)]
    large = [point for point in every if point["bytes"] == 104857600 and not _is_hole(point)]
    spreads = sorted(point["spread"] for point in cases(data))
    return (
        f"A call of 4 KiB takes {_range(small)} thousand instructions, one of 100 MiB "
        f"{_range(large)} thousand. The largest part of 4 KiB is {_largest(small)}, of 100 MiB "
        f"{_largest(large)}. Of what was recorded tracing is {_tracing(small)} of 4 KiB, "
        f"{_tracing(large)} of 100 MiB; it is taken off. Boots differ by "
        f"{spreads[len(spreads) // 2]:.1%} in the middle case, by {spreads[-1]:.0%} at most: how "
        "much of a program's memory is in one piece is chance, and so is when completions strike."
    )


def _is_hole(point: Point) -> bool:
    """Reading what was never written: no drive has it."""
    return point["operation"] == "read" and not point["allocated"]


def _range(points: list[Point]) -> str:
    values = [point["software_us"] for point in points]
    return f"{min(values):,.1f} to {max(values):,.1f}"


def _tracing(points: list[Point]) -> str:
    values = [point["tracing_share"] for point in points]
    return f"{min(values):.0%} to {max(values):.0%}"


def _largest(points: list[Point]) -> str:
    """The parts that most often are the largest, with how large."""
    largest: dict[str, list[float]] = {}
    for point in points:
        group = max(point["groups"], key=lambda name: point["groups"][name]["share"])
        largest.setdefault(group, []).append(point["groups"][group]["share"])
    said = [
        f"{SHORT[group]} (in {len(shares)} of {len(points)} cases, {min(shares):.0%} to "
        f"{max(shares):.0%})"
        for group, shares in sorted(largest.items(), key=lambda each: -len(each[1]))
    ]
    return ", ".join(said)


def draw(data: dict[str, Any], path: Path) -> None:
    """A bar for each case with pages of 4 KiB: its parts."""
    every = [point for point in cases(data) if not point["huge_pages"]]
    kinds = [("write", True), ("write", False), ("read", True)]
    figure, panels = plt.subplots(1, len(kinds), figsize=(16, 4.5), sharey=True)
    for axes, (operation, allocated) in zip(panels, kinds, strict=True):
        points = [p for p in every if (p["operation"], p["allocated"]) == (operation, allocated)]
        bottom = [0.0] * len(points)
        for group, colour in zip(SHORT, _COLOURS, strict=True):
            shares = [100 * p["groups"].get(group, {"share": 0.0})["share"] for p in points]
            if any(shares):
                axes.bar(range(len(points)), shares, bottom=bottom, color=colour,
                         label=SHORT[group])  # fmt: skip
            bottom = [low + share for low, share in zip(bottom, shares, strict=True)]
        labels = [f"{p['file_system']} {size(p['bytes'])}" for p in points]
        axes.set_xticks(range(len(points)), labels, rotation=60, ha="right", fontsize=8)
        axes.set_title(f"{operation}, {'allocated' if allocated else 'new'}", fontsize=9)
    panels[0].set_ylabel("share of the software's instructions (%)", fontsize=8)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="upper center", ncols=len(names), fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    figures.save(figure, path)

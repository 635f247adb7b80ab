# SPDX-License-Identifier: MIT
"""What the figures of the evaluation have in common; each is drawn beside its experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter
from numpy.typing import NDArray

from eval.intervals import RESTS_ON
from linnapp.files import replaced_file

#: One colour and dash a policy, the same in every figure; the bound is black.
POLICY_STYLE: dict[str, dict[str, Any]] = {
    "baseline": {"color": "#888888"},
    "clone": {"color": "#8c564b"},
    "random": {"color": "#bcbd22"},
    "shortest-queue": {"color": "#17becf"},
    "shortest-queue-h95": {"color": "#17becf", "linestyle": "--"},
    "shortest-queue-h95, 5% cap": {"color": "#17becf", "linestyle": ":"},
    "prequal": {"color": "#7f3c8d"},
    "c3": {"color": "#9c6644", "linestyle": "--"},
    "heimdall": {"color": "#2f4b7c", "linestyle": "--"},
    "hedge": {"color": "#e69f00"},
    "hedge, 5% cap": {"color": "#e69f00", "linestyle": ":"},
    "hedge-ip": {"color": "#f0c060", "linestyle": "--"},
    "hedge-ip, 5% cap": {"color": "#f0c060", "linestyle": ":"},
    "heuristic": {"color": "#cc79a7"},
    "heuristic-adv": {"color": "#cc79a7", "linestyle": "--"},
    "linnos": {"color": "#0072b2"},
    "linnos-hl": {"color": "#009e73"},
    "linnos-hl, 5% cap": {"color": "#009e73", "linestyle": ":"},
    "linnos-h99": {"color": "#56b4e9", "linestyle": "--"},
    "lowest": {"color": "#aa3377"},
    "lowest-h95, 5% cap": {"color": "#aa3377", "linestyle": ":"},
    "lowest-two, 5% cap": {"color": "#aa3377", "linestyle": "--"},
    "lowest-two, 10% cap": {"color": "#aa3377", "linestyle": "-."},
    "oracle": {"color": "black", "linestyle": ":"},
    "verdict": {"color": "#555555", "linestyle": "-."},
    "learnt": {"color": "#d55e00", "linestyle": "-."},
}

#: Names above a figure, as a share of its width.
NAMES_APART = 0.045

#: Enough points for any screen, and a small file.
MAX_POINTS = 4000


def save(figure: Any, path: Path) -> None:
    """Write a figure beside and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as stream:
        figure.savefig(stream, dpi=120, format=path.suffix[1:], bbox_inches="tight")
    plt.close(figure)


def latency_cdf(
    latency_us: Mapping[str, NDArray[np.float64]], path: Path, *, title: str = ""
) -> None:
    """Draw CDFs of each policy's sorted latencies, the tail stretched: a decade of 1 - p a step.

    Each line ends where it rests on :data:`~eval.intervals.RESTS_ON` reads, and has its name there.
    The file's suffix says in which format.
    """
    figure, axes = plt.subplots(figsize=(8, 5))
    axes.set_xscale("log")
    ends: dict[str, tuple[float, float]] = {}
    for policy, sorted_us in latency_us.items():
        n = len(sorted_us)
        if n <= RESTS_ON:
            continue
        # Ranks evenly spaced on the stretched axis, so that the tail is
        # drawn from its every sample and the body from few.
        nines = np.linspace(0, np.log10(n / RESTS_ON), MAX_POINTS)
        rank = np.unique((n * (1 - 10.0**-nines)).astype(int))
        axes.plot(sorted_us[rank], -np.log10(1 - rank / n), **style(policy))
        ends[policy] = float(sorted_us[rank[-1]]), float(-np.log10(1 - rank[-1] / n))
    top = max((y for _, y in ends.values()), default=1.0)
    axes.set_ylim(-0.05 * top, 1.02 * top)
    _name_ends(axes, ends)
    ticks = np.arange(0, max(top, 1) + 0.01)
    axes.yaxis.set_major_locator(FixedLocator([0, 0.30103, *ticks[1:]]))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda y, _: f"p{100 * (1 - 10.0**-y):.{max(0, int(y) - 2)}f}")
    )
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda us, _: f"{us / 1000:g} ms" if us >= 1000 else f"{us:g} us")
    )
    axes.set(xlabel="read latency", ylabel="percentile")
    axes.grid(alpha=0.3, which="both")
    if title:
        figure.suptitle(title, y=1.12)
    save(figure, path)


def _name_ends(axes: Any, ends: Mapping[str, tuple[float, float]]) -> None:
    """Write each line's name above its end, beside each other and in the ends' order."""
    if not ends:
        return
    order = sorted(ends, key=lambda policy: ends[policy][0])
    low, high = np.log10(axes.get_xlim())
    wanted = [(np.log10(ends[policy][0]) - low) / (high - low) for policy in order]
    # To the left from the last, then to the right from the first: apart, and inside.
    places = list(wanted)
    for i in reversed(range(len(places))):
        most = places[i + 1] - NAMES_APART if i + 1 < len(places) else 1.0
        places[i] = min(places[i], most)
    for i in range(len(places)):
        least = places[i - 1] + NAMES_APART if i else 0.0
        places[i] = max(places[i], least)
    for policy, place in zip(order, places, strict=True):
        colour = style(policy).get("color")
        axes.annotate(
            policy, ends[policy], (place, 1.06), textcoords="axes fraction", rotation=30,
            ha="left", va="bottom", rotation_mode="anchor", fontsize=9, annotation_clip=False,
            color=colour, arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": colour},
        )  # fmt: skip


def style(policy: str) -> dict[str, Any]:
    """Colour and dash of a policy's line."""
    return POLICY_STYLE.get(policy, {})


def nothing(path: Path, why: str) -> None:
    """A figure that says why there is none."""
    figure, axes = plt.subplots(figsize=(6, 2))
    axes.text(0.5, 0.5, why, ha="center", va="center")
    axes.set_axis_off()
    save(figure, path)


def grid_axes(cells: Sequence[tuple[str, str]], height: float = 3.2) -> tuple[Any, Any]:
    """A figure with a panel a cell, by (workload, array): a row an array, in the cells' order."""
    arrays = list(dict.fromkeys(array for _, array in cells))
    of_array = {array: [cell for cell in cells if cell[1] == array] for array in arrays}
    n_columns = max(len(same) for same in of_array.values())
    figure, axes = plt.subplots(
        len(arrays), n_columns, squeeze=False,
        figsize=(3.9 * n_columns, height * len(arrays)),
    )  # fmt: skip
    for spare in axes.flat:
        spare.set_visible(False)
    panels = {}
    for j, array in enumerate(arrays):
        for i, cell in enumerate(of_array[array]):
            panels[cell] = axes[j][i]
            panels[cell].set_visible(True)
    return figure, panels


def whisker(axes: Any, x: float, triple: Sequence[float | None] | None) -> None:
    """The 95 % interval of a bar."""
    if triple is not None and triple[1] is not None:
        axes.plot([x, x], triple[1:], color="black", linewidth=1)

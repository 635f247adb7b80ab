# SPDX-License-Identifier: MIT
"""The figures of the evaluation, drawn from long tables, and the style of the policies."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter
from numpy.typing import NDArray

from eval import contenders
from eval.intervals import RESTS_ON
from eval.long_table import LongTable, Place
from linnapp.files import replaced_file
from linnapp.lab.demo import with_duplicates
from linnapp.stats import Interval

#: One colour and dash a policy, the same in every figure; the bound is black.
POLICY_STYLE: dict[str, dict[str, Any]] = {
    "baseline": {"color": "#888888"},
    "clone": {"color": "#8c564b"},
    "random": {"color": "#bcbd22"},
    "shortest-queue": {"color": "#17becf"},
    "shortest-queue-h95": {"color": "#17becf", "linestyle": "--"},
    "shortest-queue-h95, 5% cap": {"color": "#17becf", "linestyle": ":"},
    "fewest": {"color": "#17becf", "linestyle": "-."},
    "ewma-inflight": {"color": "#9c6644", "linestyle": "-."},
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
    "fastest": {"color": "#aa3377"},
    "fastest with duplicates": {"color": "#aa3377", "linestyle": ":"},
    "fastest with duplicates (limit 5 %)": {"color": "#aa3377", "linestyle": "--"},
    "fastest with duplicates (limit 10 %)": {"color": "#aa3377", "linestyle": "-."},
    "oracle": {"color": "black", "linestyle": ":"},
    "verdict": {"color": "#555555", "linestyle": "-."},
}

#: The percentiles of :func:`percentile_lines`.
DRAWN_PERCENTS = ("p50_us", "p80_us", "p90_us", "p95_us", "p99_us", "p999_us", "p9999_us")

#: Names above a figure, as a share of its width.
NAMES_APART = 0.045

#: Enough points for any screen, and a small file.
MAX_POINTS = 4000


def save(figure: Any, path: Path) -> None:
    """Write a figure under a temporary name and rename it."""
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
    """Write each line's name above its end, next to each other and in the ends' order."""
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


def _panels(n: int, height: float, width: float = 3.9, most: int = 4) -> tuple[Any, list[Any]]:
    """Return a figure and its panels, at most four in a row."""
    columns = min(n, most)
    rows = -(-n // columns)
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, squeeze=False, figsize=size)
    for spare in axes.flat[n:]:
        spare.set_visible(False)
    return figure, list(axes.flat[:n])


def _title(place: Place) -> str:
    return ", ".join(filter(None, place))


def shown_policies(table: LongTable, place: Place) -> dict[str, str]:
    """Return the policies of a figure with their labels: baseline, best rivals, ours, the oracle.

    All policies together would hide each other; the table has them all.
    """
    there = table.policies(place)
    shown = {"baseline": "baseline"} if "baseline" in there else {}
    for most_extra, label in ((contenders.LITTLE, "best rival, 5 %"), (math.inf, "best rival")):
        rival = table.best_rival(place, most_extra=most_extra)
        shown[rival] = f"{rival}\n({label})"
    ours = contenders.ours(there)
    main = [
        name for name in ("linnos", "fastest", with_duplicates("fastest")) if name in ours
    ] or ours
    return shown | {name: name for name in (*main, *({"oracle"} & {*there}))}


def ranked_policies(table: LongTable, path: Path, measure: str = "mean_us") -> None:
    """Draw the means of the main policies, ranked, with their intervals; one panel for a place."""
    places = table.places_with_rivals(measure)
    figure, panels = _panels(len(places), 2.8)
    for axes, place in zip(panels, places, strict=True):
        shown = shown_policies(table, place)
        ranked = sorted(shown, key={n: table.value(place, n, measure) for n in shown}.__getitem__)
        for row, name in enumerate(ranked):
            number = table.get(place, name, measure)
            if number is None:
                continue
            ours, colour = bool(contenders.ours([name])), style(name).get("color", "grey")
            if number.is_known:
                axes.plot([number.low, number.high], [row, row], color=colour, linewidth=1.5)
            axes.plot(number.value, row, "o" if ours else "s", color=colour, markersize=6)
            axes.annotate(
                f"{number.value:.0f}", (number.value, row), (0, 5), textcoords="offset points",
                ha="center", fontsize=7, fontweight="bold" if ours else "normal",
            )  # fmt: skip
        axes.set_yticks(range(len(ranked)), [shown[name] for name in ranked], fontsize=8)
        axes.set_ylim(len(ranked) - 0.5, -0.7)
        axes.set_xlim(left=0)
        axes.grid(axis="x", alpha=0.3)
        axes.set_title(_title(place), fontsize=9)
        axes.set_xlabel(f"{measure.removesuffix('_us')} of read latency (us), 95 %", fontsize=8)
    figure.tight_layout()
    save(figure, path)


def percentile_lines(table: LongTable, path: Path, policies: Collection[str] | None = None) -> None:
    """Draw percentiles, one panel for each place and one line for each policy.

    If there is one policy only, all places are lines of one panel.
    """
    known = [name for name in table.policies() if policies is None or name in policies]
    percents = [p for p in DRAWN_PERCENTS if any(k.measure == p for k, _ in table.items())]
    if len(known) == 1:
        figure, (axes,) = _panels(1, 5, 8)
        lines = [(axes, _title(place), place, known[0]) for place in table.places]
    else:
        figure, panels = _panels(len(table.places), 3.2)
        lines = [
            (axes, name, place, name)
            for axes, place in zip(panels, table.places, strict=True)
            for name in known
        ]
        for axes, place in zip(panels, table.places, strict=True):
            axes.set_title(_title(place), fontsize=9)
    for axes, label, place, name in lines:
        values = [table.value(place, name, percent) for percent in percents]
        axes.plot(
            range(len(percents)), values, label=label, **style(name if len(known) > 1 else "")
        )
        ticks = [f"p{percent[1:-3]}" for percent in percents]
        axes.set_xticks(range(len(percents)), ticks, fontsize=7)
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
    lines[0][0].set_ylabel("read latency (us)", fontsize=8)
    lines[0][0].legend(fontsize=6)
    figure.tight_layout()
    save(figure, path)


def over_time(table: LongTable, path: Path) -> None:
    """Draw the mean of each block of time, one panel for each place."""
    figure, panels = _panels(len(table.places), 3.2)
    for axes, place in zip(panels, table.places, strict=True):
        for name in shown_policies(table, place):
            means: list[float] = []
            while (found := table.get(place, name, f"block_{len(means)}")) is not None:
                means.append(found.value)
            axes.plot(means, label=name, linewidth=0.8, **style(name))
        axes.set_yscale("log")
        axes.set_title(_title(place), fontsize=9)
        axes.set_xlabel("block of time", fontsize=8)
    panels[0].set_ylabel("mean read latency (us)", fontsize=8)
    panels[0].legend(fontsize=6)
    figure.tight_layout()
    save(figure, path)


def by_place(table: LongTable, titles: Mapping[str, str], path: Path) -> None:
    """Draw each measure over the places, one panel for each measure, one colour a policy."""
    known = {key.measure for key, _ in table.items() if not key.reference}
    measures = [name for name in titles if name in known]
    places = table.places
    figure, panels = _panels(len(measures), 3.5, max(4.0, 0.25 * len(places)), 2)
    for axes, measure in zip(panels, measures, strict=True):
        policies = table.policies()
        for i, policy in enumerate(policies):
            for x, place in enumerate(places):
                number = table.get(place, policy, measure)
                if number is not None:
                    at = x + 0.6 * ((i + 0.5) / len(policies) - 0.5)
                    axes.plot(at, number.value, "o", color=f"C{i % 10}", markersize=4)
                    whisker(axes, at, number.to_json())
            axes.plot([], [], "o", color=f"C{i % 10}", label=policy)
        axes.set_xticks(range(len(places)), list(map(_title, places)), rotation=60, fontsize=6)
        axes.set_ylabel(titles[measure], fontsize=8)
        axes.grid(alpha=0.3, axis="y")
        if policies != [""]:
            axes.legend(fontsize=6)
    figure.tight_layout()
    save(figure, path)


def reductions(
    pairs: Sequence[tuple[str, str]], table: LongTable, path: Path, measure: str = "mean_us"
) -> None:
    """Draw by how many percent policies are faster than their references, place by place."""
    figure, (axes,) = _panels(1, 3.5, 8)
    for i, (policy, reference) in enumerate(pairs):
        for j, place in enumerate(table.places):
            number = table.reduction(place, policy, reference, measure)
            if number is None:
                continue
            x = j + 0.7 * ((i + 0.5) / len(pairs) - 0.5)
            label = None if j else f"{policy} compared with {reference}"
            axes.plot(x, 100 * number.value, "o", color=f"C{i}", label=label, markersize=4)
            whisker(axes, x, [None if v is None else 100 * v for v in number.to_json()])
    axes.axhline(0, color="black", linewidth=0.5)
    places = list(map(_title, table.places))
    axes.set_xticks(range(len(places)), places, rotation=60, fontsize=7)
    axes.set_ylabel(f"{measure.removesuffix('_us')} lower than the reference's (%)")
    axes.legend(fontsize=7)
    figure.tight_layout()
    save(figure, path)


def ranges(
    expected: Mapping[str, tuple[float, float]],
    cases: Mapping[str, Mapping[str, Interval]],
    scale: float,
    path: Path,
) -> None:
    """Draw the range that is expected of each row in grey, and its cases with their intervals."""
    figure, axes = plt.subplots(figsize=(9, 0.6 * len(expected) + 1.5))
    for i, (title, (low, high)) in enumerate(expected.items()):
        axes.barh(i, high - low, left=low, color="#dddddd")
        for j, case in enumerate(cases[title].values()):
            y = i + 0.08 * (j - (len(cases[title]) - 1) / 2)
            axes.plot([scale * case.low, scale * case.high], [y, y], color="#0072b2", linewidth=0.8)
            axes.plot(scale * case.value, y, ".", color="#0072b2")
    axes.axvline(0, color="black", linewidth=0.5)
    axes.set_yticks(range(len(expected)), list(expected), fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("%; grey: the paper's range, blue: our cases")
    save(figure, path)


def whisker(axes: Any, x: float, triple: Sequence[float | None] | None) -> None:
    """The 95 % interval of a bar."""
    if triple is not None and triple[1] is not None:
        axes.plot([x, x], triple[1:], color="black", linewidth=1)

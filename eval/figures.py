# SPDX-License-Identifier: MIT
"""The figures of the evaluation, drawn from long tables, and the style of the policies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter
from numpy.typing import NDArray

from eval import contenders
from eval.intervals import MIN_READS_BEYOND
from eval.long_table import LongTable, Place
from linnapp.files import replaced_file
from linnapp.lab.demo import with_duplicates
from linnapp.stats import Interval

#: A colour for each policy, the same in every figure; policies with the same colour have different
#: dashes. The bound is black.
_COLOURS = {
    "baseline": "#888888", "clone": "#8c564b", "random": "#bcbd22", "shortest-queue": "#17becf",
    "shortest-queue-h95": "#17becf", "fewest": "#17becf", "ewma-inflight": "#9c6644",
    "prequal": "#7f3c8d", "c3": "#9c6644", "heimdall": "#2f4b7c", "hedge": "#e69f00",
    "hedge-ip": "#f0c060", "heuristic": "#cc79a7", "heuristic-adv": "#cc79a7", "linnos": "#0072b2",
    "linnos-hl": "#009e73", "linnos-h99": "#56b4e9", "fastest": "#aa3377", "oracle": "black",
    "verdict": "#555555",
}  # fmt: skip
_DASHED = ("shortest-queue-h95", "c3", "heimdall", "hedge-ip", "heuristic-adv", "linnos-h99")
_DOTTED = ("oracle", "fastest with duplicates", "fewest")

#: The percentiles of :func:`draw_percentile_lines`.
DRAWN_PERCENTS = ("p50_us", "p80_us", "p90_us", "p95_us", "p99_us", "p999_us", "p9999_us")

#: The minimum distance of two names above a figure, as a share of its width.
NAMES_APART = 0.045

#: Enough points for any screen, and a small file.
MAX_POINTS = 4000


def save(figure: Any, path: Path) -> None:
    """Write a figure under a temporary name and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as stream:
        figure.savefig(stream, dpi=120, format=path.suffix[1:], bbox_inches="tight")
    plt.close(figure)


def draw_latency_cdf(
    latency_us: Mapping[str, NDArray[np.float64]], path: Path, *, title: str = ""
) -> None:
    """Draw CDFs of each policy's sorted latencies; the axis has a step for each decade of 1 - p.

    Each line ends at the last percentile with :data:`~eval.intervals.MIN_READS_BEYOND` slower
    reads, where its name is written. The file's suffix determines the format.
    """
    figure, axes = plt.subplots(figsize=(8, 5))
    axes.set_xscale("log")
    ends: dict[str, tuple[float, float]] = {}
    for policy, sorted_us in latency_us.items():
        n = len(sorted_us)
        if n <= MIN_READS_BEYOND:
            continue
        # Ranks are evenly spaced on the logarithmic axis: the line has a point for every read of
        # the tail, and for few reads of the rest.
        nines = np.linspace(0, np.log10(n / MIN_READS_BEYOND), MAX_POINTS)
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
    """Write the names of the lines above the figure, in the order of the lines' ends."""
    if not ends:
        return
    order = sorted(ends, key=lambda policy: ends[policy][0])
    low, high = np.log10(axes.get_xlim())
    wanted = [(np.log10(ends[policy][0]) - low) / (high - low) for policy in order]
    # Names that overlap are moved to the left, and then to the right if they left the figure.
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
            contenders.label(policy), ends[policy], (place, 1.06), textcoords="axes fraction",
            rotation=30, ha="left", va="bottom", rotation_mode="anchor", fontsize=9,
            annotation_clip=False, color=colour,
            arrowprops={"arrowstyle": "-", "linewidth": 0.6, "color": colour},
        )  # fmt: skip


def style(policy: str) -> dict[str, Any]:
    """Return the colour and the dash of a policy's line, if it has any."""
    name = policy.split(", ")[0].split(" with ")[0]
    if name not in _COLOURS:
        return {}
    if policy.endswith("10 %)"):
        dash = "-."
    elif policy in _DOTTED or policy.endswith("cap"):
        dash = ":"
    else:
        dash = "--" if name in _DASHED or policy != name else "-"
    return {"color": _COLOURS[name], "linestyle": dash}


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

    All policies in one figure would hide each other. The table contains all of them.
    """
    present = table.policies(place)
    rivals = {
        table.best_rival(place, most_extra=most_extra): words
        for most_extra, words in (
            (contenders.EXTRA_IO_LIMIT, "best rival, 5 %"), (math.inf, "best rival"),
        )
    }  # fmt: skip
    ours = contenders.ours(present)
    main = {"linnos", "fastest", with_duplicates("fastest"), with_duplicates("fastest", "")}
    first = [name for name in ("baseline", *rivals) if name in present]
    last = [name for name in ours if name in main] or ours
    return {
        name: contenders.label(name) + (f"\n({rivals[name]})" if name in rivals else "")
        for name in (*first, *last, *({"oracle"} & {*present}))
    }


#: The most panels of a figure, and the most rows of a panel. More cannot be read at once, and the
#: tables have all of them.
MAX_PANELS, MAX_ROWS = 9, 10


def _draw_changes(table: LongTable, places: Sequence[Place], measure: str, path: Path) -> None:
    """Draw how each policy changes a measure of the baseline, with a dot for each place."""
    often = Counter(name for place in places for name in shown_policies(table, place))
    changes: dict[str, list[float]] = {}
    for name, _ in often.most_common(MAX_ROWS + 1):
        pairs = (
            (table.get(place, name, measure), table.get(place, "baseline", measure))
            for place in places
        )
        changes[name] = [100 * (a.value / b.value - 1) for a, b in pairs if a and b]
    ranked = sorted((name for name in changes if name != "baseline" and changes[name]),
                    key=lambda name: np.median(changes[name]))  # fmt: skip
    figure, (axes,) = _panels(1, 0.5 * len(ranked) + 1.5, 8)
    for row, name in enumerate(ranked):
        colour = style(name).get("color", "grey")
        axes.plot(changes[name], [row] * len(changes[name]), "o", color=colour, alpha=0.35)
        middle = float(np.median(changes[name]))
        axes.plot(middle, row, "D", color=colour, markersize=9, markeredgecolor="white")
        axes.annotate(
            f"{round(middle):+d} %", (middle, row), (0, 8), textcoords="offset points",
            ha="center", fontsize=8, fontweight="bold" if contenders.ours([name]) else "normal",
        )  # fmt: skip
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(ranked)), map(contenders.label, ranked), fontsize=9)
    axes.set_ylim(len(ranked) - 0.5, -0.8)
    axes.set_xlabel(
        f"{measure.removesuffix('_us')} of read latency compared with no steering (%); "
        f"dots: {len(places)} places, diamond: median",
        fontsize=8,
    )
    axes.grid(axis="x", alpha=0.3)
    save(figure, path)


class Panel(NamedTuple):
    """A part of a figure of :func:`draw_ranked`."""

    title: str
    place: Place
    #: The policies that are drawn, with their labels.
    rows: Mapping[str, str]
    measure: str = "mean_us"
    xlabel: str = "mean us"


def draw_ranked(
    table: LongTable, panels: Sequence[Panel], path: Path, *, ours: Collection[str] = (),
    scale: float = 1.0, width: float = 6.5, most: int = 2,
) -> None:  # fmt: skip
    """Draw the numbers of policies with their intervals, ranked, with `ours` in bold.

    `width` is that of a panel, and `most` the number of panels in a row.
    """
    longest = max(len(panel.rows) for panel in panels)
    figure, parts = _panels(len(panels), 0.3 * longest + 1, width, most)
    for axes, panel in zip(parts, panels, strict=True):
        found = {
            name: number
            for name in panel.rows
            if (number := table.get(panel.place, name, panel.measure)) is not None
        }
        order = sorted(found, key=lambda name: found[name].value)
        for row, name in enumerate(order):
            value, low, high = (
                scale * end for end in (found[name].value, found[name].low, found[name].high)
            )
            is_ours = name in ours
            colour = style(name).get("color", "#aa3377" if is_ours else "#777777")
            axes.plot([low, high], [row, row], color=colour, linewidth=1.5)
            axes.plot(value, row, "o" if is_ours else "s", color=colour, markersize=6)
            axes.annotate(
                f"{value:,.0f}", (value, row), (0, 5), textcoords="offset points",
                ha="center", fontsize=7, fontweight="bold" if is_ours else "normal",
            )  # fmt: skip
        axes.set_yticks(range(len(order)), [panel.rows[name] for name in order], fontsize=8)
        axes.set_ylim(len(order) - 0.5, -0.7)
        if all(number.value >= 0 for number in found.values()):
            axes.set_xlim(left=0)
        axes.grid(axis="x", alpha=0.3)
        axes.set_title(panel.title, fontsize=9)
        axes.set_xlabel(panel.xlabel, fontsize=8)
    figure.tight_layout()
    save(figure, path)


def draw_ranked_policies(table: LongTable, path: Path, measure: str = "mean_us") -> None:
    """Draw the means of the main policies, ranked, with their intervals; one panel for a place.

    More places than can be seen at once are summarised.
    """
    places = table.places_with_rivals(measure)
    if len(places) > MAX_PANELS:
        _draw_changes(table, places, measure, path)
        return
    xlabel = f"{measure.removesuffix('_us')} of read latency (us), 95 % interval"
    panels = [
        Panel(_title(place), place, shown_policies(table, place), measure, xlabel)
        for place in places
    ]
    ours = contenders.ours(table.policies())
    draw_ranked(table, panels, path, ours=ours, width=3.9, most=4)


def legend_below(figure: Any, axes: Any) -> None:
    """Write the names of a panel's lines below all panels, where they hide no data."""
    figure.tight_layout()
    handles, names = axes.get_legend_handles_labels()
    # Fourteen characters take an inch; a line and its margins take as much as eight.
    fitting = 14 * figure.get_figwidth() / (max(map(len, names), default=0) + 8)
    figure.legend(
        handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.0), fontsize=8,
        ncols=max(1, min(len(names), MAX_ROWS // 2, int(fitting))),
    )  # fmt: skip


def draw_percentile_lines(
    table: LongTable, path: Path, policies: Collection[str] | None = None
) -> None:
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
            (axes, contenders.label(name), place, name)
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
    legend_below(figure, lines[0][0])
    save(figure, path)


def draw_by_place(
    table: LongTable,
    titles: Mapping[str, str],
    path: Path,
    *,
    scales: Mapping[str, float] | None = None,
    always: Collection[Place] = (),
) -> None:
    """Draw the mean, or the first measure, and p99: a row for each place, a colour for each policy.

    Parameters
    ----------
    titles : mapping
        The measures, with the labels of their axes.
    scales : mapping, optional
        Factors between the numbers of a measure and those of its axis.
    always : collection of Place
        Places that are shown in any case. If there are more than can be seen at once, the figure
        also shows those in which the first measure differs most between policies.
    """
    known = {key.measure for key, _ in table.items() if not key.reference}
    first, *others = (name for name in titles if name in known)
    measures = [first, *[name for name in others if name == "p99_us" or len(others) == 1]]
    policies = table.policies()

    def difference(place: Place) -> float:
        values = [
            number.value for policy in policies if (number := table.get(place, policy, first))
        ]
        return max(values) - min(values) if values else -1.0

    by_difference = sorted(table.places, key=difference, reverse=True)
    widest = sorted(by_difference, key=lambda place: place not in always)[:MAX_ROWS]
    places = [place for place in table.places if place in widest]
    figure, panels = _panels(len(measures), 0.45 * len(places) + 1.3, 6.5, 2)
    for axes, measure in zip(panels, measures, strict=True):
        scale = (scales or {}).get(measure, 1.0)
        for i, policy in enumerate(policies):
            aside = 0.6 * ((i + 0.5) / len(policies) - 0.5)
            found = {
                y + aside: number
                for y, place in enumerate(places)
                if (number := table.get(place, policy, measure)) is not None
            }
            lows = [scale * n.low if n.is_known else np.nan for n in found.values()]
            highs = [scale * n.high if n.is_known else np.nan for n in found.values()]
            axes.hlines([*found], lows, highs, color=f"C{i % 10}", linewidth=1)
            values = [scale * number.value for number in found.values()]
            axes.plot(
                values,
                [*found],
                "o",
                color=f"C{i % 10}",
                markersize=5,
                label=contenders.label(policy),
            )
        if values and min(values) > 0 and np.nanmax([*values, *highs]) > 10 * min(values):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_yticks(range(len(places)), list(map(_title, places)), fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel(titles[measure], fontsize=8)
        axes.grid(alpha=0.3, axis="x")
    if policies == [""]:
        figure.tight_layout()
    else:
        legend_below(figure, panels[0])
    save(figure, path)


def draw_ranges(
    expected: Mapping[str, tuple[float, float]],
    cases: Mapping[str, Mapping[str, Interval]],
    scale: float,
    path: Path,
    xlabel: str = "%",
) -> None:
    """Draw the expected range of each row in grey, and the row's cases with their intervals."""
    figure, axes = plt.subplots(figsize=(9, 0.6 * len(expected) + 1.5))
    for i, (title, (low, high)) in enumerate(expected.items()):
        axes.barh(i, high - low, left=low, color="#dddddd")
        apart = min(0.08, 0.7 / max(1, len(cases[title])))
        for j, case in enumerate(cases[title].values()):
            y = i + apart * (j - (len(cases[title]) - 1) / 2)
            axes.plot([scale * case.low, scale * case.high], [y, y], color="#0072b2", linewidth=0.8)
            axes.plot(scale * case.value, y, ".", color="#0072b2")
    if any(case.value < 0 for found in cases.values() for case in found.values()):
        axes.axvline(0, color="black", linewidth=0.5)
    axes.set_yticks(range(len(expected)), list(expected), fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(f"{xlabel}; grey: the paper's range, blue: our cases")
    save(figure, path)

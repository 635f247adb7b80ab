# SPDX-License-Identifier: MIT
"""Figures of the evaluation, each drawn from data by one function."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter
from numpy.typing import NDArray

from eval.experiments.bursts import pooled as pooled_bursts
from linnapp.files import replaced_file

#: One colour and dash a policy, the same in every figure; the bound is black.
POLICY_STYLE: dict[str, dict[str, Any]] = {
    "baseline": {"color": "#888888"},
    "clone": {"color": "#8c564b"},
    "random": {"color": "#bcbd22"},
    "hedge": {"color": "#e69f00"},
    "hedge-ip": {"color": "#f0c060", "linestyle": "--"},
    "heuristic": {"color": "#cc79a7"},
    "heuristic-adv": {"color": "#cc79a7", "linestyle": "--"},
    "linnos": {"color": "#0072b2"},
    "linnos-hl": {"color": "#009e73"},
    "linnos-h99": {"color": "#56b4e9", "linestyle": "--"},
    "oracle": {"color": "black", "linestyle": ":"},
}

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
    """Draw latency CDFs with the tail stretched: a decade of 1 - p a step.

    Parameters
    ----------
    latency_us : mapping of str to ndarray
        Sorted read latencies of each policy.
    path : Path
        The figure to write; its suffix says in which format.
    title : str
    """
    figure, axes = plt.subplots(figsize=(8, 5))
    longest = 0
    for policy, sorted_us in latency_us.items():
        n = len(sorted_us)
        if not n:
            continue
        longest = max(longest, n)
        # Ranks evenly spaced on the stretched axis, so that the tail is
        # drawn from its every sample and the body from few.
        nines = np.linspace(0, np.log10(n), MAX_POINTS)
        rank = np.unique(np.minimum((n * (1 - 10.0**-nines)).astype(int), n - 1))
        axes.plot(
            sorted_us[rank], -np.log10(1 - rank / n), label=policy, **POLICY_STYLE.get(policy, {})
        )
    ticks = np.arange(0, max(np.log10(max(longest, 10)), 1) + 0.01)
    axes.yaxis.set_major_locator(FixedLocator([0, 0.30103, *ticks[1:]]))
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda y, _: f"p{100 * (1 - 10.0**-y):.{max(0, int(y) - 2)}f}")
    )
    axes.set_xscale("log")
    axes.set_xlabel("read latency (us)")
    axes.set_ylabel("percentile")
    axes.grid(alpha=0.3, which="both")
    axes.legend(loc="upper left")
    if title:
        axes.set_title(title)
    save(figure, path)


# --- One function an experiment: data file in, figure out -----------------------


def _read(data_path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(data_path.read_text())
    return data


def _style(policy: str) -> dict[str, Any]:
    return POLICY_STYLE.get(policy, {})


def _nothing(path: Path, why: str) -> None:
    figure, axes = plt.subplots(figsize=(6, 2))
    axes.text(0.5, 0.5, why, ha="center", va="center")
    axes.set_axis_off()
    save(figure, path)


def _by_cell(data: dict[str, Any]) -> dict[tuple[str, str], dict[str, list[dict[str, Any]]]]:
    cells: dict[tuple[str, str], dict[str, list[dict[str, Any]]]] = {}
    for run in data["grid"]:
        policies = cells.setdefault((run["workload"], run["array"]), {})
        policies.setdefault(run["policy"], []).append(run)
    return cells


def _grid_axes(cells: Mapping[tuple[str, str], Any], height: float = 3.2) -> tuple[Any, Any]:
    workloads = list(dict.fromkeys(workload for workload, _ in cells))
    arrays = list(dict.fromkeys(array for _, array in cells))
    figure, axes = plt.subplots(
        len(arrays), len(workloads), squeeze=False,
        figsize=(3.6 * len(workloads), height * len(arrays)),
    )  # fmt: skip
    panels = {
        (workload, array): axes[j][i]
        for i, workload in enumerate(workloads)
        for j, array in enumerate(arrays)
    }
    return figure, panels


def fig08(data_path: Path, path: Path) -> None:
    """Bars of the mean, one panel a cell; whiskers from the least to the most of the repeats."""
    cells = _by_cell(_read(data_path))
    figure, panels = _grid_axes(cells)
    for cell, policies in cells.items():
        axes = panels[cell]
        for i, (policy, runs) in enumerate(policies.items()):
            means = [run["mean_us"] for run in runs]
            middle = float(np.mean(means))
            axes.bar(i, middle, color=_style(policy).get("color", "grey"))
            axes.plot([i, i], [min(means), max(means)], color="black", linewidth=1)
        axes.set_xticks(range(len(policies)), list(policies), rotation=60, ha="right", fontsize=7)
        axes.set_title(f"{cell[0]} on {cell[1]}", fontsize=9)
        axes.set_ylabel("mean read latency (us)", fontsize=8)
    figure.tight_layout()
    save(figure, path)


def fig09(data_path: Path, path: Path) -> None:
    """Percentiles, one panel a cell, one line a policy, averages of the repeats."""
    cells = _by_cell(_read(data_path))
    figure, panels = _grid_axes(cells)
    keys = ("p80_us", "p90_us", "p95_us", "p99_us", "p999_us", "p9999_us")
    names = ("p80", "p90", "p95", "p99", "p99.9", "p99.99")
    for cell, policies in cells.items():
        axes = panels[cell]
        for policy, runs in policies.items():
            means = [float(np.mean([run[key] for run in runs])) for key in keys]
            axes.plot(range(len(keys)), means, label=policy, **_style(policy))
        axes.set_xticks(range(len(keys)), names, fontsize=7)
        axes.set_yscale("log")
        axes.set_title(f"{cell[0]} on {cell[1]}", fontsize=9)
        axes.grid(alpha=0.3)
    first = next(iter(panels.values()))
    first.set_ylabel("read latency (us)", fontsize=8)
    first.legend(fontsize=6)
    figure.tight_layout()
    save(figure, path)


def fig11(data_path: Path, path: Path) -> None:
    """LinnOS with and without hedging: the tail, one panel a cell."""
    fig09(data_path, path)


def bursts(data_path: Path, path: Path) -> None:
    """Recall by position, excess latency by position, recovery by probing."""
    data = pooled_bursts(_read(data_path))
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
        axes.set_xlabel("position within the burst")
        axes.set_ylabel("slow reads predicted slow")
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
                label=row["policy"], marker=".", **_style(row["policy"]),
            )  # fmt: skip
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set_title(f"bursts of {slot_ms} ms, {added_us} us added, enforced", fontsize=9)
    axes.set_xlabel("position within the burst")
    axes.set_ylabel("mean latency above calm times (us)")
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
    save(figure, path)


def windows(data_path: Path, path: Path) -> None:
    """Distributions over the windows: improvement over hedge and baseline, oracle's share."""
    rows = _read(data_path)["windows"]
    policies = [p for p in rows[0]["mean_us"] if p != "baseline"]
    figure, panels = plt.subplots(1, 3, figsize=(16, 4.5))
    rank = (np.arange(len(rows)) + 1) / len(rows)
    for axes, reference in zip(panels, ("hedge", "baseline"), strict=False):
        for policy in policies:
            if policy == reference:
                continue
            gain = sorted(1 - r["mean_us"][policy] / r["mean_us"][reference] for r in rows)
            axes.plot(np.array(gain) * 100, rank, label=policy, **_style(policy))
        axes.axvline(0, color="black", linewidth=0.5)
        axes.set_xlim(left=-100)
        axes.set_xlabel(f"mean latency below {reference} (%)")
        axes.set_ylabel("share of the windows")
        axes.grid(alpha=0.3)
    axes = panels[2]
    for policy in policies:
        share = []
        for r in rows:
            base, best = r["mean_us"]["baseline"], r["mean_us"]["oracle"]
            if base - best >= 0.01 * base:
                share.append((base - r["mean_us"][policy]) / (base - best))
        axes.plot(
            np.array(sorted(share)) * 100, (np.arange(len(share)) + 1) / max(len(share), 1),
            label=policy, **_style(policy),
        )  # fmt: skip
    axes.set_xlim(-100, 110)
    axes.set_xlabel("share of the oracle's gain (%)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    save(figure, path)


def uscope(data_path: Path, path: Path) -> None:
    """Mean against the added latency by pattern and array, and latency over time."""
    data = _read(data_path)
    patterns = [p for p in dict.fromkeys(row["pattern"] for row in data["points"]) if p != "none"]
    ratios = sorted({row["ratio_percent"] for row in data["points"] if row["ratio_percent"]})
    arrays = list(dict.fromkeys(row["array"] for row in data["points"]))
    shown = data["series"][-1]["workload"], data["series"][-1]["array"]
    n_rows = len(ratios) * len(arrays) + 1
    figure, panels = plt.subplots(
        n_rows, len(patterns), squeeze=False, figsize=(5 * len(patterns), 3.2 * n_rows)
    )
    for i, pattern in enumerate(patterns):
        for j, (array, ratio) in enumerate((a, r) for a in arrays for r in ratios):
            axes = panels[j][i]
            curves: dict[str, dict[int, list[float]]] = {}
            for row in data["points"]:
                if (row["array"], row["pattern"], row["ratio_percent"]) == (array, pattern, ratio):
                    curve = curves.setdefault(row["policy"], {})
                    curve.setdefault(row["added_us"], []).append(row["mean_us"])
            for policy, curve in curves.items():
                axes.plot(
                    list(curve), [float(np.mean(values)) for values in curve.values()],
                    label=policy, marker=".", **_style(policy),
                )  # fmt: skip
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_title(f"{array}: {pattern}, {ratio} % of the first drive's reads", fontsize=9)
            axes.set_xlabel("added latency (us)", fontsize=8)
            axes.set_ylabel("mean read latency (us)", fontsize=8)
            axes.grid(alpha=0.3, which="both")
        axes = panels[-1][i]
        for series in data["series"]:
            if (series["workload"], series["array"], series["pattern"]) == (*shown, pattern):
                values = [np.nan if v is None else v for v in series["mean_us"]]
                time_s = np.arange(len(values)) * data["bin_ms"] / 1000
                axes.plot(time_s, values, label=series["policy"], linewidth=0.8,
                          **_style(series["policy"]))  # fmt: skip
        axes.set_yscale("log")
        axes.set_title(f"{' on '.join(shown)}: {pattern}, first drive's readers", fontsize=9)
        axes.set_xlabel("time (s)", fontsize=8)
        axes.set_ylabel(f"mean of {data['bin_ms']} ms (us)", fontsize=8)
    panels[0][0].legend(fontsize=7)
    figure.tight_layout()
    save(figure, path)


def fig10(data_path: Path, path: Path) -> None:
    """False submits and revokes by training, offline and live."""
    rows = _read(data_path)["rows"]
    cells = list(dict.fromkeys((row["workload"], row["array"]) for row in rows))
    figure, panels = plt.subplots(1, 2, figsize=(14, 4), sharey=True)
    for axes, where in zip(panels, ("offline", "live"), strict=True):
        for i, training in enumerate(dict.fromkeys(row["training"] for row in rows)):
            for field, bottom_field, colour in (
                ("false_submit_ratio", None, "#d55e00"),
                ("false_revoke_ratio", "false_submit_ratio", "#56b4e9"),
            ):
                values, bottoms = [], []
                for cell in cells:
                    same = [
                        row for row in rows
                        if (row["workload"], row["array"]) == cell
                        and (row["training"], row["where"]) == (training, where)
                    ]  # fmt: skip
                    values.append(100 * float(np.mean([row[field] for row in same])))
                    bottoms.append(
                        100 * float(np.mean([row[bottom_field] for row in same]))
                        if bottom_field
                        else 0.0
                    )
                axes.bar(
                    np.arange(len(cells)) + 0.28 * i, values, 0.25, bottom=bottoms, color=colour,
                    alpha=(0.35, 0.65, 1.0)[i],
                    label=f"{field.replace('_ratio', 's').replace('_', ' ')}, {training}",
                )  # fmt: skip
        axes.set_xticks(np.arange(len(cells)) + 0.2, [f"{w}\n{a}" for w, a in cells], fontsize=7)
        axes.set_title(where)
        axes.grid(alpha=0.3, axis="y")
    panels[0].set_ylabel("share of the reads (%)")
    panels[0].legend(fontsize=7)
    figure.tight_layout()
    save(figure, path)


def fig05(data_path: Path, path: Path) -> None:
    """CDFs with three thresholds, the area against the threshold, and all points."""
    data = _read(data_path)
    shown = data["shown"]
    figure, panels = plt.subplots(1, 3, figsize=(16, 4.5))
    axes = panels[0]
    for name, curve in shown["curves_us"].items():
        label = f"{name}: mean {shown['mean_us'][name]:.0f} us"
        axes.plot(curve, shown["percentile_grid"], label=label)
    axes.set_xscale("log")
    axes.set_xlabel("read latency (us)")
    axes.set_ylabel("percentile")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    axes = panels[1]
    axes.plot(shown["candidate_percentiles"], shown["candidate_areas_us"])
    axes.axvline(shown["percentile"]["chosen"], color="black", linestyle=":")
    axes.set_xlabel("candidate percentile")
    axes.set_ylabel("boost area (us)")
    axes.grid(alpha=0.3)
    axes = panels[2]
    cells = list(dict.fromkeys((row["workload"], row["array"]) for row in data["rows"]))
    for row in data["rows"]:
        x = cells.index((row["workload"], row["array"])) + 0.15 * (row["drive"] - 1)
        axes.plot(x, row["percentile"], ".", color=f"C{row['drive']}")
    axes.set_xticks(range(len(cells)), [f"{w}\n{a}" for w, a in cells], fontsize=6)
    axes.set_ylabel("percentile of the inflection point")
    axes.set_title("every drive and repeat", fontsize=9)
    axes.grid(alpha=0.3, axis="y")
    figure.tight_layout()
    save(figure, path)


def table1(data_path: Path, path: Path) -> None:
    """Rates and mix of the workloads."""
    rows = _read(data_path)["rows"]
    figure, panels = plt.subplots(1, 3, figsize=(13, 3.5))
    labels = [f"{row['workload']}\n{row['drive']}" for row in rows]
    for axes, key, title in zip(
        panels, ("iops", "read_ratio", "read_kb_mean"),
        ("I/Os per second", "share of reads", "mean read (KiB)"), strict=True,
    ):  # fmt: skip
        axes.bar(range(len(rows)), [row[key] for row in rows])
        axes.set_xticks(range(len(rows)), labels, fontsize=6)
        axes.set_title(title, fontsize=9)
    figure.tight_layout()
    save(figure, path)


def table3(data_path: Path, path: Path) -> None:
    """Accuracy and recall against inference time."""
    data = _read(data_path)
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for field, marker in (("accuracy", "o"), ("slow_recall", "^")):
        for i, model in enumerate(data["shape"]):
            values = [row[field] for row in data["rows"] if row["model"] == model]
            axes.plot(
                data["time_ns"][model], 100 * float(np.mean(values)), marker, color=f"C{i}",
                label=f"{model}: {field.replace('_', ' ')}",
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel("time of one inference (ns)")
    axes.set_ylabel("share (%)")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    save(figure, path)


def fig07(data_path: Path, path: Path) -> None:
    """The inflection point's percentile over the day, one panel a workload and window."""
    rows = _read(data_path)["rows"]
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    windows_min = sorted({row["window_min"] for row in rows})
    figure, panels = plt.subplots(
        len(workloads), len(windows_min), squeeze=False, sharey=True,
        figsize=(4.5 * len(windows_min), 3 * len(workloads)),
    )  # fmt: skip
    for j, workload in enumerate(workloads):
        for i, minutes in enumerate(windows_min):
            axes = panels[j][i]
            for drive in sorted({row["drive"] for row in rows}):
                points = [
                    (row["start_h"], row["percentile"])
                    for row in rows
                    if (row["workload"], row["window_min"], row["drive"])
                    == (workload, minutes, drive)
                ]
                axes.step(*zip(*points, strict=True), where="post", label=f"drive {drive}")
            axes.set_title(f"{workload}, windows of {minutes} min", fontsize=9)
            axes.set_xlabel("hour", fontsize=8)
            axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("percentile of the inflection point", fontsize=8)
    panels[0][0].legend(fontsize=7)
    figure.tight_layout()
    save(figure, path)


def fig01(data_path: Path, path: Path) -> None:
    """Latency CDFs of the drives, the tail stretched."""
    rows = _read(data_path)["rows"]
    figure, axes = plt.subplots(figsize=(8, 5))
    profiles = list(dict.fromkeys(row["profile"] for row in rows))
    for row in rows:
        axes.plot(
            row["latency_us"], -np.log10(1 - np.array(row["share"])),
            color=f"C{profiles.index(row['profile'])}",
            linestyle="-" if row["mix"] == "read-write" else ":",
            label=f"{row['profile']}, {row['mix']}",
        )  # fmt: skip
    axes.set_yticks([0, 0.30103, 1, 2, 3, 4], ["p0", "p50", "p90", "p99", "p99.9", "p99.99"])
    axes.set_xscale("log")
    axes.set_xlabel("read latency (us)")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3, which="both")
    save(figure, path)


def cpu(data_path: Path, path: Path) -> None:
    """CPU share of inference by drive."""
    data = _read(data_path)
    figure, axes = plt.subplots(figsize=(7, 3.5))
    rows = data["rows"]
    axes.bar(range(len(rows)), [100 * row["cpu_share"] for row in rows])
    labels = [f"{row['workload']}\n{row['drive']}" for row in rows]
    axes.set_xticks(range(len(rows)), labels, fontsize=7)
    axes.set_ylabel("share of one core (%)")
    axes.set_title(f"{data['work_ns']['scalar']:.0f} ns of work a read, plain C", fontsize=9)
    save(figure, path)


def fig12(data_path: Path, path: Path) -> None:
    """Mean by policy of each public trace."""
    rows = _read(data_path)["rows"]
    if not rows:
        _nothing(path, "no public trace was given")
        return
    traces = list(dict.fromkeys(row["trace"] for row in rows))
    figure, panels = plt.subplots(1, len(traces), squeeze=False, figsize=(4.5 * len(traces), 3.5))
    for axes, trace in zip(panels[0], traces, strict=True):
        same = [row for row in rows if row["trace"] == trace]
        for i, row in enumerate(same):
            axes.bar(i, row["mean_us"], color=_style(row["policy"]).get("color", "grey"))
        axes.set_xticks(
            range(len(same)), [row["policy"] for row in same], rotation=60, ha="right", fontsize=7
        )
        axes.set_title(trace, fontsize=9)
    panels[0][0].set_ylabel("mean read latency (us)")
    figure.tight_layout()
    save(figure, path)


#: By the experiment's name.
DRAW: dict[str, Callable[[Path, Path], None]] = {
    function.__name__: function
    for function in (
        fig01, fig05, fig07, fig08, fig09, fig10, fig11, fig12,
        table1, table3, bursts, windows, uscope, cpu,
    )
}  # fmt: skip

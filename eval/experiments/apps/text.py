# SPDX-License-Identifier: MIT
"""The data as tables and in words."""

from __future__ import annotations

from typing import Any

from eval.experiment import Table
from eval.experiments.apps.comparison import COMPARED, LATENCY, MODULE, OFF, ON
from eval.experiments.apps.design import BTRFS, FILE_SYSTEM
from eval.scores import by_verdict, key, number, said
from linnapp.stats import Interval

#: By how much the p99 of the paper's MongoDB on f2fs was lower, the one number of Fig. 13 that its
#: text tells.
PAPER_P99_BELOW = 0.767

MODES = {
    OFF: "off",
    ON: "on",
    LATENCY: "on, latencies",
    MODULE: "module, latencies",
    BTRFS: "btrfs raid1c3",
}

FIELDS = ("mean_us", *(key(p) for p in COMPARED))
_NAMES = {"mean_us": "mean", "p95_us": "p95", "p99_us": "p99", "p999_us": "p99.9"}


def name_of(row: dict[str, Any]) -> str:
    """A load and its file system."""
    return f"{row['title']}, {row['file_system']}"


def table(data: dict[str, Any]) -> dict[str, Table]:
    """Each load in each mode, by how much on is lower, beside each workload, what was counted."""
    latency = [
        (
            name_of(row), MODES[mode], str(row["operations"][mode]), f"{row['per_s'][mode]:.0f}",
            *(number(row["modes"][mode][field]) for field in FIELDS),
        )
        for row in data["loads"]
        for mode in row["modes"]
    ]  # fmt: skip
    lower = [
        (
            name_of(row), MODES[mode], "+".join(row["workloads"]),
            *(said(lower[field]) for field in FIELDS),
            number(row["throughput"][mode], 2),
        )
        for row in data["loads"]
        for mode, lower in row["below"].items()
    ]  # fmt: skip
    beside = [
        (
            name_of(row), MODES[mode], cell["workload"], str(cell["seed"]),
            *(
                f"{number(cell['modes'][OFF][field])} → {number(cell['modes'][mode][field])}: "
                f"{said(lower[field])}"
                for field in ("mean_us", "p95_us", "p99_us")
            ),
        )
        for row in data["loads"]
        if row["file_system"] == FILE_SYSTEM
        for cell in row["beside"]
        for mode, lower in cell["below"].items()
    ]  # fmt: skip
    counted = [
        (
            name_of(row), MODES[mode],
            " / ".join(f"{n}" for n in of["mirrors"]), f"{sum(of['inferences'])}",
            f"{sum(of['probes'])}",
        )
        for row in data["loads"]
        for mode, of in row["counted"].items()
    ]  # fmt: skip
    module = [
        (name_of(row), "+".join(row["workloads"]),
         *(said(row["module_below"][field]) for field in FIELDS))
        for row in data["loads"]
        if "module_below" in row
    ]  # fmt: skip
    names = [_NAMES[field] for field in FIELDS]
    return {
        "Latency of operations as the application reports it (us), all workloads": Table(
            ("application", "linnos", "operations", "a second", *names), tuple(latency)
        ),
        "On below off: a difference only where zero is outside; operations on by those off": Table(
            ("application", "linnos", "beside", *names, "operations"), tuple(lower)
        ),
        "By the modules, below the patched kernel with the same models": Table(
            ("application", "beside", *names), tuple(module)
        ),
        "Beside each workload (us), off → on, and on below off": Table(
            ("application", "linnos", "beside", "seed", *names[:3]), tuple(beside)
        ),
        "Reads of the three mirrors, and what the kernel was asked": Table(
            ("application", "linnos", "reads", "inferences", "probes"), tuple(counted)
        ),
    }


def _verdicts(data: dict[str, Any], mode: str, field: str) -> str:
    """Of a number beside each workload by itself, whether it is below off."""
    return by_verdict(
        (f"{row['title']} beside {cell['workload']}",
         Interval.from_json(cell["below"][mode][field]))
        for row in data["loads"]
        if row["file_system"] == FILE_SYSTEM
        for cell in row["beside"]
        if cell["below"][mode][field] is not None
    )  # fmt: skip


def reading(data: dict[str, Any]) -> str:
    """Where the attribute helps, where it does not, and where it harms."""
    counts = [
        f"With {MODES[mode]}, on {FILE_SYSTEM}, {_NAMES[field]}: {_verdicts(data, mode, field)}."
        for mode in (ON, LATENCY, MODULE)
        if any(mode in row["below"] for row in data["loads"])
        for field in ("mean_us", "p95_us", "p99_us")
    ]
    errors = sum(row["errors"] for row in data["loads"])
    return "\n\n".join(
        [
            *counts,
            f"The paper's MongoDB on f2fs: p99 lower by {100 * PAPER_P99_BELOW:.1f} %; it was "
            "changed to fail over. Here nothing is, and what is compared with is md's own choice "
            "of a mirror.",
            "In every run each row, value, page or block read was compared or had its checksum "
            "compared, the file or database was checked afterwards, and the mirrors were compared "
            f"block by block. Errors of the background: {errors}.",
            "Versions: " + "; ".join(data["versions"].values()) + ".",
        ]
    )

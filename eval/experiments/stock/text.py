# SPDX-License-Identifier: MIT
"""The data as tables, words and bars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from eval import figures, scores
from eval.experiment import Table

#: What runs on both kernels: policies of the replayer, and ways of read_trace.c.
BOTH_REPLAYED = ("baseline", "hedge", "lowest", "lowest-h95, 5% cap")
BOTH_READ = ("home", "liblinnos", "hedged")

#: What needs LinnOS in the kernel.
PATCHED_REPLAYED = ("linnos", "linnos-hl, 5% cap")
PATCHED_READ = ("asked",)

#: As tables call them, in their order; the replayer's own names otherwise.
TITLES = {
    "home": "home, by the reading program",
    "liblinnos": "`linnos_pread()`",
    "hedged": "`linnos_pread()`, hedged, 5% cap",
    "asked": "`linnos_kernel_best_drives()`: the kernel is asked",
}
ORDER = (
    "baseline", "home", "hedge", "lowest", "lowest-h95, 5% cap", "liblinnos", "hedged",
    "asked", "linnos", "linnos-hl, 5% cap",
)  # fmt: skip


def stock(name: str) -> str:
    """The name of the same on the kernel without LinnOS."""
    return f"{name}, stock kernel"


def table(data: dict[str, Any]) -> dict[str, Table]:
    """A table a cell: on the kernel without LinnOS, on the one with it."""
    tables = {}
    for cell in data["cells"]:
        rows = []
        for name in ORDER:
            policies = cell["policies"]
            mine, theirs = policies[name], policies.get(stock(name))
            rows.append(
                (
                    TITLES.get(name, name),
                    scores.number(theirs and theirs["mean_us"], 1),
                    scores.number(mine["mean_us"], 1),
                    *(scores.number((theirs or mine)[scores.key(p)]) for p in (50.0, 95.0, 99.0)),
                    f"{100 * (theirs or mine)['extra_io_ratio']:.2f} %",
                    str(data["different"][cell["workload"]][name]) if theirs else "-",
                )
            )
        tables[f"{cell['workload']}, seed {cell['seed']}: {cell['reads']} reads"] = Table(
            ("who", "mean us, stock kernel", "with LinnOS", "p50", "p95", "p99", "extra I/O",
             "reads that differ"),
            tuple(rows),
        )  # fmt: skip
    return tables


def reading(data: dict[str, Any]) -> str:
    """What is the same on both kernels, and what each way is worth."""
    mine = stock("liblinnos")
    others = (stock("baseline"), stock("hedge"), stock("lowest"), "asked", "linnos",
              "linnos-hl, 5% cap")  # fmt: skip
    parts = [
        f"{cell['workload']}: the mean of `linnos_pread()` on the stock kernel is below "
        + "; ".join(
            f"{other.removesuffix(stock(''))}: {scores.said(cell['below'][mine][other])}"
            for other in others
        )
        + f". Hedging takes off another {scores.said(cell['below'][stock('hedged')][mine])}."
        for cell in data["cells"]
    ]
    differ = sum(n for by_name in data["different"].values() for n in by_name.values())
    return "\n\n".join(
        (
            *parts,
            f"Between the kernels {differ or 'no'} reads took another time, to the tick.",
            scores.errors(data["runs"]),
        )
    )


def draw(data: dict[str, Any], path: Path) -> None:
    """Bars of the means, a panel a cell."""
    cells = data["cells"]
    figure, panels = plt.subplots(1, len(cells), squeeze=False, figsize=(1 + 3 * len(cells), 4))
    for axes, cell in zip(panels.flat, cells, strict=True):
        for at, name in enumerate(reversed(ORDER)):
            of_both = ((stock(name), "#e69f00", 0.2), (name, "#0072b2", -0.2))
            for who, colour, shift in of_both:
                fields = cell["policies"].get(who)
                if fields is None:
                    continue
                value, low, high = fields["mean_us"]
                axes.barh(at + shift, value, 0.38, color=colour)
                if low is not None:
                    axes.plot((low, high), (at + shift, at + shift), color="black", linewidth=1)
        axes.set_yticks(
            range(len(ORDER)),
            [TITLES.get(name, name).replace("`", "") for name in reversed(ORDER)],
            fontsize=7,
        )
        if axes is not panels.flat[0]:
            axes.set_yticklabels([])
        axes.set_title(cell["workload"], fontsize=9)
        axes.set_xlabel("mean latency (us)", fontsize=8)
        axes.grid(alpha=0.3, axis="x")
    handles = [
        plt.Rectangle((0, 0), 1, 1, color=colour, label=label)
        for colour, label in (("#e69f00", "kernel without LinnOS"), ("#0072b2", "with LinnOS"))
    ]
    figure.tight_layout()
    figure.legend(
        handles=handles, fontsize=7, ncol=2, loc="upper center", bbox_to_anchor=(0.5, 0.0)
    )
    figures.save(figure, path)

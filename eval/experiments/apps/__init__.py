# SPDX-License-Identifier: MIT
"""Unmodified applications on an md raid1 that chooses mirrors by LinnOS.

    make eval-apps
    make eval-apps LINNOS_APPS=sqlite,fio

`make eval` does not run it: it needs installed servers (packaging/apt/apps.txt) and takes half an
hour. A guest runs an application on one part of its drives while a workload is replayed on the
other (:mod:`.lab`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval import figures, grid
from eval.cells import LATENCY_TRAINING, Cell, trained
from eval.experiment import Context
from eval.experiments.apps import lab
from eval.experiments.apps.comparison import COMPARED, LATENCY, MODULE, OFF, ON, score, summed
from eval.experiments.apps.lab import MODULE_KERNEL, Case, Ran, run_case
from eval.experiments.apps.programs import APPLICATIONS, require
from eval.long_table import LongTable
from eval.scores import key
from eval.study import Measure, Study
from linnapp.lab import guests
from linnapp.lab.work import StepError
from linnapp.stats import Interval

VARIABLE = "LINNOS_APPS"

NAMES = tuple(name for name in os.environ.get(VARIABLE, "").split(",") if name) or tuple(
    APPLICATIONS
)

#: Workloads of the background: those of Table 1 for the enterprise array, as in the paper's
#: Fig. 13, each with its own seed.
WORKLOADS = ("az-e", "bi-e", "bs-e", "co-e")

FILE_SYSTEM = "ext4"

#: Applications that also run on other file systems, with one workload. The paper's Fig. 13 has
#: MongoDB on several; here they are its storage engine, SQLite, and fio for comparison.
ON_OTHERS = ("wiredtiger", "sqlite", "fio")
OTHERS = ("xfs", "f2fs", "btrfs")
OTHERS_WITH = "co-e"

MD_MODES = (OFF, ON, LATENCY)

#: Without md: btrfs stores three copies and reads the one that the reader's process number gives.
BTRFS = "btrfs"

#: The only number of Fig. 13 in the paper's text: the reduction of the p99 of MongoDB on f2fs.
PAPER_P99_REDUCTION = 0.767

MEASURES = {
    "mean_us": Measure("mean us", positive=True),
    **{key(p): Measure(f"p{p:g} us", positive=True) for p in COMPARED},
    "operations": Measure("operations"),
    "per_s": Measure("operations per second"),
    "throughput": Measure("operations, factor of off", 2),
    **{f"reads_{drive}": Measure(f"reads of mirror {drive}") for drive in range(3)},
    "inferences": Measure("inferences"),
    "probes": Measure("probes"),
    "errors": Measure("errors of the background"),
}


def cases(cell: Cell) -> list[Case]:
    """Return the runs that have a cell's workload as the background."""
    made = [Case(name, FILE_SYSTEM, mode) for name in NAMES for mode in (*MD_MODES, MODULE)]
    if cell.workload == OTHERS_WITH:
        for name in (name for name in ON_OTHERS if name in NAMES):
            made += [Case(name, system, mode) for system in OTHERS for mode in MD_MODES]
            made.append(Case(name, "btrfs", BTRFS))
    return made


def add_scores(table: LongTable, place: Sequence[str], scored: dict[str, Any]) -> None:
    """Add the latencies of all modes, and the reductions by modes compared with others."""

    def add(mode: str, measure: str, triple: Any, reference: str = "") -> None:
        if triple is not None:
            table.add(place, mode, measure, Interval.from_json(triple), reference)

    for mode, fields in scored["modes"].items():
        table.add(place, mode, "operations", scored["operations"][mode])
        table.add(place, mode, "per_s", scored["per_s"][mode])
        for measure in (of for of in MEASURES if of in fields):
            add(mode, measure, fields[measure])
    for mode, lower in scored["below"].items():
        for measure, triple in lower.items():
            add(mode, measure, triple, OFF)
        add(mode, "throughput", scored["throughput"][mode])
    for measure, triple in scored.get("module_below", {}).items():
        add(MODULE, measure, triple, LATENCY)


def add_runs(table: LongTable, ran: Sequence[Ran]) -> None:
    """Add the scores of every load, over all workloads and with each, and what drives counted."""
    groups: dict[tuple[str, str], list[Ran]] = {}
    for one in ran:
        groups.setdefault((one.case.application, one.case.file_system), []).append(one)
    for (name, system), group in groups.items():
        cells = list(dict.fromkeys(one.cell for one in group))
        modes = list(dict.fromkeys(one.case.mode for one in group))
        reports = {(one.cell, one.case.mode): one.operations() for one in group}
        for load, title in APPLICATIONS[name].loads.items():
            by_cell = [{mode: reports[cell, mode][load] for mode in modes} for cell in cells]
            add_scores(table, (title, system, ""), score(by_cell))
            for cell, runs in zip(cells, by_cell, strict=True):
                add_scores(table, (title, system, cell.workload), score([runs]))
            for mode in modes:
                records = [one.record for one in group if one.case.mode == mode]
                counted = summed(record["counted"] for record in records)
                numbers = {f"reads_{drive}": n for drive, n in enumerate(counted["mirrors"])}
                numbers |= {of: sum(counted[of]) for of in ("inferences", "probes")}
                numbers["errors"] = sum(of["data_errors"] + of["io_errors"] for of in records)
                for measure, n in numbers.items():
                    table.add((title, system, ""), mode, measure, n)


class ApplicationStudy(Study):
    """A study whose runs need two kernels, and whose modes do not have the same operations."""

    def run(self, context: Context) -> LongTable:
        """Run every application in each mode with every workload."""
        for name in NAMES:
            if name not in APPLICATIONS:
                raise StepError(
                    f"{VARIABLE}: {name}: no such application; known are {', '.join(APPLICATIONS)}"
                )
        apps = [APPLICATIONS[name] for name in NAMES]
        require(apps)
        cells = grid.seed_a_workload(WORKLOADS, context.seeds)
        context.map(lambda cell: trained(context.cache, cell), cells, "recording and training")
        context.map(
            lambda cell: trained(context.cache, cell, LATENCY_TRAINING), cells, "latency models"
        )
        context.map(lambda app: lab.data(context.cache, app), apps, "data")
        pairs = [(cell, case) for cell in cells for case in cases(cell)]

        def run_all(by_module: bool) -> list[Ran]:
            return context.map(
                lambda pair: run_case(context.cache, *pair),
                [pair for pair in pairs if (pair[1].mode == MODULE) == by_module],
                "running with the modules" if by_module else "running",
            )

        ran = run_all(False)
        with guests.on_kernel(MODULE_KERNEL, "kernel-um-module", context.folder.parent / "bin"):
            ran += run_all(True)
        table = LongTable(tuple(self.factors))
        add_runs(table, ran)
        return table


def draw(table: LongTable, path: Path) -> None:
    """Draw the latencies over all workloads, a point for each mode."""
    shown = LongTable(("load", "file_system"))
    for of, number in table.items():
        if not of.reference and not of.place[2]:
            shown.add(of.place[:2], of.policy, of.measure, number)
    titles = {name: MEASURES[name].title for name in ("mean_us", *map(key, COMPARED))}
    figures.by_place(shown, titles, path)


EXPERIMENT = ApplicationStudy(
    name="apps",
    title="Unmodified applications on md raid1",
    source="LinnOS Fig. 13",
    factors={
        "load": [title for app in APPLICATIONS.values() for title in app.loads.values()],
        "file_system": (FILE_SYSTEM, *OTHERS),
        "workload": WORKLOADS,
    },
    policies=(*MD_MODES, MODULE, BTRFS),
    groups=(("load", "file_system"), ("load", "file_system", "workload")),
    reference=OFF,
    pairs=((MODULE, LATENCY),),
    measures=MEASURES,
    figure=draw,
    settings={
        "applications": {
            name: {"data": APPLICATIONS[name].data, "load": APPLICATIONS[name].load}
            for name in NAMES
            if name in APPLICATIONS
        },
        "chosen": NAMES,
        "others_with": OTHERS_WITH,
        "mirror_mb": lab.MIRROR_MB,
        **grid.PARTS,
    },
    paper="MongoDB with a copy on each of three enterprise drives, on several file systems: on "
    f"f2fs p99 is lower by {PAPER_P99_REDUCTION:.1%}; the other values are only in its figure. "
    "About 50 lines of MongoDB and the file systems were changed for failover.",
    differs="No application and no file system is changed: the array chooses, and is compared with "
    "md's own choice of a mirror. Debian has no MongoDB server; its storage engine, WiredTiger, is "
    "measured by itself. The guest's processor takes no virtual time, so the computations of an "
    "application cost nothing. The background uses another part of each drive, unseen by md. The "
    "modules are measured on a kernel without LinnOS. Their queries take no virtual time; those of "
    "the patched kernel take 0.4 us each.",
    notes="Modes: `off`; `on` with the paper's networks; `latency` with latency models; `module`, "
    "the same with the modules; `btrfs`, its raid1c3 without md. Every row, value, page or block "
    "that was read was compared or had its checksum compared; the file or database and the mirrors "
    "were checked afterwards. In the committed table reductions are "
    "rounded to whole percents, and the versions are WiredTiger 3.2.1, SQLite 3.40.1, "
    "PostgreSQL 15.18, RocksDB 7.8.3 and fio 3.33.",
    sources=(
        "eval/grid.py",
        "eval/scores.py",
        "eval/intervals.py",
        "kernel/config/module.config",
        "kernel/module",
    ),
    command=f"make eval-apps, or with {VARIABLE}=NAME,NAME",
)

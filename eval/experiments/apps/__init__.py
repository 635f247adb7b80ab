# SPDX-License-Identifier: MIT
"""Unmodified applications on an md raid1 that chooses mirrors by LinnOS.

    make eval-apps
    make eval-apps LINNOS_APPS=sqlite,fio

`make eval` does not run it: it needs installed servers (packaging/apt/apps.txt) and takes half an
hour. A guest runs an application on one part of its drives while a workload is replayed on the
other (:mod:`.lab`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eval import figures, grid
from eval.cells import LATENCY_TRAINING, Cell, trained
from eval.experiment import Context, check_names, names_from_environment
from eval.experiments.apps import lab
from eval.experiments.apps.comparison import COMPARED, LATENCY, MODULE, OFF, ON, add_scores
from eval.experiments.apps.lab import MODULE_KERNEL, Case, FinishedRun, run_case
from eval.experiments.apps.programs import APPLICATIONS, require
from eval.long_table import LongTable
from eval.scores import key
from eval.study import Study, load_study_texts
from linnapp.lab import guests

#: Environment variable: the applications to run.
VARIABLE = "LINNOS_APPS"

NAMES = names_from_environment(VARIABLE, APPLICATIONS)

#: Workloads of the background: those of Table 1 for the enterprise array, as in the paper's
#: Fig. 13, each with its own seed.
WORKLOADS = ("az-e", "bi-e", "bs-e", "co-e")

FILE_SYSTEM = "ext4"

#: Applications that also run on other file systems and on two mirrors, with one workload. The
#: paper's Fig. 13 has MongoDB on several file systems; here they are its storage engine, SQLite,
#: and fio for comparison.
ON_OTHERS = ("wiredtiger", "sqlite", "fio")
OTHERS = ("xfs", "f2fs", "btrfs")
OTHERS_WITH = "co-e"

MD_MODES = (OFF, ON, LATENCY)

#: Without md: btrfs stores three copies and reads the one that the reader's process number gives.
BTRFS = "btrfs"


def cases(cell: Cell) -> list[Case]:
    """Return the runs that have a cell's workload as the background."""
    found = [Case(name, FILE_SYSTEM, mode) for name in NAMES for mode in (*MD_MODES, MODULE)]
    if cell.workload == OTHERS_WITH:
        for name in (name for name in ON_OTHERS if name in NAMES):
            found += [Case(name, system, mode) for system in OTHERS for mode in MD_MODES]
            found.append(Case(name, "btrfs", BTRFS))
            found += [Case(name, FILE_SYSTEM, mode, 2) for mode in (OFF, LATENCY, MODULE)]
    return found


def add_runs(table: LongTable, finished: Sequence[FinishedRun]) -> None:
    """Add the scores of every load, over all workloads and with each, and what drives counted."""
    groups: dict[tuple[str, str], list[FinishedRun]] = {}
    for run in finished:
        groups.setdefault((run.case.application, run.case.place), []).append(run)
    for (name, system), group in groups.items():
        cells = list(dict.fromkeys(run.cell for run in group))
        modes = list(dict.fromkeys(run.case.mode for run in group))
        reports = {(run.cell, run.case.mode): run.operations() for run in group}
        for load, title in APPLICATIONS[name].loads.items():
            by_cell = [{mode: reports[cell, mode][load] for mode in modes} for cell in cells]
            add_scores(table, (title, system, ""), by_cell)
            for cell, runs in zip(cells, by_cell, strict=True):
                add_scores(table, (title, system, cell.workload), [runs])
            for mode in modes:
                records = [run.record for run in group if run.case.mode == mode]
                counted = [record["counted"] for record in records]
                mirrors = zip(*(counts["mirrors"] for counts in counted), strict=True)
                numbers = {f"reads_{drive}": sum(reads) for drive, reads in enumerate(mirrors)}
                numbers |= {
                    name: sum(sum(counts[name]) for counts in counted)
                    for name in ("inferences", "probes")
                }
                numbers["errors"] = sum(
                    record["data_errors"] + record["io_errors"] for record in records
                )
                for measure, n in numbers.items():
                    table.add((title, system, ""), mode, measure, n)


def measure_all(context: Context) -> LongTable:
    """Run every application in each mode with every workload."""
    check_names(VARIABLE, NAMES, APPLICATIONS)
    apps = [APPLICATIONS[name] for name in NAMES]
    require(apps)
    cells = [grid.cell(*pair) for pair in zip(WORKLOADS, context.seeds, strict=False)]
    context.map(lambda cell: trained(context.cache, cell), cells, "recording and training")
    context.map(
        lambda cell: trained(context.cache, cell, LATENCY_TRAINING), cells, "latency models"
    )
    context.map(lambda app: lab.data(context.cache, app), apps, "data")
    pairs = [(cell, case) for cell in cells for case in cases(cell)]

    def run_all(by_module: bool) -> list[FinishedRun]:
        return context.map(
            lambda pair: run_case(context.cache, *pair),
            [pair for pair in pairs if (pair[1].mode == MODULE) == by_module],
            "running with the modules" if by_module else "running",
        )

    finished = run_all(False)
    with guests.on_kernel(MODULE_KERNEL, "kernel-um-module", context.folder.parent / "bin"):
        finished += run_all(True)
    table = LongTable(tuple(EXPERIMENT.factors))
    add_runs(table, finished)
    return table


def draw(table: LongTable, path: Path) -> None:
    """Draw the latencies on ext4 over all workloads, a point for each mode."""
    shown = LongTable(("load",))
    for row, number in table.items():
        if not row.reference and not row.place[2] and row.place[1] == FILE_SYSTEM:
            shown.add(row.place[:1], row.policy, row.measure, number)
    titles = {name: EXPERIMENT.measures[name].title for name in ("mean_us", *map(key, COMPARED))}
    figures.draw_by_place(shown, titles, path)


EXPERIMENT = Study(
    **load_study_texts("apps"),
    measure_all=measure_all,
    factors={
        "load": [title for app in APPLICATIONS.values() for title in app.loads.values()],
        "file_system": (FILE_SYSTEM, *OTHERS, FILE_SYSTEM + lab.TWO_MIRRORS),
        "workload": WORKLOADS,
    },
    policies=(*MD_MODES, MODULE, BTRFS),
    groups=(("load", "file_system"), ("load", "file_system", "workload")),
    reference=OFF,
    pairs=((MODULE, LATENCY),),
    figure=draw,
    inputs={"chosen": NAMES},
    sources=("kernel/config/module.config", "kernel/module"),
)

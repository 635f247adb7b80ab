# SPDX-License-Identifier: MIT
"""Which applications run on what, beside what; and their runs."""

from __future__ import annotations

import os
from typing import Any

from eval import grid, guests
from eval.cells import LATENCY_TRAINING, Cell, trained
from eval.experiment import Context
from eval.experiments.apps import lab
from eval.experiments.apps.comparison import LATENCY, MODULE, OFF, ON, score, summed
from eval.experiments.apps.lab import MODULE_KERNEL, Case, Ran, run_case
from eval.experiments.apps.programs import APPLICATIONS, require, version
from eval.work import StepError

VARIABLE = "LINNOS_APPS"

NAMES = tuple(name for name in os.environ.get(VARIABLE, "").split(",") if name) or tuple(
    APPLICATIONS
)

#: The background: those of Table 1 for the enterprise array, which the paper's Fig. 13 is of, each
#: with a seed of its own.
WORKLOADS = ("az-e", "bi-e", "bs-e", "co-e")

FILE_SYSTEM = "ext4"

#: The paper's Fig. 13 is of MongoDB on several file systems: its storage engine meets them, and so
#: do SQLite, and fio, which says what of it is the array's.
ON_OTHERS = ("wiredtiger", "sqlite", "fio")
OTHERS = ("xfs", "f2fs", "btrfs")
OTHERS_BESIDE = "co-e"

MD_MODES = (OFF, ON, LATENCY)

#: btrfs keeps three copies by itself, and reads the one that the reader's process number says.
BTRFS = "btrfs"

PARAMETERS: dict[str, Any] = {
    "applications": {
        name: {"data": APPLICATIONS[name].data, "load": APPLICATIONS[name].load}
        for name in NAMES
        if name in APPLICATIONS
    },
    "asked_for": NAMES,
    "workloads": WORKLOADS,
    "file_systems": [FILE_SYSTEM, *OTHERS],
    "others_beside": OTHERS_BESIDE,
    "mirror_mb": lab.MIRROR_MB,
    **grid.PARTS,
}


def cases(cell: Cell) -> list[Case]:
    """What runs beside a cell's workload."""
    made = [Case(name, FILE_SYSTEM, mode) for name in NAMES for mode in (*MD_MODES, MODULE)]
    if cell.workload == OTHERS_BESIDE:
        for name in (name for name in ON_OTHERS if name in NAMES):
            made += [Case(name, system, mode) for system in OTHERS for mode in MD_MODES]
            made.append(Case(name, "btrfs", BTRFS))
    return made


def run(context: Context) -> dict[str, Any]:
    """Every application in each mode beside every workload; content compared in each run."""
    for name in NAMES:
        if name not in APPLICATIONS:
            raise StepError(
                f"{VARIABLE}: {name}: no such application; known are {', '.join(APPLICATIONS)}"
            )
    chosen = [APPLICATIONS[name] for name in NAMES]
    require(chosen)
    cells = grid.seed_a_workload(WORKLOADS, context.seeds)
    context.map(lambda cell: trained(context.cache, cell), cells, "recording and training")
    context.map(
        lambda cell: trained(context.cache, cell, LATENCY_TRAINING), cells, "models of latencies"
    )
    context.map(lambda app: lab.data(context.cache, app), chosen, "data")
    pairs = [(cell, case) for cell in cells for case in cases(cell)]

    def run_all(by_module: bool) -> list[Ran]:
        return context.map(
            lambda pair: run_case(context.cache, *pair),
            [pair for pair in pairs if (pair[1].mode == MODULE) == by_module],
            "running, by the modules" if by_module else "running",
        )

    ran = run_all(False)
    with guests.on_kernel(MODULE_KERNEL, "kernel-um-module", context.folder.parent / "bin"):
        ran += run_all(True)
    return {
        "loads": loads_of(ran),
        "versions": {app.name: version(app) for app in chosen},
        "runs": [{**one.record, "policy": one.case.mode} for one in ran],
    }


def loads_of(ran: list[Ran]) -> list[dict[str, Any]]:
    """A row a load of an application on a file system: over all workloads, and beside each."""
    rows: dict[tuple[str, str], list[Ran]] = {}
    for one in ran:
        rows.setdefault((one.case.application, one.case.file_system), []).append(one)
    found = []
    for (name, system), group in rows.items():
        cells = list(dict.fromkeys(one.cell for one in group))
        modes = list(dict.fromkeys(one.case.mode for one in group))
        reports = {(one.cell, one.case.mode): one.operations() for one in group}
        for load, title in APPLICATIONS[name].loads.items():
            by_cell = [{mode: reports[cell, mode][load] for mode in modes} for cell in cells]
            found.append(
                {
                    "load": load, "title": title, "application": name, "file_system": system,
                    "workloads": [cell.workload for cell in cells],
                    **score(by_cell),
                    "beside": [
                        {**grid.where(cell), **score([runs])}
                        for cell, runs in zip(cells, by_cell, strict=True)
                    ],
                    "counted": {
                        mode: summed(one.record["counted"] for one in group
                                     if one.case.mode == mode)
                        for mode in modes
                    },
                    "errors": sum(one.record["data_errors"] + one.record["io_errors"]
                                  for one in group),
                }
            )  # fmt: skip
    return found

# SPDX-License-Identifier: MIT
"""Measure the slowdown of file systems in several configurations on a slow drive.

    make eval-filesystems
    make eval-filesystems LINNOS_FILESYSTEMS=ext4,"xfs default"

`make eval` does not run it: it is about the stack above the drive, not about LinnOS.

A guest runs a mix on a new file system, once on the drive as it is and once for each slowness
(:mod:`.lab`); another one stores wrong data (:mod:`.wrong`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eval import figures
from eval.experiment import Context, Table, check_names
from eval.experiments.filesystems import reports
from eval.experiments.filesystems.design import (
    CACHED,
    CHOSEN,
    COMMON,
    COMPARED,
    CONFIGURATIONS,
    DEFAULT,
    DIRECT,
    NONE,
    PATTERNS,
    STEADY,
    SYSTEMS,
    VARIABLE,
    Case,
    cases,
    configurations,
)
from eval.experiments.filesystems.lab import run_case
from eval.experiments.filesystems.processor import instructions
from eval.experiments.filesystems.wrong import Wrong, plan, run_wrong
from eval.long_table import LongTable, Place
from eval.study import Study, load_study_texts
from linnapp.stats import Interval

Run = dict[str, Any]

#: The factors of a mix on a slow drive, of its operations, and of wrong data.
SLOWED = ("configuration", "mix", "cache", "drive", "slowness")
OPERATIONS = (*SLOWED, "operation")
STORED = ("storage", "fault")

#: A commit of the journal and its steps are operations with this prefix.
COMMIT = "commit"


def add_case(
    table: LongTable,
    case: Case,
    seeds: Sequence[Sequence[Run]],
    processor: Mapping[str, Mapping[str, float]],
) -> None:
    """Add the numbers of a case: `seeds` has the runs of each seed, the first without slowness.

    `processor` has the processor time of each kind of operation (:mod:`.processor`).

    Slowdowns compare the same operations on the drive as it is, and have intervals. Operations by
    kind are added for default configurations and through the page cache, if slowness is common.
    """
    place = (case.configuration.title, case.mix.name, case.cache, case.drive.name)
    runs = [reports.pooled(list(same)) for same in zip(*seeds, strict=True)]
    base = runs[0]
    by_kind = case.configuration.name == DEFAULT or case.cache == CACHED
    software: Mapping[str, float] = {}
    if case.configuration.name == DEFAULT and case.cache == DIRECT:
        software = processor.get(f"{case.configuration.file_system} {case.mix.name}", {})
    for i, slowness in enumerate((NONE, *case.slownesses)):
        slowed_place, run = (*place, slowness.title), runs[i]
        _add(table, slowed_place, "", mean_us=run["mean_us"], p99_us=run["p99_us"])
        if i:
            drive = [seed[i]["drive"] for seed in seeds]
            ios = sum(counts["reads"] + counts["writes"] for counts in drive)
            hit = sum(counts["injected_reads"] + counts["injected_writes"] for counts in drive)
            longer = reports.slowdown(base, run)
            _add(table, slowed_place, "", slowdown=longer, hit=hit / max(ios, 1))
        scattered = replace(slowness, pattern=PATTERNS[0])
        if slowness != scattered and scattered in case.slownesses:
            same = runs[1 + case.slownesses.index(scattered)]
            _add(table, slowed_place, "", over_random=reports.slowdown(same, run))
        if by_kind and slowness in (NONE, *COMMON):
            for kind, count in run["count"].items():
                mean_us = sum(run["total_us"][kind]) / sum(count)
                _add(table, slowed_place, kind, mean_us=mean_us)
                if kind in software and not i:
                    _add(table, slowed_place, kind, processor_us=software[kind])
                elif kind in software:
                    base_us = sum(base["total_us"][kind]) / sum(count)
                    longer_us = (mean_us - base_us) / (base_us + software[kind])
                    _add(table, slowed_place, kind, slowdown_charged=longer_us)
                if i:
                    longer = reports.slowdown(base, run, kind)
                    _add(table, slowed_place, kind, slowdown=longer)
        if case.steps:
            _add_commits(table, slowed_place, [seed[i]["steps"] for seed in seeds])


def _add_commits(table: LongTable, place: Place, seeds: Sequence[dict[str, list[float]]]) -> None:
    """Add the times of the journal's commits and of their steps."""
    steps = {f"{COMMIT}, {name}": np.concatenate([us[name] for us in seeds]) for name in seeds[0]}
    whole = np.sum(list(steps.values()), axis=0)
    for name, us in {COMMIT: whole, **steps}.items():
        _add(
            table, place, name,
            operations=len(us), mean_us=us.mean(), p95_us=np.percentile(us, 95),
        )  # fmt: skip


def _add(
    table: LongTable, place: Place, operation: str, **numbers: Interval | float | None
) -> None:
    for measure, number in numbers.items():
        if number is not None:
            table.add((*place, operation, "", ""), "", measure, number)


def add_wrong(table: LongTable, wrong: Wrong, runs: Sequence[Run]) -> None:
    """Add how many blocks came back right or wrong, in all runs of a fault."""
    checks = [run["checked"].split() for run in runs]
    numbers = {
        "runs": len(runs),
        **{
            name: sum(run[name] or 0 for run in runs)
            for name in ("mounted", "injected", "right", "wrong", "unreadable", "missing")
        },
        "damaged": sum("damage" in words for words in checks),
    }
    # Only md's mirrors are compared.
    if len(checks[0]) > 1:
        numbers["differ"] = sum("differ" in words for words in checks)
    for measure, number in numbers.items():
        table.add((*[""] * len(OPERATIONS), wrong.title, wrong.fault), "", measure, number)


def measure_all(context: Context) -> LongTable:
    """Run all guests of the chosen configurations."""
    check_names(VARIABLE, CHOSEN, (*SYSTEMS, *(c.title for c in CONFIGURATIONS)))
    table = LongTable((*OPERATIONS, *STORED))
    processor = instructions(context.cache)
    slowed = cases(configurations(CHOSEN))
    pairs = [(case, seed) for case in slowed for seed in context.seeds]
    done = context.map(lambda pair: run_case(context.cache, *pair), pairs, "running")
    n = len(context.seeds)
    for i, case in enumerate(slowed):
        add_case(table, case, done[i * n : (i + 1) * n], processor)
    # Wrong data are stored on file systems that are chosen as a whole.
    stored = plan(tuple(system for system in SYSTEMS if system in CHOSEN))
    faults = [(wrong, seed) for wrong in stored for seed in context.seeds]
    found = context.map(lambda pair: run_wrong(context.cache, *pair), faults, "storing wrong data")
    for i, wrong in enumerate(stored):
        add_wrong(table, wrong, found[i * n : (i + 1) * n])
    return table


#: The numbers of uScope's text, for 10 us added to 10 % of the I/Os at random: what is measured,
#: its number, and the configurations (all of a file system by its name), mixes, operations and
#: measure of ours.
_EXT4, _WRITES = (f"ext4 {DEFAULT}",), ("fileserver", "varmail")
USCOPE: tuple[tuple[str, str, Collection[str], Collection[str], Collection[str], str], ...] = (
    ("write-intensive mixes, % longer", "9.39", SYSTEMS, _WRITES, ("",), "slowdown"),
    ("read-intensive mix, % longer", "3.34", SYSTEMS, ("webserver",), ("",), "slowdown"),
    ("ext4, varmail, % longer", "19.5 at most", ("ext4",), ("varmail",), ("",), "slowdown"),
    ("ext4, webserver, % longer", "below 10.1", ("ext4",), ("webserver",), ("",), "slowdown"),
    ("f2fs, fileserver, % longer", "5.0 to 15.1", ("f2fs",), ("fileserver",), ("",), "slowdown"),
    ("ext4, fileserver, write of a whole file, % longer", "up to 13.3",
     _EXT4, ("fileserver",), ("write",), "slowdown"),
    ("ext4, fileserver, append, create, delete, % longer", "4.8 to 8.9",
     _EXT4, ("fileserver",), ("append", "create", "delete"), "slowdown"),
    ("the same with processor time: write of a whole file", "up to 13.3",
     _EXT4, ("fileserver",), ("write",), "slowdown_charged"),
    ("append, create, delete", "4.8 to 8.9",
     _EXT4, ("fileserver",), ("append", "create", "delete"), "slowdown_charged"),
    ("open, close, stat", "0",
     _EXT4, ("fileserver",), ("open", "close", "stat"), "slowdown_charged"),
)  # fmt: skip


def _range(table: LongTable, row: tuple[Any, ...]) -> str:
    """Return the lowest and the highest of our numbers for a row of ``USCOPE``."""
    _, _, configurations, mixes, operations, measure = row
    values = [
        number.value * EXPERIMENT.measures[measure].scale
        for key, number in table.items()
        if key.measure == measure
        and {key.place[0], key.place[0].partition(" ")[0]} & {*configurations}
        and key.place[1] in mixes
        and key.place[2:5] == (DIRECT, STEADY.name, COMMON[0].title)
        and key.place[5] in operations
    ]
    if not values:
        return "-"
    return " to ".join(dict.fromkeys(f"{end:.1f}" for end in (min(values), max(values))))


def compare_with_paper(table: LongTable) -> dict[str, Table]:
    """Return uScope's numbers and the ranges of ours."""
    rows = tuple((row[0], row[1], _range(table, row)) for row in USCOPE)
    heading = f"uScope's numbers and ours, {COMMON[0].title}"
    return {
        heading: Table(("", "uScope", "ours"), rows),
        "Slow I/Os in a row compared with random ones, % longer": _compare_patterns(table),
    }


def _compare_patterns(table: LongTable) -> Table:
    """Return how much longer a mix takes if its slow I/Os are in a row: uScope's third lesson."""
    shown = [slowness for slowness in COMPARED if slowness.pattern == "continuous"]
    places = dict.fromkeys(
        key.place[:4]
        for key, _ in table.items()
        if key.measure == "over_random" and not key.place[5]
    )
    rows = []
    for configuration, mix, cache, drive in places:
        numbers = [
            EXPERIMENT.measures["over_random"].text(
                table.get(
                    (configuration, mix, cache, drive, slow.title, "", "", ""), "", "over_random"
                )
            )
            for slow in shown
        ]
        rows.append((configuration, mix, drive, *numbers))
    columns = (f"{slow.added_us} us" + ", occupying" * slow.occupy for slow in shown)
    return Table(("configuration", "mix", "drive", *columns), tuple(rows))


def draw(table: LongTable, path: Path) -> None:
    """Draw the slowdowns of the default configurations, and the largest, as uScope's Fig. 2."""
    shown = LongTable(("configuration",))
    for key, number in table.items():
        configuration, mix, cache, drive, slowness, operation, *_ = key.place
        if (key.measure, cache, drive, operation) == ("slowdown", DIRECT, STEADY.name, ""):
            shown.add((configuration,), mix, slowness, number)
    titles = {slow.title: f"{slow.title}: % longer" for slow in COMMON}
    defaults = [place for place in shown.places if place[0].endswith(" default")]
    figures.draw_by_place(shown, titles, path, scales=dict.fromkeys(titles, 100.0), always=defaults)


EXPERIMENT = Study(
    **load_study_texts("filesystems"),
    measure_all=measure_all,
    groups=(SLOWED, OPERATIONS, STORED),
    adds=True,
    more_tables=compare_with_paper,
    figure=draw,
    inputs={"chosen": CHOSEN},
)

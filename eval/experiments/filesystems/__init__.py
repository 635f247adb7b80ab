# SPDX-License-Identifier: MIT
"""Measure the slowdown of file systems in several configurations on a slow drive.

    make eval-filesystems
    make eval-filesystems LINNOS_FILESYSTEMS=ext4,xfs
    make eval-filesystems LINNOS_SLOWNESS=all

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
from eval.experiment import Context, Table
from eval.experiments.filesystems import reports
from eval.experiments.filesystems.design import (
    CACHED,
    CHOSEN,
    COMMON,
    COMPARED,
    CONFIGURATIONS,
    DEFAULT,
    DIRECT,
    EVERYTHING,
    NODELALLOC,
    NONE,
    PARAMETERS,
    PATTERNS,
    SLOWNESS_VARIABLE,
    STEADY,
    SYSTEMS,
    SYSTEMS_VARIABLE,
    Case,
    cases,
    chosen,
)
from eval.experiments.filesystems.lab import run_case
from eval.experiments.filesystems.processor import instructions
from eval.experiments.filesystems.wrong import Wrong, plan, run_wrong
from eval.long_table import LongTable, Place
from eval.study import Measure, Study
from linnapp.lab.work import StepError
from linnapp.stats import Interval

Run = dict[str, Any]

#: The factors of a mix on a slow drive, of its operations, and of wrong data.
SLOWED = ("configuration", "mix", "cache", "drive", "slowness")
OPERATIONS = (*SLOWED, "operation")
STORED = ("storage", "fault")

MEASURES = {
    "operations": Measure("operations"),
    "mean_us": Measure("mean us", 1),
    "p95_us": Measure("p95 us", 1),
    "p99_us": Measure("p99 us"),
    "slowdown": Measure("% longer", 1, 100.0),
    "processor_us": Measure("processor us", 1),
    "slowdown_charged": Measure("% longer, with the processor", 1, 100.0),
    "over_random": Measure("% longer than with random slowness", 1, 100.0),
    "hit": Measure("% of I/Os slowed", 1, 100.0),
    "runs": Measure("runs"),
    "mounted": Measure("mounted again"),
    "injected": Measure("blocks stored wrong"),
    "right": Measure("blocks read right"),
    "wrong": Measure("blocks read wrong"),
    "unreadable": Measure("unreadable blocks"),
    "missing": Measure("missing blocks"),
    "damaged": Measure("damage found by the check"),
    "differ": Measure("mirrors differ"),
}

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
        here, run = (*place, slowness.title), runs[i]
        _add(table, here, "", mean_us=run["mean_us"], p99_us=run["p99_us"])
        if i:
            drive = [seed[i]["drive"] for seed in seeds]
            ios = sum(of["reads"] + of["writes"] for of in drive)
            hit = sum(of["injected_reads"] + of["injected_writes"] for of in drive)
            longer = Interval.from_json(reports.slowdown(base, run))
            _add(table, here, "", slowdown=longer, hit=hit / max(ios, 1))
        scattered = replace(slowness, pattern=PATTERNS[0])
        if slowness != scattered and scattered in case.slownesses:
            same = runs[1 + case.slownesses.index(scattered)]
            _add(table, here, "", over_random=Interval.from_json(reports.slowdown(same, run)))
        if by_kind and slowness in (NONE, *COMMON):
            for kind, count in run["count"].items():
                mean_us = sum(run["total_us"][kind]) / sum(count)
                _add(table, here, kind, mean_us=mean_us)
                if kind in software and not i:
                    _add(table, here, kind, processor_us=software[kind])
                elif kind in software:
                    base_us = sum(base["total_us"][kind]) / sum(count)
                    longer_us = (mean_us - base_us) / (base_us + software[kind])
                    _add(table, here, kind, slowdown_charged=longer_us)
                if i:
                    longer = Interval.from_json(reports.slowdown(base, run, kind))
                    _add(table, here, kind, slowdown=longer)
        if case.steps:
            _add_commits(table, here, [seed[i]["steps"] for seed in seeds])


def _add_commits(table: LongTable, here: Place, seeds: Sequence[dict[str, list[float]]]) -> None:
    """Add the times of the journal's commits and of their steps."""
    steps = {f"{COMMIT}, {name}": np.concatenate([of[name] for of in seeds]) for name in seeds[0]}
    whole = np.sum(list(steps.values()), axis=0)
    for name, us in {COMMIT: whole, **steps}.items():
        _add(
            table, here, name,
            operations=len(us), mean_us=us.mean(), p95_us=np.percentile(us, 95),
        )  # fmt: skip


def _add(table: LongTable, here: Place, operation: str, **numbers: Interval | float | None) -> None:
    for measure, number in numbers.items():
        if number is not None:
            table.add((*here, operation, "", ""), "", measure, number)


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


class SlowDriveStudy(Study):
    """A study of guests that measure several slownesses each, and of guests with wrong data."""

    def run(self, context: Context) -> LongTable:
        """Run all guests of the chosen configurations."""
        try:
            configurations = chosen(CHOSEN)
        except KeyError as error:
            known = ", ".join((*SYSTEMS, *(c.title for c in CONFIGURATIONS)))
            raise StepError(
                f"{SYSTEMS_VARIABLE}: {error.args[0]}: no such file system; known are {known}"
            ) from None
        table = LongTable((*OPERATIONS, *STORED))
        processor = instructions(context.cache)
        slowed = cases(configurations, EVERYTHING)
        pairs = [(case, seed) for case in slowed for seed in context.seeds]
        done = context.map(lambda pair: run_case(context.cache, *pair), pairs, "running")
        n = len(context.seeds)
        for i, case in enumerate(slowed):
            add_case(table, case, done[i * n : (i + 1) * n], processor)
        stored = plan(tuple(dict.fromkeys(c.file_system for c in configurations)))
        faults = [(wrong, seed) for wrong in stored for seed in context.seeds]
        found = context.map(
            lambda pair: run_wrong(context.cache, *pair), faults, "storing wrong data"
        )
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
        number.value * MEASURES[measure].scale
        for key, number in table.items()
        if key.measure == measure
        and {key.place[0], key.place[0].partition(" ")[0]} & {*configurations}
        and key.place[1] in mixes
        and key.place[2:5] == (DIRECT, STEADY.name, COMMON[0].title)
        and key.place[5] in operations
    ]
    if not values:
        return "-"
    return " to ".join(dict.fromkeys(f"{of:.1f}" for of in (min(values), max(values))))


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
            MEASURES["over_random"].text(
                table.get(
                    (configuration, mix, cache, drive, of.title, "", "", ""), "", "over_random"
                )
            )
            for of in shown
        ]
        rows.append((configuration, mix, drive, *numbers))
    columns = (f"{of.added_us} us" + ", occupying" * of.occupy for of in shown)
    return Table(("configuration", "mix", "drive", *columns), tuple(rows))


def draw(table: LongTable, path: Path) -> None:
    """Draw the slowdowns of all configurations by mix, as uScope's Fig. 2."""
    shown = LongTable(("configuration",))
    for key, number in table.items():
        configuration, mix, cache, drive, slowness, operation, *_ = key.place
        if (key.measure, cache, drive, operation) == ("slowdown", DIRECT, STEADY.name, ""):
            shown.add((configuration,), mix, slowness, number)
    figures.by_place(shown, {of.title: f"{of.title}: share longer" for of in COMMON}, path)


EXPERIMENT = SlowDriveStudy(
    name="filesystems",
    title="File systems on a slow drive",
    source="uScope Fig. 2, 3, 6, 7, 10",
    groups=(SLOWED, OPERATIONS, STORED),
    measures=MEASURES,
    more_tables=compare_with_paper,
    figure=draw,
    settings=PARAMETERS,
    paper="uScope runs Filebench on ext4, xfs, f2fs and btrfs on a RAM disk and delays some of its "
    "I/Os. Mixes that write are slowed more than others, ordered data more than writeback, and "
    "slow I/Os in a row slow a mix 14.7 % more than scattered ones. With ordered data a commit of "
    "the journal takes 53.2 % longer, and its wait for data 51.0 % (p95: 239.2 %).",
    differs="Filebench is not in Debian 12, so a program of our own does the operations of its "
    "mixes. The guest's processor takes no virtual time: the processor time of an operation is "
    "counted in another guest, one instruction as one ns, and added in columns of their own. "
    "Threads rest between repeats. A run takes seconds, not 800 s, with 1000 files, not 80,000; "
    "periodic work of a file system is done every second. One parameter of Table 3 is changed at "
    "a time; xfs has inodes of 256 bytes only in its old format, and none of 128. SPDK and "
    "BarrierFS are left out.",
    notes="A slowdown compares the same operations with and without slowness. 10 us on 10 % of the "
    "I/Os are 2.9 % of the time of a 4 KiB I/O on this drive; with 1 ms the time is 3.9 times as "
    "long. A larger slowdown is due to the file system, which waits for the slowest of several "
    "I/Os. A slow I/O delays no other I/O of the drive, unless the slowness is occupying: then it "
    "keeps its chip, or on the steady drive the link. In the committed table slowdowns over 100 % "
    f"are rounded to 10 %. `{NODELALLOC}` allocates blocks when data are written to the page "
    "cache, so that a commit has data to wait for; `filesync` syncs what it appends, so that there "
    "are commits while others write. `mixed-N` reads whole files N % of the time, and otherwise "
    "writes them again. `data=journal` caches data although the mix asks for direct I/O. For wrong "
    "data the numbers are sums over the runs; the check is that of the file system's own tool.",
    sources=("eval/intervals.py",),
    command=f"make eval-filesystems, or with {SYSTEMS_VARIABLE}=NAME,NAME, {SLOWNESS_VARIABLE}=all",
)

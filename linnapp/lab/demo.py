# SPDX-License-Identifier: MIT
"""The demo: policies replay the same reads on three emulated drives that stall in turn.

`linnapp demo` runs a few policies, with models that are shipped or trained within seconds. `make
demo` in a clone also trains the paper's network and runs more policies.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linnapp.lab.array import Array
from linnapp.lab.guest import DEFAULT_PATH, IN_CLONE, REPOSITORY, Guest, LabError
from linnapp.lab.guests import (
    NEEDS_LATENCY_MODEL,
    NEEDS_MODEL,
    Scenario,
    read_latency_us,
    record,
    replay,
)
from linnapp.lab.host import linnapp, train
from linnapp.lab.picture import draw_dots
from linnapp.lab.places import find_replayer
from linnapp.lab.uml import DEFAULT_KERNEL, check_kernel
from linnapp.lab.work import Step, Steps, Work, aligned, write_json, write_text

#: Maximum of additional I/O in the rows with a limit. Without one, hedging would double the load if
#: a drive fails.
CAP = "5%"

#: One drive at a time is slow: for 100 ms, each of its reads takes 2 ms longer. The next drive
#: follows 500 ms after the beginning of this burst.
BURSTS_EVERY_S = 0.5
INJECT = (
    "continuous:latency_us=2000,op=read,ratio=100%,slot_ms=100,"
    f"every_ms={BURSTS_EVERY_S * 1000:.0f},rotate"
)

#: Duration in seconds of each half of the workload: the first is for training, the second is
#: replayed.
HALF_S = 10

#: Networks that were trained on another recording, in an installed package or in a checkout.
_EXAMPLE = Path(__file__).parents[1] / "example"
EXAMPLE_MODELS = _EXAMPLE if _EXAMPLE.is_dir() else REPOSITORY / "models" / "example"


def with_duplicates(policy: str, limit: str = CAP) -> str:
    """Return the name in tables of a policy that sends reads twice, at most `limit` of them."""
    return f"{policy} with duplicates" + (f" (limit {limit.rstrip('%')} %)" if limit else "")


class Row(NamedTuple):
    """A row of the table: a policy of the replayer, with or without a limit on additional I/O."""

    policy: str
    capped: bool = False
    duplicates: bool = False

    @property
    def name(self) -> str:
        """Its name in the table and the figure."""
        if self.duplicates:
            return with_duplicates(self.policy, CAP if self.capped else "")
        return f"{self.policy}, {CAP} cap" if self.capped else self.policy

    @property
    def folder(self) -> str:
        """Its folder in the folder of all replays, where files are named after policies."""
        flags = {"capped": self.capped, "duplicates": self.duplicates}
        return "-".join(flag for flag, is_set in flags.items() if is_set)

    def options(self, profile: Path) -> tuple[str | Path, ...]:
        """Options of the replayer. The heuristics need the recording's log."""
        options: tuple[str | Path, ...] = ("--hedge-budget", CAP if self.capped else "none")
        if self.duplicates:
            options = ("--duplicates", *(("--max-duplicates", CAP) if self.capped else ()))
        if self.policy.startswith("heuristic"):
            options += ("--profile", profile)
        return options

    @property
    def hedges(self) -> bool:
        """Return true if the policy needs a hedging time."""
        return self.policy == "hedge" or self.policy.endswith(("-hl", "-h95"))


#: The rows of `linnapp demo`, with a description of each policy.
ROWS = {
    Row("baseline"): "read from the default replica and wait",
    Row("clone"): "read from two drives at once",
    Row("hedge"): "read from a second drive after the p95 of the recording",
    Row("c3"): "choose by past latencies and queues (C3)",
    Row("linnos"): "the paper's network refuses slow reads",
    Row("fastest"): "choose the lowest predicted latency",
    Row("fastest", capped=True, duplicates=True): "the same, from two drives where that pays",
}

COLUMNS = (
    ("name", "policy", "{}"),
    ("mean_us", "mean", "{:.1f}"),
    ("p50_us", "p50", "{:.0f}"),
    ("p95_us", "p95", "{:.0f}"),
    ("p99_us", "p99", "{:.0f}"),
    ("revoked", "revoked", "{}"),
    ("hedged", "hedged", "{}"),
    ("extra_io_ratio", "extra I/O", "{:.2%}"),
    ("data_errors", "data errors", "{}"),
)


def table(runs: list[dict[str, Any]], columns: Sequence[tuple[str, str, str]] = COLUMNS) -> str:
    """Return the runs as a text table, with latencies in us."""
    rows = [[title for _, title, _ in columns]]
    rows += [
        ["-" if run[key] is None else form.format(run[key]) for key, _, form in columns]
        for run in runs
    ]
    return aligned(rows)


def result_sentence(runs: Sequence[dict[str, Any]]) -> str:
    """Return the result in one sentence, whatever it is."""
    p99_us = {run["name"]: run["p99_us"] for run in runs}
    mean_us = {run["name"]: run["mean_us"] for run in runs}
    return (
        f"Without a policy the slowest 1 % of reads take {p99_us['baseline']:.0f} us or more and "
        f"all reads {mean_us['baseline']:.0f} us on average; with the paper's network "
        f"{p99_us['linnos']:.0f} and {mean_us['linnos']:.0f} us, with predicted latencies "
        f"(fastest) {p99_us['fastest']:.0f} and {mean_us['fastest']:.0f} us, and with a rule "
        f"without a model (c3) {p99_us['c3']:.0f} and {mean_us['c3']:.0f} us."
    )


@dataclass
class Demo:
    """A workload that is recorded once and replayed under several policies."""

    #: Folder for everything that is written.
    out: Path
    array: Array
    seed: int
    #: Options of every recording and replay.
    options: tuple[str | Path, ...] = ()
    _replayed: tuple[Path, ...] = field(default=(), init=False)

    def generate(self, half_s: int) -> list[Path]:
        """Generate the workload of both halves; return one iolog per drive."""
        folder = self.out / "workload"
        folder.mkdir(parents=True, exist_ok=True)
        linnapp(
            "generate", "demo", "-o", str(folder), "--drives", str(self.array.n_drives),
            "--duration", str(2 * half_s), "--seed", str(self.seed),
        )  # fmt: skip
        return [folder / f"flash{k}.iolog" for k in range(self.array.n_drives)]

    def record(self, steps: Steps, recorded: tuple[Path, ...]) -> list[Path]:
        """Record a part of the workload with blktrace, without a policy."""
        with steps.step("recording with blktrace"):
            scenario = Scenario("record", self.array, recorded, self.seed, options=self.options)
            return record(scenario, self.out / "record")

    @property
    def recorded_log(self) -> Path:
        """The replayer's log of the recording."""
        return self.out / "record" / "baseline.log"

    def add_replays(
        self,
        work: Work,
        rows: Sequence[Row],
        replayed: tuple[Path, ...],
        models: Callable[[Row], Step[list[Path]] | Sequence[Path]],
    ) -> list[Step[dict[str, Any]]]:
        """Add a replay for each row; `models` returns a row's models or the step that trains them.

        Hedging begins after the 95th percentile of the recording, which an operator would know. The
        recording does not contain the bursts of the replay.
        """
        p95_us = float(np.percentile(read_latency_us(self.recorded_log), 95))
        scenario = Scenario("bursts", self.array, replayed, self.seed, INJECT, self.options)

        def run(row: Row, found: Step[list[Path]] | Sequence[Path]) -> dict[str, Any]:
            return replay(
                replace(scenario, options=(*scenario.options, *row.options(self.recorded_log))),
                row.policy,
                self.out / "replays" / row.folder,
                models=found.result if isinstance(found, Step) else found,
                hedge_us=p95_us if row.hedges else None,
            )

        steps = []
        for row in rows:
            found = models(row)
            after = (found,) if isinstance(found, Step) else ()
            steps.append(work.add("replaying", partial(run, row, found), after=after))
        return steps

    def latencies_us(self, row: Row) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return the sorted latencies of a row's reads."""
        return read_latency_us(self.out / "replays" / row.folder / f"{row.policy}.log")


def slice_traces(
    sources: list[Path], out_dir: Path, first_s: float, last_s: float
) -> tuple[Path, ...]:
    """Cut the same time slice out of each drive's trace."""
    out_dir.mkdir(parents=True, exist_ok=True)
    slices = []
    for source in sources:
        target = out_dir / source.name
        linnapp("convert", str(source), str(target), "--slice", f"{first_s}:{last_s}")
        slices.append(target)
    return tuple(slices)


def parallel_guests() -> int:
    """Return the number of guests for which this machine has enough CPUs and memory."""
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return max(1, min(len(os.sched_getaffinity(0)), memory_mb // Guest.memory_mb))


def check_programs() -> None:
    """Raise an error that says what to do if the lab kernel or the replayer is missing."""
    check_kernel(DEFAULT_KERNEL)
    replayer = find_replayer()
    if not replayer.exists():
        remedy = "`make replayer` builds it" if IN_CLONE else "the wheel has it"
        raise LabError(f"{replayer}: no replayer there; {remedy}")


def check_demo() -> None:
    """Raise an error that says what to install if a program of the demo is missing."""
    check_programs()
    if shutil.which("blktrace", path=DEFAULT_PATH) is None:
        raise LabError("blktrace is not installed; on Debian: apt-get install blktrace")


def run_small_demo(out: Path, seed: int) -> list[dict[str, Any]]:
    """Run `linnapp demo`; write summary.json and picture.svg, and return the runs."""
    demo = Demo(out, Array(seed=seed), seed)
    steps = Steps(3)
    with steps.step("generating the workload"):
        sources = demo.generate(HALF_S)
        first = slice_traces(sources, out / "train", 0, HALF_S)
        second = slice_traces(sources, out / "replay", HALF_S, 2 * HALF_S)
    blks = demo.record(steps, first)
    work = Work(parallel_guests())
    options = ("--seed", str(seed), "--kind", "latency")
    trees = work.add(
        "training models of latencies",
        partial(train, blks, out / "models", out / "train-latency.txt", *options),
    )
    networks = [EXAMPLE_MODELS / f"flash{k}.linnos" for k in range(demo.array.n_drives)]

    def models(row: Row) -> Step[list[Path]] | Sequence[Path]:
        if row.policy in NEEDS_LATENCY_MODEL:
            return trees
        return networks if row.policy in NEEDS_MODEL else ()

    replays = demo.add_replays(work, tuple(ROWS), second, models)
    work.do()
    with steps.step("drawing"):
        runs = [{"name": row.name, **step.result} for row, step in zip(ROWS, replays, strict=True)]
        write_json(out / "summary.json", {"runs": runs})
        write_text(
            out / "picture.svg",
            draw_dots(
                "Read latency while one of three drives stalls at a time",
                [
                    (f"{row.name}: {what}", run["mean_us"], run["p99_us"])
                    for (row, what), run in zip(ROWS.items(), runs, strict=True)
                ],
            ),
        )
    return runs


def explain_runs(runs: Sequence[dict[str, Any]], out: Path) -> str:
    """Return the output of `linnapp demo`: table, legend and result."""
    names = {run["name"] for run in runs}
    width = max(map(len, names))
    legend = "\n".join(f"{row.name:{width}}  {what}" for row, what in ROWS.items())
    return (
        f"\nRead latency in us; {runs[0]['reads']} reads, a burst on one drive at a time:\n\n"
        f"{table(list(runs))}\n\n{legend}\n\n{result_sentence(runs)}\n\n"
        f"{out}/picture.svg, {out}/summary.json; the replayer's own results in {out}/replays/"
    )

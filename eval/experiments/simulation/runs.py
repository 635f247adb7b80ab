# SPDX-License-Identifier: MIT
"""Run linnos-simulation, and compute the numbers of its reads."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval.cache import ROOT
from eval.experiments.simulation.cells import SLOW, Cell, Options
from eval.intervals import Blocks, Pooled
from eval.long_table import LongTable
from linnapp.lab.work import StepError

SOURCE = ROOT / "eval" / "simulator"

#: A read in the log of the simulation.
_READ = np.dtype([("due_ns", "<u8"), ("latency_ns", "<u8")])

#: Blocks of time in a run, which are resampled.
_BLOCKS = 15

PERCENT = 99.0
_BIN_MS = 100


@dataclass(frozen=True)
class Run:
    """A rule, a seed and a situation."""

    rule: str
    seed: int
    options: Options

    def words(self) -> list[str]:
        """Arguments of linnos-simulation."""
        given = {"rule": self.rule, "seed": self.seed, **self.options}
        return [f"--{name}={value}" for name, value in given.items()]


def built(folder: Path) -> Path:
    """Build the simulation in a folder."""
    made = subprocess.run(
        ["make", "-s", "-C", SOURCE, f"OUT={folder}"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise StepError(f"{SOURCE}: make failed\n{made.stderr}")
    return folder / "linnos-simulation"


def simulated(program: Path, run: Run, log: Path | None = None) -> dict[str, Any]:
    """Run the simulation and return its output; write its reads to `log`, if given."""
    words = [*run.words(), *([f"--log={log}"] if log else [])]
    ran = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise StepError(f"{' '.join(words)}: {ran.stderr or ran.stdout}")
    counted: dict[str, Any] = json.loads(ran.stdout)
    return counted


def add_reads(
    table: LongTable, program: Path, cell: Cell, seeds: Sequence[int], folder: Path
) -> None:
    """Add the numbers of the reads in a situation under its rules, seeds pooled.

    The share of the oracle's gain and the reductions are relative to the primary. `worst_share` is
    the largest share of the reads that a node had in any second.
    """
    blocks: list[Blocks] = []
    latencies: dict[str, list[Any]] = {rule: [] for rule in cell.rules}
    counted: dict[str, list[dict[str, Any]]] = {rule: [] for rule in cell.rules}
    for seed in seeds:
        one: Blocks | None = None
        for rule in cell.rules:
            with tempfile.NamedTemporaryFile(dir=folder) as log:
                run = Run(rule, seed, cell.options)
                counted[rule].append(simulated(program, run, Path(log.name)))
                reads = np.fromfile(log.name, _READ)
            due_us = (reads["due_ns"] - reads["due_ns"][0]) / 1e3
            latency_us = reads["latency_ns"] / 1e3
            if one is None:
                one = Blocks(due_us, float(due_us[-1]) + 1, _BLOCKS)
            one.add(rule, latency_us)
            latencies[rule].append(latency_us.astype(np.float32))
        assert one is not None
        blocks.append(one)
    drawn = Pooled(blocks)
    place = (cell.name, "")
    for rule in cell.rules:
        runs = counted[rule]
        table.add(place, rule, "reads", sum(run["reads"] for run in runs))
        table.add(place, rule, "mean_us", drawn.mean(rule))
        p99_us = float(np.percentile(np.concatenate(latencies[rule]), PERCENT))
        table.add(place, rule, "p99_us", p99_us)
        if {"primary", "oracle"} <= {*cell.rules} and rule != "primary":
            table.add(place, rule, "share_of_oracle", drawn.share(rule, "oracle", "primary"))
        for name in ("extra_io_ratio", "asked"):
            weights = [run["reads"] for run in runs]
            table.add(
                place, rule, name, float(np.average([r[name] for r in runs], weights=weights))
            )
        table.add(place, rule, "worst_share", max(run["worst_share"] for run in runs))
        if "primary" in cell.rules and rule != "primary":
            table.add(place, rule, "mean_us", drawn.below(rule, "primary"), "primary")


def add_slow_drive(
    table: LongTable, program: Path, rule: str, clients: int, seeds: Sequence[int]
) -> None:
    """Add the share of the reads that go to a drive that turns slow and recovers.

    `share_N` is the share in the N-th 100 ms. The share while the drive is slow is given for the
    first 100 ms and for the time after these. `back_ms` is the time after its recovery until the
    drive has half its usual share again; it is left out if it never does.
    """
    runs = [Run(rule, seed, {**SLOW, "clients": clients}) for seed in seeds]
    counted = [simulated(program, run) for run in runs]
    to_slow = np.sum([run["to_slow"] for run in counted], axis=0)
    total = np.sum([run["in_bin"] for run in counted], axis=0)
    share = to_slow / total
    begin, end = (int(SLOW[name]) // _BIN_MS for name in ("slow_from_ms", "slow_to_ms"))
    usual = float(share[:begin].mean())
    back = [k for k in range(end, len(share)) if share[k] >= usual / 2]
    place = ("", str(clients))
    for k, value in enumerate(share):
        table.add(place, rule, f"share_{k}", round(float(value), 5))
    table.add(place, rule, "first_100_ms", float(share[begin]))
    after = float(to_slow[begin + 1 : end].sum() / total[begin + 1 : end].sum())
    table.add(place, rule, "after_100_ms", after)
    if back:
        table.add(place, rule, "back_ms", (back[0] - end + 1) * _BIN_MS)

# SPDX-License-Identifier: MIT
"""Runs linnos-simulation, and makes numbers of its reads."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eval.cache import ROOT
from eval.experiments.simulation.cells import SLOW, Cell, Options
from eval.intervals import Blocks, Pooled
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
    """The simulation, built in a folder."""
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


def scored(program: Path, cell: Cell, seeds: Sequence[int], folder: Path) -> dict[str, Any]:
    """A cell's numbers over its seeds.

    Returns
    -------
    dict
        ``rules``: {name: {``mean_us`` as [value, low, high], ``p99_us``, ``below`` the primary's
        mean by and ``share_of_gain`` of the oracle's (both with intervals, null where there is no
        primary or no oracle), ``extra_io_ratio``, ``asked`` a read, ``worst_share`` of the reads
        that a node had in any second}}.
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
    rules = {}
    for rule in cell.rules:
        pooled = np.concatenate(latencies[rule])
        runs = counted[rule]
        compared = {
            "below": drawn.below(rule, "primary").to_json() if "primary" in cell.rules else None,
            "share_of_gain": drawn.share(rule, "oracle", "primary").to_json()
            if {"primary", "oracle"} <= set(cell.rules)
            else None,
        }
        rules[rule] = {
            "mean_us": drawn.mean(rule).to_json(),
            "p99_us": float(np.percentile(pooled, PERCENT)),
            **compared,
            **{
                name: float(np.average([r[name] for r in runs], weights=[r["reads"] for r in runs]))
                for name in ("extra_io_ratio", "asked")
            },
            "worst_share": max(run["worst_share"] for run in runs),
        }
    return {"name": cell.name, "seeds": len(seeds), "reads": len(pooled), "rules": rules}


def slow_share(program: Path, runs: Sequence[Run]) -> dict[str, Any]:
    """Users' reads of a drive that turns slow and recovers.

    Returns
    -------
    dict
        ``share``: its share of the reads, by 100 ms; ``after_100_ms``: while it is slow, but for
        the first 100 ms; ``back_ms``: how long after its recovery it has half its due again.
    """
    counted = [simulated(program, run) for run in runs]
    to_slow = np.sum([run["to_slow"] for run in counted], axis=0)
    share = to_slow / np.sum([run["in_bin"] for run in counted], axis=0)
    begin, end = (int(SLOW[name]) // _BIN_MS for name in ("slow_from_ms", "slow_to_ms"))
    usual = float(share[:begin].mean())
    total = np.sum([run["in_bin"] for run in counted], axis=0)
    back = [k for k in range(end, len(share)) if share[k] >= usual / 2]
    return {
        "share": [round(float(value), 5) for value in share],
        "first_100_ms": float(share[begin]),
        "after_100_ms": float(to_slow[begin + 1 : end].sum() / total[begin + 1 : end].sum()),
        "back_ms": (back[0] - end + 1) * _BIN_MS if back else None,
    }


def committed_lab(tables: Mapping[str, Any], heading: str) -> dict[str, float]:
    """Return the mean latencies in the lab, us, by rule title; from eval/results/cluster.json."""
    return {row[0]: float(row[1].split()[0]) for row in tables[heading]["rows"]}

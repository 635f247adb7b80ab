# SPDX-License-Identifier: MIT
"""Read the reports of applications: the start and the latency of each operation."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnapp.lab.work import StepError

Floats = NDArray[np.float64]

#: A repeat of a benchmark of db_bench, and a line of its histogram.
_REPEAT = re.compile(
    r"^readrandom\s*:.* ([\d.]+) seconds (\d+) operations;.*\((\d+) of (\d+) found\)"
)
_COUNT = re.compile(r"^Count: (\d+) Average: ([\d.]+)")
_BUCKET = re.compile(r"^[\[(]\s*(\d+),\s*(\d+)\s*\]\s+(\d+)\s")


@dataclass(frozen=True)
class Operations:
    """Operations of one run."""

    #: array, shape (n,); time from the start of the run to the start or due time of each.
    start_us: Floats
    #: array, shape (n,)
    latency_us: Floats
    #: Length of the run.
    seconds: float
    #: If latencies are only known from a histogram: their exact sums in equal blocks of the run. An
    #: operation's ``start_us`` then only identifies its block.
    totals_us: Floats | None = None


def _columns(path: Path, what: str, n: int, separator: str | None) -> NDArray[np.float64]:
    """Read the first n columns of a table of numbers, or raise StepError."""
    try:
        with path.open() as lines:
            rows = [[float(field) for field in line.split(separator)[:n]] for line in lines]
        table = np.array(rows, np.float64)
    except (OSError, ValueError) as error:
        raise StepError(f"{path}: not {what}: {error}") from None
    if table.ndim != 2 or table.shape[1] != n:
        raise StepError(f"{path}: not {what}: {len(rows)} lines, not each of {n} columns or more")
    return table


def read_client_report(path: Path, seconds: float) -> Operations:
    """Read the report of sqlite_client.py or wiredtiger_client.c."""
    table = _columns(path, "a report of a client", 2, ",")
    return Operations(table[:, 0], table[:, 1], seconds)


def read_pgbench_log(log: Path, start_s: float, seconds: float) -> Operations:
    """Read the transactions of a log of `pgbench -l -R` that was started at time `start_s`.

    As in pgbench, a latency begins at the scheduled time of a transaction.
    """
    table = _columns(log, "a log of pgbench", 7, None)
    latency_us = table[:, 2]
    end_us = (table[:, 4] - start_s) * 1e6 + table[:, 5]
    order = np.argsort(end_us - latency_us, kind="stable")
    return Operations(np.maximum(end_us - latency_us, 0)[order], latency_us[order], seconds)


def read_fio_report(log: Path, report: Path, seconds: float) -> Operations:
    """Read the `--write_lat_log` of a job without averages, and check its JSON report."""
    table = _columns(log, "a latency log of fio", 3, ",")
    try:
        jobs = json.loads(report.read_text())["jobs"]
        errors, reads = sum(j["error"] for j in jobs), sum(j["read"]["total_ios"] for j in jobs)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StepError(f"{report}: not a report of fio: {error!r}") from None
    if errors:
        raise StepError(f"{report}: fio found {errors} errors")
    if reads != len(table) or table[:, 2].any():
        raise StepError(f"{log}: {len(table)} lines of {reads} reads, or not all are reads")
    latency_us = table[:, 1] / 1000
    # The first column is the end of a read in ms.
    return Operations(np.maximum(table[:, 0] * 1000 - latency_us, 0), latency_us, seconds)


def read_db_bench_report(report: Path) -> Operations:
    """Read the repeats of `readrandom` with `--histogram`; each repeat is a block of the run.

    The mean of a repeat is exact. Percentiles come from its histogram as in RocksDB, with the
    operations of a class spread evenly.
    """
    try:
        lines = report.read_text().splitlines()
    except OSError as error:
        raise StepError(f"{report}: not a report of db_bench: {error}") from None
    seconds: list[float] = []
    asked_for: list[int] = []
    totals: list[float] = []
    repeat: list[int] = []
    latencies: list[Floats] = []
    for line in lines:
        if match := _REPEAT.match(line):
            length_s, operations, found, asked = match.groups()
            if found != asked or found != operations:
                raise StepError(f"{report}: {found} of {asked} keys found, {operations} read")
            seconds.append(float(length_s))
            asked_for.append(int(operations))
        elif (match := _COUNT.match(line)) and len(totals) < len(seconds):
            totals.append(int(match[1]) * float(match[2]))
        elif (match := _BUCKET.match(line)) and len(totals) == len(seconds) > 0:
            low, high, n = map(int, match.groups())
            latencies.append(low + (high - low) * (np.arange(n) + 0.5) / n)
            repeat += [len(seconds) - 1] * n
    classed = np.bincount(np.array(repeat, np.int64), minlength=len(seconds)).tolist()
    if not seconds or len(totals) != len(seconds) or classed != asked_for:
        raise StepError(
            f"{report}: not a report of db_bench --benchmarks=readrandom[XN] --histogram: "
            f"{len(seconds)} repeats with {asked_for} reads, {classed} of them in a histogram"
        )
    length_us = sum(seconds) * 1e6
    start_us = (np.array(repeat) + 0.5) * (length_us / len(seconds))
    return Operations(start_us, np.concatenate(latencies), sum(seconds), np.array(totals))


def counters(before: Path, after: Path) -> dict[str, Any]:
    """Return reads by mirror, inferences and probes between two files of `write_counters`."""
    first, last = (_counted(path) for path in (before, after))
    return {name: [b - a for a, b in zip(first[name], last[name], strict=True)] for name in last}


def _counted(path: Path) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {"mirrors": []}
    for line in path.read_text().splitlines():
        name, *values = line.split()
        into = "mirrors" if name.startswith("mirror") else name
        found.setdefault(into, []).extend(int(value) for value in values if value.isdigit())
    return found


def only_path(paths: Sequence[Path], what: str) -> Path:
    """Return the only path, or raise StepError."""
    if len(paths) != 1:
        raise StepError(f"{what}: {len(paths)} files, expected one: {', '.join(map(str, paths))}")
    return paths[0]

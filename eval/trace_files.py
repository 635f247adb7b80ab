# SPDX-License-Identifier: MIT
"""Traces that the user names in an environment variable: files, or folders of files."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

from eval.cache import ROOT
from linnapp.errors import TraceError
from linnapp.lab.work import StepError
from linnapp.trace.convert import detect_format
from linnapp.trace.reads import digest

VARIABLE = "LINNOS_TRACES"

GIVEN = tuple(Path(path) for path in os.environ.get(VARIABLE, "").split(":") if path)

#: Applications recorded in the lab, which are used if the user names no traces.
RECORDED = ROOT / "traces" / "recorded"
GIVEN_OR_RECORDED = GIVEN or (RECORDED,)

#: Names of traces in tables, by the end of the file's name. Other traces have the file's name.
NAMES = {
    "msr.cut.per_10k.rw_20_80.105.trace": "MSR 105",
    "msr.cut.per_10k.rw_40_60.1370.trace": "MSR 1370",
    "wsrch-small.trace": "MQSim wsrch",
    "tpcc-small.trace": "MQSim tpcc",
    "tencent.cut.per_50k.rw_60_40.490.trace": "Tencent 490",
    "tencent.cut.per_50k.most_size_thpt.222.trace": "Tencent 222",
    "tencent.cut.per_50k.rw_75_25.379.trace": "Tencent 379",
    "fio.blk.xz": "fio, recorded",
    "pgbench.blk.xz": "pgbench, recorded",
}


def files(given: Sequence[Path]) -> dict[str, Path]:
    """Return trace files by the names that tables have for them.

    For a folder, these are all files in it, at any depth, that linnapp knows as traces. Their
    names are their paths relative to the folder.
    """
    found: dict[str, Path] = {}
    for path in given:
        if not path.exists():
            raise StepError(f"{path}: no such file or folder (named in {VARIABLE})")
        below = _below(path) if path.is_dir() else {path.name: path}
        if not below:
            raise StepError(f"{path}: no trace in it that linnapp can read (named in {VARIABLE})")
        for name in below.keys() & found.keys():
            raise StepError(f"{below[name]}: another trace has this name: {found[name]}")
        found.update(below)
    return found


def trace_name(file: str) -> str:
    """Return a trace's name in a table."""
    return next((name for end, name in NAMES.items() if file.endswith(end)), file)


@functools.cache
def digest_of(path: Path) -> str:
    """Identify a trace by its content, since its path does not matter."""
    return digest([path])[:16]


def digests(given: Sequence[Path]) -> list[list[str]]:
    """Return the name and the digest of each trace."""
    try:
        return [[name, digest_of(path)] for name, path in files(given).items()]
    except StepError:
        # The error is reported when the traces are needed.
        return [[path.name, "missing"] for path in given]


def names(given: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of traces. A missing path is an error only when its trace is needed."""
    return tuple(name for name, _ in digests(given))


def _below(folder: Path) -> dict[str, Path]:
    return {
        str(path.relative_to(folder)): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and _is_trace(path)
    }


def _is_trace(path: Path) -> bool:
    try:
        detect_format(path)
    except TraceError:
        return False
    return True

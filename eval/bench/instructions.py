# SPDX-License-Identifier: MIT
"""Count the instructions of reads and writes on Debian's own kernel.

The drives do nothing (null_blk). All instructions of the only processor are counted (see
eval/debian_kernel.py), so the counts do not depend on the load of the machine.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval import debian_kernel
from eval.bench import BenchError, write
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build
from eval.bench.stepping import NULL_BLK
from eval.cache import ROOT

#: Batches, of which the median counts, by the reads or writes of each.
BATCHES = {1: 2001, 32: 201}
#: The options of null_reads for a read and a write of 4 KiB.
OPTIONS = {"read": "", "write": " --write"}


@dataclass(frozen=True)
class Case:
    """A configuration to count in."""

    #: The name that is printed.
    name: str
    #: `begin`, `end`: commands before and after.
    begin: str = ":"
    end: str = ":"
    #: The device to read and write.
    device: str = "/dev/nullb0"


def built_modules(*options: str) -> Path:
    """Build our modules for Debian's kernel, and return their folder."""
    release = debian_kernel.release()
    folder = ROOT / "build" / "module" / release
    script = ROOT / "kernel" / "module" / "build.sh"
    command = [str(script), "--kernel", release, "--out", str(folder), *options]
    if subprocess.run(command, check=False).returncode:
        raise BenchError(f"the modules could not be built for {release}")
    return folder


def count(
    name: str,
    cases: Sequence[Case],
    n_drives: int,
    *,
    reference: int = 0,
    modules: Sequence[str] = (),
    path: Sequence[Path] = (),
    options: Mapping[str, str] = OPTIONS,
) -> None:
    """Count in one guest, in the order of the cases; compare with one of them, and write a file.

    Parameters
    ----------
    cases : sequence of Case
        Each case starts in the state that the previous one left.
    reference : int
        The case with which the others are compared.
    modules : sequence of str
        Modules of Debian's kernel that are loaded first.
    options : mapping of str to str
        Kinds of I/O, and the options of null_reads for each.
    """
    build("guest-tools")
    load = f"modprobe -d {shlex.quote(str(debian_kernel.FOLDER))}"
    lines = [f"{load} {module}" for module in modules]
    lines.append(f"{load} null_blk nr_devices={n_drives} {' '.join(NULL_BLK)} gb=1")
    lines.append("null_reads --ticks")
    for case in cases:
        lines.append(case.begin)
        for option in options.values():
            for size, batches in BATCHES.items():
                lines.append(f"null_reads {case.device} --batches {batches} {size}{option}")
        lines.append(case.end)
    search = os.pathsep.join([*map(str, (TOOLS, *path)), debian_kernel.PATH])
    output = debian_kernel.run_counting_instructions(
        "\n".join(lines), memory_mb=768, environment={"PATH": search}
    )
    numbers = [float(line.split()[0]) for line in output.splitlines() if line[:1].isdigit()]
    ticks_per_ns, *medians = numbers
    rest = iter(medians)
    counts = {
        case.name: {what: {size: next(rest) / ticks_per_ns for size in BATCHES} for what in options}
        for case in cases
    }
    base = counts[cases[reference].name]
    for what in options:
        print(f"instructions of a {what}, compared with: {cases[reference].name}")
        for case_name, by_what in counts.items():
            shown = (
                f"  {size:2} at a time {n:8.0f} {n - base[what][size]:+8.0f} "
                f"({n / base[what][size]:.2f} times)"
                for size, n in by_what[what].items()
            )
            print(f"  {case_name:32}{''.join(shown)}")
    write(name, {"kernel": debian_kernel.release(), "instructions": counts})

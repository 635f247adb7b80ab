# SPDX-License-Identifier: MIT
"""Count the instructions of reads and writes on Debian's own kernel.

The drives do nothing (null_blk). All instructions of the only processor are counted (see
eval/debian_kernel.py), so the counts do not depend on the load of the machine.
"""

from __future__ import annotations

import io
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval import debian_kernel
from eval.bench import OUT, BenchError
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build
from eval.bench.off_cost import NULL_BLK
from linnapp.lab.guest import DEFAULT_PATH
from linnapp.lab.qemu import run
from linnapp.lab.work import write_json

#: Batches, of which the median counts, by the reads or writes of each.
BATCHES = {1: 2001, 32: 201}
#: The options of null_reads for a read and a write of 4 KiB.
OPTIONS = {"read": "", "write": " --write"}
#: Instructions by case, by kind of I/O, by how many at a time.
Counts = dict[str, dict[str, dict[int, float]]]


@dataclass(frozen=True)
class Case:
    """A configuration to count in."""

    #: As printed.
    name: str
    #: `begin`, `end`: commands before and after.
    begin: str = ":"
    end: str = ":"
    #: The device to read and write.
    device: str = "/dev/nullb0"


def count(
    cases: Iterable[Case],
    n_drives: int,
    *,
    modules: Sequence[str] = (),
    path: Sequence[Path] = (),
    options: Mapping[str, str] = OPTIONS,
) -> Counts:
    """Count in one guest, in the order of the cases.

    Parameters
    ----------
    cases : iterable of Case
        Each finds what those before it left.
    modules : sequence of str
        Modules of Debian's kernel that are loaded first.
    options : mapping of str to str
        Kinds of I/O, and the options of null_reads for each.
    """
    build("guest-tools")
    cases = list(cases)
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
    guest = debian_kernel.counting_guest(
        debian_kernel.image(),
        n_drives=0,
        memory_mb=768,
        environment={"PATH": os.pathsep.join([str(TOOLS), *map(str, path), DEFAULT_PATH])},
        timeout_s=1800,
    )
    output, errors = io.BytesIO(), io.BytesIO()
    result = run(["sh", "-ec", "\n".join(lines)], guest, stdout=output, stderr=errors)
    said = output.getvalue().decode()
    if result.status:
        raise BenchError(f"the guest failed: {(said + errors.getvalue().decode())[-1000:]}")
    numbers = [line.split() for line in said.splitlines() if line[:1].isdigit()]
    ticks_per_ns = float(numbers[0][0])
    medians = iter(float(line[0]) / ticks_per_ns for line in numbers[1:])
    return {
        case.name: {what: {size: next(medians) for size in BATCHES} for what in options}
        for case in cases
    }


def report(
    name: str, counts: Counts, reference: str, title: str, compared: Callable[[float, float], str]
) -> None:
    """Print the counts compared with those of the case `reference`, and write them."""
    release = debian_kernel.release(debian_kernel.image())
    for what in counts[reference]:
        kind = f"{what} of 4 KiB" if what in OPTIONS else what
        print(f"instructions of a {kind}, Linux {release}; compared with {title}")
        for case, by_what in counts.items():
            print(f"  {case:32}", end="")
            for size, n in by_what[what].items():
                print(
                    f"  {size:2} at a time {n:8.0f} {compared(n, counts[reference][what][size])}",
                    end="",
                )
            print()
    rows = [
        {
            "case": case,
            **{f"instructions_by_{what}s_at_a_time": by_size for what, by_size in by_what.items()},
        }
        for case, by_what in counts.items()
    ]
    write_json(OUT / f"{name}.json", {"kernel": release, "rows": rows})

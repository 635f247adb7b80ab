# SPDX-License-Identifier: MIT
"""The part of `make bench` that shows what linnos.ko costs an I/O on a kernel that is not patched.

Debian's own kernel reads and writes 4 KiB at a time of a drive that does nothing (null_blk). All
instructions of the one processor are counted (eval/debian_kernel.py says how): the counts do not
depend on how busy the machine is.
"""

from __future__ import annotations

import io
import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from eval import debian_kernel
from eval.bench import MODEL, OUT, BenchError
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build, latency_model
from eval.bench.off_cost import NULL_BLK
from eval.cache import ROOT
from eval.files import write_json
from linnapp.lab.guest import DEFAULT_PATH
from linnapp.lab.qemu import run

#: Batches, of which the median counts, by the reads or writes of each.
BATCHES = {1: 2001, 32: 201}
#: What null_reads is told for each.
OPTIONS = {"read": "", "write": " --write"}
_FILES = "/sys/kernel/linnos"


@dataclass(frozen=True)
class Case:
    """What the module does with the drive that is read.

    Attributes
    ----------
    name : str
        As printed.
    begin : str
        Commands before, after those of the cases above.
    """

    name: str
    begin: str


def _cases(module: Path, trees: Path) -> tuple[Case, ...]:
    return (
        Case("not loaded", ":"),
        Case("loaded, no drive named", f"insmod {shlex.quote(str(module))}"),
        Case("another drive observed", f"echo nullb1 >{_FILES}/add; {_observe('nullb1')}"),
        Case("named, off", f"echo nullb0 >{_FILES}/add"),
        Case("observed, network", f"{_upload(MODEL)}; {_observe('nullb0')}"),
        Case("observed, trees", _upload(trees)),
        Case("off again", f"echo off >{_FILES}/nullb0/mode"),
        Case("unloaded", "rmmod linnos"),
    )


def _observe(disk: str) -> str:
    return f"echo observe >{_FILES}/{disk}/mode"


def _upload(model: Path) -> str:
    return f"cat {shlex.quote(str(model))} >{_FILES}/nullb0/model"


def module_cost() -> None:
    """Instructions of a read and a write with linnos.ko, beside without, on Debian's kernel."""
    build("guest-tools")
    kernel = debian_kernel.image()
    release = debian_kernel.release(kernel)
    built = ROOT / "build" / "module" / release
    script = str(ROOT / "kernel" / "module" / "build.sh")
    command = [script, "--kernel", release, "--out", str(built)]
    if subprocess.run(command, check=False).returncode:
        raise BenchError(f"linnos.ko could not be built for {release}")
    cases = _cases(built / "linnos.ko", latency_model())
    load = f"modprobe -d {shlex.quote(str(debian_kernel.FOLDER))}"
    lines = [f"{load} null_blk nr_devices=2 {' '.join(NULL_BLK)} gb=1", "null_reads --ticks"]
    for case in cases:
        lines.append(case.begin)
        for option in OPTIONS.values():
            for size, batches in BATCHES.items():
                lines.append(f"null_reads /dev/nullb0 --batches {batches} {size}{option}")
    guest = debian_kernel.counting_guest(
        kernel,
        n_drives=0,
        memory_mb=768,
        environment={"PATH": os.pathsep.join([str(TOOLS), DEFAULT_PATH])},
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
    counts = {
        case.name: {what: {size: next(medians) for size in BATCHES} for what in OPTIONS}
        for case in cases
    }
    for what in OPTIONS:
        without = counts[cases[0].name][what]
        print(f"instructions of a {what} of 4 KiB, Linux {release}; beside without the module")
        for name, by_size in counts.items():
            print(f"  {name:24}", end="")
            for size, count in by_size[what].items():
                print(f"  {size:2} at a time {count:6.0f} {count - without[size]:+6.0f}", end="")
            print()
    rows = [
        {
            "case": name,
            **{f"instructions_by_{what}s_at_a_time": by_size for what, by_size in counted.items()},
        }
        for name, counted in counts.items()
    ]
    write_json(OUT / "module_cost.json", {"kernel": release, "rows": rows})

# SPDX-License-Identifier: MIT
"""The part of `make bench` that shows what linnos-ublk costs beside md's raid1.

Debian's own kernel reads and writes 4 KiB at a time of drives that do nothing (null_blk), through
md and through linnos-ublk, each a mirror of three. Counted are all instructions that the one
processor executes for one, of the program, the kernel and the server together
(eval/debian_kernel.py says how): the counts do not depend on how busy the machine is. Instructions
are not time: what a change from one process to another costs in caches is not in them.
"""

from __future__ import annotations

import io
import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from eval import debian_kernel
from eval.bench import OUT, BenchError
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build, latency_model
from eval.bench.off_cost import NULL_BLK
from eval.cache import ROOT
from eval.files import write_json
from linnapp.lab.guest import DEFAULT_PATH
from linnapp.lab.qemu import run

SERVER = ROOT / "build" / "ublk"
#: Batches, of which the median counts, by the reads or writes of each.
BATCHES = {1: 2001, 32: 201}
#: What null_reads is told for each.
OPTIONS = {"read": "", "write": " --write"}
_DRIVES = " ".join(f"/dev/nullb{k}" for k in range(3))
_WITH_MODELS = " ".join(f'/dev/nullb{k}="$model"' for k in range(3))


@dataclass(frozen=True)
class Case:
    """A way to the drives.

    Attributes
    ----------
    name : str
        As printed.
    device : str
        What is read and written.
    begin, end : str
        Commands before and after.
    """

    name: str
    device: str
    begin: str = ":"
    end: str = ":"


def _served(name: str, options: str, drives: str) -> Case:
    begin = (
        f"linnos-ublk --json --assume-clean {options} {drives} >/run/said & server=$!\n"
        'until grep -q ready /run/said; do kill -0 "$server"; sleep 0.01; done'
    )
    return Case(name, "/dev/ublkb0", begin, 'kill "$server"; wait "$server"; : >/run/said')


CASES = (
    Case("a drive, no mirror", "/dev/nullb0"),
    Case(
        "md raid1",
        "/dev/md0",
        f"mdadm -q --build /dev/md0 --level=1 --raid-devices=3 --assume-clean {_DRIVES}",
        "mdadm -q --stop /dev/md0",
    ),
    _served("linnos-ublk, in turn", "--home-margin 100 --explore-ms 0", _DRIVES),
    _served("linnos-ublk, no models", "", _DRIVES),
    _served("linnos-ublk, models", "", _WITH_MODELS),
    _served("linnos-ublk, hedged", "--hedge-percentile 95", _WITH_MODELS),
)


def _script(model: Path) -> str:
    load = f"modprobe -d {shlex.quote(str(debian_kernel.FOLDER))}"
    lines = [
        f"model={shlex.quote(str(model))}",
        f"{load} ublk_drv",
        f"{load} raid1",
        f"{load} null_blk nr_devices=3 {' '.join(NULL_BLK)} gb=1",
        "null_reads --ticks",
    ]
    for case in CASES:
        lines.append(case.begin)
        for option in OPTIONS.values():
            for size, batches in BATCHES.items():
                lines.append(f"null_reads {case.device} --batches {batches} {size}{option}")
        lines.append(case.end)
    return "\n".join(lines) + "\n"


def ublk_cost() -> None:
    """Instructions of a read and a write through linnos-ublk, beside md's, on Debian's kernel."""
    build("guest-tools")
    kernel = debian_kernel.image()
    guest = debian_kernel.counting_guest(
        kernel,
        n_drives=0,
        memory_mb=768,
        environment={"PATH": os.pathsep.join([str(TOOLS), str(SERVER), DEFAULT_PATH])},
        timeout_s=1800,
    )
    output, errors = io.BytesIO(), io.BytesIO()
    result = run(["sh", "-ec", _script(latency_model())], guest, stdout=output, stderr=errors)
    said = output.getvalue().decode()
    if result.status:
        raise BenchError(f"the guest failed: {(said + errors.getvalue().decode())[-1000:]}")
    numbers = [line.split() for line in said.splitlines() if line[:1].isdigit()]
    ticks_per_ns = float(numbers[0][0])
    medians = iter(float(line[0]) / ticks_per_ns for line in numbers[1:])
    counts = {
        case.name: {what: {size: next(medians) for size in BATCHES} for what in OPTIONS}
        for case in CASES
    }
    release = debian_kernel.release(kernel)
    for what in OPTIONS:
        md = counts[CASES[1].name][what]
        print(f"instructions of a {what} of 4 KiB, Linux {release}; beside md's raid1")
        for name, by_size in counts.items():
            print(f"  {name:24}", end="")
            for size, count in by_size[what].items():
                print(f"  {size:2} at a time {count:8.0f} {count / md[size]:5.2f} x", end="")
            print()
    rows = [
        {
            "case": name,
            **{f"instructions_by_{what}s_at_a_time": by_size for what, by_size in counted.items()},
        }
        for name, counted in counts.items()
    ]
    write_json(OUT / "ublk_cost.json", {"kernel": release, "rows": rows})

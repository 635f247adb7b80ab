# SPDX-License-Identifier: MIT
"""The kernel functions in which direct reads and writes spend their time.

    make eval-functions

`make eval` does not run it: it is about the stack above the drive, not about LinnOS. The guests'
time is the number of their instructions.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

from eval import debian_kernel
from eval.cache import ROOT
from eval.experiment import NOT_AVAILABLE, Context, Table
from eval.long_table import LongTable
from eval.study import Study, load_study_texts

GUEST = Path(__file__).parent / "guest"

#: Calls of each size in bytes.
CALLS = {4096: 256, 65536: 128, 1048576: 16, 10485760: 4, 104857600: 2}
DEVICE, DRIVE_MB, MEMORY_MB = "/dev/nvme0n1", 2048, 1536

#: Pages of the program's memory, and the kernel's argument: 4 KiB as in the poster, or 2 MiB where
#: they fit, as in Debian.
PAGES = {"4 KiB": "never", "2 MiB": "always"}

#: Boots of each guest. Differences between them are chance.
BOOTS = 2

#: The one case for which the poster gives numbers, and these: us of ten calls of 100 MB.
POSTER_CASE = ("ext4", "4 KiB", "write", "allocated", "104857600")
_POSTER_US, _POSTER_CALLS = 2_398_220, 10
_POSTER = {
    "adding pages to bios": (489_843 / _POSTER_US, ("pages",)),
    "splitting and merging": (0.06, ("split",)),
    "submit_bio and below": (885_274 / _POSTER_US, ("split", "queue", "driver", "linnos")),
    "io_schedule: asleep": (734_778 / _POSTER_US, ()),
}


def measure(
    context: Context, *, file_system: str, pages: str, policy: str, seed: int
) -> list[dict[str, Any]]:
    """Boot a guest for a file system and a size of pages, twice."""
    folder = context.folder / f"{file_system}-{PAGES[pages]}"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "direct_io"
    compiler = ["gcc", "-O2", "-static", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, "-o", program, GUEST / "direct_io.c"], check=True)
    sizes = [f"{size}:{calls}" for size, calls in CALLS.items()]
    rows = []
    for boot in range(BOOTS):
        out = folder / f"points-{boot}.jsonl"
        command = ["python3", GUEST / "functions.py", out, program, DEVICE, file_system, *sizes]
        debian_kernel.run_counting_instructions(
            shlex.join(map(str, command)),
            memory_mb=MEMORY_MB,
            n_drives=1,
            drive_mb=DRIVE_MB,
            kernel_args=[f"transparent_hugepage={PAGES[pages]}"],
            environment={"PATH": debian_kernel.PATH, "PYTHONPATH": str(ROOT)},
            out_dir=folder,
        )
        rows += [{"boot": boot, **point(json.loads(line))} for line in out.read_text().splitlines()]
    return rows


def point(case: dict[str, Any]) -> dict[str, Any]:
    """Reduce the output of `linnapp layers --functions` for a case to its measures."""
    groups = {name: group for name, group in case["groups"].items() if name != "wait"}
    software_us = sum(group["us"] for group in groups.values())
    recorded_us = sum(group["measured_us"] for group in groups.values())
    return {
        "operation": case["operation"],
        "file": "allocated" if case["allocated"] else "new",
        "bytes": case["bytes"],
        "software_us": software_us / case["calls"],
        "tracing_share": 1 - software_us / recorded_us,
        **{name: group["us"] / software_us for name, group in groups.items()},
    }


def poster(table: LongTable) -> dict[str, Table]:
    """Compare our parts with the poster's."""
    total_us = table.value(POSTER_CASE, "", "software_us")
    rows = []
    for what, (share, parts) in _POSTER.items():
        numbers = [number.value for part in parts if (number := table.get(POSTER_CASE, "", part))]
        ours = (f"{sum(numbers):.1%}", f"{sum(numbers) * total_us / 1000:.2f}")
        row = ours if parts else (NOT_AVAILABLE, NOT_AVAILABLE)
        ms = share * _POSTER_US / _POSTER_CALLS / 1000
        rows.append((what, f"{share:.1%}", f"{ms:.1f}", *row))
    header = ("", "poster, share of all", "poster, ms a call", "ours, share of the software",
              "ours, million instructions a call")  # fmt: skip
    return {"100 MB written to an allocated file, ext4": Table(header, tuple(rows))}


EXPERIMENT = Study(
    **load_study_texts("functions"),
    factors={"file_system": ("ext4", "xfs"), "pages": tuple(PAGES)},
    groups=(("file_system", "pages", "operation", "file", "bytes"),),
    cell=measure,
    seeds=lambda seeds, **place: seeds[:1],
    more_tables=poster,
    sources=("eval/debian_kernel.py",),
)

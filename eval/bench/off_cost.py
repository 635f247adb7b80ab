# SPDX-License-Identifier: MIT
"""The cost of LinnOS for machines that do not use it.

Two lab kernels, without and with LinnOS and otherwise configured alike, read 4 KiB at a time from
a drive that does nothing (null_blk). The instructions of a read, from the system call to its
return, are counted.
"""

from __future__ import annotations

import statistics
import subprocess

from eval.bench import MODEL, compare, write
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build
from eval.bench.stepping import KERNELS, count_instructions
from eval.cache import ROOT

#: For each number of reads in a call: the counted system call, the number of calls to skip, the
#: number to count, and the arguments of null_reads. The dynamic linker makes the first calls,
#: and the first reads fill caches.
COUNTED = {
    1: ("sys_pread64", 60, 101, ["--plain", "161"]),
    64: ("sys_io_submit", 3, 4, ["--batches", "7", "64"]),
}

#: By name: a key of `KERNELS`, and the modes that are set one after the other. The first case is
#: the one with which the others are compared.
CASES = {
    "unpatched": ("unpatched", ""),
    "off": ("patched", "off"),
    "off again": ("patched", "observe off"),
    "observe, no hints": ("patched", "observe"),
}
_POLICY = "/sys/block/nullb0/linnos"


def _count(case: str, reads: int) -> float:
    """Return the median instructions of a read."""
    kernel, modes = CASES[case]
    call, skipped, counted, arguments = COUNTED[reads]
    setup = f"cat {MODEL} >{_POLICY}/model\n" if modes else ""
    setup += "".join(f"echo {mode} >{_POLICY}/mode\n" for mode in modes.split())
    command = [str(TOOLS / "null_reads"), "/dev/nullb0", *arguments]
    counts = count_instructions(
        KERNELS[kernel], call, command, skipped=skipped, counted=counted, setup=setup
    )
    return statistics.median_low(counts) / reads


def off_cost() -> None:
    """Instructions that LinnOS in modes off and observe adds to reads without the hint."""
    build("guest-tools")
    for flavour in ("um-unpatched", "um"):
        subprocess.run([str(ROOT / "kernel" / "build.sh"), flavour], check=True)
    found = {}
    for reads in COUNTED:
        print(f"instructions of a read, {reads} a call")
        found[reads] = {case: _count(case, reads) for case in CASES}
        compare(found[reads], lambda _: "unpatched")
    write("off_cost", found)

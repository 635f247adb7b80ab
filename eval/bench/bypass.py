# SPDX-License-Identifier: MIT
"""Instructions of reads and writes by bios of a module, compared with direct I/O.

This is the experiment that a poster describes (Logan, Kougkas and Sun, Quantifying the Overheads of
the Modern Linux I/O Stack): a module submits bios, past the system call, VFS, the file system and
direct I/O. The drive is a null_blk that keeps its data in memory, so that it can hold a file
system. It completes each request at once, and its copying is part of every number.
"""

from __future__ import annotations

import shlex
import shutil
import statistics
import subprocess
from pathlib import Path

from eval import debian_kernel
from eval.bench import BenchError, compare, write
from eval.bench.stepping import NULL_BLK
from eval.cache import ROOT

SOURCE = ROOT / "kernel" / "bench" / "bypass"
FOLDER = ROOT / "build" / "bench" / "bypass"
PROGRAM = ROOT / "eval" / "experiments" / "functions" / "guest" / "direct_io.c"

#: Calls of each size in bytes, as in the experiment `functions`.
CALLS = {4096: 256, 65536: 128, 1048576: 16, 10485760: 4, 104857600: 2}

#: Requests of up to 512 KiB, as on QEMU's NVMe drive, and blocks of a page.
_DRIVE = (*NULL_BLK, "nr_devices=2", "gb=1", "memory_backed=1", "bs=4096", "max_sectors=1024")

#: Runs of each case, of which the median counts.
RUNS = 3

#: Accesses to a file or a device by system calls, and its path.
PATHS = {
    "ext4": "/run/mnt/ext4/file",
    "xfs": "/run/mnt/xfs/file",
    "the block device": "/dev/nullb1",
}
BIOS = "bios of the module"
CASES = [(o, size, n) for o in ("read", "write") for size, n in CALLS.items()]


def build(release: str) -> None:
    """Build the module for a kernel, and the program that reads and writes."""
    shutil.copytree(SOURCE, FOLDER, dirs_exist_ok=True)
    headers = Path("/usr/src") / f"linux-headers-{release}"
    if not headers.exists():
        raise BenchError(f"{headers} does not exist; apt-get install {headers.name}")
    make = ["make", "-s", "-C", str(headers), f"M={FOLDER}", "modules"]
    for command in (make, ["gcc", "-O2", "-static", "-o", f"{FOLDER}/direct_io", str(PROGRAM)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"{command[0]}: {done.stderr.strip()}")


def _script() -> str:
    """Return the commands of the guest, which print a time in ns for each run of each case."""
    program, module = (shlex.quote(str(FOLDER / name)) for name in ("direct_io", "bypass.ko"))
    lines = [f"modprobe -d {shlex.quote(str(debian_kernel.FOLDER))} null_blk {' '.join(_DRIVE)}"]
    # Each file system has half of the first drive; all blocks are allocated before the first run.
    lines.append("addpart /dev/nullb0 1 0 1048576; addpart /dev/nullb0 2 1048576 1048576")
    for k, system in enumerate(("ext4", "xfs"), start=1):
        folder = f"/run/mnt/{system}"
        lines.append(f"mkfs.{system} -q /dev/nullb0p{k}; mkdir -p {folder}")
        lines.append(f"mount /dev/nullb0p{k} {folder}")
    _, largest, n_largest = CASES[-1]
    lines += [f"{program} write {path} {largest} {n_largest}" for path in PATHS.values()]
    for operation, size, calls in CASES:
        for path in PATHS.values():
            lines += [f"{program} {operation} {path} {size} {calls} time"] * RUNS
        lines += [
            f"insmod {module} device=/dev/nullb1 bytes={size} calls={calls} "
            f"write={operation == 'write':d}; cat /sys/module/bypass/parameters/ns; rmmod bypass"
        ] * RUNS
    return "\n".join(lines)


def bypass() -> None:
    """Instructions of reads and writes by a module's bios, compared with direct I/O."""
    build(debian_kernel.release())
    output = debian_kernel.run_counting_instructions(
        _script(), memory_mb=2048, kernel_args=["transparent_hugepage=never"]
    )
    times_ns = iter(map(int, output.split()))
    rows = {}
    for operation, size, calls in CASES:
        row = {
            case: statistics.median(next(times_ns) / calls for _ in range(RUNS))
            for case in (*PATHS, BIOS)
        }
        print(f"instructions of a {operation} of {size:,} bytes:")
        compare(row, lambda _: BIOS)
        rows[f"{operation} of {size} bytes"] = row
    write("bypass", {"kernel": debian_kernel.release(), "rows": rows})

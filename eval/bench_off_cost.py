# SPDX-License-Identifier: MIT
"""The part of `make bench` that shows what LinnOS costs those who do not use it.

Two lab kernels, without and with LinnOS and otherwise configured alike, read 4 KiB at a time from
a drive that does nothing (null_blk). Instructions of a read, from the system call to its return,
are counted one by one: the number is exact, and the same on a busy machine. Times are medians of
batches by the processor's time stamp counter, since the guest's clock is virtual, in rounds that
alternate between the kernels.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from linnapp.lab.guest import Guest, LabError
from linnapp.lab.uml import run

REPOSITORY = Path(__file__).resolve().parents[1]
OUT = REPOSITORY / "out" / "bench"
TOOLS = REPOSITORY / "build" / "bench"
MODEL = REPOSITORY / "models" / "example" / "flash0.linnos"
KERNELS = {
    "unpatched": REPOSITORY / "build" / "linux-um-unpatched" / "linux",
    "patched": REPOSITORY / "build" / "linux-um" / "linux",
}

ROUNDS = 9
#: Reads of a batch, and batches of a round. With few in flight a read's share of the system call
#: is large; with many, the memory of their bios counts, each 24 bytes larger with LinnOS.
BATCHES = {8: 6000, 64: 2000}
#: The first calls are those of the dynamic linker, and the first reads fill caches.
SKIPPED_CALLS, COUNTED_CALLS = 60, 101
#: A guest that is stepped through while its own programs are traced by it sometimes hangs.
COUNT_TRIES = 3
#: Reads of one CPU, completed where they are submitted: nothing waits.
NULL_BLK = ("nr_devices=1", "queue_mode=2", "irqmode=0", "submit_queues=1")
_POLICY = "/sys/block/nullb0/linnos"


@dataclass
class Case:
    """One kernel in one mode.

    Attributes
    ----------
    name : str
        As printed.
    kernel : str
        A key of `KERNELS`.
    mode : str or None
        What is written to the drive's `mode`; None where there is none.
    ns : dict of int to list of float
        Nanoseconds a read, one a round, by the number of reads in a batch.
    instructions : list of int
        Of each counted read.
    """

    name: str
    kernel: str
    mode: str | None
    ns: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in BATCHES})
    instructions: list[int] = field(default_factory=list)


def _boot(case: Case, kernel: Path, command: Sequence[str], timeout_s: float = 600) -> str:
    setup = ""
    if case.mode:
        setup = f"cat {MODEL} >{_POLICY}/model\necho {case.mode} >{_POLICY}/mode\n"
    output = io.BytesIO()
    guest = Guest(
        kernel=kernel,
        memory_mb=256,
        setup=setup,
        kernel_args=[f"null_blk.{argument}" for argument in NULL_BLK],
        timeout_s=timeout_s,
    )
    result = run([str(TOOLS / "null_reads"), "/dev/nullb0", *command], guest, stdout=output)
    if result.status:
        raise LabError(f"null_reads ended with status {result.status}; {result.dmesg[-500:]}")
    return output.getvalue().decode()


def _address(kernel: Path, symbol: str) -> str:
    table = subprocess.run(["nm", str(kernel)], check=True, capture_output=True, text=True)
    for line in table.stdout.splitlines():
        if line.endswith(f" {symbol}"):
            return line.split()[0]
    raise LabError(f"{kernel}: has no function {symbol}")


def _count(case: Case) -> list[int]:
    """Instructions of each of some reads, by stepping through the kernel."""
    for _ in range(COUNT_TRIES - 1):
        with contextlib.suppress(LabError):
            return _count_once(case)
    return _count_once(case)


def _count_once(case: Case) -> list[int]:
    kernel = KERNELS[case.kernel]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stepper = folder / "linux"
        stepper.write_text(
            f'#!/bin/sh\nexec "{TOOLS}/count_steps" {_address(kernel, "sys_pread64")} '
            f'{SKIPPED_CALLS} {COUNTED_CALLS} "{folder}/counts" "{kernel}" "$@"\n'
        )
        stepper.chmod(0o755)
        _boot(case, stepper, ["--plain", str(SKIPPED_CALLS + COUNTED_CALLS)], 120)
        counts = [int(line) for line in (folder / "counts").read_text().split()]
    if len(counts) != COUNTED_CALLS:
        raise LabError(f"{kernel}: {len(counts)} reads counted, not {COUNTED_CALLS}")
    return counts


def off_cost() -> None:
    """What LinnOS costs when it is off, or observes and no read has the hint."""
    tools = ["make", "--no-print-directory", "-s", "-C", str(REPOSITORY / "kernel" / "bench")]
    subprocess.run([*tools, f"OUT={TOOLS}", "guest-tools"], check=True)
    for flavour in ("um-unpatched", "um"):
        subprocess.run([str(REPOSITORY / "kernel" / "build.sh"), flavour], check=True)
    cases = [
        Case("unpatched", "unpatched", None),
        Case("off", "patched", "off"),
        Case("observe, no hints", "patched", "observe"),
    ]
    ticks = subprocess.run(
        [str(TOOLS / "null_reads"), "--ticks"], check=True, capture_output=True, text=True
    )
    ticks_per_ns = float(ticks.stdout)
    for case in cases:
        case.instructions = _count(case)
    cpus = os.sched_getaffinity(0)
    # The guest's kernel and its programs are processes that wake one another, which takes twice
    # as long from CPU to CPU.
    os.sched_setaffinity(0, {min(cpus)})
    try:
        for k in range(ROUNDS):
            # the other way round every second time, so that a drift favours nobody
            for case in cases[:: -1 if k % 2 else 1]:
                for size, batches in BATCHES.items():
                    command = ["--batches", str(batches), str(size)]
                    median = _boot(case, KERNELS[case.kernel], command).split()[0]
                    case.ns[size].append(float(median) / ticks_per_ns)
    finally:
        os.sched_setaffinity(0, cpus)
    report(cases)


def report(cases: Sequence[Case]) -> None:
    """Print a table of the cases, compared with the first, and write off_cost.json.

    Parameters
    ----------
    cases : sequence of Case
        With their measurements.
    """
    base = cases[0]
    base_instructions = statistics.median_low(base.instructions)
    rows: list[dict[str, object]] = []
    print("instructions of a read:")
    for case in cases:
        instructions = statistics.median_low(case.instructions)
        more = instructions - base_instructions
        rows.append({"case": case.name, "instructions": instructions, "instructions_more": more})
        print(f"  {case.name:18} {instructions:6} {more / base_instructions:+8.2%}")
    for size in BATCHES:
        base_ns = statistics.median(base.ns[size])
        print(f"ns of a read, {size} at a time: median, fastest and slowest round")
        for row, case in zip(rows, cases, strict=True):
            rounds = case.ns[size]
            ns = statistics.median(rounds)
            row[f"{size}_at_a_time"] = {
                "ns": ns,
                "ns_more": ns - base_ns,
                "ns_of_rounds": rounds,
                # the rounds of the two do not overlap
                "distinguishable": min(rounds) > max(base.ns[size]),
            }
            print(
                f"  {case.name:18} {ns:6.0f} {ns / base_ns - 1:+8.2%}  "
                f"{min(rounds):.0f} .. {max(rounds):.0f}"
            )
    (OUT / "off_cost.json").write_text(json.dumps(rows, indent=1) + "\n")


PARTS = {"off-cost": off_cost}

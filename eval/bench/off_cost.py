# SPDX-License-Identifier: MIT
"""The cost of LinnOS for those who do not use it.

Two lab kernels, without and with LinnOS and otherwise configured alike, read 4 KiB at a time from
a drive that does nothing (null_blk). The instructions of a read, from the system call to its
return, are counted one by one, so they do not depend on the load of the machine. Times are medians
of batches by the processor's time stamp counter, because the guest's clock is virtual. Each round
boots each kernel again, the unpatched one twice: the difference between these two is noise, and
smaller differences cannot be distinguished from it.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eval.bench import MODEL, OUT
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build
from eval.cache import ROOT
from linnapp.lab.guest import Guest, LabError
from linnapp.lab.uml import run
from linnapp.lab.work import write_json

KERNELS = {
    "unpatched": ROOT / "build" / "linux-um-unpatched" / "linux",
    "patched": ROOT / "build" / "linux-um" / "linux",
}

ROUNDS = 9
#: Reads of a batch, and batches of a round. With few in flight a read's share of the system call
#: is large; with many, the memory of their bios counts. The lab's kernels have the ordinary slab
#: allocator: SLUB_TINY gives a slab back as soon as it is empty, and made bios larger by 8 bytes
#: cost a tenth of the time of 64 reads at a time.
BATCHES = {8: 6000, 64: 2000}
#: By the number of reads in a call: the counted system call, the number of calls to skip, the
#: number to count, and the arguments of null_reads. The dynamic linker makes the first calls,
#: and the first reads fill caches.
COUNTED = {
    1: ("sys_pread64", 60, 101, ["--plain", "161"]),
    64: ("sys_io_submit", 3, 4, ["--batches", "7", "64"]),
}
#: A guest that is stepped through is slow, not hung, for so long; then it is tried once more.
COUNT_TIMEOUT_S, COUNT_TRIES = 300, 4
#: Reads of one CPU, completed where they are submitted: nothing waits.
NULL_BLK = ("queue_mode=2", "irqmode=0", "submit_queues=1")
_POLICY = "/sys/block/nullb0/linnos"


@dataclass
class Case:
    """One kernel in one mode."""

    #: As printed.
    name: str
    #: A key of `KERNELS`.
    kernel: str
    #: The modes to set, one after the other; None for a kernel without LinnOS.
    mode: str | None
    #: Nanoseconds a read, one a round, by the number of reads in a batch.
    ns: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in BATCHES})
    #: Instructions of a read in each counted call, by the number of reads of the call.
    instructions: dict[int, list[float]] = field(default_factory=dict)


def null_guest(kernel: Path, n_drives: int, setup: str, timeout_s: float) -> Guest:
    """A guest with drives that do nothing, ``/dev/nullb0`` and on."""
    return Guest(
        kernel=kernel,
        memory_mb=256,
        setup=setup,
        kernel_args=[f"null_blk.{each}" for each in (f"nr_devices={n_drives}", *NULL_BLK)],
        timeout_s=timeout_s,
    )


def _boot(case: Case, kernel: Path, commands: Sequence[Sequence[str]], timeout_s: float) -> str:
    """Run null_reads with each of some arguments in one guest; what it printed."""
    setup = ""
    if case.mode:
        setup = f"cat {MODEL} >{_POLICY}/model\n"
        setup += "".join(f"echo {mode} >{_POLICY}/mode\n" for mode in case.mode.split())
    output = io.BytesIO()
    guest = null_guest(kernel, 1, setup, timeout_s)
    lines = [shlex.join([str(TOOLS / "null_reads"), "/dev/nullb0", *c]) for c in commands]
    result = run(["sh", "-ec", "\n".join(lines)], guest, stdout=output)
    if result.status:
        raise LabError(f"null_reads ended with status {result.status}; {result.dmesg[-500:]}")
    return output.getvalue().decode()


def ticks_per_ns() -> float:
    """Return the rate of the processor's time stamp counter."""
    command = [str(TOOLS / "null_reads"), "--ticks"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _address(kernel: Path, symbol: str) -> str:
    table = subprocess.run(["nm", str(kernel)], check=True, capture_output=True, text=True)
    for line in table.stdout.splitlines():
        if line.endswith(f" {symbol}"):
            return line.split()[0]
    raise LabError(f"{kernel}: has no function {symbol}")


def count_instructions(
    kernel: Path, call: str, skipped: int, counted: int, boot: Callable[[Path], object]
) -> list[int]:
    """Instructions of each of some calls of a kernel's function, by stepping through it.

    Parameters
    ----------
    skipped, counted : int
        How many calls are let pass, and then counted.
    boot : callable
        A function that gets a program to run in the kernel's place, and boots a guest with enough
        calls.
    """
    for _ in range(COUNT_TRIES - 1):
        with contextlib.suppress(LabError):
            return _count_once(kernel, call, skipped, counted, boot)
    return _count_once(kernel, call, skipped, counted, boot)


def _count_once(
    kernel: Path, call: str, skipped: int, counted: int, boot: Callable[[Path], object]
) -> list[int]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stepper = folder / "linux"
        stepper.write_text(
            f'#!/bin/sh\nexec "{TOOLS}/count_steps" {_address(kernel, call)} '
            f'{skipped} {counted} "{folder}/counts" "{kernel}" "$@"\n'
        )
        stepper.chmod(0o755)
        boot(stepper)
        counts = [int(line) for line in (folder / "counts").read_text().split()]
    if len(counts) != counted:
        raise LabError(f"{kernel}: {len(counts)} calls counted, not {counted}")
    return counts


def count_calls(setup: str, function: str, call: str, n_drives: int, asked: int = 1) -> int:
    """Count the instructions of a function of the lab kernel while ask_calls makes system calls.

    Parameters
    ----------
    setup : str
        Shell commands that run first, in a guest with `n_drives` drives that do nothing.
    call : str
        The calls of ask_calls, about the first `asked` drives.
    """
    skipped, counted = 40, 101

    def boot(stepper: Path) -> None:
        guest = null_guest(stepper, n_drives, setup, COUNT_TIMEOUT_S)
        command = [str(TOOLS / "ask_calls"), call, str(2 * (skipped + counted))]
        result = run([*command, *(f"/dev/nullb{k}" for k in range(asked))], guest)
        if result.status:
            raise LabError(f"ask_calls ended with status {result.status}; {result.dmesg[-500:]}")

    counts = count_instructions(KERNELS["patched"], function, skipped, counted, boot)
    return round(statistics.median(counts))


def _count(case: Case, reads: int) -> list[float]:
    """Instructions of a read in each of some calls."""
    call, skipped, counted, arguments = COUNTED[reads]
    counts = count_instructions(
        KERNELS[case.kernel],
        call,
        skipped,
        counted,
        lambda stepper: _boot(case, stepper, [arguments], COUNT_TIMEOUT_S),
    )
    return [count / reads for count in counts]


def off_cost() -> None:
    """Cost of LinnOS in modes off and observe for reads without the hint."""
    build("guest-tools")
    for flavour in ("um-unpatched", "um"):
        subprocess.run([str(ROOT / "kernel" / "build.sh"), flavour], check=True)
    cases = [
        Case("unpatched", "unpatched", None),
        Case("unpatched, again", "unpatched", None),
        Case("off", "patched", "off"),
        Case("off again", "patched", "observe off"),
        Case("observe, no hints", "patched", "observe"),
    ]
    rate = ticks_per_ns()
    for case in cases:
        for reads in COUNTED:
            print(f"counting: {case.name}, {reads} reads a call", flush=True)
            case.instructions[reads] = _count(case, reads)
    measure(cases, rate)
    report(cases)


def measure(cases: Sequence[Case], rate: float) -> None:
    """Time reads in each of the cases, round after round.

    Parameters
    ----------
    cases : sequence of Case
        Their `ns` is added to.
    """
    commands = [["--batches", str(batches), str(size)] for size, batches in BATCHES.items()]
    cpus = os.sched_getaffinity(0)
    # The guest's kernel and its programs are processes that wake one another, which takes twice
    # as long from CPU to CPU.
    os.sched_setaffinity(0, {min(cpus)})
    try:
        for k in range(ROUNDS):
            # in reverse order every second time, so that a drift affects all cases alike
            for case in cases[:: -1 if k % 2 else 1]:
                lines = _boot(case, KERNELS[case.kernel], commands, 600).splitlines()
                for size, line in zip(BATCHES, lines, strict=True):
                    case.ns[size].append(float(line.split()[0]) / rate)
    finally:
        os.sched_setaffinity(0, cpus)


def report(cases: Sequence[Case]) -> None:
    """Print a table of the measured cases, compared with the first, and write off_cost.json.

    The second case is the first once more, whose differences are noise.
    """
    base = cases[0]
    rows: list[dict[str, object]] = [{"case": case.name} for case in cases]
    for reads in base.instructions:
        low = statistics.median_low(base.instructions[reads])
        print(f"instructions of a read, {reads} a call")
        for row, case in zip(rows, cases, strict=True):
            counts = case.instructions[reads]
            count = statistics.median_low(counts)
            row[f"instructions_{reads}_a_call"] = {
                "median": count,
                "more": count - low,
                "of_calls": counts,
            }
            print(
                f"  {case.name:18} {count:8.1f} {count - low:+7.1f} {count / low - 1:+8.2%}"
                f"  {min(counts):.0f} .. {max(counts):.0f}"
            )
    for size in BATCHES:
        base_ns = base.ns[size]
        _, noise_ns = _quartiles(cases[1].ns[size], base_ns)
        print(f"ns of a read, {size} at a time; more than unpatched, and quartiles of the rounds")
        for row, case in zip(rows, cases, strict=True):
            ns = statistics.median(case.ns[size])
            more_ns = statistics.median(a - b for a, b in zip(case.ns[size], base_ns, strict=True))
            low_ns, high_ns = _quartiles(case.ns[size], base_ns)
            row[f"{size}_at_a_time"] = {
                "ns": ns,
                "ns_more": more_ns,
                "ns_more_quartiles": [low_ns, high_ns],
                "ns_of_rounds": case.ns[size],
                # three rounds in four are slower than three in four of the same kernel
                "distinguishable": low_ns > noise_ns,
            }
            print(
                f"  {case.name:18} {ns:6.0f} {more_ns:+7.1f} "
                f"{more_ns / statistics.median(base_ns):+8.2%}  {low_ns:+.1f} .. {high_ns:+.1f}"
            )
    write_json(OUT / "off_cost.json", rows)


def _quartiles(ns: Sequence[float], base_ns: Sequence[float]) -> tuple[float, float]:
    """Lower and upper quartile of how much slower the rounds are."""
    more = [a - b for a, b in zip(ns, base_ns, strict=True)]
    low, _, high = statistics.quantiles(more, n=4, method="inclusive")
    return low, high

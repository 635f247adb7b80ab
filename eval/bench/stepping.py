# SPDX-License-Identifier: MIT
"""Count the instructions of the lab kernel's functions, by stepping through it.

The counts do not depend on the load of the machine. The drives do nothing (null_blk).
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from eval.bench.kernel import FOLDER as TOOLS
from eval.cache import ROOT
from linnapp.lab.guest import Guest, LabError
from linnapp.lab.uml import run

KERNELS = {
    "unpatched": ROOT / "build" / "linux-um-unpatched" / "linux",
    "patched": ROOT / "build" / "linux-um" / "linux",
}

#: One CPU submits the reads and completes them, so nothing waits.
NULL_BLK = ("queue_mode=2", "irqmode=0", "submit_queues=1")

#: Stepping makes a guest slow. After this number of seconds it counts as hung and is started again.
_TIMEOUT_S, _TRIES = 300, 4


def null_guest(kernel: Path, n_drives: int, setup: str, timeout_s: float) -> Guest:
    """Return a guest with drives that do nothing, ``/dev/nullb0`` and on."""
    return Guest(
        kernel=kernel,
        memory_mb=256,
        setup=setup,
        kernel_args=[f"null_blk.{each}" for each in (f"nr_devices={n_drives}", *NULL_BLK)],
        timeout_s=timeout_s,
    )


def _address(kernel: Path, symbol: str) -> str:
    table = subprocess.run(["nm", str(kernel)], check=True, capture_output=True, text=True)
    for line in table.stdout.splitlines():
        if line.endswith(f" {symbol}"):
            return line.split()[0]
    raise LabError(f"{kernel} has no function {symbol}")


def count_instructions(
    kernel: Path,
    function: str,
    command: Sequence[str],
    *,
    skipped: int,
    counted: int,
    setup: str = "",
    n_drives: int = 1,
) -> list[int]:
    """Return the instructions of each of some calls of a kernel's function.

    Parameters
    ----------
    command : sequence of str
        Runs in a guest with `n_drives` drives after the shell commands `setup`, and causes the
        calls.
    skipped, counted : int
        The number of calls to skip, and the number of calls to count after them.
    """
    with tempfile.TemporaryDirectory() as name:
        stepper, counts = Path(name) / "linux", Path(name) / "counts"
        stepper.write_text(
            f'#!/bin/sh\nexec "{TOOLS}/count_steps" {_address(kernel, function)} '
            f'{skipped} {counted} "{counts}" "{kernel}" "$@"\n'
        )
        stepper.chmod(0o755)
        for tries_left in reversed(range(_TRIES)):
            try:
                result = run(list(command), null_guest(stepper, n_drives, setup, _TIMEOUT_S))
            except LabError:
                if not tries_left:
                    raise
                continue
            found = [int(line) for line in counts.read_text().split()] if not result.status else []
            if len(found) == counted:
                return found
    raise LabError(
        f"{command[0]}: status {result.status}, {len(found)} calls counted, not {counted}; "
        f"{result.dmesg[-500:]}"
    )


def count_calls(setup: str, function: str, call: str, n_drives: int, asked: int = 1) -> int:
    """Return the median instructions of a function of the lab kernel in calls of ask_calls.

    Parameters
    ----------
    setup : str
        Shell commands that run first, in a guest with `n_drives` drives that do nothing.
    call : str
        The calls of ask_calls, about the first `asked` drives.
    """
    skipped, counted = 40, 101
    command = [str(TOOLS / "ask_calls"), call, str(2 * (skipped + counted))]
    command += [f"/dev/nullb{k}" for k in range(asked)]
    counts = count_instructions(
        KERNELS["patched"], function, command, skipped=skipped, counted=counted, setup=setup,
        n_drives=n_drives,
    )  # fmt: skip
    return round(statistics.median(counts))

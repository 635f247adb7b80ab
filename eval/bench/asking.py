# SPDX-License-Identifier: MIT
"""The part of `make bench` that shows what it costs to ask which drive should serve a read.

Twice: the kernel's code for it, compiled into a program, is measured beside a decision about a
hinted read, and beside all that reads and writes cost there; and in the lab kernel the
instructions of the whole system call are counted, from its entry to its return, beside those of a
hinted read and of getppid(), which does the least.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from eval.bench import MODEL, OUT
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build, latency_model
from eval.bench.kernel import run as run_program
from eval.bench.off_cost import COUNT_TIMEOUT_S, KERNELS, count_instructions, null_guest
from eval.work import write_json
from linnapp.lab.guest import LabError
from linnapp.lab.uml import run

#: What is counted: the system call, and what ask_calls is to do.
CALLS = {"getppid": "sys_getppid", "hinted": "sys_preadv2", "ask": "sys_ioctl"}
#: Calls that fill caches, or are another program's, and those that are counted.
SKIPPED, COUNTED = 40, 101


def _boot(kernel: Path, model: Path, call: str, n_drives: int) -> None:
    """Boot a guest with so many drives that observe, in which the call is made often enough."""
    drives = [f"nullb{k}" for k in range(n_drives)]
    setup = "".join(
        f"cat {model} >/sys/block/{drive}/linnos/model\n"
        f"echo observe >/sys/block/{drive}/linnos/mode\n"
        for drive in drives
    )
    guest = null_guest(kernel, n_drives, setup, COUNT_TIMEOUT_S)
    command = [str(TOOLS / "ask_calls"), call, str(2 * (SKIPPED + COUNTED))]
    result = run([*command, *(f"/dev/{drive}" for drive in drives)], guest)
    if result.status:
        raise LabError(f"ask_calls ended with status {result.status}; {result.dmesg[-500:]}")


def _instructions(model: Path, call: str, n_drives: int) -> int:
    kernel = KERNELS["patched"]
    counts = count_instructions(
        kernel, CALLS[call], SKIPPED, COUNTED, lambda stepper: _boot(stepper, model, call, n_drives)
    )
    return round(statistics.median(counts))


def ask() -> None:
    """Asking three drives which of them should serve a read, beside a hinted read."""
    build("guest-tools")
    models = {"latency": latency_model(), "network": MODEL}
    run_program("bench_policy", "--json", str(OUT / "ask.json"), *map(str, models.values()))
    counts = {}
    print("instructions of a system call:")
    for kind, model in models.items():
        for call, n_drives in (("getppid", 1), ("hinted", 1), ("ask", 1), ("ask", 3), ("ask", 8)):
            name = f"{kind}, {call}" + (f" of {n_drives}" if call == "ask" else "")
            counts[name] = _instructions(model, call, n_drives)
            print(f"  {name:24} {counts[name]:6}", flush=True)
    write_json(OUT / "ask_instructions.json", counts)

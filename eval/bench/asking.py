# SPDX-License-Identifier: MIT
"""The cost of asking which drive should serve a read.

It is measured twice. The kernel's code for it, compiled into a program, is compared with a decision
about a hinted read and with the whole path of reads and writes. In the lab kernel, the instructions
of the system call are counted from entry to return, and compared with those of a hinted read and of
getppid(), the cheapest call.
"""

from __future__ import annotations

from eval.bench import MODEL, OUT
from eval.bench.kernel import build, latency_model
from eval.bench.kernel import run as run_program
from eval.bench.off_cost import count_calls
from linnapp.lab.work import write_json

#: The counted function of each call of ask_calls.
CALLS = {"getppid": "sys_getppid", "hinted": "sys_preadv2", "ask": "sys_ioctl"}


def ask() -> None:
    """Asking three drives which of them should serve a read, compared with a hinted read."""
    build("guest-tools")
    models = {"latency": latency_model(), "network": MODEL}
    run_program("bench_policy", "--json", str(OUT / "ask.json"), *map(str, models.values()))
    counts = {}
    print("instructions of a system call:")
    for kind, model in models.items():
        for call, n_drives in (("getppid", 1), ("hinted", 1), ("ask", 1), ("ask", 3), ("ask", 8)):
            setup = "".join(
                f"cat {model} >/sys/block/nullb{k}/linnos/model\n"
                f"echo observe >/sys/block/nullb{k}/linnos/mode\n"
                for k in range(n_drives)
            )
            name = f"{kind}, {call}" + (f" of {n_drives}" if call == "ask" else "")
            counts[name] = count_calls(setup, CALLS[call], call, n_drives, n_drives)
            print(f"  {name:24} {counts[name]:6}", flush=True)
    write_json(OUT / "ask_instructions.json", counts)

# SPDX-License-Identifier: MIT
"""The cost of a hinted read, and of querying which drive should serve a read, in the lab kernel.

Times are measured in one guest without virtual time. Hinted reads of null_blk, a drive that does
nothing, run in one mode after the other, round after round, so that other load of the machine
affects all modes. System calls are timed by the processor's time stamp counter, inferences by the
kernel's own sample, one in 64. The sample includes one reading of the clock, which is subtracted:
it is the difference between a clock_gettime() that reads the hardware and one that does not. The
guest's clock has steps of 256 ns, so only means of many inferences are meaningful. The difference
to mode off is the cost of LinnOS. Instructions are counted one by one, in virtual time.
"""

from __future__ import annotations

import io
import shlex
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.bench import MODEL, OUT, compare, write
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build, latency_model
from eval.bench.kernel import run as run_program
from eval.bench.stepping import KERNELS, count_calls, null_guest
from linnapp.lab.guest import LabError
from linnapp.lab.uml import run

ROUNDS = 15
#: The number of reads that are submitted at once, and how often in a round. If there are eight, a
#: read finds the ones before it in flight.
BATCHES = {1: 2000, 8: 400}
#: The number of drives of a query, and how often it is made in a round.
ASKED, ASKS = (1, 3), 1000
N_DRIVES = max(ASKED)
#: Calls of clock_gettime() in a round.
CLOCK_CALLS = 2000
#: The counted function of each call of ask_calls; getppid() is the cheapest call.
CALLS = {"getppid": "sys_getppid", "hinted": "sys_preadv2", "ask": "sys_ioctl"}
_LINNOS = "/sys/block/{}/linnos"


@dataclass(frozen=True)
class Case:
    """A model and a mode of all drives."""

    #: The name that is printed.
    name: str
    #: The file of the model.
    model: Path
    #: The value of the drives' attribute `mode`.
    mode: str

    def setup(self) -> str:
        """Return shell commands."""
        return upload(self.model, self.mode, N_DRIVES)


def upload(model: Path, mode: str, n_drives: int) -> str:
    """Return shell commands that give some drives a model and a mode."""
    lines = []
    for k in range(n_drives):
        folder = _LINNOS.format(f"nullb{k}")
        lines += [
            f"echo off >{folder}/mode",
            f"cat {shlex.quote(str(model))} >{folder}/model",
            f"echo {mode} >{folder}/mode",
        ]
    return "".join(f"{line}\n" for line in lines)


def cases() -> list[Case]:
    """Return the cases: off, each kind of model, and models that refuse no read or all reads."""
    never = latency_model("never.linnos", refuse_us=2**31)
    always = latency_model("always.linnos", refuse_us=1)
    return [
        Case("off", never, "off"),
        Case("observe, network", MODEL, "observe"),
        Case("observe, trees", never, "observe"),
        Case("enforce, trees", never, "enforce"),
        Case("enforce, all refused", always, "enforce"),
    ]


def ask() -> None:
    """Query which of three drives should serve a read, compared with a hinted read."""
    build("guest-tools")
    models = {"latency": latency_model(), "network": MODEL}
    # The kernel's code for it, compiled into a program.
    run_program("bench_policy", "--json", str(OUT / "ask.json"), *map(str, models.values()))
    counts: dict[str, float] = {}
    for kind, model in models.items():
        for call, n_drives in (("getppid", 1), ("hinted", 1), ("ask", 1), ("ask", 3), ("ask", 8)):
            setup = upload(model, "observe", n_drives)
            name = f"{kind}, {call}" + (f" of {n_drives}" if call == "ask" else "")
            counts[name] = count_calls(setup, CALLS[call], call, n_drives, n_drives)
    print("instructions of a system call:")
    compare(counts, lambda case: f"{case.split(', ')[0]}, hinted")
    write("ask_instructions", counts)


def in_kernel() -> None:
    """Times and instructions of a hinted read, an inference and a query in the lab's kernel."""
    build("guest-tools")
    which = cases()
    write("in_kernel", {"times": measure(which), "instructions": count(which)})


def _script(which: Sequence[Case]) -> str:
    """Return a script that prints for each measurement name, ticks, inferences and their ns."""
    reads, asks = TOOLS / "null_reads", TOOLS / "ask_calls"
    stats = " ".join(f"{_LINNOS.format(f'nullb{k}')}/stats" for k in range(N_DRIVES))
    lines = [
        f"sum() {{ sum=0; for k in {stats}; do read -r n <$k/$1; sum=$((sum + n)); done; }}",
        "timed() { name=$1; shift; sum inferences; before=$sum; sum inference_ns; ns=$sum;"
        ' ticks=$("$@"); sum inferences; inferences=$((sum - before)); sum inference_ns;'
        " echo $name $ticks $inferences $((sum - ns)); }",
    ]
    for k in range(ROUNDS):
        # in reverse order every second time, so that a drift affects all cases alike
        for at, case in list(enumerate(which))[:: -1 if k % 2 else 1]:
            lines.append(case.setup())
            for size, n in BATCHES.items():
                lines.append(
                    f"timed {at}:read:{size} {reads} /dev/nullb0 --batches {n} {size} --hint"
                )
            for n in ASKED:
                drives = " ".join(f"/dev/nullb{drive}" for drive in range(n))
                lines.append(f"timed {at}:ask:{n} {asks} --ticks ask {ASKS} {drives}")
        lines.append(f"timed clock {asks} --ticks clock {CLOCK_CALLS} /dev/nullb0")
    return "\n".join(lines)


def measure(which: Sequence[Case]) -> dict[str, dict[str, list[float]]]:
    """Time all cases in one guest, and print the results.

    Returns
    -------
    dict
        Quartiles over the rounds, by case and call: ``more_ns`` than off, and ``inference_ns`` if
        there were inferences.
    """
    # The rate of the processor's time stamp counter.
    clock_rate = subprocess.run([TOOLS / "null_reads", "--ticks"], check=True, capture_output=True)
    rate = float(clock_rate.stdout)
    output = io.BytesIO()
    guest = null_guest(KERNELS["patched"], N_DRIVES, "", 600)
    guest.virtual_time = False
    result = run(["sh", "-ec", _script(which)], guest, stdout=output)
    if result.status:
        raise LabError(f"the measurement ended with status {result.status}; {result.dmesg[-500:]}")
    calls: dict[str, list[float]] = {}
    inferences: dict[str, list[float]] = {}
    for line in output.getvalue().decode().splitlines():
        name, *numbers = line.split()
        median, _, _, n, ns = map(float, numbers)
        calls.setdefault(name, []).append(median / rate)
        if n:
            inferences.setdefault(name, []).append(ns / n)
    clock_ns = statistics.median(calls["clock"])
    print(f"one reading of the clock: {clock_ns:.0f} ns")
    out = {"clock": {"ns": _quartiles(calls["clock"])}}
    for kind, sizes in (("read", tuple(BATCHES)), ("ask", ASKED)):
        for size in sizes:
            off = calls[f"0:{kind}:{size}"]
            for at, case in enumerate(which):
                name = f"{at}:{kind}:{size}"
                more = [a - b for a, b in zip(calls[name], off, strict=True)]
                row = {"ns": _quartiles(calls[name]), "more_ns": _quartiles(more)}
                if name in inferences:
                    row["inference_ns"] = _quartiles([ns - clock_ns for ns in inferences[name]])
                out[f"{kind} {size}, {case.name}"] = row
    for name, row in out.items():
        shown = (
            f"{what} {m:.0f} ({low:.0f} .. {high:.0f})" for what, (low, m, high) in row.items()
        )
        print(f"  {name:32} {', '.join(shown)}")
    return out


def _quartiles(values: Sequence[float]) -> list[float]:
    return statistics.quantiles(values, n=4, method="inclusive")


def count(which: Sequence[Case]) -> dict[str, dict[str, float]]:
    """Count the instructions of a hinted read and of our functions in it; print them."""
    functions = ("sys_preadv2", "blk_linnos_decide", "linnos_predict")
    out: dict[str, dict[str, float]] = {}
    for function in functions:
        print(f"instructions of {function}() in a hinted read")
        out[function] = {
            case.name: count_calls(case.setup(), function, "hinted", N_DRIVES)
            for case in which
            if case.mode != "off" or function == functions[0]
        }
        first = next(iter(out[function]))
        compare(out[function], lambda _, first=first: first)  # type: ignore[misc]
    return out

# SPDX-License-Identifier: MIT
"""The cost of a hinted read in the running lab kernel.

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.bench import MODEL, OUT
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build, latency_model
from eval.bench.off_cost import KERNELS, count_calls, null_guest, ticks_per_ns
from linnapp.lab.guest import LabError
from linnapp.lab.uml import run
from linnapp.lab.work import write_json

ROUNDS = 15
#: Reads at a time, and how many times in a round. Of eight, those before it are in flight.
BATCHES = {1: 2000, 8: 400}
#: Drives that are asked at once, and how many times in a round.
ASKED, ASKS = (1, 3), 1000
N_DRIVES = max(ASKED)
#: Calls of clock_gettime() in a round.
CLOCK_CALLS = 2000
_LINNOS = "/sys/block/{}/linnos"


@dataclass(frozen=True)
class Case:
    """A model and a mode of all drives."""

    #: As printed.
    name: str
    #: Its file.
    model: Path
    #: The value of `mode`.
    mode: str

    def setup(self) -> str:
        """Shell commands."""
        lines = []
        for k in range(N_DRIVES):
            folder = _LINNOS.format(f"nullb{k}")
            lines += [
                f"echo off >{folder}/mode",
                f"cat {shlex.quote(str(self.model))} >{folder}/model",
                f"echo {self.mode} >{folder}/mode",
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


def in_kernel() -> None:
    """A hinted read, an inference and a question in the lab's kernel: times, and instructions."""
    build("guest-tools")
    which = cases()
    results = {"times": measure(which), "instructions": count(which)}
    write_json(OUT / "in_kernel.json", results)


def _script(which: Sequence[Case]) -> str:
    """Return a script that prints for each measurement name, ticks, inferences and their ns."""
    reads, asks = TOOLS / "null_reads", TOOLS / "ask_calls"
    stats = " ".join(f"{_LINNOS.format(f'nullb{k}')}/stats" for k in range(N_DRIVES))
    lines = [
        f"sum() {{ sum=0; for k in {stats}; do read -r n <$k/$1; sum=$((sum + n)); done; }}",
        "timed() { name=$1; shift; sum inferences; of=$sum; sum inference_ns; ns=$sum;"
        ' ticks=$("$@"); sum inferences; of=$((sum - of)); sum inference_ns;'
        " echo $name $ticks $of $((sum - ns)); }",
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


def measure(which: Sequence[Case]) -> dict[str, dict[str, dict[str, float]]]:
    """Time all of it, in one guest, and print what it took.

    Returns
    -------
    dict
        By case and what was done, each with its quartiles over the rounds and the least: `ns` of a
        read or call, `more_ns` than off, and where there were any, `inference_ns`.
    """
    rate = ticks_per_ns()
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
    out = {"clock": {"read": _summary("ns", calls["clock"])}}
    clock_ns = out["clock"]["read"]["ns"]
    print(f"one reading of the clock: {clock_ns:.0f} ns")
    for kind, sizes in (("read", tuple(BATCHES)), ("ask", ASKED)):
        for size in sizes:
            units = "at a time" if kind == "read" else "drives"
            print(f"{kind}, {size} {units}: ns, more than off; an inference without the clock")
            print("    (in brackets, quartiles of the rounds)")
            off = calls[f"0:{kind}:{size}"]
            for at, case in enumerate(which):
                name = f"{at}:{kind}:{size}"
                more = [a - b for a, b in zip(calls[name], off, strict=True)]
                row = _summary("ns", calls[name]) | _summary("more_ns", more)
                text = f"  {case.name:22} {row['ns']:7.0f}{_text(row, 'more_ns')}"
                if name in inferences:
                    row |= _summary("inference_ns", [ns - clock_ns for ns in inferences[name]])
                    text += f"  {_text(row, 'inference_ns')}"
                print(text)
                out.setdefault(case.name, {})[f"{kind}_{size}"] = row
    return out


def _text(row: dict[str, float], name: str) -> str:
    return f" {row[name]:+6.0f} ({row[f'{name}_low']:.0f} .. {row[f'{name}_high']:.0f})"


def _summary(name: str, values: Sequence[float]) -> dict[str, float]:
    """The mean of the middle half of some values, that half's ends, and the least."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    middle = statistics.fmean(each for each in values if low <= each <= high)
    return {
        name: middle,
        f"{name}_low": low,
        f"{name}_high": high,
        f"{name}_least": min(values),
    }


def count(which: Sequence[Case]) -> dict[str, dict[str, int]]:
    """Count the instructions of a hinted read and of our functions in it; print them."""
    print("instructions: a hinted read, more than off, blk_linnos_decide(), linnos_predict()")
    out: dict[str, dict[str, int]] = {}
    for case in which:
        row = {"read": count_calls(case.setup(), "sys_preadv2", "hinted", N_DRIVES)}
        if case.mode != "off":
            row["decision"] = count_calls(case.setup(), "blk_linnos_decide", "hinted", N_DRIVES)
            row["inference"] = count_calls(case.setup(), "linnos_predict", "hinted", N_DRIVES)
        more = row["read"] - out.setdefault(which[0].name, row)["read"]
        rest = " ".join(f"{n:6}" for name, n in row.items() if name != "read")
        print(f"  {case.name:22} {row['read']:6} {more:+6} {rest}", flush=True)
        out[case.name] = row
    return out

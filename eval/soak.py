# SPDX-License-Identifier: MIT
"""Ten million reads while everything goes wrong at once.

`python -m eval.soak` replays random 4 KiB reads and replicated writes on an array
of three emulated drives under `linnos-hl`, as fast as the array answers. On every
drive a rule fails one read in `ERROR_EVERY` with a medium error, bursts of slow
reads wander through the array, and one drive fails for good in the middle of the
run. Afterwards the replayer's summary and its per-I/O log are held against the
traces and the emulator's own counts:

- wrong: no read attempt returned other content than was written there;
- lost: each I/O of the traces is in the log, and no read went unanswered;
- counted twice: none is in it more often than in the traces.

Leaves summary.json (the replayer's), check.json and dmesg in out/soak/, and exits
with 1 when something does not add up. The work is real: about half an hour on one
core for ten million reads.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.programs import REPLAYER
from linnapp.lab.array import CONFIGFS, Array
from linnapp.lab.command import guest_environment
from linnapp.lab.guest import REPOSITORY, Guest, LabError
from linnapp.lab.uml import DEFAULT_KERNEL, run
from linnapp.lab.work import write_json
from linnapp.trace import convert as iolog
from linnapp.trace import replay_log

N_DRIVES = 3
BLOCK = 4096
SIZE_MB = 192
READ_SHARE = 0.97
#: One read in this number fails on each drive.
ERROR_EVERY = 1009
#: 50 ms in every 300 ms, each drive in its turn.
BURSTS = "continuous:latency_us=2000,op=read,ratio=100%,slot_ms=50,every_ms=300,rotate"
HEDGE_US = 600
DEPTH = 48

Keys = NDArray[np.uint64]


class SoakError(RuntimeError):
    """The guest did not do its work."""


def write_traces(folder: Path, reads: int, seed: int) -> list[Path]:
    """Write one iolog a drive with the given number of reads in all, and some writes."""
    paths = []
    for drive in range(N_DRIVES):
        rng = np.random.default_rng([seed, drive])
        n_reads = (reads + drive) // N_DRIVES
        n = round(n_reads / READ_SHARE)
        is_read = np.zeros(n, bool)
        is_read[rng.permutation(n)[:n_reads]] = True
        block = rng.integers(0, (SIZE_MB << 20) // BLOCK, n)
        path = folder / f"t{drive}.iolog"
        at_once = np.zeros(n, np.int64)
        iolog.write_iolog(
            path,
            [iolog.Workload(at_once, block * BLOCK, np.full(n, BLOCK), ~is_read)],
            f"flash{drive}",
        )
        paths.append(path)
    return paths


def script(replayer: Path, traces: list[Path], models: Path, fails_after: int, out: Path) -> str:
    """Return the guest's commands; drive 2 fails after it has received `fails_after` I/Os."""
    lines = []
    for drive in range(N_DRIVES):
        rule = f"{CONFIGFS}/flash{drive}/rules/errors"
        lines += [
            f"linnapp upload --model {models}/flash{drive}.linnos --device /dev/flash{drive}"
            " --mode enforce",
            f"mkdir {rule}; echo read >{rule}/op; echo interval >{rule}/frequency",
            f"echo {ERROR_EVERY} >{rule}/n; echo medium_error >{rule}/fault",
            f"echo 1 >{rule}/enabled",
        ]
    dead = f"{CONFIGFS}/flash{N_DRIVES - 1}/rules/dead"
    lines += [
        f"mkdir {dead}; echo both >{dead}/op; echo all_after >{dead}/frequency",
        f"echo {fails_after} >{dead}/n; echo medium_error >{dead}/fault; echo 1 >{dead}/enabled",
        f"{replayer} --devices $LINNOS_DRIVES --trace {','.join(map(str, traces))}"
        f" --policy linnos-hl --hedge-us {HEDGE_US} --replicate-writes --prefill none"
        f" --unwritten zero --saturate --depth {DEPTH} --inject {BURSTS} --scenario soak"
        f" --json {out}/summary.json --log {out}/log --quiet || [ $? = 2 ]",
        f"for d in flash0 flash1 flash2; do for r in {CONFIGFS}/$d/rules/*; do"
        f" echo $d ${{r##*/}} $(cat $r/matched $r/injected); done; done >{out}/rules",
        f"for d in flash0 flash1 flash2; do"
        f" sed s/^/$d' '/ /sys/kernel/debug/flashsim/$d/counters; done >{out}/counters",
    ]
    return "\n".join(lines) + "\n"


def _keys(home: NDArray[Any], op: NDArray[Any], offset: NDArray[Any]) -> Keys:
    """Return one number for each I/O, from its default replica, direction and block."""
    key = (offset // BLOCK).astype(np.uint64) * np.uint64(2 * N_DRIVES)
    return key + home.astype(np.uint64) * np.uint64(2) + op.astype(np.uint64)


def trace_keys(traces: list[Path]) -> Keys:
    """The keys of all I/Os of the traces, sorted."""
    parts = []
    for drive, path in enumerate(traces):
        for chunk in iolog.read_iolog(path):
            home = np.full(len(chunk), drive)
            parts.append(_keys(home, chunk.is_write, chunk.offset_bytes))
    return np.sort(np.concatenate(parts))


def check(out: Path, traces: list[Path]) -> dict[str, Any]:
    """Hold summary, log, traces and the emulator's counts against each other."""
    summary = json.loads((out / "summary.json").read_text())
    log = replay_log.read(out / "log")
    keys = np.sort(_keys(log["home"], log["op"], log["offset_bytes"]))
    wanted = trace_keys(traces)
    values, logged = np.unique(keys, return_counts=True)
    wanted_values, wanted_counts = np.unique(wanted, return_counts=True)
    everything = np.union1d(values, wanted_values)
    difference = np.zeros(len(everything), np.int64)
    difference[np.searchsorted(everything, values)] += logged
    difference[np.searchsorted(everything, wanted_values)] -= wanted_counts
    is_read = log["op"] == replay_log.READ
    rules = [line.split() for line in (out / "rules").read_text().splitlines()]
    injected = {f"{drive} {rule}": int(n) for drive, rule, _, n in rules}
    # Both rules of the failed drive may name the same request; the drive counts it once.
    counters = [line.split() for line in (out / "counters").read_text().splitlines()]
    faulted = sum(int(n) for _, name, n in counters if name in ("faulted_reads", "faulted_writes"))
    served = np.bincount(log["served_by"][is_read], minlength=256)
    found = {
        "reads": int(is_read.sum()),
        "writes": int((~is_read).sum()),
        "wrong_reads": summary["data_errors"],
        "lost": int(-difference[difference < 0].sum()) + summary["unanswered"],
        "counted_twice": int(difference[difference > 0].sum()),
        "unanswered_reads": summary["reads_failed"],
        "failed_writes": summary["writes_failed"],
        "blocks_checked": summary["blocks_checked"],
        "unverified_blocks": summary["unverified_blocks"],
        "torn_blocks": summary["torn_blocks"],
        "revoked": summary["revoked"],
        "revocations": summary["revocations"],
        "hedged": summary["hedged"],
        "hedges_won": summary["hedges_won"],
        "extra_ios": summary["extra_ios"],
        "cancelled": summary["cancelled"],
        "io_errors": summary["io_errors"],
        "failovers_on_error": summary["failovers_on_error"],
        "injected_errors": injected,
        "requests_failed_by_drives": faulted,
        "reads_served_by": served[:N_DRIVES].tolist(),
        "elapsed_virtual_s": summary["elapsed_s"],
    }
    same = {
        "reads": (found["reads"], summary["reads"]),
        "writes": (found["writes"], summary["writes"]),
        "revoked": (int((log["revocations"] > 0).sum()), summary["revoked"]),
        "hedged": (int((log["flags"] & replay_log.HEDGED > 0).sum()), summary["hedged"]),
        "reads_served_by": (found["reads_served_by"], summary["reads_served_by"]),
        "io_errors": (summary["io_errors"], faulted),
    }
    problems = [
        f"{name}: {a} in one place, {b} in another" for name, (a, b) in same.items() if a != b
    ]
    problems += [
        f"{name}: {found[name]}, not 0"
        for name in ("wrong_reads", "lost", "counted_twice", "unanswered_reads", "failed_writes")
        if found[name]
    ]
    # A run in which nothing went wrong would prove nothing.
    problems += [
        f"{name}: none happened"
        for name in ("revoked", "hedges_won", "io_errors", "failovers_on_error")
        if not found[name]
    ]
    problems += [f"{rule}: it hit nothing" for rule, n in injected.items() if not n]
    return {**found, "problems": problems}


def soak(
    out: Path, reads: int, seed: int, kernel: Path, replayer: Path, models: Path
) -> dict[str, Any]:
    """Run it all; what `check` returns."""
    out.mkdir(parents=True, exist_ok=True)
    traces = write_traces(out, reads, seed)
    array = Array(N_DRIVES, "enterprise", SIZE_MB, seed)
    sink = io.BytesIO()
    guest = Guest(
        kernel=kernel,
        out_dir=out,
        setup=array.setup_script(),
        environment=guest_environment(array, out),
    )
    # The failing drive is the default replica of a third of the reads. Many of these are revoked
    # under this load, depending on the model; a quarter of the third is well before the end.
    commands = script(replayer, traces, models, reads // (4 * N_DRIVES), out)
    result = run(["sh", "-ec", commands], guest, stdout=sink, stderr=sink)
    (out / "dmesg").write_text(result.dmesg)
    (out / "output").write_bytes(sink.getvalue())
    if result.status:
        raise SoakError(f"status {result.status} in the guest:\n{sink.getvalue().decode()}")
    found = check(out, traces)
    write_json(out / "check.json", found)
    for path in [*traces, out / "log"]:
        path.unlink()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m eval.soak", description=__doc__)
    parser.add_argument("--reads", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/soak"))
    parser.add_argument("--kernel", type=Path, default=DEFAULT_KERNEL)
    parser.add_argument("--replayer", type=Path, default=REPLAYER)
    parser.add_argument("--models", type=Path, default=REPOSITORY / "models" / "example")
    options = parser.parse_args()
    try:
        found = soak(
            options.out.resolve(),
            options.reads,
            options.seed,
            options.kernel,
            options.replayer.resolve(),
            options.models.resolve(),
        )
    except (SoakError, LabError) as error:
        print(f"soak: {error}", file=sys.stderr)
        return 1
    print(json.dumps(found, indent=1))
    return bool(found["problems"])


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT
"""Measure in the guest in which functions hinted reads spend their time.

functions_of_reads.py NULL_READS NETWORK TREES DRIVE... prints a line of JSON for each drive, model
and mode: `layers --functions` of the reads, and their time without tracing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from linnapp.insight.function_recording import FunctionRecording, prepared

READS = 400
#: In mode off the kernel queries no model.
CASES = (
    ("none", "off"),
    *((model, mode) for model in ("network", "trees") for mode in ("observe", "enforce")),
)


def untraced_ns(program: str, drive: str, *options: str) -> float:
    """Return the median time of reads, each submitted and waited for."""
    command = [program, f"/dev/{drive}", "--batches", str(READS), "1", *options]
    ticks = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0]
    rate = subprocess.run([program, "--ticks"], check=True, capture_output=True, text=True).stdout
    return float(ticks) / float(rate)


def set_up(drive: str, model: str, mode: str, file: str) -> Path:
    """Set the drive's model and mode; return its folder."""
    linnos = Path("/sys/block", drive, "linnos")
    (linnos / "mode").write_text("off")
    if model != "none":
        (linnos / "model").write_bytes(Path(file).read_bytes())
    (linnos / "mode").write_text(mode)
    return linnos


def trace_case(
    recording: FunctionRecording, program: str, drive: str, model: str, mode: str, file: str
) -> dict[str, object]:
    """Trace reads of a drive."""
    linnos = set_up(drive, model, mode, file)

    def counts() -> dict[str, int]:
        names = ("latency_critical", "inferences", "revoked", "probes")
        return {name: int((linnos / "stats" / name).read_text()) for name in names}

    before = counts()
    times, status = recording.record([program, f"/dev/{drive}", "--plain", str(READS), "--hint"])
    (call,) = (call for call in times.calls if call.name == "preadv2")
    return {
        "drive": drive,
        "model": model,
        "mode": mode,
        "status": status,
        "lost": times.missed,
        **{name: count - before[name] for name, count in counts().items()},
        **call.to_json(recording.overhead),
    }


def main() -> None:
    program, network, trees, *drives = sys.argv[1:]
    files = {"none": "", "network": network, "trees": trees}
    cases = [(drive, model, mode) for drive in drives for model, mode in CASES]
    # A policy that was on stays on the drive's queue. "off" means switched off again, here and
    # later.
    for drive in drives:
        set_up(drive, "none", "observe", "")
    # An active tracer slows its functions, even those that it does not trace.
    untraced = []
    for drive, model, mode in cases:
        set_up(drive, model, mode, files[model])
        plain_ns, hinted_ns = (untraced_ns(program, drive, *hint) for hint in ((), ("--hint",)))
        untraced.append({"plain_ns": plain_ns, "hinted_ns": hinted_ns})
    with prepared() as recording:
        for (drive, model, mode), times in zip(cases, untraced, strict=True):
            case = trace_case(recording, program, drive, model, mode, files[model])
            print(json.dumps(case | times | {"overhead_ns": recording.overhead.function_ns}))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Traces as background load: those that a user names, or else those in traces/recorded.

As in `make eval-traces`, a trace is one volume on all drives, and is sped up to the demo's rate if
it was slower. Models learn from its first half; its second half runs during the measurement.
"""

from __future__ import annotations

import re
from pathlib import Path

from eval import demo, trace_files
from linnapp.lab.host import linnapp
from linnapp.lab.work import StepError


def files() -> dict[str, Path]:
    """Return all traces by the names of their situations: "MSR 1370" is msr-1370."""
    found: dict[str, Path] = {}
    for file, path in trace_files.files(trace_files.GIVEN_OR_RECORDED).items():
        name = re.sub(r"[^\w.]+", "-", trace_files.called(file)).lower()
        if name in found:
            raise StepError(f"{path}: another trace is {name}, too: {found[name]}")
        found[name] = path
    return found


def written(
    trace: Path, folder: Path, half: int, lasts_s: float, least_s: float, size: int
) -> Path:
    """Write half 0 or 1 of a trace, for a volume of `size` bytes.

    It is cut to `lasts_s`. If half of the trace is shorter than `least_s`, it is slowed down.
    """
    given = demo.inspected(trace)
    demo.check_times(trace, given)
    half_s = given["duration_s"] / 2
    rerate = min(max(1.0, demo.TARGET_IOPS / given["iops_mean"]), half_s / least_s)
    begins_s = half * half_s
    ends_s = begins_s + min(half_s, lasts_s * rerate)
    volume = folder / "volume.iolog"
    folder.mkdir(parents=True, exist_ok=True)
    linnapp(
        "convert", str(trace), str(volume), "--slice", f"{begins_s}:{ends_s}",
        "--rerate", str(rerate), "--fit", str(size),
    )  # fmt: skip
    return volume

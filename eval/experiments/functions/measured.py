# SPDX-License-Identifier: MIT
"""The reads and writes, in a guest for each file system whose time is its instructions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from eval import debian_kernel
from eval.cache import ROOT
from eval.experiment import Context
from eval.work import StepError, tail
from linnapp.lab.guest import LabError
from linnapp.lab.qemu import run as run_in_guest

GUEST = Path(__file__).parent / "guest"

PARAMETERS: dict[str, Any] = {
    "file_systems": ["ext4", "xfs"],
    # bytes a call: how many calls
    "calls": {"4096": 256, "65536": 128, "1048576": 16, "10485760": 4, "104857600": 2},
    "drive_mb": 2048,
    "memory_mb": 1536,
    # of the program's memory: 4 KiB as in the poster, or 2 MiB where they fit, as Debian has it
    "huge_pages": [False, True],
    # of each: what differs between them is chance
    "boots": 2,
}


def run(context: Context) -> dict[str, Any]:
    """Boot a guest for each file system and size of pages, twice."""
    try:
        kernel = debian_kernel.image()
    except LabError as error:
        raise StepError(str(error)) from error
    program = context.folder / "direct_io"
    compiler = ["gcc", "-O2", "-static", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, "-o", program, GUEST / "direct_io.c"], check=True)
    boots = [
        (system, huge_pages, boot)
        for system in PARAMETERS["file_systems"]
        for huge_pages in PARAMETERS["huge_pages"]
        for boot in range(PARAMETERS["boots"])
    ]
    points = context.map(
        lambda each: _points(kernel, program, *each, context.folder), boots, "guests"
    )
    return {
        "kernel": debian_kernel.release(kernel),
        "points": [
            {"file_system": system, "huge_pages": huge_pages, "boot": boot, **point}
            for (system, huge_pages, boot), found in zip(boots, points, strict=True)
            for point in found
        ],
    }


def _points(
    kernel: Path, program: Path, system: str, huge_pages: bool, boot: int, folder: Path
) -> list[dict[str, Any]]:
    """What one guest has found."""
    guest = debian_kernel.counting_guest(
        kernel,
        memory_mb=PARAMETERS["memory_mb"],
        n_drives=1,
        drive_mb=PARAMETERS["drive_mb"],
        kernel_args=[f"transparent_hugepage={'always' if huge_pages else 'never'}"],
        environment={
            "PATH": os.pathsep.join(
                [str(Path(sys.executable).parent), "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            ),
            "PYTHONPATH": str(ROOT),
        },
    )
    sizes = [f"{size}:{calls}" for size, calls in PARAMETERS["calls"].items()]
    script = str(GUEST / "functions.py")
    name = f"{system}-{'huge' if huge_pages else 'small'}-{boot}"
    out, log = folder / name / "points.jsonl", folder / f"{name}.log"
    guest.out_dir = out.parent
    command = ["python3", script, str(out), str(program), guest.devices[0], system, *sizes]
    try:
        with log.open("wb") as stream:
            result = run_in_guest(command, guest, stdout=stream, stderr=stream)
    except LabError as error:
        raise StepError(f"{system}: {error}") from error
    if result.status:
        raise StepError(f"{system}: status {result.status}; {log} ends in\n{tail(log)}")
    return [_point(json.loads(line)) for line in out.read_text().splitlines()]


def _point(said: dict[str, Any]) -> dict[str, Any]:
    """Of what `linnapp layers --functions` says what is kept."""
    calls = said["calls"]
    groups = {name: group for name, group in said["groups"].items() if name != "wait"}
    software_us = sum(group["us"] for group in groups.values())
    recorded_us = sum(group["measured_us"] for group in groups.values())
    return {
        **{name: said[name] for name in ("operation", "allocated", "bytes", "calls")},
        "software_us": software_us / calls,
        "asleep_us": said["groups"].get("wait", {"us": 0.0})["us"] / calls,
        "tracing_share": 1 - software_us / recorded_us,
        "overhead_ns": said["overhead_ns"],
        "groups": {
            name: {
                "share": group["us"] / software_us,
                "recorded_share": group["measured_us"] / recorded_us,
                "us": group["us"] / calls,
                "functions": group["calls"] / calls,
            }
            for name, group in groups.items()
        },
    }

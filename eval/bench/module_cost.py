# SPDX-License-Identifier: MIT
"""The part of `make bench` that shows what linnos.ko costs an I/O on an unpatched kernel."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from eval import debian_kernel
from eval.bench import MODEL, BenchError
from eval.bench.instructions import Case, count, report
from eval.bench.kernel import latency_model
from eval.cache import ROOT

_FILES = "/sys/kernel/linnos"


def _cases(module: Path, trees: Path) -> tuple[Case, ...]:
    """What the module does with the drive that is read; each goes on from the one above."""
    return (
        Case("not loaded"),
        Case("loaded, no drive named", f"insmod {shlex.quote(str(module))}"),
        Case("another drive observed", f"echo nullb1 >{_FILES}/add; {_observe('nullb1')}"),
        Case("named, off", f"echo nullb0 >{_FILES}/add"),
        Case("observed, network", f"{_upload(MODEL)}; {_observe('nullb0')}"),
        Case("observed, trees", _upload(trees)),
        Case("off again", f"echo off >{_FILES}/nullb0/mode"),
        Case("unloaded", "rmmod linnos"),
    )


def _observe(disk: str) -> str:
    return f"echo observe >{_FILES}/{disk}/mode"


def _upload(model: Path) -> str:
    return f"cat {shlex.quote(str(model))} >{_FILES}/nullb0/model"


def module_cost() -> None:
    """Instructions of a read and a write with linnos.ko, beside without, on Debian's kernel."""
    release = debian_kernel.release(debian_kernel.image())
    built = ROOT / "build" / "module" / release
    script = str(ROOT / "kernel" / "module" / "build.sh")
    command = [script, "--kernel", release, "--out", str(built)]
    if subprocess.run(command, check=False).returncode:
        raise BenchError(f"linnos.ko could not be built for {release}")
    cases = _cases(built / "linnos.ko", latency_model())
    report(
        "module_cost",
        count(cases, 2),
        cases[0].name,
        "without the module",
        lambda n, without: f"{n - without:+6.0f}",
    )

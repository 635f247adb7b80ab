# SPDX-License-Identifier: MIT
"""The cost of linnos.ko, and of a raid1.ko that queries it, for an I/O on an unpatched kernel."""

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
_OURS = ("linnos.ko", "raid/raid1.ko")


def _cases(module: Path, trees: Path) -> tuple[Case, ...]:
    """Return the states of the module; each continues from the previous one."""
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


def _raid_cases(built: Path) -> tuple[Case, ...]:
    """Return the states of md raid1 of three drives, by the kernel's own module and by ours."""
    drives = [f"nullb{k}" for k in range(3)]
    never = latency_model("never.linnos", refuse_us=2**31)
    make = "mdadm -q --build /dev/md0 --level=1 --raid-devices=3 --assume-clean " + " ".join(
        f"/dev/{drive}" for drive in drives
    )
    load = "; ".join(f"insmod {shlex.quote(str(built / name))}" for name in _OURS)
    named = "; ".join(f"echo {drive} >{_FILES}/add" for drive in drives)
    upload = "; ".join(_upload(never, drive) for drive in drives)
    observed = "; ".join(_observe(drive) for drive in drives)
    array = "/sys/block/md0/md/linnos"
    until_it_asks = "null_reads /dev/md0 --batches 4001 1 >/dev/null"
    return (
        Case("a drive, no mirror"),
        Case("stock raid1", make, "mdadm -q --stop /dev/md0; rmmod raid1", "/dev/md0"),
        Case("ours, no drive named", f"{load}; {make}", device="/dev/md0"),
        Case("observed, trees", f"{named}; {upload}; {observed}", device="/dev/md0"),
        # In its first slice, of 17 ms, an array never queries.
        Case("on", f"echo on >{array}; {until_it_asks}", device="/dev/md0"),
        Case("unguarded", f"echo unguarded >{array}", device="/dev/md0"),
        Case("off again", f"echo off >{array}", device="/dev/md0"),
    )


def _observe(disk: str) -> str:
    return f"echo observe >{_FILES}/{disk}/mode"


def _upload(model: Path, disk: str = "nullb0") -> str:
    return f"cat {shlex.quote(str(model))} >{_FILES}/{disk}/model"


def module_cost() -> None:
    """Instructions of a read and a write with and without our modules on Debian's kernel."""
    kernel = debian_kernel.image()
    release = debian_kernel.release(kernel)
    built = ROOT / "build" / "module" / release
    stock = debian_kernel.FOLDER / "lib" / "modules" / release
    script = str(ROOT / "kernel" / "module" / "build.sh")
    command = [script, "--kernel", release, "--raid", "--stock", str(stock), "--out", str(built)]
    if subprocess.run(command, check=False).returncode:
        raise BenchError(f"the modules could not be built for {release}")

    def difference(n: float, without: float) -> str:
        return f"{n - without:+6.0f}"

    cases = _cases(built / "linnos.ko", latency_model())
    report(
        "module_cost", count(cases, 2), cases[0].name, "the kernel without the module", difference
    )
    cases = _raid_cases(built)
    counts = count(cases, 3, modules=("raid1",))
    report("raid_module_cost", counts, cases[1].name, "the kernel's own raid1", difference)

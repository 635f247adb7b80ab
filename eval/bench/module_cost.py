# SPDX-License-Identifier: MIT
"""The cost of linnos.ko, and of a raid1.ko that queries it, for an I/O on an unpatched kernel."""

from __future__ import annotations

import shlex
from pathlib import Path

from eval import debian_kernel
from eval.bench import MODEL
from eval.bench.instructions import Case, built_modules, count
from eval.bench.kernel import latency_model

_FILES = "/sys/kernel/linnos"


def _load(built: Path, *names: str) -> str:
    return "; ".join(f"insmod {shlex.quote(str(built / name))}" for name in names)


def _observe(disk: str) -> str:
    return f"echo observe >{_FILES}/{disk}/mode"


def _upload(model: Path, disk: str = "nullb0") -> str:
    return f"cat {shlex.quote(str(model))} >{_FILES}/{disk}/model"


def module_cost() -> None:
    """Instructions of a read and a write with and without our modules on Debian's kernel."""
    stock = debian_kernel.FOLDER / "lib" / "modules" / debian_kernel.release()
    built = built_modules("--raid", "--stock", str(stock))
    # The states of the module; each continues from the previous one.
    drive = (
        Case("the kernel without the module"),
        Case("loaded, no drive named", _load(built, "linnos.ko")),
        Case("another drive observed", f"echo nullb1 >{_FILES}/add; {_observe('nullb1')}"),
        Case("named, off", f"echo nullb0 >{_FILES}/add"),
        Case("observed, network", f"{_upload(MODEL)}; {_observe('nullb0')}"),
        Case("observed, trees", _upload(latency_model())),
        Case("off again", f"echo off >{_FILES}/nullb0/mode"),
        Case("unloaded", "rmmod linnos"),
    )
    count("module_cost", drive, 2)

    # md raid1 of three drives, by the kernel's own module and by ours.
    drives = [f"nullb{k}" for k in range(3)]
    never = latency_model("never.linnos", refuse_us=2**31)
    make = "mdadm -q --build /dev/md0 --level=1 --raid-devices=3 --assume-clean " + " ".join(
        f"/dev/{drive}" for drive in drives
    )
    ours = _load(built, "linnos.ko", "raid/raid1.ko")
    observed = "; ".join(
        f"echo {drive} >{_FILES}/add; {_upload(never, drive)}; {_observe(drive)}"
        for drive in drives
    )
    array = "/sys/block/md0/md/linnos"
    # The first reads after the change are not counted.
    until_it_asks = "null_reads /dev/md0 --batches 4001 1 >/dev/null"
    mirrors = [Case("a drive, no mirror")] + [
        Case(name, begin, end, "/dev/md0")
        for name, begin, end in (
            ("the kernel's own raid1", make, "mdadm -q --stop /dev/md0; rmmod raid1"),
            ("ours, no drive named", f"{ours}; {make}", ":"),
            ("observed, trees", observed, ":"),
            ("on", f"echo on >{array}; {until_it_asks}", ":"),
            ("unguarded", f"echo unguarded >{array}", ":"),
            ("off again", f"echo off >{array}", ":"),
        )
    ]
    count("raid_module_cost", mirrors, 3, reference=1, modules=("raid1",))

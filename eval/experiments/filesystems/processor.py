# SPDX-License-Identifier: MIT
"""The processor time of each operation, which takes none in the lab.

In the lab's virtual time code costs nothing, so that an operation without I/O takes none. Here the
same mixes run on Debian's own kernel in a guest that counts instructions
(:mod:`eval.debian_kernel`), on a drive that does nothing. The time of an operation there is its
processor time, which is added to the time that it waits for the drive in the lab. One instruction
counts as one nanosecond. The sum assumes that no operation waits for a processor, and that the
processor does nothing for an operation while the drive works.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np

from eval import debian_kernel
from eval.cache import Cache, code_version
from eval.experiments.filesystems.design import DIRECT, MIXES, SYSTEMS
from eval.experiments.filesystems.guest.mixes import KINDS
from linnapp.lab.guest import LabError
from linnapp.lab.qemu import run
from linnapp.lab.work import StepError, tail, write_json

_HERE = Path(__file__).parent / "guest"

#: One thread, so that no operation waits for another one's processor time.
THREADS, FILES, LOOPS, REST_US, SEED = 1, 40, 60, 1, 1

#: The drive keeps in memory what is written to it.
_MEMORY_MB = 3072

_PREPARE = """\
modprobe -d {modules} -a {systems}
mkdir -p /run/mnt
"""

_ONE = """\
modprobe -d {modules} null_blk queue_mode=2 irqmode=0 submit_queues=1 memory_backed=1 gb=1 \
    nr_devices=1 bs=4096
mkfs.{system} -q /dev/nullb0 >/dev/null 2>&1
mount -t {system} /dev/nullb0 /run/mnt
python3 -I {mixes} {mix} {cache} {numbers} /run/mnt - $OUT/{system}-{mix}
umount /run/mnt
modprobe -r -d {modules} null_blk
"""


def instructions(cache: Cache) -> dict[str, dict[str, float]]:
    """Return the mean processor time of each kind of operation in us, by "SYSTEM MIX"."""
    recipe = code_version(
        *(f"eval/experiments/filesystems/{name}" for name in ("processor.py", "guest/mixes.py"))
    )
    try:
        release = debian_kernel.release(debian_kernel.image())
    except LabError as error:
        raise StepError(str(error)) from error
    folder = cache.get(
        "filesystem-instructions", {"kernel": release, "recipe": recipe},
        lambda folder: write_json(folder / "us.json", count(folder)),
    )  # fmt: skip
    found: dict[str, dict[str, float]] = json.loads((folder / "us.json").read_text())
    return found


def count(folder: Path) -> dict[str, dict[str, float]]:
    """Run all mixes on all file systems in one guest."""
    modules = shlex.quote(str(debian_kernel.FOLDER))
    numbers = " ".join(map(str, (THREADS, FILES, LOOPS, REST_US, SEED)))
    lines = ["set -e", _PREPARE.format(modules=modules, systems=" ".join(SYSTEMS))]
    lines += [
        _ONE.format(
            modules=modules, system=system, mix=mix.name, cache=DIRECT,
            mixes=_HERE / "mixes.py", numbers=numbers,
        )
        for system in SYSTEMS
        for mix in MIXES
    ]  # fmt: skip
    path = [str(Path(sys.executable).parent), "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    guest = debian_kernel.counting_guest(
        debian_kernel.image(), memory_mb=_MEMORY_MB, n_drives=0, timeout_s=1800,
        environment={"PATH": os.pathsep.join(path), "OUT": str(folder)},
    )  # fmt: skip
    guest.out_dir = folder
    log = folder / "guest.log"
    try:
        with log.open("wb") as stream:
            result = run(["sh", "-ec", "\n".join(lines)], guest, stdout=stream, stderr=stream)
    except LabError as error:
        raise StepError(f"counting instructions: {error}") from error
    if result.status:
        raise StepError(f"counting instructions: status {result.status}; {log}:\n{tail(log)}")
    return {
        f"{system} {mix.name}": us_of_kinds(folder / f"{system}-{mix.name}")
        for system in SYSTEMS
        for mix in MIXES
    }


def us_of_kinds(report: Path) -> dict[str, float]:
    """Return the mean time of each kind of operation, less that of a call that does nothing."""
    kind, _, took_ns = np.fromfile(report, np.int64).reshape(-1, 3).T
    empty_ns = took_ns[kind == KINDS.index("nothing")].mean()
    means: dict[str, Any] = {
        name: max(0.0, (took_ns[kind == k].mean() - empty_ns) / 1000)
        for k, name in enumerate(KINDS)
        if name != "nothing" and (kind == k).any()
    }
    return {name: float(mean) for name, mean in means.items()}

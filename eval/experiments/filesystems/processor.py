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

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from eval import debian_kernel
from eval.cache import Cache, code_version
from eval.experiments.filesystems.design import DIRECT, MIXES, SYSTEMS
from eval.experiments.filesystems.guest.mixes import KINDS

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
    made_from = {"kernel": debian_kernel.release(), "recipe": recipe}
    found: dict[str, dict[str, float]] = cache.value("filesystem-instructions", made_from, count)
    return found


def count(folder: Path) -> dict[str, dict[str, float]]:
    """Run all mixes on all file systems in one guest."""
    modules = shlex.quote(str(debian_kernel.FOLDER))
    numbers = " ".join(map(str, (THREADS, FILES, LOOPS, REST_US, SEED)))
    lines = [_PREPARE.format(modules=modules, systems=" ".join(SYSTEMS))]
    lines += [
        _ONE.format(
            modules=modules, system=system, mix=mix.name, cache=DIRECT,
            mixes=_HERE / "mixes.py", numbers=numbers,
        )
        for system in SYSTEMS
        for mix in MIXES
    ]  # fmt: skip
    debian_kernel.run_counting_instructions(
        "\n".join(lines), memory_mb=_MEMORY_MB, out_dir=folder,
        environment={"PATH": debian_kernel.PATH, "OUT": str(folder)},
    )  # fmt: skip
    return {
        f"{system} {mix.name}": us_of_kinds(folder / f"{system}-{mix.name}")
        for system in SYSTEMS
        for mix in MIXES
    }


def us_of_kinds(report: Path) -> dict[str, float]:
    """Return the mean time of each kind of operation, less that of a call that does nothing."""
    kind, _, latency_ns = np.fromfile(report, np.int64).reshape(-1, 3).T
    empty_ns = latency_ns[kind == KINDS.index("nothing")].mean()
    means: dict[str, Any] = {
        name: max(0.0, (latency_ns[kind == k].mean() - empty_ns) / 1000)
        for k, name in enumerate(KINDS)
        if name != "nothing" and (kind == k).any()
    }
    return {name: float(mean) for name, mean in means.items()}

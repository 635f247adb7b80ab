# SPDX-License-Identifier: MIT
"""Run a mix on a file system in the lab: one guest, and a new drive for every slowness."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eval.cache import Cache, code_version
from eval.experiments.filesystems import commits, reports
from eval.experiments.filesystems.design import (
    EVERYWHERE,
    NONE,
    PERIOD_IOS,
    PROFILE,
    Case,
    Slowness,
)
from linnapp.lab import guests
from linnapp.lab.array import WAIT_FOR_FULL_SECOND, Array

#: The folder of the scripts in the guest.
SCRIPTS = "/run/linnos/linnapp/eval/experiments/filesystems/guest"

#: Memory of the guest. The mixes write the same byte repeatedly, and the drive stores such blocks
#: in little memory.
MEMORY_MB = 1536

_SOURCES = (
    "lab.py", "reports.py", "guest/filesystems.sh", "guest/mixes.py", "guest/region.py",
)  # fmt: skip


def run_case(cache: Cache, case: Case, seed: int) -> list[dict[str, Any]]:
    """Run a case unless it is in the cache: first without slowness, then once for each.

    A run has the fields of :func:`reports.read_operations`, the counters of the ``drive``, and
    ``steps`` if the case measures them.
    """
    sources = (*_SOURCES, "commits.py") if case.steps else _SOURCES
    recipe = code_version(*(f"eval/experiments/filesystems/{name}" for name in sources))
    made_from = {**asdict(case), "seed": seed, "period_ios": PERIOD_IOS, "recipe": recipe}
    runs: list[dict[str, Any]] = cache.value(
        "filesystem", made_from, lambda folder: run_once(case, seed, folder)
    )
    return runs


def run_once(case: Case, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Run a case now; drive and mix take their random numbers from the seed."""
    places = guests.places_of(folder)
    array = Array(
        n_drives=1, profile=PROFILE, size_mb=case.drive.size_mb, seed=seed, precondition=False,
        parameters=dict(case.drive.parameters),
    )  # fmt: skip
    every = (NONE, *case.slownesses)
    script = [f"set -e\n. {SCRIPTS}/filesystems.sh\nperiods"]
    script += [_one(case, slowness, seed, f"$LINNOS_OUT/{i}") for i, slowness in enumerate(every)]
    guests.run_in_guest(
        ["sh", "-ec", "\n".join(script)], places, folder / "log.txt", array=array,
        memory_mb=MEMORY_MB,
    )  # fmt: skip
    found = []
    for i, _ in enumerate(every):
        run = reports.read_operations(folder / f"{i}.ops", case.mix.threads)
        run["drive"] = reports.counters(folder / f"{i}.ops.before", folder / f"{i}.ops.after")
        if case.steps:
            first, length = map(int, (folder / f"{i}.region").read_text().split())
            run["steps"] = commits.read_commit_steps(folder / f"{i}.trace", first, length)
            (folder / f"{i}.trace").unlink()
        (folder / f"{i}.ops").unlink()
        found.append(run)
    return found


def _one(case: Case, slowness: Slowness, seed: int, to: str) -> str:
    """Return the shell commands of one run; the names of its files begin with `to`."""
    system, mix = case.configuration.file_system, case.mix
    find = f"python3 -I {SCRIPTS}/region.py {system} $device"
    region = "0 0" if slowness.where == EVERYWHERE else "$region"
    operations = shlex.join(
        map(str, (mix.name, case.cache, mix.threads, mix.files, mix.loops, mix.rest_us, seed))
    )
    return (
        f"drive_new {case.drive.aged}\n"
        f"fs_new {system} {shlex.quote(case.configuration.mkfs)}\n"
        + (f"region=$({find})\necho $region >{to}.region\n"
           if case.steps or slowness.where != EVERYWHERE else "")
        + f"fs_up {system} {shlex.quote(case.configuration.mount)} {case.configuration.tune}\n"
        f'slow {slowness.pattern} {slowness.ratio_percent} {slowness.added_us} {PERIOD_IOS} '
        f'"{region}" {slowness.occupy:d}\n'
        + WAIT_FOR_FULL_SECOND
        + ("watch_on\n" if case.steps else "")
        + f"python3 -I {SCRIPTS}/mixes.py {operations} $files ${{device##*/}} {to}.ops\n"
        + (f"watch_off {to}.trace\n" if case.steps else "")
        + "umount $files"
    )  # fmt: skip

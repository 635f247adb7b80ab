# SPDX-License-Identifier: MIT
"""A drive that stores wrong data: what comes back of it through a file system and its mirrors."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eval import guests
from eval.cache import Cache, code_version
from eval.experiments.filesystems.design import PROFILE, STEADY, SYSTEMS
from eval.experiments.filesystems.lab import SCRIPTS
from eval.files import write_json
from linnapp.lab.array import Array

#: flashsim's faults; all are in what the first drive stores, and success is reported.
FAULTS = ("bit_flip", "zeros", "lost_write")

#: One drive; md's raid1 of two; btrfs' own.
KINDS = ("one", "md", "btrfs")

#: Every so many-th block that is written, data or the file system's own.
EVERY = 40
FILES, BLOCKS = 100, 32

SIZE_MB = 1024
MEMORY_MB = 1024

PARAMETERS = {"faults": FAULTS, "every": EVERY, "files": FILES, "blocks": BLOCKS}


@dataclass(frozen=True)
class Wrong:
    """One fault on one arrangement.

    Attributes
    ----------
    file_system : str
    kind : str
        Of ``KINDS``.
    fault : str
        Of ``FAULTS``.
    """

    file_system: str
    kind: str
    fault: str

    @property
    def title(self) -> str:
        """The file system and what it is on."""
        return {
            "one": self.file_system, "md": f"{self.file_system} on md raid1",
            "btrfs": "btrfs raid1",
        }[self.kind]  # fmt: skip


def plan(systems: tuple[str, ...] = SYSTEMS) -> list[Wrong]:
    """All arrangements under all faults."""
    return [
        Wrong(system, kind, fault)
        for kind in KINDS
        for system in systems
        if kind != "btrfs" or system == "btrfs"
        for fault in FAULTS
    ]


def run_wrong(cache: Cache, wrong: Wrong, seed: int) -> dict[str, Any]:
    """Run one unless that was done before; see :func:`run_once`."""
    sources = ("wrong.py", "guest/wrong.sh", "guest/blocks.py", "guest/filesystems.sh")
    made_from = {
        **asdict(wrong), **PARAMETERS, "seed": seed,
        "recipe": code_version(*(f"eval/experiments/filesystems/{name}" for name in sources)),
    }  # fmt: skip
    folder = cache.get(
        "wrong", made_from,
        lambda folder: write_json(folder / "run.json", run_once(wrong, seed, folder)),
    )  # fmt: skip
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def run_once(wrong: Wrong, seed: int, folder: Path) -> dict[str, Any]:
    """Files are written while the first drive stores wrong data, and read when it does no more.

    Returns
    -------
    dict
        ``injected``: blocks that were not stored as they were; ``mounted``; blocks ``right``,
        ``wrong``, ``unreadable``, ``missing`` (guest/blocks.py), null where nothing could be
        mounted; ``checked``: "clean" or "damage", what the file system's tool says, and md's
        mirrors, "same" or "differ".

    Raises
    ------
    StepError
        If anything but the damaged file system failed.
    """
    places = guests.places_of(folder)
    array = Array(
        n_drives=1 if wrong.kind == "one" else 2, profile=PROFILE, size_mb=SIZE_MB, seed=seed,
        precondition=False, parameters=dict(STEADY.parameters),
    )  # fmt: skip
    what = f"$files {seed} {FILES} {BLOCKS}"
    blocks = f"python3 -I {SCRIPTS}/blocks.py"
    script = "\n".join(
        (
            f"set -e\n. {SCRIPTS}/wrong.sh",
            f"mirrors_new {wrong.kind} {wrong.file_system}",
            f"mount -t {wrong.file_system} $device $files",
            "sync",
            f"wrong_on {wrong.fault} {EVERY}",
            f"{blocks} write {what}",
            "umount $files",
            "wrong_off $LINNOS_OUT/injected",
            f"checked {wrong.file_system} {wrong.kind} >$LINNOS_OUT/checked",
            f"if come_back {shlex.quote(wrong.file_system)} >$LINNOS_OUT/mount; then",
            f"{blocks} read {what} $LINNOS_OUT/blocks.json",
            "umount $files\nfi",
        )
    )
    guests.run_in_guest(
        ["sh", "-ec", script], places, folder / "log.txt", array=array, memory_mb=MEMORY_MB
    )
    report = folder / "blocks.json"
    blocks_found = json.loads(report.read_text()) if report.exists() else None
    return {
        "injected": int((folder / "injected").read_text()),
        "mounted": blocks_found is not None,
        **(blocks_found or dict.fromkeys(("right", "wrong", "unreadable", "missing"))),
        "checked": (folder / "checked").read_text().strip(),
    }

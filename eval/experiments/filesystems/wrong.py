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
from eval.work import write_json
from linnapp.lab.array import Array

#: flashsim's faults; all are in what the first drive stores, and success is reported.
FAULTS = ("bit_flip", "zeros", "lost_write")

#: Every so many-th block that is written, data or the file system's own.
EVERY = 40
FILES, BLOCKS = 100, 32


@dataclass(frozen=True)
class Kind:
    """What a file system is on."""

    #: With {} for the file system.
    title: str
    drives: int = 1
    #: That are put on it.
    systems: tuple[str, ...] = SYSTEMS
    #: So many-th block that the first drive stores is wrong.
    every: int = EVERY
    #: Of those alone that are where region.py finds the metadata, which are few.
    metadata_only: bool = False


#: raid5 and raid6 would need CONFIG_MD_RAID456, which the lab's kernel does not have. What an
#: administrator may do about mirrors that differ is done for one file system without checksums of
#: data and one with them: take the first drive away, or tell md to repair before that.
KINDS = {
    "one": Kind("{}"),
    "md": Kind("{} on md raid1", 2),
    "md10": Kind("{} on md raid10", 4),
    "md_without": Kind("{} on md raid1, then without the first drive", 2, ("ext4", "btrfs")),
    "md_repaired": Kind(
        "{} on md raid1, repair, then without the first drive", 2, ("ext4", "btrfs")
    ),
    "btrfs": Kind("btrfs raid1", 2, ("btrfs",)),
    "btrfs1c3": Kind("btrfs raid1c3", 3, ("btrfs",)),
    "metadata_10": Kind("{}, every 10th of its metadata", 1, ("f2fs", "btrfs"), 10, True),
    "metadata_4": Kind("{}, every 4th of its metadata", 1, ("f2fs", "btrfs"), 4, True),
}

SIZE_MB = 1024
MEMORY_MB = 1024

PARAMETERS = {
    "faults": FAULTS, "every": {name: kind.every for name, kind in KINDS.items()}, "files": FILES,
    "blocks": BLOCKS,
}  # fmt: skip


@dataclass(frozen=True)
class Wrong:
    """One fault on one arrangement."""

    file_system: str
    #: Of ``KINDS``.
    kind: str
    #: Of ``FAULTS``.
    fault: str

    @property
    def title(self) -> str:
        """The file system and what it is on."""
        return KINDS[self.kind].title.format(self.file_system)


def plan(systems: tuple[str, ...] = SYSTEMS) -> list[Wrong]:
    """All arrangements under all faults."""
    return [
        Wrong(system, name, fault)
        for name, kind in KINDS.items()
        for system in systems
        if system in kind.systems
        for fault in FAULTS
    ]


def run_wrong(cache: Cache, wrong: Wrong, seed: int) -> dict[str, Any]:
    """Run one unless that was done before; see :func:`run_once`."""
    sources = (
        "wrong.py", "guest/wrong.sh", "guest/blocks.py", "guest/filesystems.sh", "guest/region.py",
    )  # fmt: skip
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
        mirrors, "same" or "differ", before the first is taken away.
    """
    places = guests.places_of(folder)
    kind = KINDS[wrong.kind]
    array = Array(
        n_drives=kind.drives, profile=PROFILE, size_mb=SIZE_MB, seed=seed,
        precondition=False, parameters=dict(STEADY.parameters),
    )  # fmt: skip
    what = f"$files {seed} {FILES} {BLOCKS}"
    blocks = f"python3 -I {SCRIPTS}/blocks.py"
    where = "none"
    if kind.metadata_only:
        where = f"$(python3 -I {SCRIPTS}/region.py {wrong.file_system} $device)"
    script = "\n".join(
        (
            f"set -e\n. {SCRIPTS}/wrong.sh",
            f"mirrors_new {wrong.kind} {wrong.file_system}",
            f"range={where}",
            f"mount -t {wrong.file_system} $device $files",
            "sync",
            f'wrong_on {wrong.fault} {kind.every} "$range"',
            f"{blocks} write {what}",
            "umount $files",
            "wrong_off $LINNOS_OUT/injected",
            "mirrors_repaired" if wrong.kind == "md_repaired" else "",
            f"checked {wrong.file_system} {wrong.kind} >$LINNOS_OUT/checked",
            "first_taken_away" if wrong.kind in ("md_without", "md_repaired") else "",
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

# SPDX-License-Identifier: MIT
"""A drive that stores wrong data, under file systems and RocksDB, on one drive and on mirrors."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from eval.cache import Cache, code_version
from eval.experiments.filesystems.design import PROFILE, STEADY, SYSTEMS
from eval.experiments.filesystems.lab import SCRIPTS
from linnapp.lab import guests
from linnapp.lab.array import Array

#: Faults of flashsim in the data that the first drive stores; it reports success.
FAULTS = ("bit_flip", "zeros", "lost_write")

#: One in this number of blocks is stored wrong, whether it has data or metadata.
EVERY = 40
FILES, BLOCKS = 100, 32


@dataclass(frozen=True)
class Kind:
    """The drives of a file system."""

    #: Contains {} in place of the file system.
    title: str
    drives: int = 1
    #: File systems to test on it.
    systems: tuple[str, ...] = SYSTEMS
    #: One in this number of blocks of the first drive is stored wrong.
    every: int = EVERY
    #: True if only blocks in the region that region.py finds are counted; they are few.
    metadata_only: bool = False


#: raid5 and raid6 would need CONFIG_MD_RAID456, which the lab's kernel does not have. An
#: administrator can remove the first drive, or let md repair its mirrors first; both are done with
#: one file system without checksums of data and one with them.
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
    "rocksdb": Kind("RocksDB on {}", 1, ("ext4",)),
    "rocksdb_repaired": Kind("RocksDB on {}, repaired", 1, ("ext4",)),
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
    #: Key of ``KINDS``.
    kind: str
    #: Element of ``FAULTS``.
    fault: str

    @property
    def title(self) -> str:
        """The file system and its drives."""
        return KINDS[self.kind].title.format(self.file_system)


def plan(systems: tuple[str, ...] = SYSTEMS) -> list[Wrong]:
    """Return every combination of drives, file system and fault."""
    return [
        Wrong(system, name, fault)
        for name, kind in KINDS.items()
        for system in systems
        if system in kind.systems
        for fault in FAULTS
    ]


def run_wrong(cache: Cache, wrong: Wrong, seed: int) -> dict[str, Any]:
    """Run a fault unless it is in the cache; see :func:`run_once`."""
    sources = (
        "wrong.py", "guest/wrong.sh", "guest/blocks.py", "guest/pairs.py", "guest/filesystems.sh",
        "guest/region.py",
    )  # fmt: skip
    made_from = {
        **asdict(wrong), **PARAMETERS, "seed": seed,
        "recipe": code_version(*(f"eval/experiments/filesystems/{name}" for name in sources)),
    }  # fmt: skip
    found: dict[str, Any] = cache.value(
        "wrong", made_from, lambda folder: run_once(wrong, seed, folder)
    )
    return found


def run_once(wrong: Wrong, seed: int, folder: Path) -> dict[str, Any]:
    """Write files while the first drive stores wrong data, and read them afterwards.

    Returns
    -------
    dict
        ``injected``: blocks that were stored wrong; ``mounted``: whether the file system could be
        mounted again, and RocksDB opened; blocks, or RocksDB's pairs, ``right``, ``wrong``,
        ``unreadable``, ``missing`` (guest/blocks.py), null if not; ``checked``: "clean" or
        "damage", the result of the file system's tool, and with md "same" or "differ", its
        comparison of mirrors before the first is removed.
    """
    places = guests.places_of(folder)
    kind = KINDS[wrong.kind]
    array = Array(
        n_drives=kind.drives, profile=PROFILE, size_mb=SIZE_MB, seed=seed,
        precondition=False, parameters=dict(STEADY.parameters),
    )  # fmt: skip
    what = f"$files {seed} {FILES} {BLOCKS}"
    of_rocksdb = wrong.kind.startswith("rocksdb")
    blocks = f"python3 -Es {SCRIPTS}/{'pairs' if of_rocksdb else 'blocks'}.py"
    where = "none"
    if kind.metadata_only:
        where = f"$(python3 -I {SCRIPTS}/region.py {wrong.file_system} $device)"
    script = "\n".join(
        (
            f"set -e\n. {SCRIPTS}/wrong.sh",
            f"make_mirrors {wrong.kind} {wrong.file_system}",
            f"range={where}",
            f"mount -t {wrong.file_system} $device $files",
            "sync",
            f'wrong_on {wrong.fault} {kind.every} "$range"',
            f"{blocks} write {what}",
            "umount $files",
            "wrong_off $LINNOS_OUT/injected",
            "repair_mirrors" if wrong.kind == "md_repaired" else "",
            f"checked {wrong.file_system} {wrong.kind} >$LINNOS_OUT/checked",
            "remove_first_drive" if wrong.kind in ("md_without", "md_repaired") else "",
            f"if mount_again {shlex.quote(wrong.file_system)} >$LINNOS_OUT/mount; then",
            # RocksDB writes its log when it is opened.
            "mount -o remount,rw $files" if of_rocksdb else "",
            f"{blocks} repair $files" if wrong.kind == "rocksdb_repaired" else "",
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

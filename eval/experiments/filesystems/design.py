# SPDX-License-Identifier: MIT
"""Which file systems in which configurations meet which slowness under which mix of operations."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

SYSTEMS = ("ext4", "xfs", "f2fs", "btrfs")

#: Some file systems or configurations only; and, "all": every one meets every slowness.
SYSTEMS_VARIABLE, SLOWNESS_VARIABLE = "LINNOS_FILESYSTEMS", "LINNOS_SLOWNESS"

CHOSEN = tuple(n for n in os.environ.get(SYSTEMS_VARIABLE, "").split(",") if n) or SYSTEMS
EVERYTHING = os.environ.get(SLOWNESS_VARIABLE, "") == "all"


@dataclass(frozen=True)
class Configuration:
    """A file system as it is made and mounted."""

    file_system: str
    #: What is different from the default; "default".
    name: str
    #: `mkfs`, `mount`: Options.
    mkfs: str = ""
    mount: str = ""
    #: Written to files of sysfs once it is mounted: FILE=VALUE FILE=VALUE.
    tune: str = ""
    #: Whether uScope's Table 3 has it.
    in_table: bool = True

    @property
    def title(self) -> str:
        """Both names."""
        return f"{self.file_system} {self.name}"


DEFAULT = "default"

#: Blocks are allocated when data are written to the page cache, so that a commit with data=ordered
#: has data to wait for.
NODELALLOC = "nodelalloc"

#: uScope's Table 3 one parameter at a time, its defaults being those of today's tools: ext4 orders
#: data, xfs has inodes of 512 bytes (256 only without checksums, 128 not at all), and f2fs has no
#: gc_idle unless asked, and ATGC only a week after it was made. What it does not have comes last.
CONFIGURATIONS = (
    Configuration("ext4", DEFAULT),
    Configuration("ext4", "block 1024", mkfs="-b 1024"),
    Configuration("ext4", "block 2048", mkfs="-b 2048"),
    Configuration("ext4", "inode 128", mkfs="-I 128"),
    Configuration("ext4", "inode 512", mkfs="-I 512"),
    Configuration("ext4", "inode 1024", mkfs="-I 1024"),
    Configuration("ext4", "data=writeback", mount="data=writeback"),
    Configuration("ext4", "data=journal", mount="data=journal"),
    Configuration("ext4", "fast_commit", mkfs="-O fast_commit", in_table=False),
    Configuration("ext4", NODELALLOC, mount="nodelalloc", in_table=False),
    Configuration("xfs", DEFAULT),
    Configuration("xfs", "block 1024", mkfs="-b size=1024"),
    Configuration("xfs", "block 2048", mkfs="-b size=2048"),
    Configuration("xfs", "inode 256, v4", mkfs="-m crc=0 -i size=256"),
    Configuration("xfs", "inode 2048", mkfs="-i size=2048"),
    Configuration("xfs", "8 groups", mkfs="-d agcount=8"),
    Configuration("xfs", "32 groups", mkfs="-d agcount=32"),
    Configuration("xfs", "128 groups", mkfs="-d agcount=128"),
    Configuration("f2fs", DEFAULT),
    Configuration("f2fs", "gc greedy", tune="gc_idle=2"),
    Configuration("f2fs", "gc cost-benefit", tune="gc_idle=1"),
    Configuration("f2fs", "fsync_mode=strict", mount="fsync_mode=strict", in_table=False),
    Configuration("btrfs", DEFAULT),
    Configuration("btrfs", "node 4096", mkfs="-n 4096"),
    Configuration("btrfs", "node 65536", mkfs="-n 65536"),
    Configuration("btrfs", "nodatasum", mount="nodatasum"),
    Configuration("btrfs", "nodatacow", mount="nodatacow"),
)


@dataclass(frozen=True)
class Mix:
    """One of Filebench's mixes, and how much of it."""

    name: str
    #: Filebench's.
    threads: int
    #: For each thread.
    files: int
    #: How often each thread does the operations of the mix.
    loops: int
    #: Between two of them, in the mean.
    rest_us: int


MIXES = (
    Mix("fileserver", 50, 10, 6, 250_000),
    Mix("webserver", 100, 10, 2, 500_000),
    Mix("varmail", 16, 60, 24, 8000),
)

EVERYWHERE = "everywhere"

#: What is slowed where it is not everything (guest/region.py).
PART = {"ext4": "journal", "xfs": "journal", "f2fs": "metadata", "btrfs": "metadata"}


@dataclass(frozen=True)
class Slowness:
    """Time that is added to some of the drive's I/Os; none by default."""

    #: "random", "continuous", "interval", or "none".
    pattern: str = "none"
    #: Of the I/Os.
    ratio_percent: int = 0
    added_us: int = 0
    #: ``EVERYWHERE``, or what stands in ``PART``.
    where: str = EVERYWHERE

    @property
    def title(self) -> str:
        """In words."""
        if self == NONE:
            return "none"
        where = "" if self.where == EVERYWHERE else f", {self.where} only"
        return f"{self.pattern} {self.ratio_percent} %, {self.added_us} us{where}"


NONE = Slowness()

PATTERNS = ("random", "continuous", "interval")
RATIOS = (10, 20)
ADDED_US = (10, 100, 1000, 10_000)

#: What every configuration meets; the first is uScope's own default.
COMMON = tuple(Slowness("random", 10, added) for added in (10, 1000))

#: I/Os in one cycle of the continuous pattern, as in uScope's Fig. 11.
PERIOD_IOS = 1000


def slownesses(file_system: str) -> tuple[Slowness, ...]:
    """All that a file system can meet."""
    everywhere = [Slowness(*three) for three in
                  ((p, r, a) for p in PATTERNS for r in RATIOS for a in ADDED_US)]  # fmt: skip
    part = [Slowness("random", 10, added, PART[file_system]) for added in ADDED_US[1:]]
    return (*everywhere, *part)


#: What the defaults meet unless everything is asked for.
FIRST = {
    system: (
        *(Slowness("random", 10, added) for added in (10, 1000, 10_000)),
        *(Slowness(pattern, 20, added) for pattern in PATTERNS for added in (10, 1000)),
        Slowness("random", 10, 1000, PART[system]),
    )
    for system in SYSTEMS
}


@dataclass(frozen=True)
class Drive:
    """The drive that the file system is on."""

    name: str
    size_mb: int
    #: As after long random writes.
    aged: bool = False
    #: flashsim's, beyond those of ``PROFILE``.
    parameters: tuple[tuple[str, str], ...] = ()


PROFILE = "enterprise-a"

#: Takes 34.7 us for 4 KiB, read or written, always: what uScope's RAM disk takes (its Table 1).
#: All is in the write buffer, which is never flushed. Ten gigabytes, as 128 groups of xfs want.
STEADY = Drive(
    "steady", 10_240, parameters=(
        ("controller_ns", "31000"), ("buffer_ns", "3000"), ("host_transfer_ns", "660"),
        ("buffer_mb", "4096"), ("buffer_watermark_pct", "100"),
        ("flush_interval_us", "60000000"),
    ),
)  # fmt: skip
FLASH = Drive("flash", 4096, aged=True)

DIRECT, CACHED = "direct", "cached"


@dataclass(frozen=True)
class Case:
    """What one guest does: a mix on a configuration, again for each slowness."""

    configuration: Configuration
    mix: Mix
    #: Besides none at all, which comes first.
    slownesses: tuple[Slowness, ...]
    #: ``DIRECT``: past the page cache; ``CACHED``: through it.
    cache: str = DIRECT
    drive: Drive = STEADY
    #: Watch ext4's journal commits, step by step.
    steps: bool = False


#: Where the journal's mode decides something: data that waits in the page cache.
JOURNAL_MODES = (DEFAULT, NODELALLOC, "data=writeback", "data=journal", "fast_commit")


def chosen(names: tuple[str, ...]) -> list[Configuration]:
    """Configurations by their titles, or all of a file system by its name."""
    for name in names:
        if name not in SYSTEMS and name not in [c.title for c in CONFIGURATIONS]:
            raise KeyError(name)
    return [c for c in CONFIGURATIONS if c.file_system in names or c.title in names]


def cases(configurations: list[Configuration], everything: bool) -> list[Case]:
    """All guests of one seed; the defaults, which meet most, come first."""
    defaults = [c for c in configurations if c.name == DEFAULT]
    varmail = next(mix for mix in MIXES if mix.name == "varmail")

    def met(c: Configuration) -> tuple[Slowness, ...]:
        if everything:
            return slownesses(c.file_system)
        return FIRST[c.file_system] if c.name == DEFAULT else COMMON

    found = [Case(c, mix, met(c)) for c in defaults for mix in MIXES]
    # Data that waits in the page cache is what the mode of ext4's journal is about; only jbd2's own
    # commits have steps.
    found += [Case(c, varmail, COMMON, CACHED, steps=c.name != "fast_commit")
              for c in configurations
              if c.file_system == "ext4" and c.name in JOURNAL_MODES]  # fmt: skip
    found += [Case(c, mix, met(c)) for c in configurations if c.name != DEFAULT for mix in MIXES]
    if everything:
        found += [Case(c, mix, COMMON, drive=FLASH) for c in defaults for mix in MIXES]
    return found


PARAMETERS: dict[str, Any] = {
    "chosen": CHOSEN,
    "everything": EVERYTHING,
    "configurations": [c.title for c in CONFIGURATIONS],
    "mixes": {m.name: [m.threads, m.files, m.loops, m.rest_us] for m in MIXES},
    "patterns": PATTERNS,
    "ratios_percent": RATIOS,
    "added_us": ADDED_US,
    "period_ios": PERIOD_IOS,
    "profile": PROFILE,
    "steady": dict(STEADY.parameters),
}

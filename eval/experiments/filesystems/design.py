# SPDX-License-Identifier: MIT
"""The plan: file systems, their configurations, mixes of operations, and slow I/Os of the drive."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from eval.experiment import names_from_environment

SYSTEMS = ("ext4", "xfs", "f2fs", "btrfs")


@dataclass(frozen=True)
class Configuration:
    """The options of a file system."""

    file_system: str
    #: The difference from the default, or "default".
    name: str
    #: Options of `mkfs` and `mount`.
    mkfs: str = ""
    mount: str = ""
    #: Values to write to files of sysfs after mounting: FILE=VALUE FILE=VALUE.
    tune: str = ""

    @property
    def title(self) -> str:
        """The file system and the configuration."""
        return f"{self.file_system} {self.name}"


DEFAULT = "default"

#: With this option ext4 allocates blocks when data are written to the page cache, so that a commit
#: with data=ordered has data to wait for.
NODELALLOC = "nodelalloc"

#: uScope's Table 3, one parameter at a time. Defaults are those of today's tools: ext4 orders data,
#: xfs has inodes of 512 bytes (256 only without checksums, 128 not at all), and f2fs has no gc_idle
#: and uses ATGC only a week after it was made. Configurations that Table 3 lacks come last.
CONFIGURATIONS = (
    Configuration("ext4", DEFAULT),
    Configuration("ext4", "block 1024", mkfs="-b 1024"),
    Configuration("ext4", "block 2048", mkfs="-b 2048"),
    Configuration("ext4", "inode 128", mkfs="-I 128"),
    Configuration("ext4", "inode 512", mkfs="-I 512"),
    Configuration("ext4", "inode 1024", mkfs="-I 1024"),
    Configuration("ext4", "data=writeback", mount="data=writeback"),
    Configuration("ext4", "data=journal", mount="data=journal"),
    Configuration("ext4", "fast_commit", mkfs="-O fast_commit"),
    Configuration("ext4", NODELALLOC, mount="nodelalloc"),
    Configuration("ext4", f"{NODELALLOC} data=writeback", mount="nodelalloc,data=writeback"),
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
    Configuration("f2fs", "fsync_mode=strict", mount="fsync_mode=strict"),
    Configuration("btrfs", DEFAULT),
    Configuration("btrfs", "node 4096", mkfs="-n 4096"),
    Configuration("btrfs", "node 65536", mkfs="-n 65536"),
    Configuration("btrfs", "nodatasum", mount="nodatasum"),
    Configuration("btrfs", "nodatacow", mount="nodatacow"),
)

#: Environment variable: the file systems, and titles of configurations, to run.
VARIABLE = "LINNOS_FILESYSTEMS"

CHOSEN = names_from_environment(VARIABLE, SYSTEMS)


@dataclass(frozen=True)
class Mix:
    """One of Filebench's mixes, and its size."""

    name: str
    #: The number of threads, as in Filebench.
    threads: int
    #: The number of files of each thread.
    files: int
    #: Repeats of the mix's operations by each thread.
    loops: int
    #: Mean pause between two repeats.
    rest_us: int


MIXES = (
    Mix("fileserver", 50, 10, 6, 250_000),
    Mix("webserver", 100, 10, 2, 500_000),
    Mix("varmail", 16, 60, 24, 8000),
)

#: uScope's Fig. 5: the share of reads in percent, of reads and writes of whole files.
SHARES = (0, 25, 50, 75, 100)
MIXED = tuple(Mix(f"mixed-{share}", 50, 10, 6, 250_000) for share in SHARES)

#: For uScope's Fig. 7: whole files are written, which the next fsync of another file commits.
FILESYNC = Mix("filesync", 50, 10, 6, 250_000)

EVERYWHERE = "everywhere"

#: The part of the drive that can be slowed by itself; guest/region.py finds it.
PART = {"ext4": "journal", "xfs": "journal", "f2fs": "metadata", "btrfs": "metadata"}


@dataclass(frozen=True)
class Slowness:
    """Time that is added to some of the drive's I/Os. The default adds none."""

    #: "random", "continuous", "interval", or "none".
    pattern: str = "none"
    #: Share of the I/Os.
    ratio_percent: int = 0
    added_us: int = 0
    #: ``EVERYWHERE``, or a value of ``PART``.
    where: str = EVERYWHERE
    #: True if a slow I/O occupies its chip or the link, so that those behind it wait.
    occupy: bool = False

    @property
    def title(self) -> str:
        """The slowness in words."""
        if self == NONE:
            return "none"
        where = "" if self.where == EVERYWHERE else f", {self.where} only"
        occupying = ", occupying" if self.occupy else ""
        return f"{self.pattern} {self.ratio_percent} %, {self.added_us} us{where}{occupying}"


NONE = Slowness()

PATTERNS = ("random", "continuous", "interval")

#: The slow drives for every configuration. The first one is uScope's default.
COMMON = tuple(Slowness("random", 10, added) for added in (10, 1000))

#: I/Os in one cycle of the continuous pattern, as in uScope's Fig. 11.
PERIOD_IOS = 1000


#: The patterns that are compared, once with and once without other I/Os that wait.
COMPARED = tuple(
    Slowness(pattern, 20, added, occupy=occupy)
    for occupy in (False, True)
    for pattern in PATTERNS
    for added in (10, 1000)
)

#: The slow drives for the default configurations.
FIRST = {
    system: (
        *(Slowness("random", 10, added) for added in (10, 1000, 10_000)),
        *COMPARED,
        Slowness("random", 10, 1000, PART[system]),
    )
    for system in SYSTEMS
}


@dataclass(frozen=True)
class Drive:
    """The drive of the file system."""

    name: str
    size_mb: int
    #: True for a drive in the state after long random writes.
    aged: bool = False
    #: Parameters of flashsim besides those of ``PROFILE``.
    parameters: tuple[tuple[str, str], ...] = ()


PROFILE = "enterprise-a"

#: A drive that reads or writes 4 KiB in 34.7 us, as uScope's RAM disk does (its Table 1). All data
#: stay in the write buffer, which is never flushed. 128 groups of xfs need ten gigabytes.
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
    """The work of one guest: a mix on a configuration, repeated for each slowness."""

    configuration: Configuration
    mix: Mix
    #: A run without slowness comes before them.
    slownesses: tuple[Slowness, ...]
    #: ``DIRECT`` bypasses the page cache, ``CACHED`` uses it.
    cache: str = DIRECT
    drive: Drive = STEADY
    #: True to measure the steps of commits of ext4's journal.
    steps: bool = False


#: The configurations of ext4 that differ in the journal, which matters for data in the page cache.
JOURNAL_MODES = (DEFAULT, NODELALLOC, "data=writeback", "data=journal", "fast_commit")

#: Those whose commits are compared with data to write; see ``NODELALLOC``.
LOADED_MODES = (DEFAULT, NODELALLOC, f"{NODELALLOC} data=writeback")


def configurations(names: Collection[str]) -> list[Configuration]:
    """Return the configurations with these titles, or all of the file systems with these names."""
    return [c for c in CONFIGURATIONS if {c.file_system, c.title} & {*names}]


def cases(configurations: list[Configuration]) -> list[Case]:
    """Return the guests of one seed, file system by file system."""
    defaults = [c for c in configurations if c.name == DEFAULT]
    varmail = next(mix for mix in MIXES if mix.name == "varmail")
    found = [Case(c, mix, FIRST[c.file_system]) for c in defaults for mix in MIXES]
    # The mode of ext4's journal matters for data in the page cache. Only jbd2's own commits have
    # steps.
    found += [Case(c, varmail, COMMON, CACHED, steps=c.name != "fast_commit")
              for c in configurations
              if c.file_system == "ext4" and c.name in JOURNAL_MODES]  # fmt: skip
    found += [
        Case(c, FILESYNC, COMMON, CACHED, steps=True)
        for c in configurations
        if c.file_system == "ext4" and c.name in LOADED_MODES
    ]
    found += [Case(c, mix, COMMON) for c in configurations if c.name != DEFAULT for mix in MIXES]
    ext4 = [c for c in defaults if c.file_system == "ext4"]
    found += [Case(c, mix, COMMON) for c in ext4 for mix in MIXED]
    # The flash drive takes long: it is for a whole file system, not for single configurations.
    if {c for c in CONFIGURATIONS if c.file_system == "ext4"} <= {*configurations}:
        found += [Case(c, mix, COMPARED, drive=FLASH) for c in ext4 for mix in MIXES]
    return sorted(found, key=lambda case: SYSTEMS.index(case.configuration.file_system))

# SPDX-License-Identifier: MIT
"""Print the location of the journal or the metadata of a file system that is not mounted.

    region.py FILE_SYSTEM DEVICE

Runs in the guest. The output is the first sector and the number of sectors: of the journal of ext4
or xfs, of the area of checkpoints, SIT, NAT and SSA of f2fs, or of the metadata chunks of btrfs.
"""

import re
import subprocess
import sys

SECTOR = 512


def output_of(*command: str) -> str:
    """Return the output of a program."""
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def numbers(pattern: str, text: str) -> list[tuple[int, ...]]:
    """Return the numbers of every match of a pattern."""
    return [tuple(map(int, found.groups())) for found in re.finditer(pattern, text)]


def joined(pieces: list[tuple[int, int]], what: str) -> tuple[int, int]:
    """Join pieces (first, length) into one range; gaps may add up to 1 % of it."""
    first = min(start for start, _ in pieces)
    length = max(start + n for start, n in pieces) - first
    if sum(n for _, n in pieces) < 0.99 * length:
        sys.exit(f"{what} is in {len(pieces)} pieces: {pieces}")
    return first, length


def find_ext4_journal(device: str) -> tuple[int, int]:
    """Return the extent of inode 8, the journal."""
    (block,) = numbers(r"Block size:\s+(\d+)", output_of("dumpe2fs", "-h", device))[0]
    extents = output_of("debugfs", "-R", "stat <8>", device).split("EXTENTS:")[1]
    pieces = [(a, b - a + 1) for a, b in numbers(r"\(\d+-\d+\):(\d+)-(\d+)", extents)]
    first, length = joined(pieces, "ext4's journal")
    return first * block // SECTOR, length * block // SECTOR


def find_xfs_log(device: str) -> tuple[int, int]:
    """Return the extent of the log, which is in one piece."""

    def query_xfs(*commands: str) -> str:
        return output_of("xfs_db", "-r", *(word for c in commands for word in ("-c", c)), device)

    fields = "logstart = (\\d+)\\nlogblocks = (\\d+)\\nblocksize = (\\d+)"
    start, n_blocks, block = numbers(fields, query_xfs("sb 0", "p logstart logblocks blocksize"))[0]
    (first,) = numbers(r"\((\d+)\)", query_xfs(f"convert fsblock {start} daddr"))[0]
    return first, n_blocks * block // SECTOR


def find_f2fs_metadata(device: str) -> tuple[int, int]:
    """Return everything before the main area except for the superblocks."""
    text = output_of("dump.f2fs", "-d", "1", device)
    (first,), (end,) = (numbers(rf"{name}_blkaddr\s+\[0x\s*\w+ : (\d+)\]", text)[0]
                        for name in ("cp", "main"))  # fmt: skip
    return first * 8, (end - first) * 8


def find_btrfs_metadata(device: str) -> tuple[int, int]:
    """Return the extent of the chunks that contain metadata or the system's own data."""
    text = output_of("btrfs", "inspect-internal", "dump-tree", "-t", "chunk", device)
    pieces = []
    for chunk in text.split("CHUNK_ITEM")[1:]:
        (length,) = numbers(r"length (\d+)", chunk)[0]
        if "type DATA" not in chunk:
            pieces += [(offset, length) for (offset,) in numbers(r"offset (\d+)\n", chunk)]
    first, length = joined(pieces, "btrfs' metadata")
    return first // SECTOR, length // SECTOR


FINDERS = {
    "ext4": find_ext4_journal,
    "xfs": find_xfs_log,
    "f2fs": find_f2fs_metadata,
    "btrfs": find_btrfs_metadata,
}

if __name__ == "__main__":
    print(*FINDERS[sys.argv[1]](sys.argv[2]))

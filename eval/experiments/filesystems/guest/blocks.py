# SPDX-License-Identifier: MIT
"""Write files of known blocks, and classify what is read back. Runs in the guest.

    blocks.py write FOLDER SEED FILES BLOCKS
    blocks.py read FOLDER SEED FILES BLOCKS REPORT

REPORT gets a count of blocks for each outcome, in JSON: right; wrong, read without an error;
unreadable; missing, with their file or its end.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

BLOCK = 4096


def content(seed: str, file: int, block: int) -> bytes:
    """Return the content of a block, which no other block has."""
    return hashlib.shake_128(f"{seed} {file} {block}".encode()).digest(BLOCK)


def write(folder: Path, seed: str, n_files: int, n_blocks: int) -> None:
    for file in range(n_files):
        blocks = [content(seed, file, block) for block in range(n_blocks)]
        (folder / str(file)).write_bytes(b"".join(blocks))


def outcome(fd: int, wanted: bytes, offset: int) -> str:
    """Return the class of one block that is read back."""
    try:
        came = os.pread(fd, BLOCK, offset)
    except OSError:
        return "unreadable"
    if len(came) < BLOCK:
        return "missing"
    return "right" if came == wanted else "wrong"


def read(folder: Path, seed: str, n_files: int, n_blocks: int) -> dict[str, int]:
    found = dict.fromkeys(("right", "wrong", "unreadable", "missing"), 0)
    for file in range(n_files):
        try:
            fd = os.open(folder / str(file), os.O_RDONLY)
        except FileNotFoundError:
            found["missing"] += n_blocks
            continue
        except OSError:
            found["unreadable"] += n_blocks
            continue
        # One block at a time: with readahead, a bad block would make its neighbours unreadable.
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        for block in range(n_blocks):
            found[outcome(fd, content(seed, file, block), block * BLOCK)] += 1
        os.close(fd)
    return found


def main() -> None:
    what, folder, seed, n_files, n_blocks, *report = sys.argv[1:]
    arguments = (Path(folder), seed, int(n_files), int(n_blocks))
    if what == "write":
        write(*arguments)
    else:
        Path(report[0]).write_text(json.dumps(read(*arguments)))


if __name__ == "__main__":
    main()

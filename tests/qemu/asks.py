# SPDX-License-Identifier: MIT
"""Query /dev/linnos about drives repeatedly; print the answers as JSON.

Usage: asks.py [--look] [--count N] [--every-ms MS] [--reads FILE] [--bytes BYTES] DEVICE...

With --reads it waits after every 20 queries until the drive's number of reads changes, because a
machine that is busy elsewhere may stand still for longer than all queries take.
"""

from __future__ import annotations

import argparse
import array
import fcntl
import json
import os
import struct
import time
from pathlib import Path

#: <linux/blk-linnos.h>: _IOWR(0x12, 160, struct blk_expect), of 16 bytes and 16 for each drive.
BLKEXPECT = 3 << 30 | 16 << 16 | 0x12 << 8 | 160
LOOK = 1


def ask(asked: int, drives: list[int], n_bytes: int, flags: int) -> tuple[int, list[list[int]]]:
    """Return the best drives as bits, and the state, flags and latency in us of each drive."""
    question = array.array("I", [flags, len(drives), n_bytes, 0])
    for drive in drives:
        question.extend([drive, 0, 0, 0])
    fcntl.ioctl(asked, BLKEXPECT, question)
    return question[3], [list(question[at + 1 : at + 4]) for at in range(4, len(question), 4)]


def wait_for_another(reads: Path) -> None:
    """Wait until the file changes, for at most ten minutes."""
    before, until_s = reads.read_text(), time.monotonic() + 600
    while reads.read_text() == before:
        if time.monotonic() > until_s:
            raise TimeoutError(f"{reads}: no read ended in ten minutes")
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--look", action="store_true")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--every-ms", type=float, default=0)
    parser.add_argument("--reads", type=Path)
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("devices", nargs="+")
    options = parser.parse_args()
    assert struct.calcsize("I") == 4
    asked = os.open("/dev/linnos", os.O_RDONLY)
    drives = [os.open(device, os.O_RDONLY) for device in options.devices]
    answers = []
    for asked_before in range(options.count):
        if options.reads and asked_before % 20 == 0:
            wait_for_another(options.reads)
        answers.append(ask(asked, drives, options.bytes, LOOK if options.look else 0))
        time.sleep(options.every_ms / 1000)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()

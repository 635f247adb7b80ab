# SPDX-License-Identifier: MIT
"""Query /dev/linnos about drives repeatedly; print the answers as JSON.

Usage: asks.py [--look] [--count N] [--every-ms MS] [--reads FILE] DEVICE...

With --reads it waits after every 20 queries until the drive's number of reads changes, because a
machine that is busy elsewhere may stand still for longer than all queries take.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lab_block"))

from ask import KNOWN, LOOK, ask


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
    parser.add_argument("devices", nargs="+")
    options = parser.parse_args()
    asked = os.open("/dev/linnos", os.O_RDONLY)
    fds = [os.open(device, os.O_RDONLY) for device in options.devices]
    answers = []
    for asked_before in range(options.count):
        if options.reads and asked_before % 20 == 0:
            wait_for_another(options.reads)
        answer = ask(fds, flags=LOOK if options.look else 0, at=asked)
        drives = [[KNOWN.index(each.known), each.flags, each.latency_us] for each in answer.drives]
        answers.append([sum(1 << k for k in answer.best), drives])
        time.sleep(options.every_ms / 1000)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()

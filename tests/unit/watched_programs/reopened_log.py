# SPDX-License-Identifier: MIT
"""A program that writes its log line by line: ``reopened_log.py FOLDER [--fixed]``.

It opens the log for each line, finds its end, writes and closes it, as Redis did (its pull request
10531). With --fixed the log stays open, and lines that arrive together are written by one call.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

LINES = [f"{i:05d} * a client has been served\n".encode() for i in range(300)]
#: Number of lines that arrive together.
BATCH = 25


def reopened(log: Path) -> None:
    for line in LINES:
        fd = os.open(log, os.O_CREAT | os.O_WRONLY, 0o644)
        os.lseek(fd, 0, os.SEEK_END)
        os.fstat(fd)
        os.write(fd, line)
        os.close(fd)


def kept_open(log: Path) -> None:
    fd = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    for i in range(0, len(LINES), BATCH):
        os.writev(fd, LINES[i : i + BATCH])
    os.close(fd)


log = Path(sys.argv[1]) / "server.log"
(kept_open if "--fixed" in sys.argv else reopened)(log)

# SPDX-License-Identifier: MIT
"""A program with a log, and a shipper that loses lines: ``log_shipper.py FOLDER [--fixed]``.

The shipper remembers its position in each file by name and inode, so that it can continue after a
restart. It does not forget a file that was removed. The next file of that name gets the same inode
number, and the shipper continues at the position in the old file.
(Fluent Bit had this bug: its issues 1875 and 4895.)
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

FIRST, SECOND = b"the first line of the log\n", b"a second line.\n\n"


def name_process(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def write_log(log: Path, line: bytes) -> None:
    fd = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.write(fd, line)
    os.close(fd)


def ship(log: Path, positions: Path, shipped: Path) -> None:
    """Ship the log's content beyond the remembered position."""
    known = json.loads(positions.read_bytes()) if positions.exists() else {}
    fd = os.open(log, os.O_RDONLY)
    key = f"{log.name}|{os.fstat(fd).st_ino}"
    os.lseek(fd, known.get(key, 0), os.SEEK_SET)
    while line := os.read(fd, 4096):
        with shipped.open("ab") as out:
            out.write(line)
    known[key] = os.lseek(fd, 0, os.SEEK_CUR)
    os.close(fd)
    positions.write_text(json.dumps(known))


def forget(positions: Path) -> None:
    """Forget a removed log, as the fixed version does."""
    positions.unlink()


def main() -> None:
    folder, is_fixed = Path(sys.argv[1]), "--fixed" in sys.argv
    log, positions, shipped = folder / "app.log", folder / "positions", folder / "shipped"
    to_shipper, to_app = os.pipe(), os.pipe()
    if os.fork() == 0:
        name_process("shipper")
        for turn in range(2):
            os.read(to_shipper[0], 1)
            if turn and is_fixed:
                forget(positions)
            ship(log, positions, shipped)
            os.write(to_app[1], b"x")
        os._exit(0)
    name_process("app")
    write_log(log, FIRST)
    os.write(to_shipper[1], b"x")
    os.read(to_app[0], 1)
    log.unlink()
    write_log(log, SECOND)
    os.write(to_shipper[1], b"x")
    os.read(to_app[0], 1)
    os.wait()


main()

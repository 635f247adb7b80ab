# SPDX-License-Identifier: MIT
"""Runs in the guest: processes on every CPU that read a drive, with the hint or without.

Every 4 KiB block of the drive's first part contains its own number, so that each
answer can be checked: an admitted read returned the right blocks, a revoked one
did not change the buffer. Writers increment the versions of blocks meanwhile: a read
must not return a version older than the last one written when it began, nor newer than
the last one begun when it ends. Prints one JSON object with the counts.
"""

from __future__ import annotations

import argparse
import errno
import json
import mmap
import os
import random
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

RWF_LATCRIT = 0x8000
BLOCK = 4096
SENTINEL = b"\xa5" * BLOCK


def block_content(number: int, version: int = 0) -> bytes:
    """Return the content of block `number` of the drive."""
    return struct.pack("<II", number, version) * (BLOCK // 8)


class Versions:
    """The last version begun and the last version written of each block, shared by processes."""

    def __init__(self, n_blocks: int) -> None:
        self.begun = memoryview(mmap.mmap(-1, 4 * n_blocks)).cast("I")
        self.written = memoryview(mmap.mmap(-1, 4 * n_blocks)).cast("I")
        #: True when the writers are to end.
        self.stop = mmap.mmap(-1, 1)


def is_right(data: memoryview, first: int, oldest: Sequence[int], newest: Sequence[int]) -> bool:
    """Return true if blocks that were read contain one of these versions."""
    for k, (old, new) in enumerate(zip(oldest, newest, strict=True)):
        block = data[k * BLOCK : (k + 1) * BLOCK]
        if old == new:
            right = block == block_content(first + k, old)
        else:
            # Parts of a block may be older than others while it is written.
            words = set(block.cast("Q"))
            right = all(
                word & 0xFFFFFFFF == first + k and old <= word >> 32 <= new for word in words
            )
        if not right:
            return False
    return True


def fill(device: str, n_blocks: int) -> None:
    """Write every block's number into it."""
    chunk = 256
    buffer = mmap.mmap(-1, chunk * BLOCK)
    fd = os.open(device, os.O_WRONLY | os.O_DIRECT)
    for first in range(0, n_blocks, chunk):
        n = min(chunk, n_blocks - first)
        buffer[: n * BLOCK] = b"".join(block_content(first + k) for k in range(n))
        with memoryview(buffer)[: n * BLOCK] as view:
            assert os.pwrite(fd, view, first * BLOCK) == n * BLOCK
    os.close(fd)


def write_until(options: argparse.Namespace, writer: int, versions: Versions) -> dict[str, int]:
    """Write new versions of blocks until told to stop, with one writer per block."""
    randomly = random.Random(writer)
    buffer = mmap.mmap(-1, BLOCK)
    fd = os.open(options.device, os.O_WRONLY | os.O_DIRECT)
    done = 0
    while not versions.stop[0]:
        number = randomly.randrange(writer, options.blocks, options.writers)
        versions.begun[number] += 1
        buffer[:] = block_content(number, versions.begun[number])
        assert os.pwrite(fd, buffer, number * BLOCK) == BLOCK
        versions.written[number] = versions.begun[number]
        done += 1
    os.close(fd)
    return {"written": done}


def compare(device: str, versions: Versions) -> int:
    """Count the blocks that differ from the last write, after all writers have ended."""
    buffer = mmap.mmap(-1, BLOCK)
    fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
    wrong = 0
    for number, version in enumerate(versions.written):
        n = os.preadv(fd, [buffer], number * BLOCK)
        wrong += n != BLOCK or buffer[:] != block_content(number, version)
    os.close(fd)
    return wrong


def read_until(options: argparse.Namespace, reader: int, versions: Versions) -> dict[str, int]:
    """Read at random offsets until told to stop, or until the drive is removed."""
    randomly = random.Random(reader + 1)
    counts = {"admitted": 0, "revoked": 0, "wrong_data": 0, "touched": 0, "gone": 0, "errors": 0}
    untouched = SENTINEL * options.pages
    buffer = mmap.mmap(-1, len(untouched))
    try:
        fd = os.open(options.device, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return {**counts, "gone": 1}
    end = time.monotonic() + options.seconds
    done = 0
    while time.monotonic() < end and (not options.count or done < options.count):
        if options.stop_file and done % 16 == 0 and Path(options.stop_file).exists():
            break
        done += 1
        first = randomly.randrange(options.blocks - options.pages + 1)
        buffer[:] = untouched
        blocks = slice(first, first + options.pages)
        oldest = versions.written[blocks].tolist()
        try:
            n = os.preadv(fd, [buffer], first * BLOCK, 0 if options.plain else RWF_LATCRIT)
        except OSError as error:
            if error.errno == errno.EBUSY and not options.plain:
                counts["revoked"] += 1
                counts["touched"] += buffer[:] != untouched
                continue
            if error.errno in (errno.ENODEV, errno.ENXIO, errno.EIO):
                counts["gone"] += 1
                break
            counts["errors"] += 1
            continue
        if n == 0:
            # A drive that was removed has no size any more.
            counts["gone"] += 1
            break
        if options.started_file and not counts["admitted"]:
            Path(options.started_file).touch()
        counts["admitted"] += 1
        newest = versions.begun[blocks].tolist()
        with memoryview(buffer) as data:
            right = n == len(data) and is_right(data, first, oldest, newest)
        counts["wrong_data"] += not right
    os.close(fd)
    return counts


def start(
    work: Callable[[argparse.Namespace, int, Versions], dict[str, int]],
    n: int, options: argparse.Namespace, versions: Versions,
) -> list[int]:  # fmt: skip
    """Start N processes, spread over the CPUs; return the pipes with the counts of `work`."""
    pipes, cpus = [], sorted(os.sched_getaffinity(0))
    for k in range(n):
        from_child, to_parent = os.pipe()
        if os.fork() == 0:
            os.sched_setaffinity(0, {cpus[k % len(cpus)]})
            os.write(to_parent, json.dumps(work(options, k, versions)).encode())
            os._exit(0)
        os.close(to_parent)
        pipes.append(from_child)
    return pipes


def add_up(pipes: Sequence[int], total: dict[str, int]) -> None:
    """Wait until processes have ended, and add their counts."""
    for pipe in pipes:
        with os.fdopen(pipe) as file:
            for name, value in json.loads(file.read()).items():
                total[name] = total.get(name, 0) + value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device")
    parser.add_argument("--fill", action="store_true", help="write the blocks first")
    parser.add_argument("--blocks", type=int, default=4096, help="blocks of the drive in use")
    parser.add_argument("--workers", type=int, default=1, help="processes, spread over the CPUs")
    parser.add_argument(
        "--writers", type=int, default=0, help="processes that overwrite the blocks of --fill"
    )
    parser.add_argument("--pages", type=int, default=1, help="4 KiB blocks a read")
    parser.add_argument("--plain", action="store_true", help="read without the hint")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--count", type=int, default=0, help="reads of each worker (0 for no limit)"
    )
    parser.add_argument("--stop-file", default="", help="stop when this file appears")
    parser.add_argument("--started-file", default="", help="made when a read has come back")
    options = parser.parse_args()
    if options.fill:
        fill(options.device, options.blocks)

    total: dict[str, int] = {}
    versions = Versions(options.blocks)
    writers = start(write_until, options.writers, options, versions)
    add_up(start(read_until, options.workers, options, versions), total)
    versions.stop[0] = 1
    add_up(writers, total)
    if options.writers:
        total["wrong_data"] += compare(options.device, versions)
    print(json.dumps(total))
    return 0


if __name__ == "__main__":
    sys.exit(main())

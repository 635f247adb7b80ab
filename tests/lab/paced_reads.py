# SPDX-License-Identifier: MIT
"""Runs in the guest: reads of a device, each compared with the data written.

    paced_reads.py DEVICE --fill
    paced_reads.py DEVICE N EVERY_US [--buffered] [--writes]
    paced_reads.py DEVICE N --sequential

``--fill`` writes the whole device. Otherwise there are N reads of its lower half, and a JSON object
says how long they took and which were wrong: random ones of 4 KiB, one every EVERY_US whether those
before have come back or not; or buffered ones of 64 KiB in order, again and again from the
beginning, with nothing cached. ``--writes`` adds a writer to the upper half, and a look at every
block of the device when the reads are done.
"""

import argparse
import itertools
import json
import mmap
import os
import random
import threading
import time

BLOCK = 4096
#: Maximum number of reads that wait at once.
THREADS = 48
SEQUENTIAL = 16


def content(block: int, version: int = 0) -> bytes:
    """No block like another, none of zeros."""
    word = (block * 0x9E3779B97F4A7C15 + version * 0xBF58476D1CE4E5B9 + 1) & (2**64 - 1)
    return word.to_bytes(8, "little") * (BLOCK // 8)


def fill(fd: int, blocks: int) -> None:
    chunk = mmap.mmap(-1, 1 << 20)
    for first in range(0, blocks, 256):
        n = min(256, blocks - first)
        chunk[: n * BLOCK] = b"".join(map(content, range(first, first + n)))
        assert os.pwrite(fd, memoryview(chunk)[: n * BLOCK], first * BLOCK) == n * BLOCK


class Reader:
    """Runs of blocks, each when it is due, by whichever thread is free."""

    def __init__(self, fd: int, firsts: list[int], n_blocks: int, every_us: int) -> None:
        self.fd, self.firsts, self.n_blocks, self.every_us = fd, firsts, n_blocks, every_us
        self.turn = itertools.count()
        self.latency_ns: list[int] = []
        self.wrong: list[int] = []
        self.errors: list[str] = []
        self.start_ns = time.monotonic_ns()

    def run(self) -> None:
        buffer = mmap.mmap(-1, self.n_blocks * BLOCK)
        while (k := next(self.turn)) < len(self.firsts):
            first, due_ns = self.firsts[k], self.start_ns + k * self.every_us * 1000
            if not first and not self.every_us:
                os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)
            if (early_ns := due_ns - time.monotonic_ns()) > 0:
                time.sleep(early_ns / 1e9)
            submitted_ns = time.monotonic_ns()
            try:
                n = os.preadv(self.fd, [buffer], first * BLOCK)
            except OSError as error:
                self.errors.append(f"block {first}: {error}")
                continue
            self.latency_ns.append(time.monotonic_ns() - submitted_ns)
            expected = b"".join(map(content, range(first, first + self.n_blocks)))
            if n != len(expected) or buffer[:] != expected:
                self.wrong.append(first)


class Writer:
    """Overwrite blocks of the upper half until stopped."""

    def __init__(self, fd: int, blocks: int) -> None:
        self.fd, self.blocks, self.version = fd, blocks, dict[int, int]()
        self.stop = False

    def run(self) -> None:
        rng, buffer = random.Random(2), mmap.mmap(-1, BLOCK)
        while not self.stop:
            block = rng.randrange(self.blocks // 2, self.blocks)
            self.version[block] = self.version.get(block, 0) + 1
            buffer[:] = content(block, self.version[block])
            assert os.pwrite(self.fd, buffer, block * BLOCK) == BLOCK
            time.sleep(0.001)


def compare(fd: int, blocks: range, version: dict[int, int]) -> list[int]:
    buffer = mmap.mmap(-1, BLOCK)
    wrong = []
    for block in blocks:
        os.preadv(fd, [buffer], block * BLOCK)
        if buffer[:] != content(block, version.get(block, 0)):
            wrong.append(block)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("device")
    parser.add_argument("n", type=int, nargs="?")
    parser.add_argument("every_us", type=int, nargs="?", default=0)
    for option in ("fill", "buffered", "sequential", "writes"):
        parser.add_argument(f"--{option}", action="store_true")
    arguments = parser.parse_args()

    buffered = arguments.buffered or arguments.sequential
    fd = os.open(arguments.device, os.O_RDWR | (0 if buffered else os.O_DIRECT))
    blocks = os.lseek(fd, 0, os.SEEK_END) // BLOCK
    half = blocks // 2
    if arguments.fill:
        fill(fd, blocks)
        return
    if buffered:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    if arguments.sequential:
        reader = Reader(
            fd,
            [k % (half // SEQUENTIAL) * SEQUENTIAL for k in range(arguments.n)],
            SEQUENTIAL,
            every_us=0,
        )
    else:
        rng = random.Random(1)
        # No block twice while there are enough of them, because it would be cached.
        firsts: list[int] = []
        while len(firsts) < arguments.n:
            firsts += rng.sample(range(half), half)
        reader = Reader(fd, firsts[: arguments.n], 1, arguments.every_us)
    writer = Writer(fd, blocks)
    threads = [
        threading.Thread(target=reader.run) for _ in range(1 if arguments.sequential else THREADS)
    ]
    writing = threading.Thread(target=writer.run)
    for thread in threads:
        thread.start()
    if arguments.writes:
        writing.start()
    for thread in threads:
        thread.join()
    wrong = reader.wrong
    if arguments.writes:
        writer.stop = True
        writing.join()
        wrong = wrong + compare(fd, range(blocks), writer.version)
    us = sorted(ns / 1000 for ns in reader.latency_ns)
    print(
        json.dumps(
            {
                "reads": len(us),
                "mean_us": sum(us) / len(us),
                **{f"p{p}_us": us[len(us) * p // 100] for p in (50, 95, 99)},
                "slow": sum(one > 1000 for one in us),
                "written": len(writer.version),
                "wrong": wrong,
                "errors": reader.errors,
            }
        )
    )


main()

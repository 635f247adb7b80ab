# SPDX-License-Identifier: MIT
"""Runs in the guest: direct reads of a drive, one at a time, with or without writes between.

    time_reads.py DEVICE N OUT.npy [--write-share P] [--max-kb K | --read-kb K] [--oracle]
                 [--seed S]

Saves an int64 array [n, 3]: when a read was submitted (ns), how long it took (ns), and what the
oracle said just before (ns, 0 without --oracle).
"""

import argparse
import fcntl
import mmap
import os
import random
import struct
import time

import numpy as np

PAGE = 4096

ORACLE = struct.Struct("=QIIQ")
FLASHSIM_IOC_ORACLE = 3 << 30 | ORACLE.size << 16 | 0xF5 << 8 | 1


def apart(n: int) -> list[memoryview]:
    """Return pages that are not adjacent in memory.

    Adjacent pages would form larger bios, which are split at other places.
    """
    memory = memoryview(mmap.mmap(-1, 2 * n * PAGE))
    for page in range(2 * n):
        memory[page * PAGE] = 1
    return [memory[2 * i * PAGE : (2 * i + 1) * PAGE] for i in range(n)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("device")
    parser.add_argument("n", type=int)
    parser.add_argument("out")
    parser.add_argument("--write-share", type=float, default=0.0)
    parser.add_argument("--max-kb", type=int, default=4)
    parser.add_argument("--read-kb", type=int, help="all reads of this size, at most 4096")
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    fd = os.open(arguments.device, os.O_RDWR | os.O_DIRECT)
    units = os.lseek(fd, 0, os.SEEK_END) // 4096
    buffer = mmap.mmap(-1, 1 << 20)
    pages = apart(arguments.read_kb // 4) if arguments.read_kb else None
    rng = random.Random(arguments.seed)
    sizes = [k for k in (1, 2, 4, 16, 64, 256) if 4 * k <= arguments.max_kb]
    rows = np.zeros((arguments.n, 3), np.int64)
    for row in rows:
        if rng.random() < arguments.write_share:
            for _ in range(rng.randrange(1, 40)):
                n = rng.choice(sizes)
                part = memoryview(buffer)[: n * 4096]
                os.pwritev(fd, [part], rng.randrange(units - n + 1) * 4096)
            if rng.random() < 0.5:
                time.sleep(rng.random() * 0.02)
        n = arguments.read_kb // 4 if arguments.read_kb else rng.choice(sizes)
        first = rng.randrange(units - n + 1)
        if arguments.oracle:
            question = bytearray(ORACLE.pack(first * 8, n * 8, 0, 0))
            fcntl.ioctl(fd, FLASHSIM_IOC_ORACLE, question)
            row[2] = ORACLE.unpack(question)[3]
        parts = pages or [memoryview(buffer)[: n * 4096]]
        row[0] = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        os.preadv(fd, parts, first * 4096)
        row[1] = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - row[0]
    np.save(arguments.out, rows)


main()

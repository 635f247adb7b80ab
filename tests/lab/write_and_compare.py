# SPDX-License-Identifier: MIT
"""Runs in the guest: write a file, read it back, say which 4 KiB blocks differ.

    write_and_compare.py FILE BLOCKS [--no-write] [--allocate-only]

Prints one JSON object: the number of damaged blocks, the first and the last
three of them (counted from 1), whether they are evenly spaced, and a hash of what
was read. All I/O is direct, sequential, 1 MiB at a time.
"""

import hashlib
import json
import mmap
import os
import sys

import numpy as np

BLOCK = 4096
CHUNK_BLOCKS = 256


def content(first_block: int, out: np.ndarray) -> np.ndarray:
    """Return the expected content of the file as uint64 [n, 512]: unique blocks without zeros."""
    block = np.arange(first_block, first_block + len(out), dtype=np.uint64)[:, None]
    word = np.arange(BLOCK // 8, dtype=np.uint64)[None, :]
    return np.bitwise_xor(
        block * np.uint64(0x9E3779B97F4A7C15), word * np.uint64(0xBF58476D1CE4E5B9) + 1, out=out
    )


def main() -> None:
    path, n_blocks = sys.argv[1], int(sys.argv[2])
    if "--allocate-only" in sys.argv:
        fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        os.posix_fallocate(fd, 0, n_blocks * BLOCK)
        os.fsync(fd)
        return
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    # Everything is computed in place: fresh memory for every chunk would cost the guest more, in
    # page faults, than the rest of this program.
    buffer = mmap.mmap(-1, CHUNK_BLOCKS * BLOCK)
    data = np.frombuffer(buffer, np.uint64).reshape(CHUNK_BLOCKS, -1)
    expected = np.empty_like(data)
    differs = np.empty(data.shape, np.bool_)
    chunks = [(k, min(CHUNK_BLOCKS, n_blocks - k)) for k in range(0, n_blocks, CHUNK_BLOCKS)]
    if "--no-write" not in sys.argv:
        for first, n in chunks:
            content(first, data[:n])
            assert os.pwrite(fd, memoryview(buffer)[: n * BLOCK], first * BLOCK) == n * BLOCK
    digest = hashlib.sha256()
    damaged = []
    for first, n in chunks:
        assert os.preadv(fd, [memoryview(buffer)[: n * BLOCK]], first * BLOCK) == n * BLOCK
        digest.update(data[:n])
        np.not_equal(data[:n], content(first, expected[:n]), out=differs[:n])
        damaged.append(np.flatnonzero(differs[:n].any(axis=1)) + first + 1)
    blocks = np.concatenate(damaged)
    steps = np.unique(np.diff(blocks)).tolist()
    print(
        json.dumps(
            {
                "damaged": len(blocks),
                "first": blocks[:3].tolist(),
                "last": blocks[-3:].tolist(),
                "steps": steps,
                "sha256": digest.hexdigest(),
            }
        )
    )


main()

# SPDX-License-Identifier: MIT
"""Read random blocks of the replicas REPLICA[=MODEL] ... with four threads into numpy arrays."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from linnapp.replicas import Replicas

BLOCK = 4096
READS = 1000

given = [argument.partition("=")[::2] for argument in sys.argv[1:]]
paths, models = [path for path, _ in given], [model or None for _, model in given]


def read_some(array: Replicas, seed: int) -> int:
    """Read random blocks and return their number of bytes."""
    offsets = np.random.default_rng(seed).integers(0, array.size // BLOCK, READS) * BLOCK
    block = np.empty(BLOCK // 8, np.uint64)
    return sum(array.preadinto(block, int(offset)) for offset in offsets)


try:
    with Replicas(paths, models) as array, ThreadPoolExecutor() as threads:
        n = sum(threads.map(lambda seed: read_some(array, seed), range(4)))
        stats = array.stats()
except OSError as error:
    sys.exit(f"read_replicas.py: {error.strerror}")
print(f"{n} bytes, {stats.redirected} of {stats.reads} reads redirected, {stats.errors} errors")

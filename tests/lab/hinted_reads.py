# SPDX-License-Identifier: MIT
"""Submit hinted reads of a drive, one after the other: DEV COUNT."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import time

RWF_LATCRIT = 0x8000

device, count = sys.argv[1], int(sys.argv[2])
drive = os.open(device, os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 4096)
for i in range(count):
    with contextlib.suppress(OSError):  # revoked
        os.preadv(drive, [buffer], i % 1000 * 4096, RWF_LATCRIT)
    time.sleep(0.001)

# SPDX-License-Identifier: MIT
"""``region_ask.py DRIVE``: print in how many of the drive's 64 regions a read would be slow."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time

import ask

LOOK, AT = 1, 2

#: Not a multiple of a read's latency, so that the other program has one in flight.
PAUSE_S = 130e-6


def is_slow(fd: int, page: int) -> bool:
    """Return true if the drive's model predicts a slow read there."""
    time.sleep(PAUSE_S)
    question = struct.pack("<4I", LOOK | AT, 1, 4096, 0) + struct.pack("<i3I", fd, 0, 0, page)
    buffer = ctypes.create_string_buffer(question, len(question))
    ask.call(fd, ctypes.addressof(buffer))
    flags = struct.unpack_from("<I", buffer.raw, 16 + 8)[0]
    return bool(flags & ask.SLOW)


def main() -> None:
    fd = os.open(sys.argv[1], os.O_RDONLY)
    print(sum(is_slow(fd, 2 * region) for region in range(64)), "of 64 regions")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""The ioctl BLKEXPECT for tests in the guest, implemented again on purpose.

As a program:

ask.py FILE...              print the best drives and the state of each, or the error; a number is a
                            descriptor
ask.py probes COUNT FILE    query about reads of 128 KiB, send none, and print how often the answer
                            is to probe the drive
ask.py regions FILE         print in how many of the drive's 64 regions a read is predicted slow
ask.py removed STAYS GOES   query both drives until the second, which stays open, is removed
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

#: _IOWR(0x12, 160, 16 bytes)
BLKEXPECT = 3 << 30 | 16 << 16 | 0x12 << 8 | 160
LOOK, AT = 1, 2
SLOW, STALE, PROBE = 1, 2, 4
#: In the order of their numbers.
KNOWN = ("no policy", "off", "no model", "gone", "verdict", "latency")
#: A prediction must be lower by this percentage to count.
MARGIN_PERCENT = 25

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ioctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p]


@dataclass(frozen=True)
class Drive:
    """The reported state of a drive."""

    known: str
    flags: int = 0
    latency_us: int = 0


@dataclass(frozen=True)
class Answer:
    """The best drives, and the whole answer."""

    best: set[int]
    drives: tuple[Drive, ...]


def call(fd: int, address: int | None) -> None:
    """Make the system call; raise OSError if it fails."""
    if _libc.ioctl(fd, BLKEXPECT, address) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def packed(
    fds: Sequence[int], size: int = 4096, flags: int = 0, n: int | None = None, page: int = 7
) -> bytes:
    """Return a packed query; fields of the answer are filled with garbage."""
    head = struct.pack("<4I", flags, len(fds) if n is None else n, size, 0xAAAAAAAA)
    return head + b"".join(struct.pack("<i3I", fd, 7, 7, page) for fd in fds)


def ask(
    fds: Sequence[int],
    size: int = 4096,
    flags: int = 0,
    n: int | None = None,
    at: int | None = None,
    page: int = 7,
) -> Answer:
    """Query on the first of the descriptors or on `at`."""
    buffer = ctypes.create_string_buffer(packed(fds, size, flags, n, page), 16 + 16 * len(fds))
    call(fds[0] if at is None else at, ctypes.addressof(buffer))
    best = struct.unpack_from("<I", buffer.raw, 12)[0]
    drives = []
    for k, fd in enumerate(fds):
        same, known, predicts_slow, latency_us = struct.unpack_from("<i3I", buffer.raw, 16 + 16 * k)
        assert same == fd
        drives.append(Drive(KNOWN[known], predicts_slow, latency_us))
    answer = Answer({k for k in range(32) if best >> k & 1}, tuple(drives))
    assert answer.best == chosen(answer.drives), answer
    return answer


def chosen(drives: Sequence[Drive]) -> set[int]:
    """Return the drives that should be best according to the state of each."""
    present = {k: drive for k, drive in enumerate(drives) if drive.known != "gone"}
    to_look_at = {k for k, drive in present.items() if drive.flags & PROBE}
    if to_look_at:
        return to_look_at
    if all(drive.known == "latency" for drive in present.values()):
        us = {k: drive.latency_us for k, drive in present.items()}
        return {k for k in us if us[k] * (100 - MARGIN_PERCENT) <= min(us.values()) * 100}
    fast = {k for k, drive in present.items() if not drive.flags & SLOW}
    return fast or set(present)


def error_of(*arguments: object, **keywords: object) -> str:
    """Return the name of the error that the query fails with."""
    try:
        ask(*arguments, **keywords)  # type: ignore[arg-type]
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "none"


def show(*paths: str) -> None:
    fds = [int(path) if path.isdigit() else os.open(path, os.O_RDONLY) for path in paths]
    try:
        answer = ask(fds)
    except OSError as error:
        print(errno.errorcode[error.errno or 0])
        return
    print(*sorted(answer.best))
    for drive in answer.drives:
        print(drive.known, drive.flags, drive.latency_us)


def probes(count: str, path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    print(sum(bool(ask([fd], 131072).drives[0].flags & PROBE) for _ in range(int(count))))


def regions(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    slow = 0
    for region in range(64):
        # Not a multiple of a read's latency, so that the other program has one in flight.
        time.sleep(130e-6)
        slow += bool(ask([fd], flags=LOOK | AT, page=2 * region).drives[0].flags & SLOW)
    print(slow, "of 64 regions")


def removed(stays_name: str, goes_name: str) -> None:
    stays, goes = (os.open(f"/dev/{name}", os.O_RDONLY) for name in (stays_name, goes_name))
    while Path("/sys/block", goes_name).exists():
        ask([stays, goes])
        ask([goes, stays])
        time.sleep(0.0003)
    for fds in ([stays, goes], [goes, stays]):
        answer = ask(fds)
        assert answer.drives[fds.index(goes)] == Drive("gone"), answer
        assert answer.best == {fds.index(stays)}, answer


if __name__ == "__main__":
    ways = {"probes": probes, "regions": regions, "removed": removed}
    if sys.argv[1] in ways:
        ways[sys.argv[1]](*sys.argv[2:])
    else:
        show(*sys.argv[1:])

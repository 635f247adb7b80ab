# SPDX-License-Identifier: MIT
"""What recording a drive with blktrace takes of each I/O: reads of one place, with and without."""

from __future__ import annotations

import dataclasses
import fcntl
import mmap
import os
import statistics
import struct
import time
from pathlib import Path
from typing import Any

from linnapp.errors import DeviceError
from linnapp.files import AnyPath
from linnapp.signals import signals_held
from linnapp.trace.recording import (
    ACTIONS,
    BLKTRACE_START,
    BLKTRACE_STOP,
    BLKTRACE_TEARDOWN,
    check_can_trace,
    is_traced,
)

#: Turns, each so many reads with and as many without.
TURNS, READS = 20, 5
#: Of as many differences in order, those with the median between them in 95.9 % of all cases: how
#: often 20 coins come up heads at least six times, and tails.
_LOW, _HIGH = 5, 14

# linux/blktrace_api.h
_SETUP = 0xC0481273
_SETUP_ARGUMENT = struct.Struct("32sHxxII4xQQI4x")
_ACTION_BITS = {"queue": 1 << 4, "requeue": 1 << 5, "issue": 1 << 6, "complete": 1 << 7}
#: More than these reads fill; nobody empties it.
_BUFFER_BYTES, _BUFFERS = 64 << 10, 2


@dataclasses.dataclass(frozen=True)
class RecordingCost:
    """What it takes, in us."""

    #: Whose first 4 KiB were read.
    drive: str
    #: `us`, `low_us`, `high_us`: by how much a read took longer while it was recorded: median over
    #: turns, 95 % interval.
    us: float
    low_us: float
    high_us: float
    #: What it took without; median.
    read_us: float

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low_us > 0 or self.high_us < 0

    def to_json(self) -> dict[str, Any]:
        """All, and of how many reads."""
        return {
            **dataclasses.asdict(self),
            "reads": 2 * TURNS * READS,
            "beyond_noise": self.is_beyond_noise,
        }


def of_turns(drive: str, with_ns: list[list[int]], without_ns: list[list[int]]) -> RecordingCost:
    """What it takes, from the reads of ``TURNS`` turns while they were recorded and while not."""
    medians = [
        (statistics.median(recorded), statistics.median(bare))
        for recorded, bare in zip(with_ns, without_ns, strict=True)
    ]
    longer_us = sorted((recorded - bare) / 1e3 for recorded, bare in medians)
    return RecordingCost(
        drive,
        statistics.median(longer_us),
        longer_us[_LOW],
        longer_us[_HIGH],
        statistics.median(bare for _, bare in medians) / 1e3,
    )


def measure(device: AnyPath) -> RecordingCost:
    """Read a drive's first 4 KiB again and again, past the page cache, recorded or not.

    In turn, so that what else the machine does meets both. Nothing is written, and what was
    recorded is thrown away. The reader is not there: what it takes is of another processor.
    """
    device = Path(device)
    check_can_trace([device])
    if is_traced(device):
        raise DeviceError(f"{device}: somebody else traces it")
    try:
        with _Reader(device) as reader:
            with_ns: list[list[int]] = []
            without_ns: list[list[int]] = []
            for turn in range(TURNS):
                # Whoever comes second finds warmer caches: each in its turn.
                for recorded in (False, True) if turn % 2 else (True, False):
                    (with_ns if recorded else without_ns).append(reader.times_ns(recorded))
    except OSError as error:
        raise DeviceError(f"{device}: {error.strerror}") from error
    found = of_turns(device.resolve().name, with_ns, without_ns)
    if not found.read_us:
        raise DeviceError(f"{device}: the machine's clock shows no time while it is read")
    return found


class _Reader:
    """Reads the first 4 KiB of a drive."""

    def __init__(self, device: Path) -> None:
        # Whole sectors of all drives but those with larger ones, which refuse it.
        self._buffer = mmap.mmap(-1, 4096)
        self._fd = os.open(device, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._buffer.close()

    def times_ns(self, recorded: bool) -> list[int]:
        """What ``READS`` reads took, after one that does not count."""
        if not recorded:
            return self._read()
        mask = sum(_ACTION_BITS[action] for action in ACTIONS)
        setup = _SETUP_ARGUMENT.pack(b"", mask, _BUFFER_BYTES, _BUFFERS, 0, 0, 0)
        # Otherwise the kernel would go on recording.
        with signals_held():
            fcntl.ioctl(self._fd, _SETUP, setup)
            try:
                fcntl.ioctl(self._fd, BLKTRACE_START)
                times_ns = self._read()
                fcntl.ioctl(self._fd, BLKTRACE_STOP)
            finally:
                fcntl.ioctl(self._fd, BLKTRACE_TEARDOWN)
        return times_ns

    def _read(self) -> list[int]:
        times_ns = []
        for _ in range(READS + 1):
            start = time.perf_counter_ns()
            os.preadv(self._fd, [self._buffer], 0)
            times_ns.append(time.perf_counter_ns() - start)
        return times_ns[1:]

# SPDX-License-Identifier: MIT
"""Record NVMe multipath drives, whose requests are served by paths that have no node for blktrace.

The kernel's tracer "blk" traces disks without a node, too. While it runs, the events of all traced
disks, including those that blktrace has set up, go into the kernel's trace buffer instead of
blktrace's files. They are read from ``trace_pipe`` as binary events, and events of a path become
events of its head.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from linnapp.drive.sysfs import nvme_paths, sysfs_root
from linnapp.drive.tracefs import tracer_of_disks
from linnapp.errors import DeviceError
from linnapp.files import os_errors

#: ``struct blk_io_trace``, without its data.
_EVENT = struct.Struct("=IIQQIIIIIHH")
_MAGIC = 0x65617407
_LOST = re.compile(rb"CPU:\d+ \[LOST (?:(\d+) )?EVENTS\]\n")
#: From linux/blktrace_api.h: an event that is not of an I/O, and a bio passed on to another disk.
_NOTIFY = 1 << 26
_REMAP = 15
#: The data of a remap: the numbers of the disk that the bio comes from, and of its new disk.
_REMAP_DATA = struct.Struct(">IIQ")

#: Size of the kernel's buffer for each CPU: a second at 100,000 IOPS.
_BUFFER_KIB = 32768


def split_events(
    data: bytes, numbers: Mapping[int, str]
) -> tuple[dict[str, list[bytes]], Counter[str]]:
    """Divide binary events of the kernel's trace buffer by drive.

    Parameters
    ----------
    data : bytes
        Content of ``trace_pipe``.
    numbers : mapping
        The name of each recorded drive by its device number.

    Returns
    -------
    dict
        For each drive, its events as in a file of blktrace; those of paths are their head's.
    Counter
        For each drive, the number of events that were lost. It is not known whose events were
        lost, so that it is the total for each of them.
    """
    heads = dict.fromkeys(numbers, 0) | {number: number for number in numbers}
    found: dict[str, list[bytes]] = {name: [] for name in numbers.values()}
    sequences: Counter[tuple[str, int]] = Counter()
    lost, place = 0, 0
    for events, begin, end in _runs(data):
        lost += events
        place = begin
        while place + _EVENT.size <= end:
            _, _, time_ns, sector, size, action, pid, device, cpu, error, n = _EVENT.unpack_from(
                data, place
            )
            place += _EVENT.size + n
            if action & 0xFFFF == _REMAP and n >= _REMAP_DATA.size:
                source, target, _ = _REMAP_DATA.unpack_from(data, place - n)
                if source in numbers:
                    heads[target] = source
                continue
            head = heads.get(device)
            if head is None or action & _NOTIFY:
                continue
            name = numbers[head]
            sequences[name, cpu] += 1
            found[name].append(
                _EVENT.pack(
                    *(_MAGIC, sequences[name, cpu], time_ns, sector, size, action, pid, head),
                    *(cpu, error, 0),
                )
            )
    return found, Counter(dict.fromkeys(found, lost))


def _runs(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield runs of events: the number of events lost before it, its begin and its end."""
    begin, lost = 0, 0
    for mark in _LOST.finditer(data):
        yield lost, begin, mark.start()
        begin, lost = mark.end(), int(mark[1] or 1)
    yield lost, begin, len(data)


class PathRecorder:
    """Records drives with the tracer "blk" while a block runs; blktrace has set up their nodes."""

    def __init__(self, drives: Sequence[str], paths: Sequence[str], scratch: Path) -> None:
        self._drives = drives
        self._paths = paths
        self._scratch = scratch
        self._spool = scratch / "paths.blktrace.events"
        self._stopping = threading.Event()

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record until the block ends, then write the files that blktrace would have written."""
        with tracer_of_disks(self._paths, buffer_kib=_BUFFER_KIB) as pipe:
            reader = threading.Thread(target=self._read, args=(pipe,), daemon=True)
            reader.start()
            try:
                yield
            finally:
                self._stopping.set()
                reader.join()

    def _read(self, pipe: int) -> None:
        end = math.inf
        with self._spool.open("wb", buffering=0) as spool:
            while time.monotonic() < end:
                if self._stopping.is_set() and end == math.inf:
                    # Read what is in the buffer; under load it never becomes empty.
                    end = time.monotonic() + 1
                select.select([pipe], [], [], 0.1)
                try:
                    spool.write(os.read(pipe, 1 << 20))
                except BlockingIOError:
                    if end < math.inf:
                        return

    def write_files(self) -> dict[str, int]:
        """Replace the files of blktrace; return the number of lost events for each drive."""
        numbers = {}
        for name in self._drives:
            path = sysfs_root() / "block" / name / "dev"
            with os_errors(path):
                major, minor = map(int, path.read_text().split(":"))
            numbers[major << 20 | minor] = name
        found, lost = split_events(self._spool.read_bytes(), numbers)
        for name, events in found.items():
            for old in self._scratch.glob(f"{name}.blktrace.*"):
                old.unlink()
            (self._scratch / f"{name}.blktrace.0").write_bytes(b"".join(events))
        self._spool.unlink()
        return dict(lost)


def path_recorder(devices: Sequence[Path], scratch: Path) -> PathRecorder | None:
    """Return a recorder if any of several drives is an NVMe multipath drive, otherwise None."""
    drives = [device.resolve().name for device in devices]
    paths = []
    for name in drives:
        if (sysfs_root() / "block" / name / "mq").is_dir():
            continue
        paths += nvme_paths(name)
    for path in paths:
        if not (sysfs_root() / "block" / path / "trace" / "enable").exists():
            raise DeviceError(
                f"{path}: is a path to an NVMe drive, and this kernel cannot trace it "
                "(CONFIG_BLK_DEV_IO_TRACE); boot with nvme_core.multipath=N"
            )
    return PathRecorder(drives, paths, scratch) if paths else None

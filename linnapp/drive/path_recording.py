# SPDX-License-Identifier: MIT
"""Record NVMe multipath drives, whose requests are served by paths that have no node for blktrace.

The kernel's tracer "blk" traces disks without a node, too. While it runs, the events of all traced
disks, including those that blktrace has set up, go into the kernel's trace buffer instead of
blktrace's files. They are read from ``trace_pipe`` as binary events, and events of a path become
events of its head.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import select
import struct
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from linnapp.drive.sysfs import device_number, nvme_paths, sysfs_root
from linnapp.drive.tracefs import tracer_of_disks
from linnapp.errors import DeviceError
from linnapp.files import AnyPath

#: ``struct blk_io_trace``, without its data.
_EVENT = struct.Struct("=IIQQIIIIIHH")
#: For a path, the tracer "blk" of Linux 7.3 writes the first part of a ``struct blk_io_trace2``
#: instead, with the same magic number. A remap then does not name the disk that the bio comes from.
_CUT_EVENT = struct.Struct("=IIQQIIQII")
_MAGIC = 0x65617407
_LOST = re.compile(rb"CPU:\d+ \[LOST (?:(\d+) )?EVENTS\]\n")
#: The first bytes of an event, and of an event or such a line.
_BEGIN = struct.pack("=I", _MAGIC)
_START = re.compile(re.escape(_BEGIN) + rb"|CPU:")
#: From linux/blktrace_api.h: an event that is not of an I/O, a bio that is queued, a completion,
#: and a bio passed on to another disk.
_NOTIFY = 1 << 26
_QUEUE = 1
_COMPLETE = 8
_REMAP = 15
#: The data of a remap: the numbers of the disk that the bio comes from, and of its new disk.
_REMAP_DATA = struct.Struct(">IIQ")

_CHUNK_BYTES = 16 << 20

#: Size of the kernel's buffer for each CPU: a second at 100,000 IOPS.
_BUFFER_KIB = 32768


def split_events(
    stream: BinaryIO,
    numbers: Mapping[int, str],
    heads: Collection[int],
    files: Mapping[str, BinaryIO],
) -> int:
    """Divide binary events of the kernel's trace buffer by drive; return the number of lost events.

    `stream` is the content of ``trace_pipe``, and `numbers` has the name of each recorded drive by
    its device number. `heads` are the numbers of those that are heads. Their own completions are
    left out: the driver reports one for each request of a path, in addition to the completion of
    that request. The file of each drive receives its events as in a file of blktrace. Events of a
    path become those of its head.

    Linux 7.3 cuts off the events of paths, and writes up to 64 KiB of other memory after each event
    of a disk that blktrace has set up. A cut remap does not name its head: it is the one at which
    the same CPU has just queued a bio with the same sector. Cut completions have no error.
    """
    drives = {number: number for number in numbers}
    sequences: Counter[tuple[int, int]] = Counter()
    #: The last bio that each CPU queued at a head: its sector and the head.
    queued: dict[int, tuple[int, int]] = {}
    data, lost = b"", 0
    # An event is complete only if another follows. At the end of the stream, this takes its place.
    for more in itertools.chain(iter(lambda: stream.read(_CHUNK_BYTES), b""), [_BEGIN]):
        data += more
        place = 0
        events: dict[int, list[bytes]] = {number: [] for number in numbers}
        while len(data) - place >= _EVENT.size + len(_BEGIN):
            if mark := _LOST.match(data, place):
                lost += int(mark[1] or 1)
                place = mark.end()
                continue
            _, _, time_ns, sector, size, action, pid, device, cpu, error, n = _EVENT.unpack_from(
                data, place
            )
            if is_cut := device == 0:
                _, _, _, _, size, pid, action, device, cpu = _CUT_EVENT.unpack_from(data, place)
                error, n = 0, 0
            end = _end_of_event(data, place, n)
            if end is None:
                break
            what, begin, place = action & 0xFFFF, place + _EVENT.size, end
            if what == _QUEUE and device in heads:
                queued[cpu] = sector, device
            if what == _REMAP and (is_cut or n >= _REMAP_DATA.size):
                if is_cut:
                    queued_sector, head = queued.get(cpu, (-1, 0))
                    source, target = head if queued_sector == sector else 0, device
                else:
                    source, target, _ = _REMAP_DATA.unpack_from(data, begin)
                if source in numbers:
                    drives[target] = source
                continue
            drive = drives.get(device)
            if drive is None or action & _NOTIFY or (what == _COMPLETE and device in heads):
                continue
            sequences[drive, cpu] += 1
            sequence = sequences[drive, cpu]
            events[drive].append(
                _EVENT.pack(
                    *(_MAGIC, sequence, time_ns, sector, size, action, pid, drive, cpu, error, 0)
                )
            )
        data = data[place:]
        for number, name in numbers.items():
            files[name].write(b"".join(events[number]))
    return lost


def _end_of_event(data: bytes, place: int, n: int) -> int | None:
    """Return where the next event begins, after one with `n` bytes of data; None if unknown yet."""
    end = place + _EVENT.size + n
    if len(data) < end + len(_BEGIN):
        return None
    if _START.match(data, end):
        return end
    # Linux 7.3 wrote other memory in between.
    start = _START.search(data, place + _EVENT.size)
    return start.start() if start else None


class PathRecorder:
    """Records drives with the tracer "blk" while a block runs; blktrace has set up their nodes."""

    def __init__(self, drives: Sequence[str], paths: Sequence[str], scratch: AnyPath) -> None:
        self._drives = drives
        self._paths = paths
        self._scratch = Path(scratch)
        self._spool = self._scratch / "paths.blktrace.events"
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
        """Replace the files of blktrace; return the number of lost events for each drive.

        It is not known whose events were lost, so that it is the total for each drive.
        """
        numbers = {}
        for name in self._drives:
            numbers[device_number(name)] = name
        with contextlib.ExitStack() as stack:
            spool = stack.enter_context(self._spool.open("rb"))
            files = {}
            for name in self._drives:
                for old in self._scratch.glob(f"{name}.blktrace.*"):
                    old.unlink()
                path = self._scratch / f"{name}.blktrace.0"
                files[name] = stack.enter_context(path.open("wb"))
            heads = [number for number, name in numbers.items() if nvme_paths(name)]
            lost = split_events(spool, numbers, heads, files)
        self._spool.unlink()
        return dict.fromkeys(self._drives, lost)


def path_recorder(devices: Sequence[AnyPath], scratch: AnyPath) -> PathRecorder | None:
    """Return a recorder if any of several drives is an NVMe multipath drive, otherwise None."""
    drives = [Path(device).resolve().name for device in devices]
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

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
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from linnapp.drive.sysfs import device_number, nvme_paths, sysfs_root
from linnapp.drive.tracefs import tracer_of_disks
from linnapp.errors import DeviceError
from linnapp.files import AnyPath, explain_os_error

#: ``struct blk_io_trace``, without its data.
_EVENT = np.dtype([
    *(("magic", "u4"), ("sequence", "u4"), ("time_ns", "u8"), ("sector", "u8"), ("bytes", "u4")),
    *(("action", "u4"), ("pid", "u4"), ("device", "u4"), ("cpu", "u4"), ("error", "u2")),
    ("data_bytes", "u2"),
])  # fmt: skip
#: For a path, the tracer "blk" of Linux 7.3 writes the first part of a ``struct blk_io_trace2``
#: instead, with the same magic number. As an event, it has the device number 0. A remap then does
#: not name the disk that the bio comes from.
_CUT_EVENT = np.dtype([
    *(("magic", "u4"), ("sequence", "u4"), ("time_ns", "u8"), ("sector", "u8"), ("bytes", "u4")),
    *(("pid", "u4"), ("action", "u8"), ("device", "u4"), ("cpu", "u4")),
])  # fmt: skip
#: The data of a remap: the numbers of the disk that the bio comes from and of its new disk, and the
#: sector on the former.
_REMAP_DATA = np.dtype([("source", ">u4"), ("target", ">u4"), ("sector", ">u8")])
_MAGIC = 0x65617407
#: The first bytes of an event.
_BEGIN = struct.pack("=I", _MAGIC)
#: A line that the kernel writes in place of lost events.
_LOST = re.compile(rb"CPU:\d+ \[LOST (?:(\d+) )?EVENTS\]\n")
_MAX_LINE_BYTES = 64
#: From linux/blktrace_api.h: an event that is not of an I/O, a bio that is queued, a completion,
#: and a bio passed on to another disk.
_NOTIFY = 1 << 26
_QUEUE = 1
_COMPLETE = 8
_REMAP = 15

_CHUNK_BYTES = 16 << 20

#: Size of the kernel's buffer for each CPU: a second at 100,000 IOPS.
_BUFFER_KIB = 32768

Integers = npt.NDArray[np.int64]


def split_events(
    stream: BinaryIO,
    numbers: Mapping[int, str],
    heads: Collection[int],
    files: Mapping[str, BinaryIO],
) -> int:
    """Divide binary events of the kernel's trace buffer by drive; return the number of lost events.

    The events of a path become those of its head. The completions of a head are left out, because
    the driver reports one for each request of a path, in addition to the completion of that
    request.

    Linux 7.3 cuts off the events of paths, and writes up to 64 KiB of other memory after each event
    of a disk that blktrace has set up. A cut remap does not name its head: it is the one at which
    the same CPU has just queued a bio with the same sector. Cut completions have no error.

    Parameters
    ----------
    stream : binary file
        The content of ``trace_pipe``.
    numbers : mapping of int to str
        Name of each recorded drive by its device number.
    heads : collection of int
        Device numbers of those drives that are heads of NVMe multipath.
    files : mapping of str to binary file
        Receives the events of each drive, by its name, as in a file of blktrace.
    """
    splitter = _Splitter(numbers, heads)
    data, lost = b"", 0
    is_last = False
    while not is_last:
        more = stream.read(_CHUNK_BYTES)
        is_last = not more
        # An event is complete only if another follows. At the end, `_BEGIN` takes its place.
        data += more or _BEGIN
        places, n_lost, end = _find_events(data, is_last=is_last)
        lost += n_lost
        drives, events = splitter.split(data, places)
        for number, name in numbers.items():
            files[name].write(events[drives == number].tobytes())
        data = data[end:]
    return lost


def _find_events(data: bytes, *, is_last: bool) -> tuple[Integers, int, int]:
    """Find the complete events in a part of the trace buffer's content.

    An event ends where its data ends. If neither an event nor a line about lost events begins
    there, Linux 7.3 wrote other memory in between, and the next one is searched for.

    Parameters
    ----------
    data : bytes
        The part, which begins at an event.
    is_last : bool
        False if more data follow, which can contain the rest of a line or of an event.

    Returns
    -------
    int64 array, shape (n,)
        Offsets of the events.
    int
        Number of events that were lost between them.
    int
        Offset of the rest, whose events are not complete yet.
    """
    lines = [(line.start(), line.end(), int(line[1] or 1)) for line in _LOST.finditer(data)]
    line_starts, line_ends, line_counts = np.array(lines, np.int64).reshape(-1, 3).T
    # These are candidates: data and other memory can contain the same bytes.
    starts = np.sort(np.concatenate((_find_begins(data), line_starts)))
    if not len(starts):
        return starts, 0, max(0, len(data) - _MAX_LINE_BYTES)
    is_line = np.isin(starts, line_starts)
    ends = np.full(len(starts), len(data))
    ends[is_line] = line_ends
    is_event = ~is_line & (starts + _EVENT.itemsize <= len(data))
    events = _records_at(data, starts[is_event], _EVENT)
    data_bytes = np.where(events["device"] == 0, 0, events["data_bytes"])
    ends[is_event] = starts[is_event] + _EVENT.itemsize + data_bytes

    following = np.searchsorted(starts, ends)
    is_exact = is_line | (starts[np.minimum(following, len(starts) - 1)] == ends)
    found = np.searchsorted(starts, starts + _EVENT.itemsize)
    following = np.where(is_exact, following, found)
    # At the end of the data, there can be a line of which only the beginning is known.
    needed_bytes = np.where(is_exact | is_last, len(_BEGIN), _MAX_LINE_BYTES)
    is_complete = (is_line | (ends + needed_bytes <= len(data))) & (following < len(starts))
    following = np.where(is_complete, following, np.arange(len(starts)))
    is_reached = _follow(following)
    (stop,) = starts[is_reached & ~is_complete]
    counts = np.zeros(len(starts), np.int64)
    counts[is_line] = line_counts
    is_used = is_reached & is_complete
    return starts[is_used & ~is_line], int(counts[is_used].sum()), int(stop)


def _find_begins(data: bytes) -> Integers:
    """Return the offsets of the magic number."""
    content = np.frombuffer(data, np.uint8)
    n = max(0, len(content) - len(_BEGIN) + 1)
    is_begin = np.ones(n, np.bool_)
    for k, byte in enumerate(_BEGIN):
        is_begin &= content[k : k + n] == byte
    return np.flatnonzero(is_begin)


def _records_at(data: bytes, places: Integers, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return copies of the records of a type at these offsets, shape (n,)."""
    if not len(places):
        return np.empty(0, kind)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), kind.itemsize)
    return np.asarray(windows[places].view(kind)[:, 0])


def _follow(following: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Return true for the rows of the chain that begins at row 0, given the next row of each.

    The last row of the chain is followed by itself.
    """
    is_reached = np.zeros(len(following), np.bool_)
    is_reached[0] = True
    n_before = 0
    # Each round doubles the number of steps: a step of `following` covers twice as many rows.
    while (n_reached := int(np.count_nonzero(is_reached))) > n_before:
        n_before = n_reached
        is_reached[following[is_reached]] = True
        following = following[following]
    return is_reached


class _LatestValues:
    """The latest values that were set for each key, in rows that arrive in parts."""

    def __init__(self, keys: Sequence[int], values: Integers) -> None:
        """Begin with values of shape (keys, n)."""
        self._keys = np.array(keys, np.int64)
        self._values = values

    def update(self, keys: Integers, is_set: npt.NDArray[np.bool_], values: Integers) -> Integers:
        """Return the values that are valid for the key of each row, shape (rows, n); -1 without.

        The rows with `is_set` set the values of their key from then on.
        """
        n_before = len(self._keys)
        keys = np.concatenate((self._keys, keys))
        values = np.concatenate((self._values, values))
        is_set = np.concatenate((np.ones(n_before, np.bool_), is_set))
        # Rows of the same key are neighbours in this order, and remain in order of time.
        order = np.argsort(keys, kind="stable")
        first_of_key = np.searchsorted(keys[order], keys[order])
        latest = np.maximum.accumulate(np.where(is_set[order], np.arange(len(keys)), -1))
        found = np.full(len(keys), -1)
        found[order] = np.where(latest >= first_of_key, order[latest], -1)
        rows = np.flatnonzero(is_set)[::-1]
        self._keys, newest = np.unique(keys[rows], return_index=True)
        self._values = values[rows[newest]]
        found = found[n_before:]
        return np.where(found[:, np.newaxis] < 0, -1, values[found])


class _Splitter:
    """Assigns events to drives, part by part; see :func:`split_events`."""

    def __init__(self, numbers: Collection[int], heads: Collection[int]) -> None:
        self._numbers, self._heads = np.array(list(numbers)), np.array(list(heads))
        #: The last bio that each CPU queued at a head: its sector and the head.
        self._queued = _LatestValues([], np.empty((0, 2), np.int64))
        #: The drive that the events of a disk belong to: the disk itself, or the head of a path.
        self._drives = _LatestValues(list(numbers), self._numbers.astype(np.int64)[:, np.newaxis])
        self._sequences: Counter[int] = Counter()

    def split(self, data: bytes, places: Integers) -> tuple[Integers, npt.NDArray[Any]]:
        """Return the drive of each event to keep, and the events, in the order of `places`."""
        events = _records_at(data, places, _EVENT)
        is_cut = events["device"] == 0
        cut = events[is_cut].view(_CUT_EVENT)
        for name in ("bytes", "pid", "action", "device", "cpu"):
            events[name][is_cut] = cut[name]
        events["error"][is_cut] = events["data_bytes"][is_cut] = 0
        kind, is_note = events["action"] & 0xFFFF, (events["action"] & _NOTIFY) != 0
        is_of_head = np.isin(events["device"], self._heads)
        is_remap = (kind == _REMAP) & (is_cut | (events["data_bytes"] >= _REMAP_DATA.itemsize))
        drive = self._find_drives(
            events,
            is_queue=(kind == _QUEUE) & is_of_head & ~is_note,
            is_remap=is_remap,
            whole=_records_at(data, places[is_remap & ~is_cut] + _EVENT.itemsize, _REMAP_DATA),
            is_cut=is_cut,
        )
        is_kept = (drive >= 0) & ~is_remap & ~is_note & ~((kind == _COMPLETE) & is_of_head)
        events, drive = events[is_kept], drive[is_kept]
        events["device"], events["data_bytes"] = drive, 0
        events["sequence"] = self._number(drive, events["cpu"])
        return drive, events

    def _find_drives(
        self,
        events: npt.NDArray[Any],
        *,
        is_queue: npt.NDArray[np.bool_],
        is_remap: npt.NDArray[np.bool_],
        whole: npt.NDArray[Any],
        is_cut: npt.NDArray[np.bool_],
    ) -> Integers:
        """Return the number of the drive that each event belongs to, or -1.

        `whole` is the data of the remaps that are not cut.
        """
        device, sector = (events[name].astype(np.int64) for name in ("device", "sector"))
        queued_sector, head = self._queued.update(
            events["cpu"].astype(np.int64), is_queue, np.stack((sector, device), axis=1)
        ).T
        source, target = np.where(queued_sector == sector, head, -1), device.copy()
        is_whole = is_remap & ~is_cut
        source[is_whole], target[is_whole] = whole["source"], whole["target"]
        # The events of a recorded drive are its own, also if another recorded device is on it.
        is_set = is_remap & np.isin(source, self._numbers) & ~np.isin(target, self._numbers)
        keys = np.where(is_remap, target, device)
        return self._drives.update(keys, is_set, source[:, np.newaxis])[:, 0]

    def _number(self, drive: Integers, cpu: npt.NDArray[np.uint32]) -> Integers:
        """Return the sequence number of each event among those of its drive and CPU, from 1."""
        streams, stream, counts = np.unique(
            (drive.astype(np.uint64) << np.uint64(32)) | cpu,
            return_inverse=True,
            return_counts=True,
        )
        order = np.argsort(stream, kind="stable")
        number = np.empty(len(drive), np.int64)
        number[order] = np.arange(len(drive)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        before = np.array([self._sequences[key] for key in streams.tolist()], np.int64)
        self._sequences.update(dict(zip(streams.tolist(), counts.tolist(), strict=True)))
        return number + before[stream]


class PathRecorder:
    """Records drives with the tracer "blk" while a block runs; blktrace has set up their nodes."""

    def __init__(self, drives: Sequence[str], paths: Sequence[str], scratch: AnyPath) -> None:
        self._drives = drives
        self._paths = paths
        self._scratch = Path(scratch)
        self._spool = self._scratch / "paths.blktrace.events"
        self._stopping = threading.Event()
        #: What ended the reading thread early.
        self._error: OSError | None = None

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
        try:
            with self._spool.open("wb") as spool:
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
        except OSError as error:
            self._error = error

    def write_files(self) -> dict[str, int]:
        """Replace the files of blktrace; return the number of lost events for each drive.

        The number for each drive is the total, because it is not known whose events were lost.

        Raises
        ------
        LinnappError
            If the recording ended early, for example because the disk is full. The files contain
            the events until then.
        """
        numbers = {}
        for name in self._drives:
            numbers[device_number(name)] = name
        with contextlib.ExitStack() as stack:
            # This creates a file if the recording was interrupted before it began.
            spool = stack.enter_context(self._spool.open("a+b"))
            spool.seek(0)
            files = {}
            for name in self._drives:
                for old in self._scratch.glob(f"{name}.blktrace.*"):
                    old.unlink()
                path = self._scratch / f"{name}.blktrace.0"
                files[name] = stack.enter_context(path.open("wb"))
            heads = [number for number, name in numbers.items() if nvme_paths(name)]
            lost = split_events(spool, numbers, heads, files)
        self._spool.unlink()
        if self._error is not None:
            raise explain_os_error(self._error, self._spool)
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

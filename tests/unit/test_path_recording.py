# SPDX-License-Identifier: MIT
"""Events of NVMe paths, as the kernel's trace buffer has them, become recordings of their heads."""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from linnapp.drive import path_recording
from linnapp.drive.path_recording import PathRecorder, split_events
from linnapp.errors import LinnappError
from linnapp.trace.reads import load

HEAD, PATH, OTHER_PATH, DISK = 259 << 20 | 1, 259 << 20, 259 << 20 | 2, 8 << 20
QUEUE, ISSUE, COMPLETE, REMAP = 1, 7, 8, 15
#: Categories: read, and queue, issue or complete.
CATEGORIES = {QUEUE: 0x11, ISSUE: 0x41, COMPLETE: 0x81, REMAP: 0x11}
NOTIFY = 0x400 << 16


def event(
    time_ns: int, action: int, device: int, sector: int, data: bytes = b"", cpu: int = 0
) -> bytes:
    what = action if action & NOTIFY else CATEGORIES[action] << 16 | action
    head = struct.pack(
        "=IIQQIIIIIHH", 0x65617407, 0, time_ns, sector, 4096, what, 1, device, cpu, 0, len(data)
    )
    return head + data


def cut_event(
    time_ns: int, action: int, device: int, sector: int, data: bytes = b"", cpu: int = 0
) -> bytes:
    """Return an event as Linux 7.3 writes it: the first part of a path's, others with a surplus."""
    if device not in (PATH, OTHER_PATH):
        return event(time_ns, action, device, sector, data, cpu) + bytes(range(1, 40))
    what = CATEGORIES[action] << 16 | action
    head = struct.pack("=IIQQIIQII", 0x65617407, 0, time_ns, sector, 4096, 1, what, device, cpu)
    return head + struct.pack("=HH12x", 0, len(data))[: len(data)]


def read(time_ns: int, path: int, sector: int, event: Callable[..., bytes] = event) -> bytes:
    """Return the events of a read of the head that a path serves in 100 us."""
    remap = struct.pack(">IIQ", HEAD, path, sector)
    return (
        event(time_ns, QUEUE, HEAD, sector)
        + event(time_ns + 10, REMAP, path, sector, remap)
        + event(time_ns + 20, ISSUE, path, sector)
        + event(time_ns + 100_015, COMPLETE, HEAD, sector, cpu=1)
        + event(time_ns + 100_020, COMPLETE, path, sector, cpu=1)
    )


def split(text: bytes, numbers: dict[int, str]) -> tuple[dict[str, bytes], int]:
    files = {name: io.BytesIO() for name in numbers.values()}
    lost = split_events(io.BytesIO(text), numbers, [HEAD], files)
    return {name: file.getvalue() for name, file in files.items()}, lost


@pytest.mark.parametrize("chunk_bytes", [100, 1 << 20])
@pytest.mark.parametrize("event", [event, cut_event])
def test_events_of_all_paths_are_a_recording_of_the_head(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    event: Callable[..., bytes],
    chunk_bytes: int,
) -> None:
    monkeypatch.setattr(path_recording, "_CHUNK_BYTES", chunk_bytes)
    text = b"".join(
        read(10**9 + k * 10**6, (PATH, OTHER_PATH)[k % 2], 8 * k, event)
        + event(10**9 + k * 10**6 + 30, QUEUE, DISK, 8 * k)
        for k in range(20)
    )
    text = event(10**9, NOTIFY, HEAD, 0, b"fio\0" * 4) + text
    found, lost = split(text, {HEAD: "nvme0n1", DISK: "sda"})
    assert lost == 0
    assert len(found["sda"]) == 20 * 48
    (tmp_path / "nvme0n1.blktrace.0").write_bytes(found["nvme0n1"])
    table = load(tmp_path / "nvme0n1.blktrace.0")
    assert len(table) == 20 and table.stats["lost_events"] == 0
    assert table.stats["unmatched_completions"] == 0
    assert (table.latency_ns == 100_000).all()
    assert (table.arrival_ns == [10**9 + k * 10**6 for k in range(20)]).all()


def test_lost_events_are_counted_and_the_events_after_them_are_read() -> None:
    text = read(1, PATH, 0) + b"CPU:1 [LOST 17 EVENTS]\n" + read(2, PATH, 8)
    found, lost = split(text, {HEAD: "nvme0n1"})
    assert lost == 17
    assert len(found["nvme0n1"]) == 6 * 48


def test_surplus_after_a_whole_remap_does_not_hide_its_data() -> None:
    path_read = read(1, PATH, 0, lambda *args, **how: event(*args, **how) + bytes(range(1, 40)))
    found, lost = split(path_read, {HEAD: "nvme0n1"})
    assert lost == 0
    assert len(found["nvme0n1"]) == 3 * 48


def test_lost_events_at_the_end_are_counted() -> None:
    found, lost = split(read(1, PATH, 0) + b"CPU:1 [LOST 5 EVENTS]\n", {HEAD: "nvme0n1"})
    assert lost == 5
    assert len(found["nvme0n1"]) == 3 * 48


def test_note_of_a_head_does_not_hide_its_queued_bio() -> None:
    timestamp = NOTIFY | 1  # The number of this note is that of a queued bio.
    queue, *others = (cut_event(1, QUEUE, HEAD, 8), cut_event(2, REMAP, PATH, 8))
    note = event(1, timestamp, HEAD, 0, bytes(8))
    text = queue + note + b"".join(others) + cut_event(3, ISSUE, PATH, 8)
    found, _ = split(text, {HEAD: "nvme0n1"})
    assert len(found["nvme0n1"]) == 2 * 48


def test_head_below_another_recorded_device_keeps_its_events() -> None:
    remap = struct.pack(">IIQ", DISK, HEAD, 0)
    text = event(0, QUEUE, DISK, 0) + event(1, REMAP, HEAD, 0, remap) + read(2, PATH, 0)
    found, _ = split(text, {HEAD: "nvme0n1", DISK: "md0"})
    assert len(found["nvme0n1"]) == 3 * 48 and len(found["md0"]) == 48


def split_one_by_one(text: bytes, numbers: dict[int, str]) -> tuple[dict[str, bytes], int]:
    """Divide events as :func:`split_events` does, in a loop over the events."""
    start_of_next = re.compile(re.escape(struct.pack("=I", 0x65617407)) + rb"|CPU:")
    lost_line = re.compile(rb"CPU:\d+ \[LOST (?:(\d+) )?EVENTS\]\n")
    drives = {number: number for number in numbers}
    sequences: Counter[tuple[int, int]] = Counter()
    queued: dict[int, tuple[int, int]] = {}
    found: dict[str, bytes] = dict.fromkeys(numbers.values(), b"")
    place = lost = 0
    text += struct.pack("=I", 0x65617407)  # It ends the last event.
    while place < len(text):
        if line := lost_line.match(text, place):
            lost += int(line[1] or 1)
            place = line.end()
            continue
        if place + 52 > len(text):
            break
        head = struct.unpack_from("=IIQQIIIIIHH", text, place)
        magic, _, time_ns, sector, size, action, pid, device, cpu, error, n = head
        is_cut = device == 0
        if is_cut:
            size, pid, action, device, cpu = struct.unpack_from("=IIQII", text, place + 24)
            error = n = 0
        what, begin, end = action & 0xFFFF, place + 48, place + 48 + n
        if end + 4 > len(text):
            break
        following = start_of_next.match(text, end) or start_of_next.search(text, begin)
        assert following is not None
        place = following.start()
        if what == QUEUE and device == HEAD:
            queued[cpu] = sector, device
        if what == REMAP:
            if is_cut:
                queued_sector, queued_head = queued.get(cpu, (-1, 0))
                source, target = queued_head if queued_sector == sector else 0, device
            else:
                source, target, _ = struct.unpack_from(">IIQ", text, begin)
            if source in numbers:
                drives[target] = source
            continue
        drive = drives.get(device)
        if drive is None or action & NOTIFY or (what == COMPLETE and device == HEAD):
            continue
        sequences[drive, cpu] += 1
        fields = (sequences[drive, cpu], time_ns, sector, size, action, pid, drive, cpu, error, 0)
        found[numbers[drive]] += struct.pack("=IIQQIIIIIHH", magic, *fields)
    return found, lost


def random_text(rng: random.Random) -> bytes:
    """Return events of several CPUs and disks in random order, with gaps and other memory."""
    parts = []
    for time_ns in range(rng.randrange(400)):
        make = rng.choice((event, cut_event))
        action = rng.choice((QUEUE, ISSUE, COMPLETE, REMAP))
        device = rng.choice((HEAD, PATH, OTHER_PATH, DISK, 9 << 20))
        data = bytes(rng.randrange(256) for _ in range(rng.choice((0, 0, 3, 16))))
        if action == REMAP:
            device = rng.choice((PATH, OTHER_PATH))
            data = struct.pack(">IIQ", rng.choice((HEAD, DISK, 9 << 20)), device, 0)
        if rng.random() < 0.02:
            data = struct.pack("=I", 0x65617407) + data  # It is no event.
        parts.append(make(time_ns, action, device, rng.randrange(4), data, cpu=rng.randrange(3)))
        if rng.random() < 0.02:
            parts.append(b"CPU:%d [LOST %d EVENTS]\n" % (rng.randrange(3), rng.randrange(1, 99)))
        if rng.random() < 0.01:
            parts.append(b"CPU:1 [LOST EVENTS]\n")
    return b"".join(parts)


@pytest.mark.parametrize("chunk_bytes", [64, 1000, 1 << 20])
def test_events_are_divided_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(path_recording, "_CHUNK_BYTES", chunk_bytes)
    numbers = {HEAD: "nvme0n1", DISK: "sda"}
    for seed in range(60):
        text = random_text(random.Random(seed))
        assert split(text, numbers) == split_one_by_one(text, numbers)


def recorder_of(pipe: int, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> PathRecorder:
    """Return the recorder of a drive whose events are read from a descriptor."""
    monkeypatch.setattr(
        path_recording, "tracer_of_disks", lambda *_, **__: contextlib.nullcontext(pipe)
    )
    monkeypatch.setattr(path_recording, "device_number", lambda _: HEAD)
    monkeypatch.setattr(path_recording, "nvme_paths", lambda _: ["nvme0c0n1"])
    return PathRecorder(["nvme0n1"], ["nvme0c0n1"], scratch)


def test_recorder_writes_the_events_of_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_end, write_end = os.pipe2(os.O_NONBLOCK)
    recorder = recorder_of(read_end, tmp_path, monkeypatch)
    with recorder.recording():
        os.write(write_end, read(1, PATH, 0))
    assert recorder.write_files() == {"nvme0n1": 0}
    assert [path.name for path in tmp_path.iterdir()] == ["nvme0n1.blktrace.0"]
    assert (tmp_path / "nvme0n1.blktrace.0").stat().st_size == 3 * 48
    os.close(read_end)
    os.close(write_end)


def test_recorder_reports_the_error_that_ended_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    recorder = recorder_of(folder, tmp_path, monkeypatch)
    with recorder.recording():
        pass
    with pytest.raises(LinnappError, match="Is a directory"):
        recorder.write_files()
    os.close(folder)


def test_recorder_interrupted_before_the_recording_has_no_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = recorder_of(-1, tmp_path, monkeypatch)
    assert recorder.write_files() == {"nvme0n1": 0}

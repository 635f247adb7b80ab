# SPDX-License-Identifier: MIT
"""Events of NVMe paths, as the kernel's trace buffer has them, become recordings of their heads."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from linnapp.drive import path_recording
from linnapp.drive.path_recording import split_events
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

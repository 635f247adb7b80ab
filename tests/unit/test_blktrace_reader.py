# SPDX-License-Identifier: MIT
"""The blktrace reader: matching of events to I/Os, features, and damaged traces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import (
    CGROUP,
    DISCARD,
    EBUSY,
    NOTIFY,
    PASSTHROUGH,
    READ,
    WRITE,
    A,
    C,
    D,
    M,
    Q,
    R,
    TraceBuilder,
    X,
)

from linnapp.errors import LinnappError, TraceError
from linnapp.trace import blktrace
from linnapp.trace.blktrace import COLUMNS, BlktraceReader, IoChunk, TraceStats

RECORDED = Path(__file__).parents[2] / "traces" / "recorded" / "nullblk.blktrace.0"


blk_event = np.dtype(
    {
        "names": ["magic", "time", "sector", "bytes", "action", "device"],
        "offsets": [0, 8, 16, 24, 28, 36],
        "formats": ["u4", "u8", "u8", "u4", "u4", "u4"],
        "itemsize": 48,
    }
)


def read_all(trace: Path, **options: object) -> tuple[IoChunk, TraceStats]:
    reader = BlktraceReader(trace, **options)  # type: ignore[arg-type]
    chunks = list(reader)
    columns = [np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in COLUMNS]
    return IoChunk(*columns), reader.stats


def latencies_us(chunk: IoChunk) -> list[float]:
    return [latency / 1000 for latency in chunk.latency_ns.tolist()]


def test_plain_reads_have_the_documented_features(tmp_path: Path) -> None:
    t = TraceBuilder()
    # Two reads overlap a write of 3 pages (10240 bytes, rounded up).
    t.add(Q, 100, 800, 10240, flags=WRITE)
    t.add(Q, 110, 0, 4096)
    t.add(C, 150, 0, 4096)
    t.add(Q, 160, 8, 512)
    t.add(C, 200, 800, 10240, flags=WRITE)
    t.add(C, 261.9, 8, 512)
    t.add(Q, 300, 16, 4096)
    t.add(C, 310, 16, 4096)
    ios, stats = read_all(t.write(tmp_path / "a.blk"))
    assert ios.pending.tolist() == [3, 4, 4, 1]
    assert latencies_us(ios) == [100, 40, 101.9, 10]
    assert ios.hist_latency_us.tolist() == [[0] * 4, [0] * 4, [0, 0, 0, 40], [0, 0, 40, 101]]
    assert ios.hist_pending.tolist() == [[0] * 4, [0] * 4, [0, 0, 0, 4], [0, 0, 4, 4]]
    assert ios.is_write.tolist() == [True, False, False, False]
    assert (stats["reads"], stats["writes"], stats["missing_completions"]) == (3, 1, 0)


def test_events_of_one_stamp_are_seen_in_their_order(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.add(Q, 10, 0).add(Q, 10, 8).add(Q, 10, 16, 8192)
    t.add(C, 20, 0).add(Q, 20, 24).add(C, 20, 8).add(Q, 20, 32)
    t.add(C, 30, 16, 8192).add(C, 30, 24).add(C, 30, 32)
    ios, _ = read_all(t.write(tmp_path / "a.blk"))
    assert ios.ties_in_order
    assert ios.pending.tolist() == [1, 2, 4, 4, 4]
    assert np.count_nonzero(ios.hist_latency_us, axis=1).tolist() == [0, 0, 0, 1, 2]


def test_failed_read_is_an_error_not_a_revocation(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.add(Q, 10, 0).add(D, 10, 0).add(C, 20, 0, error=-5)
    t.add(Q, 30, 0).add(D, 30, 0).add(C, 40, 0, error=-EBUSY)  # EBUSY of the drive itself
    t.add(Q, 50, 0).add(D, 50, 0).add(C, 61, 0)
    ios, stats = read_all(t.write(tmp_path / "a.blk"))
    assert (stats["revoked"], stats["errors"]) == (0, 2)
    assert ios.hist_latency_us[-1].tolist() == [0, 0, 0, 0]
    assert ios.is_served_read.tolist() == [False, False, True]


def test_discards_flushes_passthrough_and_notes_are_not_counted(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.add(Q, 10, 0, 65536, flags=WRITE | DISCARD)
    t.add(Q, 11, 0, 0, flags=WRITE)  # an empty flush
    t.add(D, 12, 0, 512, flags=READ | PASSTHROUGH)
    t.add(A, 13, 0, 4096, pdu=bytes(16))
    t.add(0, 13, flags=NOTIFY, pdu=b"fio\0")
    t.add(Q, 14, 0).add(C, 20, 0)
    t.add(C, 30, 0, 65536, flags=WRITE | DISCARD)
    ios, stats = read_all(t.write(tmp_path / "a.blk"))
    assert ios.pending.tolist() == [1]
    assert (stats["remaps"], stats["notes"], stats["not_counted"]) == (1, 1, 4)


def test_reader_accepts_cgroup_ids_and_the_other_byte_order(tmp_path: Path) -> None:
    for order in "<", ">":
        t = TraceBuilder(order)
        t.add(Q | CGROUP, 10, 8, pdu=bytes(8)).add(C | CGROUP, 30, 8, pdu=bytes(8))
        ios, _ = read_all(t.write(tmp_path / "a.blk"))
        assert latencies_us(ios) == [20]
        assert ios.sector.tolist() == [8]


def test_per_cpu_files_are_merged_by_time(tmp_path: Path) -> None:
    t = TraceBuilder()
    for i in range(100):
        t.add(Q, 10 * i, i * 8, cpu=i % 3)
        t.add(C, 10 * i + 25, i * 8, cpu=(i + 1) % 3)
    t.sort()
    merged, _ = read_all(t.write(tmp_path / "one.blk"))
    base = t.write_per_cpu(tmp_path / "many")
    link = tmp_path / "folder" / "link.blktrace.1"
    link.parent.mkdir()
    link.symlink_to(base.with_name("many.blktrace.1"))
    for name in base, base.with_name("many.blktrace.1"), link:
        split, _ = read_all(name)
        for column in COLUMNS:
            assert np.array_equal(getattr(split, column), getattr(merged, column))
    out = tmp_path / "merged.blk"
    assert blktrace.merge(base, out) == 200
    again, _ = read_all(out)
    assert np.array_equal(again.latency_ns, merged.latency_ns)
    base.with_name("many.blktrace.7").write_bytes(base.with_name("many.blktrace.1").read_bytes())
    with pytest.raises(TraceError, match="blktrace.7: contains events of CPU 1, as .*blktrace.1"):
        read_all(base)


def test_recording_without_an_event_is_found_by_its_name(tmp_path: Path) -> None:
    for cpu in range(2):
        (tmp_path / f"x.blktrace.{cpu}").touch()
    assert blktrace.is_blktrace(tmp_path / "x")
    with pytest.raises(TraceError, match="an empty trace"):
        read_all(tmp_path / "x")


def test_out_of_order_events_are_sorted_and_counted(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.add(Q, 10, 0)
    t.add(C, 30, 0)
    t.add(Q, 20, 8)
    t.add(C, 50, 8)
    ios, stats = read_all(t.write(tmp_path / "a.blk"))
    assert ios.pending.tolist() == [1, 2]
    assert stats["out_of_order"] == 1


def test_small_chunks_give_the_same_ios() -> None:
    whole, _ = read_all(RECORDED)
    parts, stats = read_all(RECORDED, chunk_ios=7)
    assert len(whole) == 440 == stats["reads"] + stats["writes"]
    for column in COLUMNS:
        assert np.array_equal(getattr(whole, column), getattr(parts, column))


def test_several_drives_need_a_choice(tmp_path: Path) -> None:
    t = TraceBuilder()
    t.io(10, 20, 0)
    t.io(30, 45, 0, device=(8 << 20) + 16)
    path = t.write(tmp_path / "a.blk")
    with pytest.raises(TraceError, match=r"several drives: 8:0 .* 8:16 .*`device=`"):
        read_all(path)
    ios, _ = read_all(path, device="8:16")
    assert latencies_us(ios) == [15]
    with pytest.raises(TraceError, match=r"no events of 8:32, only events of 8:0 \(3 events\)"):
        read_all(path, device="8:32")


def write_one(path: Path) -> Path:
    """Write a recording of one read of drive 8:0."""
    t = TraceBuilder()
    t.io(10, 20, 0)
    return t.write(path)


@pytest.mark.parametrize("device", ["", "4104:0", "8:1048576", "9999999999:5", "\u0668:0", "0:0"])
def test_invalid_device_numbers_are_refused(tmp_path: Path, device: str) -> None:
    """Truncated to 32 bits, 4104:0 would be 8:0."""
    path = write_one(tmp_path / "a.blk")
    with pytest.raises(TraceError, match=r"^device .* `lsblk` shows"):
        read_all(path, device=device)


def test_file_names_that_are_not_utf8_are_accepted(tmp_path: Path) -> None:
    path = write_one(tmp_path / "a\udcff.blk")
    assert latencies_us(read_all(path)[0]) == [10]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TraceError, match="a\udcff.blk: "):
        read_all(path)


def test_every_truncation_is_an_error_or_allowed(tmp_path: Path) -> None:
    data = RECORDED.read_bytes()[:2000]
    path = tmp_path / "cut.blk"
    boundaries = 0
    for size in range(60, 400):
        path.write_bytes(data[:size])
        try:
            list(BlktraceReader(path))
            boundaries += 1
        except TraceError as error:
            assert f"{path}: truncated: the event at byte" in str(error)
            assert "`allow_truncated=True`" in str(error)
        list(BlktraceReader(path, allow_truncated=True))
    assert 3 <= boundaries <= 8  # only cuts between two events


ONE_IO = TraceBuilder().add(Q, 1, 0).add(C, 2, 0).bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty trace"),
        (b"ab", "not a blktrace file"),
        (b"fio version 3 iolog\n" * 10, "not a blktrace file"),
        (b"\x06tae" + bytes(44), "blktrace version 6"),
        (ONE_IO[:48] + bytes(48), "corrupt at byte 48"),
    ],
)
def test_reader_rejects_a_file_that_is_not_a_recording(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "x.blk"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=f"{path}: .*{message}"):
        list(BlktraceReader(path))


@pytest.mark.parametrize(
    ("size", "sector", "time_us", "message"),
    [
        (1, 0, 2, r"event 2 \(1 bytes at sector 0.*size is not a multiple of 512"),
        (513, 0, 2, r"513 bytes .*size is not a multiple of 512"),
        (512, 2**55 - 1, 2, r"sector 36028797018963967.*sector is too large"),
        (512, 2**64 - 1, 2, "sector is too large"),
        (512, 0, 2**63 / 1000, "time 9223372036854775808 ns.*time is too large"),
    ],
)
def test_reader_rejects_impossible_events(
    tmp_path: Path, size: int, sector: int, time_us: float, message: str
) -> None:
    """The parser once ran forever on a part of one byte."""
    for action in (Q, X, D, C, M, R):
        trace = TraceBuilder().add(Q, 1, 0, 512).add(action, time_us, sector, size)
        path = trace.write(tmp_path / "x")
        with pytest.raises(TraceError, match=message) as caught:
            list(BlktraceReader(path))
        assert str(caught.value).startswith(f"{path}: corrupt: ")


def test_ios_without_completion_take_linear_time(tmp_path: Path) -> None:
    n = 400_000  # in flight at once, all of one sector, then given up one by one
    events = np.zeros(3 * n, blk_event)
    events["magic"] = 0x65617407
    events["bytes"] = 4096
    events["device"] = 8 << 20
    events["action"] = np.repeat([Q | READ, D | READ, M | READ], n)
    events["time"] = np.arange(3 * n)
    events["time"][2 * n :] += 10**11
    events["sector"][2 * n :] = 64
    path = tmp_path / "lost.blk"
    path.write_bytes(events.tobytes())
    # CPU time limit: 20 times the usual time, a tenth of that of a quadratic algorithm.
    code = (
        "import resource, sys; from pathlib import Path; from linnapp.trace.blktrace import *\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"
        "reader = BlktraceReader(Path(sys.argv[1]))\n"
        "print(sum(map(len, reader)), reader.stats['missing_completions'])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=False
    )
    assert result.stdout.split() == [str(n), str(n)], (result.returncode, result.stderr)


def test_reader_names_a_missing_trace_and_a_folder(tmp_path: Path) -> None:
    for name in tmp_path / "no.blk", tmp_path / "no" / "where", tmp_path:
        with pytest.raises(TraceError, match="no such trace|a directory"):
            BlktraceReader(name)


def test_missing_library_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from linnapp.native import declare, load_library

    monkeypatch.setenv("LINNAPP_NATIVE_LIB", str(tmp_path / "none.so"))
    with pytest.raises(LinnappError, match="not built; run `make native`"):
        load_library("liblinnapp_native.so", "LINNAPP_NATIVE_LIB", declare())

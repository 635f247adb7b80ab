# SPDX-License-Identifier: MIT
"""Recordings with missing events are used where they are right, and every command says so.

The reference is the reader's result for the same recording before events are removed, which
test_blktrace_by_hand.py compares with an independent implementation.
"""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blktrace_builder import EBUSY, READ, WRITE, C, D, G, Q, R, TraceBuilder
from click.testing import CliRunner
from replaying import make_drives, replay

from linnapp.cli import cli
from linnapp.errors import TraceError, TraceWarning
from linnapp.learn.fit import read_latencies
from linnapp.learn.options import Recipe
from linnapp.trace.blktrace import (
    COMPLETED,
    DOUBTFUL,
    REVOKED,
    BlktraceReader,
    IoChunk,
    TraceStats,
    merge,
)

pytestmark = pytest.mark.filterwarnings("ignore::linnapp.errors.TraceWarning")

#: Time in us, action, sector and flags of an event.
Event = tuple[float, int, int, int]

EAGAIN = 11


def read(path: Path, **options: Any) -> tuple[IoChunk, TraceStats]:
    """Return a recording's I/Os in one chunk, and its counts."""
    reader = BlktraceReader(path, overdue_us=200, **options)
    (chunk,) = reader
    return chunk, reader.stats


def make_events(
    seed: int, n: int = 1500, pause_us: tuple[int, int] = (200, 900), hot: float = 0.3
) -> list[Event]:
    """Make reads and writes, some of eight hot blocks, some slow."""
    draw = random.Random(seed)
    now, events = 1000.0, []
    for _ in range(n):
        now += draw.uniform(*pause_us)
        sector = 8 * (draw.randrange(8) if draw.random() < hot else draw.randrange(100, 1 << 20))
        flags = WRITE if draw.random() < 0.2 else READ
        latency_us = draw.uniform(60, 120) if draw.random() < 0.97 else draw.uniform(500, 3000)
        times = (now, now + 0.5, now + 1, now + 1 + latency_us)
        events += [(at, a, sector, flags) for at, a in zip(times, (Q, G, D, C), strict=True)]
    return sorted(events)


def write(
    path: Path, events: list[Event], without: set[int] = frozenset(), *, numbered: bool = True
) -> Path:  # fmt: skip
    """Write all events except some; their sequence numbers are missing if `numbered`."""
    trace = TraceBuilder()
    lost = 0
    for i, (us, action, sector, flags) in enumerate(events):
        if i in without:
            lost += numbered
            continue
        trace.add(action, us, sector, flags=flags, lost=lost)
        lost = 0
    return trace.write(path)


def rows_of(chunk: IoChunk) -> dict[tuple[int, int], int]:
    """Return served reads by arrival and sector."""
    rows = np.flatnonzero(chunk.is_served_read).tolist()
    return {(int(chunk.arrival_ns[i]), int(chunk.sector[i])): i for i in rows}


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("rate", "burst"), [(0.0005, 1), (0.003, 1), (0.0005, 20)])
def test_reads_that_are_not_left_out_are_right_when_events_are_lost(
    tmp_path: Path, rate: float, burst: int, seed: int, numbered: bool
) -> None:
    events = make_events(seed)
    whole, stats = read(write(tmp_path / "whole.blk", events))
    assert stats["missing_completions"] == stats["doubtful_reads"] == 0
    draw = random.Random(seed)
    without: set[int] = set()
    for i in range(len(events)):
        if draw.random() < rate:
            without |= set(range(i, min(i + draw.randint(1, burst), len(events))))
    cut, stats = read(write(tmp_path / "cut.blk", events, without, numbered=numbered))
    true, found = rows_of(whole), rows_of(cut)
    assert len(found) > len(true) / 2
    if numbered:
        # Losses at the end of the recording cannot be noticed.
        assert len(without) - stats["lost_events"] in range(burst)
        assert set(found) <= set(true)
    # Without numbers a lost submission makes its read arrive when it is issued, 1 us later.
    wrong = [
        k for k in found if k in true and cut.latency_ns[found[k]] != whole.latency_ns[true[k]]
    ]
    assert not wrong
    if not numbered:
        return
    for name in ("pending", "hist_pending", "hist_latency_us", "features"):
        was, now = getattr(whole, name), getattr(cut, name)
        differ = [k for k in found if not np.array_equal(now[found[k]], was[true[k]])]
        assert len(differ) <= len(found) // 200, name


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("action", [Q, G, D, C])
def test_one_lost_event_of_a_hot_block_spoils_no_later_read(
    tmp_path: Path, action: int, numbered: bool
) -> None:
    events = [
        (i * 10_000.0 + at, a, 64, READ)
        for i in range(1, 300)
        for at, a in ((0, Q), (1, G), (2, D), (82, C))
    ]
    lost = [i for i, event in enumerate(events) if event[1] == action][100]
    chunk, stats = read(write(tmp_path / "hot.blk", events, {lost}, numbered=numbered))
    served = chunk.take(chunk.is_served_read)
    assert set(served.latency_ns.tolist()) == {80_000}
    assert len(served) >= 290
    assert stats["missing_completions"] == (action == C)
    assert stats["lost_events"] == numbered


def test_reads_of_one_block_at_one_time_all_complete(tmp_path: Path) -> None:
    trace = TraceBuilder()
    draw = random.Random(1)
    now = 0.0
    for _ in range(2000):
        now += draw.uniform(1, 250)
        trace.io(now, now + draw.uniform(60, 200) * draw.choice([1, 1, 1, 20]), 64)
    chunk, stats = read(trace.sort().write(tmp_path / "busy.blk"))
    assert chunk.is_served_read.all() and len(chunk) == 2000
    assert stats["missing_completions"] == stats["doubtful_reads"] == stats["lost_events"] == 0


def test_io_that_never_completes_is_load_for_a_short_time(tmp_path: Path) -> None:
    trace = TraceBuilder().add(Q, 0, 8, 65536).add(D, 1, 8, 65536)
    for i in range(1, 20_000):
        trace.io(i * 100, i * 100 + 80, 1000 + i * 8)
    trace.add(C, 2_000_100, 999)
    chunk, stats = read(trace.write(tmp_path / "orphan.blk"))
    late = chunk.arrival_ns > 30_000_000
    assert (chunk.pending[late] == 1).all() and late.sum() > 19_000
    # Only reads that saw it in flight are left out.
    assert stats["missing_completions"] == 1
    assert stats["doubtful_reads"] == np.count_nonzero(chunk.pending[1:] > 1)
    assert stats["doubtful_reads"] < 300


def test_slow_read_keeps_its_latency_when_others_pass_it(tmp_path: Path) -> None:
    trace = TraceBuilder().add(Q, 0, 8).add(D, 1, 8)
    for i in range(1, 40_000):
        trace.io(i * 50, i * 50 + 40, 1000 + i * 8)
    trace.add(C, 1_999_000, 8).sort()
    chunk, stats = read(trace.write(tmp_path / "slow.blk"))
    assert chunk.is_served_read.all()
    assert chunk.latency_ns[0] == 1_998_999_000
    assert stats["missing_completions"] == stats["doubtful_reads"] == 0


@pytest.mark.parametrize("lost", [0, 7])
def test_only_missing_sequence_numbers_are_losses_when_the_numbers_wrap(
    tmp_path: Path, lost: int
) -> None:
    trace = TraceBuilder()
    trace._sequence[0] = 2**32 - 4
    trace.io(0, 80, 0)
    trace.add(Q, 100, 8, lost=lost).add(C, 180, 8)
    chunk, stats = read(trace.write(tmp_path / "wrap.blk"))
    assert stats["lost_events"] == lost
    assert chunk.is_served_read.all() == (not lost)


@pytest.mark.parametrize("error", [EBUSY, EAGAIN, -EBUSY, -EAGAIN])
def test_refusal_belongs_to_the_younger_of_two_reads(tmp_path: Path, error: int) -> None:
    trace = TraceBuilder()
    trace.add(Q, 10, 0).add(G, 10, 0)  # waits in the scheduler
    trace.add(Q, 20, 0).add(C, 21, 0, error=error)
    trace.add(D, 30, 0).add(C, 90, 0)
    chunk, stats = read(trace.write(tmp_path / "a.blk"))
    assert chunk.is_served_read.tolist() == [True, False]
    assert chunk.latency_ns.tolist() == [60_000, 1_000]
    assert bool(chunk.flags[1] & REVOKED) == (abs(error) == EBUSY)
    assert stats["errors"] == (abs(error) == EAGAIN)


def test_reads_of_one_block_are_distinguished_up_to_256(tmp_path: Path) -> None:
    """A drive may have up to CHAIN_LIMIT reads of one block at a time."""
    trace = TraceBuilder()
    for i in range(200):
        trace.add(Q, i, 0).add(G, i, 0)
    for i in range(200):
        trace.add(D, 1000 + i, 0)
    for i in range(200):
        trace.add(C, 2000 + 2 * i, 0)
    chunk, stats = read(trace.write(tmp_path / "deep.blk"))
    assert chunk.latency_ns.tolist() == [(1000 + i) * 1000 for i in range(200)]
    assert chunk.is_served_read.all() and stats["unmatched_completions"] == 0


@pytest.mark.parametrize(("late_ns", "completes"), [(0, True), (1, False)])
def test_io_is_abandoned_after_its_maximum_age_not_at_it(
    tmp_path: Path, late_ns: int, completes: bool
) -> None:
    trace = TraceBuilder().add(Q, 0, 0).add(C, 1_000_000 + late_ns / 1000, 0)
    chunk, stats = read(trace.write(tmp_path / "age.blk"), max_age_s=1)
    assert bool(chunk.flags[0] & COMPLETED) == completes
    assert stats["missing_completions"] == (not completes)


def test_requeued_read_is_refused_while_it_waits(tmp_path: Path) -> None:
    trace = TraceBuilder().add(Q, 0, 0).add(G, 0, 0).add(D, 10, 0).add(R, 20, 0)
    trace.add(C, 30, 0, error=EBUSY)
    chunk, stats = read(trace.write(tmp_path / "back.blk"))
    assert chunk.flags[0] & REVOKED and stats["revoked"] == 1


@pytest.mark.parametrize("numbered", [True, False])
def test_missing_submission_makes_the_issue_the_arrival(tmp_path: Path, numbered: bool) -> None:
    events = [
        (2e6 + i * 1000.0 + at, a, i * 8, READ)
        for i in range(100)
        for at, a in ((0, Q), (1, G), (2, D), (82, C))
    ]
    events.insert(0, (0.0, Q, 999, READ))
    chunk, stats = read(write(tmp_path / "q.blk", events, {201}, numbered=numbered))
    assert stats["reads"] == 101 and stats["unmatched_completions"] == 0
    row = int(np.flatnonzero(chunk.sector == 50 * 8)[0])
    assert chunk.arrival_ns[row] == 2_050_002_000 and chunk.latency_ns[row] == 80_000
    assert chunk.flags[row] & DOUBTFUL


def test_recording_without_submissions_has_arrivals_of_issues(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for i in range(100):
        trace.add(D, i * 1000, i * 8).add(C, i * 1000 + 80, i * 8)
    path = trace.write(tmp_path / "dc.blk")
    chunk, stats = read(path)
    assert chunk.is_served_read.all() and set(chunk.latency_ns.tolist()) == {80_000}
    assert stats["queued"] == stats["doubtful_reads"] == 0
    for command in (("inspect",), ("label", "--trace"), ("layers",)):
        result = CliRunner().invoke(cli, [*command, str(path)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert "it contains no submissions (Q)" in result.output


#: Events (action, time in us, sector, bytes) without submissions, and the reads in them (arrival
#: in us, sector, bytes, latency in us).
NO_SUBMISSIONS = {
    "issued again": (
        [(D, 0, 0, 4096), (D, 9, 0, 4096), (C, 90, 0, 4096)], [(0, 0, 4096, 90)],
    ),
    "issued again after a requeue": (
        [(D, 0, 0, 4096), (R, 5, 0, 4096), (D, 9, 0, 4096), (C, 90, 0, 4096)],
        [(0, 0, 4096, 90)],
    ),
    "issued again, then read again": (
        [(D, 0, 0, 4096), (D, 9, 0, 4096), (C, 90, 0, 4096), (D, 95, 0, 4096), (C, 99, 0, 4096)],
        [(0, 0, 4096, 90), (95, 0, 4096, 4)],
    ),
    "two on the same sectors": (
        [(D, 0, 0, 4096), (D, 9, 0, 4096), (C, 90, 0, 4096), (C, 99, 0, 4096)],
        [(0, 0, 4096, 90), (9, 0, 4096, 90)],
    ),
    "a longer one around": (
        [(D, 0, 8, 4096), (D, 9, 0, 8192), (C, 90, 8, 4096), (C, 99, 0, 8192)],
        [(0, 8, 4096, 90), (9, 0, 8192, 90)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(NO_SUBMISSIONS))
def test_requests_without_submissions_are_counted_once(tmp_path: Path, case: str) -> None:
    events, reads = NO_SUBMISSIONS[case]
    trace = TraceBuilder()
    for event in events:
        trace.add(*event)
    chunk, stats = read(trace.write(tmp_path / "dc.blk"))
    rows = zip(
        (chunk.arrival_ns // 1000).tolist(), chunk.sector.tolist(), chunk.size_bytes.tolist(),
        (chunk.latency_ns // 1000).tolist(), strict=True,
    )  # fmt: skip
    assert list(rows) == reads
    assert stats["missing_completions"] == stats["unmatched_completions"] == 0


def test_hot_block_without_submissions_loses_no_read(tmp_path: Path) -> None:
    """Eight reads of one block are in flight nearly all the time."""
    trace = TraceBuilder()
    for i in range(3000):
        trace.add(D, i * 10, 0).add(C, i * 10 + 83, 0)
    chunk, stats = read(trace.sort().write(tmp_path / "hot.blk"))
    assert set(chunk.latency_ns.tolist()) == {83_000} and len(chunk) == 3000
    assert stats["missing_completions"] == stats["unmatched_completions"] == 0


def test_lost_completion_without_submissions_does_not_lengthen_the_next_read(
    tmp_path: Path,
) -> None:
    trace = TraceBuilder()
    for i in range(100):
        trace.add(D, i * 5000, 0)
        if i != 50:
            trace.add(C, i * 5000 + 80, 0)
    chunk, stats = read(trace.write(tmp_path / "lost.blk"))
    assert set(chunk.latency_ns[chunk.is_served_read].tolist()) == {80_000}
    assert (len(chunk), stats["missing_completions"]) == (100, 1)


def test_merged_reads_that_are_issued_again_keep_their_latencies(tmp_path: Path) -> None:
    """The recording has submissions, but neither merges nor requeues."""
    trace = TraceBuilder().add(Q, 0, 0).add(Q, 1, 8).add(D, 2, 0, 8192).add(D, 9, 0, 8192)
    trace.add(C, 90, 0, 8192)
    chunk, _ = read(trace.write(tmp_path / "merged.blk"))
    served = chunk.take(chunk.is_served_read & (chunk.flags & DOUBTFUL == 0))
    assert served.latency_ns.tolist() == [88_000, 88_000]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ((Q, D), "no completions (C) in it, so there are no latencies; record with"),
        ((C,), "no submissions (Q) or issues (D) in it, so completions (C) have no I/Os; record"),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "layers"])
def test_kinds_of_events_that_were_not_recorded_are_named(
    tmp_path: Path, actions: tuple[int, ...], message: str, command: str
) -> None:
    trace = TraceBuilder()
    for i in range(100):
        for action in actions:
            trace.add(action, i * 1000 + action, i * 8)
    path = trace.write(tmp_path / "part.blk")
    result = CliRunner().invoke(cli, [command, str(path)])
    assert f"linnapp: warning: {path}: {message}" in result.output
    if C not in actions:
        result = CliRunner().invoke(cli, ["label", "--trace", str(path)])
        assert "no completions (C); record with `blktrace -a complete`" in str(result.exception)


def as_version_8(data: bytes, end: str = "<") -> bytes:
    """Convert events of version 7, little-endian and without pdus, to version 8."""
    events = (data[at : at + 48] for at in range(0, len(data), 48))
    out = b""
    for event in events:
        magic, number, ns, sector, size, action, pid, device, cpu, error, _ = struct.unpack(
            "<IIQQIIIIIHH", event
        )
        out += struct.pack(
            f"{end}IIQQIIQIIHH12x",
            *(magic + 1, number, ns, sector, size, pid, action, device, cpu, error, 0),
        )
    return out


@pytest.mark.parametrize("end", ["<", ">"])
def test_version_8_is_read_as_version_7(tmp_path: Path, end: str) -> None:
    old = write(tmp_path / "old.blk", make_events(1))
    new = tmp_path / "new.blk"
    new.write_bytes(as_version_8(old.read_bytes(), end))
    chunk, _ = read(new)
    same, _ = read(old)
    for name in ("arrival_ns", "latency_ns", "sector", "features", "flags"):
        np.testing.assert_array_equal(getattr(chunk, name), getattr(same, name))
    new.write_bytes(new.read_bytes()[:-10])
    with pytest.raises(TraceError, match="truncated: the event at byte .* after 54 bytes"):
        read(new)


@pytest.mark.parametrize("bit", [17, 18, 19, 20, 21, 22])
def test_zone_commands_and_write_zeroes_of_version_8_do_not_count(tmp_path: Path, bit: int) -> None:
    trace = TraceBuilder().add(Q, 0, 0).add(Q, 1, 8, flags=WRITE).add(C, 9, 8, flags=WRITE)
    trace.add(C, 10, 0)
    data = bytearray(as_version_8(trace.bytes()))
    for event in (1, 2):
        at = event * 64 + 32 + (16 + bit) // 8
        data[at] |= 1 << (16 + bit) % 8
    (tmp_path / "z.blk").write_bytes(data)
    chunk, stats = read(tmp_path / "z.blk")
    assert len(chunk) == 1 and stats["not_counted"] == 2


def test_files_of_two_versions_are_refused(tmp_path: Path) -> None:
    data = TraceBuilder().add(Q, 0, 0).add(C, 9, 0).bytes()
    (tmp_path / "x.blktrace.0").write_bytes(data)
    (tmp_path / "x.blktrace.1").write_bytes(b"")
    for other in (as_version_8(data), TraceBuilder(">").add(Q, 0, 0).bytes()):
        (tmp_path / "x.blktrace.2").write_bytes(other)
        with pytest.raises(TraceError, match=r"x.blktrace.2: .* differs from that of .*\.0: "):
            read(tmp_path / "x")
    (tmp_path / "j.blk").write_bytes(data + as_version_8(data))
    with pytest.raises(TraceError, match="version 8 at byte 96, after events of version 7"):
        read(tmp_path / "j.blk")


@pytest.mark.parametrize("n", [20, 3000])
def test_joined_recordings_are_refused_by_every_reader(tmp_path: Path, n: int) -> None:
    data = write(tmp_path / "one.blk", make_events(1, n)).read_bytes()
    joined = tmp_path / "joined.blk"
    joined.write_bytes(data + data)
    words = f"joined.blk: the event at byte {len(data)} is earlier than "
    for command in (
        ["inspect", str(joined)],
        ["label", "--trace", str(joined)],
        ["train", "--trace", str(joined), "-o", str(tmp_path / "models")],
        ["convert", str(joined), str(tmp_path / "o")],
        ["layers", str(joined)],
    ):
        result = CliRunner().invoke(cli, command)
        assert isinstance(result.exception, TraceError) and words in str(result.exception)
    assert words in replay(make_drives(tmp_path), [joined], "baseline", status=1).stderr


@pytest.mark.parametrize(
    ("ahead_s", "words"), [(20, "earlier .* by 19.9"), (1e9, "later .* by 1000000000")]
)
def test_a_single_wrong_time_is_refused(tmp_path: Path, ahead_s: float, words: str) -> None:
    built = TraceBuilder()
    for i in range(100):
        built.io(i * 1000 + (ahead_s * 1e6 if i == 50 else 0), i * 1000 + 80, 8 * i)
    with pytest.raises(TraceError, match=words + ".* one of the two time stamps is wrong"):
        read(built.write(tmp_path / "wrong.blk"))


@pytest.mark.parametrize("merged", [True, False])
def test_numbers_that_run_over_all_cpus_have_no_gaps(tmp_path: Path, merged: bool) -> None:
    parts: dict[int, bytes] = {}
    for i, (at, action, sector, flags) in enumerate(make_events(5)):
        cpu = 0 if merged else random.Random(sector).randrange(3)
        event = TraceBuilder().add(action, at, sector, flags=flags, cpu=i % 3, lost=i).bytes()
        parts[cpu] = parts.get(cpu, b"") + event
    for cpu, content in parts.items():
        (tmp_path / f"x.blktrace.{cpu}").write_bytes(content)
    whole, _ = read(write(tmp_path / "whole.blk", make_events(5)))
    chunk, stats = read(tmp_path / "x")
    assert stats["lost_events"] == stats["doubtful_reads"] == 0
    assert chunk.is_served_read.sum() == whole.is_served_read.sum()


def test_time_that_goes_back_over_many_events_is_refused(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for i in range(3000):
        trace.add(Q, 1000 + i, i * 8)
    trace.add(Q, 5, 0)
    with pytest.raises(TraceError, match="byte 144000 is too late to be sorted.*two recordings"):
        read(trace.write(tmp_path / "back.blk"))


def write_with_gaps(path: Path) -> Path:
    """Write a recording with two gaps of missing events."""
    events = make_events(3)
    return write(path, events, {*range(1000, 1008), *range(3000, 3004)})


def test_every_command_says_how_many_reads_are_left_out(tmp_path: Path) -> None:
    path = write_with_gaps(tmp_path / "a.blk")
    _, stats = read(path)
    left_out = stats["doubtful_reads"]
    assert stats["lost_events"] == 12 and 0 < left_out < 200
    models = tmp_path / "models"
    line = (
        f"linnapp: warning: {path}: 12 events were lost; {left_out} of {stats['reads']} reads are "
        "left out"
    )
    model = str(models / "a.linnos")
    for command in (
        ["train", "--kind", "latency", "--even-if-worse", "--trace", str(path), "-o", str(models)],
        ["inspect", str(path)],
        ["label", "--trace", str(path)],
        ["evaluate", "--model", model, "--trace", str(path)],
        ["explain", "--model", model, "--trace", str(path), "--last", "1"],
        ["layers", str(path)],
        ["convert", str(path), str(tmp_path / "o")],
    ):
        result = CliRunner().invoke(cli, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert result.output.count(line) == 1, (command, result.output)
    found = {"lost_events": 12, "reads_left_out": left_out}
    for command in (
        ["label", "--json", "--trace", str(path)],
        ["evaluate", "--json", "--model", model, "--trace", str(path)],
        ["explain", "--json", "--model", model, "--trace", str(path), "--last", "1"],
        ["layers", "--json", str(path)],
    ):
        result = CliRunner().invoke(cli, command, catch_exceptions=False)
        out = json.loads(result.stdout)
        for place in (out, *out.get("drives", ()), *out.get("recordings", ())):
            if "lost_events" in place:
                assert found.items() <= place.items()
                break
        else:
            raise AssertionError((command, out))
    record = json.loads((models / "a.json").read_text())["trace"]
    assert (record["lost_events"], record["doubtful_reads"]) == (12, left_out)
    assert f"{path}: 12 events were lost" in replay(make_drives(tmp_path), [path], "baseline",
                                                   "--fit", "--rerate", "1000").stderr  # fmt: skip


def test_recording_with_too_many_lost_events_gives_no_drive_a_model(tmp_path: Path) -> None:
    events = make_events(4, 4000)

    def check(name: str, without: set[int]) -> None:
        path = write(tmp_path / name, events, without)
        read_latencies(path, Recipe(check_losses=True))

    check("few.blk", {1000})
    for step in (400, 40):
        without = set(range(7, len(events), step))
        with pytest.raises(
            TraceError, match=r"many.blk: .* reads are excluded: .*At most 1% is acc"
        ):
            check("many.blk", without)
    with pytest.warns(TraceWarning, match="reads are left out"):
        check("fewer.blk", {1000})


def test_merging_notes_how_many_events_the_kernel_dropped(tmp_path: Path) -> None:
    events = make_events(5, 300)
    path = write(tmp_path / "x.blktrace.0", events)
    for data in (path.read_bytes(), as_version_8(path.read_bytes())):
        path.write_bytes(data)
        merged = tmp_path / "x.blk"
        assert merge(tmp_path / "x", merged, 7) == len(events)
        _, stats = read(merged)
        assert stats["lost_events"] == stats["dropped_events"] == 7
        assert stats["notes"] == 1
        with pytest.warns(TraceWarning, match="7 events were lost"):
            read(merged)


def test_cpu_without_file_between_others_is_named(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for i in range(100):
        trace.io(i * 100, i * 100 + 80, i * 8, cpu=(0, 3)[i % 2])
    trace.sort().write_per_cpu(tmp_path / "x")
    with pytest.warns(TraceWarning, match="the files of 2 CPUs are missing"):
        read(tmp_path / "x")
    result = replay(make_drives(tmp_path), [tmp_path / "x"], "baseline", "--rerate", "1000")
    assert "the files of 2 CPUs are missing" in result.stderr


def test_text_of_several_cpus_has_no_gaps(tmp_path: Path) -> None:
    lines = []
    for i in range(100):
        for at, action in ((0, "Q"), (0.00008, "C")):
            lines.append(
                f"  8,0  {i % 3}  {len(lines) + 1}  {i / 1000 + at:.9f}  77  {action}   R "
                f"{i * 8} + 8 [fio]\n"
            )
    path = tmp_path / "p.txt"
    path.write_text("".join(lines))
    chunk, stats = read(path)
    assert chunk.is_served_read.all() and stats["lost_events"] == 0

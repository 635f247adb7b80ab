# SPDX-License-Identifier: MIT
"""Test the time of I/Os by layer with synthetic recordings whose layers are known."""

from __future__ import annotations

import itertools
import json
import lzma
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import EBUSY, WRITE, C, D, F, G, M, Q, R, TraceBuilder, X
from click.testing import CliRunner, Result

from linnapp.cli import cli
from linnapp.drive import disks, recording
from linnapp.drive.recording import Recording
from linnapp.errors import LinnappError, TraceError
from linnapp.insight.layers import BANDS, LAYERS, Layers, changes, layers_of
from linnapp.trace.blktrace import BlktraceReader
from linnapp.trace.inspection import LatencyHistogram

RECORDED = Path(__file__).parents[2] / "traces" / "recorded"


def unpack(name: str, folder: Path) -> Path:
    path = folder / f"{name}.blk"
    path.write_bytes(lzma.decompress((RECORDED / f"{name}.blk.xz").read_bytes()))
    return path


def times_us(builder: TraceBuilder, folder: Path) -> list[list[float]]:
    reader = BlktraceReader(builder.sort().write(folder / "t.blk"))
    ((_, times),) = reader.with_layers()
    return [[float(ns) / 1000 for ns in io] for io in times.T]


def test_a_plain_io_has_three_layers(tmp_path: Path) -> None:
    made = TraceBuilder().add(Q, 5).add(G, 15).add(D, 45).add(C, 145)
    assert times_us(made, tmp_path) == [[10, 30, 100]]


def test_time_before_issue_is_one_layer_without_request_events(tmp_path: Path) -> None:
    assert times_us(TraceBuilder().add(Q, 5).add(D, 45).add(C, 145), tmp_path) == [[0, 40, 100]]


@pytest.mark.parametrize(("kind", "sectors"), [(M, (0, 8)), (F, (8, 0))])
def test_merged_io_shares_the_request_of_the_other(
    tmp_path: Path, kind: int, sectors: tuple[int, int]
) -> None:
    made = TraceBuilder().add(Q, 0, sectors[0]).add(G, 1, sectors[0])
    made.add(Q, 10, sectors[1]).add(kind, 12, sectors[1])
    made.add(D, 20, 0, 8192).add(C, 120, 0, 8192)
    assert times_us(made, tmp_path) == [[1, 19, 100], [2, 8, 100]]


def test_split_io_has_the_layers_of_its_last_part(tmp_path: Path) -> None:
    made = TraceBuilder().add(Q, 0, 0, 8192).add(X, 1, 0, 4096)
    made.add(G, 2, 0).add(D, 3, 0).add(G, 10, 8).add(D, 30, 8).add(C, 50, 8).add(C, 203, 0)
    assert times_us(made, tmp_path) == [[2, 1, 200]]
    late = TraceBuilder().add(Q, 0, 0, 8192).add(X, 1, 0, 4096)
    late.add(G, 2, 0).add(D, 3, 0).add(G, 10, 8).add(D, 30, 8).add(C, 50, 0).add(C, 203, 8)
    assert times_us(late, tmp_path) == [[10, 20, 173]]


def test_requeued_io_waits_again(tmp_path: Path) -> None:
    made = TraceBuilder().add(Q, 0).add(G, 1).add(D, 2).add(R, 10).add(D, 50).add(C, 150)
    assert times_us(made, tmp_path) == [[1, 49, 100]]


def test_layers_include_only_ios_served_by_the_drive(tmp_path: Path) -> None:
    made = TraceBuilder()
    made.add(Q, 0, 0).add(C, 1, 0, error=EBUSY)
    made.add(Q, 2, 8).add(G, 2, 8).add(D, 2, 8).add(C, 90, 8, error=5)
    made.add(Q, 3, 16).add(G, 4, 16).add(D, 8, 16).add(C, 16, 16)
    made.add(Q, 3, 24, flags=WRITE).add(G, 3, 24, flags=WRITE).add(D, 3, 24, flags=WRITE)
    made.add(C, 4, 24, flags=WRITE)
    path = made.sort().write(tmp_path / "t.blk")
    found = layers_of(path)
    assert found.n == 1
    assert [found.mean_us(layer) for layer in ("request", "issue", "drive")] == [1, 4, 8]
    assert layers_of(path, writes=True).mean_us("drive") == 1
    made = TraceBuilder().add(Q, 0, 0).add(C, 1, 0, error=EBUSY)
    with pytest.raises(TraceError, match=r"has no read with issue .* try `writes=True`"):
        layers_of(made.write(tmp_path / "none.blk"))


def test_requeued_io_without_issue_event_has_no_layer_times(tmp_path: Path) -> None:
    """An I/O of unknown time is not counted as one of zero time."""
    made = TraceBuilder().add(Q, 0).add(G, 1).add(D, 2).add(R, 10).add(C, 150)
    # A split I/O has the issue time of the part that completed last.
    made.add(Q, 200, 0, 8192).add(X, 201, 0, 4096).add(G, 202, 0).add(D, 203, 0).add(G, 204, 8)
    made.add(C, 210, 0).add(C, 900, 8)
    made.add(Q, 1000, 64).add(G, 1001, 64).add(D, 1003, 64).add(C, 1013, 64)
    found = layers_of(made.sort().write(tmp_path / "t.blk"))
    assert found.n == 1 and found.mean_us("drive") == 10


def test_first_of_two_equal_ios_in_flight_keeps_its_request(tmp_path: Path) -> None:
    made = TraceBuilder().add(Q, 0).add(G, 1).add(Q, 2).add(G, 50)
    made.add(D, 60).add(D, 61).add(C, 100).add(C, 101)
    assert times_us(made, tmp_path)[0] == [1, 59, 40]


def test_lost_events_are_reported(tmp_path: Path) -> None:
    made = TraceBuilder().add(Q, 5).add(G, 15).add(D, 45).add(C, 145)
    made.add(Q, 200, lost=7).add(G, 201).add(D, 202).add(C, 300)
    shown = run(made.write(tmp_path / "t.blk"))
    assert shown.exit_code == 0 and "t.blk: 7 events were lost" in shown.output


def recorded(
    monkeypatch: pytest.MonkeyPatch, drives: dict[str, TraceBuilder], status: int = 0
) -> None:
    """Replace blktrace and a command by drives with given events."""

    def record(devices: Sequence[Path], folder: Path, **_: object) -> tuple[list[Recording], int]:
        found = []
        for device in devices:
            made = drives[device.name]
            path = made.write(folder / f"{device.name}.blk")
            found.append(Recording(device.name, path, len(made.events), 0))
        return found, status

    monkeypatch.setattr(recording, "record", record)


def test_idle_drive_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = TraceBuilder().add(Q, 5).add(G, 15).add(D, 45).add(C, 145)
    writes = TraceBuilder().add(Q, 5, flags=WRITE).add(D, 6, flags=WRITE).add(C, 7, flags=WRITE)
    recorded(monkeypatch, {"sda": TraceBuilder(), "sdb": busy, "sdc": writes}, 3)
    both = ("--device", "/dev/sda", "--device", "/dev/sdb", "--device", "/dev/sdc")
    shown = run(*both, "--", "fio")
    assert shown.exit_code == 3 and "sdb: 1 reads" in shown.output
    assert "/dev/sda: it served no reads" in shown.output
    assert "/dev/sdc: it served no reads" in shown.output
    alone = run("--device", "/dev/sda", "--", "fio")
    assert alone.exit_code == 3 and "/dev/sda: it served no reads" in alone.output
    recorded(monkeypatch, {"sda": TraceBuilder()})
    assert run("--device", "/dev/sda", "--", "fio").exit_code == 1


def test_without_a_name_all_drives_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    drives = [Path("/dev/sda"), Path("/dev/sdb")]
    monkeypatch.setattr(disks, "drives_to_record", lambda: drives)
    busy = TraceBuilder().add(Q, 5).add(G, 15).add(D, 45).add(C, 145)
    recorded(monkeypatch, {"sda": TraceBuilder(), "sdb": busy}, 3)
    shown = run("--", "fio")
    assert shown.exit_code == 3 and "sdb: 1 reads" in shown.output and "sda" not in shown.output
    idle = run("--writes", "--json", "--", "fio")
    assert idle.exit_code == 3 and "none of /dev/sda, /dev/sdb served writes" in idle.output
    recorded(monkeypatch, {"sda": TraceBuilder(), "sdb": TraceBuilder()})
    idle = run("--", "fio")
    assert idle.exit_code == 1 and "none of /dev/sda, /dev/sdb served reads" in idle.output
    assert "drop_caches" in idle.output


@pytest.mark.parametrize("name", ["l.txt", "missing/l.svg"])
def test_invalid_picture_name_is_refused_before_running(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def record(*_: object, **__: object) -> None:
        raise AssertionError("ran")

    monkeypatch.setattr(recording, "record", record)
    refused = run("--device", "/dev/sda", "-o", tmp_path / name, "--", "fio")
    assert isinstance(refused.exception, LinnappError), refused.exception


@pytest.mark.parametrize("name", ["fio", "pgbench"])
def test_layers_add_up(name: str, tmp_path: Path) -> None:
    """The layers of a recording's I/Os add up to their latency."""
    for chunk, times in BlktraceReader(unpack(name, tmp_path)).with_layers():
        issued = times.sum(axis=0) > 0
        assert issued.mean() > 0.9
        # Without splits and merges, training uses the drive's time.
        plain = issued & (chunk.flags == chunk.flags[issued][0])
        assert np.array_equal(times[2, plain], chunk.latency_ns[plain])


def made_up(shift_us: float, seed: int, n: int = 20_000) -> Layers:
    rng = np.random.default_rng(seed)
    found = Layers()
    for _ in range(2):
        times = rng.gamma(2, 20_000, (3, n)) + np.array([[0], [1000 * shift_us], [0]])
        found.add(np.sort(rng.integers(0, 10**10, n)).astype(np.uint64), times.astype(np.uint64))
    return found


def test_changes_reports_only_significant_changes() -> None:
    told = changes(made_up(0, 1), made_up(5, 2))
    assert told[0].layer == "issue" and told[0].is_significant
    assert told[0].us == pytest.approx(5, abs=1)
    assert not any(change.is_significant for change in changes(made_up(0, 1), made_up(0, 2)))
    short = Layers()
    short.add(np.zeros(5, np.uint64), np.ones((3, 5), np.uint64))
    assert not changes(short, made_up(50, 1))[0].is_significant


def test_layers_limit_the_number_of_blocks() -> None:
    """The intervals are those of a fresh count with the longer blocks, and memory is bounded."""
    found = Layers()
    for hour in range(50):
        arrival = np.arange(2000, dtype=np.uint64) * np.uint64(1_800_000_000)
        found.add(arrival + np.uint64(hour * 3600 * 10**9), np.full((3, 2000), 7000, np.uint64))
    assert len(found._blocks) <= 4096
    assert sum(float(column[0]) for column in found._blocks.values()) == found.n == 100_000
    sums = found.block_sums()
    assert sums is not None and sums.shape == (20, 1 + len(LAYERS))
    assert np.allclose(sums[:, 1:] / sums[:, :1], 7) and sums[:, 0].sum() == found.n


def test_intervals_cover_at_the_stated_rate() -> None:
    """For each layer, about three of 60 equal pairs may be reported as different."""
    called = sum(
        change.is_significant
        for seed in range(60)
        for change in changes(made_up(0, 2 * seed, 500), made_up(0, 2 * seed + 1, 500))
    )
    assert called <= 20


def test_doublings_hold_every_io_once() -> None:
    histogram = LatencyHistogram()
    assert histogram.doublings() == []
    histogram.add(np.array([0, 300, 70_000, 90_000, 120_000, 1_500_000], np.uint64))
    doublings = histogram.doublings()
    # 1 ns is the shortest time.
    assert doublings[0] == (2.0**-10, 1) and dict(doublings)[0.25] == 1
    assert [(low, n) for low, n in doublings if n and low > 1] == [(64, 3), (1024, 1)]
    assert sum(n for _, n in doublings) == histogram.n
    assert all(high == 2 * low for (low, _), (high, _) in itertools.pairwise(doublings))


def test_bands_hold_every_io_once() -> None:
    found = made_up(0, 3)
    bands = found.bands()
    assert [band.low for band in bands] == list(BANDS[:-1])
    assert sum(band.n for band in bands) == found.n == 40_000
    whole = [sum(band.mean_us.values()) for band in bands]
    assert whole == sorted(whole)
    mean = sum(w * band.n for w, band in zip(whole, bands, strict=True)) / found.n
    assert mean == pytest.approx(found.total.mean_us)
    for band in bands[:-1]:
        assert band.n == pytest.approx((band.high - band.low) / 100 * found.n, rel=0.2)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["layers", *map(str, arguments)])


def test_the_command(tmp_path: Path) -> None:
    trace = unpack("pgbench", tmp_path)
    shown = run(trace, "-o", tmp_path / "l.svg")
    assert shown.exit_code == 0, shown.output
    assert "23557 reads" in shown.output and "waiting for a request" in shown.output
    assert (tmp_path / "l.svg").read_text().count("p99.9 to p100") == 1
    compared = run("--compare", "--json", trace, trace)
    found = json.loads(compared.output)
    assert [change["beyond_chance"] for change in found["changes"]] == [False] * 3
    assert found["recordings"][0]["ios"] == 23557
    assert "no layer changed significantly" in run("--compare", trace, trace).output
    TraceBuilder().add(Q, 5).add(D, 45).add(C, 145).write(tmp_path / "s.blk")
    assert "too short for a comparison" in run("--compare", trace, tmp_path / "s.blk").output
    assert "--device needs" in run("--device", "/dev/null").output
    assert "give either recordings or" in run(trace, "--", "true").output
    assert "give either recordings" in run().output
    assert "takes two recordings" in run("--compare", trace).output
    wrong = run(trace, "-o", tmp_path / "l.txt")
    assert isinstance(wrong.exception, LinnappError) and ".png or .svg" in str(wrong.exception)

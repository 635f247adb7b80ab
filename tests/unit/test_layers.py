# SPDX-License-Identifier: MIT
"""Test the time of I/Os by layer with synthetic recordings whose layers are known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import EBUSY, WRITE, C, D, F, G, M, Q, R, TraceBuilder, X
from click.testing import CliRunner, Result
from recorded_traces import unpack

from linnapp.cli import cli
from linnapp.drive import recording
from linnapp.drive.recording import Recording
from linnapp.errors import TraceError
from linnapp.insight.layers import BANDS, Layers, layers_of
from linnapp.trace.blktrace import BlktraceReader


def times_us(builder: TraceBuilder, folder: Path) -> list[list[float]]:
    reader = BlktraceReader(builder.sort().write(folder / "t.blk"))
    ((_, times),) = reader.with_layers()
    return [[float(ns) / 1000 for ns in io] for io in times.T]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # Action, time in us, sector, and bytes where they are not 4096.
        ([(Q, 5), (G, 15), (D, 45), (C, 145)], [[10, 30, 100]]),
        # Without request events, the time before issue is one layer.
        ([(Q, 5), (D, 45), (C, 145)], [[0, 40, 100]]),
        # A merged I/O shares the request of the other, behind or before it.
        ([(Q, 0, 0), (G, 1, 0), (Q, 10, 8), (M, 12, 8), (D, 20, 0, 8192), (C, 120, 0, 8192)],
         [[1, 19, 100], [2, 8, 100]]),
        ([(Q, 0, 8), (G, 1, 8), (Q, 10, 0), (F, 12, 0), (D, 20, 0, 8192), (C, 120, 0, 8192)],
         [[1, 19, 100], [2, 8, 100]]),
        # A split I/O has the layers of the part that ended last.
        ([(Q, 0, 0, 8192), (X, 1, 0), (G, 2, 0), (D, 3, 0), (G, 10, 8), (D, 30, 8), (C, 50, 8),
          (C, 203, 0)], [[2, 1, 200]]),
        ([(Q, 0, 0, 8192), (X, 1, 0), (G, 2, 0), (D, 3, 0), (G, 10, 8), (D, 30, 8), (C, 50, 0),
          (C, 203, 8)], [[10, 20, 173]]),
        # A requeued I/O waits again.
        ([(Q, 0), (G, 1), (D, 2), (R, 10), (D, 50), (C, 150)], [[1, 49, 100]]),
        # The first of two equal I/Os in flight keeps its request.
        ([(Q, 0), (G, 1), (Q, 2), (G, 50), (D, 60), (D, 61), (C, 100), (C, 101)],
         [[1, 59, 40], [48, 11, 40]]),
    ],
)  # fmt: skip
def test_times_of_layers_are_those_of_the_events(
    tmp_path: Path, events: list[tuple[int, ...]], expected: list[list[float]]
) -> None:
    trace = TraceBuilder()
    for event in events:
        trace.add(*event)
    assert times_us(trace, tmp_path) == expected


def test_layers_include_only_ios_served_by_the_drive(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.add(Q, 0, 0).add(C, 1, 0, error=EBUSY)
    trace.add(Q, 2, 8).add(G, 2, 8).add(D, 2, 8).add(C, 90, 8, error=5)
    trace.add(Q, 3, 16).add(G, 4, 16).add(D, 8, 16).add(C, 16, 16)
    trace.add(Q, 3, 24, flags=WRITE).add(G, 3, 24, flags=WRITE).add(D, 3, 24, flags=WRITE)
    trace.add(C, 4, 24, flags=WRITE)
    path = trace.sort().write(tmp_path / "t.blk")
    found = layers_of(path)
    assert found.n == 1
    assert [found.mean_us(layer) for layer in ("request", "issue", "drive")] == [1, 4, 8]
    assert layers_of(path, writes=True).mean_us("drive") == 1
    trace = TraceBuilder().add(Q, 0, 0).add(C, 1, 0, error=EBUSY)
    with pytest.raises(TraceError, match=r"has no read with issue .* try `writes=True`"):
        layers_of(trace.write(tmp_path / "none.blk"))


def test_requeued_io_without_issue_event_has_no_layer_times(tmp_path: Path) -> None:
    """An I/O of unknown time is not counted as one of zero time."""
    trace = TraceBuilder().add(Q, 0).add(G, 1).add(D, 2).add(R, 10).add(C, 150)
    # A split I/O has the issue time of the part that completed last.
    trace.add(Q, 200, 0, 8192).add(X, 201, 0, 4096).add(G, 202, 0).add(D, 203, 0).add(G, 204, 8)
    trace.add(C, 210, 0).add(C, 900, 8)
    trace.add(Q, 1000, 64).add(G, 1001, 64).add(D, 1003, 64).add(C, 1013, 64)
    found = layers_of(trace.sort().write(tmp_path / "t.blk"))
    assert found.n == 1 and found.mean_us("drive") == 10


def recorded(
    monkeypatch: pytest.MonkeyPatch, drives: dict[str, TraceBuilder], status: int = 0
) -> None:
    """Replace blktrace and a command by drives with given events."""

    def record(devices: Sequence[Path], folder: Path, **_: object) -> tuple[list[Recording], int]:
        found = []
        for device in devices:
            trace = drives[device.name]
            path = trace.write(folder / f"{device.name}.blk")
            found.append(Recording(device.name, path, len(trace.events), 0))
        return found, status

    monkeypatch.setattr(recording, "record", record)


def test_idle_drive_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("name", ["fio", "pgbench"])
def test_layers_of_ios_add_up_to_their_latency(name: str, tmp_path: Path) -> None:
    """The layers of a recording's I/Os add up to their latency."""
    for chunk, times in BlktraceReader(unpack(name, tmp_path)).with_layers():
        issued = times.sum(axis=0) > 0
        assert issued.mean() > 0.9
        # Without splits and merges, training uses the drive's time.
        plain = issued & (chunk.flags == chunk.flags[issued][0])
        assert np.array_equal(times[2, plain], chunk.latency_ns[plain])


def test_latency_bands_hold_every_io_once() -> None:
    found = Layers()
    for seed in (3, 4):
        times = np.random.default_rng(seed).gamma(2, 20_000, (3, 20_000))
        found.add(times.astype(np.uint64))
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


def test_layers_shows_recordings_and_refuses_contradicting_arguments(tmp_path: Path) -> None:
    trace = unpack("pgbench", tmp_path)
    shown = run(trace)
    assert shown.exit_code == 0, shown.output
    assert "23557 reads" in shown.output and "waiting for a request" in shown.output
    assert json.loads(run("--json", trace).output)["recordings"][0]["ios"] == 23557
    assert "--device needs" in run("--device", "/dev/null").output
    assert "give either recordings or" in run(trace, "--", "true").output
    assert "give either recordings" in run().output

# SPDX-License-Identifier: MIT
"""Rules that choose among logs of drives, judged on pairs of reads."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eval import trace_files
from eval.experiments import real
from linnapp.lab.work import StepError
from linnapp.trace.reads import load


def write_log(path: Path, drive: int, n: int = 6000) -> None:
    """Write a log of a drive that is slow in every second stretch of 50 reads."""
    rng = np.random.default_rng(drive)
    submit_us = 8000 * np.arange(n) + rng.integers(0, 90, n)
    slow = (np.arange(n) // 50) % 2 == drive
    latency_us = np.where(slow, 900, 100) + rng.integers(0, 60, n)
    read = rng.random(n) < 0.9
    path.write_text(
        "".join(
            f"0.000,{latency},{int(is_read)},4096,{4096 * k},{us / 1000:.3f},4096\n"
            for k, (us, latency, is_read) in enumerate(
                zip(submit_us, latency_us, read, strict=True)
            )
        )
    )


def test_study_finds_the_faster_drive_when_drives_are_slow_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for drive in range(2):
        write_log(tmp_path / f"d{drive}.trace", drive)
    monkeypatch.setattr(trace_files, "GIVEN", (tmp_path,))
    # Networks take long to train; trees have the same interface.
    monkeypatch.setattr(real, "fit_network", lambda table, **_: real.fit_latency(table))
    table = real.EXPERIMENT.run(SimpleNamespace(seeds=(1,)))  # type: ignore[arg-type]
    best = table.get(real.ALL, real.BEST, "gain_us")
    assert best is not None and best.value == pytest.approx(400, rel=0.05)
    for name in (real.OWN, "last latency", real.NEIGHBOUR):
        share = table.get(real.ALL, name, "share")
        assert share is not None and 0.9 < share.low < share.value <= 1, name
        assert table.value(real.ALL, name, "right") > 0.9
    # One I/O is in flight at a time, so this rule cannot distinguish drives.
    assert abs(table.value(real.ALL, "pending pages", "share")) < 0.1
    worse = table.get(real.ALL, "pending pages", "gain_us", real.OWN)
    assert worse is not None and worse.is_below
    numbers = [table.value(place, real.BEST, "pairs") for place in table.places]
    assert numbers[0] == sum(
        n for place, n in zip(table.places, numbers, strict=True) if "KiB" in place
    )
    real.draw(table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size


def test_study_names_the_variable_when_there_is_one_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "d0.trace", 0, 100)
    monkeypatch.setattr(trace_files, "GIVEN", (tmp_path,))
    with pytest.raises(StepError, match="two or more logs of drives in LINNOS_TRACES"):
        real.EXPERIMENT.run(SimpleNamespace(seeds=(1,)))  # type: ignore[arg-type]


def simulated(table: Any) -> dict[str, list[float]]:
    """Compute scores I/O by I/O, as the policies of the replayer do."""
    begin, latency = table.arrival_ns.astype(int), table.latency_ns.astype(int)
    ends = sorted((begin[i] + latency[i], i) for i in range(len(table)))
    found: dict[str, list[float]] = {"c3": [], "prequal": [], "reads in flight": []}
    response = service = waiting = None
    heard, in_flight, reads, met = 0, 0, 0, {}
    answers: list[tuple[int, float]] = []

    def mean(old: float | None, new: float) -> float:
        return new if old is None else 0.9 * old + 0.1 * new

    for i in range(len(table)):
        while ends and ends[0][0] <= begin[i]:
            end, k = ends.pop(0)
            in_flight -= 1
            if table.is_served_read[k]:
                reads -= 1
                response = mean(response, latency[k] / 1000)
                service = mean(service, (end - max(begin[k], heard)) / 1000)
                waiting = mean(waiting, in_flight)
                heard = end
                answers.append((met[k], latency[k] / 1000))
        if table.is_served_read[i]:
            met[i] = in_flight
            queue = 1 + in_flight + (waiting or 0)
            found["c3"].append((response or 0) - (service or 0) * (1 - queue**3))
            far = [abs(m - in_flight) for m, _ in answers[-64:]]
            limit = sorted(far)[min(4, len(far) - 1)] if far else 0
            near = sorted(us for (m, us), d in zip(answers[-64:], far, strict=True) if d <= limit)
            found["prequal"].append(near[(len(near) - 1) // 2] if near else 0)
            found["reads in flight"].append(reads)
            reads += 1
        in_flight += 1
    return found


def test_rule_scores_equal_a_simulation_io_by_io(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows, ends = [], set()
    for k, at_us in enumerate(np.cumsum(rng.integers(1, 300, 800)).tolist()):
        end_us = at_us + int(rng.integers(50, 999))
        # The order of simultaneous answers is not defined.
        while end_us in ends:
            end_us += 1
        ends.add(end_us)
        read = int(rng.random() < 0.8)
        rows.append(f"0,{end_us - at_us},{read},4096,{4096 * k},{at_us / 1000:.3f},4096\n")
    (tmp_path / "d.trace").write_text("".join(rows))
    table = load(tmp_path / "d.trace")
    seen = real.heimdall.reads_of(real.as_records(table)).features[:, 0].astype(float)
    first = 200
    scores = real.rule_scores(table, first, seen)
    for name, expected in simulated(table).items():
        assert scores[name] == pytest.approx(np.array(expected[first:]), rel=1e-6), name

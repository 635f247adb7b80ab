# SPDX-License-Identifier: MIT
"""Configurations of the evaluation: their random workloads, recordings and training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eval import cells
from linnapp.trace import convert as iolog
from linnapp.trace import replay_log


def _drawn(folder: Path, seed: int, *, replicate_writes: bool) -> list[iolog.Workload]:
    """Return both parts of a workload, for each drive."""
    slices = [(folder / "train", 0.0, 1.0), (folder / "replay", 1.0, 3.0)]
    cells.write_workload("az-e", slices, seed, kept_s=0.5, replicate_writes=replicate_writes)
    paths = [path for part, _, _ in slices for path in sorted(part.glob("*.iolog"))]
    assert len(paths) == 2 * cells.N_DRIVES
    return [chunk for path in paths for chunk in iolog.read_workload(path, "iolog")]


def test_replicated_writes_are_a_third_and_the_same_each_time(tmp_path: Path) -> None:
    own, same, again, other = (
        _drawn(tmp_path / str(k), seed, replicate_writes=replicate)
        for k, (seed, replicate) in enumerate([(7, False), (7, True), (7, True), (8, True)])
    )
    n_all = n_kept = 0
    for before, after, repeated in zip(own, same, again, strict=True):
        rows = [
            set(zip(w.time_us, w.offset_bytes, w.size_bytes, strict=True))
            for w in (before.take(before.is_write), after.take(after.is_write))
        ]
        assert rows[1] < rows[0]
        np.testing.assert_array_equal(
            before.take(~before.is_write).time_us, after.take(~after.is_write).time_us
        )
        for name in ("time_us", "offset_bytes", "size_bytes", "is_write"):
            np.testing.assert_array_equal(getattr(after, name), getattr(repeated, name))
        n_all += int(before.is_write.sum())
        n_kept += int(after.is_write.sum())
    # Every drive gets the writes of all traces, so each gets as many as before.
    assert n_kept * cells.N_DRIVES == pytest.approx(n_all, rel=0.05)
    assert sum(map(len, other)) != sum(map(len, same))


def test_a_replicated_write_was_given_to_every_drive() -> None:
    records = np.zeros(4, replay_log.RECORD)
    records["op"] = [replay_log.WRITE, replay_log.READ, replay_log.WRITE, replay_log.READ]
    records["served_by"] = [0, 1, 1, 0]
    records["due_ns"] = [10, 20, 30, 40]
    assert cells.ios_of_drive(records, 0)["due_ns"].tolist() == [10, 40]
    assert cells.ios_of_drive(records, 0, replicate_writes=True)["due_ns"].tolist() == [10, 30, 40]

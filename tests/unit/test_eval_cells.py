# SPDX-License-Identifier: MIT
"""Configurations of the evaluation: their random workloads, recordings and training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from eval import cells, heimdall
from eval.cache import Cache
from linnapp.trace import convert as iolog
from linnapp.trace import replay_log


@pytest.mark.parametrize(
    ("options", "unlimited"),
    [((), True), (cells.PAPER_TRAINING, True), (cells.LATENCY_TRAINING, False)],
)
def test_networks_are_trained_without_a_limit_and_latency_models_as_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], unlimited: bool
) -> None:
    given: list[str] = []

    def train(traces: Sequence[Path], model_dir: Path, log: Path, *options: str) -> None:
        model_dir.mkdir(parents=True)
        given.extend(options)

    monkeypatch.setattr(cells.workers, "train", train)
    monkeypatch.setattr(cells, "recorded", lambda cache, cell: tmp_path)
    cell = cells.Cell("az-e", "enterprise", 7, 1.0, 1.0)
    assert cells.trained(Cache(tmp_path / "cache"), cell, options).name == "models"
    before = cells.NETWORK_TRAINING if unlimited else ()
    assert tuple(given) == ("--seed", "7", *before, *options)


@pytest.mark.parametrize("replicate_writes", [False, True])
def test_heimdall_learns_from_what_each_drive_was_given_and_is_given_its_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replicate_writes: bool
) -> None:
    cell = cells.Cell("az-e", "enterprise", 7, 1.0, 1.0, replicate_writes=replicate_writes)
    monkeypatch.setattr(cells, "recorded", lambda cache, cell: tmp_path)
    monkeypatch.setattr(cells.workers, "call", lambda function, *given: function(*given))
    records = np.zeros(600, replay_log.RECORD)
    records["due_ns"] = np.arange(600) * 100_000
    records["op"] = np.where(np.arange(600) % 4 == 3, replay_log.WRITE, replay_log.READ)
    records["served_by"], records["size_bytes"] = np.arange(600) % 3, 4096
    learnt_from: list[int] = []
    learn = heimdall.train

    def train(served: Sequence[np.ndarray], folder: Path, seed: int) -> list[Path]:
        assert seed == 7
        learnt_from.extend(map(len, served))
        return learn(served, folder, seed)

    monkeypatch.setattr(cells.replay_log, "read", lambda path: records)
    monkeypatch.setattr(cells.heimdall, "train", train)
    told: list[list[Path]] = []

    def run(command: Sequence[str], scenario: object, places: object, log: Path) -> None:
        (log.parent / "heimdall.json").write_text("{}")
        (networks,) = (given.split()[0] for given in command[-1].split("--heimdall-network ")[1:])
        told.append([Path(name) for name in networks.split(",")])

    monkeypatch.setattr(cells.guests, "_run", run)
    monkeypatch.setattr(cells, "write_reads", lambda log, path: log.touch())
    cells.replayed(Cache(tmp_path / "cache"), cells.Replay(cell, "heimdall"))
    n_writes = 150 if replicate_writes else 50
    assert learnt_from == [150 + n_writes] * 3
    assert [[path.name for path in paths] for paths in told] == [
        [f"flash{k}.heimdall" for k in range(3)]
    ]
    made = sorted((tmp_path / "cache").glob("heimdall-*/*.heimdall"))
    assert [path.name for path in made] == [path.name for path in told[0]]
    # Another training is another replay.
    cells.replayed(Cache(tmp_path / "cache"), cells.Replay(cell, "heimdall"))
    assert len(told) == 1
    monkeypatch.setattr(cells, "code_version", lambda *paths: "changed")
    cells.replayed(Cache(tmp_path / "cache"), cells.Replay(cell, "heimdall"))
    assert len(told) == 2


def _drawn(folder: Path, seed: int, *, replicate_writes: bool) -> list[iolog.Workload]:
    """Return both parts of a workload, for each drive."""
    slices = [(folder / "train", 0.0, 1.0), (folder / "replay", 1.0, 3.0)]
    cells.write_workload("az-e", slices, seed, kept_s=0.5, replicate_writes=replicate_writes)
    paths = [path for part, _, _ in slices for path in sorted(part.glob("*.iolog"))]
    assert len(paths) == 2 * cells.N_DRIVES
    return [chunk for path in paths for chunk in iolog.read_iolog(path)]


def test_replicated_writes_are_a_third_and_the_same_each_time(tmp_path: Path) -> None:
    own, same, again, other = (
        _drawn(tmp_path / str(k), seed, replicate_writes=replicate)
        for k, (seed, replicate) in enumerate([(7, False), (7, True), (7, True), (8, True)])
    )
    total = kept = 0
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
        total += int(before.is_write.sum())
        kept += int(after.is_write.sum())
    # Every drive gets the writes of all, so each gets as many as before.
    assert kept * cells.N_DRIVES == pytest.approx(total, rel=0.05)
    assert sum(map(len, other)) != sum(map(len, same))


def test_a_replicated_write_was_given_to_every_drive() -> None:
    records = np.zeros(4, replay_log.RECORD)
    records["op"] = [replay_log.WRITE, replay_log.READ, replay_log.WRITE, replay_log.READ]
    records["served_by"] = [0, 1, 1, 0]
    records["due_ns"] = [10, 20, 30, 40]
    assert cells.given(records, 0)["due_ns"].tolist() == [10, 40]
    assert cells.given(records, 0, replicate_writes=True)["due_ns"].tolist() == [10, 30, 40]

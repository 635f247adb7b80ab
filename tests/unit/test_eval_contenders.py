# SPDX-License-Identifier: MIT
"""The compared policies and the settings of the heuristics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from replaying import write_log

from eval import cells, contenders, demo, tuning
from eval.cache import Cache
from eval.cells import Replay, Replayed
from eval.experiments import traces, unseen
from linnapp.trace import replay_log


def test_every_policy_table_has_the_strongest_alternatives() -> None:
    strongest = {"clone", "heimdall", "prequal", "c3", "hedge", "heuristic-adv"}
    strongest |= {"shortest-queue", "shortest-queue-h95"}
    demos = ([row.name for row in rows] for rows in (traces.ROWS.values(), demo.ROWS))
    for names in (contenders.NAMES, contenders.INJECTED, unseen.POLICIES, *demos):
        assert strongest <= {*names}


def _log(path: Path, start_us: list[int], latency_us: list[int], pages: list[int],
         op: list[int]) -> Path:  # fmt: skip
    records = np.zeros(len(start_us), replay_log.RECORD)
    records["due_ns"] = np.array(start_us) * 1000
    records["latency_ns"] = np.array(latency_us) * 1000
    records["size_bytes"], records["op"] = np.array(pages) * 4096, op
    return write_log(path, records)


def test_search_uses_the_queues_seen_by_reads(tmp_path: Path) -> None:
    read, write = replay_log.READ, replay_log.WRITE
    log = _log(
        tmp_path / "log", [0, 10, 20, 200, 210], [100, 100, 300, 10, 10], [4, 1, 2, 1, 1],
        [write, read, read, write, read],
    )  # fmt: skip
    records = replay_log.read(log)
    # The pages are 4 + 1, then 4 + 1 + 2. At 210 the first two I/Os have ended, and the write of
    # 200 ends.
    assert tuning.queue_pages(records, (0, 50, 100)) == [3, 5, 7]
    # I/Os of another drive do not count.
    records = np.array(records)
    records["home"][2:] = records["served_by"][2:] = 1
    assert tuning.queue_pages(records, [100]) == [5]
    # Writes to all drives count: the one at 200 is on both.
    assert tuning.queue_pages(records, [100], replicate_writes=True) == [6]
    records["op"][0], records["op"][3] = read, read
    assert tuning.queue_pages(records, [100], replicate_writes=True) == [5]


PLAIN = ("--heuristic-queue", "77")

CELL = cells.Cell("az-e", "enterprise", 1, train_s=10.0, replay_s=4.0, kept_s=1.0)


def test_search_uses_only_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = _log(
        tmp_path / "log", list(range(0, 10_000, 10)), [50] * 900 + [4000] * 100, [1] * 1000,
        [replay_log.READ] * 1000,
    )  # fmt: skip
    asked: list[Replay] = []
    best = (str(tuning.NO_LIMIT_PAGES), "4000")

    def replayed(cache: Cache, replay: Replay) -> Replayed:
        asked.append(replay)
        # The best has no limit on the queue and 4 ms as slow limit; or the default `heuristic`.
        worse = (best[0] not in replay.options) + 2 * (best[1] not in replay.options)
        return Replayed(replay, {"response_mean_us": 100.0 + worse}, tmp_path)

    monkeypatch.setattr(tuning, "replayed", replayed)
    monkeypatch.setattr(tuning, "heuristic_options", lambda cache, cell: PLAIN)
    monkeypatch.setattr(tuning, "read_profile", lambda cache, cell: log)
    found = tuning.tune(Cache(tmp_path / "cache"), CELL)
    assert found["options"] == [
        "--heuristic-queue", str(tuning.NO_LIMIT_PAGES), "--heuristic-busy-us", "4000",
    ]  # fmt: skip
    assert {replay.part for replay in asked} == {"train"}
    assert all(replay.policy == "heuristic-adv" for replay in asked)
    assert all(replay.options[:4] == ("--skip", "7", "--duration", "3") for replay in asked)
    assert len(found["tried"]) == len({replay.options for replay in asked}) == len(asked)
    assert min(t["mean_us"] for t in found["tried"]) == 100.0
    # If no setting were better than `heuristic`, its default would be chosen.
    asked.clear()
    best = (PLAIN[1], tuning.NEVER_BUSY[1])
    found = tuning.tune(Cache(tmp_path / "cache"), CELL)
    assert found["options"] == [*PLAIN, *tuning.NEVER_BUSY]
    assert len(asked) <= 10

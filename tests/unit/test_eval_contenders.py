# SPDX-License-Identifier: MIT
"""The compared policies and the settings of the heuristics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import cells, contenders, demo, grid, tuning
from eval.cache import Cache
from eval.cells import Replay, Replayed
from eval.contenders import Contender
from eval.experiments import traces, unseen, windows
from linnapp.trace import replay_log


def test_capped_policy_is_a_separate_policy() -> None:
    assert len(set(contenders.NAMES)) == len(contenders.NAMES)
    free, capped = contenders.named(("hedge", "hedge, 5% cap"))
    assert free.options == ("--hedge-budget", "none")
    assert capped.options == ("--hedge-budget", "5%")
    assert free.policy == capped.policy
    assert Contender("baseline").options == ()
    one = contenders.named(("fastest with duplicates (limit 10 %)",))[0]
    assert one.options == ("--duplicates", "--max-duplicates", "10%")
    assert contenders.ours((one.name,)) == [one.name]


def test_policies_in_development_are_in_no_result() -> None:
    developed = {contender.name for contender in contenders.DEVELOPED}
    assert developed == {"linnos, guarded", "linnos-hl, 5% cap, guarded", "fastest, unguarded"}
    assert not developed & set(contenders.NAMES)


def test_alternatives_are_neither_our_policies_nor_bounds() -> None:
    rivals = contenders.rivals((*contenders.NAMES, "home"))
    assert {"baseline", "clone", "shortest-queue", "hedge, 5% cap", "heuristic-adv"} <= set(rivals)
    assert {"shortest-queue-h95", "shortest-queue-h95, 5% cap", "prequal", "c3"} <= set(rivals)
    assert "heimdall" in rivals
    assert not {"oracle", "verdict", "linnos", "linnos-hl, 5% cap", "home"} & set(rivals)
    assert set(contenders.ours(contenders.NAMES)) == {
        "linnos", "linnos-hl", "linnos-hl, 5% cap", "linnos-h99", "fastest",
        "fastest with duplicates",
        "fastest with duplicates (limit 5 %)", "fastest with duplicates (limit 10 %)",
    }  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [
        contenders.NAMES, contenders.INJECTED, unseen.POLICIES, windows.POLICIES,
        [row.name for row in traces.ROWS.values()], [row.name for row in demo.ROWS],
    ],
    ids=["Fig. 8", "injected", "unseen", "windows", "traces", "the demo"],
)  # fmt: skip
def test_every_policy_table_has_the_strongest_alternatives(names: Sequence[str]) -> None:
    assert {"clone", "heimdall", "prequal", "c3", "hedge", "heuristic-adv"} <= set(names)
    assert {"shortest-queue", "shortest-queue-h95"} <= set(names)


def test_slots_fit_into_the_replayed_time() -> None:
    for workload, seconds in unseen.REPLAYED_S.items():
        for kind in unseen.KINDS:
            text = unseen.spec(kind, workload)
            assert text is None or "{" not in text
        (slow,) = (unseen.spec(k, workload) for k in unseen.KINDS if k.startswith("fail-slow"))
        assert slow is not None
        start, slot = (int(part.split("=")[1]) for part in slow.split(",")[-2:])
        assert start + slot == pytest.approx(1000 * seconds)


def _log(path: Path, start_us: list[int], latency_us: list[int], pages: list[int],
         op: list[int]) -> Path:  # fmt: skip
    header = np.zeros(1, replay_log.HEADER)
    header["magic"], header["version"] = replay_log.MAGIC, replay_log.VERSION
    header["record_bytes"], header["n_drives"] = replay_log.RECORD.itemsize, 3
    records = np.zeros(len(start_us), replay_log.RECORD)
    records["due_ns"] = np.array(start_us) * 1000
    records["latency_ns"] = np.array(latency_us) * 1000
    records["size_bytes"], records["op"] = np.array(pages) * 4096, op
    path.write_bytes(header.tobytes() + records.tobytes())
    return path


def test_search_uses_the_queues_seen_by_reads(tmp_path: Path) -> None:
    read, write = replay_log.READ, replay_log.WRITE
    log = _log(
        tmp_path / "log", [0, 10, 20, 200, 210], [100, 100, 300, 10, 10], [4, 1, 2, 1, 1],
        [write, read, read, write, read],
    )  # fmt: skip
    records = replay_log.read(log)
    # 4 + 1; 4 + 1 + 2; at 210 the first two have left, and the write at 200 at that moment.
    assert tuning.queue_pages(records, (0, 50, 100)) == [3, 5, 7]
    # I/Os of another drive do not count.
    records = np.array(records)
    records["home"][2:] = records["served_by"][2:] = 1
    assert tuning.queue_pages(records, [100]) == [5]
    # But writes to all drives do: that at 200 is on both.
    assert tuning.queue_pages(records, [100], replicate_writes=True) == [6]
    records["op"][0], records["op"][3] = read, read
    assert tuning.queue_pages(records, [100], replicate_writes=True) == [5]


def test_demo_rows_that_hedge_have_a_hedging_time() -> None:
    assert {row.name for row in demo.ROWS if row.hedges} == {
        "hedge", "hedge, 5% cap", "shortest-queue-h95", "shortest-queue-h95, 5% cap", "linnos-hl",
        "linnos-hl, 5% cap",
    }  # fmt: skip


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


def test_policy_is_replayed_with_its_tuned_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    monkeypatch.setattr(tuning, "tune", lambda cache, cell: {"options": ["--heuristic-queue", "9"]})
    monkeypatch.setattr(tuning, "heuristic_options", lambda cache, cell: ("--heuristic-queue", "5"))
    made: dict[str, Any] = {
        contender.name: grid.replay_of(cache, CELL, contender, options=("--duration", "2"))
        for contender in contenders.CONTENDERS
    }
    assert made["heuristic-adv"].options == ("--heuristic-queue", "9", "--duration", "2")
    assert made["heuristic"].options == ("--heuristic-queue", "5", "--duration", "2")
    assert made["linnos-hl, 5% cap"].options == ("--hedge-budget", "5%", "--duration", "2")
    assert made["baseline"].options == ("--duration", "2")

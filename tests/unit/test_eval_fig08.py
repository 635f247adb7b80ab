# SPDX-License-Identifier: MIT
"""Fig. 8 from the workloads to its tables, on a made-up lab: drives that are slow in turn.

No guest boots and nothing is trained; the lab knows by a rule how long each read takes at each
drive and time, so what every policy must come to is known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eval import cells, contenders, grid, intervals, learnt, tuning
from eval.cache import Cache
from eval.experiment import Context
from eval.experiments import claims, fig08, fig09, fig11
from eval.guests import Scenario
from linnapp.trace import iolog, replay_log

FAST_US, SLOW_US, FAILOVER_US = 100.0, 2000.0, 15.0
HEDGE_US = 300.0

#: Each drive has its turn for so long.
TURN_US = 500_000


def _latency_us(time_us: NDArray[Any], drive: NDArray[Any]) -> NDArray[np.float64]:
    slow = (time_us // TURN_US).astype(np.int64) % 4 == drive
    # No two reads alike, so that medians and percentiles have something to tell.
    return np.where(slow, SLOW_US, FAST_US) * (1 + (time_us % 97) / 1000)


def _reads(trace: Path, drive: int) -> NDArray[Any]:
    chunks = list(iolog.read(trace))
    n = sum(len(chunk.time_us) for chunk in chunks)
    records = np.zeros(n, replay_log.RECORD)
    records["due_ns"] = np.concatenate([c.time_us for c in chunks]) * 1000
    records["offset_bytes"] = np.concatenate([c.offset_bytes for c in chunks])
    records["size_bytes"] = np.concatenate([c.size_bytes for c in chunks])
    records["op"] = np.concatenate([c.is_write for c in chunks])
    records["home"] = records["served_by"] = drive
    records["latency_ns"] = 20_000
    return records


def _serve(traces: Sequence[Path], policy: str, seed: int) -> NDArray[Any]:
    """Every I/O of a replay under a policy, as the log has it."""
    records = np.concatenate([_reads(trace, k) for k, trace in enumerate(traces)])
    reads = np.flatnonzero(records["op"] == replay_log.READ)
    home, time_us = records["home"][reads].astype(np.int64), records["due_ns"][reads] / 1000
    at_home, next_us = (_latency_us(time_us, (home + k) % 3) for k in (0, 1))
    served, latency_us = home, at_home
    if policy == "random":
        served = np.random.default_rng(seed).integers(0, 3, len(reads))
        latency_us = _latency_us(time_us, served)
    elif policy == "clone":
        latency_us = np.minimum(at_home, next_us)
    elif policy.startswith("hedge"):
        latency_us = np.where(
            at_home > HEDGE_US, np.minimum(at_home, HEDGE_US + next_us), at_home
        )  # fmt: skip
    elif policy.startswith("linnos"):
        slow = at_home > HEDGE_US
        served = np.where(slow, (home + 1) % 3, home)
        latency_us = np.where(slow, FAILOVER_US + next_us, at_home)
    elif policy == "oracle":
        all_us = np.stack([_latency_us(time_us, (home + k) % 3) for k in range(3)])
        latency_us = all_us.min(axis=0)
    records["served_by"][reads] = served
    records["latency_ns"][reads] = latency_us * 1000
    return records


def _write_log(path: Path, records: NDArray[Any]) -> None:
    header = np.zeros(1, replay_log.HEADER)
    header["magic"], header["version"] = replay_log.MAGIC, replay_log.VERSION
    header["record_bytes"], header["n_drives"] = replay_log.RECORD.itemsize, 3
    path.parent.mkdir(parents=True, exist_ok=True)
    order = np.argsort(records["due_ns"] + records["latency_ns"], kind="stable")
    path.write_bytes(header.tobytes() + records[order].tobytes())


def _record(scenario: Scenario, out_dir: Path) -> list[Path]:
    _write_log(out_dir / "baseline.log", _serve(scenario.traces, "baseline", 1))
    return []


def _replay(scenario: Scenario, policy: str, out_dir: Path, **_: Any) -> dict[str, Any]:
    records = _serve(scenario.traces, policy, scenario.seed)
    _write_log(out_dir / f"{policy}.log", records)
    reads = records[records["op"] == replay_log.READ]
    extra = {"clone": 1.0, "hedge": 0.25}.get(policy, 0.0)
    if "5%" in scenario.options:
        extra = 0.05
    return {
        "policy": policy, "reads": len(reads), "writes": len(records) - len(reads),
        "response_mean_us": float(reads["latency_ns"].mean() / 1000), "extra_io_ratio": extra,
        "revoked": 0, "hedged": 0, "late_ios": 0, "data_errors": 0, "io_errors": 0,
        "config": {"hedge_percentile": 95.0},
    }  # fmt: skip


def _train(traces: Sequence[Path], model_dir: Path, log: Path, *options: str) -> list[Path]:
    model_dir.mkdir(parents=True)
    for k in range(3):
        record = {"slow_ratio": 0.25, "false_submit_ratio": 0.01, "training_reads": 900 + k}
        (model_dir / f"flash{k}.json").write_text(json.dumps(record))
    return []


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Context]:
    """The data of Fig. 8 with two seeds of one workload, and the context that it ran in."""
    out = tmp_path_factory.mktemp("eval")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(grid.LENGTHS, "bs-c", grid.Length(60, 40))
        patch.setattr(intervals, "RESAMPLES", 300)
        patch.setitem(learnt.TREES, "max_iter", 30)
        patch.setitem(fig08.PARAMETERS, "workloads", ("bs-c",))
        patch.setattr(cells.guests, "record", _record)
        patch.setattr(cells.guests, "replay", _replay)
        patch.setattr(cells.workers, "train", _train)
        patch.setattr(learnt.workers, "call", lambda function, *args: function(*args))
        known = {c.policy for c in contenders.CONTENDERS} - {"verdict"}
        patch.setattr(contenders, "known_policies", lambda: frozenset(known))
        context = Context("fig08", Cache(out / "cache"), 1, True, out / "fig08", n_seeds=2)
        data = json.loads(json.dumps(fig08.run(context)))
    (out / "fig08").mkdir()
    (out / "fig08" / "data.json").write_text(json.dumps(data))
    return data, context


def test_every_contender_comes_to_what_the_rule_says(lab: tuple[dict[str, Any], Context]) -> None:
    (cell,) = lab[0]["cells"]
    assert (cell["workload"], cell["array"], cell["seeds"]) == ("bs-c", "consumer", 2)
    mean = {name: fields["mean_us"][0] for name, fields in cell["policies"].items()}
    assert mean["oracle"] < mean["linnos"] < mean["hedge"] < mean["baseline"]
    assert mean["oracle"] == pytest.approx(FAST_US, rel=0.1)
    assert mean["linnos"] < FAST_US * 1.1 + FAILOVER_US
    assert set(mean) == {*contenders.NAMES, "learnt", "home, at random's load"} - {"verdict"}
    for name, fields in cell["policies"].items():
        value, low, high = fields["mean_us"]
        assert low <= value <= high, name
    assert cell["policies"]["hedge, 5% cap"]["extra_io_ratio"] == 0.05


def test_a_black_box_can_know_what_comes_in_turns(lab: tuple[dict[str, Any], Context]) -> None:
    (cell,) = lab[0]["cells"]
    mean = {name: fields["mean_us"][0] for name, fields in cell["policies"].items()}
    assert mean["oracle"] <= mean["learnt"] < mean["home, at random's load"]
    assert len(lab[0]["learnt"]) == 2
    assert all(0.2 < row["followed"] < 0.5 for row in lab[0]["learnt"])


def test_what_is_tuned_and_too_short_is_on_record(lab: tuple[dict[str, Any], Context]) -> None:
    for row in lab[0]["prepared"]:
        assert row["training_reads"] == [900, 901, 902] and not row["enough"]
        tried = row["heuristic_adv"]["tried"]
        assert len(tried) == len(tuning.QUEUE_PERCENTS) + len(tuning.BUSY_PERCENTS) - 1
        assert row["heuristic_adv"]["options"] in [t["options"] for t in tried]


def test_figures_tables_and_claims_follow(
    lab: tuple[dict[str, Any], Context], tmp_path: Path
) -> None:
    data, context = lab
    summary = next(iter(fig08.table(data).values()))
    # Cloning is free here but for its I/O, which stands beside it.
    assert summary.rows[0][2] == "clone (100.00 %)"
    assert "Fewer than 20000 training reads" in fig08.reading(data)
    for module in (fig09, fig11):
        module.reading(made := module.run(context))
        assert module.table(made)
        module.draw(made, tmp_path / "figure.png")
    fig08.draw(data, tmp_path / "figure.png")
    made = claims.run(context)
    judged = {row["claim"]: row["judged"] for row in made["claims"]}
    assert judged["mean of LinnOS+HL below hedging at p95"] != claims.UNKNOWN
    assert judged["inflection points, percentile"] == claims.UNKNOWN
    assert "Not run" in claims.reading(made)
    rows = next(iter(claims.table(made).values())).rows
    assert len(rows) == len(claims.CLAIMS)
    claims.draw(made, tmp_path / "claims.png")

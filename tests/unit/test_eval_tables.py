# SPDX-License-Identifier: MIT
"""Tables, text and figures of experiments on drives and models, from synthetic data."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from test_bursts import busy_trace

from eval.cache import Cache
from eval.cells import ARRAY_OF, WORKLOADS
from eval.experiment import Context
from eval.experiments import claims, cpu, fig05, fig07, fig10, table1, table3
from linnapp.learn.features.dataset import load_reads


def _points() -> dict[str, Any]:
    rows = [
        {
            "workload": workload, "array": ARRAY_OF[workload], "seed": seed, "drive": drive,
            "reads": 1000, "threshold_us": 200 + seed, "percentile": 80.0 + drive + seed,
            "paper_percentile": 82.0 + drive, "slow_ratio": 0.2, "lowest_candidate": 50.0,
            "start_percentile": 85.0,
            "at_edge": False, "gain_us": 10.0, "mean_us": 150.0,
        }
        for workload, seed, drive in itertools.product(("az-c", "az-e"), range(5), range(3))
    ]  # fmt: skip
    names = ("too low", "chosen", "too high")
    shown = {
        "percentile_grid": [1.0, 50.0, 99.0],
        "curves_us": {name: [1.0, 2.0, 3.0] for name in ("without", *names)},
        "mean_us": dict.fromkeys(("without", *names), 100.0),
        "threshold_us": dict.fromkeys(names, 200.0), "percentile": dict.fromkeys(names, 90.0),
        "candidate_percentiles": [80.0, 90.0], "candidate_areas_us": [1.0, 2.0],
    }  # fmt: skip
    return {"rows": rows, "shown": shown, "runs": []}


def _day(jump: float, seed: int = 1) -> dict[str, Any]:
    """Return inflection points that are constant for ten hours and then move."""
    rows = []
    for minutes in fig07.WINDOWS_MIN:
        for i in range(fig07.HOURS * 60 // minutes):
            hour = i * minutes / 60
            rows.append(
                {
                    "workload": "az-e", "seed": seed, "window_min": minutes, "window": i,
                    "start_h": hour, "drive": 0,
                    "threshold_us": 100, "percentile": 85.0 + jump * (hour >= 10), "reads": 900,
                    "day_threshold_us": 100, "day_percentile": 85.0,
                    "percentile_of_day_threshold": 85.0,
                }
            )  # fmt: skip
    return {"rows": rows, "without": [], "runs": []}


def _judged() -> dict[str, Any]:
    rows = [
        {
            "workload": workload, "array": ARRAY_OF[workload], "seed": seed, "drive": drive,
            "training": training, "where": where, "bias": 2.0, "accuracy": 0.9,
            "false_submit_ratio": 0.03, "false_revoke_ratio": 0.07,
        }
        for workload, seed, drive, (training, where) in itertools.product(
            ("az-c", "az-e"), (1, 2, 3), range(3),
            [(t, "offline") for t in fig10.TRAININGS] + [(t, "live") for t in fig10.LIVE],
        )
    ]  # fmt: skip
    means = [
        {
            "workload": w, "array": ARRAY_OF[w],
            "policies": {
                t: {"mean_us": [200.0, 190.0, 210.0], "revoked_ratio": 0.1} for t in fig10.LIVE
            },
            "below": {fig10.LIVE[1]: {fig10.LIVE[0]: [0.1, 0.05, 0.15]}},
        }
        for w in ("az-c", "az-e")
    ]  # fmt: skip
    return {"rows": rows, "means": means, "runs": []}


def _shapes() -> dict[str, Any]:
    rows = [
        {
            "model": name, "workload": workload, "seed": seed, "accuracy": 0.9, "slow_recall": 0.7,
            "false_submit_ratio": 0.03, "false_revoke_ratio": 0.07, "epochs": 12,
            "accuracy_by_block": [0.9 + 0.001 * len(shape.hidden)] * table3.BLOCKS,
        }
        for seed in (1, 2, 3)
        for name, shape in table3.MODELS.items()
        for workload in table3.WORKLOADS_OF[name]
    ]  # fmt: skip
    return {"rows": rows, "time_ns": dict.fromkeys(table3.MODELS, 100.0), "runs": []}


def _workloads() -> dict[str, Any]:
    rows = [
        {
            "workload": workload, "drive": drive,
            **dict(zip(table1.FIELDS, table1.PAPER[workload], strict=True)),
            "slack": 0.03, "burstiness": 0.1, "recorded_reads": 5, "late_ratio": 0.0,
            "service_mean_us": 100.0, "response_mean_us": 101.0,
        }
        for workload in WORKLOADS
        for drive in range(3)
    ]  # fmt: skip
    rows[0]["iops_mean"] *= 1.04
    for row in rows:
        if row["workload"] == "co-c":
            row["late_ratio"] = 0.3
    return {"rows": rows, "runs": []}


@pytest.mark.parametrize(
    ("module", "data", "words"),
    [
        (fig05, _points(), "from p80.0 to p86.0"),
        (fig07, _day(2.0), "0 of 160 windows of 60 min"),
        (fig10, _judged(), "Biases that the default training chose: "),
        (table3, _shapes(), "More accurate than LinnOS's network"),
        (table1, _workloads(), "iops_mean of az-c, by 4.0 %"),
    ],
)
def test_data_become_tables_text_and_a_figure(
    module: ModuleType, data: dict[str, Any], words: str, tmp_path: Path
) -> None:
    assert words in module.reading(data)
    tables = module.table(data)
    assert tables and all(table.rows for table in tables.values())
    for table in tables.values():
        assert {len(row) for row in table.rows} == {len(table.header)}
    module.draw(data, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_drives_that_fall_behind_are_named() -> None:
    words = table1.reading(_workloads())
    assert "more than one in a hundred: co-c (30.0 %)" in words
    assert "slack below 5 % and burstiness of 5 to 30 %: nothing." in words


def test_workloads_that_differ_from_the_paper_are_named() -> None:
    data = _workloads()
    for row in data["rows"]:
        if row["workload"] == "az-c":
            row["burstiness"] = 0.002 * (1 + row["drive"])
        if row["workload"] == "bs-e" and row["drive"] == 2:
            row["slack"] = 0.06
    words = table1.reading(data)
    assert "30 %: slack of bs-e (3.0 to 6.0 %), burstiness of az-c (0.2 to 0.6 %)." in words


def test_a_point_that_moves_within_fifteen_hours_is_not_steady() -> None:
    moved = fig07.deviations(_day(7.0), 60)
    # Windows that begin before the tenth hour and see it within fifteen: 0 to 4 have 15 after them.
    assert [row["first"] for row in moved] == [0, 1, 2, 3, 4]
    assert all(row["deviation"] == pytest.approx(7.0) for row in moved)
    assert fig07.within_bound(_day(7.0), 60) == {("az-e", 1, 0): 0.0}
    assert fig07.within_bound(_day(4.9), 60) == {("az-e", 1, 0): 1.0}


def test_days_of_two_seeds_are_kept_apart() -> None:
    steady, moving = _day(0.0, seed=1), _day(7.0, seed=2)
    data = {**steady, "rows": steady["rows"] + moving["rows"]}
    assert fig07.largest(data, 60) == {("az-e", 1, 0): 0.0, ("az-e", 2, 0): 7.0}
    assert fig07.within_bound(data, 60) == {("az-e", 1, 0): 1.0, ("az-e", 2, 0): 0.0}
    # Within a day, the difference between seeds has no effect.
    alone = fig07.spreads(moving)["az-e", 60, 0]["std"]
    assert fig07.spreads(data)["az-e", 60, 0]["std"] == pytest.approx(alone / 2)


def test_window_without_a_point_is_skipped_and_counted() -> None:
    data = _day(7.0)
    # The third window of an hour, and all that come after the jump at ten hours.
    gone = [
        r for r in data["rows"] if r["window_min"] == 60 and (r["window"] in (2, *range(10, 20)))
    ]
    data["rows"] = [row for row in data["rows"] if row not in gone]
    data["without"] = [
        {k: row[k] for k in ("workload", "seed", "window_min", "window")} for row in gone
    ]
    moved = fig07.deviations(data, 60)
    assert [row["first"] for row in moved] == [0, 1, 3, 4]
    assert all(row["deviation"] == 0 for row in moved)
    assert "11 of 160 windows of 60 min" in fig07.reading(data)


def test_the_kernels_counts_are_read_drive_by_drive(tmp_path: Path) -> None:
    counts = {"latency_critical": 100, "false_submits": 4, "false_revokes": 6, "probes": 1}
    lines = [f"flash{k} {name} {n * (k + 1)}" for k in range(2) for name, n in counts.items()]
    # In older replays.
    lines.append("flash0 latency_us_histogram " + " ".join(["0"] * 88))
    (tmp_path / "stats.txt").write_text("\n".join(lines))
    for ratios in fig10._live(tmp_path / "stats.txt"):
        assert ratios == {
            "accuracy": pytest.approx(0.9), "false_submit_ratio": 0.04, "false_revoke_ratio": 0.06,
        }  # fmt: skip


def test_claims_are_measured_on_such_data() -> None:
    sources = {"fig05": _points(), "fig07": _day(7.0), "fig10": _judged(), "table3": _shapes()}
    judged = {
        claim.text: claims.judge(claim, list(claims._measured(claim, sources).values()), 5)
        for claim in claims.CLAIMS
    }
    assert judged["inflection points, percentile"] == claims.NOT_SHOWN
    assert judged["false submits with the bias"] == claims.NOT_SHOWN
    assert judged["accuracy"] == claims.NOT_SHOWN
    assert judged[
        "inflection point of an hour, largest deviation in 15 hours, percentiles"
    ] == claims.NOT_COMPARABLE  # fmt: skip
    assert judged["model E over LinnOS's accuracy"] == claims.NOT_REPRODUCED
    assert judged["mean of LinnOS+HL below hedging at p95"] == claims.UNKNOWN


def test_digits_of_integers_are_capped() -> None:
    largest = (16 << 30) - 4096
    digits = table3._digits(np.array([[largest, 0], [5, 123]]), table3.OFFSET_DIGITS)
    assert ["".join(map(str, row)) for row in digits.tolist()] == [
        f"{largest}{0:011d}", f"{5:011d}{123:011d}",
    ]  # fmt: skip
    assert table3._digits(np.array([[12_345]]), 4).tolist() == [[9, 9, 9, 9]]


def test_claims_of_experiments_not_run_keep_committed_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context("claims", Cache(tmp_path), 1, False, tmp_path / "out" / "claims")
    monkeypatch.setattr(claims, "RESULTS", tmp_path)
    for source, data in (("fig05", _points()), ("fig10", _judged())):
        (folder := tmp_path / "out" / source).mkdir(parents=True)
        (folder / "data.json").write_text(json.dumps(data))
        (folder / "record.json").write_text('{"seeds": [1, 2]}')
    first = claims.run(context)
    assert first["as_committed"] == []
    (tmp_path / "claims.json").write_text(json.dumps({"numbers": first["claims"]}))
    (tmp_path / "out" / "fig05" / "data.json").unlink()
    again = claims.run(context)
    assert again["claims"] == first["claims"]
    assert "but as committed: fig05" in claims.reading(again)
    seeds = {row[0]: row[-1] for row in claims.table(again)["Claims of the paper"].rows}
    assert seeds["accuracy"] == "2" and seeds["share of the CPU a drive"] == "-"
    # Values that a development run has not measured are unknown there.
    developing = replace(context, development=True)
    judged = {row["claim"]: row["judged"] for row in claims.run(developing)["claims"]}
    assert judged["inflection points, percentile"] == claims.UNKNOWN
    assert judged["accuracy"] != claims.UNKNOWN


def test_cpu_share_pools_seeds_not_drives(tmp_path: Path) -> None:
    rows = [
        {
            "workload": "az-e", "seed": seed, "drive": drive, "reads_per_s": 1000.0 * seed,
            "cpu_share": 0.001 * seed,
        }
        for seed, drive in itertools.product((1, 2, 3), range(3))
    ]  # fmt: skip
    data = {"rows": rows, "work_ns": {"scalar": 700.0, "reference": 900.0}, "runs": []}
    # Three seeds, not nine drives, because drives of a seed share its rate.
    share = cpu.by_workload(data, "cpu_share")["az-e"]
    assert share.value == pytest.approx(0.002) and 0 < share.low <= 0.001 and share.high >= 0.003
    ((workload, rate, text),) = cpu.table(data)["One core, scalar engine"].rows
    assert (workload, rate.split()[0], text.split()[0]) == ("az-e", "2000", "0.200")
    cpu.draw(data, tmp_path / "cpu.png")


def test_features_with_four_past_reads_equal_the_kernels(tmp_path: Path) -> None:
    path = busy_trace(tmp_path / "a.blk")
    reads = load_reads(path)
    digits, latency_us = table3._features(path, table3.Shape(4, ()))
    assert np.array_equal(digits, reads.digits())
    assert np.array_equal(latency_us, reads.latency_us)
    more, _ = table3._features(path, table3.Shape(7, (), offsets=True))
    assert more.shape == (len(reads), table3.Shape(7, (), offsets=True).n_inputs)
    # Pending, where it is, latency: of the last four and now, of as many, of the last four.
    n = table3.OFFSET_DIGITS
    assert np.array_equal(more[:, 9:24], digits[:, :15])
    assert np.array_equal(more[:, 24 + 8 * n + 12 :], digits[:, 15:])

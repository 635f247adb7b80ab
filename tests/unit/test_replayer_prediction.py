# SPDX-License-Identifier: MIT
"""Predicting policies of the replayer: their models, their I/O, their reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from replaying import (
    BLOCK,
    DRIVE_BYTES,
    N_DRIVES,
    mixed_ios,
    replay,
    summary,
    write_trace,
)
from test_latency_model import random_trees
from test_model_format import random_model
from trees_by_hand import last_read

from linnapp.model.file import LatencyModel
from linnapp.trace import replay_log

LAST_READ = last_read(threshold_us=900, refuse_us=900, overdue_us=900)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "t", mixed_ios(3000, 1))


def models(folder: Path, model: LatencyModel = LAST_READ) -> str:
    paths = [folder / f"m{k}.linnos" for k in range(N_DRIVES)]
    for path in paths:
        model.save(path)
    return ",".join(map(str, paths))


def test_lowest_reports_how_often_it_explored(tmp_path: Path, drives: list[Path]) -> None:
    """The drives are equal and read once per ms, so two of them are idle most of the time.

    The guard is off, so that latencies on a busy machine have no effect on probes.
    """
    rng = np.random.default_rng(1)
    trace = write_trace(
        tmp_path / "t",
        [(i * 1000, ("read", "write")[i % 8 == 7], int(b) * BLOCK, BLOCK)
         for i, b in enumerate(rng.integers(0, DRIVE_BYTES // BLOCK, 1200))],
    )  # fmt: skip
    ran = replay(
        drives, [trace], "lowest", "--latency-model", models(tmp_path, random_trees()),
        "--explore-ms", "1", "--unguarded", "--replicate-writes",
        "--json", str(tmp_path / "o.json"), "--log", str(tmp_path / "o.log"),
    )  # fmt: skip
    run, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert (run["data_errors"], run["io_errors"], run["hedged"]) == (0, 0, 0)
    assert run["reads"] == sum(run["reads_served_by"]) == 1050
    # Probe copies, for which no user waits, count as extra I/O.
    assert 0 < run["explored"] <= 10
    assert run["extra_ios"] == run["explored"] == log["extra_ios"].sum()
    assert run["extra_io_ratio"] == pytest.approx(run["explored"] / run["reads"])
    assert run["explored"] == np.count_nonzero(log["flags"] & replay_log.EXPLORED)
    assert f"explored {run['explored']}: " in ran.stdout
    assert run["config"]["latency_model"] == models(tmp_path).split(",")
    assert run["config"]["explore_ms"] == 1


def test_exploration_can_be_turned_off(tmp_path: Path, drives: list[Path], trace: Path) -> None:
    replay(drives, [trace], "lowest", "--latency-model", models(tmp_path, random_trees()),
           "--explore-ms", "0", "--json", str(tmp_path / "o.json"))  # fmt: skip
    assert summary(tmp_path / "o.json")["explored"] == 0


@pytest.mark.parametrize(("policy", "hedges"), [("lowest", False), ("lowest-h95", True)])
def test_hedges_and_probes_stay_within_the_budget(
    tmp_path: Path, drives: list[Path], trace: Path, policy: str, hedges: bool
) -> None:
    replay(drives, [trace], policy, "--latency-model", models(tmp_path), "--spread",
           "--hedge-us", "1", "--hedge-budget", "5%", "--replicate-writes",
           "--json", str(tmp_path / "o.json"))  # fmt: skip
    run = summary(tmp_path / "o.json")
    assert run["data_errors"] == 0
    assert (run["hedged"] > 0) == hedges
    assert run["extra_ios"] == run["hedged"] + run["explored"] <= 0.05 * run["reads"]


def test_hedging_policy_explores_with_a_fifth_of_the_budget(
    tmp_path: Path, drives: list[Path]
) -> None:
    """Two drives are idle most of the time, and no read is late."""
    trace = write_trace(
        tmp_path / "t", [(i * 1000, "read", i % 512 * BLOCK, BLOCK) for i in range(1500)]
    )
    replay(drives, [trace], "lowest-h95", "--latency-model", models(tmp_path, random_trees()),
           "--explore-ms", "1", "--unguarded", "--hedge-us", "900000000", "--hedge-budget", "2%",
           "--json", str(tmp_path / "o.json"))  # fmt: skip
    run = summary(tmp_path / "o.json")
    assert run["hedged"] == 0
    assert 0 < run["explored"] <= 0.2 * 0.02 * run["reads"]


def test_second_read_is_sent_if_it_gains_within_the_budget(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    """Files are fast or, on a busy machine, slow: some reads are hedged, and all are right."""
    for budget in (0.05, 0.0):
        replay(drives, [trace], "lowest-two", "--latency-model", models(tmp_path), "--spread",
               "--hedge-budget", str(budget), "--replicate-writes",
               "--json", str(tmp_path / "o.json"))  # fmt: skip
        run = summary(tmp_path / "o.json")
        assert (run["data_errors"], run["io_errors"]) == (0, 0)
        assert run["extra_ios"] == run["hedged"] + run["explored"] <= budget * run["reads"]
        assert (run["hedged"] > 0) == (budget > 0)


def hedge_tables(folder: Path, rows: str = "0 1\n") -> str:
    paths = [folder / f"m{k}.hedge" for k in range(N_DRIVES)]
    for path in paths:
        path.write_text(f"linnos hedge table 1\n# made up\n{rows}")
    return ",".join(map(str, paths))


def test_lowest_p99_hedges_after_the_time_in_the_table(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    """Reads of files take more than a microsecond and less than the other row's 4000 s."""
    runs = []
    for rows in ("0 1\n", "0 4000000000\n"):
        replay(drives, [trace], "lowest-p99", "--latency-model", models(tmp_path), "--spread",
               "--hedge-table", hedge_tables(tmp_path, rows), "--hedge-budget", "1%",
               "--replicate-writes", "--json", str(tmp_path / "o.json"))  # fmt: skip
        runs.append(summary(tmp_path / "o.json"))
    early, late = runs
    assert early["hedged"] > 0 and early["hedges_denied"] > 0 and early["data_errors"] == 0
    assert early["extra_ios"] == early["hedged"] + early["explored"] <= 0.01 * early["reads"]
    assert late["hedged"] == late["hedges_denied"] == 0
    assert late["config"]["hedge_table"] == hedge_tables(tmp_path).split(",")
    assert late["config"]["hedge_percentile"] is None


def test_missing_or_invalid_hedge_tables_are_refused(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    given = ("lowest-p99", "--latency-model", models(tmp_path))
    ran = replay(drives, [trace], *given, status=1)
    assert "--hedge-table: 0 files for 3 drives; policy lowest-p99 needs one for each" in ran.stderr
    tables = hedge_tables(tmp_path, "0 100\n50 90\n")
    ran = replay(drives, [trace], *given, "--hedge-table", tables, status=1)
    wrong = "the delay must not be smaller than in the previous row; `linnapp train"
    assert f"m0.hedge: line 4: {wrong}" in ran.stderr
    first = tables.split(",")[0]
    ran = replay(drives, [trace], *given, "--hedge-table", tables, "--json", first, status=1)
    assert f"--json {first}: it is the --hedge-table" in ran.stderr


def of_another_kind(folder: Path) -> str:
    random_model(1).save(folder / "network.linnos")
    return f"{folder}/network.linnos: a fast/slow network, which predicts no latencies"


def cut_short(folder: Path) -> str:
    random_trees().save(folder / "cut.linnos")
    data = (folder / "cut.linnos").read_bytes()
    (folder / "cut.linnos").write_bytes(data[:-1])
    return f"{folder}/cut.linnos: truncated file"


def damaged(folder: Path) -> str:
    random_trees().save(folder / "damaged.linnos")
    data = bytearray((folder / "damaged.linnos").read_bytes())
    data[100] ^= 1
    (folder / "damaged.linnos").write_bytes(data)
    return f"{folder}/damaged.linnos: checksum mismatch"


def a_text(folder: Path) -> str:
    (folder / "text").write_text("latencies")
    return f"{folder}/text: bad magic, not a model file"


def nothing(folder: Path) -> str:
    return f"{folder}/nothing: No such file or directory"


def a_folder(folder: Path) -> str:
    return f"{folder}: Is a directory"


@pytest.mark.parametrize("bad", [of_another_kind, cut_short, damaged, a_text, nothing, a_folder])
def test_bad_models_are_named_with_the_remedy(
    tmp_path: Path, drives: list[Path], trace: Path, bad: Callable[[Path], str]
) -> None:
    message = bad(tmp_path)
    good = models(tmp_path).split(",")
    given = ",".join([*good[:2], message.split(": ")[0]])
    ran = replay(drives, [trace], "lowest", "--latency-model", given, status=1)
    assert f"--latency-model {message}" in ran.stderr
    assert "`linnapp train --kind latency`" in ran.stderr
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)


def test_number_of_models_must_equal_number_of_drives(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    ran = replay(drives, [trace], "lowest", status=1)
    assert "policy lowest: needs a model of latencies for each drive" in ran.stderr
    one = models(tmp_path).split(",")[0]
    ran = replay(drives, [trace], "lowest-h95", "--latency-model", one, status=1)
    assert "--latency-model: 1 models for 3 drives; give one for each" in ran.stderr


def test_a_model_is_not_overwritten(tmp_path: Path, drives: list[Path], trace: Path) -> None:
    given = models(tmp_path)
    first = given.split(",")[0]
    before = Path(first).read_bytes()
    ran = replay(
        drives, [trace], "lowest", "--latency-model", given, "--json", first, status=1
    )  # fmt: skip
    assert f"--json {first}: it is the --latency-model" in ran.stderr
    ran = replay([Path(first), *drives[1:]], [trace], "lowest", "--latency-model", given, status=1)
    assert f"drive {first}: it is the --latency-model" in ran.stderr
    assert Path(first).read_bytes() == before

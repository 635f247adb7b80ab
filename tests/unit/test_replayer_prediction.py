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


def test_fastest_reports_how_often_it_explored(tmp_path: Path, drives: list[Path]) -> None:
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
        drives, [trace], "fastest", "--latency-model", models(tmp_path, random_trees()),
        "--probe-after-ms", "1", "--unguarded", "--replicate-writes",
        "--json", str(tmp_path / "o.json"), "--log", str(tmp_path / "o.log"),
    )  # fmt: skip
    run, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert (run["data_errors"], run["io_errors"], run["hedged"]) == (0, 0, 0)
    assert run["reads"] == sum(run["reads_served_by"]) == 1050
    # Probe copies, for which no user waits, count as extra I/O.
    assert 0 < run["probes"] <= 10
    assert run["extra_ios"] == run["probes"] == log["extra_ios"].sum()
    assert run["extra_io_ratio"] == pytest.approx(run["probes"] / run["reads"])
    assert run["probes"] == np.count_nonzero(log["flags"] & replay_log.PROBED)
    assert f"probes {run['probes']}: " in ran.stdout
    assert run["config"]["latency_model"] == models(tmp_path).split(",")
    assert run["config"]["probe_after_ms"] == 1


def test_exploration_can_be_turned_off(tmp_path: Path, drives: list[Path], trace: Path) -> None:
    replay(drives, [trace], "fastest", "--latency-model", models(tmp_path, random_trees()),
           "--probe-after-ms", "0", "--json", str(tmp_path / "o.json"))  # fmt: skip
    assert summary(tmp_path / "o.json")["probes"] == 0


def test_duplicates_and_probes_stay_within_the_limit(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    """Files are fast or, on a busy machine, slow: some reads are sent twice, and all are right."""
    for limit in (("5",), ("0%",), ()):
        options = ("--duplicates", *(("--max-duplicates", *limit) if limit else ()))
        replay(drives, [trace], "fastest", "--latency-model", models(tmp_path), "--spread",
               *options, "--replicate-writes", "--json", str(tmp_path / "o.json"))  # fmt: skip
        run = summary(tmp_path / "o.json")
        percent = float(limit[0].rstrip("%")) if limit else None
        assert (run["data_errors"], run["io_errors"]) == (0, 0)
        assert run["config"]["duplicates"] and run["config"]["max_duplicates"] == percent
        assert run["extra_ios"] == run["hedged"] + run["probes"]
        assert run["extra_ios"] <= (1 if percent is None else percent / 100) * run["reads"]
        assert (run["hedged"] > 0) == (percent != 0)


def test_without_duplicates_only_probes_are_extra(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    replay(drives, [trace], "fastest", "--latency-model", models(tmp_path), "--spread",
           "--replicate-writes", "--json", str(tmp_path / "o.json"))  # fmt: skip
    run = summary(tmp_path / "o.json")
    assert run["hedged"] == 0 and run["extra_ios"] == run["probes"]
    assert not run["config"]["duplicates"] and run["config"]["max_duplicates"] is None


def test_probes_get_a_fifth_of_the_limit(tmp_path: Path, drives: list[Path]) -> None:
    """Two drives are idle most of the time."""
    trace = write_trace(
        tmp_path / "t", [(i * 1000, "read", i % 512 * BLOCK, BLOCK) for i in range(1500)]
    )
    replay(drives, [trace], "fastest", "--latency-model", models(tmp_path, random_trees()),
           "--probe-after-ms", "1", "--unguarded", "--duplicates", "--max-duplicates", "2",
           "--json", str(tmp_path / "o.json"))  # fmt: skip
    run = summary(tmp_path / "o.json")
    assert 0 < run["probes"] <= 0.2 * 0.02 * run["reads"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-duplicates", "5"), "--max-duplicates limits the reads that --duplicates sends"),
        (("--duplicates", "--max-duplicates", "101"), "expected a percentage from 0 to 100"),
        (("--duplicates", "--max-duplicates", "-1"), "expected a percentage from 0 to 100"),
        (("--duplicates", "--max-duplicates", "many"), "expected a percentage from 0 to 100"),
    ],
)
def test_limit_of_duplicates_is_a_percentage_and_needs_duplicates(
    tmp_path: Path, drives: list[Path], trace: Path, options: tuple[str, ...], message: str
) -> None:
    ran = replay(drives, [trace], "fastest", "--latency-model", models(tmp_path), *options,
                 status=1)  # fmt: skip
    assert message in ran.stderr


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
    ran = replay(drives, [trace], "fastest", "--latency-model", given, status=1)
    assert f"--latency-model {message}" in ran.stderr
    assert "`linnapp train --kind latency`" in ran.stderr
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)


def test_number_of_models_must_equal_number_of_drives(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    ran = replay(drives, [trace], "fastest", status=1)
    assert "policy fastest: needs a model of latencies for each drive" in ran.stderr
    one = models(tmp_path).split(",")[0]
    ran = replay(drives, [trace], "fastest", "--latency-model", one, status=1)
    assert "--latency-model: 1 models for 3 drives; give one for each" in ran.stderr


def test_a_model_is_not_overwritten(tmp_path: Path, drives: list[Path], trace: Path) -> None:
    given = models(tmp_path)
    first = given.split(",")[0]
    before = Path(first).read_bytes()
    ran = replay(
        drives, [trace], "fastest", "--latency-model", given, "--json", first, status=1
    )  # fmt: skip
    assert f"--json {first}: it is the --latency-model" in ran.stderr
    ran = replay([Path(first), *drives[1:]], [trace], "fastest", "--latency-model", given, status=1)
    assert f"drive {first}: it is the --latency-model" in ran.stderr
    assert Path(first).read_bytes() == before

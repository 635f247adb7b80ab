# SPDX-License-Identifier: MIT
"""Predicting policies of the replayer: their models, their I/O, their reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replaying import (
    BLOCK,
    DRIVE_BYTES,
    N_DRIVES,
    mixed_ios,
    replay,
    replay_summed,
    summary,
    write_trace,
)
from test_model_format import random_model
from trees_by_hand import last_read, random_trees

from linnapp.model import LatencyModel
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
    result = replay(
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
    assert f"probes {run['probes']}: " in result.stdout
    assert run["config"]["latency_model"] == models(tmp_path).split(",")
    assert run["config"]["probe_after_ms"] == 1


def replay_replicated(
    tmp_path: Path, drives: list[Path], trace: Path, *options: str
) -> dict[str, Any]:
    """Replay a trace with each write on all drives, and reads spread and steered by models."""
    steered = ("--latency-model", models(tmp_path), "--spread", "--replicate-writes")
    return replay_summed(drives, [trace], "fastest", *steered, *options)


def test_duplicates_and_probes_stay_within_the_limit(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    """Files are fast or, on a busy machine, slow: some reads are sent twice, and all are right."""
    for limit in (("5",), ("0%",), ()):
        options = ("--duplicates", *(("--max-duplicates", *limit) if limit else ()))
        run = replay_replicated(tmp_path, drives, trace, *options)
        percent = float(limit[0].rstrip("%")) if limit else None
        assert (run["data_errors"], run["io_errors"]) == (0, 0)
        assert run["config"]["duplicates"] and run["config"]["max_duplicates"] == percent
        assert run["extra_ios"] == run["hedged"] + run["probes"]
        assert run["extra_ios"] <= (1 if percent is None else percent / 100) * run["reads"]
        assert (run["hedged"] > 0) == (percent != 0)


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
    result = replay(drives, [trace], "fastest", "--latency-model", models(tmp_path), *options,
                 status=1)  # fmt: skip
    assert message in result.stderr


BAD_MODELS: dict[str, tuple[bytes | None, str]] = {
    "network": (random_model(1).to_bytes(), "a fast/slow network, which predicts no latencies"),
    "cut": (random_trees().to_bytes()[:-1], "truncated file"),
    "damaged": (random_trees().to_bytes()[:-1] + b"x", "checksum mismatch"),
    "text": (b"latencies", "bad magic, not a model file"),
    "nothing": (None, "No such file or directory"),
    ".": (None, "Is a directory"),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_models_are_named_with_the_remedy(
    tmp_path: Path, drives: list[Path], trace: Path, name: str
) -> None:
    content, message = BAD_MODELS[name]
    bad = tmp_path / name
    if content is not None:
        bad.write_bytes(content)
    model_files = ",".join([*models(tmp_path).split(",")[:2], str(bad)])
    result = replay(drives, [trace], "fastest", "--latency-model", model_files, status=1)
    assert f"--latency-model {bad}: {message}" in result.stderr
    assert "`linnapp train --kind latency`" in result.stderr
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)


def test_number_of_models_must_equal_number_of_drives(
    tmp_path: Path, drives: list[Path], trace: Path
) -> None:
    result = replay(drives, [trace], "fastest", status=1)
    assert "--latency-model: 0 models for 3 drives" in result.stderr
    first = models(tmp_path).split(",")[0]
    result = replay(drives, [trace], "fastest", "--latency-model", first, status=1)
    assert "--latency-model: 1 models for 3 drives; give one for each" in result.stderr


def test_a_model_is_not_overwritten(tmp_path: Path, drives: list[Path], trace: Path) -> None:
    model_files = models(tmp_path)
    first = model_files.split(",")[0]
    before = Path(first).read_bytes()
    result = replay(
        drives, [trace], "fastest", "--latency-model", model_files, "--json", first, status=1
    )  # fmt: skip
    assert f"--json {first}: it is the --latency-model" in result.stderr
    result = replay(
        [Path(first), *drives[1:]], [trace], "fastest", "--latency-model", model_files, status=1
    )
    assert f"drive {first}: it is the --latency-model" in result.stderr
    assert Path(first).read_bytes() == before

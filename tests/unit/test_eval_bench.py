# SPDX-License-Identifier: MIT
"""The benchmarks run as documented, and name what they lack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eval.bench import BenchError, kernel, watching
from eval.bench import __main__ as command
from eval.cache import ROOT
from linnapp.errors import LinnappError


def test_the_list_runs_nothing() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "eval.bench", "--list"],
        check=True, capture_output=True, text=True, cwd=ROOT,
    ).stdout  # fmt: skip
    assert [line.split()[0] for line in listed.splitlines()] == list(command.BENCHMARKS)


def test_an_unknown_name_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "nothing"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "nothing: no such benchmark; there are ask," in capsys.readouterr().err


def test_the_policys_times_are_json_whichever_model_is_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "OUT", tmp_path)
    kernel.build(str(kernel.FOLDER / "bench_policy"))
    models = [kernel.MODEL, kernel.latency_model()]
    for of in (models, models[::-1]):
        made = tmp_path / "policy.json"
        # Without valgrind, which counts instructions, it takes a moment.
        subprocess.run(
            [kernel.FOLDER / "bench_policy", "--json", made, *of],
            check=True, stdout=subprocess.DEVNULL, env={"PATH": ""},
        )  # fmt: skip
        told = json.loads(made.read_text())
        assert list(told) == [str(model) for model in of]
        assert all(ways["hinted_read"]["warm_ns"] > 0 for ways in told.values())


def test_without_redis_its_benchmark_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchError, match="^redis-server, .*: not installed; .*redis.txt"):
        watching.redis()


def test_watch_benchmarks_say_that_they_need_root(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LinnappError, match="needs root"):
        watching.rate()


def test_ratios_are_paired_and_dropped_records_are_summed() -> None:
    pairs = watching.Pairs()
    for k in range(1, 6):
        pairs.bare.append(watching.Run(k, 1.0, 1.0))
        pairs.traced.append(watching.Run(1.5 * k, 1.25, 1.75, calls=10, dropped=k))
    found = pairs.to_json()
    assert found["ratios"] == {
        # Five pairs are too few for an interval of a median.
        "time": [1.5, None, None],
        "server's CPU": [1.25, None, None],
        "all CPU": [1.5, None, None],
    }
    assert found["calls"] == 50 and found["dropped"] == 15 and found["bare_s"] == 3

# SPDX-License-Identifier: MIT
"""Applications on raid1: their reports are parsed or refused, and scored and described."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import grid
from eval.cache import ROOT, Cache
from eval.experiment import Context
from eval.experiments.apps import EXPERIMENT, comparison, lab, programs, reports
from eval.experiments.apps.comparison import OFF, ON
from eval.experiments.apps.reports import Operations
from eval.long_table import LongTable
from linnapp.lab.work import StepError

GUEST = ROOT / "eval" / "experiments" / "apps" / "guest"

#: Output of two repeats of db_bench 7.8, without most of its description of itself.
DB_BENCH = """\
Keys:       16 bytes each (+ 0 bytes user-defined timestamp)
DB path: [/run/mnt/db]
readrandom   :   89.2 micros/op 11202 ops/sec 1.0 seconds 40 operations; 10.9 MB/s (40 of 40 found)

Microseconds per read:
Count: 40 Average: 90.5000  StdDev: 29.78
Min: 0  Median: 92.2873  Max: 861
Percentiles: P50: 92.29 P75: 101.21 P99: 109.78 P99.9: 602.33 P99.99: 843.23
------------------------------------------------------
[       0,       1 ]       10  25.000%  25.000% #####
(      76,     110 ]       30  75.000% 100.000% ###############

DB path: [/run/mnt/db]
readrandom   :   200.0 micros/op 5000 ops/sec 3.0 seconds 20 operations; 4.9 MB/s (20 of 20 found)

Microseconds per read:
Count: 20 Average: 200.0000  StdDev: 1.0
Min: 170  Median: 210.0  Max: 250
Percentiles: P50: 210 P75: 230 P99: 249 P99.9: 250 P99.99: 250
------------------------------------------------------
(     170,     250 ]       20 100.000% 100.000% ####################

readrandom [AVG    2 runs] : 8101 (± 0) ops/sec;    7.9 (± 0.0) MB/sec
readrandom [MEDIAN 2 runs] : 8101 ops/sec;    7.9 MB/sec
"""


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def run_command(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, **options
    )


def _damage_sqlite(database: Path) -> Path:
    """Change one byte in the middle of value 20."""
    content = database.read_bytes()
    at = content.index(hashlib.shake_128((20).to_bytes(8, "little")).digest(1000)) + 500
    database.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    return database


def _damage_wiredtiger(table: Path) -> Path:
    """Return a table with valid checksums, in which one digit of value 20 differs."""
    lines = run_command("wt", "-h", table, "dump", "-x", "table:kv").stdout.splitlines()
    at = len(lines) - 1 - 2 * 29
    lines[at] = lines[at][:500] + ("1" if lines[at][500] == "0" else "0") + lines[at][501:]
    other = table.with_name("other")
    other.mkdir()
    loaded = run_command("wt", "-h", other, "load", input="\n".join(lines) + "\n")
    assert loaded.returncode == 0, loaded.stderr
    return other


@pytest.mark.parametrize("engine", ["sqlite", "wiredtiger"])
def test_client_reads_at_the_given_rate_and_compares_every_value(
    engine: str, tmp_path: Path
) -> None:
    store, report = tmp_path / "db", tmp_path / "reads.csv"
    client: tuple[object, ...] = (sys.executable, "-I", GUEST / "sqlite_client.py")
    damage = _damage_sqlite
    if engine == "wiredtiger":
        if missing := programs.APPLICATIONS[engine].missing():
            pytest.skip(f"not installed: {', '.join(package for _, package in missing)}")
        client, damage = (tmp_path / "client",), _damage_wiredtiger
        source = GUEST / "wiredtiger_client.c"
        libraries = ("-lwiredtiger", "-lpthread", "-lm")
        built = run_command(
            "cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", *client, source, *libraries
        )
        assert built.returncode == 0, built.stderr
    reading = ("50", "4000", "0.1", "7", report)
    assert run_command(*client, "make", store, "50").returncode == 0
    assert run_command(*client, "read", store, *reading).returncode == 0
    assert run_command(*client, "check", store, "50").returncode == 0
    read = reports.read_client_report(report, 0.1)
    assert 300 < len(read.start_us) < 500
    assert read.start_us.min() >= 0 and read.start_us.max() < 0.1e6
    assert read.latency_us.min() > 0
    assert run_command(*client, "read", store, *reading).returncode == 0
    assert reports.read_client_report(report, 0.1).start_us.tolist() == read.start_us.tolist()
    report.unlink()
    damaged = damage(store)
    damaged_result = run_command(*client, "read", damaged, *reading)
    assert damaged_result.returncode and " 20 is not what was written" in damaged_result.stderr
    if engine == "wiredtiger":
        stderr = run_command(*client, "check", store, "51").stderr
        assert "keys are whole up to 50 of 51" in stderr
        damaged_result = run_command(*client, "check", damaged, "50")
        assert (
            damaged_result.returncode
            and "value 20 is not what was written" in damaged_result.stderr
        )
    assert not report.exists()


def test_pgbench_latencies_begin_at_the_scheduled_time(tmp_path: Path) -> None:
    # client, transaction, us, script, seconds and us when it ended, us that it was late
    log = _write(
        tmp_path / "log.12", "0 1 711 0 1600000001 586287 50\n1 1 348 0 1600000001 500000 9\n"
    )
    operations = reports.read_pgbench_log(log, 1600000001.25, 6)
    assert operations.latency_us.tolist() == [348, 711]
    assert operations.start_us == pytest.approx([250000 - 348, 336287 - 711], abs=1)
    assert operations.seconds == 6


def test_fio_report_must_have_all_reads_and_no_error(tmp_path: Path) -> None:
    log = _write(tmp_path / "fio_lat.1.log", "0, 74240, 0, 4096, 0\n5, 94464, 0, 4096, 0\n")
    report = tmp_path / "fio.json"

    def write_report(error: int, reads: int) -> None:
        report.write_text(json.dumps({"jobs": [{"error": error, "read": {"total_ios": reads}}]}))

    write_report(0, 2)
    operations = reports.read_fio_report(log, report, 8.0)
    assert operations.latency_us == pytest.approx([74.24, 94.464])
    assert operations.start_us == pytest.approx([0, 5000 - 94.464])
    write_report(84, 2)
    with pytest.raises(StepError, match="fio found 84 errors"):
        reports.read_fio_report(log, report, 8.0)
    write_report(0, 3)
    with pytest.raises(StepError, match="2 lines of 3 reads"):
        reports.read_fio_report(log, report, 8.0)


def test_db_bench_report_has_exact_sums_and_a_histogram_per_repeat(tmp_path: Path) -> None:
    operations = reports.read_db_bench_report(_write(tmp_path / "db_bench.txt", DB_BENCH))
    assert operations.seconds == 4.0 and len(operations.latency_us) == 60
    # Exact sums, not those of the classes.
    assert operations.totals_us is not None and operations.totals_us.tolist() == [
        40 * 90.5,
        20 * 200.0,
    ]
    assert np.bincount((operations.start_us / 2e6).astype(int)).tolist() == [40, 20]
    assert (operations.latency_us <= 1).sum() == 10
    assert np.median(operations.latency_us[-20:]) == pytest.approx(210)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 repeats"),
        ("1,2\n3\n", "0 repeats"),
        (DB_BENCH.replace("(20 of 20 found)", "(19 of 20 found)"), "19 of 20 keys found"),
        (
            DB_BENCH.replace(" 20 100.000%", " 19 100.000%"),
            r"\[40, 20\] reads, \[40, 19\] of them in a histogram",
        ),
        (DB_BENCH.replace("readrandom   :", "fillseq :"), "0 repeats"),
    ],
)
def test_invalid_report_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = _write(tmp_path / "report", text)
    for read in (
        lambda: reports.read_client_report(path, 1.0),
        lambda: reports.read_pgbench_log(path, 0.0, 1.0),
        lambda: reports.read_fio_report(path, path, 1.0),
        lambda: reports.read_client_report(tmp_path / "none", 1.0),
    ):
        with pytest.raises(StepError, match=str(tmp_path)):
            read()
    with pytest.raises(StepError, match=f"{path}.*{message}"):
        reports.read_db_bench_report(path)


def test_counters_are_the_difference_over_the_run(tmp_path: Path) -> None:
    look = "mirror0 {}\nmirror1 13\nmirror2 13\ninferences {} 5 5\nprobes 0 0 0\n"
    before = _write(tmp_path / "before", look.format(20, 5))
    after = _write(tmp_path / "after", look.format(120, 7))
    assert reports.counters(before, after) == {
        "mirrors": [100, 0, 0], "inferences": [2, 0, 0], "probes": [0, 0, 0],
    }  # fmt: skip


def test_a_missing_application_is_named_with_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(programs, "find", lambda command: None if "bench" in command else "/bin/sh")
    context = Context("apps", Cache(tmp_path / "cache"), 1, True, tmp_path)
    with pytest.raises(StepError) as refused:
        EXPERIMENT.run(context)
    assert "RocksDB: no db_bench, of the Debian package rocksdb-tools" in str(refused.value)
    assert "apt-get install --no-install-recommends postgresql rocksdb-tools" in str(refused.value)
    assert not (tmp_path / "cache").exists(), "work had begun"
    lists = ("build", "libraries", "programs", "apps")
    paths = (ROOT / "packaging" / "apt" / f"{name}.txt" for name in lists)
    packages = {package for path in paths for package in path.read_text().splitlines()}
    for app in programs.APPLICATIONS.values():
        assert packages.issuperset(app.programs.values())


def _operations(rng: np.random.Generator, n: int, mean_us: float) -> Operations:
    start_us = np.sort(rng.uniform(0, 8e6, n))
    # Some blocks of time are slow for all policies.
    hard = np.where((start_us // 400_000).astype(int) % 5 == 0, 5.0, 1.0)
    return Operations(start_us, mean_us * hard * rng.exponential(1.0, n), 8.0)


def test_score_finds_halved_latencies() -> None:
    rng = np.random.default_rng(3)
    cells = [{OFF: _operations(rng, 20000, 100.0), ON: _operations(rng, 21000, 50.0)}
             for _ in range(4)]  # fmt: skip
    table = LongTable(("load",))
    comparison.add_scores(table, ("a",), cells)
    for mode, n in ((OFF, 80000), (ON, 84000)):
        assert table.value(("a",), mode, "operations") == n
        assert table.value(("a",), mode, "per_s") == n / 32
    for field in ("mean_us", "p95_us", "p99_us"):
        value, low, high = table.interval(("a",), ON, field, OFF).to_json()
        assert value == pytest.approx(0.5, abs=0.03) and 0.4 < low < value < high < 0.6, field
    value, low, high = table.interval(("a",), ON, "throughput").to_json()
    assert value == pytest.approx(1.05) and low <= value <= high
    # p99.9 would rest on 80 of the 80,000 operations.
    assert not any(key.measure == "p999_us" and key.policy == OFF for key, _ in table.items())
    assert table.reduction(("a",), ON, OFF, "p999_us") is None


def test_mean_of_classes_is_the_reported_mean() -> None:
    n = 4000
    start_us = np.repeat([1e6, 3e6, 5e6, 7e6], n // 4)
    runs = {
        mode: Operations(start_us, np.full(n, 100.0), 8.0, np.full(4, mean * n / 4))
        for mode, mean in ((OFF, 92.0), (ON, 46.0))
    }
    table = LongTable(("load",))
    comparison.add_scores(table, ("a",), [runs])
    assert table.value(("a",), OFF, "mean_us") == pytest.approx(92.0)
    assert table.interval(("a",), ON, "mean_us", OFF).value == pytest.approx(0.5)
    assert table.value(("a",), OFF, "p95_us") == pytest.approx(100.0)


def test_the_background_is_on_another_part_and_another_stretch_of_the_workload(
    tmp_path: Path,
) -> None:
    cell = grid.cell("bs-e", 1030)
    drives = lab.PartitionedArray(size_mb=cell.size_mb)
    assert drives.devices == ["/dev/flash0p2", "/dev/flash1p2", "/dev/flash2p2"]
    assert "addpart /dev/flash2 2 1048576 1048576" in drives.setup_script()
    traces = lab.background(Cache(tmp_path), cell, 1.0)
    lines = traces[1].read_text().splitlines()
    ios = [line.split() for line in lines if line.split()[-3:-2] in (["read"], ["write"])]
    assert len(ios) > 10
    ends = [int(offset) + int(size) for *_, offset, size in ios]
    assert max(ends) <= (cell.size_mb - lab.MIRROR_MB) << 20
    assert max(float(io[0]) for io in ios) <= 1e6

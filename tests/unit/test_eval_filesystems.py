# SPDX-License-Identifier: MIT
"""File systems on a slow drive: the plan, the locations of journals, the results of runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.cache import ROOT, Cache
from eval.experiment import Context
from eval.experiments import filesystems
from eval.experiments.filesystems import EXPERIMENT, commits, design, processor, reports
from eval.experiments.filesystems.design import CACHED, COMMON, CONFIGURATIONS, NONE, Case
from eval.experiments.filesystems.guest import blocks
from eval.experiments.filesystems.guest.mixes import BLOCK, KINDS, MIXES, Worker
from eval.experiments.filesystems.wrong import Wrong
from eval.long_table import LongTable
from linnapp.lab.work import StepError

GUEST = ROOT / "eval" / "experiments" / "filesystems" / "guest"


@pytest.mark.parametrize(
    ("system", "make", "size_mb", "start"),
    [
        # The superblock of jbd2, the header of a log record, or the version of a checkpoint.
        ("ext4", "mkfs.ext4 -q -F -N 40000 -E lazy_itable_init=1,lazy_journal_init=1", 2048,
         "c03b3998"),
        ("xfs", "mkfs.xfs -q -K", 512, "feedbabe"),
        ("f2fs", "mkfs.f2fs -q -t 0", 512, ""),
        ("btrfs", "mkfs.btrfs -q -K", 512, ""),
    ],
)  # fmt: skip
def test_region_script_finds_the_journal_or_metadata(
    system: str, make: str, size_mb: int, start: str, tmp_path: Path
) -> None:
    image = tmp_path / "image"
    with image.open("wb") as stream:
        stream.truncate(size_mb << 20)
    path = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}
    subprocess.run([*make.split(), str(image)], check=True, capture_output=True, env=path)
    output = subprocess.run(
        [sys.executable, "-I", str(GUEST / "region.py"), system, str(image)],
        check=True, capture_output=True, text=True, env=path,
    )  # fmt: skip
    first, length = map(int, output.stdout.split())
    assert 0 < first < first + length <= size_mb << 11
    with image.open("rb") as stream:
        stream.seek(first * 512)
        found = stream.read(8)
    assert found.hex().startswith(start)
    if system == "f2fs":
        assert int.from_bytes(found, "little") and length < size_mb << 10


def _worker(mix: str, folder: Path, seed: str = "1") -> Worker:
    worker = Worker(mix, 0, 3, 10, str(folder), seed)
    worker.lay_out()
    return worker


@pytest.mark.parametrize("mix", MIXES)
def test_mix_has_the_operations_of_filebench(mix: str, tmp_path: Path) -> None:
    worker = _worker(mix, tmp_path)
    with (tmp_path / "weblog").open("ab", buffering=0) as log:
        worker.run(4, 10, log.fileno())
    assert worker.error is None
    kinds = [KINDS[k] for k in worker.rows[::3]]
    once = {
        "fileserver": "create write close open append close open read close delete stat",
        "webserver": "open read close " * 10 + "append",
        "varmail": "delete create append fsync close open read append fsync close open read close",
        "filesync": "create write close open append fsync close open read close delete stat",
        "mixed": "open write close " * 4,
    }[mix].split()
    assert kinds == once * 4
    sizes = [path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(size % BLOCK for size in sizes)
    assert (tmp_path / "weblog").stat().st_size > 0 or mix != "webserver"


def test_worker_reports_wrong_data(tmp_path: Path) -> None:
    worker = _worker("webserver", tmp_path)
    for path in worker.size:
        Path(path).write_bytes(bytes(worker.size[path]))
    with (tmp_path / "weblog").open("ab", buffering=0) as log:
        worker.run(1, 10, log.fileno())
    assert "not what was written" in str(worker.error)


def _report(path: Path, latency_us: Callable[[int, int], float], threads: int = 3) -> Path:
    """Write a synthetic report in which each thread reads and syncs 40 times."""
    rows = [
        (KINDS.index("read" if i % 2 else "fsync"), 1000 * i, round(1000 * latency_us(thread, i)))
        for thread in range(threads)
        for i in range(80)
    ]
    np.array(rows, np.int64).tofile(path)
    return path


def test_slowdown_is_one_half_for_operations_that_take_half_longer(tmp_path: Path) -> None:
    base = reports.read_operations(_report(tmp_path / "a", lambda t, i: 10 + i % 7), 3)
    slowed = reports.read_operations(
        _report(tmp_path / "b", lambda t, i: (10 + i % 7) * (2 if i % 2 else 1)), 3
    )
    assert base["mean_us"] == pytest.approx(np.mean([10 + i % 7 for i in range(80)]))
    assert sum(base["count"]["read"]) == 120 and len(base["count"]["read"]) == reports.BLOCKS
    assert reports.slowdown(base, slowed, "fsync").value == pytest.approx(0)
    assert reports.slowdown(base, slowed, "read").to_json() == pytest.approx([1, 1, 1])
    both = reports.slowdown(base, slowed)
    assert both.low <= both.value <= both.high and both.value == pytest.approx(0.5, abs=0.05)
    twice = reports.pooled([base, base])
    assert twice["mean_us"] == pytest.approx(base["mean_us"])
    assert len(twice["count"]["read"]) == 2 * reports.BLOCKS


def test_runs_with_different_operations_are_not_compared(tmp_path: Path) -> None:
    base = reports.read_operations(_report(tmp_path / "a", lambda t, i: 1), 3)
    other = reports.read_operations(_report(tmp_path / "b", lambda t, i: 1, threads=2), 2)
    with pytest.raises(StepError, match="are not those"):
        reports.slowdown(base, other)
    with pytest.raises(StepError, match="no report of 7 threads"):
        reports.read_operations(tmp_path / "a", 7)


TRACE = """\
 jbd2/flash0-8-70 [000] ..... {s}.000100: jbd2_start_commit: dev 259,0 transaction {n} sync 0
 jbd2/flash0-8-70 [000] ..... {s}.000110: jbd2_commit_logging: dev 259,0 transaction {n} sync 0
 jbd2/flash0-8-70 [000] ..... {s}.000120: block_rq_issue: 259,0 WS 8192 () 1000 + 16 none,0,0 [jbd2]
          <idle>-0  [000] d.h1. {s}.000150: block_rq_complete: 259,0 WS () 1000 + 16 none,0,0 [0]
          <idle>-0  [000] d.h1. {s}.000160: block_rq_complete: 259,0 W () 99000 + 8 none,0,0 [0]
 jbd2/flash0-8-70 [000] ..... {s}.000190: block_rq_issue: 259,0 WFS 4096 () 1016 + 8 none,0,0 [jbd2]
          <idle>-0  [000] d.h1. {s}.000230: block_rq_complete: 259,0 WFS () 1016 + 8 none,0,0 [0]
 jbd2/flash0-8-70 [000] ..... {s}.000235: jbd2_end_commit: dev 259,0 transaction {n} sync 0 head 1
"""


def test_commit_time_is_split_into_steps(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("".join(TRACE.format(n=n, s=n) for n in range(1, 4)))
    steps = commits.read_commit_steps(path, 1000, 500)
    expected = dict(zip(commits.STEPS, (10, 40, 40, 40, 5), strict=True))
    for name, us in steps.items():
        assert us == pytest.approx([expected[name]] * 3, abs=0.01), name
    path.write_text(TRACE.format(n=1, s=1).replace("1000 +", "77 +").replace("1016 +", "78 +"))
    with pytest.raises(StepError, match="no commit of a journal"):
        commits.read_commit_steps(path, 1000, 500)


def test_blocks_read_counts_wrong_and_missing_blocks(tmp_path: Path) -> None:
    blocks.write(tmp_path, "1", 4, 3)
    assert blocks.read(tmp_path, "1", 4, 3) == {
        "right": 12, "wrong": 0, "unreadable": 0, "missing": 0,
    }  # fmt: skip
    (tmp_path / "0").unlink()
    data = (tmp_path / "1").read_bytes()
    (tmp_path / "1").write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:-1])
    found = blocks.read(tmp_path, "1", 4, 3)
    assert found == {"right": 7, "wrong": 1, "unreadable": 0, "missing": 4}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LongTable:
    """Return the table of synthetic runs, which are slower with more delay."""

    def run_case(cache: Cache, case: Case, seed: int) -> list[dict[str, Any]]:
        found = []
        for slowness in (NONE, *case.slownesses):
            longer = 1 + 0.003 * slowness.added_us * (2 if "journal" in slowness.where else 1)
            if slowness.occupy and slowness.pattern == "continuous":
                longer *= 1.5
            path = _report(tmp_path / "report", lambda t, i, f=longer: (10 + i % 7) * f)  # type: ignore[misc]
            run = reports.read_operations(path, 3)
            run["drive"] = {"reads": 50, "writes": 50, "injected_reads": 5, "injected_writes": 6}
            run["steps"] = {name: [10.0 * longer] * 4 for name in commits.STEPS}
            found.append(run)
        return found

    def run_wrong(cache: Cache, wrong: Wrong, seed: int) -> dict[str, Any]:
        right = {"right": 90, "wrong": 10, "unreadable": 0, "missing": 0}
        checked = "clean differ" if wrong.kind.startswith("md") else "damage"
        found = {"injected": 10, "mounted": True, **right, "checked": checked}
        if wrong.fault == "lost_write" and wrong.file_system == "f2fs":
            found |= {"mounted": False, **dict.fromkeys(right)}
        return found

    monkeypatch.setattr(filesystems, "run_case", run_case)
    counts = {kind: 5.0 for kind in KINDS}
    monkeypatch.setattr(filesystems, "instructions", lambda cache: {"ext4 varmail": counts})
    monkeypatch.setattr(filesystems, "run_wrong", run_wrong)
    context = Context("filesystems", Cache(tmp_path / "cache"), 1, True, tmp_path, 2)
    return EXPERIMENT.run(context)


def test_runs_become_one_table_and_a_figure(table: LongTable, tmp_path: Path) -> None:
    all_places = table.places_of(filesystems.SLOWED)
    assert {place[0] for place in all_places} == {c.title for c in CONFIGURATIONS}
    few, many = (
        ("ext4 default", "varmail", "direct", "steady", slowness.title, "", "", "")
        for slowness in COMMON
    )
    # 10 us are 3 %, 1 ms a factor of 4; intervals are empty, because all is equally slower.
    for place, slowdown in ((few, 0.03), (many, 3.0)):
        number = table.get(place, "", "slowdown")
        assert number is not None and number.to_json() == pytest.approx([slowdown] * 3)
    assert table.value(few, "", "hit") == pytest.approx(0.11)
    cached = {place[0] for place in all_places if place[2] == CACHED}
    assert cached == {f"ext4 {name}" for name in (*design.JOURNAL_MODES, *design.LOADED_MODES)}
    commit = ("ext4 nodelalloc", "varmail", CACHED, "steady", COMMON[0].title, "commit", "", "")
    # Five steps of 10.3 us, four commits on each of two seeds.
    assert table.value(commit, "", "mean_us") == pytest.approx(5 * 10.3)
    assert table.value(commit, "", "operations") == 8
    fsync = (*commit[:5], "fsync", "", "")
    assert table.value(fsync, "", "slowdown") == pytest.approx(0.03)

    # 3 % of the time for the drive, to which 5 us are added.
    slow = (*few[:5], "fsync", "", "")
    fast = (*few[:4], "none", "fsync", "", "")
    alone_us = table.value(fast, "", "mean_us")
    assert table.value(fast, "", "processor_us") == 5
    charged = table.value(slow, "", "slowdown_charged")
    assert charged == pytest.approx(0.03 * alone_us / (alone_us + 5))

    def stored(storage: str, fault: str) -> dict[str, float]:
        place = (*[""] * 6, storage, fault)
        return {key.measure: of.value for key, of in table.items() if key.place == place}

    assert len(table.places_of(filesystems.STORED)) == 72
    assert stored("ext4", "zeros") == {
        "runs": 2, "mounted": 2, "injected": 20, "right": 180, "wrong": 20, "unreadable": 0,
        "missing": 0, "damaged": 2,
    }  # fmt: skip
    lost = stored("f2fs on md raid1", "lost_write")
    assert lost["mounted"] == lost["right"] == lost["damaged"] == 0 and lost["differ"] == 2
    tables = EXPERIMENT.tables(table)
    *_, compared, patterns = tables.values()
    assert compared.rows[0] == ("write-intensive mixes, % longer", "9.39", "3.0")
    # Four file systems on the steady drive, and ext4 on flash, with three mixes each.
    assert len(patterns.rows) == 15
    assert patterns.header[3:] == ("10 us", "1000 us", "10 us, occupying", "1000 us, occupying")
    assert [number.split()[0] for number in patterns.rows[0][3:]] == ["0.0", "0.0", "50.0", "50.0"]
    EXPERIMENT.draw(table, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_processor_time_is_without_that_of_the_call(tmp_path: Path) -> None:
    latencies_ns = (
        ("nothing", 100),
        ("nothing", 300),
        ("open", 1200),
        ("open", 2200),
        ("stat", 150),
    )
    rows = [(KINDS.index(kind), 0, took) for kind, took in latencies_ns]
    np.array(rows, np.int64).tofile(tmp_path / "report")
    assert processor.us_of_kinds(tmp_path / "report") == {"open": 1.5, "stat": 0.0}


@pytest.mark.skipif(
    not list(Path("/usr/lib/x86_64-linux-gnu").glob("librocksdb.so.?.?")),
    reason="no librocksdb: packaging/apt/apps.txt",
)
def test_pair_of_a_damaged_table_is_unreadable(tmp_path: Path) -> None:
    report = tmp_path / "report"

    def pairs(*arguments: object) -> dict[str, int] | None:
        command = [sys.executable, "-Es", GUEST / "pairs.py", *map(str, arguments)]
        report.unlink(missing_ok=True)
        subprocess.run(command, check=True)
        return json.loads(report.read_text()) if report.exists() else None

    pairs("write", tmp_path, 1, 20, 32)
    right = {"right": 640, "wrong": 0, "unreadable": 0, "missing": 0}
    assert pairs("read", tmp_path, 1, 20, 32, report) == right
    table = max((tmp_path / "db").glob("*.sst"), key=lambda path: path.stat().st_size)
    with table.open("r+b") as stream:
        stream.seek(500_000)
        stream.write(b"\0\0\0\0")
    assert pairs("read", tmp_path, 1, 20, 32, report) == {**right, "right": 639, "unreadable": 1}
    (tmp_path / "db" / "CURRENT").write_bytes(bytes(16))
    assert pairs("read", tmp_path, 1, 20, 32, report) is None

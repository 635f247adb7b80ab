# SPDX-License-Identifier: MIT
"""Inputs of the replayer: option values and traces, and its reports about them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import TraceBuilder
from replaying import (
    BLOCK,
    REPLAYER,
    command,
    mixed_ios,
    replay,
    replay_logged,
    replay_summed,
    summary,
    write_trace,
)

from linnapp import __version__
from linnapp.trace import replay_log

IMPLAUSIBLE = """
--hedge-budget 5
--hedge-budget 500%
--hedge-budget 0x1p-4
--hedge-budget -1%
--depth 010
--depth 0x10
--depth ' 10'
--depth +10
--depth 1.0
--depth 99999999999999999999
--seed -1
--tag 010
--duration inf
--skip nan
--skip 0x1
--skip 1e999
--prefill none|touched
--inject all:latency_us=1,drive=0.9
--inject all:latency_us=1,drive=3
--inject all:latency_us=1,every_ms=1e15
--inject all:slot_ms=-1
--inject random:ratio=1%,latency_us=1.5
--inject random:latency_us=1,ratio=0x1%
--inject interval:latency_us=1,interval=0
--inject all:latency_us=1,op=discard
--inject all:latency_us=1,shape=square
--inject all:latency_us=1,shape=queue,at_depth=70000
--inject all:latency_us=1,shape=pareto,tail=0.4
--inject all:latency_us=1,region_mb=0
--inject all:latency_us=1,drive=0+3
--inject all:latency_us=1,drive=1+1
--inject all:latency_us=1,drive=
--inject all:latency_us=2ms
--inject all:latency_us=1e6
--inject all:latency_us=2000.5
--inject all:latency_us=007
--inject all:latency_us=60000001x
--inject interval:latency_us=1,interval=7x
""".strip().splitlines()


@pytest.mark.parametrize("line", IMPLAUSIBLE)
def test_implausible_option_values_are_refused(
    tmp_path: Path, drives: list[Path], line: str
) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    option, value = shlex.split(line)
    result = replay(drives, [trace], "clone", option, value, status=1)
    assert (
        f"{option} {value}: " in result.stderr and f"{value.rsplit('=')[-1]}: exp" in result.stderr
    )
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)


AMBIGUOUS = {
    "sometimes:latency_us=1": 'unknown pattern "sometimes"',
    "all:ratio=1%,latency_us=1": 'no key of this pattern: "ratio"',
    "all:latency_us=1,where=here": 'unknown key "where"',
    "all:latency_us": 'without value: "latency_us"',
    "all:latency_us=1,": 'unknown key ""',
    "all:latency_us=1,rotate=2": 'takes no value: "rotate"',
    "all:latency_us=1,latency_us=2": 'given twice: "latency_us"',
    "all:latency_us=1,drive=0,drive=2": 'given twice (two drives are drive=0+2): "drive"',
    "all:slot_ms=5": 'missing key "latency_us"',
    "all:latency_us=1,shape=ramp": 'missing key "slot_ms"',
    "all:latency_us=1,shape=ramp,slot_ms=0": 'must not be 0: "slot_ms"',
    "all:latency_us=1,shape=ramp,slot_ms=6,every_ms=5": "a slot is longer than every_ms",
    "all:latency_us=1,slot_ms=6,every_ms=5,rotate": "a slot is longer than every_ms",
    "all:latency_us=1,slot_ms=0,every_ms=5,rotate": 'must not be 0: "slot_ms"',
    "all:latency_us=1,slot_ms=0,every_ms=5": 'must not be 0: "slot_ms"',
    "all:latency_us=1,slot_ms=5,every_ms=0,rotate": 'must not be 0: "every_ms"',
    "all:latency_us=1,slot_ms=5,rotate": 'missing key "every_ms"',
    "all:latency_us=1,every_ms=5": 'missing key "slot_ms"',
    "all:latency_us=1,shape=queue": 'missing key "at_depth"',
    "all:latency_us=1,at_depth=4": 'tail needs shape=pareto; not allowed here: "at_depth"',
    "all:latency_us=1,region_start_mb=4": 'missing key "region_mb"',
    "all:latency_us=1,slot_ms=5,every_ms=9,at_once=2": 'missing key "rotate"',
    "all:latency_us=1,slot_ms=1,every_ms=5,rotate,at_once=4": "there are only 3 drives",
}


def test_ambiguous_injection_is_refused_with_the_reason(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    for spec, message in AMBIGUOUS.items():
        result = replay(drives, [trace], "baseline", "--inject", spec, status=1)
        assert f"--inject {spec}: " in result.stderr and message in result.stderr


def test_pipe_is_refused_as_a_trace(tmp_path: Path, drives: list[Path]) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = replay(drives, [tmp_path / "pipe"], "baseline", status=1)
    assert (
        f"trace {tmp_path}/pipe: " in result.stderr
        and "pipes cannot be read twice" in result.stderr
    )


@pytest.mark.parametrize("sector", [2**55 - 1, 2**55 - 8, 2**54, 2**63, 2**64 - 1])
@pytest.mark.parametrize("fit", [[], ["--fit"]])
def test_a_sector_beyond_any_drive_is_refused(
    tmp_path: Path, drives: list[Path], sector: int, fit: list[str]
) -> None:
    builder = TraceBuilder()
    builder.io(0, 50, 0)
    builder.io(100, 150, sector, 4096)
    builder.io(200, 250, 8)
    path = tmp_path / "t.blk"
    builder.write(path)
    result = replay(drives, [path], "baseline", *fit, status=1)
    assert re.search(
        rf"sector (of an I/O is )?{sector}.*(too large for a|larger than any) drive", result.stderr
    )


def test_a_huge_io_is_refused(tmp_path: Path, drives: list[Path]) -> None:
    """Widened to whole blocks, its size would not fit 32 bits."""
    builder = TraceBuilder()
    builder.io(0, 50, 1, 2**32 - 512)
    builder.write(tmp_path / "t.blk")
    result = replay(drives, [tmp_path / "t.blk"], "baseline", "--fit", status=1)
    assert "than 64 MiB, the maximum of the replayer" in result.stderr


@pytest.mark.parametrize("folder", ["plain", "a.blktrace.0", "x.blktrace.dir"])
@pytest.mark.parametrize("name", ["t", "t.blktrace.0", "t.blktrace.1"])
def test_files_of_all_cpus_are_read_in_any_folder(
    tmp_path: Path, drives: list[Path], folder: str, name: str
) -> None:
    where = tmp_path / folder
    where.mkdir()
    for cpu in range(2):
        builder = TraceBuilder()
        for i in range(10):
            at = i * 200 + cpu * 100
            builder.io(at, at + 50, (cpu * 10 + i) * 8, cpu=cpu)
        builder.write(where / f"t.blktrace.{cpu}")
    out = tmp_path / "o.json"
    replay(drives, [where / name], "baseline", "--json", str(out))
    assert summary(out)["reads"] == 20


@pytest.mark.parametrize(
    "content",
    [
        "1.0 0 8192 0 1\n2.0 0 4096 4096 1\n",
        "fio version 3 iolog\n0 /dev/x read 8192 0\n0 /dev/x read 4096 4096\n",
    ],
)
def test_zero_length_reads_are_counted_but_not_submitted(
    tmp_path: Path, drives: list[Path], content: str
) -> None:
    (tmp_path / "t").write_text(content)
    result = replay(drives, [tmp_path / "t"], "baseline", "--json", str(tmp_path / "o.json"))
    run = summary(tmp_path / "o.json")
    assert (run["reads"], run["skipped_trace_lines"]) == (1, 1)
    assert "1 trace lines or records were left out: they have no data, or" in result.stdout


@pytest.mark.parametrize(
    ("reads", "known"),
    [
        (1, []),
        (5, ["p50", "p80"]),
        (99, ["p50", "p80", "p90", "p95"]),
        (100, ["p50", "p80", "p90", "p95", "p99"]),
        (1000, ["p50", "p80", "p90", "p95", "p99", "p999"]),
        (10000, ["p50", "p80", "p90", "p95", "p99", "p999", "p9999"]),
    ],
)
def test_a_percentile_of_too_few_reads_is_null(
    tmp_path: Path, drives: list[Path], reads: int, known: list[str]
) -> None:
    trace = write_trace(tmp_path / "t", [(i, "read", 0, BLOCK) for i in range(reads)])
    result = replay(drives, [trace], "baseline", "--json", str(tmp_path / "o.json"))
    run = summary(tmp_path / "o.json")
    names = ["p50", "p80", "p90", "p95", "p99", "p999", "p9999"]
    for prefix in ("", "response_"):
        assert [n for n in names if run[f"{prefix}{n}_us"] is not None] == known
        assert run[f"{prefix}mean_us"] > 0 and run[f"{prefix}max_us"] > 0
    assert ("p9999 -" in result.stdout) == ("p9999" not in known)
    assert run["write_p50_us"] is None


def test_summary_has_the_latencies_of_each_drive(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", mixed_ios(4000, 5))
    run, log = replay_logged(drives, [trace], "random")
    reads = log[log["op"] == replay_log.READ]
    assert [drive["device"] for drive in run["drives"]] == [str(drive) for drive in drives]
    for k, drive in enumerate(run["drives"]):
        own = reads["latency_ns"][reads["served_by"] == k] / 1000
        assert drive["reads"] == len(own) > 200
        assert drive["max_us"] == own.max() and drive["mean_us"] == pytest.approx(own.mean())
        p90 = np.quantile(own, 0.9, method="inverted_cdf")
        assert drive["p90_us"] == pytest.approx(p90, rel=1 / 1024)
        assert drive["p9999_us"] is None


def test_orphaned_copies_count_for_their_drive(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", [(i * 100, "read", 0, BLOCK) for i in range(300)])
    run = replay_summed(drives, [trace], "clone")
    answered = 2 * 300 - run["cancelled"]
    assert sum(drive["reads"] for drive in run["drives"]) == answered


#: A process starts with the peak of the process that forked it, so a small one forks the replayer.
PEAK_KIB = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], {})
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_memory_mib(arguments: list[str]) -> float:
    result = subprocess.run(
        [sys.executable, "-S", "-c", PEAK_KIB, *arguments, "--quiet"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(result.stderr.split()[-1]) / 1024


def test_few_blocks_of_a_large_drive_take_little_memory(tmp_path: Path) -> None:
    """This holds also if every mapping gets huge pages. A table of all blocks would take 8 GB."""
    drive = tmp_path / "large"
    with drive.open("wb") as file:
        file.truncate(4 << 40)
    rng = np.random.default_rng(1)
    block = rng.integers(0, (4 << 40) // BLOCK, 20_000)
    few, many = (
        write_trace(tmp_path / f"t{n}", [(i, "read", int(b) * BLOCK, BLOCK)
                                         for i, b in enumerate(block[:n])])
        for n in (1, 20_000)
    )  # fmt: skip
    base, used = (peak_memory_mib(command([drive], [t], "baseline")) for t in (few, many))
    assert used - base < 40


def test_install_puts_program_and_man_page_in_place(tmp_path: Path) -> None:
    def make(*arguments: str) -> None:
        folder = REPLAYER.parents[2] / "replayer"
        subprocess.run(
            ["make", "-C", folder, f"OUT={REPLAYER.parent}", *arguments],
            check=True, capture_output=True,
        )  # fmt: skip

    make("install", f"DESTDIR={tmp_path}/image", "PREFIX=/opt/replayer")
    root = tmp_path / "image/opt/replayer"
    found = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert found == [root / "bin/replayer", root / "share/man/man1/replayer.1"]
    result = subprocess.run([root / "bin/replayer", "--version"], capture_output=True, text=True)
    assert result.stdout == f"replayer {__version__}\n"
    make("uninstall", f"DESTDIR={tmp_path}/image", "PREFIX=/opt/replayer")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]

# SPDX-License-Identifier: MIT
"""Inputs of the replayer: option values and traces, and its reports about them."""

from __future__ import annotations

import os
import platform
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
    summary,
    write_trace,
)

from linnapp import __version__
from linnapp.trace import replay_log


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--hedge-budget", "5"),
        ("--hedge-budget", "500%"),
        ("--hedge-budget", "0x1p-4"),
        ("--hedge-budget", "-1%"),
        ("--depth", "010"),
        ("--depth", "0x10"),
        ("--depth", " 10"),
        ("--depth", "+10"),
        ("--tag", "010"),
        ("--duration", "0x10"),
        ("--duration", " 1"),
        ("--duration", "inf"),
        ("--skip", "nan"),
        ("--loops", "0"),
        ("--inject", "all:latency_us=1,drive=0.9"),
        ("--inject", "all:latency_us=1,drive=3"),
        ("--inject", "all:latency_us=1,every_ms=1e15"),
        ("--inject", "all:region_mb=1e15"),
        ("--inject", "all:slot_ms=-1"),
        ("--inject", "all:slot_ms=0x10"),
        ("--inject", "random:latency_us=1.5,ratio=1%"),
        ("--inject", "random:latency_us=1,ratio=0x1%"),
        ("--inject", "interval:latency_us=1,interval=010"),
        ("--inject", "interval:latency_us=1,interval=0"),
        ("--inject", "all:latency_us=1,op=discard"),
        ("--inject", "all:latency_us=1,shape=square"),
        ("--inject", "all:latency_us=1,shape=queue,at_depth=0"),
        ("--inject", "all:latency_us=1,shape=queue,at_depth=70000"),
        ("--inject", "all:latency_us=1,shape=pareto,tail=0.4"),
        ("--inject", "all:latency_us=1,shape=pareto,tail=heavy"),
        ("--inject", "all:latency_us=1,region_mb=0"),
        ("--inject", "all:latency_us=1,region_mb=1.5"),
        ("--inject", "all:latency_us=1,drive=0+3"),
        ("--inject", "all:latency_us=1,drive=1+1"),
        ("--inject", "all:latency_us=1,drive="),
        ("--inject", "all:latency_us=1,slot_ms=1,every_ms=5,rotate,at_once=0"),
        ("--inject", "all:latency_us=1,slot_ms=1,every_ms=5,rotate,at_once=4"),
    ],
)
def test_implausible_option_values_are_refused(
    tmp_path: Path, drives: list[Path], option: str, value: str
) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    ran = replay(drives, [trace], "clone", option, value, status=1)
    assert option in ran.stderr and value.rsplit("=")[-1].strip() in ran.stderr
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--hedge-budget", "1"),
        ("--hedge-budget", "100%"),
        ("--hedge-budget", "0.5%"),
        ("--depth", "10"),
        ("--duration", "1e3"),
    ],
)
def test_plausible_option_values_are_accepted(
    tmp_path: Path, drives: list[Path], option: str, value: str
) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    replay(drives, [trace], "clone", option, value)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sometimes:latency_us=1", 'unknown pattern "sometimes"'),
        ("all:ratio=1%,latency_us=1", 'no key of this pattern: "ratio"'),
        ("random:ratio=1%,latency_us=1,interval=3", 'no key of this pattern: "interval"'),
        ("all:latency_us=1,where=here", 'unknown key "where"'),
        ("all:latency_us", 'without value: "latency_us"'),
        ("all:latency_us=1,", 'unknown key ""'),
        ("all:latency_us=1,rotate=2", 'takes no value: "rotate"'),
        ("all:latency_us=1,latency_us=2", 'given twice: "latency_us"'),
        ("all:latency_us=1,drive=0,drive=2", 'given twice (several are drive=0+2): "drive"'),
        ("all:slot_ms=5", 'missing key "latency_us"'),
        ("all:latency_us=1,shape=ramp", "needs slot_ms, in which it rises and falls"),
        ("all:latency_us=1,shape=ramp,slot_ms=6,every_ms=5", "no longer than every_ms"),
        ("all:latency_us=1,shape=queue", 'missing key "at_depth"'),
        ("all:latency_us=1,shape=pareto", 'missing key "tail"'),
        ("all:latency_us=1,at_depth=4", 'at_depth is for shape=queue, not "constant"'),
        ("all:latency_us=1,shape=queue,at_depth=4,tail=2", 'tail is for shape=pareto, not "queue"'),
        ("all:latency_us=1,region_start_mb=4", 'missing key "region_mb"'),
        ("all:latency_us=1,slot_ms=5,every_ms=9,at_once=2", 'at_once needs "rotate"'),
    ],
)
def test_ambiguous_injection_is_refused(
    tmp_path: Path, drives: list[Path], spec: str, message: str
) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    ran = replay(drives, [trace], "baseline", "--inject", spec, status=1)
    assert f"--inject {spec}: " in ran.stderr and message in ran.stderr
    # The error suggests alternatives.
    assert "rotate" in ran.stderr or "the patterns: all, continuous, random" in ran.stderr


@pytest.mark.parametrize("prefill", ["touched", "none"])
def test_skipping_all_ios_fails_before_writing(
    tmp_path: Path, drives: list[Path], prefill: str
) -> None:
    trace = write_trace(tmp_path / "t", [(i * 100, "write", i * BLOCK, BLOCK) for i in range(90)])
    replay(drives, [trace], "baseline", "--prefill", prefill, "--skip", "10", status=1)
    assert not any(drive.read_bytes().strip(b"\0") for drive in drives)


def test_pipe_is_refused_as_a_trace(tmp_path: Path, drives: list[Path]) -> None:
    os.mkfifo(tmp_path / "pipe")
    ran = replay(drives, [tmp_path / "pipe"], "baseline", status=1)
    assert f"trace {tmp_path}/pipe: " in ran.stderr and "pipes cannot be read twice" in ran.stderr


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
    ran = replay(drives, [path], "baseline", *fit, status=1)
    assert re.search(
        rf"sector (of an I/O is )?{sector}.*(too large for a|larger than any) drive", ran.stderr
    )


def test_a_huge_io_is_refused(tmp_path: Path, drives: list[Path]) -> None:
    """Widened to whole blocks, its size would not fit 32 bits."""
    builder = TraceBuilder()
    builder.io(0, 50, 1, 2**32 - 512)
    builder.write(tmp_path / "t.blk")
    ran = replay(drives, [tmp_path / "t.blk"], "baseline", "--fit", status=1)
    assert "is more than the replayer or the drive takes" in ran.stderr


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


def due_us(log: Path) -> dict[int, float]:
    found = replay_log.read(log)
    return dict(
        zip((found["offset_bytes"] // BLOCK).tolist(), (found["due_ns"] / 1000).tolist(),
            strict=True)
    )  # fmt: skip


def test_out_of_order_line_keeps_its_own_time(tmp_path: Path, drives: list[Path]) -> None:
    at = [0, 100, 300_000, 200, 300, 250, 400]
    trace = write_trace(tmp_path / "t", [(t, "read", i * BLOCK, BLOCK) for i, t in enumerate(at)])
    replay(drives, [trace], "baseline", "--log", str(tmp_path / "o.log"))
    assert due_us(tmp_path / "o.log") == dict(enumerate(at))


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
    ran = replay(drives, [tmp_path / "t"], "baseline", "--json", str(tmp_path / "o.json"))
    run = summary(tmp_path / "o.json")
    assert (run["reads"], run["skipped_trace_lines"]) == (1, 1)
    assert "1 trace lines without data to read or write were left out" in ran.stdout


@pytest.mark.parametrize("spread", [[], ["--spread"]])
def test_loops_repeat_the_traces_one_after_the_other(
    tmp_path: Path, drives: list[Path], spread: list[str]
) -> None:
    at = [1000, 2000, 4000]
    trace = write_trace(tmp_path / "t", [(t, "read", i * BLOCK, BLOCK) for i, t in enumerate(at)])
    replay(drives, [trace], "baseline", "--loops", "3", *spread,
           "--log", str(tmp_path / "o.log"), "--json", str(tmp_path / "o.json"))  # fmt: skip
    due = np.sort(replay_log.read(tmp_path / "o.log")["due_ns"]) // 1000
    assert due.tolist() == [1000, 2000, 4000, 5000, 6000, 8000, 9000, 10000, 12000]
    found = summary(tmp_path / "o.json")
    assert (found["reads"], found["config"]["loops"]) == (9, 3)


def test_loops_of_several_traces_wait_for_the_longest(tmp_path: Path, drives: list[Path]) -> None:
    short, long = TraceBuilder(), TraceBuilder()
    short.io(500, 550, 0)
    long.io(1000, 1050, 8)
    long.io(3000, 3050, 16)
    short.write(tmp_path / "short.blk")
    long.write(tmp_path / "long.blk")
    traces = [tmp_path / "short.blk", tmp_path / "long.blk"]
    replay(drives[:2], traces, "baseline", "--loops", "2", "--duration", "0.0045",
           "--log", str(tmp_path / "o.log"))  # fmt: skip
    log = replay_log.read(tmp_path / "o.log")
    found = sorted(zip((log["due_ns"] // 1000).tolist(), log["home"].tolist(), strict=True))
    assert found == [(0, 0), (500, 1), (2500, 0), (2500, 1), (3000, 1)]


def test_version_is_the_projects() -> None:
    ran = subprocess.run([REPLAYER, "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"replayer {__version__}\n"


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
    ran = replay(drives, [trace], "baseline", "--json", str(tmp_path / "o.json"))
    run = summary(tmp_path / "o.json")
    names = ["p50", "p80", "p90", "p95", "p99", "p999", "p9999"]
    for prefix in ("", "response_"):
        assert [n for n in names if run[f"{prefix}{n}_us"] is not None] == known
        assert run[f"{prefix}mean_us"] > 0 and run[f"{prefix}max_us"] > 0
    assert ("p9999 -" in ran.stdout) == ("p9999" not in known)
    assert run["write_p50_us"] is None


def test_each_drives_own_latency(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", mixed_ios(4000, 5))
    replay(drives, [trace], "random", "--json", str(tmp_path / "o.json"),
           "--log", str(tmp_path / "o.log"))  # fmt: skip
    run, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    reads = log[log["op"] == replay_log.READ]
    assert [drive["device"] for drive in run["drives"]] == [str(drive) for drive in drives]
    for k, drive in enumerate(run["drives"]):
        own = reads["latency_ns"][reads["served_by"] == k] / 1000
        assert drive["reads"] == len(own) > 200
        assert drive["max_us"] == own.max() and drive["mean_us"] == pytest.approx(own.mean())
        p90 = np.quantile(own, 0.9, method="inverted_cdf")
        assert drive["p90_us"] == pytest.approx(p90, rel=1 / 1024)
        assert drive["p9999_us"] is None


def test_losers_of_races_count_for_their_drive(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", [(i * 100, "read", 0, BLOCK) for i in range(300)])
    replay(drives, [trace], "clone", "--json", str(tmp_path / "o.json"))
    run = summary(tmp_path / "o.json")
    answered = 2 * 300 - run["cancelled"]
    assert sum(drive["reads"] for drive in run["drives"]) == answered


def test_the_record_says_what_ran_where_and_how(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    options = ["--json", str(tmp_path / "o.json"), "--tag", "0,0,0"]
    replay(drives, [trace] * 3, "baseline", *options)
    run = summary(tmp_path / "o.json")
    assert run["argv"] == command(drives, [trace] * 3, "baseline", *options)
    assert (run["version"], run["host"]) == (__version__, platform.node())
    assert run["kernel"].startswith(f"Linux {platform.release()} ")


#: A process starts with the peak of the one that it was forked from: a small one in between.
PEAK_KIB = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], {})
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_memory_mib(arguments: list[str]) -> float:
    ran = subprocess.run(
        [sys.executable, "-S", "-c", PEAK_KIB, *arguments, "--quiet"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(ran.stderr.split()[-1]) / 1024


def test_few_blocks_of_a_large_drive_take_little_memory(tmp_path: Path) -> None:
    """Also if every mapping gets huge pages; a table of all blocks would take 8 GB here."""
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


def test_progress_is_shown_during_prefill(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, 8 << 20)])
    source = REPLAYER.parents[2] / "replayer"
    shown = tmp_path / "shown"
    program = tmp_path / "shown.c"
    program.write_text(
        """
#include "replay.h"
#include "results/progress.h"
int main(void)
{
	static struct replay r;
	struct progress p;

	progress_start(&p, &r, 0);
	r.c.prefill_blocks = 512;
	r.ring.now_ns = 1;
	progress_show_prefill(&p, &r, 1024);
	r.ring.now_ns = 6000000000ull;
	progress_show_prefill(&p, &r, 1024);
	return 0;
}
"""
    )
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", f"-I{source}", f"-I{source}/../core",
         f"-I{source}/../liblinnos/predictor", "-o", shown, program, source / "results/progress.c",
         source / "results/latency.c", source / "../liblinnos/predictor/histogram.c",
         source / "error.c", "-lm"],
        check=True,
    )  # fmt: skip
    ran = subprocess.run([shown], capture_output=True, text=True, check=True)
    assert ran.stderr == "prefill: 2 of 4 MiB\n"
    assert "prefill" not in replay(drives, [trace], "baseline", "--quiet").stderr


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
    ran = subprocess.run([root / "bin/replayer", "--version"], capture_output=True, text=True)
    assert ran.stdout == f"replayer {__version__}\n"
    make("uninstall", f"DESTDIR={tmp_path}/image", "PREFIX=/opt/replayer")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def man_page_options() -> set[str]:
    """Return the option headings of the man page, each with its argument."""
    page = (REPLAYER.parents[2] / "docs/replayer.1").read_text()
    listed = page[page.index(".SH OPTIONS") : page.index(".SH CONTENT CHECKS")]
    headings = re.findall(r"^\.TP\n\.(?:B|BI|BR) (.+)$", listed, re.MULTILINE)
    found: set[str] = set()
    for heading in headings:
        plain = "".join(shlex.split(re.sub(r"\\f[IBR]", "", heading.replace(r"\-", "-"))))
        found.update(re.split(r", (?=--)", plain))
    return found


def test_every_option_is_in_help_and_man_page() -> None:
    """The help is made from the table that parses the command line."""
    source = (REPLAYER.parents[2] / "replayer/options.c").read_text()
    name = r'^\t(?:\{\.name = |[A-Z]+\(|[A-Z]+_AS\(\s*\w+, )"([a-z-]+)",'
    options = set(re.findall(name, source, re.MULTILINE))
    shown = subprocess.run([REPLAYER, "--help"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^  (--[a-z-]+(?: \S+)?)(?:  .*)?$", shown, re.MULTILINE)
    assert len(options) > 30
    assert {row.split()[0] for row in rows} == {f"--{option}" for option in options}
    assert man_page_options() == set(rows)


def test_the_config_of_the_results_has_every_setting(tmp_path: Path, drives: list[Path]) -> None:
    """Unset numbers are null; learned values are under their option's name."""
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    given = ["--hedge-us", "77", "--timeout", "0", "--hedge-budget", "none", "--tag", "0"]
    replay(drives, [trace], "hedge", *given, "--json", str(tmp_path / "o.json"))
    config = summary(tmp_path / "o.json")["config"]
    assert config == {
        "from": None, "volume": None,
        "devices": [str(drive) for drive in drives], "traces": [str(trace)], "readonly": False,
        "force": [], "loops": 1, "spread": False, "skip_s": 0, "duration_s": None,
        "rerate": 1, "saturate": False, "depth": 4096, "threads": 1, "max_orphans": 4096,
        "timeout_s": None, "replicate_writes": False, "fit": False, "prefill": "touched",
        "settle_ms": 0,
        "unwritten": "zero", "start_every_s": 0.1, "tags": [0], "seed": 1, "failover_us": 15,
        "profile": None, "hedge_us": [77, 77, 77], "hedge_percentile": None, "hedge_budget": None,
        "hedge_burst": None, "false_submit_ratio": None, "heuristic_queue_pages": None,
        "heuristic_busy_us": None, "threshold_us": [None] * 3, "inject": [],
        "latency_model": [], "duplicates": False, "max_duplicates": None,
        "heimdall_network": [],
        "probe_after_ms": 20,
        "margin": 25, "unguarded": False, "guarded": False,
    }  # fmt: skip

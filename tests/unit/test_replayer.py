# SPDX-License-Identifier: MIT
"""The replayer on plain files: counts, content checks, outputs and errors, without latencies."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from blktrace_builder import EBUSY, WRITE, C, D, Q, TraceBuilder
from replaying import (
    BLOCK,
    DRIVE_BYTES,
    GIVE_UP_S,
    N_DRIVES,
    Io,
    command,
    mixed_ios,
    overwrite,
    replay,
    replay_logged,
    replay_summed,
    start,
    summary,
    wait_until_written,
    write_trace,
)

from linnapp.trace import replay_log

POLICIES = {
    "baseline": (),
    "clone": (),
    "random": (),
    "shortest-queue": (),
    "shortest-queue-h95": ("--hedge-us", "1"),
    "prequal": (),
    "c3": (),
    "hedge": ("--hedge-us", "1"),
    "hedge-ip": ("--hedge-us", "50"),
    "heuristic": ("--heuristic-queue", "4"),
    "heuristic-adv": ("--heuristic-queue", "4", "--heuristic-busy-us", "30"),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("replicate", [False, True])
def test_every_io_is_done_and_counted_once(
    tmp_path: Path, drives: list[Path], policy: str, replicate: bool
) -> None:
    ios = [mixed_ios(2000, seed) for seed in range(N_DRIVES)]
    traces = [write_trace(tmp_path / f"t{k}", ios[k]) for k in range(N_DRIVES)]
    replay(
        drives, traces, policy, *POLICIES[policy],
        "--hedge-budget", "none",
        "--json", str(tmp_path / "o.json"), "--log", str(tmp_path / "o.log"),
        *(["--replicate-writes"] if replicate else []),
    )  # fmt: skip
    run, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    wanted = sorted(
        (at * 1000, k, action == "write", offset, size)
        for k in range(N_DRIVES)
        for at, action, offset, size in ios[k]
    )
    fields = ("due_ns", "home", "op", "offset_bytes", "size_bytes")
    done = sorted(zip(*(log[field].tolist() for field in fields), strict=True))
    assert done == wanted
    assert run["reads"] == sum(not io[2] for io in wanted)
    assert run["writes"] == sum(io[2] for io in wanted)
    assert (run["data_errors"], run["io_errors"], run["reads_failed"]) == (0, 0, 0)
    assert run["unverified_blocks"] == 0
    assert run["blocks_checked"] >= sum(io[4] // BLOCK for io in wanted if not io[2])
    assert sum(run["reads_served_by"]) == run["reads"]
    reads = log[log["op"] == replay_log.READ]
    assert run["extra_ios"] == reads["extra_ios"].sum()
    assert run["hedged"] == np.count_nonzero(reads["flags"] & replay_log.HEDGED)
    if policy == "clone":
        assert run["extra_ios"] == run["reads"]
    if policy.startswith("hedge") or policy.endswith("-h95"):
        assert run["hedged"] > 0
        assert run["extra_ios"] == run["hedged"]
        assert run["hedges_denied"] == 0


def test_percentiles_are_those_of_the_log(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", mixed_ios(16000, 7))
    run, log = replay_logged(drives, [trace], "baseline", "--spread")
    latency_us = log["latency_ns"][log["op"] == replay_log.READ] / 1000
    for name, fraction in (
        ("p50_us", 0.5),
        ("p95_us", 0.95),
        ("p99_us", 0.99),
        ("p9999_us", 0.9999),
    ):
        assert run[name] == np.quantile(latency_us, fraction, method="inverted_cdf")
    assert run["mean_us"] == pytest.approx(latency_us.mean())
    assert run["max_us"] == latency_us.max()
    assert run["percentiles"] == "exact"


def test_percentiles_of_long_response_times_are_not_called_exact(
    tmp_path: Path, drives: list[Path]
) -> None:
    """Stop the replayer while reads become due: their service times are short nevertheless."""
    reads = [(500_000, "read", k * BLOCK, BLOCK) for k in range(1, 3)]
    trace = write_trace(tmp_path / "t", [(0, "write", 0, BLOCK), *reads])
    out = tmp_path / "o.json"
    run = start(drives, [trace], "baseline", "--prefill", "none", "--json", str(out))
    wait_until_written(drives[0], 0, bytes(BLOCK))
    run.send_signal(signal.SIGSTOP)
    time.sleep(5)
    run.send_signal(signal.SIGCONT)
    stdout, _ = run.communicate(timeout=GIVE_UP_S)
    found = summary(out)
    assert found["p50_us"] < 2**32 / 1000 < found["response_p50_us"]
    assert found["percentiles"] == "histogram, relative error at most 1/2048"
    assert "percentiles from a histogram" in stdout


def test_replicated_writes_leave_equal_drives(tmp_path: Path, drives: list[Path]) -> None:
    # No block is written twice: two writes in flight at once may end in either order on each drive.
    block = np.random.default_rng(5).permutation(DRIVE_BYTES // BLOCK)[:2000]
    trace = write_trace(
        tmp_path / "t",
        [(i * 50, ("read", "write")[i % 2], int(b) * BLOCK, BLOCK) for i, b in enumerate(block)],
    )
    replay(drives, [trace], "random", "--spread", "--replicate-writes")
    first = drives[0].read_bytes()
    assert any(first)
    assert all(drive.read_bytes() == first for drive in drives[1:])


#: Maximum duration of a replay, which tests stop earlier.
LONG_US = 600_000_000


def again_and_again(first_us: int, offset: int, length: int, every_us: int = 100_000) -> list[Io]:
    return [(at, "read", offset, length) for at in range(first_us, LONG_US, every_us)]


def stopped_after(run: subprocess.Popen[str], words: str) -> tuple[str, str]:
    """Interrupt a replay after a message on stderr; return all output."""
    assert run.stdout is not None and run.stderr is not None
    stderr = ""
    while words not in stderr:
        line = run.stderr.readline()
        assert line, stderr
        stderr += line
    run.send_signal(signal.SIGINT)
    stderr += run.stderr.read()
    stdout = run.stdout.read()
    assert run.wait(GIVE_UP_S) == 130
    return stdout, stderr


@pytest.mark.parametrize("byte", [0, 7, 8, 513, 4095])
def test_replayer_finds_one_flipped_bit(tmp_path: Path, drives: list[Path], byte: int) -> None:
    trace = write_trace(
        tmp_path / "t",
        [(0, "write", 3 * BLOCK, BLOCK), *again_and_again(100_000, 2 * BLOCK, 4 * BLOCK)],
    )
    run = start(
        drives, [trace], "baseline", "--prefill", "none", "--json", str(tmp_path / "o.json")
    )
    block = bytearray(wait_until_written(drives[0], 3 * BLOCK, bytes(BLOCK)))
    block[byte] ^= 16
    overwrite(drives[0], 3 * BLOCK, bytes(block))
    _, stderr = stopped_after(run, "DATA ERROR")
    assert "block 3 " in stderr and f"word {byte // 8} " in stderr
    assert summary(tmp_path / "o.json")["data_errors"] == stderr.count("DATA ERROR")


def test_replayer_finds_the_content_of_an_older_write(tmp_path: Path, drives: list[Path]) -> None:
    write = (0, "write", 0, BLOCK)
    # Content depends only on the block, the seed and the number of its writes.
    replay(drives, [write_trace(tmp_path / "first", [write])], "baseline", "--prefill", "none")
    older = drives[0].read_bytes()[:BLOCK]
    overwrite(drives[0], 0, bytes(BLOCK))
    trace = write_trace(
        tmp_path / "t", [write, (2_000_000, *write[1:]), *again_and_again(2_100_000, 0, BLOCK)]
    )
    run = start(
        drives, [trace], "baseline", "--prefill", "none", "--json", str(tmp_path / "o.json")
    )
    wait_until_written(drives[0], 0, bytes(BLOCK))
    wait_until_written(drives[0], 0, older)
    overwrite(drives[0], 0, older)
    _, stderr = stopped_after(run, "DATA ERROR")
    assert "generations 2 to 2 are accepted, the block contains 1" in stderr


def test_replayer_finds_a_block_of_another_drive(tmp_path: Path, drives: list[Path]) -> None:
    write = write_trace(
        tmp_path / "w", [(0, "write", 0, BLOCK), *again_and_again(100_000, 0, BLOCK)]
    )
    run = start(drives, [write, write, write], "baseline", "--prefill", "none")
    block = wait_until_written(drives[1], 0, bytes(BLOCK))
    wait_until_written(drives[0], 0, bytes(BLOCK))
    overwrite(drives[0], 0, block)
    _, stderr = stopped_after(run, "DATA ERROR")
    assert stderr.count("DATA ERROR") == stderr.count("drive0 block 0 ")


def test_unwritten_blocks_must_be_zero_by_default(tmp_path: Path, drives: list[Path]) -> None:
    overwrite(drives[0], 5 * BLOCK + 100, b"x")
    trace = write_trace(tmp_path / "t", [(0, "read", 0, 16 * BLOCK)])
    result = replay(drives, [trace], "baseline", "--prefill", "none", status=2)
    assert "block 5 " in result.stderr
    replay(drives, [trace], "baseline", "--prefill", "none", "--unwritten", "any")
    replay(drives, [trace], "baseline")


def test_a_lost_drive_is_failed_over_and_reported(tmp_path: Path, drives: list[Path]) -> None:
    """A truncated file returns too few bytes, which is an I/O error to the replayer."""
    reads = [(at, "read", at % 1500 * BLOCK, BLOCK) for at in range(0, LONG_US, 5000)]
    trace = write_trace(tmp_path / "t", [(0, "write", 1500 * BLOCK, BLOCK), *reads])
    run = start(drives, [trace], "baseline", "--json", str(tmp_path / "o.json"),
                "--log", str(tmp_path / "o.log"))  # fmt: skip
    wait_until_written(drives[0], 1500 * BLOCK, bytes(BLOCK))
    with drives[0].open("r+b") as file:
        file.truncate(0)
    stdout, _ = stopped_after(run, "only 0 bytes were transferred")
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    log = log[log["op"] == replay_log.READ]
    assert result["reads"] == len(log)
    assert f"{drives[0]} answered {result['io_errors']} I/Os with an error" in stdout
    assert result["io_errors_by_drive"] == [result["io_errors"], 0, 0]
    assert (result["data_errors"], result["reads_failed"]) == (0, 0)
    assert result["io_errors"] == result["failovers_on_error"] == result["reads_served_by"][1] > 0
    assert np.array_equal(log["served_by"] == 1, (log["flags"] & replay_log.IO_ERROR) != 0)


def with_file_limit(
    limit_bytes: int, drives: list[Path], traces: list[Path], *options: str
) -> subprocess.CompletedProcess[str]:
    """Replay with a limit on file sizes: writes beyond it fail, as on a full disk."""
    return subprocess.run(
        ["prlimit", f"--fsize={limit_bytes}", "--", *command(drives, traces, "baseline", *options)],
        capture_output=True, text=True, timeout=GIVE_UP_S,
    )  # fmt: skip


def test_a_full_disk_costs_the_log_and_nothing_else(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", i % 8 * BLOCK, BLOCK) for i in range(4000)])
    result = with_file_limit(
        64 << 10, drives, [trace],
        "--json", str(tmp_path / "o.json"), "--log", str(tmp_path / "o.log"),
    )  # fmt: skip
    assert result.returncode == 1
    assert "o.log.new: File too large; the run goes on without a log" in result.stderr
    assert not list(tmp_path.glob("o.log*"))
    counts = summary(tmp_path / "o.json")
    assert counts["reads"] == 4000 and counts["data_errors"] == 0
    assert counts["log_error"] == "File too large"
    assert "4000 reads" in result.stdout and "no per-I/O log: File too large" in result.stdout


def test_a_short_write_is_continued_to_its_true_error(tmp_path: Path, drives: list[Path]) -> None:
    """A write across the limit is short; only its remainder fails with the reason."""
    trace = write_trace(tmp_path / "t", [(0, "write", 8 * BLOCK, 16 * BLOCK)])
    for drive in drives:
        drive.write_bytes(bytes(1 << 20))
    result = with_file_limit(
        16 * BLOCK, drives, [trace], "--prefill", "none", "--json", str(tmp_path / "o.json")
    )
    assert result.returncode == 2
    assert f"write of {16 * BLOCK} bytes at {8 * BLOCK}: File too large" in result.stderr
    assert summary(tmp_path / "o.json")["short_ios"] == 1


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_gives_the_summary_so_far(
    tmp_path: Path, drives: list[Path], stop: signal.Signals
) -> None:
    n = LONG_US // 10_000
    trace = write_trace(tmp_path / "t", [(i * 10_000, "write", 0, BLOCK) for i in range(n)])
    run = start(drives, [trace], "baseline", "--json", str(tmp_path / "o.json"),
                "--log", str(tmp_path / "o.log"))  # fmt: skip
    wait_until_written(drives[0], 0, bytes(BLOCK))
    run.send_signal(stop)
    stdout, _ = run.communicate(timeout=GIVE_UP_S)
    assert run.returncode == 130
    result = summary(tmp_path / "o.json")
    assert result["stopped"] == "interrupted" and "interrupted" in stdout
    assert 0 < result["writes"] < n
    assert len(replay_log.read(tmp_path / "o.log")) == result["writes"]


def test_interrupt_before_counting_keeps_earlier_results(
    tmp_path: Path, drives: list[Path]
) -> None:
    trace = write_trace(tmp_path / "t", again_and_again(0, 0, BLOCK))
    earlier = {"o.json": b"earlier results", "o.log": b"an earlier log"}
    for name, content in earlier.items():
        (tmp_path / name).write_bytes(content)
    run = start(drives, [trace], "baseline", "--settle-ms", "600000",
                "--json", str(tmp_path / "o.json"), "--log", str(tmp_path / "o.log"))  # fmt: skip
    wait_until_written(drives[0], 0, bytes(BLOCK))
    run.send_signal(signal.SIGINT)
    stdout, stderr = run.communicate(timeout=GIVE_UP_S)
    assert run.returncode == 130
    assert {name: (tmp_path / name).read_bytes() for name in earlier} == earlier
    assert "interrupted before an I/O was counted: --json and --log are left as they" in stderr
    assert "0 reads" in stdout and not list(tmp_path.glob("*.new"))


@pytest.mark.parametrize("options", [[], ["--help"], ["--version"]])
def test_unwritable_standard_output_is_an_error(
    tmp_path: Path, drives: list[Path], options: list[str]
) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            command(drives, [trace], "baseline", *options),
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert result.returncode == 1
    assert "standard output: No space left on device" in result.stderr


def test_profile_sets_the_hedging_time(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", mixed_ios(2000, 1))
    replay(drives, [trace], "baseline", "--log", str(tmp_path / "p.log"))
    replay(drives, [trace], "hedge", "--profile", str(tmp_path / "p.log"),
           "--hedge-percentile", "80", "--json", str(tmp_path / "o.json"))  # fmt: skip
    log = replay_log.read(tmp_path / "p.log")
    latency_us = log["latency_ns"][log["op"] == replay_log.READ] / 1000
    config = summary(tmp_path / "o.json")["config"]
    p80 = float(np.quantile(latency_us, 0.8, method="inverted_cdf"))
    assert config["hedge_us"] == pytest.approx([p80] * N_DRIVES, abs=0.001)
    assert config["hedge_percentile"] == 80


def test_hedge_budget_limits_hedges(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", mixed_ios(4000, 2, read_share=1))
    result = replay_summed(drives, [trace], "hedge", "--hedge-us", "1", "--hedge-budget", "2%")
    assert result["hedged"] <= 0.02 * result["reads"]
    assert result["hedged"] + result["hedges_denied"] > 0


def test_small_ios_are_widened_and_far_ones_folded(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(
        tmp_path / "t",
        [(0, "read", 512, 512), (0, "write", 4000, 200), (0, "read", DRIVE_BYTES, BLOCK)],
    )
    result = replay(drives, [trace], "baseline", status=1)
    assert "lies beyond the smallest drive" in result.stderr and "--fit" in result.stderr
    counts, log = replay_logged(drives, [trace], "baseline", "--fit")
    assert (counts["realigned_ios"], counts["folded_ios"]) == (2, 1)
    assert sorted(zip(log["offset_bytes"].tolist(), log["size_bytes"].tolist(), strict=True)) == [
        (0, BLOCK), (0, BLOCK), (0, 2 * BLOCK)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--skip", "10"], "after the first 10 s (--skip)"),
        (["--skip", "10", "--duration", "1"], "in the 1 s of --duration after the first 10 s"),
    ],
)
def test_options_that_leave_no_read_to_count_are_an_error(
    tmp_path: Path, drives: list[Path], options: list[str], problem: str
) -> None:
    trace = write_trace(tmp_path / "t", mixed_ios(50, 1))
    log, summary = tmp_path / "o.log", tmp_path / "o.json"
    files = ["--log", str(log), "--json", str(summary)]
    assert problem in replay(drives, [trace], "baseline", *options, *files, status=1).stderr
    assert not log.exists() and not summary.exists()
    assert not list(tmp_path.glob("*.new"))


def test_rerate_skip_and_duration_select_and_scale_ios(tmp_path: Path, drives: list[Path]) -> None:
    trace = write_trace(tmp_path / "t", [(i * 100_000, "read", 0, BLOCK) for i in range(40)])
    result, log = replay_logged(
        drives, [trace], "baseline", "--rerate", "4", "--skip", "1", "--duration", "0.5"
    )
    assert sorted(log["due_ns"].tolist()) == list(range(0, 500_000_000, 25_000_000))
    assert result["reads"] == 20


def test_each_io_is_stamped_when_it_is_submitted_and_when_it_is_done(tmp_path: Path) -> None:
    """Let all I/Os be due at once; filling a large write takes time that must not count for others.

    In memory the kernel completes an I/O during its submission, which takes time itself.
    """
    size = 1 << 20
    ios = [(0, "read", 0, BLOCK), *((0, "write", i * size, size) for i in range(1, 7))]
    trace = write_trace(tmp_path / "t", ios)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        drive = Path(folder) / "drive"
        drive.touch()
        os.truncate(drive, DRIVE_BYTES)
        replay([drive], [trace], "baseline", "--log", str(tmp_path / "o.log"))
    log = replay_log.read(tmp_path / "o.log")
    log = log[np.argsort(log["offset_bytes"])]
    assert (np.diff(log["lag_ns"].astype(np.int64)) > 0).all()
    assert (log["latency_ns"] > 0).all()


@pytest.mark.parametrize("name", ["az.blk", "az.blktrace.0", "az"])
def test_blktrace_files_are_replayed(tmp_path: Path, drives: list[Path], name: str) -> None:
    builder = TraceBuilder()
    builder.io(1, 3, 8)
    builder.io(2, 5, 64, 8192, flags=WRITE)
    builder.add(Q, 4, 128).add(C, 4.001, 128, error=EBUSY)
    builder.sort().write(tmp_path / ("az.blktrace.0" if name == "az" else name))
    run, log = replay_logged(drives, [tmp_path / name], "baseline")
    done = {tuple(int(io[f]) for f in ("due_ns", "op", "offset_bytes", "size_bytes")) for io in log}
    # The recording's clock started before its first I/O; the replay's starts with it.
    assert done == {(0, 0, 8 * 512, 4096), (1000, 1, 64 * 512, 8192)}
    assert run["skipped_trace_lines"] == 1  # the revoked read


def test_lost_events_without_gap_in_their_numbers_are_reported(
    tmp_path: Path, drives: list[Path]
) -> None:
    trace = TraceBuilder()
    trace.io(0, 3, 8)
    trace.add(D, 2e6, 64).add(C, 2e6 + 3, 64)  # without a submission
    trace.write(tmp_path / "t.blk")
    result = replay(drives, [tmp_path / "t.blk"], "baseline", "--rerate", "1e5")
    assert "t.blk: some events were lost; an I/O without a submission event is" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "quickest"], "no such policy"),
        (["--devices", "/nonexistent/d"], "/nonexistent/d: No such file"),
        (["--trace", "/nonexistent/t"], "trace /nonexistent/t: No such file"),
        (["--policy", "hedge"], "--profile"),
        (["--policy", "hedge", "--hedge-us", "1", "--hedge-percentile", "9"], "give one of them"),
        (["--policy", "hedge-ip", "--hedge-percentile", "9"], "leave --hedge-percentile out"),
        (["--policy", "linnos"], "lacks the LinnOS patch"),
        (["--policy", "oracle"], "only flashsim drives"),
        (["--policy", "verdict", "--threshold-us", "200"], "only flashsim drives"),
        (["--policy", "verdict", "--threshold-us", "0"], "expected a whole number"),
        (["--policy", "heuristic"], "--heuristic-queue"),
        (["--inject", "sometimes:latency_us=1"], "unknown pattern"),
        (["--inject", "random:latency_us=5"], 'missing key "ratio"'),
        (["--inject", "random:latency_us=5,ratio=1%"], "not a flashsim drive"),
        (["--rerate", "0"], "expected a number"),
        (["--json", "/nonexistent/d/o.json"], "/nonexistent/d/o.json"),
        (["--tag", "3"], "the kernel gives meanings"),
        (["--tag", "9,9"], "2 tags for 1 traces"),
        (["--force", "/dev/other"], "/dev/other: not one of --devices"),
        (["--readonly", "--force", "{drive}"], "--readonly writes nothing"),
        (["--devices", "{drive},{drive}"], "the same drive"),
        (["--policy", "hedge", "--profile", "{drive}"], "it is the --profile"),
    ],
)
def test_replayer_error_names_the_argument_and_the_remedy(
    tmp_path: Path, drives: list[Path], arguments: list[str], message: str
) -> None:
    trace = write_trace(tmp_path / "t", [(0, "read", 0, BLOCK)])
    words = [word.replace("{drive}", str(drives[0])) for word in arguments]
    assert message in replay(drives, [trace], "baseline", *words, status=1).stderr

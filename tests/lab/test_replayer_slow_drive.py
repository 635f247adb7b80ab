# SPDX-License-Identifier: MIT
"""The replayer with one slow drive: which reads it delays, and that delays are reported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from test_replayer_in_lab import summary

from linnapp.trace import replay_log

pytestmark = pytest.mark.lab

BLOCK = 4096
DRIVES = "/dev/flash0,/dev/flash1,/dev/flash2"
QUIET = "--quiet --prefill none --settle-ms 0"


def slow(drive: int, latency_us: int) -> str:
    return (
        f"--inject continuous:latency_us={latency_us},op=read,ratio=100%,period_ios=1,drive={drive}"
    )


def write_reads(path: Path, at_us: Iterable[int], seed: int = 1) -> Path:
    """Write a trace of reads of random blocks at these times."""
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        file.write("fio version 3 iolog\n")
        file.writelines(f"{at} d read {rng.integers(0, 20_000) * BLOCK} {BLOCK}\n" for at in at_us)
    return path


@pytest.mark.parametrize(
    ("policy", "latency_us"),
    [("clone", 20_000), ("hedge --hedge-us 1000 --hedge-budget none", 2_000_000)],
)
def test_slow_replica_delays_only_reads_that_wait_for_it(
    boot, tmp_path: Path, policy: str, latency_us: int
) -> None:
    """A depth of 32 is enough: reads take up to 1.2 ms, but the orphans much longer."""
    trace = write_reads(tmp_path / "t", range(0, 8000 * 250, 250))
    boot(
        f"replayer --devices {DRIVES} --trace {trace} --spread --policy {policy} --depth 32"
        f" {slow(1, latency_us)} {QUIET} --json $OUT/o.json --log $OUT/o.log"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert result["reads"] == len(log) == 8000
    assert result["depth_stalls"] == 0
    assert result["lag_max_us"] < 50
    assert result["max_us"] < 2000
    # The run waits for orphans and checks them, but does not count them.
    assert result["blocks_checked"] == result["reads"] + result["extra_ios"] - result["cancelled"]
    assert result["orphans_max"] > 32
    assert result["elapsed_s"] < 2.1


@pytest.mark.parametrize("policy", ["clone", "hedge --hedge-us 1000 --hedge-budget none"])
def test_losers_are_bounded(boot, tmp_path: Path, policy: str) -> None:
    trace = write_reads(tmp_path / "t", range(0, 2000 * 250, 250))
    ran = boot(
        f"replayer --devices {DRIVES} --trace {trace} --spread --policy {policy} --depth 32"
        f" --max-orphans 8 {slow(1, 100_000)} {QUIET} --json $OUT/o.json"
    )
    result = summary(tmp_path / "o.json")
    assert result["reads"] == 2000
    # Hedged reads in flight when the last place is taken still complete.
    assert 8 <= result["orphans_max"] < 8 + 32
    assert result["copies_denied"] > 100
    assert f"{result['copies_denied']} copies of reads were not sent" in ran.stdout
    assert result["config"]["max_orphans"] == 8


def test_reads_of_an_overloaded_drive_are_reported_late(boot, tmp_path: Path) -> None:
    """A drive that serves 100 reads/s gets 1000 reads in 1 s, so the last is 9 s late.

    Every read takes 10 ms from its submission, and only that is the service time.
    """
    trace = write_reads(tmp_path / "t", range(0, 1_000_000, 1000))
    ran = boot(
        f"replayer --devices /dev/flash0 --trace {trace} --policy baseline --depth 1"
        f" {slow(0, 10_000)} {QUIET} --json $OUT/o.json --log $OUT/o.log"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert result["late_ios"] == result["depth_stalls"] == 999
    assert result["lag_max_us"] > 8_900_000
    assert result["response_max_us"] > 9_000_000
    assert result["max_us"] == result["service_max_us"] < 11_000
    # The log shows the times of submission, one after the other, also beyond 32 bits.
    submit_ns = log["due_ns"] + log["lag_ns"]
    assert (np.diff(submit_ns) >= 10_000_000).all()
    for prefix, ns in (("service", log["latency_ns"]), ("response", replay_log.response_ns(log))):
        for name, fraction in (("p50", 0.5), ("p99", 0.99)):
            wanted = np.quantile(ns, fraction, method="inverted_cdf") / 1000
            assert result[f"{prefix}_{name}_us"] == pytest.approx(wanted, rel=1 / 2048)
        assert result[f"{prefix}_mean_us"] == pytest.approx(ns.mean() / 1000)
    assert "read  response time (us)" in ran.stdout and "read  service  time" in ran.stdout
    assert "999 I/Os were submitted more than 100 us after they were due" in ran.stdout


def test_unused_hedges_accumulate_only_up_to_the_bucket_size(boot, tmp_path: Path) -> None:
    """Two seconds without bursts earn 1000 hedges, but only 5 % and 100 more can be used."""
    trace = write_reads(tmp_path / "t", range(0, 3_000_000, 100))
    bursts = " ".join(slow(drive, 3000) + ",start_ms=2000,slot_ms=1100" for drive in range(3))
    boot(
        f"replayer --devices {DRIVES} --trace {trace} --spread --policy hedge --hedge-us 1000"
        f" {bursts} {QUIET} --json $OUT/o.json --log $OUT/o.log"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    hedged = (log["flags"] & replay_log.HEDGED) != 0
    slow_second = log["due_ns"] >= 2_000_000_000
    assert np.count_nonzero(hedged & ~slow_second) < 20
    assert 500 <= np.count_nonzero(hedged & slow_second) <= 0.05 * 10_000 + 100
    assert result["hedges_denied"] > 9000


@pytest.mark.parametrize("how", ["", "--depth 4"])
def test_a_drive_that_never_answers_ends_the_run(boot, tmp_path: Path, how: str) -> None:
    trace = write_reads(tmp_path / "t", range(0, 600_000, 300))
    ran = boot(
        f"replayer --devices {DRIVES} --trace {trace} --spread --policy baseline --timeout 5 {how}"
        f" {slow(1, 60_000_000)},start_ms=10,slot_ms=60000 {QUIET} --json $OUT/o.json"
        " --log $OUT/o.log",
        check=False,
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert ran.status == 2
    assert "/dev/flash1: read of 4096 bytes at " in ran.stderr
    assert "has not come back in 5 s (--timeout)" in ran.stderr
    assert result["stopped"] == "timeout" and ", timeout" in ran.stdout
    assert 0 < result["timed_out_ios"] <= result["unanswered"]
    assert 0 < result["reads"] == len(log) < 2000
    assert 5 <= result["elapsed_s"] < 7


def test_loser_that_never_completes_is_reported(boot, tmp_path: Path) -> None:
    trace = write_reads(tmp_path / "t", range(0, 30_000, 300))
    ran = boot(
        f"replayer --devices {DRIVES} --trace {trace} --spread --policy clone --timeout 5"
        f" {slow(1, 60_000_000)} {QUIET} --json $OUT/o.json",
        check=False,
    )
    result = summary(tmp_path / "o.json")
    assert ran.status == 2 and "has not come back in 5 s" in ran.stderr
    assert (result["reads"], result["unanswered"], result["stopped"]) == (100, 0, "timeout")
    assert result["elapsed_s"] < 0.1


def test_a_drive_that_never_answers_ends_the_prefill(boot, tmp_path: Path) -> None:
    trace = write_reads(tmp_path / "t", range(0, 30_000, 300))
    ran = boot(
        "cd /sys/kernel/config/flashsim/flash1/inject; echo 60000000 >latency_us; echo both >op\n"
        "echo 1000000 >ratio_ppm; echo continuous >pattern; echo 1 >arm\n"
        f"replayer --devices {DRIVES} --trace {trace} --spread --policy baseline --timeout 5",
        check=False,
    )
    assert ran.status == 1
    assert "/dev/flash1: write of " in ran.stderr and "prefill: a drive is unusable" in ran.stderr

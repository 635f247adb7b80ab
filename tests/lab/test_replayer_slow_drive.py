# SPDX-License-Identifier: MIT
"""The replayer with one slow drive: which reads it delays, and that delays are reported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from replays import DRIVES, QUIET, replay, write_trace

from linnapp.trace import replay_log

pytestmark = pytest.mark.lab


def slow(drive: int, latency_us: int) -> str:
    return (
        f"--inject continuous:latency_us={latency_us},op=read,ratio=100%,period_ios=1,drive={drive}"
    )


def write_reads(folder: Path, at_us: Iterable[int]) -> str:
    """Write a trace of reads of random blocks at these times; return it, spread over drives."""
    rng = np.random.default_rng(1)
    reads = ((at, "read", rng.integers(0, 20_000), 1) for at in at_us)
    return f"{write_trace(folder / 't', reads)} --spread {QUIET}"


@pytest.mark.parametrize(
    ("policy", "latency_us"),
    [("clone", 20_000), ("hedge --hedge-us 1000 --hedge-budget none", 2_000_000)],
)
def test_slow_replica_delays_only_reads_that_wait_for_it(
    boot, tmp_path: Path, policy: str, latency_us: int
) -> None:
    """A depth of 32 is enough: reads take up to 1.2 ms, but the orphans much longer."""
    trace = write_reads(tmp_path, range(0, 8000 * 250, 250))
    ran = replay(boot, tmp_path, trace, f"--policy {policy} --depth 32 {slow(1, latency_us)}")
    result = ran.summary
    assert result["reads"] == len(ran.log) == 8000
    assert result["depth_stalls"] == 0
    assert result["lag_max_us"] < 50
    assert result["max_us"] < 2000
    # The run waits for orphans and checks them, but does not count them.
    assert result["blocks_checked"] == result["reads"] + result["extra_ios"] - result["cancelled"]
    assert result["orphans_max"] > 32
    assert result["elapsed_s"] < 2.1


@pytest.mark.parametrize("policy", ["clone", "hedge --hedge-us 1000 --hedge-budget none"])
def test_losers_are_bounded(boot, tmp_path: Path, policy: str) -> None:
    trace = write_reads(tmp_path, range(0, 2000 * 250, 250))
    ran = replay(
        boot, tmp_path, trace, f"--policy {policy} --depth 32 --max-orphans 8 {slow(1, 100_000)}"
    )
    result = ran.summary
    assert result["reads"] == 2000
    # Hedged reads in flight when the last place is taken still complete.
    assert 8 <= result["orphans_max"] < 8 + 32
    assert result["copies_denied"] > 100
    assert f"{result['copies_denied']} copies of reads were not sent" in ran.guest.stdout
    assert result["config"]["max_orphans"] == 8


def test_reads_of_an_overloaded_drive_are_reported_late(boot, tmp_path: Path) -> None:
    """A drive that serves 100 reads/s gets 1000 reads in 1 s, so the last is 9 s late.

    Every read takes 10 ms from its submission, and only that is the service time.
    """
    trace = write_reads(tmp_path, range(0, 1_000_000, 1000))
    ran = replay(
        boot, tmp_path, trace, f"--policy baseline --depth 1 {slow(0, 10_000)}", devices=DRIVES[:1]
    )
    result, log = ran.summary, ran.log
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
    assert "999 I/Os were submitted more than 100 us after they were due" in ran.guest.stdout


def test_unused_hedges_accumulate_only_up_to_the_bucket_size(boot, tmp_path: Path) -> None:
    """Two seconds without bursts earn 1000 hedges, but only 5 % and 100 more can be used."""
    trace = write_reads(tmp_path, range(0, 3_000_000, 100))
    bursts = " ".join(slow(drive, 3000) + ",start_ms=2000,slot_ms=1100" for drive in range(3))
    ran = replay(boot, tmp_path, trace, f"--policy hedge --hedge-us 1000 {bursts}")
    hedged = (ran.log["flags"] & replay_log.HEDGED) != 0
    slow_second = ran.log["due_ns"] >= 2_000_000_000
    assert np.count_nonzero(hedged & ~slow_second) < 20
    assert 500 <= np.count_nonzero(hedged & slow_second) <= 0.05 * 10_000 + 100
    assert ran.summary["hedges_denied"] > 9000


@pytest.mark.parametrize("how", ["", "--depth 4"])
def test_a_drive_that_never_answers_ends_the_run(boot, tmp_path: Path, how: str) -> None:
    trace = write_reads(tmp_path, range(0, 600_000, 300))
    never = f"{slow(1, 60_000_000)},start_ms=10,slot_ms=60000"
    ran = replay(boot, tmp_path, trace, f"--policy baseline --timeout 5 {how} {never}", status=2)
    result = ran.summary
    assert "/dev/flash1: read of 4096 bytes at " in ran.guest.stderr
    assert "was not completed in 5 s (--timeout)" in ran.guest.stderr
    assert result["stopped"] == "timeout"
    assert 0 < result["timed_out_ios"] <= result["unanswered"]
    assert 0 < result["reads"] == len(ran.log) < 2000
    assert 5 <= result["elapsed_s"] < 7


def test_loser_that_never_completes_is_reported(boot, tmp_path: Path) -> None:
    trace = write_reads(tmp_path, range(0, 30_000, 300))
    options = f"--policy clone --timeout 5 {slow(1, 60_000_000)}"
    ran = replay(boot, tmp_path, trace, options, status=2)
    result = ran.summary
    assert "was not completed in 5 s" in ran.guest.stderr
    assert (result["reads"], result["unanswered"], result["stopped"]) == (100, 0, "timeout")
    assert result["elapsed_s"] < 0.1


def test_a_drive_that_never_answers_ends_the_prefill(boot, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t", ((0, "read", 0, 1),))
    ran = boot(
        "inject flash1 pattern=continuous latency_us=60000000 op=both ratio_ppm=1000000\n"
        f"replayer --devices {','.join(DRIVES)} --trace {trace} --spread --policy baseline"
        " --timeout 5",
        check=False,
    )
    assert ran.status == 1
    assert "/dev/flash1: write of " in ran.stderr and "prefill: a drive is unusable" in ran.stderr

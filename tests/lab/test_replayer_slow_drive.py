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
    result = replay(boot, tmp_path, trace, f"--policy {policy} --depth 32 {slow(1, latency_us)}")
    counts = result.summary
    assert counts["reads"] == len(result.log) == 8000
    assert counts["depth_stalls"] == 0
    assert counts["lag_max_us"] < 50
    assert counts["max_us"] < 2000
    # The run waits for orphans and checks them, but does not count them.
    assert counts["blocks_checked"] == counts["reads"] + counts["extra_ios"] - counts["cancelled"]
    assert counts["orphans_max"] > 32
    assert counts["elapsed_s"] < 2.1


@pytest.mark.parametrize("policy", ["clone", "hedge --hedge-us 1000 --hedge-budget none"])
def test_outstanding_losers_of_hedges_are_bounded(boot, tmp_path: Path, policy: str) -> None:
    trace = write_reads(tmp_path, range(0, 2000 * 250, 250))
    result = replay(
        boot, tmp_path, trace, f"--policy {policy} --depth 32 --max-orphans 8 {slow(1, 100_000)}"
    )
    counts = result.summary
    assert counts["reads"] == 2000
    # Hedged reads in flight when the last place is taken still complete.
    assert 8 <= counts["orphans_max"] < 8 + 32
    assert counts["copies_denied"] > 100
    assert f"{counts['copies_denied']} hedges or clones were not sent" in result.guest.stdout
    assert counts["config"]["max_orphans"] == 8


def test_reads_of_an_overloaded_drive_are_reported_late(boot, tmp_path: Path) -> None:
    """A drive that serves 100 reads/s gets 1000 reads in 1 s, so the last is 9 s late.

    Every read takes 10 ms from its submission, and only that is the service time.
    """
    trace = write_reads(tmp_path, range(0, 1_000_000, 1000))
    result = replay(
        boot, tmp_path, trace, f"--policy baseline --depth 1 {slow(0, 10_000)}", devices=DRIVES[:1]
    )
    counts, log = result.summary, result.log
    assert counts["late_ios"] == counts["depth_stalls"] == 999
    assert counts["lag_max_us"] > 8_900_000
    assert counts["response_max_us"] > 9_000_000
    assert counts["max_us"] == counts["service_max_us"] < 11_000
    # The log shows the times of submission, one after the other, also beyond 32 bits.
    submit_ns = log["due_ns"] + log["lag_ns"]
    assert (np.diff(submit_ns) >= 10_000_000).all()
    for prefix, ns in (("service", log["latency_ns"]), ("response", replay_log.response_ns(log))):
        for name, fraction in (("p50", 0.5), ("p99", 0.99)):
            wanted = np.quantile(ns, fraction, method="inverted_cdf") / 1000
            assert counts[f"{prefix}_{name}_us"] == pytest.approx(wanted, rel=1 / 2048)
        assert counts[f"{prefix}_mean_us"] == pytest.approx(ns.mean() / 1000)
    assert "999 I/Os were submitted more than 100 us after they were due" in result.guest.stdout


def test_unused_hedges_accumulate_only_up_to_the_bucket_size(boot, tmp_path: Path) -> None:
    """Two seconds without bursts earn 1000 hedges, but only 5 % and 100 more can be used."""
    trace = write_reads(tmp_path, range(0, 3_000_000, 100))
    bursts = " ".join(slow(drive, 3000) + ",start_ms=2000,slot_ms=1100" for drive in range(3))
    result = replay(boot, tmp_path, trace, f"--policy hedge --hedge-us 1000 {bursts}")
    hedged = (result.log["flags"] & replay_log.HEDGED) != 0
    slow_second = result.log["due_ns"] >= 2_000_000_000
    assert np.count_nonzero(hedged & ~slow_second) < 20
    assert 500 <= np.count_nonzero(hedged & slow_second) <= 0.05 * 10_000 + 100
    assert result.summary["hedges_denied"] > 9000


@pytest.mark.parametrize("how", ["", "--depth 4"])
def test_a_drive_that_never_answers_ends_the_run(boot, tmp_path: Path, how: str) -> None:
    trace = write_reads(tmp_path, range(0, 600_000, 300))
    never = f"{slow(1, 60_000_000)},start_ms=10,slot_ms=60000"
    result = replay(boot, tmp_path, trace, f"--policy baseline --timeout 5 {how} {never}", status=2)
    counts = result.summary
    assert "/dev/flash1: read of 4096 bytes at " in result.guest.stderr
    assert "was not completed in 5 s (--timeout)" in result.guest.stderr
    assert counts["stopped"] == "timeout"
    assert 0 < counts["timed_out_ios"] <= counts["unanswered"]
    assert 0 < counts["reads"] == len(result.log) < 2000
    assert 5 <= counts["elapsed_s"] < 7


def test_loser_that_never_completes_is_reported(boot, tmp_path: Path) -> None:
    trace = write_reads(tmp_path, range(0, 30_000, 300))
    options = f"--policy clone --timeout 5 {slow(1, 60_000_000)}"
    result = replay(boot, tmp_path, trace, options, status=2)
    counts = result.summary
    assert "was not completed in 5 s" in result.guest.stderr
    assert (counts["reads"], counts["unanswered"], counts["stopped"]) == (100, 0, "timeout")
    assert counts["elapsed_s"] < 0.1


def test_a_drive_that_never_answers_ends_the_prefill(boot, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t", ((0, "read", 0, 1),))
    result = boot(
        "inject flash1 pattern=continuous latency_us=60000000 op=both ratio_ppm=1000000\n"
        f"replayer --devices {','.join(DRIVES)} --trace {trace} --spread --policy baseline"
        " --timeout 5",
        check=False,
    )
    assert result.status == 1
    assert (
        "/dev/flash1: write of " in result.stderr
        and "prefill: a drive is unusable" in result.stderr
    )

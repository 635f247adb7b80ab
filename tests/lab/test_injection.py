# SPDX-License-Identifier: MIT
"""Patterns of slow drives other than plain bursts, set by the replayer's --inject: how slow,
where, when and which reads; and that the emulator's oracle predicts them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from replays import DRIVES, replay, write_trace

from linnapp.lab.array import Array
from linnapp.trace import replay_log

pytestmark = pytest.mark.lab

READS = f"python3 {Path(__file__).with_name('time_reads.py')}"

#: Maximum latency of an idle drive in us.
QUIET_US = 200

#: A buffer for all writes, so that only injection makes I/O slow.
ALL_BUFFERED = {"buffer_mb": "256", "buffer_watermark_pct": "100", "flush_interval_us": "60000000"}

#: Maximum time from the replayer to the drive, where slots are evaluated.
SUBMIT_US = 10


def replayed(
    boot: Any, folder: Path, spec: str, n: int = 4000, every_us: int = 250, blocks_max: int = 1
) -> NDArray[Any]:
    """Return the log of equally spaced reads and writes of each drive, from 31 to 34 MiB."""
    rng = np.random.default_rng(1)
    for k in range(3):
        ios = []
        for i in range(n):
            action = "write" if rng.random() < 0.2 else "read"
            block, blocks = rng.integers(7936, 8704), rng.integers(1, blocks_max + 1)
            ios.append((i * every_us + k * every_us // 3, action, block, blocks))
        write_trace(folder / f"t{k}", ios)
    result = replay(
        boot, folder, "$OUT/t0,$OUT/t1,$OUT/t2",
        f"--policy baseline --prefill none --inject {spec}",
        after="cat $flashsim/flash?/inject/pattern $flashsim/flash?/inject/arm >$OUT/after",
        array=Array(size_mb=256, precondition=False, parameters=ALL_BUFFERED),
    )  # fmt: skip
    assert result.summary["config"]["inject"] == [spec]
    assert (folder / "after").read_text().split() == ["none"] * 3 + ["0"] * 3
    assert len(result.log) == 3 * n
    return result.log


def submitted_ms(log: NDArray[Any]) -> NDArray[np.float64]:
    return (log["due_ns"] + log["lag_ns"]) / 1e6


def slow(log: NDArray[Any], than_us: int = QUIET_US) -> NDArray[np.bool_]:
    return log["latency_ns"] > than_us * 1000


def slots(
    log: NDArray[Any], slot_ms: float, every_ms: float
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the slot of each I/O, if the I/O is in it, and if that is certain."""
    turn, place = np.divmod(submitted_ms(log), every_ms)
    margin = SUBMIT_US / 1000
    sure = (place > margin) & (np.abs(place - slot_ms) > margin) & (place < every_ms - margin)
    return turn, place < slot_ms, sure


def test_two_drives_are_slow_at_a_time_in_rotation(boot, tmp_path: Path) -> None:
    log = replayed(boot, tmp_path, "all:latency_us=3000,slot_ms=40,every_ms=150,rotate,at_once=2")
    turn, inside, sure = slots(log, 40, 150)
    is_slow_drive = np.isin((log["home"] - turn) % 3, (0, 1))
    assert (slow(log) == (inside & is_slow_drive))[sure].all()
    assert slow(log).sum() > 1000
    assert (slow(log)[log["op"] == replay_log.WRITE]).sum() > 100


def test_a_drive_is_slow_for_a_minute_from_a_stated_time(boot, tmp_path: Path) -> None:
    """Check that all I/O of this drive is slow in that minute, and no other I/O."""
    log = replayed(
        boot,
        tmp_path,
        "all:latency_us=5000,start_ms=20000,slot_ms=60000,drive=1",
        n=2000,
        every_us=50_000,
    )
    at_ms = submitted_ms(log)
    due = (log["home"] == 1) & (at_ms > 20_000) & (at_ms < 80_000)
    np.testing.assert_array_equal(slow(log), due)
    assert due.sum() == 1200


def test_only_io_that_touches_a_slow_region_is_slow(boot, tmp_path: Path) -> None:
    log = replayed(
        boot, tmp_path, "all:latency_us=3000,region_start_mb=32,region_mb=1,drive=2", blocks_max=16
    )
    first, end = log["offset_bytes"], log["offset_bytes"] + log["size_bytes"]
    touches = (log["home"] == 2) & (first < 33 << 20) & (end > 32 << 20)
    np.testing.assert_array_equal(slow(log, 1000), touches)
    assert 300 < touches.sum() < 3000
    # Some I/Os overlap its border, some begin or end there.
    assert (touches & (first < 32 << 20)).any()
    assert (~touches & ((end == 32 << 20) | (first == 33 << 20))).any()


@pytest.mark.parametrize("buffered", [False, True])
def test_slow_reads_that_occupy_delay_those_behind_them(
    boot, tmp_path: Path, buffered: bool
) -> None:
    """Read some MiB, one of them slowly: from 128 chips, or from the buffer by one link."""
    added_us = 300 if buffered else 3000
    late_us = 50 if buffered else QUIET_US
    rng = np.random.default_rng(1)
    # A MiB is on some of the chips; 10 MiB are on all of them.
    blocks = np.arange((30 if buffered else 24) * 256, 34 * 256)
    written = blocks if buffered else blocks[:0]
    read = rng.choice(blocks, 3000)
    actions = ["write"] * len(written) + ["read"] * len(read)
    blocks = [*written, *read]
    trace = write_trace(
        tmp_path / "t",
        ((i * 250, action, blocks[i], 1) for i, action in enumerate(actions)),
    )
    late_reads = {}
    for occupy in ("", ",occupy"):
        log = replay(
            boot, tmp_path, trace,
            "--policy baseline --prefill none"
            f" --inject all:latency_us={added_us},op=read,region_start_mb=32,region_mb=1{occupy}",
            devices=DRIVES[:1],
            array=Array(n_drives=1, size_mb=256, precondition=False, parameters=ALL_BUFFERED),
        ).log  # fmt: skip
        log = log[log["op"] == replay_log.READ]
        touches = log["offset_bytes"] >> 20 == 32
        assert len(log) == 3000 and slow(log)[touches].all()
        late = slow(log, late_us) & ~touches
        late_reads[occupy] = late.sum()
        # Each late read waits for a slow one that was submitted before it.
        at_us, end_us = (
            submitted_ms(log) * 1000,
            submitted_ms(log) * 1000 + log["latency_ns"] / 1000,
        )
        for k in np.flatnonzero(late):
            assert (slow(log) & (at_us < at_us[k]) & (end_us > at_us[k])).any()
    # One of 10 reads is slow, and one or two of 128 chips are occupied. From the buffer, one of
    # four is slow, and the link is occupied for a third of the time.
    assert late_reads[""] == 0
    assert (400 if buffered else 10) < late_reads[",occupy"] < (1500 if buffered else 200)


def test_a_heavy_tail_has_the_median_and_the_tail_stated(boot, tmp_path: Path) -> None:
    log = replayed(
        boot, tmp_path, "all:latency_us=1000,shape=pareto,tail=1.5,op=read", n=8000, every_us=2000
    )
    log = log[log["op"] == replay_log.READ]
    for share, times in ((0.5, 1), (0.25, 2 ** (1 / 1.5)), (0.01, 50 ** (1 / 1.5))):
        above = (log["latency_ns"] > (1000 * times + QUIET_US / 2) * 1000).mean()
        assert share * 0.85 < above < share * 1.15, share


def test_a_region_beyond_the_drive_is_refused(boot) -> None:
    result = boot(
        "printf 'fio version 3 iolog\\n0 d read 0 4096\\n' >/run/tmp/t\n"
        "replayer --devices /dev/flash0 --trace /run/tmp/t --policy baseline"
        " --inject all:latency_us=1,region_start_mb=200,region_mb=57",
        check=False,
    )
    assert result.status == 1
    assert "the region ends at 257 MiB, drive /dev/flash0 at 256" in result.stderr


#: Settings of each pattern, and the required answers of the oracle.
KINDS = {
    "ramp": "shape=ramp latency_us=3000 window_us=30000 window_every_us=70000",
    "queue": "shape=queue latency_us=1000 at_depth=4",
    "pareto": "shape=pareto latency_us=300 tail_milli=1500",
    "region": "latency_us=2000 region_sector=131072 region_sectors=131072",
    "turns": "latency_us=2000 window_us=20000 window_every_us=30000 window_turns=3"
    " window_turn_mask=5",
    "occupy": "latency_us=2000 region_sector=131072 region_sectors=131072 occupy=1",
    "fail-slow": "latency_us=4000 window_start_us=40000 window_us=60000",
}


@pytest.mark.parametrize("kind", KINDS)
def test_oracle_predicts_the_measured_latencies(boot, tmp_path: Path, kind: str) -> None:
    """Five requests are always in the drive: reads that a fault rule holds there."""
    boot(
        f"""
rule flash0 held fault=delay frequency=all latency_us=60000000 'ranges=0 8'
for k in 1 2 3 4 5; do dd if=/dev/flash0 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null & done
sleep 0.1
inject flash0 pattern=all {KINDS[kind]}
{READS} /dev/flash0 2000 $OUT/reads.npy --max-kb 64 --oracle
inject flash0 arm=0
wait
""",
        Array(n_drives=1, profile="enterprise-b", size_mb=256),
    )
    _, latency, predicted = np.load(tmp_path / "reads.npy").T
    # The query precedes the read by about 1 us, in which a ramp continues and a slot can end.
    assert (np.abs(latency - predicted) < 2_000).mean() > 0.995
    extra_us = predicted / 1000 - 85
    if kind == "queue":
        assert (np.abs(extra_us - 1250) < 400).all()
    elif kind == "pareto":
        assert 0.4 < (extra_us > 300).mean() < 0.75 and 0.002 < (extra_us > 4070).mean() < 0.03
    else:
        slow_us = int(re.findall(r"latency_us=(\d+)", KINDS[kind])[0])
        assert (extra_us > slow_us / 3).sum() > 10 and (extra_us < 200).sum() > 10
        assert extra_us.max() < slow_us + 400

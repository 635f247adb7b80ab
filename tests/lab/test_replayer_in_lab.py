# SPDX-License-Identifier: MIT
"""The replayer on drives that have bursts, fail and revoke, in the lab's virtual time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from replays import DRIVES, QUIET, ROTATING, replay, summary, write_trace, write_traces

from linnapp.lab.array import Array
from linnapp.trace import replay_log

pytestmark = pytest.mark.lab


def test_the_oracle_never_waits_for_a_burst_on_one_drive(boot, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, 3000, 500, 1.0, blocks_max=1)
    result = replay(boot, tmp_path, traces, f"--policy oracle --inject {ROTATING}").summary
    assert result["max_us"] < 3000
    assert result["extra_ios"] == 0


def test_reads_go_where_the_fewest_pages_are_pending(boot, tmp_path: Path) -> None:
    """Use the second drive as default of all reads; none ends before the last is sent."""
    # Simultaneous I/Os and where each should go: (action, blocks, drive).
    handful = [
        ("read", 4, 1), ("read", 2, 2), ("read", 1, 0),
        ("read", 1, 0),  # 2, 4, 2 pending now
        ("read", 3, 2),  # a tie of two, neither of them the default; 2, 4, 5
        ("read", 2, 0), ("read", 1, 1),  # a tie with the default: 4, 5, 5
        ("write", 8, 1), ("read", 2, 0), ("read", 1, 2),  # 6, 13, 6
    ]  # fmt: skip
    n, every_us = 50, 50_000
    home = write_trace(
        tmp_path / "home",
        (
            (i * every_us + k, action, (16 * i + k) * 8, blocks)
            for i in range(n)
            for k, (action, blocks, _) in enumerate(handful)
        ),
    )
    others = write_trace(tmp_path / "none", ())
    result = replay(
        boot, tmp_path, f"{others},{home},{others}",
        f"--policy shortest-queue --inject interval:interval=1,latency_us=5000 {QUIET}",
    )  # fmt: skip
    result.assert_right()
    assert result.summary["extra_ios"] == 0
    served = result.log[np.argsort(result.log["due_ns"], kind="stable")]["served_by"].reshape(n, -1)
    assert (served == [drive for _, _, drive in handful]).all()


def test_a_hedge_goes_where_the_fewest_pages_are_pending(boot, tmp_path: Path) -> None:
    """The next replica has a write in its queue, the one after that is idle."""
    n, every_us = 50, 50_000
    none = write_trace(tmp_path / "none", ())
    home = write_trace(tmp_path / "home", ((i * every_us + 1, "read", 0, 1) for i in range(n)))
    next_ = write_trace(tmp_path / "next", ((i * every_us, "write", 0, 8) for i in range(n)))
    result = replay(
        boot, tmp_path, f"{none},{home},{next_}",
        "--policy shortest-queue-h95 --hedge-us 1000 --hedge-budget none"
        " --inject interval:interval=1,latency_us=5000,drive=1+2"
        f" --inject interval:interval=1,latency_us=10,drive=0 {QUIET}",
    )  # fmt: skip
    result.assert_right()
    reads = result.log[result.log["op"] == replay_log.READ]
    # The first idle drive is the default replica, which is slow.
    assert len(reads) == result.summary["hedged"] == result.summary["hedges_won"] == n
    assert (reads["home"] == 1).all() and (reads["served_by"] == 0).all()


def test_verdict_fails_over_around_the_ring_to_a_fast_drive(boot, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, 3000, 500, 1.0, blocks_max=1)
    result = replay(
        boot, tmp_path, traces,
        f"--policy verdict --inject {ROTATING} --threshold-us 2000 --failover-us 40",
    )  # fmt: skip
    result.assert_right()
    counts, log = result.summary, result.log
    assert counts["extra_ios"] == 0 and counts["bound_holds"] is True
    assert counts["config"]["threshold_us"] == [2000] * 3
    # No read waits for a burst; the next drive, which is not in one, takes it.
    assert counts["max_us"] < 2000
    passed = log[log["revocations"] > 0]
    assert 0.03 < len(passed) / len(log) < 0.13  # a slot is 50 of 600 ms
    assert (passed["revocations"] == 1).all()
    assert (passed["served_by"] == (passed["home"] + 1) % 3).all()
    assert (log["served_by"] == log["home"])[log["revocations"] == 0].all()
    over_us = passed["latency_ns"] // 1000 - passed["device_latency_us"]
    assert (over_us >= 40).all() and (over_us <= 42).all()


def test_last_drive_takes_the_read_when_all_are_slow(boot, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, 200, 2000, 1.0, blocks_max=1)
    log = replay(
        boot, tmp_path, traces,
        "--policy verdict --inject continuous:latency_us=500,ratio=100% --threshold-us 300",
    ).log  # fmt: skip
    assert (log["revocations"] == 2).all()
    assert (log["served_by"] == (log["home"] + 2) % 3).all()
    assert (log["latency_ns"] // 1000 - log["device_latency_us"] >= 30).all()


def test_policies_that_need_a_model_or_a_threshold_name_the_remedy(
    boot, tmp_path: Path, queue_model: Path
) -> None:
    traces = write_traces(tmp_path, 500, 1000, 1.0, blocks_max=1)
    refused = "".join(
        f"status=0; replayer --devices {','.join(DRIVES)} --trace {traces} --policy {policy}"
        f" --json $OUT/o.json 2>$OUT/{policy} || status=$?; [ $status = 1 ]\n"
        for policy in ("verdict", "linnos")
    )
    uploads = (
        f"for d in {' '.join(DRIVES)}; do linnapp upload --model {queue_model} --device $d; done"
    )
    result = replay(
        boot,
        tmp_path,
        traces,
        "--policy verdict",
        before=f"{refused}[ ! -e $OUT/o.json ]\n{uploads}",
    )
    message = (tmp_path / "verdict").read_text()
    assert "no inflection point" in message and "--threshold-us" in message
    message = (tmp_path / "linnos").read_text()
    assert "no model is uploaded" in message and "linnapp upload" in message
    # Each drive has the inflection point of its own model.
    assert result.summary["config"]["threshold_us"] == [200] * 3


INJECTED = {
    "": True,
    "--inject continuous:latency_us=500,ratio=100%,slot_ms=50,every_ms=200": True,
    "--inject interval:latency_us=500,interval=1": True,
    "--inject all:latency_us=500,shape=pareto,tail=2": True,
    "--inject random:latency_us=500,ratio=100%,region_mb=1": True,
    "--inject continuous:latency_us=500,ratio=1%,op=write": True,
    "--inject continuous:latency_us=500,ratio=1%": False,
    "--inject interval:latency_us=500,interval=20,op=read": False,
    "--inject random:latency_us=500,ratio=2%,drive=1": False,
}


def test_output_says_if_a_bound_holds(boot, tmp_path: Path) -> None:
    runs = {"baseline": None, **{f"oracle {inject}": holds for inject, holds in INJECTED.items()}}
    trace = write_traces(tmp_path, 50, 1000, 1.0, blocks_max=1)
    start = f"replayer --devices {','.join(DRIVES)} --trace {trace} --policy"
    boot("".join(f"{start} {run} --json $OUT/{k}.json\n" for k, run in enumerate(runs)))
    for k, (run, holds) in enumerate(runs.items()):
        assert summary(tmp_path / f"{k}.json")["bound_holds"] is holds, run


@pytest.mark.parametrize("policy", ["linnos", "linnos-hl", "linnos-h99"])
def test_revoked_reads_fail_over_at_a_cost(
    boot, tmp_path: Path, queue_model: Path, policy: str
) -> None:
    traces = write_traces(tmp_path, 8000, 60, 0.8)
    result = replay(
        boot, tmp_path, traces, f"--policy {policy} --hedge-us 400 --failover-us 15",
        before=f"for d in {' '.join(DRIVES)}; do"
        f" linnapp upload --model {queue_model} --device $d --mode enforce; done",
        after="cat /sys/block/flash?/linnos/stats/revoked >$OUT/revoked",
    )  # fmt: skip
    result.assert_right()
    counts, log = result.summary, result.log
    revoked = log[log["revocations"] > 0]
    assert len(log) == 3 * 8000 == counts["reads"] + counts["writes"]
    assert counts["revoked"] == len(revoked) > 100
    assert counts["revocations"] == log["revocations"].sum()
    kernel = sum(map(int, (tmp_path / "revoked").read_text().split()))
    # Only the kernel counts a hedge that is revoked after its read was answered.
    assert counts["revocations"] <= kernel
    if policy == "linnos":
        assert counts["revocations"] == kernel
        assert counts["extra_ios"] == 0
        assert (revoked["served_by"] != revoked["home"]).all()
        waited_us = revoked["latency_ns"] // 1000 - revoked["device_latency_us"]
        assert (waited_us >= 15 * revoked["revocations"].astype(np.uint64)).all()
    assert (revoked["op"] == replay_log.READ).all()
    assert counts["hedged"] <= 0.05 * counts["reads"]


@pytest.mark.parametrize("policy", ["baseline", "clone", "hedge", "shortest-queue-h95", "c3"])
def test_a_drive_failing_mid_run_loses_no_read(boot, tmp_path: Path, policy: str) -> None:
    """Bad blocks of null_blk make one of three drives answer every I/O with an error."""
    traces = write_traces(tmp_path, 8000, 250, 0.8)
    result = replay(
        boot, tmp_path, traces, f"--policy {policy} --hedge-us 70 --settle-ms 0", status=2,
        devices=[f"/dev/nullb{k}" for k in (1, 2, 3)],
        before="null=/sys/kernel/config/nullb\nfor k in 1 2 3; do\nmkdir $null/nullb$k\n"
        "write_settings $null/nullb$k size=256 memory_backed=1 irqmode=2 completion_nsec=80000"
        " power=1\ndone\n(sleep 2; echo +0-524287 >$null/nullb1/badblocks) &",
    )  # fmt: skip
    counts, log = result.summary, result.log
    read = log["op"] == replay_log.READ
    assert len(log) == 3 * 8000 and counts["reads"] == np.count_nonzero(read)
    assert counts["io_errors_by_drive"] == [counts["io_errors"], 0, 0]
    assert counts["io_errors"] > 100
    # Every read was answered, with the right content, by another drive.
    result.assert_right(counts["io_errors"])
    assert (log["served_by"][read] < 3).all()
    failed_over = read & ((log["flags"] & replay_log.IO_ERROR) != 0)
    assert failed_over.any() and (log["served_by"][failed_over] != 0).all()
    # A write goes to one drive here: those to the failed one are lost, and reported.
    assert counts["writes_failed"] == np.count_nonzero(~read & (log["served_by"] == 255)) > 0
    assert (log["home"][~read & (log["served_by"] == 255)] == 0).all()


def test_every_corrupted_read_is_found(boot, tmp_path: Path) -> None:
    """Give each drive another fault; the 50th read comes after those at the replayer's start."""
    traces = write_traces(tmp_path, 4000, 250, 0.8, blocks_max=1)
    result = replay(
        boot, tmp_path, traces, "--policy baseline", status=2,
        before="".join(
            f"rule flash{k} r1 op=read frequency=interval n=50 fault={fault}\n"
            for k, fault in enumerate(("bit_flip", "zeros", "ones"))
        ),
        after="cat $flashsim/flash?/rules/r1/injected >$OUT/injected",
    )  # fmt: skip
    wrong = result.log[(result.log["flags"] & replay_log.DATA_ERROR) != 0]
    injected = [int(line) for line in (tmp_path / "injected").read_text().split()]
    assert np.bincount(wrong["served_by"]).tolist() == injected and min(injected) > 50
    assert result.summary["data_errors"] == len(wrong)


def test_a_rule_with_a_tag_hits_the_ios_that_carry_it_and_no_others(boot, tmp_path: Path) -> None:
    """Under `random`, drives serve the reads of all traces; those of one carry the tag."""
    traces = write_traces(tmp_path, 2000, 250, 0.8, blocks_max=1)
    result = replay(
        boot, tmp_path, traces, "--policy random --tag 100,0,200", status=2,
        before="rule flash1 r1 op=read fault=bit_flip tag=100",
        after="cd $flashsim/flash1/rules/r1; cat matched injected >$OUT/counts",
    )  # fmt: skip
    assert result.summary["config"]["tags"] == [100, 0, 200]
    at_drive = (result.log["op"] == replay_log.READ) & (result.log["served_by"] == 1)
    tagged = at_drive & (result.log["home"] == 0)
    wrong = (result.log["flags"] & replay_log.DATA_ERROR) != 0
    assert (wrong == tagged).all()
    assert 300 < tagged.sum() < at_drive.sum() / 2
    assert (tmp_path / "counts").read_text().split() == [str(tagged.sum())] * 2


def test_lost_writes_are_found_when_their_blocks_are_read(boot, tmp_path: Path) -> None:
    """Every block is written twice and then read; one write in ten is lost."""
    blocks = np.random.default_rng(1).permutation(2000)
    rounds = ((0, "write"), (300_000, "write"), (600_000, "read"))
    ios = ((us + i * 100, what, at, 1) for us, what in rounds for i, at in enumerate(blocks))
    result = replay(
        boot, tmp_path, write_trace(tmp_path / "t", ios), "--policy baseline --prefill none",
        devices=DRIVES[:1], status=2,
        before="rule flash0 r1 op=write frequency=interval n=10 fault=lost_write",
        after="cat $flashsim/flash0/rules/r1/injected >$OUT/injected",
    )  # fmt: skip
    # Both rounds hit the same blocks, which are never written and read as zeros.
    assert int((tmp_path / "injected").read_text()) == 400
    assert result.summary["data_errors"] == 200


def test_a_second_interrupt_does_not_wait_for_the_drives(boot, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, 500, 2000, 1.0, blocks_max=1)
    result = boot(
        f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy baseline --prefill none"
        " --inject random:latency_us=60000000,ratio=10%,op=read,drive=1 --json $OUT/o.json &\n"
        "sleep 0.6; kill -INT $!; sleep 0.5; kill -INT $!; wait $!",
        check=False,
    )
    assert result.status == 130, result.stderr
    counts = summary(tmp_path / "o.json")
    assert counts["stopped"] == "interrupted"
    assert 0 < counts["unanswered"] < 200
    assert 300 < counts["reads"] < 1500
    assert counts["elapsed_s"] < 2


def test_unsubmitted_loser_is_cancelled_and_counted(boot, tmp_path: Path) -> None:
    """The drive takes two commands; others wait in the kernel's work queue during a burst.

    Only there can the kernel cancel a read.
    """
    traces = write_traces(tmp_path, 3000, 300, 0.8, blocks_max=1)
    count = "for d in flash0 flash1 flash2; do counter $d reads; done >$OUT/"
    result = replay(
        boot, tmp_path, traces,
        f"--policy hedge --hedge-us 300 --hedge-budget 50% --inject {ROTATING}"
        # The drives' contents are not inspected, because the counters would include that.
        f" --force {','.join(DRIVES)}",
        before=f"{count}before", after=f"{count}after",
        array=Array(size_mb=256, parameters={"queue_depth": "2"}),
    )  # fmt: skip
    result.assert_right()
    counts, log = result.summary, result.log
    assert 100 < counts["cancelled"] < counts["cancels_tried"]
    # No read is lost or counted twice.
    assert len(log) == 3 * 3000 == counts["reads"] + counts["writes"]
    assert (log["served_by"] < 3).all()
    # Cancelled reads never reached a drive; every other attempt did, once.
    served = counts["reads"] + counts["extra_ios"] - counts["cancelled"]
    before, after = (
        sum(map(int, (tmp_path / name).read_text().split())) for name in ("before", "after")
    )
    assert counts["blocks_checked"] == served == after - before


CARRIES = "carries a file system, partition table or other signature"
#: Commands, the drives and options of a run after them, its exit status, and a part of its message.
OVERWRITES = [
    ("", "/dev/flash0", 0, ""),
    ("", "/dev/flash0", 0, ""),
    (
        "mkfs.ext4 -q /dev/flash1",
        *("/dev/flash0,/dev/flash1", 1, f"drive /dev/flash1: {CARRIES} (ext4)"),
    ),
    ("mount /dev/flash1 $mnt", "/dev/flash1 --force /dev/flash1", 1, "drive /dev/flash1: in use"),
    ("", "/dev/flash1 --readonly", 0, ""),
    (
        "umount $mnt; hold /dev/flash2",
        *("/dev/flash2 --force /dev/flash2", 1, "drive /dev/flash2: in use: process"),
    ),
    ("kill $held", "/dev/flash1 --force /dev/flash1", 0, ""),
    # One partition, from sector 2048 on, of 65536.
    (
        r"put 446 '\0\0\0\0\203\0\0\0\0\10\0\0\0\0\1\0'; put 510 '\125\252'"
        "; blockdev --rereadpt /dev/flash2",
        *("/dev/flash2", 1, f"drive /dev/flash2: {CARRIES} (dos)"),
    ),
    ("", "/dev/flash2p1", 0, ""),
    ("", "/dev/flash2,/dev/flash2p1 --force /dev/flash2", 1, "or one is a part of the other"),
    (
        "hold /dev/flash2p1",
        *("/dev/flash2 --force /dev/flash2", 1, "drive /dev/flash2: in use: process"),
    ),
    (
        "kill $held; mkfs.ext4 -q /dev/flash2p1; mount /dev/flash2p1 $mnt",
        *(
            "/dev/flash2 --force /dev/flash2",
            1,
            "drive /dev/flash2: in use: it or a part of it is mounted",
        ),
    ),
]


def test_drives_with_data_or_mounts_are_not_overwritten(boot, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t", ((0, "read", 0, 1), (0, "write", 0, 1)))
    script = (
        "mnt=/run/tmp/m; mkdir $mnt\n"
        "hold() { sleep 1000 <$1 & held=$!; }\n"
        "put() { printf $2 | dd of=/dev/flash2 bs=1 seek=$1 conv=notrunc 2>/dev/null; }\n"
    )
    for k, (commands, options, _, _) in enumerate(OVERWRITES):
        script += (
            f"{commands}\nstatus=0; replayer --trace {trace} --policy baseline --devices {options}"
            f" >$OUT/{k} 2>&1 || status=$?\necho status $status >>$OUT/{k}\n"
        )
    boot(f"{script}umount $mnt\n", Array(size_mb=64))
    for k, (_, options, status, message) in enumerate(OVERWRITES):
        output = (tmp_path / str(k)).read_text()
        assert output.endswith(f"status {status}\n") and message in output, (options, output)

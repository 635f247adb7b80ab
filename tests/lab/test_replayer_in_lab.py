# SPDX-License-Identifier: MIT
"""The replayer on drives that have bursts, fail and revoke, in the lab's virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linnapp.lab.array import Array
from linnapp.trace import replay_log

pytestmark = pytest.mark.lab

BLOCK = 4096
DRIVES = ("/dev/flash0", "/dev/flash1", "/dev/flash2")
ROTATING = "continuous:latency_us=3000,op=read,ratio=100%,slot_ms=50,every_ms=200,rotate"


def write_traces(
    folder: Path, n: int, every_us: int, read_share: float, blocks_max: int = 8
) -> str:
    """Write one trace per drive; return the argument of --trace."""
    names = []
    for k in range(3):
        rng = np.random.default_rng(k)
        at = np.sort(rng.integers(0, n * every_us, n))
        block = rng.integers(0, (128 << 20) // BLOCK, n)
        blocks = rng.integers(1, blocks_max + 1, n)
        action = np.where(rng.random(n) < read_share, "read", "write")
        path = folder / f"t{k}.iolog"
        with path.open("w") as file:
            file.write("fio version 3 iolog\n")
            for t, a, b, c in zip(at, action, block, blocks, strict=True):
                file.write(f"{t} /dev/x {a} {b * BLOCK} {c * BLOCK}\n")
        names.append(str(path))
    return ",".join(names)


def summary(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(path.read_text())
    return parsed


def test_the_oracle_never_waits_for_a_burst_on_one_drive(boot, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, 3000, 500, 1.0, blocks_max=1)
    boot(
        f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy oracle"
        f" --inject {ROTATING} --json $OUT/o.json"
    )
    result = summary(tmp_path / "o.json")
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
    home, others = tmp_path / "home.iolog", tmp_path / "none.iolog"
    header = "fio version 3 iolog\n"
    others.write_text(header)
    home.write_text(
        header
        + "".join(
            f"{i * every_us + k} /dev/x {action} {(16 * i + k) * 8 * BLOCK} {blocks * BLOCK}\n"
            for i in range(n)
            for k, (action, blocks, _) in enumerate(handful)
        )
    )
    boot(
        f"replayer --devices {','.join(DRIVES)} --trace {others},{home},{others}"
        " --policy shortest-queue --inject interval:interval=1,latency_us=5000"
        " --prefill none --settle-ms 0 --json $OUT/o.json --log $OUT/o.log"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert (result["data_errors"], result["reads_failed"], result["extra_ios"]) == (0, 0, 0)
    served = log[np.argsort(log["due_ns"], kind="stable")]["served_by"].reshape(n, -1)
    assert (served == [drive for _, _, drive in handful]).all()


def test_a_hedge_goes_where_the_fewest_pages_are_pending(boot, tmp_path: Path) -> None:
    """The next replica has a write in its queue, the one after that is idle."""
    n, every_us = 50, 50_000
    home, next_, none = (tmp_path / f"{name}.iolog" for name in ("home", "next", "none"))
    header = "fio version 3 iolog\n"
    none.write_text(header)
    for path, action, at_us, blocks in ((home, "read", 1, 1), (next_, "write", 0, 8)):
        lines = (f"{i * every_us + at_us} d {action} 0 {blocks * BLOCK}\n" for i in range(n))
        path.write_text(header + "".join(lines))
    boot(
        f"replayer --devices {','.join(DRIVES)} --trace {none},{home},{next_}"
        " --policy shortest-queue-h95 --hedge-us 1000 --hedge-budget none"
        " --inject interval:interval=1,latency_us=5000,drive=1+2"
        " --inject interval:interval=1,latency_us=10,drive=0"
        " --prefill none --settle-ms 0 --json $OUT/o.json --log $OUT/o.log"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert (result["data_errors"], result["reads_failed"]) == (0, 0)
    reads = log[log["op"] == replay_log.READ]
    # The first idle drive is the default replica, which is slow.
    assert len(reads) == result["hedged"] == result["hedges_won"] == n
    assert (reads["home"] == 1).all() and (reads["served_by"] == 0).all()


def test_verdict_fails_over_around_the_ring_to_a_fast_drive(boot, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, 3000, 500, 1.0, blocks_max=1)
    boot(
        f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy verdict"
        f" --inject {ROTATING} --threshold-us 2000 --failover-us 40"
        " --json $OUT/o.json --log $OUT/o.log"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert (result["data_errors"], result["reads_failed"], result["extra_ios"]) == (0, 0, 0)
    assert result["bound_holds"] is True
    assert result["config"]["threshold_us"] == [2000] * 3
    # No read waits for a burst; the next drive, which is not in one, takes it.
    assert result["max_us"] < 2000
    passed = log[log["revocations"] > 0]
    assert 0.03 < len(passed) / len(log) < 0.13  # a slot is 50 of 600 ms
    assert (passed["revocations"] == 1).all()
    assert (passed["served_by"] == (passed["home"] + 1) % 3).all()
    assert (log["served_by"] == log["home"])[log["revocations"] == 0].all()
    over_us = passed["latency_ns"] // 1000 - passed["device_latency_us"]
    assert (over_us >= 40).all() and (over_us <= 42).all()


def test_last_drive_takes_the_read_when_all_are_slow(boot, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, 200, 2000, 1.0, blocks_max=1)
    boot(
        f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy verdict"
        " --inject continuous:latency_us=500,ratio=100% --threshold-us 300"
        " --json $OUT/o.json --log $OUT/o.log"
    )
    log = replay_log.read(tmp_path / "o.log")
    assert (log["revocations"] == 2).all()
    assert (log["served_by"] == (log["home"] + 2) % 3).all()
    assert (log["latency_ns"] // 1000 - log["device_latency_us"] >= 30).all()


def test_verdict_takes_each_drives_own_inflection_point(
    boot, tmp_path: Path, queue_model: Path
) -> None:
    traces = write_traces(tmp_path, 500, 1000, 1.0, blocks_max=1)
    replay = f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy verdict"
    boot(
        f"{replay} 2>$OUT/refused && exit 1\n"
        f"for d in {' '.join(DRIVES)}; do linnapp upload --model {queue_model} --device $d; done\n"
        f"{replay} --json $OUT/o.json"
    )
    assert "no inflection point" in (tmp_path / "refused").read_text()
    assert "--threshold-us" in (tmp_path / "refused").read_text()
    assert summary(tmp_path / "o.json")["config"]["threshold_us"] == [200] * 3


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
    traces = write_traces(tmp_path, 50, 1000, 1.0, blocks_max=1)
    replay = f"replayer --devices {','.join(DRIVES)} --trace {traces}"
    script = f"{replay} --policy baseline --json $OUT/none.json\n"
    for number, inject in enumerate(INJECTED):
        script += f"{replay} --policy oracle {inject} --json $OUT/{number}.json\n"
    boot(script)
    assert summary(tmp_path / "none.json")["bound_holds"] is None
    for number, (inject, holds) in enumerate(INJECTED.items()):
        assert summary(tmp_path / f"{number}.json")["bound_holds"] is holds, inject


@pytest.mark.parametrize("policy", ["linnos", "linnos-hl", "linnos-h99"])
def test_revoked_reads_fail_over_at_a_cost(
    boot, tmp_path: Path, queue_model: Path, policy: str
) -> None:
    traces = write_traces(tmp_path, 8000, 60, 0.8)
    boot(
        f"for d in {' '.join(DRIVES)}; do"
        f" linnapp upload --model {queue_model} --device $d --mode enforce; done\n"
        f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy {policy} --hedge-us 400"
        " --failover-us 15 --json $OUT/o.json --log $OUT/o.log\n"
        "cat /sys/block/flash?/linnos/stats/revoked >$OUT/revoked"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    revoked = log[log["revocations"] > 0]
    assert len(log) == 3 * 8000 == result["reads"] + result["writes"]
    assert (result["data_errors"], result["io_errors"], result["reads_failed"]) == (0, 0, 0)
    assert result["revoked"] == len(revoked) > 100
    assert result["revocations"] == log["revocations"].sum()
    kernel = sum(int(line) for line in (tmp_path / "revoked").read_text().split())
    # Only the kernel counts a hedge that is revoked after its read was answered.
    assert result["revocations"] <= kernel
    if policy == "linnos":
        assert result["revocations"] == kernel
        assert result["extra_ios"] == 0
        assert (revoked["served_by"] != revoked["home"]).all()
        waited_us = revoked["latency_ns"] // 1000 - revoked["device_latency_us"]
        assert (waited_us >= 15 * revoked["revocations"].astype(np.uint64)).all()
    assert (revoked["op"] == replay_log.READ).all()
    assert result["hedged"] <= 0.05 * result["reads"]


def test_linnos_without_a_model_is_refused_with_the_remedy(boot, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, 10, 100, 1.0)
    ran = boot(
        f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy linnos"
        " --json $OUT/o.json",
        check=False,
    )
    assert ran.status == 1
    assert "no model uploaded" in ran.stderr and "linnapp upload" in ran.stderr
    assert not (tmp_path / "o.json").exists()


@pytest.mark.parametrize("policy", ["baseline", "clone", "hedge", "shortest-queue-h95", "c3"])
def test_a_drive_failing_mid_run_loses_no_read(boot, tmp_path: Path, policy: str) -> None:
    """Bad blocks of null_blk make one of three drives answer every I/O with an error."""
    traces = write_traces(tmp_path, 8000, 250, 0.8)
    boot(
        "cd /sys/kernel/config/nullb\n"
        "for i in 1 2 3; do mkdir nullb$i; cd nullb$i; echo 256 >size; echo 1 >memory_backed;"
        " echo 2 >irqmode; echo 80000 >completion_nsec; echo 1 >power; cd ..; done\n"
        "(sleep 2; echo +0-524287 >nullb1/badblocks) &\n"
        f"replayer --devices /dev/nullb1,/dev/nullb2,/dev/nullb3 --trace {traces} --policy {policy}"
        " --hedge-us 70 --settle-ms 0 --json $OUT/o.json --log $OUT/o.log || [ $? = 2 ]"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    read = log["op"] == replay_log.READ
    assert len(log) == 3 * 8000 and result["reads"] == np.count_nonzero(read)
    assert result["io_errors_by_drive"] == [result["io_errors"], 0, 0]
    assert result["io_errors"] > 100
    # Every read was answered, with the right content, by another drive.
    assert (result["reads_failed"], result["data_errors"]) == (0, 0)
    assert (log["served_by"][read] < 3).all()
    failed_over = read & ((log["flags"] & replay_log.IO_ERROR) != 0)
    assert failed_over.any() and (log["served_by"][failed_over] != 0).all()
    # A write goes to one drive here: those to the failed one are lost, and reported.
    assert result["writes_failed"] == np.count_nonzero(~read & (log["served_by"] == 255)) > 0
    assert (log["home"][~read & (log["served_by"] == 255)] == 0).all()


def test_every_corrupted_read_is_found(boot, tmp_path: Path) -> None:
    """Give each drive another fault; the 50th read comes after those at the replayer's start."""
    traces = write_traces(tmp_path, 4000, 250, 0.8, blocks_max=1)
    rules = [f"/sys/kernel/config/flashsim/flash{k}/rules/r1" for k in range(3)]
    boot(
        "".join(
            f"mkdir {rule}; echo read >{rule}/op; echo interval >{rule}/frequency\n"
            f"echo 50 >{rule}/n; echo {fault} >{rule}/fault; echo 1 >{rule}/enabled\n"
            for rule, fault in zip(rules, ("bit_flip", "zeros", "ones"), strict=True)
        )
        + f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy baseline"
        " --json $OUT/o.json --log $OUT/o.log || [ $? = 2 ]\n"
        f"cat {' '.join(f'{rule}/injected' for rule in rules)} >$OUT/injected"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    wrong = log[(log["flags"] & replay_log.DATA_ERROR) != 0]
    injected = [int(line) for line in (tmp_path / "injected").read_text().split()]
    assert np.bincount(wrong["served_by"]).tolist() == injected and min(injected) > 50
    assert result["data_errors"] == len(wrong)


def test_a_rule_with_a_tag_hits_the_ios_that_carry_it_and_no_others(boot, tmp_path: Path) -> None:
    """Under `random`, drives serve the reads of all traces; those of one carry the tag."""
    traces = write_traces(tmp_path, 2000, 250, 0.8, blocks_max=1)
    rule = "/sys/kernel/config/flashsim/flash1/rules/r1"
    boot(
        f"mkdir {rule}; echo read >{rule}/op; echo bit_flip >{rule}/fault; echo 100 >{rule}/tag\n"
        f"echo 1 >{rule}/enabled\n"
        f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy random --tag 100,0,200"
        " --json $OUT/o.json --log $OUT/o.log || [ $? = 2 ]\n"
        f"cat {rule}/matched {rule}/injected >$OUT/counts"
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert result["config"]["tags"] == [100, 0, 200]
    at_drive = (log["op"] == replay_log.READ) & (log["served_by"] == 1)
    tagged = at_drive & (log["home"] == 0)
    wrong = (log["flags"] & replay_log.DATA_ERROR) != 0
    assert (wrong == tagged).all()
    assert 300 < tagged.sum() < at_drive.sum() / 2
    assert (tmp_path / "counts").read_text().split() == [str(tagged.sum())] * 2


def test_lost_writes_are_found_when_their_blocks_are_read(boot, tmp_path: Path) -> None:
    """Every block is written twice and then read; one write in ten is lost."""
    blocks = np.random.default_rng(1).permutation(2000) * BLOCK
    trace = tmp_path / "t.iolog"
    with trace.open("w") as file:
        file.write("fio version 3 iolog\n")
        for at_us, action in ((0, "write"), (300_000, "write"), (600_000, "read")):
            file.writelines(
                f"{at_us + i * 100} d {action} {b} {BLOCK}\n" for i, b in enumerate(blocks)
            )
    rule = "/sys/kernel/config/flashsim/flash0/rules/r1"
    boot(
        f"mkdir {rule}; echo write >{rule}/op; echo interval >{rule}/frequency; echo 10 >{rule}/n\n"
        f"echo lost_write >{rule}/fault; echo 1 >{rule}/enabled\n"
        f"replayer --devices /dev/flash0 --trace {trace} --policy baseline --prefill none"
        " --json $OUT/o.json || [ $? = 2 ]\n"
        f"cat {rule}/injected >$OUT/injected"
    )
    # Both rounds hit the same blocks, which are never written and read as zeros.
    assert int((tmp_path / "injected").read_text()) == 400
    assert summary(tmp_path / "o.json")["data_errors"] == 200


def test_a_second_interrupt_does_not_wait_for_the_drives(boot, tmp_path: Path) -> None:
    traces = write_traces(tmp_path, 500, 2000, 1.0, blocks_max=1)
    ran = boot(
        f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy baseline --prefill none"
        " --inject random:latency_us=60000000,ratio=10%,op=read,drive=1 --json $OUT/o.json &\n"
        "sleep 0.6; kill -INT $!; sleep 0.5; kill -INT $!; wait $!",
        check=False,
    )
    assert ran.status == 130, ran.stderr
    result = summary(tmp_path / "o.json")
    assert result["stopped"] == "interrupted"
    assert 0 < result["unanswered"] < 200
    assert 300 < result["reads"] < 1500
    assert result["elapsed_s"] < 2


def test_unsubmitted_loser_is_cancelled_and_counted(boot, tmp_path: Path) -> None:
    """The drive takes two commands; others wait in the kernel's work queue during a burst.

    Only there can the kernel cancel a read.
    """
    traces = write_traces(tmp_path, 3000, 300, 0.8, blocks_max=1)
    count = (
        "for d in flash0 flash1 flash2; do awk '$1 == \"reads\" { print $2 }'"
        " /sys/kernel/debug/flashsim/$d/counters; done"
    )
    boot(
        f"{count} >$OUT/before\n"
        f"replayer --devices {','.join(DRIVES)} --trace {traces} --policy hedge --hedge-us 300"
        f" --hedge-budget 50% --inject {ROTATING} --json $OUT/o.json --log $OUT/o.log"
        # The drives' contents are not inspected, because the counters would include that.
        f" --force {','.join(DRIVES)}\n"
        f"{count} >$OUT/after",
        Array(size_mb=256, parameters={"queue_depth": "2"}),
    )
    result, log = summary(tmp_path / "o.json"), replay_log.read(tmp_path / "o.log")
    assert 100 < result["cancelled"] < result["cancels_tried"]
    # No read is lost or counted twice, and the data is right.
    assert len(log) == 3 * 3000 == result["reads"] + result["writes"]
    assert (result["data_errors"], result["io_errors"], result["reads_failed"]) == (0, 0, 0)
    assert (log["served_by"] < 3).all()
    # Cancelled reads never reached a drive; every other attempt did, once.
    served = result["reads"] + result["extra_ios"] - result["cancelled"]
    before, after = (
        sum(int(line) for line in (tmp_path / name).read_text().split())
        for name in ("before", "after")
    )
    assert result["blocks_checked"] == served == after - before


def test_drives_with_data_or_mounts_are_not_overwritten(boot, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    trace.write_text(f"fio version 3 iolog\n0 /dev/x read 0 {BLOCK}\n0 /dev/x write 0 {BLOCK}\n")
    boot(
        f"""
run() {{
    name=$1; shift
    status=0
    replayer --trace {trace} --policy baseline "$@" >$OUT/$name 2>&1 || status=$?
    echo "status $status" >>$OUT/$name
}}
run fresh --devices /dev/flash0
run again --devices /dev/flash0
mkfs.ext4 -q /dev/flash1
run ext4 --devices /dev/flash0,/dev/flash1
mkdir /run/tmp/m
mount /dev/flash1 /run/tmp/m
run mounted --devices /dev/flash1 --force /dev/flash1
run readonly --devices /dev/flash1 --readonly
umount /run/tmp/m
sleep 1000 </dev/flash2 &
run held --devices /dev/flash2 --force /dev/flash2
kill $!
run forced --devices /dev/flash1 --force /dev/flash1
# One partition, from sector 2048 on, of 65536.
printf '\\0\\0\\0\\0\\203\\0\\0\\0\\0\\10\\0\\0\\0\\0\\1\\0' |
    dd of=/dev/flash2 bs=1 seek=446 conv=notrunc 2>/dev/null
printf '\\125\\252' | dd of=/dev/flash2 bs=1 seek=510 conv=notrunc 2>/dev/null
blockdev --rereadpt /dev/flash2
run table --devices /dev/flash2
run part --devices /dev/flash2p1
run both --devices /dev/flash2,/dev/flash2p1 --force /dev/flash2
sleep 1000 </dev/flash2p1 &
run part_held --devices /dev/flash2 --force /dev/flash2
kill $!
mkfs.ext4 -q /dev/flash2p1
mount /dev/flash2p1 /run/tmp/m
run part_mounted --devices /dev/flash2 --force /dev/flash2
umount /run/tmp/m
""",
        Array(size_mb=64),
    )
    said = {
        name: (tmp_path / name).read_text()
        for name in (
            "fresh", "again", "ext4", "mounted", "readonly", "held", "forced",
            "table", "part", "both", "part_held", "part_mounted",
        )
    }  # fmt: skip
    status = {name: int(text.split()[-1]) for name, text in said.items()}
    assert status == {
        "fresh": 0, "again": 0, "ext4": 1, "mounted": 1, "readonly": 0, "held": 1, "forced": 0,
        "table": 1, "part": 0, "both": 1, "part_held": 1, "part_mounted": 1,
    }, said  # fmt: skip
    assert "drive /dev/flash1: carries" in said["ext4"] and "(ext4)" in said["ext4"]
    assert "drive /dev/flash1: in use" in said["mounted"]
    assert "drive /dev/flash2: in use: process" in said["held"]
    assert "(dos), which" in said["table"]
    assert "or one is a part of the other" in said["both"]
    assert "drive /dev/flash2: in use: process" in said["part_held"]
    assert "drive /dev/flash2: in use: it or a part of it is mounted" in said["part_mounted"]

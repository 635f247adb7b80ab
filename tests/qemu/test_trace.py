# SPDX-License-Identifier: MIT
"""`linnapp trace` on two CPUs and an emulated NVMe drive agrees with blkparse."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from linnapp.trace import blktrace
from linnapp.trace.blktrace import BlktraceReader

pytestmark = pytest.mark.qemu

IOS_PER_JOB = 2000

# A job on either CPU, each in a half of its own, so that no two I/Os in flight
# are on the same sectors. The same load twice: through linnapp, and through
# blktrace alone, which leaves a file per CPU.
SCRIPT = f"""
cat >/run/load <<'END'
fio --filename=/dev/nvme0n1 --allow_file_create=0 --direct=1 --ioengine=io_uring --iodepth=8 \\
    --rw=randrw --number_ios={IOS_PER_JOB} --size=64m \\
    --name=a --bs=4k --cpus_allowed=0 --name=b --bs=16k --cpus_allowed=1 --offset=64m
END
linnapp trace /dev/nvme0n1 /dev/nvme1n1 -o $OUT/merged -- sh -e /run/load >$OUT/fio
blktrace -D $OUT/raw -b 1024 -n 8 -d /dev/nvme0n1 -a queue -a requeue -a issue -a complete \\
    >$OUT/blktrace 2>&1 &
tracer=$!
sleep 2
sh -e /run/load >/dev/null
kill -INT $tracer
wait $tracer
"""

LINE = re.compile(
    r"\s*\d+,\d+\s+(?P<cpu>\d+)\s+\d+\s+(?P<s>\d+)\.(?P<ns>\d{9})\s+\d+\s+(?P<action>[QDC])\s+"
    r"(?P<rwbs>\w+)\s+(?P<sector>\d+) \+ (?P<sectors>\d+)"
)


def _blkparse(*arguments: str, cwd: Path, stdin: Path | None = None) -> str:
    with (stdin or Path("/dev/null")).open("rb") as stream:
        return subprocess.run(
            ["blkparse", *arguments],
            cwd=cwd,
            stdin=stream,
            capture_output=True,
            check=True,
            text=True,
        ).stdout


def _ios(text: str) -> tuple[list[tuple[int, int, bool, int]], set[int]]:
    """Return I/Os of blkparse's lines as (sector, sectors, is_write, latency_ns), and the CPUs."""
    begun: dict[tuple[int, int, bool], int] = {}
    ios, cpus = [], set()
    for line in text.splitlines():
        match = LINE.match(line)
        if not match:
            continue
        cpus.add(int(match["cpu"]))
        now = int(match["s"]) * 10**9 + int(match["ns"])
        io = (int(match["sector"]), int(match["sectors"]), "W" in match["rwbs"])
        if match["action"] == "Q":
            assert io not in begun
            begun[io] = now
        elif match["action"] == "D":
            # Until its issue the I/O was at the host, not at the drive.
            assert io in begun
            begun[io] = now
        else:
            ios.append((*io, now - begun.pop(io)))
    assert not begun
    return sorted(ios), cpus


def _ours(reader: BlktraceReader) -> list[tuple[int, int, bool, int]]:
    rows = []
    for chunk in reader:
        assert np.all(chunk.flags & blktrace.COMPLETED)
        rows += zip(
            chunk.sector.tolist(),
            (chunk.size_bytes // 512).tolist(),
            chunk.is_write.tolist(),
            chunk.latency_ns.tolist(),
            strict=True,
        )
    return sorted(rows)


def test_two_cpus_are_merged_and_agree_with_blkparse(boot_qemu, tmp_path: Path) -> None:
    result = boot_qemu(SCRIPT, n_drives=2)
    assert "dropped" not in result.stderr
    assert sorted(path.name for path in (tmp_path / "merged").iterdir()) == [
        "nvme0n1.blk",
        "nvme1n1.blk",
    ]

    merged = tmp_path / "merged" / "nvme0n1.blk"
    reader = BlktraceReader(merged)
    ios = _ours(reader)
    text = _blkparse("-i", "-", cwd=tmp_path, stdin=merged)
    theirs, cpus = _ios(text)
    assert cpus == {0, 1}
    assert ios == theirs
    assert len(ios) == 2 * IOS_PER_JOB
    for name, what in (("queued", "Queued"), ("completed", "Completed")):
        counts = re.findall(rf"(?:Reads|Writes) {what}:\s+(\d+)", text.rsplit("Total", 1)[-1])
        assert reader.stats[name] == sum(map(int, counts)) == 2 * IOS_PER_JOB
    for fault in ("lost_events", "missing_completions", "unmatched_completions", "out_of_order"):
        assert reader.stats[fault] == 0

    # The file per CPU, read together and merged by us, are the same trace.
    raw = tmp_path / "raw" / "nvme0n1"
    assert len(blktrace.trace_files(raw)) == 2
    per_cpu = BlktraceReader(raw)
    ios = _ours(per_cpu)
    theirs, cpus = _ios(_blkparse("-i", "nvme0n1", cwd=tmp_path / "raw"))
    assert cpus == {0, 1} and ios == theirs and len(ios) == 2 * IOS_PER_JOB
    events = blktrace.merge(raw, tmp_path / "raw.blk")
    again = BlktraceReader(tmp_path / "raw.blk")
    assert _ours(again) == ios
    assert events == again.stats["events"] == per_cpu.stats["events"] - per_cpu.stats["notes"]
    assert again.stats["lost_events"] == again.stats["out_of_order"] == 0

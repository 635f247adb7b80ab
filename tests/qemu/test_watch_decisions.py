# SPDX-License-Identifier: MIT
"""`linnapp watch` on a kernel with LinnOS records refused reads and the mirror md reads from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from networks_by_hand import network

from linnapp.insight.query import query

pytestmark = pytest.mark.qemu

SCRIPT = """
. $TESTS/lib.sh
for k in 0 1; do
    enforce nvme${k}n1 $OUT/model$k.linnos
    load /dev/nvme${k}n1 --fill --count 1 >/dev/null
    linnapp watch -o $OUT/seen --session nvme$k --path /dev/nvme${k}n1 -- \\
        python3 $TESTS/hinted_load.py /dev/nvme${k}n1 --count 400 >$OUT/summary$k
done

mdadm --create /dev/md0 --run --metadata=1.2 --assume-clean --level=1 --raid-devices=2 \\
    /dev/nvme1n1 /dev/nvme2n1 2>/dev/null
load /dev/md0 --plain --fill --count 1 >/dev/null
linnapp watch -o $OUT/seen --session md -- \\
    python3 $TESTS/hinted_load.py /dev/md0 --plain --workers 2 --count 400 >$OUT/summary2
mdadm --stop /dev/md0 2>/dev/null
"""


def select(folder: Path, sql: str) -> list[dict[str, Any]]:
    columns, rows = query(folder / "seen", sql)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def test_watch_records_decisions_and_drives(boot_qemu, tmp_path: Path) -> None:
    # All reads of the first drive are slow, all of the second fast.
    for k in range(2):
        network(bias=(k, 1 - k)).save(tmp_path / f"model{k}.linnos")
    result = boot_qemu(SCRIPT)

    for k in range(2):
        summary = result.text(f"summary{k}")
        did = json.loads(summary.splitlines()[0])
        decided = {
            row["decision"]: row
            for row in select(
                tmp_path,
                f"""select decision, count(*) as n, bool_and(failed) as all_failed,
                bool_or(failed) as some_failed, count(drive_ns) as served,
                bool_and(call like 'preadv%') as is_read
                from ios where session = 'nvme{k}' group by decision""",
            )
        }
        admitted = sum(decided[each]["n"] for each in ("admitted", "probe") if each in decided)
        assert admitted == did["admitted"], (did, decided)
        assert ("revoked" in decided) == (k == 0) and "kept" not in decided
        if k == 0:
            revoked = decided["revoked"]
            assert 0 < did["revoked"] == revoked["n"]
            assert decided["probe"]["n"] > 0 and "admitted" not in decided
            # They ended before they reached a driver.
            assert revoked["all_failed"] and not revoked["served"] and revoked["is_read"]
            assert f"LinnOS decisions: {revoked['n']} revoked, " in summary
        for each in set(decided) - {"revoked", None}:
            assert not decided[each]["some_failed"] and decided[each]["is_read"]
            assert decided[each]["served"] > 0.9 * decided[each]["n"]

    tops = select(
        tmp_path,
        """select device, drive, count(*) as n, count(drive_ns) as served from ios
        where session = 'md' and not below and device = 'md0' and op = 'read' and call is not null
        group by all order by drive""",
    )
    assert [(row["device"], row["drive"]) for row in tops] == [
        ("md0", "nvme1n1"),
        ("md0", "nvme2n1"),
    ]
    assert sum(row["n"] for row in tops) >= 800 and not any(row["served"] for row in tops)
    below = select(
        tmp_path,
        """select device, drive, count(*) as n, count(drive_ns) as served from ios
        where session = 'md' and below and op = 'read' and call is not null
        group by all order by drive""",
    )
    assert [row["device"] for row in below] == ["nvme1n1", "nvme2n1"]
    assert [row["drive"] for row in below] == ["nvme1n1", "nvme2n1"]
    assert [row["n"] for row in below] == [row["n"] for row in tops]
    assert all(row["served"] > 0.9 * row["n"] for row in below)

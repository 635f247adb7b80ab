# SPDX-License-Identifier: MIT
"""liblinnos-gluster on GlusterFS as Debian has it: what it reads, and from whose drive."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from test_cluster import ran, with_engine

from linnapp.lab.cluster import AGENT, CLUSTER_KERNEL

ROOT = Path(__file__).parents[2]
LIBRARIES = [ROOT / "build" / name / f"liblinnos-{name}.a" for name in ("gluster", "cluster")]
READS, SLOW, GONE = 600, 1, 2

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not CLUSTER_KERNEL.exists(), reason="no kernel for it: `make kernel-cluster`"
    ),
    pytest.mark.skipif(not AGENT.exists(), reason="no linnos-agent: `make agent`"),
    pytest.mark.skipif(
        not all(path.exists() for path in LIBRARIES), reason="no liblinnos-gluster: `make gluster`"
    ),
    with_engine("gluster"),
]


def built(program: Path, source: Path) -> None:
    headers = ("cluster/gluster", "cluster/client", "liblinnos")
    subprocess.run(
        ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", *(f"-I{ROOT / name}" for name in headers),
         "-o", program, source, *LIBRARIES, "-lgfapi", "-lm", "-pthread"],
        check=True,
    )  # fmt: skip


def test_reads_leave_a_slow_drive_and_are_right_when_a_brick_is_gone(tmp_path: Path) -> None:
    built(tmp_path / "reads", ROOT / "tests" / "unit" / "gluster_client" / "reads.c")
    driver = Path(__file__).with_name("gluster_reads.py")
    said = ran(tmp_path, f'{sys.executable} {driver} "$LINNOS_OUT"/reads')
    found = {one.pop("what"): one for one in map(json.loads, said.splitlines())}
    for one in found.values():
        assert (one["right"], one["wrong"], one["failed"]) == (READS, 0, 0)
    calm, slow, gone, fresh, written = (
        found[what] for what in ("calm", "slow", "gone", "fresh", "written")
    )
    # without a reason nobody leaves where GlusterFS itself would read
    assert calm["moved"] < 0.05 * READS and calm["disk_reads"][SLOW] > 0.9 * READS
    assert slow["disk_reads"][SLOW] < 0.1 * READS and slow["moved"] > 0.9 * READS
    assert gone["disk_reads"][GONE] == 0 and not calm["fresh"] and not slow["fresh"]
    # the ordinary handle's, for so long
    assert fresh["fresh"] > 0.9 * READS and fresh["disk_reads"][SLOW] > 0.9 * READS
    assert written["looked"] == 1 and written["disk_reads"][SLOW] < 0.1 * READS
    assert written["answers"] > 0

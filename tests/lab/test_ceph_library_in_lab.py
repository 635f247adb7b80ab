# SPDX-License-Identifier: MIT
"""liblinnos-ceph on a real Ceph from Debian: what it reads and from which drive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from linnapp.lab.cluster import AGENT, CLUSTER_KERNEL, installed_by, missing

ROOT = Path(__file__).parents[2]
LIBRARIES = [ROOT / "build" / "ceph", ROOT / "build" / "cluster"]
ABSENT = missing("ceph", f"{os.environ['PATH']}:/usr/sbin:/usr/bin:/sbin:/bin")
READS, SLOW = 600, 1

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not CLUSTER_KERNEL.exists(), reason="no kernel for it: `make kernel-cluster`"
    ),
    pytest.mark.skipif(not AGENT.exists(), reason="no linnos-agent: `make agent`"),
    pytest.mark.skipif(bool(ABSENT), reason=f"no {', '.join(ABSENT)}: `{installed_by('ceph')}`"),
    pytest.mark.skipif(
        not (LIBRARIES[0] / "liblinnos-ceph.so.1").exists(), reason="no liblinnos-ceph: `make ceph`"
    ),
]


def in_lab(*command: object, out: Path) -> str:
    """Return the output of a command on the client of a cluster with Ceph."""
    done = subprocess.run(
        [sys.executable, "-m", "linnapp", "lab", "cluster", "--engine", "ceph", "--out", out, "--",
         "env", f"LD_LIBRARY_PATH={':'.join(map(str, LIBRARIES))}", *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_example_program_reads_its_own_writes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "cluster.md").read_text().split("\n## Ceph\n")[1]
    (tmp_path / "p.c").write_text(page.split("```c\n")[1].split("```")[0])
    headers = ("cluster/ceph", "cluster/client", "liblinnos/include")
    subprocess.run(
        ["gcc", "-Wall", "-Wextra", "-Werror", *(f"-I{ROOT / name}" for name in headers),
         "-o", tmp_path / "p", tmp_path / "p.c", *(f"-L{path}" for path in LIBRARIES),
         "-llinnos-ceph", "-llinnos-cluster", "-lrados"],
        check=True,
    )  # fmt: skip
    assert in_lab(tmp_path / "p", out=tmp_path) == "hello\n"


def test_reads_leave_a_slow_drive_except_for_fresh_objects(tmp_path: Path) -> None:
    output = in_lab(sys.executable, Path(__file__).with_name("ceph_reads.py"), out=tmp_path)
    found = {counts.pop("what"): counts for counts in map(json.loads, output.splitlines())}
    agents = found.pop("agents")
    assert 0.9 * agents["queries"] <= agents["answers"] > 100
    fresh, old = (found.pop(f"{age} replicas") for age in ("fresh", "old"))
    assert 0 < fresh["bounced"] <= sum(fresh["asked"])
    assert sum(fresh["disk_reads"]) >= sum(fresh["asked"]) and not old["bounced"]
    # each queried OSD serves its reads, and no others
    for asked, served in zip(old["asked"], old["disk_reads"], strict=True):
        assert 0 < asked <= served < asked + 20
    for counts in found.values():
        assert counts["reads"] == READS and not counts["retried"] and not counts["misplaced"]
        # each is a read of a drive, except for copies and the few reads of BlueStore itself
        assert READS <= sum(counts["disk_reads"]) <= 1.05 * READS
    fresh, calm, slow = (found[what] for what in ("fresh", "calm", "slow"))
    # replicas are not asked for reads that they do not serve
    assert fresh["fresh"] > 0.8 * READS and not fresh["bounced"]
    # without a reason, reads stay at their primary
    assert not calm["fresh"] and calm["replica_reads"] < 0.05 * READS
    assert calm["disk_reads"][SLOW] > 0.2 * READS
    assert slow["replica_reads"] > 0.2 * READS
    assert slow["disk_reads"][SLOW] < 0.1 * READS
    assert slow["bounced"] < 0.1 * READS

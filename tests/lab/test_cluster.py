# SPDX-License-Identifier: MIT
"""`linnapp lab cluster`: nodes that the network is between, and GlusterFS on their drives."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from linnapp.lab.cluster import AGENT, CLUSTER_KERNEL, INSTALLED_BY

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not CLUSTER_KERNEL.exists(), reason="no kernel for it: `make kernel-cluster`"
    ),
    pytest.mark.skipif(not AGENT.exists(), reason="no linnos-agent: `make agent`"),
]
with_gluster = pytest.mark.skipif(
    shutil.which("glusterfsd", path="/usr/sbin:/usr/bin") is None,
    reason=f"no GlusterFS: `{INSTALLED_BY}`",
)


def ran(out: Path, script: str, *options: str) -> str:
    """What a script says in the cluster's client."""
    done = subprocess.run(
        [sys.executable, "-m", "linnapp", "lab", "cluster", "--out", out, "--size-mb", "256",
         *options, "--", "sh", "-euc", script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


#: Round trips of linnos-agent's question, in ns of the client's clock.
ROUND_TRIPS = """
import os, socket, struct, time
for k, address in enumerate(os.environ["LINNOS_NODES"].split(",")):
    node = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    node.connect((address, 7316))
    taken = []
    for cookie in range(200):
        begun = time.monotonic_ns()
        node.send(struct.pack("<4sBBHQH6xII32x", b"LNAG", 1, 1, 1, cookie, 0, 4096, 0))
        assert struct.unpack_from("<Q", node.recv(200), 8)[0] == cookie
        taken.append(time.monotonic_ns() - begun)
    print(k, min(taken[10:]), max(taken[10:]))
"""


def test_the_network_takes_its_time_and_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(ROUND_TRIPS)
    options = ("--engine", "none", "--nodes", "2", "--one-way-us", "200")
    first, again = (ran(tmp_path, 'python3 "$LINNOS_OUT"/ask.py', *options) for _ in range(2))
    assert first == again
    trips = [list(map(int, line.split())) for line in first.splitlines()]
    assert [node for node, _, _ in trips] == [0, 1]
    for _, least_ns, most_ns in trips:
        # twice 200 us, and what two programs and the kernel take
        assert 400_000 <= least_ns <= most_ns < 410_000


@with_gluster
def test_each_node_has_the_bytes_and_serves_what_is_read_from_it(tmp_path: Path) -> None:
    read = " ".join(
        (
            "dd if=$place/file of=/dev/null bs=4096 count=100 iflag=direct 2>/dev/null",
            "&& cmp /run/file $place/file",
        )
    )
    script = f"""
    reads() {{ cat /sys/block/flash?/flash?p1/stat | awk '{{ printf "%d ", $1 }}'; }}
    mount_node() {{
        place=/run/from$1
        mkdir $place
        glusterfs -f $LINNOS_CLUSTER/read-node$1.vol -l /run/from$1.log \\
            --direct-io-mode=enable --attribute-timeout=60 --entry-timeout=60 $place
        sleep 1
    }}
    head -c 1M /dev/urandom >/run/file
    mount_node 0
    cp /run/file $place/file
    sync
    for k in 0 1 2; do cmp /run/file $LINNOS_CLUSTER/node$k/brick/file; done
    mount_node 2
    sync; echo 3 >/proc/sys/vm/drop_caches
    before=$(reads)
    {read}
    echo $before
    reads
    """
    before, after = (list(map(int, line.split())) for line in ran(tmp_path, script).splitlines())
    more = [late - early for early, late in zip(before, after, strict=True)]
    # the others are asked what they know of the file, whose bytes node 2 gives
    assert more[2] >= 100 > 10 > max(more[:2])

# SPDX-License-Identifier: MIT
"""`linnapp lab cluster`: nodes connected by a network, with a storage engine on their drives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from linnapp.lab.array import Array
from linnapp.lab.cluster import AGENT, CLUSTER_KERNEL, Cluster, installed_by, missing

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        not CLUSTER_KERNEL.exists(), reason="no kernel for it: `make kernel-cluster`"
    ),
    pytest.mark.skipif(not AGENT.exists(), reason="no linnos-agent: `make agent`"),
]


def with_engine(engine: str) -> pytest.MarkDecorator:
    absent = missing(engine, f"{os.environ['PATH']}:/usr/sbin:/usr/bin:/sbin:/bin")
    return pytest.mark.skipif(
        bool(absent), reason=f"no {', '.join(absent)}: `{installed_by(engine)}`"
    )


def run_in_cluster(out: Path, script: str, *options: str) -> str:
    """Return the output of a script on the cluster's client."""
    done = subprocess.run(
        [sys.executable, "-m", "linnapp", "lab", "cluster", "--out", out, "--size-mb", "256",
         *options, "--", "sh", "-euc", script],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


#: Round trips of a query to linnos-agent, in ns of the client's clock.
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


def test_network_delay_is_constant_and_repeatable(tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(ROUND_TRIPS)
    options = ("--engine", "none", "--nodes", "2", "--one-way-us", "200")
    first, again = (
        run_in_cluster(tmp_path, 'python3 "$LINNOS_OUT"/ask.py', *options) for _ in range(2)
    )
    assert first == again
    trips = [list(map(int, line.split())) for line in first.splitlines()]
    assert [node for node, _, _ in trips] == [0, 1]
    for _, least_ns, most_ns in trips:
        # twice 200 us, plus the time of two programs and the kernel
        assert 400_000 <= least_ns <= most_ns < 410_000


#: Shell functions for GlusterFS: `reads` prints the reads of each drive, and `mount_node N` mounts
#: the volume that reads from node N.
READS_AND_MOUNTS = """
    reads() { cat /sys/block/flash?/flash?p1/stat | awk '{ printf "%d ", $1 }'; }
    mount_node() {
        place=/run/from$1
        mkdir $place
        glusterfs -f $LINNOS_CLUSTER/read-node$1.vol -l /run/from$1.log \\
            --direct-io-mode=enable --attribute-timeout=60 --entry-timeout=60 $place
        sleep 1
    }
    head -c 1M /dev/urandom >/run/file
    mount_node 0
    cp /run/file $place/file
    sync
"""


@with_engine("gluster")
def test_each_node_stores_the_data_and_serves_its_reads(tmp_path: Path) -> None:
    read = " ".join(
        (
            "dd if=$place/file of=/dev/null bs=4096 count=100 iflag=direct 2>/dev/null",
            "&& cmp /run/file $place/file",
        )
    )
    script = f"""{READS_AND_MOUNTS}
    for k in 0 1 2; do cmp /run/file $LINNOS_CLUSTER/node$k/brick/file; done
    mount_node 2
    sync; echo 3 >/proc/sys/vm/drop_caches
    before=$(reads)
    {read}
    echo $before
    reads
    """
    before, after = (
        list(map(int, line.split())) for line in run_in_cluster(tmp_path, script).splitlines()
    )
    more = [late - early for early, late in zip(before, after, strict=True)]
    # the others answer metadata queries about the file; node 2 serves its data
    assert more[2] >= 100 > 10 > max(more[:2])


@with_engine("gluster")
def test_other_nodes_serve_reads_while_a_node_is_gone(tmp_path: Path) -> None:
    killed, back = Cluster(Array(3), "gluster").kill_node(0)
    script = f"""{READS_AND_MOUNTS}
    read_it() {{
        echo 3 >/proc/sys/vm/drop_caches
        reads
        dd if=$place/file bs=4096 iflag=direct 2>/dev/null | cmp /run/file
        reads
        echo
    }}
    read_it
    {killed}
    read_it
    {back}
    # a client looks for it every three seconds
    sleep 8
    read_it
    """
    for serving, line in zip(
        (True, False, True), run_in_cluster(tmp_path, script).splitlines(), strict=True
    ):
        before, after = np.reshape([int(word) for word in line.split()], (2, 3))
        more = after - before
        assert (more[0] >= 256) == serving and more.sum() >= 256, line


#: Reads from Ceph with a handle for each node, and counts the reads of the nodes' drives: directly
#: after the objects were written, and again when these writes are long past.
LOCALIZED = """
import ctypes, os, time

LOCALIZE_READS, OBJECTS, READS, BYTES = 2, 64, 100, 4096
rados = ctypes.CDLL("librados.so.2")
NEW = ctypes.c_void_p
rados.rados_create_read_op.restype = NEW

def check(status):
    assert status >= 0, os.strerror(-status)

def opened(place):
    handle, pool = NEW(), NEW()
    check(rados.rados_create(ctypes.byref(handle), None))
    check(rados.rados_conf_read_file(handle, None))
    check(rados.rados_conf_set(handle, b"crush_location", place.encode()))
    check(rados.rados_connect(handle))
    check(rados.rados_ioctx_create(handle, b"data", ctypes.byref(pool)))
    return pool

def disk_reads():
    counters = (f"/sys/class/block/flash{k}p1/stat" for k in range(3))
    return [int(open(counter).read().split()[0]) for counter in counters]

def content(name):
    return name.ljust(8).encode() * (BYTES // 8)

def write(pool, prefix):
    for k in range(OBJECTS):
        name = f"{prefix}{k}"
        check(rados.rados_write_full(pool, name.encode(), content(name), BYTES))

def read(pool, name):
    data, status = ctypes.create_string_buffer(BYTES), ctypes.c_int()
    n, op = ctypes.c_size_t(), NEW(rados.rados_create_read_op())
    rados.rados_read_op_read(
        op, ctypes.c_uint64(0), ctypes.c_size_t(BYTES), data, ctypes.byref(n), ctypes.byref(status)
    )
    check(rados.rados_read_op_operate(op, pool, name.encode(), LOCALIZE_READS))
    rados.rados_release_read_op(op)
    assert data.raw == content(name), name

pools = [opened(place) for place in os.environ["LINNOS_CRUSH_LOCATIONS"].split(";")]
write(pools[0], "a")
for settled in (False, True):
    if settled:
        # an object that groups have been written to since is read from any of its replicas
        for prefix in "bcd":
            write(pools[0], prefix)
            time.sleep(5)
    for pool in pools:
        before = disk_reads()
        for k in range(READS):
            read(pool, f"a{k % OBJECTS}")
        print(*(after - early for after, early in zip(disk_reads(), before)))
"""


@with_engine("ceph")
def test_ceph_reads_from_the_node_nearest_to_the_handle(tmp_path: Path) -> None:
    (tmp_path / "read.py").write_text(LOCALIZED)
    options = ("--engine", "ceph", "--size-mb", "1024")
    out = run_in_cluster(tmp_path, f'{sys.executable} "$LINNOS_OUT"/read.py', *options)
    reads = [list(map(int, line.split())) for line in out.splitlines()]
    assert len(reads) == 6
    # fresh objects: the primary serves reads that a replica does not serve yet
    assert any(fresh[node] < 100 for node, fresh in enumerate(reads[:3]))
    for node, settled in enumerate(reads[3:]):
        # BlueStore has a few reads of its own
        assert settled[node] >= 100 and sum(settled) <= 110

# SPDX-License-Identifier: MIT
"""In the cluster's client: reads by liblinnos-ceph while a drive turns slow, and what they did."""

import ctypes
import json
import threading
import time
from pathlib import Path

OBJECTS, BYTES, READS, SLOW = 64, 4096, 600, 1
COUNTERS = (
    *("reads", "unknown", "fresh", "replica_reads", "bounced", "retried", "asked_monitors"),
    *("misplaced", "handles"),
)

cluster = ctypes.CDLL("liblinnos-cluster.so.1")
ceph, rados = ctypes.CDLL("liblinnos-ceph.so.1"), ctypes.CDLL("librados.so.2")
ceph.linnos_ceph_error.restype = ctypes.c_char_p
ceph.linnos_ceph_pool.restype = ctypes.c_void_p
ceph.linnos_ceph_read.restype = ctypes.c_ssize_t


class Options(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t),
        *((name, ctypes.c_char_p) for name in ("configuration", "user")),
        ("choosing", ctypes.c_void_p),
        *((name, ctypes.c_uint32) for name in ("agent_port", "fresh_ms")),
    )


class Stats(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in COUNTERS)


def check(status):
    assert status >= 0, ceph.linnos_ceph_error()
    return status


pool = ctypes.c_void_p()
options = Options(ctypes.sizeof(Options), None, None, None, 7316, 5000)
check(ceph.linnos_ceph_open(ctypes.byref(pool), b"data", ctypes.byref(options)))
librados = ctypes.c_void_p(ceph.linnos_ceph_pool(pool))


def content(name):
    return name.ljust(8).encode() * (BYTES // 8)


def write(prefix):
    for k in range(OBJECTS):
        name = f"{prefix}{k}"
        check(rados.rados_write_full(librados, name.encode(), content(name), BYTES))
        ceph.linnos_ceph_wrote(pool, name.encode())


def disk_reads():
    counters = (Path(f"/sys/class/block/flash{k}p1/stat") for k in range(3))
    return [int(counter.read_text().split()[0]) for counter in counters]


def read(what):
    before, n, data = disk_reads(), stats(), ctypes.create_string_buffer(BYTES)
    for k in range(READS):
        name = f"a{k % OBJECTS}"
        size, offset = ctypes.c_size_t(BYTES), ctypes.c_uint64(0)
        check(ceph.linnos_ceph_read(pool, name.encode(), data, size, offset))
        assert data.raw == content(name), name
        time.sleep(0.0005)
    after = {name: value - n[name] for name, value in stats().items()}
    disks = [late - early for late, early in zip(disk_reads(), before, strict=True)]
    print(json.dumps({"what": what, "disk_reads": disks, **after}))


DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


def read_replicas(what):
    """Each object from each that has it but the primary, by its number."""
    osds, ended, asked = (ctypes.c_int * 16)(), threading.Event(), [0, 0, 0]
    data, before, n = ctypes.create_string_buffer(BYTES), disk_reads(), stats()["bounced"]
    done = DONE(lambda of, n_bytes, osd: ended.set())
    size, offset = ctypes.c_size_t(BYTES), ctypes.c_uint64(0)
    for k in range(OBJECTS):
        name = f"a{k}".encode()
        while not (n_osds := ceph.linnos_ceph_osds(pool, name, osds)):
            time.sleep(0.001)
        for osd in osds[1:n_osds]:
            ended.clear()
            check(ceph.linnos_ceph_aio_read_from(pool, osd, name, data, size, offset, done, None))
            assert ended.wait(10) and data.raw == content(name.decode())
            asked[osd] += 1
    disks = [late - early for late, early in zip(disk_reads(), before, strict=True)]
    bounced = stats()["bounced"] - n
    print(json.dumps({"what": what, "asked": asked, "disk_reads": disks, "bounced": bounced}))


def stats():
    counted = Stats()
    ceph.linnos_ceph_get_stats(pool, ctypes.byref(counted), ctypes.sizeof(counted))
    return {name: getattr(counted, name) for name in COUNTERS}


write("a")
read_replicas("fresh replicas")
read("fresh")
for prefix in "bcd":
    write(prefix)
    time.sleep(5)
read_replicas("old replicas")
read("calm")
for knob, value in {"pattern": "all", "op": "read", "latency_us": 2000, "arm": 1}.items():
    Path(f"/sys/kernel/config/flashsim/flash{SLOW}/inject/{knob}").write_text(str(value))
read("slow")
# of struct linnos_cluster_stats
counted = (ctypes.c_uint64 * 15)()
ceph.linnos_ceph_cluster.restype = ctypes.c_void_p
cluster.linnos_cluster_get_stats(
    ctypes.c_void_p(ceph.linnos_ceph_cluster(pool)),
    counted,
    ctypes.c_size_t(ctypes.sizeof(counted)),
)
print(json.dumps({"what": "agents", "questions": counted[13], "answers": counted[14]}))
ceph.linnos_ceph_close(pool)

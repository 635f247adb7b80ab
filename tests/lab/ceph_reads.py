# SPDX-License-Identifier: MIT
"""In the cluster's client: read with linnapp.ceph while a drive becomes slow, and report it."""

import ctypes
import dataclasses
import json
import threading
import time
from pathlib import Path

from linnapp.ceph import AGENT_PORT, Pool, _library
from linnapp.native import declared

OBJECTS, BYTES, READS, SLOW = 64, 4096, 600, 1

DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
text, size, handle = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p

pool = Pool("data", agent_port=AGENT_PORT, fresh_ms=5000)
# fields that Python does not use
ceph = declared(
    _library(),
    linnos_ceph_pool=(handle, handle),
    linnos_ceph_aio_read_from=(
        *(ctypes.c_int, handle, ctypes.c_int, text, text, size, ctypes.c_uint64, DONE, handle),
    ),
)
rados = declared(
    ctypes.CDLL("librados.so.2"), rados_write_full=(ctypes.c_int, handle, text, text, size)
)


def content(name):
    return name.ljust(8).encode() * (BYTES // 8)


def write(prefix):
    librados = ceph.linnos_ceph_pool(pool._handle)
    for k in range(OBJECTS):
        name = f"{prefix}{k}"
        assert not rados.rados_write_full(librados, name.encode(), content(name), BYTES)
        pool.wrote(name)


def disk_reads():
    counters = (Path(f"/sys/class/block/flash{k}p1/stat") for k in range(3))
    return [int(counter.read_text().split()[0]) for counter in counters]


def read(what):
    before, n = disk_reads(), stats()
    for k in range(READS):
        name = f"a{k % OBJECTS}"
        assert pool.read(name, BYTES) == content(name), name
        time.sleep(0.0005)
    after = {name: value - n[name] for name, value in stats().items()}
    disks = [late - early for late, early in zip(disk_reads(), before, strict=True)]
    print(json.dumps({"what": what, "disk_reads": disks, **after}))


def read_replicas(what):
    """Read each object, by its number, from each replica except the primary."""
    ended, asked = threading.Event(), [0, 0, 0]
    data, before, n = ctypes.create_string_buffer(BYTES), disk_reads(), stats()["bounced"]
    done = DONE(lambda of, n_bytes, osd: ended.set())
    for k in range(OBJECTS):
        name = f"a{k}"
        while not (osds := pool.osds(name)):
            time.sleep(0.001)
        for osd in osds[1:]:
            ended.clear()
            assert not ceph.linnos_ceph_aio_read_from(
                pool._handle, osd, name.encode(), data, BYTES, 0, done, None
            )
            assert ended.wait(10) and data.raw == content(name)
            asked[osd] += 1
    disks = [late - early for late, early in zip(disk_reads(), before, strict=True)]
    bounced = stats()["bounced"] - n
    print(json.dumps({"what": what, "asked": asked, "disk_reads": disks, "bounced": bounced}))


def stats():
    return dataclasses.asdict(pool.stats())


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
told = pool.client_stats()
print(json.dumps({"what": "agents", "questions": told.questions, "answers": told.answers}))
pool.close()

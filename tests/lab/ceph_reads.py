# SPDX-License-Identifier: MIT
"""Read in the cluster's client with liblinnos-ceph while a drive becomes slow, and report it."""

import json
import sys
import threading
import time
from pathlib import Path

from cffi import FFI

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from ceph_pool import AGENT_PORT, Pool, library

OBJECTS, BYTES, READS, SLOW = 64, 4096, 600, 1

pool = Pool("data", agent_port=AGENT_PORT, fresh_ms=5000)
ffi, ceph = library()
librados = FFI()
librados.cdef("int rados_write_full(void *pool, const char *name, const char *data, size_t size);")
rados = librados.dlopen("librados.so.2")


def content(name):
    return name.ljust(8).encode() * (BYTES // 8)


def write(prefix):
    handle = ceph.linnos_ceph_pool(pool.handle)
    for k in range(OBJECTS):
        name = f"{prefix}{k}"
        assert not rados.rados_write_full(handle, name.encode(), content(name), BYTES)
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
    data, before, n = ffi.new("char[]", BYTES), disk_reads(), stats()["bounced"]
    done = ffi.callback("linnos_ceph_done", lambda read, n_bytes, osd: ended.set())
    for k in range(OBJECTS):
        name = f"a{k}"
        for osd in pool.osds(name)[1:]:
            ended.clear()
            assert not ceph.linnos_ceph_aio_read_from(
                pool.handle, osd, name.encode(), data, BYTES, 0, done, ffi.NULL
            )
            assert ended.wait(10) and bytes(ffi.buffer(data)) == content(name)
            asked[osd] += 1
    disks = [late - early for late, early in zip(disk_reads(), before, strict=True)]
    bounced = stats()["bounced"] - n
    print(json.dumps({"what": what, "asked": asked, "disk_reads": disks, "bounced": bounced}))


def stats():
    return vars(pool.stats())


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
client = pool.client_stats()
print(json.dumps({"what": "agents", "queries": client.queries, "answers": client.answers}))
pool.close()

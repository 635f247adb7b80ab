# SPDX-License-Identifier: MIT
"""In the cluster's client: reads by liblinnos-gluster while a drive turns slow and a brick goes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SLOW, GONE, READS, FRESH_MS, AGENT_PORT = 1, 2, 600, 3000, 7316
CHOOSE = 1

folder = Path(os.environ["LINNOS_CLUSTER"])
# GlusterFS itself reads from the one that will be slow
volfiles = (folder / f"read-node{SLOW}.vol", folder / "read-hash-mode1.vol")
client = subprocess.Popen(
    [sys.argv[1], *volfiles, str(CHOOSE), str(FRESH_MS), str(AGENT_PORT)],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
)  # fmt: skip


def line():
    said = client.stdout.readline().strip()
    assert said, "the client has ended"
    return said


def says(command):
    client.stdin.write(f"{command}\n")
    return line()


def disk_reads():
    counters = (Path(f"/sys/class/block/flash{k}p1/stat") for k in range(3))
    return [int(counter.read_text().split()[0]) for counter in counters]


def read(what):
    before = disk_reads()
    right, wrong, failed = map(int, says(f"r {READS}").split())
    disks = [late - early for late, early in zip(disk_reads(), before, strict=True)]
    reads, fresh, retried, looked, moved, answers, *_ = map(int, says("s").split())
    print(json.dumps({
        "what": what, "right": right, "wrong": wrong, "failed": failed, "disk_reads": disks,
        "reads": reads, "fresh": fresh, "retried": retried, "looked": looked, "moved": moved,
        "answers": answers,
    }))  # fmt: skip


assert line() == "open", "no volume"
# a read of what was not synced yet would have it written first
os.sync()
read("calm")
for knob, value in {"pattern": "all", "op": "read", "latency_us": 2000, "arm": 1}.items():
    Path(f"/sys/kernel/config/flashsim/flash{SLOW}/inject/{knob}").write_text(str(value))
read("slow")
os.kill(int((folder / f"server{GONE}.pid").read_text()), signal.SIGKILL)
read("gone")
assert says("w b") == "written"
read("fresh")
time.sleep(FRESH_MS / 1e3)
read("written")
# handles are not given back: that takes seconds
client.kill()

# SPDX-License-Identifier: MIT
"""`linnapp watch` on the kernels of Debian 12, 6.1 and 6.12: every variant loads and is right.

6.1 has no bpf_rdonly_cast(), so another program is used there, and its verifier accepts less than
later ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from debian import debian_kernel
from watched_calls import TIMES

from linnapp.insight.calls import COUNTS, PARTS
from linnapp.insight.query import query

pytestmark = pytest.mark.qemu

#: The options of each session.
SESSIONS = {
    "everything": "",
    "path": "--path /run/mnt",
    "raw": "--path /run/mnt --arguments raw",
    "detailed": "--arguments detailed",
    "some": "--call fsync --call rename --process python3",
}
#: Counts of missing records, which must be 0.
DROPPED = [
    name
    for name in COUNTS
    if not name.startswith("filtered_") and name not in ("other_ios", "unfinished_calls")
]
SCRIPT = """
python3 $TESTS/watch_variants.py >$OUT/loaded
mkfs.ext4 -q /dev/nvme0n1
mount /dev/nvme0n1 /run/mnt
watched() {
    session=$1
    shift
    linnapp watch -o $OUT/seen --session $session "$@" -- \\
        python3 -S -E $TESTS/watched_calls.py /run/mnt >$OUT/$session
    rm -r /run/mnt/after
}
"""


@pytest.mark.parametrize("kernel", ["kernel-debian-6.1", "kernel-debian"])
def test_each_kernel_loads_and_records(tmp_path: Path, kernel: str) -> None:
    script = SCRIPT + "\n".join(f"watched {name} {how}" for name, how in SESSIONS.items())
    debian_kernel(kernel, ours=False).boot(script, tmp_path)
    assert int((tmp_path / "loaded").read_text()) > 0

    for session, how in SESSIONS.items():
        found = {
            (call, path and path.removeprefix("/run/mnt/")): n
            for call, path, n in select(
                tmp_path,
                f"""select call, path, count(*) from calls
                where session = '{session}' and path like '/run/mnt/%' group by all""",
            )
        }
        wanted = {
            **{("rename", name): 1 for name in ("before", "after/thread", "after/child")},
            **{("fsync", f"after/{name}"): 1 for name in ("thread", "child")},
        }
        if session != "some":
            wanted |= {("mkdir", "before"): 1}
            for file in ("after/thread", "after/child"):
                wanted |= {("openat", file): 1, ("close", file): 1}
                wanted |= {("pwrite64", file): TIMES, ("pread64", file): TIMES}
        assert found == wanted, session

        [(sockets, others, without_arguments, adds_up, mkdir, ios)] = select(
            tmp_path,
            f"""select count(*) filter (kind = 'socket' and call in ('read', 'write')),
            count(*) filter (path is null or path not like '/run/mnt/%'),
            count(*) filter (arguments is null), bool_and({" + ".join(PARTS)} = duration_ns),
            max(arguments::varchar) filter (call = 'mkdir'),
            (select count(*) from ios where session = '{session}' and call = 'fsync')
            from calls where session = '{session}'""",
        )
        recording = json.loads((tmp_path / "seen" / session / "recording.json").read_text())
        assert not any(recording[name] for name in DROPPED), recording
        assert adds_up and ios > 0, session
        assert (without_arguments == 0) == ("--arguments" in how), session
        if "--path" in how or "--call" in how:
            assert sockets == others == 0, session
            assert recording["filtered_calls"] >= 4 * TIMES
        else:
            assert sockets == 4 * TIMES, session
            assert recording["filtered_calls"] == 0
        if session == "detailed":
            assert json.loads(mkdir) == {"mode": "0777"}


def select(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    _, rows = query(folder / "seen", sql)
    return [tuple(row) for row in rows]

# SPDX-License-Identifier: MIT
"""Three faults that DIO found in programs, reproduced by small programs and found by a query.

The programs are in watched_programs/, the queries in docs/queries/. One fault is also found in the
program that has it, Redis.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from test_watch import drive, select
from test_watch_hashes import xxh64

from linnapp.insight import watch as watching
from linnapp.insight.query import session_folder

__all__ = ["drive"]  # a fixture

PROGRAMS = Path(__file__).parent / "watched_programs"
QUERIES = Path(__file__).parents[2] / "docs" / "queries"
pytestmark = pytest.mark.usefixtures("can_watch")


def answer(seen: Path, query: str) -> list[dict[str, Any]]:
    """Return the answer to a query of the docs."""
    return select(seen, (QUERIES / f"{query}.sql").read_text())


def watched(tmp_path: Path, session: str | None, *command: object) -> Path:
    seen = tmp_path / "seen"
    folder = session_folder(seen, session) if session else seen
    done = watching.watch(folder, command=list(map(str, command)), session=session, hashes=True)
    assert not done.status
    assert not any(done.counts[name] for name in ("lost_calls", "lost_names", "files_left_out"))
    return seen


def python(program: str) -> list[object]:
    return [sys.executable, "-S", "-E", PROGRAMS / program]


def test_lines_that_a_log_shipper_never_reads_are_found(drive: Path, tmp_path: Path) -> None:
    query = "unread-log"
    seen = watched(tmp_path, "lossy", *python("log_shipper.py"), drive)
    # The file system gave the number of the old log to the new one; otherwise nothing can be lost.
    logs = select(
        seen,
        f"""select distinct inode, first_access_ns from calls
        where path = '{drive}/app.log' and call in ('read', 'write')""",
    )
    assert len({row["inode"] for row in logs}) == 1 and len(logs) == 2
    shipped = (drive / "shipped").read_bytes()
    assert b"first line" in shipped and b"second" not in shipped
    [lost] = answer(seen, query)
    assert (lost["session"], lost["path"]) == ("lossy", f"{drive}/app.log")
    assert (lost["reader"], lost["begins_at"], lost["bytes"]) == ("shipper", 26, 16)
    # The hashes prove it without the positions: it has not read the content that was lost.
    [unread] = answer(seen, "unread-content")
    assert (unread["reader"], unread["file_offset"], unread["bytes"]) == ("shipper", 0, 16)
    assert unread["content_hash"] == xxh64((drive / "app.log").read_bytes())

    for name in ("app.log", "positions", "shipped"):
        (drive / name).unlink()
    watched(tmp_path, "fixed", *python("log_shipper.py"), drive, "--fixed")
    assert b"second" in (drive / "shipped").read_bytes()
    for each in (query, "unread-content"):
        assert [row["session"] for row in answer(seen, each)] == ["lossy"]


#: Does the same as Java's Files.newOutputStream() and Lucene's IOUtils.fsync() together.
OPENED_TWICE = """
import os, sys
for _ in range(5):
    first = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
    os.write(first, b"x")
    again = os.open(sys.argv[1], os.O_WRONLY)
    os.fsync(again)
    os.close(again)
    os.close(first)
    os.close(os.open(sys.argv[1], os.O_WRONLY))
"""


def test_a_file_that_is_opened_again_before_it_is_closed_is_found(
    drive: Path, tmp_path: Path
) -> None:
    program = [sys.executable, "-S", "-E", "-c", OPENED_TWICE]
    seen = watched(tmp_path, None, *program, drive / "checked")
    [found] = [row for row in answer(seen, "opened-twice") if row["path"] == f"{drive}/checked"]
    assert found["opened_again"] == 5


def test_a_log_that_is_opened_for_each_line_is_found(drive: Path, tmp_path: Path) -> None:
    query = "reopened-log"
    seen = watched(tmp_path, "reopened", *python("reopened_log.py"), drive)
    [found] = answer(seen, query)
    assert (found["session"], found["path"]) == ("reopened", f"{drive}/server.log")
    assert (found["opens"], found["writes"], found["calls"]) == (300, 300, 5 * 300)
    assert found["bytes_a_write"] == 33

    (drive / "server.log").unlink()
    watched(tmp_path, "fixed", *python("reopened_log.py"), drive, "--fixed")
    assert [row["session"] for row in answer(seen, query)] == ["reopened"]
    [fixed] = select(
        seen,
        f"""select count(*) as calls, sum(result) filter (call = 'writev')::bigint as bytes
        from calls where session = 'fixed' and path = '{drive}/server.log'""",
    )
    assert (fixed["calls"], fixed["bytes"]) == (300 // 25 + 2, 300 * 33)


#: A server whose log has a line for each of its clients.
REDIS = """
redis-server --port 0 --unixsocket $1/socket --dir $1 --logfile $1/server.log --loglevel verbose \
    --save '' --appendonly no &
until redis-cli -s $1/socket ping; do sleep 0.05; done
for k in $(seq 30); do redis-cli -s $1/socket set key $k; done
redis-cli -s $1/socket shutdown nosave
wait
"""


@pytest.mark.skipif(
    not (shutil.which("redis-server") and shutil.which("redis-cli")),
    reason="Redis is not installed; packaging/apt/redis.txt has the packages",
)
def test_redis_opens_its_log_for_each_line(drive: Path, tmp_path: Path) -> None:
    seen = watched(tmp_path, "redis", "sh", "-c", REDIS, "sh", drive)
    [found] = answer(seen, "reopened-log")
    assert (found["session"], found["path"]) == ("redis", f"{drive}/server.log")
    lines = len((drive / "server.log").read_text().splitlines())
    # Redis checks at its start that it can open the log.
    assert (found["opens"], found["writes"]) == (lines + 1, lines) and lines > 30


def test_clients_that_wait_for_compactions_are_found(drive: Path, tmp_path: Path) -> None:
    seen = watched(tmp_path, "store", *python("compacting_store.py"), drive, 12_000)
    pauses = answer(seen, "pauses")
    assert len(pauses) == 5
    # Pauses also occur while all four clients wait for a CPU. Other threads then do less than
    # during a compaction, whose end clients await when there are four files of level 0.
    longest = pauses[0]
    assert "compact" in longest["names"] and longest["syncs"], pauses
    # Its files alone have 256 KiB each, which are read and written.
    assert longest["kib"] >= 2 * 2 * 256, pauses

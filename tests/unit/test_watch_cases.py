# SPDX-License-Identifier: MIT
"""Three faults that DIO found in programs, reproduced by small programs and found by a query.

The programs are in watched_programs/, the queries in docs/queries/.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_watch import asked, drive, kernel
from test_watch_hashes import xxh64

from linnapp.insight import watch as watching
from linnapp.insight.query import session_folder

__all__ = ["drive", "kernel"]  # fixtures

PROGRAMS = Path(__file__).parent / "watched_programs"
QUERIES = Path(__file__).parents[2] / "docs" / "queries"
pytestmark = pytest.mark.usefixtures("kernel")


def answer(seen: Path, query: str) -> list[dict[str, Any]]:
    """Return the answer to a query of the docs."""
    return asked(seen, (QUERIES / f"{query}.sql").read_text())


def watched(tmp_path: Path, session: str, *command: object) -> Path:
    seen = tmp_path / "seen"
    folder = session_folder(seen, session)
    done = watching.watch(folder, command=list(map(str, command)), session=session, hashes=True)
    assert not done.status
    assert not any(done.counts[name] for name in ("lost_calls", "lost_names", "files_left_out"))
    return seen


def python(program: str) -> list[object]:
    return [sys.executable, "-S", "-E", PROGRAMS / program]


def test_lines_that_a_log_shipper_never_reads_are_found(drive: Path, tmp_path: Path) -> None:
    query = "unread-log"
    seen = watched(tmp_path, "lossy", *python("log_shipper.py"), drive)
    # The file system has given the new log the old one's number, or there was nothing to lose.
    logs = asked(
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
    # The hashes prove it without the positions: no content that it read is the one that was lost.
    [unread] = answer(seen, "unread-content")
    assert (unread["reader"], unread["file_offset"], unread["bytes"]) == ("shipper", 0, 16)
    assert unread["content_hash"] == xxh64((drive / "app.log").read_bytes())

    for name in ("app.log", "positions", "shipped"):
        (drive / name).unlink()
    watched(tmp_path, "fixed", *python("log_shipper.py"), drive, "--fixed")
    assert b"second" in (drive / "shipped").read_bytes()
    for each in (query, "unread-content"):
        assert [row["session"] for row in answer(seen, each)] == ["lossy"]


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
    [fixed] = asked(
        seen,
        f"""select count(*) as calls, sum(result) filter (call = 'writev')::bigint as bytes
        from calls where session = 'fixed' and path = '{drive}/server.log'""",
    )
    assert (fixed["calls"], fixed["bytes"]) == (300 // 25 + 2, 300 * 33)


def test_clients_that_wait_for_compactions_are_found(drive: Path, tmp_path: Path) -> None:
    program = tmp_path / "store"
    source = PROGRAMS / "compacting_store.c"
    subprocess.run(["cc", "-O2", "-Wall", "-pthread", "-o", program, source], check=True)
    seen = watched(tmp_path, "store", program, drive, 12_000)
    pauses = answer(seen, "pauses")
    assert len(pauses) == 5
    # Pauses also occur while all four clients wait for a CPU. Other threads then do less than in a
    # compaction, for whose end clients wait at four files of level 0.
    longest = pauses[0]
    assert "compact" in longest["names"] and longest["syncs"], pauses
    # Its files alone: 256 KiB each, read and written.
    assert longest["kib"] >= 2 * 2 * 256, pauses

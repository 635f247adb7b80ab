# SPDX-License-Identifier: MIT
"""Test that the reads, writes and syncs of io_uring are recorded like system calls."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from running import run
from test_watch_hashes import xxh64

from linnapp.errors import LinnappError
from linnapp.insight import watch as watching
from linnapp.insight.query import query

SOURCE = Path(__file__).parent / "watched_programs" / "ring_requests.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        watching.check_can_watch()
    except LinnappError as error:
        pytest.skip(f"this machine does not allow watching: {error}")
    path = tmp_path_factory.mktemp("program") / "ring_requests"
    subprocess.run(["cc", "-O2", "-Wall", "-o", path, SOURCE, "-luring"], check=True)
    if subprocess.run(
        [path, path.parent / "file"], check=False, stdout=subprocess.DEVNULL
    ).returncode:
        pytest.skip("this machine does not allow io_uring")
    return path


@pytest.mark.parametrize("mode", [(), ("sqpoll",)], ids=["submitted", "polled"])
def test_requests_are_rows_like_system_calls(
    program: Path, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    seen, file, said = tmp_path / "seen", tmp_path / "file", tmp_path / "said"
    with said.open("w") as out:
        status = subprocess.Popen([program, file, *mode], stdout=out).wait()
        assert status == 0
    expected = [line.split() for line in said.read_text().splitlines()]
    file.unlink()
    ran = run("watch", "--hash", "-o", seen, "--", program, file, *mode)
    assert ran.exit_code == 0, (ran.output, ran.exception)
    sql = """select call, coalesce(file_offset, -1), bytes, result, path, content_hash,
        on_cpu_ns is null, starts_with(process, 'iou-sqp') from calls
        where call like 'io_uring_%' and call <> 'io_uring_enter' order by time_ns"""
    found = list(query(seen, sql)[1])
    assert len(found) == len(expected) == 10
    for row, (name, offset, n_bytes, result) in zip(found, expected, strict=True):
        call, file_offset, asked, got, path, content, has_no_parts, is_polled = row
        assert (call, got) == (name, int(result))
        if "sync" in name:
            assert (file_offset, asked) == (-1, None)
        else:
            assert (file_offset, asked) == (int(offset), int(n_bytes))
        assert path == (None if got == -9 else str(file))
        # All contents are of one letter. Those of vectors are not hashed.
        is_hashed = got > 0 and not name.endswith("v")
        assert content == (xxh64(b"x" * got) if is_hashed else None)
        assert has_no_parts and is_polled == bool(mode)


def test_filters_apply_to_requests(program: Path, tmp_path: Path) -> None:
    def calls(name: str, *options: object) -> list[str]:
        seen = tmp_path / name
        ran = run("watch", "-o", seen, *options, "--", program, tmp_path / "file")
        assert ran.exit_code == 0, (ran.output, ran.exception)
        return [call for (call,) in query(seen, "select call from calls order by time_ns")[1]]

    assert calls("one", "--call", "io_uring_fsync") == ["io_uring_fsync"]
    in_path = calls("path", "--path", tmp_path / "file")
    assert in_path.count("io_uring_read") == 2 and "io_uring_enter" not in in_path
    assert not calls("other", "--path", os.devnull)
    assert not calls("thread", "--call", "io_uring_read", "--thread", "nobody")
